//! Links, and the capacities that these share, which concurrent messages share max-min fairly (progressive filling; Bertsekas and Gallager, Data Networks,
//! 6.5.2).
//!
//! Messages on one lane have one route, so they always get the same rate: they are one queue with a virtual clock,
//! `served`, that counts the bytes each of its messages has got; a message that arrives at clock v with w bytes leaves
//! at v + w. A paced tree's edge has a queue of its own on its lane. A change of rates thus touches queues, never
//! messages. Rates change only where the number of messages in a queue did, and only within its component: the queues
//! that are connected with it by links that bind. A link binds when its queues could together take more than it has; a
//! queue that meets no such link has its slowest link for itself. Cost of a change: linear in the component's routes,
//! and a heap operation for each of its queues and links.
//!
//! An overhead occupies a link as long as it lasts: it is counted as bytes at the queue's own capacity. A capacity that
//! links share is one more link behind those of each route over them, as often as the route uses it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::filling::{Filling, Left, QueueId, Settler};
use super::quantities::{Amount, Instant, Rate, Span};
use super::workload::MessageId;
use crate::plan::pipeline::{bandwidth_of, route_latency, seconds_on};
use crate::plan::{LaneRef, LaneRoutes};
use crate::topology::{LinkId, Topology};
use crate::units::{Bandwidth, Seconds};

/// A message in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    /// When it leaves, by the virtual clock.
    clock: Amount,
    message: MessageId,
}

/// The messages on a lane of a job, or on a paced tree's edge.
struct Queue<'a> {
    /// The links over which they go.
    route: &'a [LinkId],
    /// These, and behind them what they share.
    capacities: &'a [LinkId],
    /// The job whose they are.
    job: u16,
    /// Bandwidth of its slowest link, or of its part of what links share, or the limit of its tree's rate.
    capacity: Rate,
    /// Latencies and overheads of the whole route.
    latency: Span,
    largest_overhead: Span,
    is_paced: bool,
    leaving: BinaryHeap<Reverse<Leaving>>,
    /// That of each message.
    rate: Rate,
    /// Virtual clock at `since`.
    served: Amount,
    since: Instant,
    /// Messages when rates were last settled.
    settled: u32,
    touched: bool,
}

/// The state of a link.
#[derive(Default, Clone)]
struct LinkState {
    capacity: Rate,
    /// Queues with messages over it, and the sum of their capacities.
    queues: Vec<QueueId>,
    demand: Rate,
    messages: u32,
    /// The moment since which it is occupied.
    since: Instant,
    occupied: Span,
}

/// All queues and links.
pub(super) struct SharedLinks<'a> {
    topology: &'a Topology,
    /// The routes of each job's lanes.
    routes: &'a [LaneRoutes],
    /// The queue of each job's first lane.
    first_queue: Vec<u32>,
    queues: Vec<Queue<'a>>,
    links: Vec<LinkState>,
    touched: Vec<QueueId>,
    /// Bytes, with overheads, that each queue has taken.
    taken: Vec<Amount>,
    filling: Filling,
}

/// Rates that differ by less are the same: a rounding error should not move every event.
const SAME_RATE: f64 = 1e-12;

impl<'a> SharedLinks<'a> {
    /// Makes links that carry nothing, and the queues of each job's lanes, whose routes are `routes`.
    pub fn new(topology: &'a Topology, routes: &'a [LaneRoutes]) -> Self {
        let link_state =
            |bandwidth: Bandwidth| LinkState { capacity: Rate(bandwidth.bytes_per_second()), ..LinkState::default() };
        let (mut queues, mut first_queue) = (Vec::new(), Vec::new());
        for (job, routes) in (0..).zip(routes) {
            first_queue.push(queues.len() as u32);
            let lanes = (0..routes.count() as u32).map(LaneRef::from_index);
            queues.extend(lanes.map(|lane| Queue::new(topology, routes, lane, job)));
        }
        Self {
            topology,
            routes,
            first_queue,
            links: topology.bandwidths().map(link_state).collect(),
            touched: Vec::new(),
            taken: vec![Amount::ZERO; queues.len()],
            filling: Filling::new(queues.len(), topology.num_capacities()),
            queues,
        }
    }

    /// Counts the queues: one for each lane and direction, and those of paced edges.
    pub fn num_queues(&self) -> usize {
        self.queues.len()
    }

    /// Returns the queue of a job's lane.
    pub fn queue_of(&self, job: usize, lane: LaneRef) -> QueueId {
        QueueId(self.first_queue[job] + lane.index() as u32)
    }

    /// Adds a queue on `lane` of a job for an edge that is never faster than `rate_limit`; returns its number.
    pub fn add_paced(&mut self, job: usize, lane: LaneRef, rate_limit: Rate) -> QueueId {
        let mut queue = Queue::new(self.topology, &self.routes[job], lane, job as u16);
        (queue.capacity, queue.is_paced) = (queue.capacity.min(rate_limit), true);
        self.queues.push(queue);
        self.taken.push(Amount::ZERO);
        self.filling.add_queue();
        QueueId::new(self.queues.len() - 1)
    }

    /// Returns the links that the messages of `queue` take.
    pub fn route(&self, queue: QueueId) -> &'a [LinkId] {
        self.queues[queue].route
    }

    /// Says how long after a message of `bytes` has left `queue` it is received: alone it takes all delays of its route
    /// and the slowest link's time, as in the alpha-beta model.
    pub fn latency(&self, queue: QueueId, bytes: Amount) -> Span {
        let Queue { latency, capacity, .. } = self.queues[queue];
        (latency - (self.work(queue, bytes) - bytes) / capacity).max(Span::ZERO)
    }

    /// Puts a message of `bytes` into `queue` at time `now`.
    pub fn add(&mut self, queue: QueueId, message: MessageId, bytes: Amount, now: Instant) {
        let work = self.work(queue, bytes);
        self.taken[queue] += work;
        self.touch(queue);
        let state = &mut self.queues[queue];
        state.advance(now);
        if state.leaving.is_empty() {
            state.served = Amount::ZERO;
        }
        state.leaving.push(Reverse(Leaving { clock: state.served + work, message }));
    }

    /// Takes the messages out of `queue` that have been served at `now`, one at least, and passes them to `done`.
    pub fn take_served(&mut self, queue: QueueId, now: Instant, done: &mut Vec<MessageId>) {
        self.touch(queue);
        let state = &mut self.queues[queue];
        state.advance(now);
        let Some(Reverse(first)) = state.leaving.peek() else { return };
        state.served = state.served.max(first.clock);
        while let Some(Reverse(Leaving { clock, message })) = state.leaving.peek() {
            if clock.0 > state.served.0 * (1.0 + SAME_RATE) {
                break;
            }
            done.push(*message);
            state.leaving.pop();
        }
    }

    /// Settles the rates after messages came and went at `now`; calls `next` with every queue whose next departure
    /// changed, its job before it, and the time behind it.
    pub fn settle(&mut self, now: Instant, mut next: impl FnMut(usize, QueueId, Instant)) {
        let touched = std::mem::take(&mut self.touched);
        self.filling.begin();
        for &queue in &touched {
            let count = self.queues[queue].leaving.len() as u32;
            if count != self.queues[queue].settled {
                self.recount(queue, count, now);
            }
        }
        self.grow_component();
        self.fill();
        self.touched = touched;
        for at in 0..self.filling.queues.len() {
            let queue = self.filling.queues[at];
            let (state, rate) = (&mut self.queues[queue], self.filling.rate[queue]);
            if (rate - state.rate).0.abs() > SAME_RATE * rate.0 {
                state.advance(now);
                state.rate = rate;
                self.touch(queue);
            }
        }
        for queue in self.touched.drain(..) {
            let state = &mut self.queues[queue];
            state.touched = false;
            if !state.leaving.is_empty() {
                next(state.job.into(), queue, state.departure());
            }
        }
    }

    /// Lists the seconds that each link, and behind the links each shared capacity, was occupied.
    pub fn occupied(&self) -> Vec<Seconds> {
        self.links.iter().map(|link_state| link_state.occupied.into()).collect()
    }

    /// Lists the seconds that each link and each shared capacity would have needed at the full rates of `topology` for what it carried for a
    /// job.
    pub fn carried(&self, job: usize, topology: &Topology) -> Vec<Seconds> {
        let mut carried = vec![Span::ZERO; self.links.len()];
        let of_job = self.queues.iter().zip(&self.taken).filter(|(queue, _)| usize::from(queue.job) == job);
        for (queue, &bytes) in of_job {
            for &link in queue.capacities {
                carried[link] += bytes / Rate(topology.bandwidth(link).bytes_per_second());
            }
        }
        carried.into_iter().map(Seconds::from).collect()
    }

    /// Returns the bytes that occupy the slowest link of `queue` as long as a message of `bytes` with its overhead
    /// occupies any link.
    fn work(&self, queue: QueueId, bytes: Amount) -> Amount {
        let Queue { capacity, largest_overhead, is_paced, .. } = self.queues[queue];
        if is_paced || largest_overhead == Span::ZERO {
            return bytes + capacity * largest_overhead;
        }
        capacity * Span(seconds_on(self.topology, self.queues[queue].capacities, bytes.0))
    }

    /// Marks a queue whose next departure may change.
    fn touch(&mut self, queue: QueueId) {
        if !std::mem::replace(&mut self.queues[queue].touched, true) {
            self.touched.push(queue);
        }
    }

    /// Brings the links of `queue`, which now has `count` messages, up to date and makes it and what it shares links
    /// with seeds of the component.
    fn recount(&mut self, queue: QueueId, count: u32, now: Instant) {
        let state = &mut self.queues[queue];
        let capacities = state.capacities;
        let before = std::mem::replace(&mut state.settled, count);
        for &link in capacities {
            let link_state = &mut self.links[link];
            let bound = link_state.binds();
            match (before, count) {
                (0, _) => link_state.join(queue, state.capacity, now),
                (_, 0) => link_state.leave(queue, state.capacity, now),
                _ => {}
            }
            link_state.messages = link_state.messages + count - before;
            if bound || link_state.binds() {
                self.filling.find_link(link);
            }
        }
        if count > 0 {
            self.filling.find_queue(queue);
        }
    }

    /// Finds every queue and link that is connected with the seeds by links that bind.
    fn grow_component(&mut self) {
        let filling = &mut self.filling;
        let (mut queue, mut link) = (0, 0);
        while queue < filling.queues.len() || link < filling.links.len() {
            if let Some(&next) = filling.links.get(link) {
                link += 1;
                self.links[next].queues.iter().for_each(|&queue| filling.find_queue(queue));
            } else {
                let next = filling.queues[queue];
                queue += 1;
                let binding = self.queues[next].capacities.iter().filter(|&&link| self.links[link].binds());
                binding.for_each(|&link| filling.find_link(link));
            }
        }
    }

    /// Fills progressively: the link with the least share for each of its messages settles them, or a queue's own
    /// slowest link settles it, again and again.
    fn fill(&mut self) {
        let own_share = |queue: QueueId| {
            let Queue { capacity, settled, .. } = self.queues[queue];
            capacity / settled
        };
        let filling = &mut self.filling;
        if filling.links.is_empty() {
            filling.queues.iter().for_each(|&queue| filling.rate[queue] = own_share(queue));
            return;
        }
        filling.queues.iter().for_each(|&queue| filling.rate[queue] = Rate::ZERO);
        for &link in &filling.links {
            let link_state = &self.links[link];
            filling.left[link] = Left { capacity: link_state.capacity, messages: link_state.messages };
        }
        filling.collect_shares(own_share);
        let (mut unsettled, mut level) = (filling.queues.len(), Rate::ZERO);
        while unsettled > 0 {
            let Reverse((share, settler)) = filling.heap.pop().expect("every queue has a share of its own");
            let queues = match settler {
                Settler::Queue(ref queue) => std::slice::from_ref(queue),
                Settler::Link(link) => match filling.share(link) {
                    None => continue,
                    // Shares only rise while others settle for less: a stale one goes back with its present value.
                    Some(now) if now > share * (1.0 + SAME_RATE) => {
                        filling.heap.push(Reverse((now, settler)));
                        continue;
                    }
                    Some(_) => &self.links[link].queues[..],
                },
            };
            level = level.max(share);
            for &queue in queues {
                if filling.rate[queue] == Rate::ZERO {
                    filling.rate[queue] = level;
                    unsettled -= 1;
                    let Queue { capacities, settled: messages, .. } = self.queues[queue];
                    capacities.iter().for_each(|&link| filling.use_up(link, level, messages));
                }
            }
        }
    }
}

impl LinkState {
    /// Says whether its queues could take more than it has. Rounding apart, a queue alone never can.
    fn binds(&self) -> bool {
        self.demand > self.capacity * (1.0 + 1e-9)
    }

    /// Adds a queue that has messages now.
    fn join(&mut self, queue: QueueId, capacity: Rate, now: Instant) {
        if self.queues.is_empty() {
            (self.since, self.demand) = (now, Rate::ZERO);
        }
        self.queues.push(queue);
        self.demand += capacity;
    }

    /// Takes out a queue that has no messages any more.
    fn leave(&mut self, queue: QueueId, capacity: Rate, now: Instant) {
        let was_there = self.queues.contains(&queue);
        self.queues.retain(|&other| other != queue);
        self.demand -= capacity;
        if was_there && self.queues.is_empty() {
            self.demand = Rate::ZERO;
            self.occupied += now - self.since;
        }
    }
}

impl<'a> Queue<'a> {
    fn new(topology: &Topology, routes: &'a LaneRoutes, lane: LaneRef, job: u16) -> Self {
        let (route, capacities) = (routes.of(lane), routes.capacities(lane));
        Self {
            route,
            capacities,
            job,
            capacity: Rate(bandwidth_of(topology, capacities)),
            latency: Span(route_latency(topology, route)),
            largest_overhead: Span(
                route.iter().map(|&link| topology.link(link).overhead.seconds()).fold(0.0, f64::max),
            ),
            is_paced: false,
            leaving: BinaryHeap::new(),
            rate: Rate::ZERO,
            served: Amount::ZERO,
            since: Instant::ZERO,
            settled: 0,
            touched: false,
        }
    }

    /// Moves the virtual clock on to `now`.
    fn advance(&mut self, now: Instant) {
        self.served += self.rate * (now - self.since);
        self.since = now;
    }

    /// Says when the next message leaves, as things are.
    fn departure(&self) -> Instant {
        let Reverse(Leaving { clock, .. }) = self.leaving.peek().expect("a queue with messages");
        self.since + (*clock - self.served).max(Amount::ZERO) / self.rate
    }
}

//! Links that concurrent messages share max-min fairly (progressive filling; Bertsekas and Gallager, Data Networks,
//! 6.5.2).
//!
//! Messages on one lane have one route, so they always get the same rate: a lane is served like one queue with a
//! virtual clock, `served`, that counts the bytes each of its messages has got; a message that arrives at clock v with
//! w bytes leaves at v + w. A change of rates thus touches lanes, never messages. Rates change only where the number of
//! messages on a lane did, and only within its component: the lanes that are connected with it by links that bind. A
//! link binds when its lanes could together take more than it has; a lane that meets no such link has its slowest link
//! for itself. Cost of a change: linear in the component's routes, and a heap operation for each of its lanes and
//! links.
//!
//! An overhead occupies a link as long as it lasts: it is counted as bytes at the lane's own capacity.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::filling::{Filling, Left, Settler};
use super::time::Instant;
use super::workload::MessageId;
use crate::plan::pipeline::route_latency;
use crate::plan::{LaneRef, LaneRoutes};
use crate::topology::{LinkId, Topology};

/// A message on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    /// When it leaves, by the virtual clock.
    clock: Instant,
    message: MessageId,
}

/// The state of a lane.
struct Lane {
    /// Which one; a paced tree's edge has a queue of its own on its lane.
    lane: LaneRef,
    /// Bandwidth of its slowest link, or its tree's pace.
    capacity: f64,
    /// Latencies and overheads of the whole route.
    latency: f64,
    largest_overhead: f64,
    is_paced: bool,
    leaving: BinaryHeap<Reverse<Leaving>>,
    /// Bytes a second of each message.
    rate: f64,
    /// Virtual clock, in bytes, at time `since`.
    served: f64,
    since: f64,
    /// Messages when rates were last settled.
    settled: u32,
    touched: bool,
}

/// The state of a link.
#[derive(Default, Clone)]
struct LinkState {
    capacity: f64,
    /// Lanes with messages over it, and the sum of their capacities.
    lanes: Vec<u32>,
    demand: f64,
    messages: u32,
    /// Since when it is occupied.
    since: f64,
    occupied: f64,
}

/// All lanes and links.
pub(super) struct SharedLinks<'a> {
    routes: &'a LaneRoutes,
    topology: &'a Topology,
    lanes: Vec<Lane>,
    links: Vec<LinkState>,
    touched: Vec<u32>,
    /// Bytes, with overheads, that each lane has taken.
    taken: Vec<f64>,
    filling: Filling,
}

/// Rates that differ by less are the same: a rounding error should not move every event.
const SAME_RATE: f64 = 1e-12;

impl<'a> SharedLinks<'a> {
    /// Makes links that carry nothing, and the queues of so many lanes.
    pub fn new(topology: &'a Topology, routes: &'a LaneRoutes, lanes: usize) -> Self {
        let links = topology.links();
        let link_state = |link: &crate::topology::Link| LinkState {
            capacity: link.bandwidth.bytes_per_second(),
            ..LinkState::default()
        };
        Self {
            routes,
            topology,
            lanes: (0..lanes as u32).map(|lane| Lane::new(topology, routes, LaneRef::from_index(lane))).collect(),
            links: links.iter().map(link_state).collect(),
            touched: Vec::new(),
            taken: vec![0.0; lanes],
            filling: Filling::new(lanes, links.len()),
        }
    }

    /// Counts the lanes, each direction by itself.
    pub fn num_lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Adds a queue on `lane` for an edge that is never faster than `pace` bytes a second; returns its number.
    pub fn add_paced(&mut self, lane: LaneRef, pace: f64) -> u32 {
        let mut queue = Lane::new(self.topology, self.routes, lane);
        (queue.capacity, queue.is_paced) = (queue.capacity.min(pace), true);
        self.lanes.push(queue);
        self.taken.push(0.0);
        self.filling.add_lane();
        self.lanes.len() as u32 - 1
    }

    /// Returns the links that `lane` takes.
    fn route(&self, lane: u32) -> &'a [LinkId] {
        self.routes.of(self.lanes[lane as usize].lane)
    }

    /// Returns the link by which `lane` leaves its source.
    pub fn port(&self, lane: LaneRef) -> LinkId {
        self.routes.of(lane)[0]
    }

    /// Says how long after a message of `bytes` has left `lane` it is received: alone it takes all delays of its route
    /// and the slowest link's time, as in the alpha-beta model.
    pub fn latency(&self, lane: u32, bytes: f64) -> f64 {
        let Lane { latency, capacity, .. } = self.lanes[lane as usize];
        (latency - (self.work(lane, bytes) - bytes) / capacity).max(0.0)
    }

    /// Puts a message of `bytes` on `lane` at time `now`.
    pub fn add(&mut self, lane: u32, message: MessageId, bytes: f64, now: f64) {
        let work = self.work(lane, bytes);
        self.taken[lane as usize] += work;
        self.touch(lane);
        let state = &mut self.lanes[lane as usize];
        state.advance(now);
        if state.leaving.is_empty() {
            state.served = 0.0;
        }
        state.leaving.push(Reverse(Leaving { clock: Instant(state.served + work), message }));
    }

    /// Takes off the messages of `lane` that have been served at `now`, one at least, and passes them to `done`.
    pub fn take_served(&mut self, lane: u32, now: f64, done: &mut Vec<MessageId>) {
        self.touch(lane);
        let state = &mut self.lanes[lane as usize];
        state.advance(now);
        let Some(Reverse(first)) = state.leaving.peek() else { return };
        state.served = state.served.max(first.clock.0);
        while let Some(Reverse(Leaving { clock, message })) = state.leaving.peek() {
            if clock.0 > state.served * (1.0 + SAME_RATE) {
                break;
            }
            done.push(*message);
            state.leaving.pop();
        }
    }

    /// Settles the rates after messages came and went at `now`; calls `next` with every lane whose next departure
    /// changed, and its time.
    pub fn settle(&mut self, now: f64, mut next: impl FnMut(u32, f64)) {
        let touched = std::mem::take(&mut self.touched);
        self.filling.begin();
        for &lane in &touched {
            let count = self.lanes[lane as usize].leaving.len() as u32;
            if count != self.lanes[lane as usize].settled {
                self.recount(lane, count, now);
            }
        }
        self.grow_component();
        self.fill();
        self.touched = touched;
        for at in 0..self.filling.lanes.len() {
            let lane = self.filling.lanes[at];
            let (state, rate) = (&mut self.lanes[lane as usize], self.filling.rate[lane as usize]);
            if (rate - state.rate).abs() > SAME_RATE * rate {
                state.advance(now);
                state.rate = rate;
                self.touch(lane);
            }
        }
        for lane in self.touched.drain(..) {
            let state = &mut self.lanes[lane as usize];
            state.touched = false;
            if !state.leaving.is_empty() {
                next(lane, state.departure());
            }
        }
    }

    /// Lists the seconds that each link was occupied, and those that it would have needed at its full rate for what it
    /// carried.
    pub fn busy(&self) -> (Vec<f64>, Vec<f64>) {
        let mut carried = vec![0.0; self.links.len()];
        for (lane, &bytes) in (0..).zip(&self.taken) {
            for &link in self.route(lane) {
                carried[link] += bytes / self.links[link].capacity;
            }
        }
        (self.links.iter().map(|link_state| link_state.occupied).collect(), carried)
    }

    /// Returns the bytes that occupy the slowest link of `lane` as long as a message of `bytes` with its overhead
    /// occupies any link.
    fn work(&self, lane: u32, bytes: f64) -> f64 {
        let Lane { capacity, largest_overhead, is_paced, .. } = self.lanes[lane as usize];
        if is_paced || largest_overhead == 0.0 {
            return bytes + largest_overhead * capacity;
        }
        let links = self.route(lane).iter().map(|&link| self.topology.link(link));
        let seconds = links.map(|link| link.overhead.seconds() + link.bandwidth.seconds_for(bytes));
        seconds.fold(0.0, f64::max) * capacity
    }

    /// Marks a lane whose next departure may change.
    fn touch(&mut self, lane: u32) {
        if !std::mem::replace(&mut self.lanes[lane as usize].touched, true) {
            self.touched.push(lane);
        }
    }

    /// Brings the links of `lane`, which now has `count` messages, up to date and makes it and what it shares links
    /// with seeds of the component.
    fn recount(&mut self, lane: u32, count: u32, now: f64) {
        let route = self.route(lane);
        let state = &mut self.lanes[lane as usize];
        let before = std::mem::replace(&mut state.settled, count);
        for &link in route {
            let link_state = &mut self.links[link];
            let bound = link_state.binds();
            match (before, count) {
                (0, _) => link_state.join(lane, state.capacity, now),
                (_, 0) => link_state.leave(lane, state.capacity, now),
                _ => {}
            }
            link_state.messages = link_state.messages + count - before;
            if bound || link_state.binds() {
                self.filling.find_link(link);
            }
        }
        if count > 0 {
            self.filling.find_lane(lane);
        }
    }

    /// Finds every lane and link that is connected with the seeds by links that bind.
    fn grow_component(&mut self) {
        let filling = &mut self.filling;
        let (mut lane, mut link) = (0, 0);
        while lane < filling.lanes.len() || link < filling.links.len() {
            if let Some(&next) = filling.links.get(link) {
                link += 1;
                self.links[next].lanes.iter().for_each(|&lane| filling.find_lane(lane));
            } else {
                let next = filling.lanes[lane];
                lane += 1;
                let route = self.routes.of(self.lanes[next as usize].lane);
                let binding = route.iter().filter(|&&link| self.links[link].binds());
                binding.for_each(|&link| filling.find_link(link));
            }
        }
    }

    /// Fills progressively: the link with the least share for each of its messages settles them, or a lane's own
    /// slowest link settles it, again and again.
    fn fill(&mut self) {
        let own_share = |lane: u32| {
            let Lane { capacity, settled, .. } = self.lanes[lane as usize];
            capacity / f64::from(settled)
        };
        let filling = &mut self.filling;
        if filling.links.is_empty() {
            filling.lanes.iter().for_each(|&lane| filling.rate[lane as usize] = own_share(lane));
            return;
        }
        filling.lanes.iter().for_each(|&lane| filling.rate[lane as usize] = 0.0);
        for &link in &filling.links {
            let link_state = &self.links[link];
            filling.left[link] = Left { capacity: link_state.capacity, messages: link_state.messages };
        }
        filling.collect_shares(own_share);
        let (mut unsettled, mut level) = (filling.lanes.len(), 0.0f64);
        while unsettled > 0 {
            let Reverse((share, settler)) = filling.heap.pop().expect("every lane has a share of its own");
            let lanes = match settler {
                Settler::Lane(ref lane) => std::slice::from_ref(lane),
                Settler::Link(link) => match filling.share(link) {
                    None => continue,
                    // Shares only rise while others settle for less: a stale one goes back with its present value.
                    Some(now) if now.0 > share.0 * (1.0 + SAME_RATE) => {
                        filling.heap.push(Reverse((now, settler)));
                        continue;
                    }
                    Some(_) => &self.links[link].lanes[..],
                },
            };
            level = level.max(share.0);
            for &lane in lanes {
                if filling.rate[lane as usize] == 0.0 {
                    filling.rate[lane as usize] = level;
                    unsettled -= 1;
                    let messages = self.lanes[lane as usize].settled;
                    let route = self.routes.of(self.lanes[lane as usize].lane);
                    route.iter().for_each(|&link| filling.use_up(link, level, messages));
                }
            }
        }
    }
}

impl LinkState {
    /// Says whether its lanes could take more than it has. Rounding apart, a lane alone never can.
    fn binds(&self) -> bool {
        self.demand > self.capacity * (1.0 + 1e-9)
    }

    /// Adds a lane that has messages now.
    fn join(&mut self, lane: u32, capacity: f64, now: f64) {
        if self.lanes.is_empty() {
            (self.since, self.demand) = (now, 0.0);
        }
        self.lanes.push(lane);
        self.demand += capacity;
    }

    /// Takes out a lane that has no messages any more.
    fn leave(&mut self, lane: u32, capacity: f64, now: f64) {
        self.lanes.retain(|&other| other != lane);
        self.demand -= capacity;
        if self.lanes.is_empty() {
            self.demand = 0.0;
            self.occupied += now - self.since;
        }
    }
}

impl Lane {
    fn new(topology: &Topology, routes: &LaneRoutes, lane: LaneRef) -> Self {
        let route = routes.of(lane);
        Self {
            lane,
            capacity: route
                .iter()
                .map(|&link| topology.link(link).bandwidth.bytes_per_second())
                .fold(f64::INFINITY, f64::min),
            latency: route_latency(topology, route),
            largest_overhead: route.iter().map(|&link| topology.link(link).overhead.seconds()).fold(0.0, f64::max),
            is_paced: false,
            leaving: BinaryHeap::new(),
            rate: 0.0,
            served: 0.0,
            since: 0.0,
            settled: 0,
            touched: false,
        }
    }

    /// Moves the virtual clock on to `now`.
    fn advance(&mut self, now: f64) {
        self.served += self.rate * (now - self.since);
        self.since = now;
    }

    /// Says when the next message leaves, as things are.
    fn departure(&self) -> f64 {
        let Reverse(Leaving { clock, .. }) = self.leaving.peek().expect("a lane with messages");
        self.since + (clock.0 - self.served).max(0.0) / self.rate
    }
}

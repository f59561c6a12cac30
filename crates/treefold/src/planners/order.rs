//! The order in which links send messages (list scheduling; Graham 1966).
//!
//! A message occupies all links of its route, and a link serves one message at a time. When it is idle, it begins with
//! the waiting message whose data have farthest to go from there, if the other links of its route are idle, too. Steps
//! say the same without times: a message has a later step than those that bring its data, and than the one before it
//! on each of its links. What links share serves one message after the other, too, but each only for as long as it
//! needs itself. Cost: O(m log m) for m messages, some dozen times as much where routes have several links.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::plan::pipeline::{occupy, seconds_behind, seconds_on};
use crate::plan::schedule::Csr;
use crate::plan::{MAX_STEPS, Step};
use crate::topology::{LinkId, Topology};

/// So many messages at an idle link are tried; those that find other links of their routes occupied wait there.
const TRIES: u32 = 32;

/// Whether messages run as they are listed, or the other way afterwards, from the last one to the first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Runs {
    Forwards,
    /// A message's latency comes first here, because it comes last when the message runs.
    Backwards,
}

/// A message that is to be put in order.
pub(super) struct Message<'a> {
    /// The links of its route, and behind them what these share.
    capacities: &'a [LinkId],
    /// How many of these are links.
    hops: usize,
    bytes: f64,
    /// The seconds from when its data are there until it occupies the links of its route, those for which it occupies
    /// them, and those from then until it is received.
    before: f64,
    busy: f64,
    behind: f64,
    /// The seconds from when it occupies links until its data are everywhere behind.
    to_go: f64,
}

impl<'a> Message<'a> {
    /// Returns a message of so many bytes that occupies these links, and behind them what they share.
    pub fn new(topology: &Topology, capacities: &'a [LinkId], bytes: f64, runs: Runs) -> Self {
        let busy = seconds_on(topology, capacities, bytes);
        let latency = seconds_behind(topology, capacities, bytes, busy);
        let (before, behind) = if runs == Runs::Forwards { (0.0, latency) } else { (latency, 0.0) };
        let hops = capacities.partition_point(|&id| topology.as_shared(id).is_none());
        Self { capacities, hops, bytes, before, busy, behind, to_go: behind + busy }
    }

    /// Returns the seconds for which it occupies a link of its route, or each time what links share.
    fn occupies(&self, topology: &Topology, id: LinkId) -> f64 {
        topology.as_shared(id).map_or(self.busy, |shared| shared.bandwidth.seconds_for(self.bytes).get())
    }

    fn route(&self) -> &'a [LinkId] {
        &self.capacities[..self.hops]
    }
}

/// Puts messages in order; each has a row in `after`, the numbers of the messages that bring its data, all of which
/// stand before it. Returns their steps, and the seconds until the last one has arrived; or `None` if that takes more
/// steps than a plan may have, or more seconds than `most`.
pub(super) fn in_order(
    topology: &Topology,
    mut messages: Vec<Message>,
    after: &Csr<u32>,
    most: f64,
) -> Option<(Vec<Step>, f64)> {
    let mut following: Vec<Vec<usize>> = vec![Vec::new(); messages.len()];
    for number in (0..messages.len()).rev() {
        let to_go = messages[number].before + messages[number].to_go;
        for before in after.row(number).iter().map(|&before| before as usize) {
            let Message { behind, busy, to_go: farthest, .. } = &mut messages[before];
            *farthest = farthest.max(*behind + *busy + to_go);
            following[before].push(number);
        }
    }
    following.iter_mut().for_each(|row| row.reverse());
    let awaited = after.rows().map(|row| row.len() as u32).collect();
    let (order, seconds) = Service::new(topology, &messages, &following, awaited).run(most)?;
    Some((steps(topology, &messages, after, &order)?, seconds))
}

/// Returns the step of each message when they start in this order; `None` if there are more than a plan may have.
fn steps(topology: &Topology, messages: &[Message], after: &Csr<u32>, order: &[usize]) -> Option<Vec<Step>> {
    let mut last = vec![0u16; topology.links().len()];
    let mut steps = vec![0u16; messages.len()];
    for &number in order {
        let before = after.row(number).iter().map(|&before| steps[before as usize]).max().unwrap_or(0);
        let before = messages[number].route().iter().map(|&link| last[link]).fold(before, u16::max);
        if before >= MAX_STEPS / 2 {
            return None;
        }
        steps[number] = before + 1;
        messages[number].route().iter().for_each(|&link| last[link] = before + 1);
    }
    Some(steps.into_iter().map(|step| Step::new(step).expect("steps count from 1")).collect())
}

/// The messages on their way. One that is ready waits at a link of its route: at one that is occupied, if any is.
struct Service<'a, 'b> {
    topology: &'b Topology,
    messages: &'b [Message<'a>],
    following: &'b [Vec<usize>],
    /// How many messages that bring its data each message still awaits, and when the last of them so far arrives.
    awaited: Vec<u32>,
    arrival: Vec<f64>,
    /// The messages that wait at each link, by how long they have to go.
    waiting: Vec<BinaryHeap<Waiting>>,
    free_at: Vec<f64>,
    /// The seconds for which the messages that have not started will occupy each link.
    ahead: Vec<f64>,
    /// The end comes no earlier than this, by the messages that have started; when all have, it is the end.
    end: f64,
    /// What happens at a time, whose bits are ordered as the times are: messages get ready, and links get free.
    calendar: BTreeMap<u64, (Vec<usize>, Vec<LinkId>)>,
}

/// The bits of the seconds that a message has to go, which are ordered as these are, and the message.
type Waiting = (u64, Reverse<usize>);

impl<'a, 'b> Service<'a, 'b> {
    fn new(
        topology: &'b Topology,
        messages: &'b [Message<'a>],
        following: &'b [Vec<usize>],
        awaited: Vec<u32>,
    ) -> Self {
        let capacities = topology.num_capacities();
        let first: Vec<usize> = (0..messages.len()).filter(|&number| awaited[number] == 0).collect();
        let mut ahead = vec![0.0; capacities];
        for message in messages {
            message.capacities.iter().for_each(|&id| ahead[id] += message.occupies(topology, id));
        }
        let (waiting, free_at) = (vec![BinaryHeap::new(); capacities], vec![0.0; capacities]);
        let (calendar, arrival) = (BTreeMap::new(), vec![0.0; messages.len()]);
        let mut service =
            Self { topology, messages, following, awaited, arrival, waiting, free_at, ahead, end: 0.0, calendar };
        first.into_iter().for_each(|number| service.data_are_there(number, 0.0));
        service
    }

    /// Notes when a message whose data are there at `time` may occupy links.
    fn data_are_there(&mut self, number: usize, time: f64) {
        let ready = time + self.messages[number].before;
        self.calendar.entry(ready.to_bits()).or_default().0.push(number);
    }

    /// Starts all messages; returns them in the order of their starts, and when the last one has arrived. Returns
    /// `None` as soon as that will be after `most` seconds.
    fn run(mut self, most: f64) -> Option<(Vec<usize>, f64)> {
        let mut order = Vec::with_capacity(self.messages.len());
        while let Some((bits, (ready, mut links))) = self.calendar.pop_first() {
            for number in ready {
                let link = self.messages[number].capacities[0];
                self.wait(number, link);
                links.push(link);
            }
            self.start_at(f64::from_bits(bits), links, &mut order);
            if self.end > most {
                return None;
            }
        }
        Some((order, self.end))
    }

    fn wait(&mut self, number: usize, link: LinkId) {
        self.waiting[link].push((self.messages[number].to_go.to_bits(), Reverse(number)));
    }

    /// Starts those messages at these links that find all links of their routes free, those that have farthest to go
    /// first.
    fn start_at(&mut self, now: f64, mut links: Vec<LinkId>, order: &mut Vec<usize>) {
        links.sort_unstable();
        links.dedup();
        let top = |waiting: &[BinaryHeap<Waiting>], link: LinkId, tries: u32| {
            waiting[link].peek().filter(|_| tries > 0).map(|&first| (first, link, tries))
        };
        let mut first: BinaryHeap<(Waiting, LinkId, u32)> =
            links.iter().filter_map(|&link| top(&self.waiting, link, TRIES)).collect();
        while let Some((_, link, tries)) = first.pop() {
            if self.free_at[link] > now {
                continue;
            }
            let Some((_, Reverse(number))) = self.waiting[link].pop() else { continue };
            let capacities = self.messages[number].capacities;
            match capacities.iter().find(|&&other| self.free_at[other] > now) {
                Some(&occupied) => self.wait(number, occupied),
                None => {
                    self.start(number, now);
                    order.push(number);
                }
            }
            first.extend(top(&self.waiting, link, tries - 1));
        }
    }

    fn start(&mut self, number: usize, now: f64) {
        let Message { capacities, bytes, busy, behind, to_go, .. } = self.messages[number];
        self.end = self.end.max(now + to_go);
        occupy(self.topology, capacities, bytes, (now, busy), &mut self.free_at);
        for &id in capacities {
            self.end = self.end.max(now + self.ahead[id]);
            self.ahead[id] -= self.messages[number].occupies(self.topology, id);
        }
        let (route, shared) = capacities.split_at(self.messages[number].hops);
        self.calendar.entry((now + busy).to_bits()).or_default().1.extend(route);
        for &id in shared {
            self.calendar.entry(self.free_at[id].to_bits()).or_default().1.push(id);
        }
        let following = self.following;
        for &next in &following[number] {
            self.awaited[next] -= 1;
            self.arrival[next] = self.arrival[next].max(now + (behind + busy));
            if self.awaited[next] == 0 {
                self.data_are_there(next, self.arrival[next]);
            }
        }
    }
}

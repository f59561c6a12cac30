//! The order in which links send the parts of trees (list scheduling; Graham 1966).
//!
//! A message occupies all links of its route, and a link serves one message at a time. When it is idle, it begins with
//! the waiting message whose data have farthest to go from there, if the other links of its route are idle, too. Steps
//! say the same without times: a message has a later step than the one that brings its data, and than the one before it
//! on each of its links. Cost: O(m log m) for m messages, some dozen times as much where routes have several links.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::blocks::{Blocks, share};
use crate::plan::pipeline::{seconds_behind, seconds_on};
use crate::plan::{MAX_STEPS, Step};
use crate::planners::spanning::Route;
use crate::topology::{LinkId, NodeId, Topology};

/// So many messages at an idle link are tried; those that find other links of their routes occupied wait there.
const TRIES: u32 = 32;

/// The messages of a tree in order.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    /// The step of each message of each tree.
    pub steps: Vec<Vec<Step>>,
    /// The seconds until the last message has arrived.
    pub seconds: f64,
}

impl Ordered {
    /// Returns the last step.
    pub fn last(&self) -> u16 {
        self.steps.iter().flatten().map(|step| step.get()).max().unwrap_or(0)
    }
}

/// A message: an edge of a tree.
#[derive(Default)]
struct Message<'a> {
    route: &'a [LinkId],
    /// The message that brings its data.
    after: Option<usize>,
    /// How many shares it carries.
    shares: u64,
    /// The seconds from when its data are there until it occupies the links of its route, those for which it occupies
    /// them, and those from then until it is received.
    before: f64,
    busy: f64,
    behind: f64,
    /// The seconds from when it occupies links until its data are everywhere below.
    to_go: f64,
    step: u16,
}

/// What the edges of a tree carry.
#[derive(Clone, Copy)]
pub(super) enum Carried<'a> {
    /// Every edge carries the same.
    Same,
    /// An edge carries the blocks for all ranks below it, which are equal unless they are given.
    Blocks(Option<&'a Blocks>),
}

impl Carried<'_> {
    /// Returns how many shares go over an edge into a rank for that rank alone.
    fn own(self, root: NodeId, rank: NodeId) -> u64 {
        match self {
            Self::Same => 1,
            Self::Blocks(blocks) => share(blocks, root, rank),
        }
    }
}

/// Whether messages run as their trees do, or the other way afterwards, from the last one to the first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Runs {
    Forwards,
    /// A message's latency comes first here, because it comes last when the message runs.
    Backwards,
}

/// Orders the messages of trees, whose routes stand breadth-first; each edge of a tree carries so many bytes, or as
/// many for each share of the ranks below it. Returns `None` if that takes more steps than a plan may have, or more
/// seconds than `most`.
pub(super) fn ordered(
    topology: &Topology,
    trees: &[(&[Route], f64)],
    carried: Carried,
    runs: Runs,
    most: f64,
) -> Option<Ordered> {
    let mut messages = messages_of(topology, trees, carried, runs);
    let mut following: Vec<Vec<usize>> = vec![Vec::new(); messages.len()];
    for (number, message) in messages.iter().enumerate() {
        if let Some(before) = message.after {
            following[before].push(number);
        }
    }
    let (order, seconds) = Service::new(topology, &messages, &following).run(most)?;
    let mut last = vec![0u16; topology.links().len()];
    for number in order {
        let Message { route, after, .. } = messages[number];
        let before = after.map_or(0, |before| messages[before].step);
        let before = route.iter().map(|&link| last[link]).fold(before, u16::max);
        if before >= MAX_STEPS / 2 {
            return None;
        }
        messages[number].step = before + 1;
        route.iter().for_each(|&link| last[link] = before + 1);
    }
    let mut rest = messages.iter().map(|message| Step::new(message.step).expect("steps count from 1"));
    let steps = trees.iter().map(|(routes, _)| rest.by_ref().take(routes.len()).collect()).collect();
    Some(Ordered { steps, seconds })
}

fn messages_of<'a>(
    topology: &Topology,
    trees: &[(&'a [Route], f64)],
    carried: Carried,
    runs: Runs,
) -> Vec<Message<'a>> {
    let mut messages: Vec<Message> = Vec::with_capacity(trees.iter().map(|(routes, _)| routes.len()).sum());
    let adds_up = matches!(carried, Carried::Blocks(_));
    let mut into = vec![None; topology.nodes().len()];
    for &(routes, bytes) in trees {
        into.fill(None);
        let first = messages.len();
        let source_of = |route: &Route| topology.link(route[0]).source;
        let root = routes.first().map(source_of);
        for route in routes {
            let (source, target) = (source_of(route), topology.link(route[route.len() - 1]).target);
            let (after, shares) = (into[source], root.map_or(0, |root| carried.own(root, target)));
            into[target] = Some(messages.len());
            messages.push(Message { route, after, shares, ..Message::default() });
        }
        for number in (first..messages.len()).rev() {
            let message = &mut messages[number];
            let bytes = bytes * message.shares as f64;
            message.busy = seconds_on(topology, message.route, bytes);
            let latency = seconds_behind(topology, message.route, bytes, message.busy);
            (message.before, message.behind) = if runs == Runs::Forwards { (0.0, latency) } else { (latency, 0.0) };
            message.to_go += message.behind + message.busy;
            let (to_go, shares) = (message.before + message.to_go, message.shares);
            if let Some(before) = message.after {
                messages[before].to_go = messages[before].to_go.max(to_go);
                messages[before].shares += shares * u64::from(adds_up);
            }
        }
    }
    messages
}

/// The messages on their way. One that is ready waits at a link of its route: at one that is occupied, if any is.
struct Service<'a, 'b> {
    messages: &'b [Message<'a>],
    following: &'b [Vec<usize>],
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
    fn new(topology: &Topology, messages: &'b [Message<'a>], following: &'b [Vec<usize>]) -> Self {
        let links = topology.links().len();
        let roots: Vec<usize> = (0..messages.len()).filter(|&number| messages[number].after.is_none()).collect();
        let mut ahead = vec![0.0; links];
        for message in messages {
            message.route.iter().for_each(|&link| ahead[link] += message.busy);
        }
        let (waiting, free_at) = (vec![BinaryHeap::new(); links], vec![0.0; links]);
        let calendar = BTreeMap::new();
        let mut service = Self { messages, following, waiting, free_at, ahead, end: 0.0, calendar };
        service.data_arrive(&roots, 0.0);
        service
    }

    /// Notes when messages whose data arrive now may occupy links.
    fn data_arrive(&mut self, messages: &[usize], now: f64) {
        for &number in messages {
            let ready = now + self.messages[number].before;
            self.calendar.entry(ready.to_bits()).or_default().0.push(number);
        }
    }

    /// Starts all messages; returns them in the order of their starts, and when the last one has arrived. Returns
    /// `None` as soon as that will be after `most` seconds.
    fn run(mut self, most: f64) -> Option<(Vec<usize>, f64)> {
        let mut order = Vec::with_capacity(self.messages.len());
        while let Some((bits, (ready, mut links))) = self.calendar.pop_first() {
            for number in ready {
                let link = self.messages[number].route[0];
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
            let route = self.messages[number].route;
            match route.iter().find(|&&other| self.free_at[other] > now) {
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
        let Message { route, busy, behind, to_go, .. } = self.messages[number];
        let free = now + busy;
        self.end = self.end.max(now + to_go);
        for &link in route {
            self.end = self.end.max(now + self.ahead[link]);
            self.ahead[link] -= busy;
            self.free_at[link] = free;
        }
        self.calendar.entry(free.to_bits()).or_default().1.extend(route);
        let following = self.following;
        self.data_arrive(&following[number], now + (behind + busy));
    }
}

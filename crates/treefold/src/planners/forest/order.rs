//! The order in which links send the parts of trees (list scheduling; Graham 1966).
//!
//! A link sends one message at a time. When it is idle, it begins with the waiting message whose data have farthest to
//! go from there. Steps say the same without times: a message has a later step than the one that brings its data, and
//! than the one before it on the same link. Cost: O(m log m) for m messages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::blocks::{Blocks, share};
use crate::plan::{MAX_STEPS, Step};
use crate::planners::spanning::Route;
use crate::topology::{LinkId, NodeId, Topology};

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
struct Message {
    link: LinkId,
    /// The message that brings its data.
    after: Option<usize>,
    /// The bytes of each share, and how many there are.
    bytes: f64,
    shares: u64,
    /// The seconds from its start until its data are everywhere below.
    to_go: f64,
    start: f64,
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

/// Orders the messages of trees, whose routes are single links, breadth-first; each edge of a tree carries so many
/// bytes, or as many for each share of the ranks below it. Returns `None` if that takes more steps than a plan may have.
pub(super) fn ordered(topology: &Topology, trees: &[(&[Route], f64)], carried: Carried) -> Option<Ordered> {
    let mut messages = messages_of(topology, trees, carried);
    let mut following: Vec<Vec<usize>> = vec![Vec::new(); messages.len()];
    for (number, message) in messages.iter().enumerate() {
        if let Some(before) = message.after {
            following[before].push(number);
        }
    }
    let (order, seconds) = served(topology, &mut messages, &following);
    let mut last = vec![0u16; topology.links().len()];
    for number in order {
        let Message { link, after, .. } = messages[number];
        let before = after.map_or(0, |before| messages[before].step).max(last[link]);
        if before >= MAX_STEPS / 2 {
            return None;
        }
        messages[number].step = before + 1;
        last[link] = before + 1;
    }
    let mut rest = messages.iter().map(|message| Step::new(message.step).expect("steps count from 1"));
    let steps = trees.iter().map(|(routes, _)| rest.by_ref().take(routes.len()).collect()).collect();
    Some(Ordered { steps, seconds })
}

fn messages_of(topology: &Topology, trees: &[(&[Route], f64)], carried: Carried) -> Vec<Message> {
    let mut messages = Vec::with_capacity(trees.iter().map(|(routes, _)| routes.len()).sum());
    let adds_up = matches!(carried, Carried::Blocks(_));
    let mut into = vec![None; topology.nodes().len()];
    for &(routes, bytes) in trees {
        into.fill(None);
        let first = messages.len();
        let root = routes.first().map(|route| topology.link(route[0]).source);
        for route in routes {
            let link = route[0];
            let after = into[topology.link(link).source];
            let target = topology.link(link).target;
            into[target] = Some(messages.len());
            let shares = root.map_or(0, |root| carried.own(root, target));
            messages.push(Message { link, after, bytes, shares, to_go: 0.0, start: 0.0, step: 0 });
        }
        for number in (first..messages.len()).rev() {
            messages[number].to_go += seconds_of(topology, &messages[number]);
            if let Some(before) = messages[number].after {
                messages[before].to_go = messages[before].to_go.max(messages[number].to_go);
                messages[before].shares += messages[number].shares * u64::from(adds_up);
            }
        }
    }
    messages
}

/// Returns the seconds from the start of a message until it has arrived.
fn seconds_of(topology: &Topology, message: &Message) -> f64 {
    topology.link(message.link).latency.seconds() + busy_seconds(topology, message)
}

/// Returns the seconds for which a message occupies its link.
fn busy_seconds(topology: &Topology, message: &Message) -> f64 {
    let link = topology.link(message.link);
    link.overhead.seconds() + link.bandwidth.seconds_for(message.bytes * message.shares as f64).get()
}

/// Starts all messages; returns them in the order of their starts, and when the last one has arrived.
fn served(topology: &Topology, messages: &mut [Message], following: &[Vec<usize>]) -> (Vec<usize>, f64) {
    let links = topology.links().len();
    let mut waiting: Vec<BinaryHeap<(u64, Reverse<usize>)>> = vec![BinaryHeap::new(); links];
    let mut free_at = vec![0.0f64; links];
    // What happens at a time, whose bits are ordered as the times are: messages get ready, and links get free.
    let mut calendar: BTreeMap<u64, (Vec<usize>, Vec<LinkId>)> = BTreeMap::new();
    let roots = (0..messages.len()).filter(|&number| messages[number].after.is_none());
    calendar.entry(0).or_default().0.extend(roots);
    let (mut order, mut end) = (Vec::with_capacity(messages.len()), 0.0f64);
    while let Some((bits, (ready, mut links))) = calendar.pop_first() {
        let now = f64::from_bits(bits);
        for number in ready {
            // Times are not negative, so their bits are ordered as they are.
            waiting[messages[number].link].push((messages[number].to_go.to_bits(), Reverse(number)));
            links.push(messages[number].link);
        }
        links.sort_unstable();
        links.dedup();
        for link in links {
            if free_at[link] > now {
                continue;
            }
            let Some((_, Reverse(number))) = waiting[link].pop() else { continue };
            messages[number].start = now;
            order.push(number);
            let (free, arrival) =
                (now + busy_seconds(topology, &messages[number]), now + seconds_of(topology, &messages[number]));
            free_at[link] = free;
            end = end.max(arrival);
            calendar.entry(free.to_bits()).or_default().1.push(link);
            if !following[number].is_empty() {
                calendar.entry(arrival.to_bits()).or_default().0.extend(&following[number]);
            }
        }
    }
    (order, end)
}

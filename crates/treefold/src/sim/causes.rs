//! What each transfer of a trace waited for last: found afterwards from a plan and the times of its transfers, so that
//! it serves every simulator, and measurements.
//!
//! A transfer that starts at some node may have waited for three kinds of things. *Data*: what its trees bring to that
//! node, up to its own chunk, and what earlier phases have brought there. *The link*: an earlier transfer that left the
//! node, or that was on a link of its route. Of these it takes the one that ended last, at its start at the latest;
//! data end when they are received, and links when the last byte has left. Where two end at once, data of its own trees
//! come first, then the chunk before it, then an earlier step on its port (the first link of its route), earlier
//! phases, and other links. If even the last one ended a good while before the start, it waited for what plans do not
//! say, such as an interface that enters its steps in order: then *any arrival* at the node counts, too. Simulators
//! start a transfer in the very moment in which something ends, so that times are compared as they are, without a
//! tolerance.
//!
//! Trees are walked once. All else is one sweep over starts and ends in the order of their times, which keeps the last
//! end on each link and at each node, and the last arrivals of each phase. No chain of causes is a circle: a cause
//! starts before what it causes, or, where it brings data over a tree, not after it.
//!
//! Cost: O(n log n) for n transfers, and linear in their routes and in the edges of the plan. Memory: 20 bytes a
//! transfer, 16 bytes more while it is sorted.

use super::listing::{Listed, Listing};
use super::trace::Transfer;
use crate::error::{Error, Result};
use crate::plan::{Draft, Edge, LaneRoutes, for_each_message, halves};
use crate::topology::{LinkId, NodeId};

/// The part of a transfer's own time, from its start to its receipt, that may pass between the end of its cause and its
/// start without a further reason: what a machine needs to react.
const REACTION: f64 = 1.0 / 16.0;

/// Returns, for each transfer of a listing, the one that it waited for last; `None` if it waited for none. Now and then
/// it asks `go_on` whether to go on.
///
/// # Errors
/// An interruption, if `go_on` returns false.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, causes::causes, flow, listing::Listing};
/// use treefold::units::Bytes;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let trace = flow::simulate(&plan, Bytes::known(4096), Watch::TRANSFERS)?;
/// let listing = Listing::new(&plan, &trace.transfers)?;
/// let causes = causes(&plan, &trace.transfers, &listing, &mut || true)?;
/// assert_eq!(causes.iter().filter(|cause| cause.is_none()).count(), 4, "four chunks go around the ring");
/// for (number, cause) in listing.ids().zip(causes) {
///     let start = listing.get(&trace.transfers, number).start;
///     assert!(cause.is_none_or(|cause| listing.get(&trace.transfers, cause).received == start));
/// }
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn causes(
    plan: &Draft,
    transfers: &[Transfer],
    listing: &Listing,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<Option<Listed>>> {
    let mut search = Search { plan, transfers, listing, cause: vec![None; listing.len()] };
    let mut ask = || if go_on() { Ok(()) } else { Err(Error::interrupted("interrupted while looking for causes")) };
    search.follow_trees(&mut ask)?;
    search.sweep(&mut ask)?;
    Ok(search.cause)
}

/// Between so many transfers the caller is asked whether to go on.
const BETWEEN_QUESTIONS: usize = 1 << 16;

/// Returns whether `later`, whose cause is `cause`, waited until that was received, and not only until it had left.
pub(super) fn is_by_receipt(plan: &Draft, cause: &Transfer, later: &Transfer) -> bool {
    plan.lanes.ends_of(cause.lane).1 == plan.lanes.ends_of(later.lane).0
}

struct Search<'a> {
    plan: &'a Draft,
    transfers: &'a [Transfer],
    listing: &'a Listing,
    cause: Vec<Option<Listed>>,
}

/// The end of a transfer, by which others may start.
#[derive(Clone, Copy)]
struct End {
    number: Listed,
    start: f64,
    end: f64,
}

/// Returns the departure of a transfer.
fn sent(number: Listed, transfer: &Transfer) -> End {
    End { number, start: transfer.start.get(), end: transfer.sent.get() }
}

impl<'a> Search<'a> {
    fn get(&self, number: Listed) -> &'a Transfer {
        self.listing.get(self.transfers, number)
    }

    fn received(&self, number: Listed) -> End {
        let transfer = self.get(number);
        End { number, start: transfer.start.get(), end: transfer.received.get() }
    }

    /// Finds the last data that the trees of each transfer bring.
    fn follow_trees(&mut self, ask: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.plan.topology.nodes().len()];
        let mut first = 0;
        for (number, (phase, tree, direction)) in halves(self.plan).enumerate() {
            if number % 2 == 0 {
                ask()?;
                into.iter_mut().for_each(Vec::clear);
            }
            let edges: Vec<Edge> = self.plan.half(phase, &self.plan.trees[tree], direction).collect();
            // Siblings, which follow each other, wait for the same.
            let (mut source, mut awaited) = (None, Vec::new());
            for_each_message(&edges, direction, &mut into, |place, before| {
                let sender = edges[place].ends(direction).0;
                if source.replace(sender) != Some(sender) {
                    self.await_edges(before, &mut awaited);
                }
                self.wait(first + place, &awaited);
                (first + place) as u32
            });
            first += edges.len();
        }
        Ok(())
    }

    /// Lists, in rising order of chunks, those at which something later is received than at any before, and what that
    /// is.
    fn await_edges(&self, edges: &[u32], awaited: &mut Vec<(u32, End)>) {
        awaited.clear();
        let numbers = edges.iter().flat_map(|&edge| self.listing.of_edge(edge as usize)).map(Listed::new);
        awaited.extend(numbers.map(|number| (self.get(number).chunk, self.received(number))));
        awaited.sort_by_key(|&(chunk, _)| chunk);
        let mut latest = f64::NEG_INFINITY;
        awaited.retain(|&(_, End { end, .. })| {
            let is_later = end > latest;
            latest = latest.max(end);
            is_later
        });
    }

    /// Makes the transfers of an edge wait for the last of `awaited` up to their own chunks.
    fn wait(&mut self, edge: usize, awaited: &[(u32, End)]) {
        if awaited.is_empty() {
            return;
        }
        let mut passed = 0;
        for number in self.listing.of_edge(edge).map(Listed::new) {
            let Transfer { chunk, start, .. } = *self.get(number);
            passed += awaited[passed..].iter().take_while(|&&(other, _)| other <= chunk).count();
            let Some(&(_, last)) = awaited[..passed].last() else { continue };
            let known = self.cause[number].map_or(f64::NEG_INFINITY, |known| self.get(known).received.get());
            let is_before = last.end <= start.get() && last.start <= start.get();
            if is_before && last.end > known && last.number != number {
                self.cause[number] = Some(last.number);
            }
        }
    }

    /// Finds what else each transfer may have waited for, in the order of their times.
    fn sweep(&mut self, ask: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let routes = LaneRoutes::new(&self.plan.topology, &self.plan.lanes);
        let starts = self.ordered(|transfer| transfer.start.get());
        ask()?;
        let left = self.ordered(|transfer| transfer.sent.get());
        ask()?;
        let received = self.ordered(|transfer| transfer.received.get());
        let (mut left, mut received) = (left.into_iter().peekable(), received.into_iter().peekable());
        let mut ended = Ended::new(self.plan);
        for (place, number) in starts.into_iter().enumerate() {
            if place % BETWEEN_QUESTIONS == 0 {
                ask()?;
            }
            let transfer = self.get(number);
            let limit = transfer.start.get();
            while let Some(other) = left.next_if(|&other| self.get(other).sent.get() <= limit) {
                ended.leave(self.plan, self.get(other), other, &routes);
            }
            while let Some(other) = received.next_if(|&other| self.get(other).received.get() <= limit) {
                ended.arrive(self.target(other), self.get(other).phase, self.received(other));
            }
            self.cause[number] = self.last_of(number, &ended, routes.of(transfer.lane));
        }
        Ok(())
    }

    /// Returns all transfers by their times, those of one time as they are listed.
    fn ordered(&self, time: impl Fn(&Transfer) -> f64) -> Vec<Listed> {
        // As times are not negative, their bits are ordered as they are.
        let bits = self.listing.transfers(self.transfers).map(|transfer| time(transfer).to_bits());
        let mut timed: Vec<(u64, Listed)> = bits.zip(self.listing.ids()).collect();
        timed.sort_unstable();
        timed.into_iter().map(|(_, number)| number).collect()
    }

    fn target(&self, number: Listed) -> NodeId {
        self.plan.lanes.ends_of(self.get(number).lane).1
    }

    /// Returns the departure of the chunk before a transfer on the same edge, if that had left.
    fn chunk_before(&self, number: Listed) -> Option<End> {
        let before = Listed::new(number.get().checked_sub(1)?);
        let [earlier, later] = [before, number].map(|number| self.get(number));
        let edge = |transfer: &Transfer| (transfer.tree, transfer.reduces, transfer.lane);
        let has_left = earlier.sent <= later.start;
        (edge(earlier) == edge(later) && has_left).then(|| sent(before, earlier))
    }

    /// Returns what a transfer waited for last, now that so much has ended.
    fn last_of(&self, number: Listed, ended: &Ended, route: &[LinkId]) -> Option<Listed> {
        let transfer = self.get(number);
        let source = self.plan.lanes.ends_of(transfer.lane).0;
        let mut last = self.cause[number].map(|known| self.received(known));
        let mut consider = |other: Option<End>| {
            let found = other.filter(|other| other.start < transfer.start.get());
            let since = last.map_or(f64::NEG_INFINITY, |last| last.end);
            last = found.filter(|other| other.end > since).or(last);
            last
        };
        consider(self.chunk_before(number));
        let is_earlier = |other: &Transfer| (other.phase, other.step) < (transfer.phase, transfer.step);
        let of_port = route.first().and_then(|&port| ended.from_port[port]);
        consider(of_port.filter(|other| is_earlier(self.get(other.number))));
        consider(ended.arrived_before(source, transfer.phase));
        for &link in route {
            consider(ended.on_link[link].filter(|&other| self.target(other.number) != source));
        }
        consider(ended.from_node[source]);
        let since = consider(None).map_or(0.0, |last| last.end);
        let own = (transfer.received - transfer.start).get();
        if transfer.start.get() - since > REACTION * own {
            consider(ended.arrived(source));
        }
        last.map(|last| last.number)
    }
}

/// What has ended last, up to a time.
struct Ended {
    /// What has left each link that is the first of its route.
    from_port: Vec<Option<End>>,
    /// What has left each link.
    on_link: Vec<Option<End>>,
    /// What has left each node.
    from_node: Vec<Option<End>>,
    /// What has arrived at each node, with its phase: each is later, and of a later phase, than the one before it. What
    /// came before something of the same phase or of an earlier one is the last arrival for no phase.
    at_node: Vec<Vec<(u16, End)>>,
}

impl Ended {
    fn new(plan: &Draft) -> Self {
        let (nodes, links) = (plan.topology.nodes().len(), plan.topology.links().len());
        let [from_port, on_link] = [vec![None; links], vec![None; links]];
        Self { from_port, on_link, from_node: vec![None; nodes], at_node: vec![Vec::new(); nodes] }
    }

    fn leave(&mut self, plan: &Draft, transfer: &Transfer, number: Listed, routes: &LaneRoutes) {
        let end = sent(number, transfer);
        self.from_node[plan.lanes.ends_of(transfer.lane).0] = Some(end);
        let route = routes.of(transfer.lane);
        route.iter().take(1).for_each(|&port| self.from_port[port] = Some(end));
        route.iter().for_each(|&link| self.on_link[link] = Some(end));
    }

    fn arrive(&mut self, node: NodeId, phase: u16, end: End) {
        let arrived = &mut self.at_node[node];
        while arrived.pop_if(|&mut (other, _)| other >= phase).is_some() {}
        arrived.push((phase, end));
    }

    /// Returns the last arrival at a node.
    fn arrived(&self, node: NodeId) -> Option<End> {
        self.at_node[node].last().map(|&(_, end)| end)
    }

    /// Returns the last arrival at a node of a phase before this one.
    fn arrived_before(&self, node: NodeId, phase: u16) -> Option<End> {
        let arrived = &self.at_node[node];
        let count = arrived.partition_point(|&(other, _)| other < phase);
        arrived[..count].last().map(|&(_, end)| end)
    }
}

//! The alpha-beta model of an ordered phase, in which every link sends its messages in the order of their steps.
//!
//! A message starts when its data are there and all messages of earlier steps have left the links of its route; it
//! occupies all of them for as long as the slowest needs for its bytes and its overhead, and arrives after the latency
//! of its route. So the time is that of the longest chain of messages, each of which waits for the one before it. Cost:
//! linear in the messages, for each size.

use std::sync::Arc;

use super::pipeline::{seconds_behind, seconds_on};
use super::{Direction, Draft, Edge, LaneRoutes, Phase, Step, step_number};
use crate::topology::{LinkId, Topology};
use crate::units::Bytes;

/// A message of an ordered phase.
struct Message {
    step: u16,
    /// The links of its route, as a range of all.
    links: std::ops::Range<u32>,
    /// The messages that bring its data, as a range of all.
    after: std::ops::Range<u32>,
    units: u64,
}

/// The messages of an ordered phase in an order in which each stands behind those that it waits for.
pub(super) struct OrderedPhase {
    messages: Vec<Message>,
    links: Vec<LinkId>,
    after: Vec<u32>,
    units: u64,
    topology: Arc<Topology>,
}

impl OrderedPhase {
    /// Lists the messages of a phase.
    pub fn new(plan: &Draft, phase: &Phase, routes: &LaneRoutes) -> Self {
        let (messages, links, after) = (Vec::new(), Vec::new(), Vec::new());
        let mut listed = Self { messages, links, after, units: plan.units, topology: Arc::clone(&plan.topology) };
        if let Some(sums) = plan.equal_sums(phase) {
            for message in &sums.messages {
                let after: Vec<u32> = sums.sums[message.sum].parts.iter().map(|part| part.0).collect();
                let units = plan.trees[message.tree].units();
                listed.add(routes.of(message.edge.lane), message.edge.step, units, &after);
            }
            return listed;
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); plan.topology.nodes().len()];
        for tree in plan.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
            into.iter_mut().for_each(Vec::clear);
            Direction::BOTH.into_iter().for_each(|direction| {
                let edges: Vec<Edge> = plan.half(phase, tree, direction).collect();
                let is_personalized = plan.collective.is_personalized();
                let below = if is_personalized { plan.shares_below(tree.root, &edges) } else { vec![1; edges.len()] };
                let with_units = edges.into_iter().zip(below.into_iter().map(|below| below * tree.units()));
                listed.add_half(routes, direction, with_units, &mut into);
            });
        }
        listed
    }

    /// Adds the messages of a half, whose edges come breadth-first with their units; `into` lists for each node the
    /// messages that bring what it has of the tree.
    fn add_half(
        &mut self,
        routes: &LaneRoutes,
        direction: Direction,
        edges: impl DoubleEndedIterator<Item = (Edge, u64)>,
        into: &mut [Vec<u32>],
    ) {
        let mut add = |(edge, units): (Edge, u64)| {
            let (source, target) = edge.ends(direction);
            let number = self.messages.len() as u32;
            self.add(routes.of(edge.lane), edge.step, units, &into[source]);
            if direction == Direction::Down {
                into[target].clear();
            }
            into[target].push(number);
        };
        match direction {
            // Children send before their parents do.
            Direction::Up => edges.rev().for_each(&mut add),
            Direction::Down => edges.for_each(&mut add),
        }
    }

    fn add(&mut self, route: &[LinkId], step: Option<Step>, units: u64, after: &[u32]) {
        let firsts = (self.links.len() as u32, self.after.len() as u32);
        self.links.extend_from_slice(route);
        self.after.extend_from_slice(after);
        let (links, after) = (firsts.0..self.links.len() as u32, firsts.1..self.after.len() as u32);
        self.messages.push(Message { step: step_number(step), links, after, units });
    }

    /// Returns the seconds that the phase takes for a vector of `size`.
    pub fn seconds(&self, size: Bytes) -> f64 {
        let mut order: Vec<usize> = (0..self.messages.len()).collect();
        order.sort_by_key(|&number| self.messages[number].step);
        let mut free = vec![0.0f64; self.topology.links().len()];
        let mut arrival = vec![0.0f64; self.messages.len()];
        for number in order {
            let message = &self.messages[number];
            let after = message.after.start as usize..message.after.end as usize;
            let route = &self.links[message.links.start as usize..message.links.end as usize];
            let ready = self.after[after].iter().map(|&before| arrival[before as usize]).fold(0.0, f64::max);
            let start = route.iter().map(|&link| free[link]).fold(ready, f64::max);
            let bytes = size.get() as f64 * message.units as f64 / self.units as f64;
            let busy = seconds_on(&self.topology, route, bytes);
            route.iter().for_each(|&link| free[link] = start + busy);
            arrival[number] = start + busy + seconds_behind(&self.topology, route, bytes, busy);
        }
        arrival.into_iter().fold(0.0, f64::max)
    }
}

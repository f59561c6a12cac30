//! The alpha-beta model of an ordered phase, in which every link sends its messages in the order of their steps.
//!
//! A message starts when its data are there and all messages of earlier steps have left the links of its route; it
//! occupies all of them for as long as the slowest needs for its bytes and its overhead, and arrives after the latency
//! of its route. So the time is that of the longest chain of messages, each of which waits for the one before it. Cost:
//! linear in the messages, for each size.

use std::sync::Arc;

use super::pipeline::{occupy, seconds_behind, seconds_on};
use super::{Direction, Draft, Edge, LaneRef, LaneRoutes, Phase, Step, for_each_message, step_number};
use crate::topology::{LinkId, Topology};
use crate::units::Bytes;

/// A message of an ordered phase.
struct Message {
    step: u16,
    /// The links of its route and what they share, as a range of all.
    links: std::ops::Range<u32>,
    /// The messages that bring its data, as a range of all.
    after: std::ops::Range<u32>,
    units: u64,
}

/// The messages of an ordered phase in an order in which each stands behind those that it waits for.
pub(super) struct OrderedPhase {
    messages: Vec<Message>,
    capacities: Vec<LinkId>,
    after: Vec<u32>,
    units: u64,
    topology: Arc<Topology>,
}

impl OrderedPhase {
    /// Lists the messages of a phase.
    pub fn new(plan: &Draft, phase: &Phase, routes: &LaneRoutes) -> Self {
        let (messages, capacities, after) = (Vec::new(), Vec::new(), Vec::new());
        let mut listed = Self { messages, capacities, after, units: plan.units, topology: Arc::clone(&plan.topology) };
        if let Some(sums) = plan.equal_sums(phase) {
            for message in &sums.messages {
                let after: Vec<u32> = sums.sums[message.sum].parts.iter().map(|part| part.0).collect();
                let units = plan.trees[message.tree].units();
                listed.add(routes, message.edge.lane, message.edge.step, units, &after);
            }
            return listed;
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); plan.topology.nodes().len()];
        for tree in plan.trees_of(phase).iter().filter(|tree| tree.units() > 0) {
            into.iter_mut().for_each(Vec::clear);
            for direction in Direction::BOTH {
                let edges: Vec<Edge> = plan.half(phase, tree, direction).collect();
                let is_personalized = plan.collective.is_personalized();
                let below = if is_personalized { plan.shares_below(tree.root, &edges) } else { vec![1; edges.len()] };
                for_each_message(&edges, direction, &mut into, |place, after| {
                    let units = below[place] * tree.units();
                    listed.add(routes, edges[place].lane, edges[place].step, units, after)
                });
            }
        }
        listed
    }

    /// Adds a message; returns its number.
    fn add(&mut self, routes: &LaneRoutes, lane: LaneRef, step: Option<Step>, units: u64, after: &[u32]) -> u32 {
        let firsts = (self.capacities.len() as u32, self.after.len() as u32);
        self.capacities.extend_from_slice(routes.capacities(lane));
        self.after.extend_from_slice(after);
        let (links, after) = (firsts.0..self.capacities.len() as u32, firsts.1..self.after.len() as u32);
        self.messages.push(Message { step: step_number(step), links, after, units });
        self.messages.len() as u32 - 1
    }

    /// Returns the seconds that the phase takes for a vector of `size`.
    pub fn seconds(&self, size: Bytes) -> f64 {
        let mut order: Vec<usize> = (0..self.messages.len()).collect();
        order.sort_by_key(|&number| self.messages[number].step);
        let mut free = vec![0.0f64; self.topology.num_capacities()];
        let mut arrival = vec![0.0f64; self.messages.len()];
        for number in order {
            let message = &self.messages[number];
            let after = message.after.start as usize..message.after.end as usize;
            let route = &self.capacities[message.links.start as usize..message.links.end as usize];
            let ready = self.after[after].iter().map(|&before| arrival[before as usize]).fold(0.0, f64::max);
            let start = route.iter().map(|&link| free[link]).fold(ready, f64::max);
            let bytes = size.get() as f64 * message.units as f64 / self.units as f64;
            let busy = seconds_on(&self.topology, route, bytes);
            occupy(&self.topology, route, bytes, (start, busy), &mut free);
            arrival[number] = start + busy + seconds_behind(&self.topology, route, bytes, busy);
        }
        arrival.into_iter().fold(0.0, f64::max)
    }
}

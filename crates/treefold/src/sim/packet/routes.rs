//! The routes of messages through routers: the output to take at each node, and the virtual channels that may be used.

use std::ops::Range;

use super::classes::ChannelGraph;
use super::machine::{Hop, Machine};
use super::options::Options;
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::Csr;
use crate::plan::tables;
use crate::plan::{LaneRef, LaneRoutes, Plan, Routing};
use crate::topology::{LinkId, Shape};

/// The routes of all lanes.
#[derive(Debug)]
pub struct Routes {
    /// The links of each route, with their virtual channels.
    pub hops: Csr<Hop>,
    /// By the index of a lane: its first route, and the first of the lane after it.
    first: Vec<u32>,
}

impl Routes {
    /// Lists the routes of a lane, among which its packets choose.
    pub fn of(&self, lane: LaneRef) -> Range<u32> {
        self.first[lane.index()]..self.first[lane.index() + 1]
    }
}

/// Returns the links of every route of a lane: of the one that the plan gives, or on which it counts when it promises
/// that no link is used twice in a step; or else of those among which routers choose.
fn links_of(plan: &Plan, lanes: &LaneRoutes, lane: LaneRef) -> Vec<Vec<LinkId>> {
    let mut routes = vec![lanes.of(lane).to_vec()];
    if plan.lanes.routing(lane.lane()) == Routing::Routed && !routes[0].is_empty() && !tables::lockstep(plan) {
        let (source, target) = plan.lanes.ends_of(lane);
        routes.extend((1..plan.topology.ways(source, target)).map(|way| {
            let mut links = Vec::new();
            plan.topology.append_way(source, target, way, &mut links);
            links
        }));
    }
    routes
}

/// Makes the routes of each lane that messages use, with the virtual channels of each link.
///
/// # Errors
/// There are fewer virtual channels than classes.
pub fn routes(
    plan: &Plan,
    lanes: &LaneRoutes,
    used_lanes: impl Iterator<Item = LaneRef>,
    options: &Options,
    machine: &Machine,
) -> Result<Routes> {
    let mut used = vec![false; 2 * plan.lanes.len()];
    used_lanes.for_each(|lane| used[lane.index()] = true);
    let mut graph = ChannelGraph::new(plan.topology.links().len());
    let least = if is_torus(plan.topology.shape()) { 2 } else { 1 };
    let mut most = least;
    let (mut first, mut links, mut classes) = (vec![0], Vec::new(), Vec::new());
    for (lane, &used) in (0..).zip(&used) {
        let ways = if used { links_of(plan, lanes, LaneRef::from_index(lane)) } else { Vec::new() };
        for way in ways {
            let of_way = graph.follow(&[], &way);
            most = of_way.iter().fold(most, |most, class| most.max(class + 1));
            classes.push(of_way);
            links.push(way);
        }
        first.push(links.len() as u32);
    }
    if options.virtual_channels < most {
        let why = if most == least { "a torus has a dateline" } else { "its routes close circles" };
        misfit!(
            "{}: needs {most} virtual channels to be free of deadlock ({why}), got {}",
            plan.topology.name(),
            options.virtual_channels
        );
    }
    let mut hops = Csr::default();
    for (links, classes) in links.iter().zip(&classes) {
        let output = |link: LinkId| machine.links[link].output;
        let hop = |(&link, &class): (&LinkId, &u32)| Hop {
            link,
            output: output(link),
            channels: channels(class, most, options),
        };
        hops.push_row(links.iter().zip(classes).map(hop));
    }
    Ok(Routes { hops, first })
}

/// Says whether a network is a torus, whose routers have a dateline.
fn is_torus(shape: &Shape) -> bool {
    matches!(shape, Shape::Grid { dims, wrap: true } if dims.iter().any(|&side| side > 2))
}

/// Returns the virtual channels of class `class` of `classes`, as bits.
fn channels(class: u32, classes: u32, options: &Options) -> u32 {
    let first = |class: u32| (class * options.virtual_channels).div_ceil(classes);
    let below = |channel: u32| (1u64 << channel) - 1;
    (below(first(class + 1)) & !below(first(class))) as u32
}

//! The routes of messages through routers: the output to take at each node, and the virtual channels that may be used.

use std::ops::Range;

use super::classes::ChannelGraph;
use super::machine::{Hop, Machine};
use super::options::Options;
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::Csr;
use crate::plan::{LaneRef, Routing, tables};
use crate::sim::jobs::Placed;
use crate::topology::{Expanded, LinkId, Shape};

/// The lists of links that are routes.
pub struct Lists<'a> {
    /// The lists of plans.
    pub of_plans: Csr<LinkId>,
    /// The lists of the background, if there is one.
    pub of_background: Option<&'a Csr<LinkId>>,
}

/// Appends to `lists` the links of the routes among which packets of a lane choose: of the one that the plan gives, or
/// on which it counts when it promises that no link is used twice in a step; or else of all those from which routers
/// choose. Returns which rows they are.
pub fn push_routes(job: &Placed, lane: LaneRef, lists: &mut Csr<LinkId>) -> Range<u32> {
    let start = lists.rows().len() as u32;
    let (plan, given) = (job.plan, job.routes.of(lane));
    lists.push_row(given.iter().copied());
    if plan.lanes.routing(lane.lane()) == Routing::Routed && !given.is_empty() && !tables::lockstep(plan) {
        let (source, target) = plan.lanes.ends_of(lane);
        for way in 1..plan.topology.ways(source, target) {
            let mut links = Vec::new();
            plan.topology.append_way(source, target, way, &mut links);
            lists.push_row(links);
        }
    }
    start..lists.rows().len() as u32
}

/// Makes routes with the virtual channels of each link, by which shared capacities are passed as well: first those of
/// plans, then those of the background.
///
/// # Errors
/// If there are fewer virtual channels than classes need.
pub fn routes(expanded: &Expanded, lists: &Lists, options: &Options, machine: &Machine) -> Result<Csr<Hop>> {
    let network = &*expanded.network;
    let plain = || lists.of_plans.rows().chain(lists.of_background.into_iter().flat_map(Csr::rows));
    let all = || plain().map(|links| expanded.route(links));
    let mut graph = ChannelGraph::new(network.links().len());
    let least = if is_torus(network.shape()) { 2 } else { 1 };
    let mut most = least;
    let classes: Vec<Vec<u32>> = all()
        .map(|links| {
            let classes = graph.follow(&[], &links);
            most = classes.iter().fold(most, |most, class| most.max(class + 1));
            classes
        })
        .collect();
    if options.virtual_channels < most {
        let why = if most == least { "a torus has a dateline" } else { "its routes close circles" };
        misfit!(
            "{}: needs {most} virtual channels to be free of deadlock ({why}), got {}; raise virtual_channels",
            network.name(),
            options.virtual_channels
        );
    }
    let kept = lists.of_background.map_or(0, |_| options.kept_channels());
    if options.virtual_channels / most <= kept {
        misfit!(
            "{}: {most} classes of virtual channels, in each of which {kept} are kept for short messages, need {} \
             channels, got {}; set virtual_channels",
            network.name(),
            most * (kept + 1),
            options.virtual_channels
        );
    }
    let mut routes = Csr::default();
    for (number, (links, classes)) in all().zip(classes).enumerate() {
        let kept = if number < lists.of_plans.rows().len() { kept } else { 0 };
        let hop = |(&link, &class): (&LinkId, &u32)| Hop {
            link,
            output: machine.links[link].output,
            channels: channels(class, most, kept, options),
        };
        routes.push_row(links.iter().zip(&classes).map(hop));
    }
    Ok(routes)
}

/// Says whether a network is a torus, whose routers have a dateline.
fn is_torus(shape: &Shape) -> bool {
    matches!(shape, Shape::Grid { dims, wrap: true } if dims.iter().any(|&side| side > 2))
}

/// Returns the virtual channels of class `class` of `classes`, without the last `kept` of them, as bits.
fn channels(class: u32, classes: u32, kept: u32, options: &Options) -> u32 {
    let first = |class: u32| (class * options.virtual_channels).div_ceil(classes);
    let below = |channel: u32| (1u64 << channel) - 1;
    (below(first(class + 1) - kept) & !below(first(class))) as u32
}

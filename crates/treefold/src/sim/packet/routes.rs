//! The routes of messages through routers: the output to take at each node, and the virtual channels that may be used.

use super::classes::ChannelGraph;
use super::machine::{Hop, Machine};
use super::options::Options;
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::Csr;
use crate::plan::{LaneRef, LaneRoutes, Plan};
use crate::topology::{LinkId, Shape};

/// Makes the route of each lane that messages use, with the virtual channels of each link.
///
/// # Errors
/// There are fewer virtual channels than classes.
pub fn routes(
    plan: &Plan,
    lanes: &LaneRoutes,
    used_lanes: impl Iterator<Item = LaneRef>,
    options: &Options,
    machine: &Machine,
) -> Result<Csr<Hop>> {
    let mut used = vec![false; 2 * plan.lanes.len()];
    used_lanes.for_each(|lane| used[lane.index()] = true);
    let mut graph = ChannelGraph::new(plan.topology.links().len());
    let least = if is_torus(plan.topology.shape()) { 2 } else { 1 };
    let mut most = least;
    let classes: Vec<Vec<u32>> = (0..used.len())
        .map(|lane| {
            let links = lanes.of(LaneRef::from_index(lane as u32));
            let links = if used[lane] { links } else { &[] };
            let classes = graph.follow(&[], links);
            most = classes.iter().fold(most, |most, class| most.max(class + 1));
            classes
        })
        .collect();
    if options.virtual_channels < most {
        let why = if most == least { "a torus has a dateline" } else { "its routes close circles" };
        misfit!(
            "{}: needs {most} virtual channels to be free of deadlock ({why}), got {}",
            plan.topology.name(),
            options.virtual_channels
        );
    }
    let mut routes = Csr::default();
    for (lane, classes) in (0..).zip(classes) {
        let output = |link: LinkId| machine.links[link].output;
        let hop = |(&link, &class): (&LinkId, &u32)| Hop {
            link,
            output: output(link),
            channels: channels(class, most, options),
        };
        routes.push_row(lanes.of(LaneRef::from_index(lane)).iter().zip(&classes).map(hop));
    }
    Ok(routes)
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

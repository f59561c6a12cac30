//! What is sampled of routers while a simulation is recorded.

use super::levels::{Level, samples};
use super::machine::{Machine, Wire};
use super::node::Node;
use super::router::Sampler;
use crate::sim::samples::{Quantity, Samples};
use crate::topology::{Link, Topology};

/// Lets all nodes sample from now on.
pub fn begin(nodes: &mut [Node]) {
    for router in nodes.iter_mut().map(|node| &mut node.router) {
        router.sampler = Some(Box::new(Sampler::new(router.links)));
    }
}

/// Returns what the nodes and links of the plan's network have sampled of a job that ended at cycle `end`; nothing if
/// they did not sample. In the machine's network, what links share has nodes and links behind them.
pub fn samples_of(nodes: &[Node], network: &Topology, machine: &Machine, end: u64, of_plan: &Topology) -> Vec<Samples> {
    let found: Option<Vec<&Sampler>> = nodes.iter().map(|node| node.router.sampler.as_deref()).collect();
    let Some(samplers) = found.filter(|samplers| !samplers.is_empty()) else { return Vec::new() };
    let link = |(link, wire): (&Link, &Wire)| &samplers[link.source.index()].links[wire.output];
    let links: Vec<_> = network.links().iter().zip(&machine.links).take(of_plan.links().len()).map(link).collect();
    let [buffers, credits, contention]: [Vec<&Level>; 3] = [
        samplers[..of_plan.nodes().len()].iter().map(|sampler| &sampler.buffers).collect(),
        links.iter().map(|link| &link.starved.level).collect(),
        links.iter().map(|link| &link.contended.level).collect(),
    ];
    vec![
        samples(Quantity::Buffers, 1.0, end, &buffers),
        samples(Quantity::Credits, 1.0, end, &credits),
        samples(Quantity::Contention, 1.0, end, &contention),
    ]
}

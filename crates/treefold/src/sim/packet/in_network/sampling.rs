//! What is sampled of a fabric that executes an in-network plan, whose packets are too many to list.

use super::super::levels::{Level, samples};
use super::{Node, World};
use crate::sim::samples::{Quantity, Samples};
use crate::topology::Topology;

/// Returns what was sampled: the bytes in the tables of switches, if they reduce, and the busy time of links. Nothing
/// is if the simulation was not recorded.
pub fn samples_of(world: &World, topology: &Topology) -> Vec<Samples> {
    let World { nodes, setup, stats, .. } = world;
    if !setup.parameters.samples {
        return Vec::new();
    }
    let none = Level::default();
    let held = nodes.iter().map(|node| match node {
        Node::Switch(switch) => switch.payloads().unwrap_or(&none),
        Node::Endpoint(_) => &none,
    });
    let tables: Vec<&Level> = held.collect();
    let mut busy = vec![&none; topology.links().len()];
    for (id, node) in topology.node_ids().zip(nodes) {
        for (&link, sender) in topology.outgoing(id).iter().zip(node.senders()) {
            busy[link] = sender.taken().unwrap_or(&none);
        }
    }
    let tables = samples(Quantity::Tables, setup.parameters.line as f64, stats.end, &tables);
    let busy = samples(Quantity::Busy, 1.0, stats.end, &busy);
    if world.reduces() { vec![tables, busy] } else { vec![busy] }
}

//! Packets that go on from a switch: over an edge, over all edges that come next, or with a table's sum.

use super::Target;
use crate::sim::packet::in_network::Shared;
use crate::sim::packet::in_network::packet::{Key, NONE, Op, Operand, Packet};

/// A packet that goes on over an edge of its tree.
pub(super) fn over(edge: u32, route: u32, packet: Packet, shared: &Shared) -> Target {
    let hop = shared.setup.routes.first(route);
    Target::Output(hop.output, Packet { edge, route, hop: 0, ..packet }.onto(hop))
}

/// The packet that carries on a sum from a table: over an edge or, from the root, to be multicast.
pub(super) fn onward(key: Key, edge: u32, operand: Operand, now: u64, shared: &Shared) -> Packet {
    let root = edge == NONE;
    Packet {
        op: Op::Operand,
        response: root,
        channel: 0,
        hop: 0,
        flits: shared.setup.flits(key),
        route: if root { NONE } else { shared.setup.regions.edge(edge).route },
        edge,
        key,
        operand,
        born: now,
    }
}

/// Copies over all edges of its tree that come next; how many.
pub(super) fn multicast(packet: Packet, targets: &mut Vec<Target>, shared: &Shared) -> u32 {
    let edges = shared.setup.regions.targets(packet.key.0, packet.edge);
    for edge in edges.numbers() {
        targets.push(over(edge, shared.setup.regions.edge(edge).route, packet, shared));
    }
    edges.count
}

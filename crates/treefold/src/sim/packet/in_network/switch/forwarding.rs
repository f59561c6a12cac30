//! Packets that go on from a switch: over an edge, over all edges that come next, or with a table's sum.

use super::Target;
use crate::sim::packet::in_network::Shared;
use crate::sim::packet::in_network::operand::Operand;
use crate::sim::packet::in_network::packet::{Address, EdgeId, Op, Packet, RouteId, Subject};

/// Sends a packet on over an edge of its tree.
pub(super) fn over(edge: EdgeId, route: RouteId, packet: Packet, shared: &Shared) -> Target {
    let hop = shared.setup.routes.first(route);
    let packet = Packet { edge: Some(edge), route: Some(route), hop: 0, ..packet };
    Target::output(hop, packet)
}

/// Makes the packet that carries on a sum from a table: over an edge or, from the root, to be multicast.
pub(super) fn onward(address: Address, edge: Option<EdgeId>, operand: Operand, now: u64, shared: &Shared) -> Packet {
    Packet {
        op: Op::Operand,
        channel: 0,
        hop: 0,
        sequence: 0,
        flits: shared.setup.flits(address),
        route: edge.map(|edge| shared.setup.regions.edge(edge).route),
        edge,
        subject: Subject::Line(address),
        operand,
        born: now,
    }
}

/// Copies a packet over all edges of its tree that come next; returns how many they are.
pub(super) fn multicast(packet: Packet, targets: &mut Vec<Target>, shared: &Shared) -> u32 {
    let edges = shared.setup.regions.targets(packet.address().tree, packet.edge);
    for edge in edges.numbers() {
        targets.push(over(edge, shared.setup.regions.edge(edge).route, packet, shared));
    }
    edges.count
}

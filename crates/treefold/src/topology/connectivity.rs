//! The check that every rank can reach every other one.

use super::{NodeId, Topology};
use crate::bail;
use crate::error::Result;

/// Refuses a network whose ranks cannot all reach each other.
pub(super) fn check(topology: &Topology) -> Result<()> {
    let weak = parts(topology, |node| neighbours(topology, node, true));
    if weak.len() > 1 {
        bail!(
            "{} is disconnected: {} components: {}; add links or choose ranks within one",
            topology.name(),
            weak.len(),
            describe(topology, &weak)
        );
    }
    let from_first = reached(topology, NodeId(0), |node| neighbours(topology, node, false));
    let to_first = reached(topology, NodeId(0), |node| sources(topology, node));
    let first = topology.node(NodeId(0)).name.as_str();
    for rank in topology.rank_ids() {
        let name = topology.node(rank).name.as_str();
        if !from_first[rank] {
            bail!("{}: one-way links leave no path from {first} to {name}; add the missing direction", topology.name());
        }
        if !to_first[rank] {
            bail!("{}: one-way links leave no path from {name} to {first}; add the missing direction", topology.name());
        }
    }
    Ok(())
}

/// Returns the nodes to which a link leads from `node`, or, with `both_ways`, from which one leads there.
fn neighbours(topology: &Topology, node: NodeId, both_ways: bool) -> Vec<NodeId> {
    let mut next: Vec<NodeId> = topology.outgoing(node).iter().map(|&link| topology.link(link).target).collect();
    if both_ways {
        next.extend(sources(topology, node));
    }
    next
}

/// Returns the nodes from which a link leads to `node`.
fn sources(topology: &Topology, node: NodeId) -> Vec<NodeId> {
    topology.incoming(node).iter().map(|&link| topology.link(link).source).collect()
}

/// Returns whether each node can be reached from `start`.
fn reached(topology: &Topology, start: NodeId, next: impl Fn(NodeId) -> Vec<NodeId>) -> Vec<bool> {
    let mut seen = vec![false; topology.nodes().len()];
    seen[start] = true;
    let mut stack = vec![start];
    while let Some(node) = stack.pop() {
        for other in next(node) {
            if !std::mem::replace(&mut seen[other], true) {
                stack.push(other);
            }
        }
    }
    seen
}

/// Returns the components that contain ranks, each as its ranks.
fn parts(topology: &Topology, next: impl Fn(NodeId) -> Vec<NodeId>) -> Vec<Vec<NodeId>> {
    let mut parts: Vec<Vec<NodeId>> = Vec::new();
    let mut known = vec![false; topology.nodes().len()];
    for rank in topology.rank_ids() {
        if known[rank] {
            continue;
        }
        let seen = reached(topology, rank, &next);
        known.iter_mut().zip(&seen).for_each(|(known, seen)| *known |= seen);
        parts.push(topology.rank_ids().filter(|&other| seen[other]).collect());
    }
    parts
}

/// Describes components in one line: `{A, B, C, ... 7 in all}, {D}`.
fn describe(topology: &Topology, parts: &[Vec<NodeId>]) -> String {
    const SHOWN: usize = 4;
    let part = |members: &Vec<NodeId>| {
        let names: Vec<&str> = members.iter().take(SHOWN).map(|&node| topology.node(node).name.as_str()).collect();
        let more = if members.len() > SHOWN { format!(", ... {} in all", members.len()) } else { String::new() };
        format!("{{{}{more}}}", names.join(", "))
    };
    let shown: Vec<String> = parts.iter().take(SHOWN).map(part).collect();
    let more = if parts.len() > SHOWN { format!(", ... {} more", parts.len() - SHOWN) } else { String::new() };
    shown.join(", ") + &more
}

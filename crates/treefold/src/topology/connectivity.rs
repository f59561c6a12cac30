//! The check that every rank can reach every other one.

use super::{NodeId, Topology};
use crate::bail;
use crate::error::Result;
use crate::search::BreadthFirst;

/// Refuses a network whose ranks cannot all reach each other.
pub(super) fn check(topology: &Topology) -> Result<()> {
    let weak = parts(topology);
    if weak.len() > 1 {
        bail!(
            "{} is disconnected: {} components: {}; add links or choose ranks within one",
            topology.name(),
            weak.len(),
            describe(topology, &weak)
        );
    }
    let [mut from_first, mut to_first] = [(); 2].map(|()| BreadthFirst::new(topology.nodes().len()));
    from_first.flood(NodeId(0), |node| topology.targets(node));
    to_first.flood(NodeId(0), |node| topology.sources(node));
    let first = topology.node(NodeId(0)).name.as_str();
    for rank in topology.rank_ids() {
        let name = topology.node(rank).name.as_str();
        if !from_first.reaches(rank) {
            bail!("{}: one-way links leave no path from {first} to {name}; add the missing direction", topology.name());
        }
        if !to_first.reaches(rank) {
            bail!("{}: one-way links leave no path from {name} to {first}; add the missing direction", topology.name());
        }
    }
    Ok(())
}

/// Returns the components that contain ranks, each as its ranks; one-way links join, too.
fn parts(topology: &Topology) -> Vec<Vec<NodeId>> {
    let mut parts: Vec<Vec<NodeId>> = Vec::new();
    let mut search = BreadthFirst::new(topology.nodes().len());
    for rank in topology.rank_ids() {
        if search.reaches(rank) {
            continue;
        }
        let known = search.order().len();
        search.flood(rank, |node| topology.targets(node).chain(topology.sources(node)));
        let mut part = search.order()[known..].to_vec();
        part.retain(|&node| topology.is_rank(node));
        part.sort_unstable();
        parts.push(part);
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

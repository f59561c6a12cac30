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
            "{} is disconnected: {} components: {}; add links, or choose ranks within one by ranks=LIST",
            topology.name(),
            weak.len(),
            describe(topology, &weak)
        );
    }
    let [mut from_first, mut to_first] = [(); 2].map(|()| BreadthFirst::new(topology.nodes().len()));
    from_first.flood(NodeId(0), |node| topology.targets(node));
    to_first.flood(NodeId(0), |node| topology.sources(node));
    let name = |rank| topology.node(rank).name.as_str();
    let of_first = |search: &BreadthFirst| topology.rank_ids().filter(|&rank| search.reaches(rank)).count();
    for (search, is_target) in [(&from_first, true), (&to_first, false)] {
        let Some(rank) = topology.rank_ids().find(|&rank| !search.reaches(rank)) else { continue };
        // The first rank is the odd one if it is cut off from most of the others.
        let odd = if 2 * of_first(search) < topology.ranks() as usize { NodeId(0) } else { rank };
        let (from, to) = if is_target { (NodeId(0), rank) } else { (rank, NodeId(0)) };
        bail!(
            "{}: one-way links leave no path from {} to {}; add the missing direction, or leave {} out by ranks={}",
            topology.name(),
            name(from),
            name(to),
            name(odd),
            others(topology, odd)
        );
    }
    Ok(())
}

/// Lists all ranks but one as a value of `ranks`, unless they are too many for a line or have unusual names.
fn others(topology: &Topology, odd: NodeId) -> String {
    const SHOWN: u32 = 9;
    let others = topology.rank_ids().filter(|&rank| rank != odd);
    let names: Vec<&str> = others.map(|rank| topology.node(rank).name.as_str()).collect();
    let is_plain = |name: &&str| name.chars().all(|one| one.is_alphanumeric() || "._-".contains(one));
    let is_short = topology.ranks() <= SHOWN && names.iter().all(is_plain);
    if is_short { format!("'{}'", names.join(",")) } else { "LIST".into() }
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

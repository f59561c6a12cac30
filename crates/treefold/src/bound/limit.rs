//! What limits a collective: latency, flows between ranks, or links at the rate of large vectors.

use crate::topology::{LinkId, NodeId, Topology};

/// What limits a collective of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// The rate of large vectors: over these links goes what ranks on one side of a cut have for those on the other.
    Cut {
        /// The links from one side to the other.
        links: Vec<LinkId>,
        /// The ranks on the side that the links leave.
        from: Vec<NodeId>,
        /// The ranks on the other side.
        to: Vec<NodeId>,
    },
    /// The rate of large vectors: these links are together too few, whichever routes are taken. There may be none to
    /// name.
    Links(Vec<LinkId>),
    /// The latency of the farthest pair.
    Farthest,
    /// What these ranks have for one rank, latency and bandwidth together.
    Flow(Vec<NodeId>, NodeId),
    /// What one rank has for these ranks, or has to add up of theirs.
    FlowBack(NodeId, Vec<NodeId>),
}

/// A link limits a rate if it is worth this part of the dearest one.
const DEAR: f64 = 0.01;

impl Limit {
    /// Returns the links that are worth most of what all links can carry at these prices of a byte, the dearest first.
    pub(super) fn of_prices(topology: &Topology, prices: &[f64]) -> Self {
        let worth = |link: LinkId| prices[link] * topology.bandwidth(link).bytes_per_second();
        let dearest = topology.capacity_ids().map(worth).fold(0.0, f64::max);
        let mut dear: Vec<LinkId> = topology.capacity_ids().filter(|&link| worth(link) > DEAR * dearest).collect();
        dear.sort_by(|&a, &b| worth(b).total_cmp(&worth(a)).then(a.cmp(&b)));
        Self::Links(dear)
    }

    /// Returns the links that limit the rate of large vectors; there may be none to name.
    pub(super) fn links(&self) -> &[LinkId] {
        match self {
            Self::Cut { links, .. } | Self::Links(links) => links,
            Self::Farthest | Self::Flow(..) | Self::FlowBack(..) => &[],
        }
    }

    /// Returns the limit of a cut, of which the nodes on the side that links leave are flagged. On a transposed network
    /// the links run the other way.
    pub(super) fn of_cut(topology: &Topology, inside: &[bool], is_transposed: bool) -> Self {
        let leaves = |&link: &LinkId| inside[topology.link(link).source] && !inside[topology.link(link).target];
        let links = topology.link_ids().filter(leaves).collect();
        let (within, without) = topology.rank_ids().partition(|&rank| inside[rank]);
        let (from, to) = if is_transposed { (without, within) } else { (within, without) };
        Self::Cut { links, from, to }
    }
}

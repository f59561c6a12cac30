//! Rings on networks of many ranks: pieces of the ring are joined by the cheapest link between them first (Kruskal
//! 1956), each at the two ends that are nearest to each other.
//!
//! So the ranks of a server stand together, and so do the servers of a pod, as a piece is complete before a dearer link
//! joins it to others. Cost: O(m log m) for m links, and a few routes for each rank.

use std::collections::VecDeque;

use super::Hops;
use crate::topology::{LinkId, NodeId};

/// Returns the ranks in the order in which a ring visits them.
pub(super) fn order(hops: &Hops) -> Vec<NodeId> {
    let topology = hops.topology;
    let mut links: Vec<LinkId> = topology.link_ids().collect();
    links.sort_by(|&a, &b| hops.seconds_on(a).total_cmp(&hops.seconds_on(b)));
    let mut pieces = Pieces::new(hops);
    for link in links {
        let link = topology.link(link);
        pieces.join(link.source, link.target);
    }
    let whole = pieces.of.into_iter().max_by_key(VecDeque::len).expect("there is a node");
    let mut order = Vec::from(whole);
    let start = order.iter().position(|rank| rank.index() == 0).expect("rank 0 is on the ring");
    order.rotate_left(start);
    order
}

/// Pieces of a ring, each of which has the ranks of a connected part of the network.
struct Pieces<'a> {
    hops: &'a Hops<'a>,
    /// Leads from each node to that under which its piece is kept.
    above: Vec<NodeId>,
    of: Vec<VecDeque<NodeId>>,
    route: Vec<LinkId>,
}

impl<'a> Pieces<'a> {
    /// Every rank is a piece; the pieces of other nodes are empty.
    fn new(hops: &'a Hops) -> Self {
        let nodes = hops.topology.nodes().len();
        let ids = (0..nodes).map(NodeId::new);
        let of = ids.clone().map(|node| Some(node).filter(|&node| hops.topology.is_rank(node)).into_iter().collect());
        Self { hops, of: of.collect(), above: ids.collect(), route: Vec::new() }
    }

    /// Returns the node under which the piece of `node` is kept.
    fn top(&mut self, mut node: NodeId) -> NodeId {
        while self.above[node.index()] != node {
            let next = self.above[self.above[node.index()].index()];
            self.above[node.index()] = next;
            node = next;
        }
        node
    }

    /// Joins the pieces of two nodes, unless they are the same.
    fn join(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.top(a), self.top(b));
        if a == b {
            return;
        }
        let len = |node: NodeId| self.of[node.index()].len();
        let (long, short) = if len(a) < len(b) { (b, a) } else { (a, b) };
        self.above[short.index()] = long;
        let ranks = std::mem::take(&mut self.of[short.index()]);
        let (Some(&first), Some(&last)) = (ranks.front(), ranks.back()) else { return };
        let piece = &self.of[long.index()];
        let ends = [*piece.front().expect("it is not shorter"), *piece.back().expect("it is not shorter")];
        // Joints: (the end of the long piece, the end of the short one).
        let joints = [(1, first), (1, last), (0, last), (0, first)];
        let cost = |&(end, rank): &(usize, NodeId)| self.hops.seconds(ends[end], rank, &mut self.route);
        let costs: Vec<f64> = joints.iter().map(cost).collect();
        let best = (0..joints.len()).min_by(|&i, &j| costs[i].total_cmp(&costs[j])).expect("there are four");
        let piece = &mut self.of[long.index()];
        match best {
            0 => piece.extend(ranks),
            1 => piece.extend(ranks.into_iter().rev()),
            2 => ranks.into_iter().rev().for_each(|rank| piece.push_front(rank)),
            _ => ranks.into_iter().for_each(|rank| piece.push_front(rank)),
        }
    }
}

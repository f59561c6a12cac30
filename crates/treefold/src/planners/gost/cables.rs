//! The network as MTree sees it: an undirected graph of cables.

use super::super::spanning::{Lengths, Route, SpanningTree};
use crate::error::Result;
use crate::misfit;
use crate::planners::Heights;
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// The pairs of opposite links between ranks.
pub(super) struct Cables {
    ranks: usize,
    /// The two ranks of each cable.
    pub ends: Vec<(NodeId, NodeId)>,
    /// The links from its first rank to its second, and back.
    links: Vec<[LinkId; 2]>,
    /// The bytes a second of its lesser direction.
    pub capacity: Vec<f64>,
    /// The length of each cable: one hop, or its latency in multiples of the smallest one.
    pub length: Vec<u64>,
    /// The cables of each rank.
    of_rank: Vec<Vec<usize>>,
}

impl Cables {
    pub fn new(topology: &Topology, heights: Heights) -> Result<Self> {
        if !topology.is_direct() {
            let name = topology.name();
            misfit!("mtree needs direct links between ranks, but {name} has switches or relays; packing fits")
        }
        let ranks = topology.ranks() as usize;
        let of_link = Lengths::new(topology, heights).of_link;
        let mut cables = Self {
            ranks,
            ends: Vec::new(),
            links: Vec::new(),
            capacity: Vec::new(),
            length: Vec::new(),
            of_rank: vec![Vec::new(); ranks],
        };
        for (id, link) in topology.link_ids().zip(topology.links()) {
            if let Some(back) = topology.reverse(id).filter(|&back| id < back) {
                cables.of_rank[link.source].push(cables.ends.len());
                cables.of_rank[link.target].push(cables.ends.len());
                cables.ends.push((link.source, link.target));
                cables.links.push([id, back]);
                cables
                    .capacity
                    .push(link.bandwidth.bytes_per_second().min(topology.link(back).bandwidth.bytes_per_second()));
                cables.length.push(of_link[id].max(of_link[back]));
            }
        }
        if !cables.join_all(&(0..cables.ends.len()).collect::<Vec<_>>()) {
            misfit!(
                "mtree needs links that carry both ways, but those of {} do not join all ranks; packing fits",
                topology.name()
            );
        }
        Ok(cables)
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    pub fn mean_capacity(&self) -> f64 {
        self.capacity.iter().sum::<f64>() / self.capacity.len().max(1) as f64
    }

    /// Returns a height that no tree exceeds.
    pub fn most_height(&self) -> u64 {
        let longest = self.length.iter().copied().max().unwrap_or(1);
        (longest * (self.ranks as u64).saturating_sub(1)).clamp(1, u32::MAX.into())
    }

    /// Returns whether these cables join all ranks.
    pub fn join_all(&self, cables: &[usize]) -> bool {
        self.join(cables).len() + 1 == self.ranks
    }

    /// Returns the capacity of the narrowest cable of the widest tree.
    pub fn widest_tree(&self) -> f64 {
        let mut order: Vec<usize> = (0..self.ends.len()).collect();
        order.sort_by(|&a, &b| self.capacity[b].total_cmp(&self.capacity[a]));
        self.join(&order).last().map_or(f64::INFINITY, |&cable| self.capacity[cable])
    }

    /// Returns those of the cables, in their order, that join parts that are not joined yet.
    fn join(&self, cables: &[usize]) -> Vec<usize> {
        let mut part: Vec<NodeId> = NodeId::first(self.ranks).collect();
        let mut find = |mut node: NodeId, to: Option<NodeId>| {
            while part[node] != node {
                part[node] = part[part[node]];
                node = part[node];
            }
            part[node] = to.unwrap_or(node);
            node
        };
        let joins = |&&cable: &&usize| {
            let (a, b) = (find(self.ends[cable].0, None), find(self.ends[cable].1, None));
            find(a, Some(b)) != b
        };
        cables.iter().filter(joins).copied().collect()
    }

    /// Returns these cables as a tree, breadth-first from its root.
    pub fn rooted(&self, root: NodeId, chosen: &[usize]) -> SpanningTree {
        let mut neighbors: Vec<Vec<(NodeId, LinkId)>> = vec![Vec::new(); self.ranks];
        for &cable in chosen {
            let ((a, b), [there, back]) = (self.ends[cable], self.links[cable]);
            neighbors[a].push((b, there));
            neighbors[b].push((a, back));
        }
        let mut down: Vec<Route> = Vec::with_capacity(chosen.len());
        let mut reached = vec![(root, None)];
        for next in 0..self.ranks {
            let (node, parent) = reached[next];
            for &(child, link) in neighbors[node].iter().filter(|(child, _)| Some(*child) != parent) {
                down.push(Box::new([link]));
                reached.push((child, Some(node)));
            }
        }
        SpanningTree { root, down, up: None }
    }

    /// Returns the lowest tree over these cables, which join all ranks, and its height: the tree of shortest routes
    /// from the centre.
    pub fn lowest(&self, cables: &[usize]) -> (u64, (NodeId, Vec<usize>)) {
        let mut usable = vec![false; self.ends.len()];
        cables.iter().for_each(|&cable| usable[cable] = true);
        let mut search = Shortest::new(self.ranks);
        let from = |root: NodeId| {
            let (height, tree) = self.shortest_routes(root, &usable, &mut search);
            (height, (root, tree))
        };
        NodeId::first(self.ranks).map(from).min_by_key(|(height, _)| *height).expect("a network has ranks")
    }

    /// Finds shortest routes from `root`; returns the height of their tree, and its cables.
    fn shortest_routes(&self, root: NodeId, usable: &[bool], search: &mut Shortest<u64, usize>) -> (u64, Vec<usize>) {
        search.start(root);
        while let Some((node, before)) = search.settle() {
            for &cable in self.of_rank[node].iter().filter(|&&cable| usable[cable]) {
                let (a, b) = self.ends[cable];
                search.offer(if a == node { b } else { a }, before + self.length[cable], cable);
            }
        }
        let height = NodeId::first(self.ranks).map(|rank| search.cost(rank)).max().unwrap_or(0);
        (height, NodeId::first(self.ranks).filter_map(|rank| search.last_edge(rank)).collect())
    }
}

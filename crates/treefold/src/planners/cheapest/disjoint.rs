//! A few trees of equal rate: cables are cut into slots of that rate, and edge-disjoint spanning trees are found among
//! the slots (matroid partition, Edmonds 1965, with the clumps of Roskind and Tarjan 1985).
//!
//! A slot goes to the first tree in which it closes no cycle. If it closes one in every tree, another slot of one of
//! these cycles makes room by moving on in the same manner. If no chain of moves ends, the slots that were tried join a
//! clump of nodes that no further slot can enlarge. Cost: O(k n) for each slot that is tried; a failed search tries
//! many, but at most n - 1 fail.

use super::{Arc, find, rooted};
use crate::planners::spanning::{Resources, SpanningTree};
use crate::search::BreadthFirst;
use crate::topology::{LinkId, NodeId, Topology};

/// Trees of one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualTrees {
    /// The bytes a second of each tree.
    pub rate: f64,
    /// The trees.
    pub trees: Vec<SpanningTree>,
}

/// Returns `count` spanning trees and the largest rate that all of them can have at once; `None` if the network has
/// switches, relays or unlike directions, or cannot hold so many trees.
pub fn equal_trees(topology: &Topology, resources: &Resources, count: usize) -> Option<EqualTrees> {
    if !topology.is_symmetric() || !topology.is_direct() || topology.ranks() < 2 {
        return None;
    }
    let cables = cables(topology);
    let capacity: Vec<f64> =
        cables.iter().map(|&cable| resources.capacity[resources.of_link[cable]].bytes_per_second()).collect();
    let packed = |rate: f64| packed(topology, &cables, &capacity, count, rate);
    let rates = rates(&capacity, count);
    // Smaller rates leave more slots, so all rates after the first possible one are possible.
    let first = rates.partition_point(|&rate| packed(rate).is_none());
    let rate = *rates.get(first)?;
    let tree = |slots: Vec<LinkId>| {
        let arc = |id: LinkId| {
            let link = topology.link(id);
            Arc { source: link.source, target: link.target, cost: 0.0, route: Box::new([id]) }
        };
        rooted(topology, slots.into_iter().map(arc).collect(), None)
    };
    Some(EqualTrees { rate, trees: packed(rate)?.into_iter().map(tree).collect() })
}

/// Returns one link of each cable, those near the network's centre first, so that trees branch there.
fn cables(topology: &Topology) -> Vec<LinkId> {
    let hops: Vec<Vec<u32>> = topology.rank_ids().map(|rank| hops_from(topology, rank)).collect();
    let farthest = |from: &&Vec<u32>| from.iter().copied().max();
    let from_centre = hops.iter().min_by_key(farthest).expect("there are ranks");
    let lesser = |&id: &LinkId| topology.reverse(id).is_some_and(|back| id < back);
    let mut cables: Vec<LinkId> = topology.link_ids().filter(lesser).collect();
    cables.sort_by_key(|&id| {
        let link = topology.link(id);
        from_centre[link.source] + from_centre[link.target]
    });
    cables
}

/// Returns the hops from a rank to each node of a connected network.
fn hops_from(topology: &Topology, rank: NodeId) -> Vec<u32> {
    let mut search = BreadthFirst::new(topology.nodes().len());
    search.flood(rank, |node| topology.targets(node));
    search.hops().to_vec()
}

/// Returns the rates at which some cable holds one tree more than at any larger rate, in falling order.
fn rates(capacity: &[f64], count: usize) -> Vec<f64> {
    let mut rates: Vec<f64> = capacity.iter().flat_map(|c| (1..=count).map(move |trees| c / trees as f64)).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    rates.dedup();
    rates
}

/// Returns the links of `count` trees of `rate`; `None` if the cables cannot hold them.
fn packed(
    topology: &Topology,
    cables: &[LinkId],
    capacity: &[f64],
    count: usize,
    rate: f64,
) -> Option<Vec<Vec<LinkId>>> {
    let held = |&capacity: &f64| ((capacity / rate * (1.0 + 1e-9)) as usize).min(count);
    let mut slots = Vec::new();
    for (&cable, held) in cables.iter().zip(capacity.iter().map(held)) {
        slots.extend(std::iter::repeat_n(cable, held));
    }
    let ends = slots.iter().map(|&cable| (topology.link(cable).source, topology.link(cable).target)).collect();
    let homes = Partition::new(topology.ranks(), ends, count).fill()?;
    let of_tree = |tree| slots.iter().zip(&homes).filter(move |(_, home)| **home == Some(tree)).map(|(&slot, _)| slot);
    Some((0..count).map(|tree| of_tree(tree).collect()).collect())
}

/// Slots in forests, none of which has a cycle.
struct Partition {
    ends: Vec<(NodeId, NodeId)>,
    /// The forest of each slot that is in one.
    home: Vec<Option<usize>>,
    /// The neighbours of each node in each forest, each with the slot that leads there.
    neighbors: Vec<Vec<Vec<(NodeId, usize)>>>,
    /// The clump of each node, as a union-find structure.
    clump: Vec<NodeId>,
}

impl Partition {
    fn new(ranks: u32, ends: Vec<(NodeId, NodeId)>, count: usize) -> Self {
        let home = vec![None; ends.len()];
        Self {
            ends,
            home,
            neighbors: vec![vec![Vec::new(); ranks as usize]; count],
            clump: NodeId::first(ranks as usize).collect(),
        }
    }

    /// Returns the forest of each slot, once all forests span; `None` if they cannot.
    fn fill(mut self) -> Option<Vec<Option<usize>>> {
        let wanted = self.neighbors.len() * (self.clump.len() - 1);
        let mut placed = 0;
        for slot in 0..self.ends.len() {
            if placed + (self.ends.len() - slot) < wanted {
                return None;
            }
            placed += usize::from(self.place(slot));
        }
        (placed == wanted).then_some(self.home)
    }

    /// Finds room for a slot, and moves others if needed; returns false if there is none.
    fn place(&mut self, slot: usize) -> bool {
        let (a, b) = self.ends[slot];
        if find(&mut self.clump, a) == find(&mut self.clump, b) {
            return false;
        }
        // The slot that wants the place of each slot; the first one has itself.
        let mut wanted_by: Vec<Option<usize>> = vec![None; self.ends.len()];
        wanted_by[slot] = Some(slot);
        let mut queue = vec![slot];
        let mut next = 0;
        while next < queue.len() {
            let asking = queue[next];
            next += 1;
            for forest in (0..self.neighbors.len()).filter(|&forest| self.home[asking] != Some(forest)) {
                let Some(cycle) = self.path(forest, self.ends[asking]) else {
                    self.move_up(asking, forest, &wanted_by);
                    return true;
                };
                for other in cycle {
                    if wanted_by[other].is_none() {
                        wanted_by[other] = Some(asking);
                        queue.push(other);
                    }
                }
            }
        }
        for stuck in queue {
            let (a, b) = (find(&mut self.clump, self.ends[stuck].0), find(&mut self.clump, self.ends[stuck].1));
            self.clump[a] = b;
        }
        false
    }

    /// Returns the slots of the path between two nodes of a forest; `None` if there is no path. A forest has at most
    /// one path, so a walk in any order finds it, and it ends there: no search from [`crate::search`] is needed.
    fn path(&self, forest: usize, (from, to): (NodeId, NodeId)) -> Option<Vec<usize>> {
        let neighbors = &self.neighbors[forest];
        let mut by: Vec<Option<(NodeId, usize)>> = vec![None; neighbors.len()];
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if node == to {
                let step = |&(node, _): &(NodeId, usize)| by[node].filter(|_| node != from);
                let last = by[to];
                return Some(std::iter::successors(last, step).map(|(_, slot)| slot).collect());
            }
            for &(next, slot) in &neighbors[node] {
                if next != from && by[next].is_none() {
                    by[next] = Some((node, slot));
                    stack.push(next);
                }
            }
        }
        None
    }

    /// Moves `slot` to `forest`, then to its old place the slot that wanted that, and so on.
    fn move_up(&mut self, mut slot: usize, mut forest: usize, wanted_by: &[Option<usize>]) {
        loop {
            let left = self.home[slot].replace(forest);
            let (a, b) = self.ends[slot];
            for (node, other) in [(a, b), (b, a)] {
                if let Some(left) = left {
                    self.neighbors[left][node].retain(|&(_, held)| held != slot);
                }
                self.neighbors[forest][node].push((other, slot));
            }
            let Some(left) = left else { return };
            slot = wanted_by[slot].expect("a slot that moves on was asked to");
            forest = left;
        }
    }
}

//! Low and cheap trees out of one rank (our own local search).
//!
//! A tree begins as that of the quickest ways, of which prices decide among equally quick ones, and another one as that
//! which the cheapest ways join within the limit of latency. Then each rank takes a cheaper parent wherever it and all
//! below it stay within the limit, until no rank finds one. The cheaper tree is taken. Cost: O(n) for a move and O(n d)
//! for a round over all ranks, with d ways into each; a few rounds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::planners::ways::{Way, Ways};
use crate::topology::NodeId;

/// The most rounds of the search.
const ROUNDS: usize = 12;

/// A tree in the making.
struct LowTree<'a, 'b> {
    ways: &'a Ways<'b>,
    root: NodeId,
    /// The way into each rank; the root has none.
    into: Into,
    /// The latency from the root to each rank, in picoseconds.
    depth: Vec<u64>,
    /// The latency from each rank to the farthest one below it.
    below: Vec<u64>,
    children: Vec<Vec<NodeId>>,
}

/// The way into each rank; the root has none.
type Into = Vec<Option<Way>>;

/// Returns a cheap tree out of `root` that reaches all ranks in `limit` picoseconds, or as soon as it can if that is
/// later; `None` if it does not reach all.
pub(super) fn low_tree(ways: &Ways, root: NodeId, ranks: u32, limit: u64) -> Option<Into> {
    let (into, depth) = quickest(ways, root, ranks)?;
    let limit = depth.iter().copied().max().unwrap_or(0).max(limit);
    let starts = [Some((into, depth)), cheapest_first(ways, root, ranks, limit)];
    let improved =
        starts.into_iter().flatten().map(|(into, depth)| LowTree::new(ways, root, into, depth).improved(limit));
    improved.min_by(|a, b| price_of(a).total_cmp(&price_of(b)))
}

fn price_of(into: &Into) -> f64 {
    into.iter().flatten().map(|way| way.price).sum()
}

/// Returns the tree that the cheapest way to a new rank joins again and again (as Prim does without directions), and
/// the latency to each rank; `None` if that does not reach all ranks within the limit.
fn cheapest_first(ways: &Ways, root: NodeId, ranks: u32, limit: u64) -> Option<(Into, Vec<u64>)> {
    let count = ranks as usize;
    let (mut into, mut depth) = (vec![None; count], vec![u64::MAX; count]);
    // Most ways into a rank are dearer than the cheapest one that is in the queue already.
    let mut cheapest = vec![f64::INFINITY; count];
    let mut queue = BinaryHeap::new();
    let (mut newest, mut joined) = (root, 1);
    depth[root] = 0;
    while joined < count {
        for &(next, place) in ways.out_of(newest) {
            let way = &ways.into(next)[place];
            if way.price < cheapest[next] && depth[next] == u64::MAX && depth[newest] + way.latency <= limit {
                cheapest[next] = way.price;
                // Prices are not negative, so their bits are ordered as they are.
                queue.push(Reverse((way.price.to_bits(), next, place)));
            }
        }
        let Reverse((_, next, place)) = queue.pop()?;
        newest = next;
        if depth[next] == u64::MAX {
            let way = ways.into(next)[place];
            depth[next] = depth[way.source] + way.latency;
            into[next] = Some(way);
            joined += 1;
        }
    }
    Some((into, depth))
}

/// Returns the tree of quickest ways (Dijkstra, dense), and the latency to each rank; prices decide among equals.
fn quickest(ways: &Ways, root: NodeId, ranks: u32) -> Option<(Into, Vec<u64>)> {
    let count = ranks as usize;
    let (mut into, mut depth) = (vec![None; count], vec![u64::MAX; count]);
    let mut search = crate::search::Shortest::<u64, NodeId>::new(count);
    search.start(root);
    while let Some((rank, so_far)) = search.settle() {
        depth[rank] = so_far;
        for &(next, place) in ways.out_of(rank) {
            search.offer(next, so_far + ways.into(next)[place].latency, rank);
        }
    }
    for rank in NodeId::first(count).filter(|&rank| rank != root) {
        let quick = |way: &&Way| depth[way.source].checked_add(way.latency) == Some(depth[rank]) && way.source != rank;
        let cheapest = ways.into(rank).iter().filter(quick).min_by(|a, b| a.price.total_cmp(&b.price));
        into[rank] = Some(*cheapest?);
    }
    // Ways without latency could close a circle among ranks at one depth.
    let is_tree = NodeId::first(count).all(|rank| reaches_root(&into, rank, count));
    if !is_tree {
        for rank in NodeId::first(count).filter(|&rank| rank != root) {
            let before = search.last_edge(rank)?;
            let from = ways.into(rank).iter().filter(|way| way.source == before);
            into[rank] = Some(*from.min_by_key(|way| way.latency)?);
        }
    }
    Some((into, depth))
}

fn reaches_root(into: &[Option<Way>], mut rank: NodeId, count: usize) -> bool {
    for _ in 0..=count {
        match &into[rank] {
            Some(way) => rank = way.source,
            None => return true,
        }
    }
    false
}

impl<'a, 'b> LowTree<'a, 'b> {
    fn new(ways: &'a Ways<'b>, root: NodeId, into: Into, depth: Vec<u64>) -> Self {
        let count = into.len();
        let mut children = vec![Vec::new(); count];
        for rank in NodeId::first(count) {
            if let Some(way) = &into[rank] {
                children[way.source].push(rank);
            }
        }
        let mut tree = Self { ways, root, into, depth, below: vec![0; count], children };
        tree.measure(root);
        tree
    }

    /// Returns the tree after all ranks have looked for cheaper parents.
    fn improved(mut self, limit: u64) -> Into {
        for _ in 0..ROUNDS {
            let ranks = NodeId::first(self.into.len());
            if !ranks.fold(false, |moved, rank| self.improve(rank, limit) | moved) {
                break;
            }
        }
        self.into
    }

    /// Measures depths below a rank, whose own depth is right, and what hangs below each.
    fn measure(&mut self, rank: NodeId) {
        let mut order = vec![rank];
        let mut next = 0;
        while next < order.len() {
            let parent = order[next];
            next += 1;
            for place in 0..self.children[parent].len() {
                let child = self.children[parent][place];
                self.depth[child] = self.depth[parent] + self.latency_into(child);
                order.push(child);
            }
        }
        order.into_iter().rev().for_each(|rank| self.below[rank] = self.farthest_below(rank));
    }

    fn latency_into(&self, rank: NodeId) -> u64 {
        self.into[rank].as_ref().map_or(0, |way| way.latency)
    }

    fn farthest_below(&self, rank: NodeId) -> u64 {
        let through = |&child: &NodeId| self.latency_into(child) + self.below[child];
        self.children[rank].iter().map(through).max().unwrap_or(0)
    }

    /// Gives a rank a cheaper parent, if there is one within the limit; returns whether it has moved.
    fn improve(&mut self, rank: NodeId, limit: u64) -> bool {
        let Some(present) = self.into[rank] else { return false };
        let mut best = present;
        for way in self.ways.into(rank) {
            let fits = self.depth[way.source] + way.latency + self.below[rank] <= limit;
            if way.price < best.price * (1.0 - 1e-9) && fits && !self.is_below(way.source, rank) {
                best = *way;
            }
        }
        if best.price >= present.price * (1.0 - 1e-9) {
            return false;
        }
        self.children[present.source].retain(|&child| child != rank);
        self.children[best.source].push(rank);
        self.into[rank] = Some(best);
        self.depth[rank] = self.depth[best.source] + best.latency;
        self.measure(rank);
        self.remeasure_above(present.source);
        self.remeasure_above(best.source);
        true
    }

    /// Measures what hangs below a rank, and below all above it, anew.
    fn remeasure_above(&mut self, mut rank: NodeId) {
        loop {
            self.below[rank] = self.farthest_below(rank);
            match &self.into[rank] {
                Some(way) if rank != self.root => rank = way.source,
                _ => return,
            }
        }
    }

    /// Returns whether `rank` is `top` or hangs below it.
    fn is_below(&self, mut rank: NodeId, top: NodeId) -> bool {
        while rank != top {
            match &self.into[rank] {
                Some(way) => rank = way.source,
                None => return false,
            }
        }
        true
    }
}

//! Searches of graphs whose nodes have numbers: shortest routes (Dijkstra 1959) and breadth-first.
//!
//! A search knows no links. Whoever searches takes node by node out of it, nearest first, and offers it what lies
//! beyond; so each search walks its own graph by its own rules, and one that is used again keeps its memory.
//! Cost: O(m log n) for shortest routes and O(m) breadth-first, and O(n) for a new start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Add;

use crate::ids::NodeId;
use crate::units::Time;

#[cfg(test)]
mod tests;

/// What a route costs. Costs are not negative, and add up along a route.
pub(crate) trait Cost: Copy + Add<Output = Self> {
    /// The cost of going nowhere.
    const ZERO: Self;
    /// The cost of a node that no route has reached: more than that of any route.
    const UNREACHED: Self;

    /// Returns the number by which this cost is compared.
    fn key(self) -> u64;
}

impl Cost for u64 {
    const ZERO: Self = 0;
    const UNREACHED: Self = u64::MAX;

    fn key(self) -> u64 {
        self
    }
}

impl Cost for Time {
    const ZERO: Self = Self::ZERO;
    const UNREACHED: Self = Self::from_picoseconds(u64::MAX);

    fn key(self) -> u64 {
        self.picoseconds()
    }
}

/// Prices. As they are not negative, their bits are ordered as they are.
impl Cost for f64 {
    const ZERO: Self = 0.0;
    const UNREACHED: Self = f64::INFINITY;

    fn key(self) -> u64 {
        self.to_bits()
    }
}

/// A search for shortest routes, over edges that `E` tells apart.
///
/// The node that is settled next is the one with the least cost of those offered, and of equals the one with the least
/// number. Of equally cheap routes to a node, the one that is offered first stays.
pub(crate) struct Shortest<C: Cost, E> {
    /// The cost of the cheapest route to each node, and its last edge.
    found: Vec<(C, Option<E>)>,
    queue: BinaryHeap<Reverse<Entry>>,
}

/// A node in the queue under the key of its cost. One number is compared in fewer instructions than two.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(key: u64, node: NodeId) -> Reverse<Self> {
        Reverse(Self(u128::from(key) << u32::BITS | u128::from(node.0)))
    }

    fn key(&self) -> u64 {
        (self.0 >> u32::BITS) as u64
    }

    fn node(&self) -> NodeId {
        NodeId(self.0 as u32)
    }
}

impl<C: Cost, E: Copy> Shortest<C, E> {
    /// Prepares searches of a graph of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self { found: vec![(C::UNREACHED, None); nodes], queue: BinaryHeap::new() }
    }

    /// Forgets the last search and begins one at `source`.
    pub fn start(&mut self, source: NodeId) {
        self.found.fill((C::UNREACHED, None));
        self.queue.clear();
        self.restart(source);
    }

    /// Lets routes of the present search also begin at `node`, which keeps the edge by which it was reached.
    pub fn restart(&mut self, node: NodeId) {
        self.found[node].0 = C::ZERO;
        self.queue.push(Entry::new(C::ZERO.key(), node));
    }

    /// Returns the nearest of the nodes that were offered and not returned since they were last offered for less, and
    /// its cost. The caller then offers the nodes to which edges lead from there.
    #[inline]
    pub fn settle(&mut self) -> Option<(NodeId, C)> {
        while let Some(Reverse(entry)) = self.queue.pop() {
            let (cost, _) = self.found[entry.node()];
            // A node that was offered for less since has been returned already.
            if cost.key() == entry.key() {
                return Some((entry.node(), cost));
            }
        }
        None
    }

    /// Offers a route to `node` for `cost`, whose last edge is `edge`; it counts if it is cheaper than all before.
    #[inline]
    pub fn offer(&mut self, node: NodeId, cost: C, edge: E) {
        let found = &mut self.found[node];
        if cost.key() < found.0.key() {
            *found = (cost, Some(edge));
            self.queue.push(Entry::new(cost.key(), node));
        }
    }

    /// Returns the cost of the cheapest route to `node`, [`Cost::UNREACHED`] if there is none.
    pub fn cost(&self, node: NodeId) -> C {
        self.found[node].0
    }

    /// Returns the last edge of the cheapest route to `node`; starts and unreached nodes have none.
    pub fn last_edge(&self, node: NodeId) -> Option<E> {
        self.found[node].1
    }

    /// Returns the edges of the cheapest route to `target`, of which `source_of` tells where each begins; there are
    /// none where no route leads.
    pub fn route<R: From<Vec<E>>>(&self, target: NodeId, source_of: impl Fn(E) -> NodeId) -> R {
        let back = std::iter::successors(self.last_edge(target), |&edge| self.last_edge(source_of(edge)));
        let mut route: Vec<E> = back.collect();
        route.reverse();
        route.into()
    }
}

/// A breadth-first search: nodes come in the order of their hops, and those with equal hops in the order in which they
/// were offered.
pub(crate) struct BreadthFirst {
    hops: Vec<u32>,
    order: Vec<NodeId>,
    next: usize,
}

impl BreadthFirst {
    /// The hops of a node that no search has reached.
    pub const UNREACHED: u32 = u32::MAX;

    /// Prepares searches of a graph of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self { hops: vec![Self::UNREACHED; nodes], order: Vec::new(), next: 0 }
    }

    /// Begins a search at `start`, which nothing has reached yet. It does not return to nodes of searches before.
    pub fn start(&mut self, start: NodeId) {
        self.hops[start] = 0;
        self.order.push(start);
    }

    /// Returns the next node; the caller then offers the nodes to which edges lead from there.
    #[inline]
    pub fn visit(&mut self) -> Option<NodeId> {
        let node = *self.order.get(self.next)?;
        self.next += 1;
        Some(node)
    }

    /// Offers `node`, to which an edge leads from the node that was visited last; it counts if it is new.
    #[inline]
    pub fn offer(&mut self, node: NodeId) {
        if self.hops[node] == Self::UNREACHED {
            self.hops[node] = self.hops[self.order[self.next - 1]] + 1;
            self.order.push(node);
        }
    }

    /// Searches all that can be reached from `start`: `ends_of` tells to which nodes edges lead from a node.
    pub fn flood<I: IntoIterator<Item = NodeId>>(&mut self, start: NodeId, ends_of: impl Fn(NodeId) -> I) {
        self.start(start);
        while let Some(node) = self.visit() {
            ends_of(node).into_iter().for_each(|end| self.offer(end));
        }
    }

    /// Returns the hops to each node, [`Self::UNREACHED`] where no route leads.
    pub fn hops(&self) -> &[u32] {
        &self.hops
    }

    /// Returns whether `node` was reached.
    pub fn reaches(&self, node: NodeId) -> bool {
        self.hops[node] != Self::UNREACHED
    }

    /// Returns the nodes that were reached, in the order in which they were.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }
}

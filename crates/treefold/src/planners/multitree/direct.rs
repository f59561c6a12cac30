//! Growing trees on direct networks: every node is a rank.
//!
//! Data layout: a node's links are bits of 32-bit words. A tree's frontier is a list of (word, bits whose far
//! end the tree still lacks); the links that are free in this step are one mask a word, small enough for the
//! first-level cache. So looking at a frontier node is one AND. Within a step a tree's pointer into its
//! frontier only moves forward, because links only get taken and nodes only get added; bits that turn out to
//! lead to a node which the tree already has are cleared for good, empty words leave the frontier.
//!
//! Cost: steps x trees x frontier, plus one bit test an edge found; frontiers are the trees' perimeters.

use super::{Forest, Ground, MAX_STEPS, Neighbors, PathId, Paths, Turn};
use crate::topology::{LinkId, NodeId, Topology};

/// Every so many steps all frontiers are checked for nodes that have joined meanwhile.
const PRUNE_EVERY: u32 = 8;

/// The links of all nodes as bits of words, in the order in which they are tried.
struct Words {
    /// Words of node `v`: `first[v]..first[v + 1]`.
    first: Vec<u32>,
    /// All links whose far end is another node, a bit each.
    full: Vec<u32>,
    /// Link and far end of bit `b` of word `w`: index `32 w + b`.
    link: Vec<LinkId>,
    far_end: Vec<NodeId>,
}

impl Words {
    fn new(ground: &Ground) -> Self {
        let mut words = Self { first: vec![0], full: Vec::new(), link: Vec::new(), far_end: Vec::new() };
        for node in 0..ground.topology.ranks() {
            let mut links: Vec<LinkId> =
                ground.topology.outgoing(node).iter().copied().filter(|&link| ground.room[link as usize] > 0).collect();
            if ground.neighbors == Neighbors::Reversed {
                links.reverse();
            }
            for chunk in links.chunks(32) {
                words.full.push(((1u64 << chunk.len()) - 1) as u32);
                for slot in 0..32 {
                    let link = chunk.get(slot).copied();
                    words.link.push(link.unwrap_or(LinkId::MAX));
                    words.far_end.push(link.map_or(NodeId::MAX, |link| ground.topology.link(link).target));
                }
            }
            words.first.push(words.full.len() as u32);
        }
        words
    }
}

/// One tree while it grows.
struct Growing {
    /// One bit a node: whether the tree has it.
    has: Vec<u64>,
    missing: u32,
    frontier: Vec<(u32, u32)>,
    /// Frontier entries from here on are exhausted in this step; those from `known` on joined in it.
    pointer: usize,
    known: usize,
    edges: Vec<(PathId, u16)>,
}

impl Growing {
    fn new(root: NodeId, ranks: u32, words: &Words) -> Self {
        let mut tree = Self {
            has: vec![0; ranks.div_ceil(64) as usize],
            missing: ranks,
            frontier: Vec::new(),
            pointer: 0,
            known: 0,
            edges: Vec::with_capacity(ranks as usize - 1),
        };
        tree.join(root, words);
        tree
    }

    fn has(&self, node: NodeId) -> bool {
        self.has[node as usize / 64] >> (node % 64) & 1 == 1
    }

    fn join(&mut self, node: NodeId, words: &Words) {
        self.has[node as usize / 64] |= 1 << (node % 64);
        self.missing -= 1;
        let own = words.first[node as usize]..words.first[node as usize + 1];
        self.frontier.extend(own.map(|word| (word, words.full[word as usize])));
    }

    fn begin_step(&mut self, prune: bool, words: &Words) {
        if prune {
            let has = &self.has;
            for (word, bits) in &mut self.frontier {
                let mut left = *bits;
                while left != 0 {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    let node = words.far_end[*word as usize * 32 + bit as usize];
                    *bits &= !(((has[node as usize / 64] >> (node % 64) & 1) as u32) << bit);
                }
            }
        }
        self.frontier.retain(|&(_, bits)| bits != 0);
        self.pointer = 0;
        self.known = self.frontier.len();
    }

    /// Adds one node over a free link; false if this step has none for this tree.
    fn add_node(&mut self, step: u16, words: &Words, free: &mut Free) -> bool {
        while self.pointer < self.known {
            let (word, bits) = self.frontier[self.pointer];
            let usable = bits & free.bits[word as usize];
            if usable == 0 {
                self.pointer += 1;
                continue;
            }
            let bit = usable.trailing_zeros();
            let slot = word as usize * 32 + bit as usize;
            self.frontier[self.pointer].1 &= !(1 << bit);
            let child = words.far_end[slot];
            if !self.has(child) {
                free.take(word, bit, words.link[slot]);
                self.edges.push((words.link[slot], step));
                self.join(child, words);
                return true;
            }
        }
        false
    }
}

/// The links that are free in the current step.
struct Free {
    bits: Vec<u32>,
    left: Vec<u32>,
}

impl Free {
    fn reset(&mut self, words: &Words, room: &[u32]) {
        self.bits.copy_from_slice(&words.full);
        self.left.copy_from_slice(room);
    }

    fn take(&mut self, word: u32, bit: u32, link: LinkId) {
        self.left[link as usize] -= 1;
        if self.left[link as usize] == 0 {
            self.bits[word as usize] &= !(1 << bit);
        }
    }
}

/// Grows a tree from every root; `None` if it takes more steps than a plan can hold.
pub(super) fn grow(ground: &Ground) -> Option<Forest> {
    let words = Words::new(ground);
    let ranks = ground.topology.ranks();
    let mut trees: Vec<Growing> = ground.roots.iter().map(|&root| Growing::new(root, ranks, &words)).collect();
    let mut free = Free { bits: words.full.clone(), left: ground.room.clone() };
    let mut step = 0;
    let mut unfinished: Vec<usize> = (0..trees.len()).filter(|&tree| trees[tree].missing > 0).collect();
    while !unfinished.is_empty() {
        step += 1;
        if step > MAX_STEPS {
            return None;
        }
        free.reset(&words, &ground.room);
        for &tree in &unfinished {
            trees[tree].begin_step(step % PRUNE_EVERY == 0, &words);
        }
        if ground.turn == Turn::RemainingHeight {
            unfinished.sort_by_key(|&tree| (std::cmp::Reverse(remaining_height(ground.topology, &trees[tree])), tree));
        }
        let mut in_turn = unfinished.clone();
        while !in_turn.is_empty() {
            in_turn.retain(|&tree| trees[tree].add_node(step as u16, &words, &mut free));
        }
        unfinished.retain(|&tree| trees[tree].missing > 0);
    }
    Some(Forest { edges: trees.into_iter().map(|tree| tree.edges).collect(), steps: step as u16, paths: Paths::Links })
}

/// Hops from the tree to the missing node farthest from it.
fn remaining_height(topology: &Topology, tree: &Growing) -> u32 {
    let mut seen = tree.has.clone();
    let mut level: Vec<NodeId> = (0..topology.ranks()).filter(|&node| tree.has(node)).collect();
    let mut height = 0;
    loop {
        let mut next = Vec::new();
        for &link in level.iter().flat_map(|&node| topology.outgoing(node)) {
            let node = topology.link(link).target;
            if seen[node as usize / 64] >> (node % 64) & 1 == 0 {
                seen[node as usize / 64] |= 1 << (node % 64);
                next.push(node);
            }
        }
        if next.is_empty() {
            return height;
        }
        height += 1;
        level = next;
    }
}

//! Grows trees on direct networks, where every node is a rank.
//!
//! Data layout: a node's links are bits of 12-bit words. A tree's frontier is a list of words with the bits whose far
//! end the tree still lacks, packed into four bytes each. As turns go around all trees, the number of cache lines of a
//! tree that a turn touches decides the speed. The links that are free in this step are one mask a word, small enough
//! for the first-level cache, so a frontier node is tested by one AND. Within a step a tree's pointer into its frontier
//! only moves forward, because links only get taken and nodes only get added. A bit that turns out to lead to a node
//! which the tree already has is cleared for good, and empty words leave the frontier.
//!
//! Cost: steps x trees x frontier, plus one bit test for each edge; frontiers are the trees' perimeters.

use super::remaining::Remaining;
use super::{Forest, Ground, MAX_STEPS_OF_HALF, RouteId, RoutesFound};
use crate::planners::options::{NeighborOrder, TreeOrder};
use crate::topology::{LinkId, NodeId, Topology};

/// The number of steps after which all frontiers are checked for nodes that have joined meanwhile.
const PRUNE_EVERY: u32 = 16;

/// The links in a word. With [`crate::topology::MAX_NODES`] and [`crate::topology::MAX_LINKS`], a word's number and its
/// bits fit into 32 bits.
const WORD: usize = 12;

/// The number of a word above its bits.
type Packed = u32;

fn pack(word: u32, bits: u16) -> Packed {
    word << WORD | u32::from(bits)
}

fn word_of(packed: Packed) -> u32 {
    packed >> WORD
}

fn bits_of(packed: Packed) -> u32 {
    packed & ((1 << WORD) - 1)
}

/// The links of all nodes as bits of words, in the order in which they are tried.
struct Words {
    /// The words of node `v` are `first[v]..first[v + 1]`.
    first: Vec<u32>,
    /// All links of each word, a bit for each.
    full: Vec<u16>,
    /// The index in `links` at which each word's bits begin.
    base: Vec<u32>,
    /// The link and the far end of each bit.
    links: Vec<(LinkId, NodeId)>,
}

impl Words {
    fn new(ground: &Ground) -> Self {
        let mut words = Self { first: vec![0], full: Vec::new(), base: Vec::new(), links: Vec::new() };
        for node in ground.topology.rank_ids() {
            let usable = |link: &LinkId| ground.room[*link] > 0;
            let mut links: Vec<LinkId> = ground.topology.outgoing(node).iter().copied().filter(usable).collect();
            if ground.settings.neighbor_order == NeighborOrder::Reversed {
                links.reverse();
            }
            for chunk in links.chunks(WORD) {
                words.full.push((1 << chunk.len()) - 1);
                words.base.push(words.links.len() as u32);
                words.links.extend(chunk.iter().map(|&link| (link, ground.topology.link(link).target)));
            }
            words.first.push(words.full.len() as u32);
        }
        words
    }

    fn link(&self, word: u32, bit: u32) -> (LinkId, NodeId) {
        self.links[(self.base[word as usize] + bit) as usize]
    }
}

/// A tree that is growing.
struct Growing {
    missing: u32,
    /// Entries of the frontier before this one are exhausted in this step.
    pointer: u32,
    /// Entries of the frontier from this one on have joined in this step.
    known: u32,
    frontier: Vec<Packed>,
}

/// The nodes that each tree has, as a row of bits a tree.
struct Members {
    stride: usize,
    bits: Vec<u64>,
}

impl Members {
    fn new(trees: usize, ranks: u32) -> Self {
        let stride = ranks.div_ceil(64) as usize;
        Self { stride, bits: vec![0; trees * stride] }
    }

    fn of(&self, tree: usize) -> &[u64] {
        &self.bits[tree * self.stride..(tree + 1) * self.stride]
    }

    /// Adds `node`; returns false if the tree has it already.
    fn insert(&mut self, tree: usize, node: NodeId) -> bool {
        let word = &mut self.bits[tree * self.stride + node.index() / 64];
        let before = *word;
        *word |= 1 << (node.0 % 64);
        before != *word
    }
}

fn contains(members: &[u64], node: NodeId) -> bool {
    members[node.index() / 64] >> (node.0 % 64) & 1 == 1
}

impl Growing {
    fn new(root: NodeId, ranks: u32, words: &Words) -> Self {
        let mut tree = Self { missing: ranks, pointer: 0, known: 0, frontier: Vec::new() };
        tree.join(root, words);
        tree
    }

    fn join(&mut self, node: NodeId, words: &Words) {
        self.missing -= 1;
        let own = words.first[node]..words.first[node.index() + 1];
        self.frontier.extend(own.map(|word| pack(word, words.full[word as usize])));
    }

    fn begin_step(&mut self) {
        self.pointer = 0;
        self.known = self.frontier.len() as u32;
    }

    /// Clears the bits of nodes that have joined meanwhile, and drops empty words.
    fn prune(&mut self, members: &[u64], words: &Words) {
        self.frontier.retain_mut(|packed| {
            let mut left = bits_of(*packed);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let (_, node) = words.link(word_of(*packed), bit);
                *packed &= !(u32::from(contains(members, node)) << bit);
            }
            bits_of(*packed) != 0
        });
    }

    /// Returns the next free link out of the frontier, as its word, its bit and the link, and the node to which it
    /// leads, which the tree may have.
    fn next_free(&mut self, words: &Words, free: &Free) -> Option<(u32, u32, LinkId, NodeId)> {
        let rest = &mut self.frontier[self.pointer as usize..self.known as usize];
        let Some(ahead) = rest.iter().position(|&packed| free.of(packed) != 0) else {
            self.pointer = self.known;
            return None;
        };
        self.pointer += ahead as u32;
        let packed = &mut rest[ahead];
        let (word, bit) = (word_of(*packed), free.of(*packed).trailing_zeros());
        *packed &= !(1 << bit);
        let (link, child) = words.link(word, bit);
        Some((word, bit, link, child))
    }
}

/// The links that are free in the current step.
struct Free {
    bits: Vec<u16>,
    /// The messages that each link takes beyond its first; empty if no link takes a second one.
    extra: Vec<u32>,
    /// The links with room left: at 0 the step is over, whatever part of the frontiers is unexplored.
    links: usize,
}

impl Free {
    fn reset(&mut self, words: &Words, extra: &[u32]) {
        self.bits.copy_from_slice(&words.full);
        self.extra.copy_from_slice(extra);
        self.links = words.links.len();
    }

    /// Returns the bits of a frontier word whose links are free.
    fn of(&self, packed: Packed) -> u32 {
        packed & u32::from(self.bits[word_of(packed) as usize])
    }

    fn take(&mut self, word: u32, bit: u32, link: LinkId) {
        match self.extra.get_mut(link.index()) {
            Some(extra) if *extra > 0 => *extra -= 1,
            _ => {
                self.bits[word as usize] &= !(1 << bit);
                self.links -= 1;
            }
        }
    }
}

/// Returns how many messages each link takes beyond one; nothing if no link takes a second one.
fn extra_room(room: &[u32]) -> Vec<u32> {
    let extra: Vec<u32> = room.iter().map(|room| room.saturating_sub(1)).collect();
    if extra.iter().any(|&extra| extra > 0) { extra } else { Vec::new() }
}

/// Grows a tree from every root; returns `None` if it takes more steps than a plan can hold.
pub(super) fn grow(ground: &Ground) -> Option<Forest> {
    let words = Words::new(ground);
    let (ranks, count) = (ground.topology.ranks(), ground.settings.roots.len());
    let mut members = Members::new(count, ranks);
    let mut trees: Vec<Growing> = ground.settings.roots.iter().map(|&root| Growing::new(root, ranks, &words)).collect();
    for (tree, &root) in ground.settings.roots.iter().enumerate() {
        members.insert(tree, root);
    }
    let extra = extra_room(&ground.room);
    let mut free = Free { bits: words.full.clone(), extra: extra.clone(), links: 0 };
    let mut joined = Joined { edges: Vec::with_capacity(count * (ranks as usize - 1)), first_of_step: Vec::new() };
    let mut remaining = (ground.settings.tree_order == TreeOrder::RemainingHeight)
        .then(|| Remaining::new(ground.topology, ground.settings.roots));
    let mut unfinished: Vec<u32> = (0..count as u32).filter(|_| ranks > 1).collect();
    while !unfinished.is_empty() {
        joined.first_of_step.push(joined.edges.len());
        let step = joined.first_of_step.len() as u32;
        if step > MAX_STEPS_OF_HALF {
            return None;
        }
        free.reset(&words, &extra);
        for &tree in &unfinished {
            if step.is_multiple_of(PRUNE_EVERY) {
                trees[tree as usize].prune(members.of(tree as usize), &words);
            }
            trees[tree as usize].begin_step();
        }
        if let Some(remaining) = &mut remaining {
            let before = joined.first_of_step.iter().rev().nth(1).map_or(0, |&first| first);
            let last_step = &joined.edges[before..];
            last_step.iter().for_each(|&(tree, link)| remaining.join(tree as usize, ground.topology.link(link).target));
            unfinished.sort_by_key(|&tree| (std::cmp::Reverse(remaining.height(tree as usize)), tree));
        }
        take_turns(unfinished.clone(), &mut trees, &mut members, &words, &mut free, &mut joined);
        unfinished.retain(|&tree| trees[tree as usize].missing > 0);
    }
    Some(joined.into_forest(count, ground.topology))
}

/// Runs one time step: trees add one node each, in turn, until none can.
fn take_turns(
    mut in_turn: Vec<u32>,
    trees: &mut [Growing],
    members: &mut Members,
    words: &Words,
    free: &mut Free,
    joined: &mut Joined,
) {
    let mut add_node = |tree: u32| {
        while free.links > 0 {
            let (word, bit, link, child) = trees[tree as usize].next_free(words, free)?;
            if members.insert(tree as usize, child) {
                free.take(word, bit, link);
                joined.edges.push((tree, link));
                trees[tree as usize].join(child, words);
                return Some(());
            }
        }
        None
    };
    while !in_turn.is_empty() {
        in_turn.retain(|&tree| add_node(tree).is_some());
    }
}

/// All edges in order of joining. They are in one list for all trees, because appending to thousands of lists in turn
/// would touch a page of memory each time.
struct Joined {
    edges: Vec<(u32, LinkId)>,
    first_of_step: Vec<usize>,
}

impl Joined {
    fn into_forest(self, trees: usize, topology: &Topology) -> Forest {
        let edges_a_tree = topology.ranks() as usize - 1;
        let mut next: Vec<usize> = (0..trees).map(|tree| tree * edges_a_tree).collect();
        let mut edges = vec![(RouteId::default(), 0); self.edges.len()];
        let ends = self.first_of_step.iter().skip(1).copied().chain([self.edges.len()]);
        for ((step, &first), end) in (1..).zip(&self.first_of_step).zip(ends) {
            for &(tree, link) in &self.edges[first..end] {
                edges[next[tree as usize]] = (RouteId(link.0), step);
                next[tree as usize] += 1;
            }
        }
        let routes = RoutesFound::Links(LinkId::first(topology.links().len()).collect());
        Forest { edges, edges_a_tree, steps: self.first_of_step.len() as u16, routes }
    }
}

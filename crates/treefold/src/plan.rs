//! A plan: phases of weighted trees. It says which part of the vector travels over which tree, and when.
//!
//! A tree carries a span of the vector (integer units), has one root, and up to two halves: a reduce tree
//! into the root (`up`) and a broadcast tree out of it (`down`). An edge is a lane (source, destination,
//! route) and a step. A phase reads the state the previous one left; in it each rank receives each unit
//! from at most one tree, and what a rank sent without receiving is undefined afterwards.
//!
//! Invariants of every half, which [`check`] proves: edges stand breadth-first from the root with siblings
//! contiguous, steps rise towards the root going up and away from it going down.
//!
//! Layout: struct of arrays, 6 bytes an edge; lanes are interned because a network has far fewer lanes
//! than a plan has edges.

pub mod alpha_beta;
pub mod check;
pub mod check_schedule;
mod collective;
mod derive;
mod hazards;
mod json;
mod lanes;
mod load;
mod lowering;
mod messages;
mod moved;
pub mod pipeline;
pub mod schedule;
pub mod tables;
mod unproven;
mod weights;

use std::ops::Range;
use std::sync::Arc;

pub use collective::{Collective, Definition, Held};
pub use derive::{derive, reduce_halves};
pub use lanes::{LaneId, LaneRef, LaneRoutes, Lanes, Path};
pub use load::{LinkLoads, Shape as TreeShape};
pub(crate) use messages::order_by_step;
pub use messages::{Message, for_each_step};
pub use unproven::Unproven;

use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, Bytes};

/// An all-reduce, or another collective, on one network.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The network it is for.
    pub topology: Arc<Topology>,
    /// Name of the planner.
    pub algorithm: String,
    /// What it computes.
    pub collective: Collective,
    /// The vector is cut into this many equal parts.
    pub units: u64,
    /// Sources, destinations and routes.
    pub lanes: Lanes,
    /// In order; each reads what the one before left.
    pub phases: Vec<Phase>,
    /// All trees, phase by phase.
    pub trees: Vec<Tree>,
    /// All edges that trees own.
    pub edges: Edges,
    /// Size of the vector that it was made for, where that is known.
    pub size: Option<Bytes>,
    /// Simulator by which it was chosen among others.
    pub judged_by: Option<String>,
}

impl PartialEq for Plan {
    /// Whether both send the same, tree by tree and in the same order, and were made for the same.
    fn eq(&self, other: &Self) -> bool {
        let facts = |plan: &Self| (plan.collective, plan.units, plan.size, plan.trees.len());
        facts(self) == facts(other)
            && (&self.algorithm, &self.judged_by) == (&other.algorithm, &other.judged_by)
            && (Arc::ptr_eq(&self.topology, &other.topology) || self.topology == other.topology)
            && (&self.phases, &self.lanes) == (&other.phases, &other.lanes)
            && self.trees.iter().zip(&other.trees).all(|(a, b)| self.is_same_tree(a, other, b))
    }
}

/// Trees that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its trees.
    pub trees: Range<usize>,
    /// How its transfers follow each other.
    pub pace: Pace,
    /// Number of steps, of both halves together; 0 for a stream.
    pub steps: u16,
}

/// How the transfers of a phase follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Step by step.
    Step(Sharing),
    /// In chunks that follow each other through each tree without pause.
    Stream,
    /// The same, but each tree goes no faster than its part of what the busiest link allows, so that no tree takes
    /// from another: what trees with rates want.
    Paced,
}

impl Pace {
    /// Whether trees are cut into chunks rather than paced in steps.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Step(_))
    }
}

/// What a plan promises about links within a step. A link has as many units as its bandwidth holds, at least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sharing {
    /// Nothing: routes may cross.
    Shared,
    /// No link carries more transfers than it has units of this bandwidth: MultiTree's "no link twice in a step".
    Transfers(Bandwidth),
    /// The same, but transfers with the same lane count as one message, as halving-doubling sends them.
    Messages(Bandwidth),
}

/// One spanning tree and its part of the vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// Units of the vector that travel over it.
    pub span: Range<u64>,
    /// Where the reduce half ends and the broadcast half begins.
    pub root: NodeId,
    /// Reduce half: edges point to the root.
    pub up: Half,
    /// Broadcast half: edges point away from the root.
    pub down: Half,
    /// Size of the pieces that follow each other in a stream.
    pub chunk: Chunk,
}

/// One half of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Half {
    /// The tree only reduces, or only broadcasts.
    None,
    /// Edges of its own.
    Own(Range<usize>),
    /// The other half's edges with lanes and steps reversed.
    Mirror,
}

/// How a stream cuts a tree's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// Not at all.
    One,
    /// Into this many chunks.
    Count(u32),
    /// Into chunks of about this many bytes.
    Bytes(u64),
    /// As is best for the size, found when lowering.
    Best,
}

/// All edges of a plan, as arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edges {
    /// Lane of each edge: from the child going up, from the parent going down.
    pub lane: Vec<LaneId>,
    /// Step of each edge, from 1; 0 in streams.
    pub step: Vec<u16>,
}

/// Which half of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards the root: reduce.
    Up,
    /// Away from the root: broadcast.
    Down,
}

/// An edge as seen from the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The end nearer to the root.
    pub parent: NodeId,
    /// The end farther from the root.
    pub child: NodeId,
    /// The lane in the direction in which the data moves.
    pub lane: LaneRef,
    /// Step, from 1; 0 in streams.
    pub step: u16,
}

impl Direction {
    /// Both, in the order in which they run.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// Most units of a plan: more would only serve to overflow sums of them.
pub const MAX_UNITS: u64 = 1 << 40;

impl Plan {
    /// An empty all-reduce plan whose vector is cut into `units` parts.
    pub fn new(topology: &Arc<Topology>, algorithm: impl Into<String>, units: u64) -> Self {
        Self {
            topology: Arc::clone(topology),
            algorithm: algorithm.into(),
            collective: Collective::AllReduce,
            units,
            lanes: Lanes::default(),
            phases: Vec::new(),
            trees: Vec::new(),
            edges: Edges::default(),
            size: None,
            judged_by: None,
        }
    }

    /// The same plan, made for a vector of this size; where it was chosen among others, by this simulator.
    pub fn made_for(&self, size: Bytes, judged_by: Option<String>) -> Self {
        Self { size: Some(size), judged_by, ..self.clone() }
    }

    /// Who gives or gets what the others do not, where the collective has a root: the root of the first tree.
    pub fn root(&self) -> NodeId {
        self.trees.first().map_or(NodeId(0), |tree| tree.root)
    }

    /// The ranks that give a whole vector or a block.
    pub fn givers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let only = (self.collective.definition().before == Held::AtRoot).then(|| self.root());
        self.rank_ids().filter(move |&rank| only.is_none_or(|root| rank == root))
    }

    /// Whether `tree` is `theirs` of another plan, wherever in their plans their edges stand.
    fn is_same_tree(&self, tree: &Tree, other: &Self, theirs: &Tree) -> bool {
        let same_half = |a: &Half, b: &Half| match (a, b) {
            (Half::Own(a), Half::Own(b)) => {
                self.edges.lane[a.clone()] == other.edges.lane[b.clone()]
                    && self.edges.step[a.clone()] == other.edges.step[b.clone()]
            }
            (a, b) => a == b,
        };
        (&tree.span, tree.root, tree.chunk) == (&theirs.span, theirs.root, theirs.chunk)
            && same_half(&tree.up, &theirs.up)
            && same_half(&tree.down, &theirs.down)
    }

    /// Appends edges (breadth-first from the root) and returns them as a half.
    pub fn own_half(&mut self, edges: impl IntoIterator<Item = (LaneId, u16)>) -> Half {
        let first = self.edges.lane.len();
        for (lane, step) in edges {
            self.edges.lane.push(lane);
            self.edges.step.push(step);
        }
        Half::Own(first..self.edges.lane.len())
    }

    /// Appends a phase of these trees.
    pub fn push_phase(&mut self, pace: Pace, trees: Vec<Tree>) {
        let first = self.trees.len();
        let own = |half: &Half| match half {
            Half::Own(range) => range.clone(),
            Half::None | Half::Mirror => 0..0,
        };
        let last_step = |tree: &Tree| {
            let steps = own(&tree.up).chain(own(&tree.down)).map(|edge| self.edges.step[edge]);
            steps.max().unwrap_or(0)
        };
        let steps = if pace.is_stream() { 0 } else { trees.iter().map(last_step).max().unwrap_or(0) };
        self.trees.extend(trees);
        self.phases.push(Phase { trees: first..self.trees.len(), pace, steps });
    }

    /// How many ranks take part.
    pub fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// The numbers of the ranks.
    pub fn rank_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        self.topology.rank_ids()
    }

    /// Steps of all phases, or `None` when one is a stream.
    pub fn steps(&self) -> Option<u32> {
        self.phases.iter().map(|phase| (!phase.pace.is_stream()).then_some(u32::from(phase.steps))).sum()
    }

    /// Pairs of ranks that send to each other, the smaller one first.
    pub fn pairs(&self) -> Vec<(NodeId, NodeId)> {
        let ends = self.edges.lane.iter().map(|&lane| self.lanes.ends(lane));
        let mut pairs: Vec<(NodeId, NodeId)> = ends.map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The trees of a phase.
    pub fn trees_of(&self, phase: &Phase) -> &[Tree] {
        &self.trees[phase.trees.clone()]
    }

    /// How many edges both halves of a tree have.
    pub(crate) fn edges_of(&self, phase: &Phase, tree: &Tree) -> u64 {
        Direction::BOTH.into_iter().map(|direction| self.half(phase, tree, direction).count() as u64).sum()
    }

    /// How many ranks one half of a tree joins, its root included.
    pub(crate) fn ranks_joined(&self, phase: &Phase, tree: &Tree, direction: Direction) -> u32 {
        let others = self.half(phase, tree, direction).map(|edge| edge.child);
        std::iter::once(tree.root).chain(others).filter(|&node| self.topology.is_rank(node)).count() as u32
    }

    /// The edges of one half of a tree, breadth-first from the root; none where the half is missing.
    pub fn half<'a>(
        &'a self,
        phase: &Phase,
        tree: &Tree,
        direction: Direction,
    ) -> impl Iterator<Item = Edge> + use<'a> {
        let (this, other) = match direction {
            Direction::Up => (&tree.up, &tree.down),
            Direction::Down => (&tree.down, &tree.up),
        };
        let (range, mirrored) = match (this, other) {
            (Half::Own(range), _) => (range.clone(), false),
            (Half::Mirror, Half::Own(range)) => (range.clone(), true),
            _ => (0..0, false),
        };
        let last_step = phase.steps;
        let points_up = (direction == Direction::Up) != mirrored;
        range.map(move |edge| {
            let (lane, step) = (self.edges.lane[edge], self.edges.step[edge]);
            let (source, target) = self.lanes.ends(lane);
            let (child, parent) = if points_up { (source, target) } else { (target, source) };
            let step = if mirrored && last_step > 0 { last_step + 1 - step } else { step };
            Edge { parent, child, lane: LaneRef::new(lane, mirrored), step }
        })
    }
}

impl Edge {
    /// Where the data comes from and goes to.
    pub fn ends(&self, direction: Direction) -> (NodeId, NodeId) {
        match direction {
            Direction::Up => (self.child, self.parent),
            Direction::Down => (self.parent, self.child),
        }
    }
}

impl Tree {
    /// Units of the vector that travel over it.
    pub fn units(&self) -> u64 {
        self.span.end - self.span.start
    }
}

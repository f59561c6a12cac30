//! A plan: phases of weighted trees, which say what part of the vector travels over which tree, and when.
//!
//! A tree carries a span of the vector (a range of integer units). It has one root and up to two halves: a reduce half
//! into the root (`up`) and a broadcast half out of it (`down`). An edge is a lane (source, target, route) and a step.
//! A phase works on what the phase before it has left. In a phase each rank receives each unit from at most one tree,
//! and a rank that sends without receiving has no defined value afterwards.
//!
//! [`check`] proves the invariants of every half: edges are listed breadth-first from the root with siblings side by
//! side, and steps rise towards the root going up, and away from it going down.
//!
//! Edges are a struct of arrays, 6 bytes an edge. Lanes are interned, because a network has far fewer lanes than a plan
//! has edges.

pub mod alpha_beta;
mod any;
pub mod check;
pub mod check_schedule;
mod collective;
mod derive;
mod fingerprint;
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

pub use any::AnyPlan;
pub use collective::{Collective, Definition, Held};
pub use derive::derive;
use derive::reduce_halves;
pub use lanes::{LaneId, LaneRef, LaneRoutes, Lanes, Routing};
pub use load::{LinkLoads, Shape as TreeShape};
pub use lowering::{lower, lower_for, lower_in_chunks};
pub(crate) use messages::order_by_step;
pub use messages::{Message, for_each_step};
pub use unproven::{Unproven, Written};

use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, Bytes};

/// An all-reduce, or another collective, on one network.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::check::check;
/// use treefold::plan::{Chunk, Half, Pace, Plan, Tree};
/// use treefold::topology::{NodeId, from_spec};
///
/// let line = Arc::new(from_spec("line:3", None, None)?);
/// let mut plan = Plan::new(&line, "by hand", 1);
/// let edges = [(1, 0), (1, 2)].map(|(parent, child)| (plan.lanes.routed(NodeId(parent), NodeId(child)), 0));
/// let down = plan.own_half(edges);
/// let tree = Tree { span: 0..1, root: NodeId(1), up: Half::Mirror, down, chunk: Chunk::Best };
/// plan.push_phase(Pace::Stream, vec![tree]);
/// check(&plan)?;
/// assert_eq!(plan.pairs(), [(NodeId(0), NodeId(1)), (NodeId(1), NodeId(2))]);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// The network of the plan.
    pub topology: Arc<Topology>,
    /// The name of the planner.
    pub algorithm: String,
    /// The collective that the plan computes.
    pub collective: Collective,
    /// The number of equal parts into which the vector is cut.
    pub units: u64,
    /// The lanes of all edges.
    pub lanes: Lanes,
    /// The phases, in order; each works on what the one before it has left.
    pub phases: Vec<Phase>,
    /// All trees, phase by phase.
    pub trees: Vec<Tree>,
    /// The edges of all halves that are not mirrored.
    pub edges: Edges,
    /// The size of the vector for which the plan was made, if it is known.
    pub size: Option<Bytes>,
    /// The simulator by which the plan was chosen among others, if it was.
    pub chosen_by: Option<String>,
}

impl PartialEq for Plan {
    /// Returns whether both plans send the same, tree by tree and in the same order, and were made for the same size.
    fn eq(&self, other: &Self) -> bool {
        let header = |plan: &Self| (plan.collective, plan.units, plan.size, plan.trees.len());
        header(self) == header(other)
            && (&self.algorithm, &self.chosen_by) == (&other.algorithm, &other.chosen_by)
            && (Arc::ptr_eq(&self.topology, &other.topology) || self.topology == other.topology)
            && (&self.phases, &self.lanes) == (&other.phases, &other.lanes)
            && self.trees.iter().zip(&other.trees).all(|(a, b)| self.is_same_tree(a, other, b))
    }
}

/// Trees that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The trees of the phase.
    pub trees: Range<usize>,
    /// How the transfers follow each other.
    pub pace: Pace,
    /// The number of steps, of both halves together; 0 for a stream.
    pub steps: u16,
}

/// How the transfers of a phase follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// The transfers run step by step.
    Step(Sharing),
    /// The transfers are cut into chunks, which follow each other through each tree without pause.
    Stream,
    /// The transfers are streamed, and each tree is held to its part of what the busiest link allows, so that no tree
    /// takes bandwidth from another. That suits trees with rates.
    Paced,
}

impl Pace {
    /// Returns whether trees are cut into chunks, and do not run in steps.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Step(_))
    }
}

/// The promise of a plan about links within a step. A link has as many slots as its bandwidth holds, but at
/// least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sharing {
    /// Nothing is promised: routes may cross.
    Shared,
    /// No link carries more transfers than it has slots of this bandwidth: MultiTree's "no link twice in a step".
    Transfers(Bandwidth),
    /// No link carries more messages than it has slots of this bandwidth. Transfers with the same lane are one message,
    /// as halving-doubling sends them.
    Messages(Bandwidth),
}

/// One spanning tree and its part of the vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The units of the vector that travel over the tree.
    pub span: Range<u64>,
    /// The node where the reduce half ends and the broadcast half begins.
    pub root: NodeId,
    /// The reduce half, whose edges point to the root.
    pub up: Half,
    /// The broadcast half, whose edges point away from the root.
    pub down: Half,
    /// How a stream cuts the span.
    pub chunk: Chunk,
}

/// One half of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Half {
    /// There is no such half: the tree only reduces, or only broadcasts.
    None,
    /// The half has edges of its own, these of [`Plan::edges`].
    Own(Range<usize>),
    /// The half has the other half's edges, with lanes and steps reversed.
    Mirror,
}

/// How a stream cuts a tree's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// The span is one chunk.
    One,
    /// The span is cut into this many chunks.
    Count(u32),
    /// The span is cut into chunks of about this many bytes.
    Bytes(u64),
    /// The span is cut as is best for the size, which is decided when the plan is lowered.
    Best,
}

/// The edges of a plan, as arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Edges {
    /// The lane of each edge: from the child going up, from the parent going down.
    pub lane: Vec<LaneId>,
    /// The step of each edge, counted from 1; 0 in streams.
    pub step: Vec<u16>,
}

/// A half of a tree, by the direction of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Data go towards the root, and are reduced.
    Up,
    /// Data go away from the root, and are broadcast.
    Down,
}

/// An edge of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The end nearer to the root.
    pub parent: NodeId,
    /// The end farther from the root.
    pub child: NodeId,
    /// The lane in the direction in which the data moves.
    pub lane: LaneRef,
    /// The step, counted from 1; 0 in streams.
    pub step: u16,
}

impl Direction {
    /// Both directions, in the order in which they run.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// The most units of a plan: more would only make sums of them overflow.
pub const MAX_UNITS: u64 = 1 << 40;

impl Plan {
    /// Returns an empty plan of an all-reduce, whose vector is cut into `units` parts.
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
            chosen_by: None,
        }
    }

    /// Returns the plan, marked as made for a vector of this size, and as chosen by this simulator if there is one.
    pub fn made_for(&self, size: Bytes, chosen_by: Option<String>) -> Self {
        Self { size: Some(size), chosen_by, ..self.clone() }
    }

    /// Returns what may be read of any plan, right or wrong.
    pub fn as_written(&self) -> Written<'_> {
        Written::new(self)
    }

    /// Returns the rank that gives or gets what the others do not, if the collective has a root: the root of the first
    /// tree.
    pub fn root(&self) -> NodeId {
        self.trees.first().map_or(NodeId(0), |tree| tree.root)
    }

    /// Returns the ranks that give a whole vector or a block.
    pub fn givers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let only = (self.collective.definition().before == Held::AtRoot).then(|| self.root());
        self.rank_ids().filter(move |&rank| only.is_none_or(|root| rank == root))
    }

    /// Returns whether `tree` is the same as `theirs` in another plan, wherever the plans list their edges.
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

    /// Appends edges, breadth-first from the root, and returns them as a half.
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

    /// Returns how many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// Returns the ranks.
    pub fn rank_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        self.topology.rank_ids()
    }

    /// Returns the steps of all phases together, or `None` when one is a stream.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::from_spec;
    ///
    /// let ring = Arc::new(from_spec("ring:8", None, None)?);
    /// assert_eq!(planners::plan("ring", &ring, &Options::default())?.steps(), Some(2 * 7));
    /// assert_eq!(planners::plan("dbtree", &ring, &Options::default())?.steps(), None);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn steps(&self) -> Option<u32> {
        self.phases.iter().map(|phase| (!phase.pace.is_stream()).then_some(u32::from(phase.steps))).sum()
    }

    /// Returns the pairs of ranks that send to each other, the smaller one first.
    pub fn pairs(&self) -> Vec<(NodeId, NodeId)> {
        let ends = self.edges.lane.iter().map(|&lane| self.lanes.ends(lane));
        let mut pairs: Vec<(NodeId, NodeId)> = ends.map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the trees of a phase.
    pub fn trees_of(&self, phase: &Phase) -> &[Tree] {
        &self.trees[phase.trees.clone()]
    }

    /// Returns how many edges both halves of a tree have.
    pub(crate) fn edges_of(&self, phase: &Phase, tree: &Tree) -> u64 {
        Direction::BOTH.into_iter().map(|direction| self.half(phase, tree, direction).count() as u64).sum()
    }

    /// Returns how many ranks one half of a tree joins, its root included.
    pub(crate) fn ranks_joined(&self, phase: &Phase, tree: &Tree, direction: Direction) -> u32 {
        let others = self.half(phase, tree, direction).map(|edge| edge.child);
        std::iter::once(tree.root).chain(others).filter(|&node| self.topology.is_rank(node)).count() as u32
    }

    /// Returns the edges of one half of a tree, breadth-first from the root; there are none if the half is missing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::Direction;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = Arc::new(from_spec("line:3", None, None)?);
    /// let plan = planners::plan("ps", &line, &Options::default())?;
    /// let (phase, tree) = (&plan.phases[0], &plan.trees[0]);
    /// assert_eq!(tree.root, NodeId(1), "the server is in the middle");
    /// let children: Vec<NodeId> = plan.half(phase, tree, Direction::Up).map(|edge| edge.child).collect();
    /// assert_eq!(children, [NodeId(0), NodeId(2)]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
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
    /// Returns the node from which the data come, and the node to which they go.
    pub fn ends(&self, direction: Direction) -> (NodeId, NodeId) {
        match direction {
            Direction::Up => (self.child, self.parent),
            Direction::Down => (self.parent, self.child),
        }
    }
}

impl Tree {
    /// Returns how many units of the vector travel over the tree.
    pub fn units(&self) -> u64 {
        self.span.end - self.span.start
    }
}

//! A plan: phases of weighted trees, which say what part of the vector travels over which tree, and when.
//!
//! A tree carries a span of the vector (a range of integer units). It has one root and up to two halves: a reduce half
//! into the root (`up`) and a broadcast half out of it (`down`). An edge is a lane (source, target, route) and a step.
//! A phase works on what the phase before it has left. In a phase each rank receives each unit from at most one tree,
//! and a rank that sends units and receives none has no defined value in them afterwards.
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
mod columns;
mod derive;
mod draft;
mod exchanged;
mod fingerprint;
mod hazards;
mod json;
mod lanes;
mod load;
mod lowering;
mod messages;
pub(crate) mod misread;
mod moved;
mod ordered;
mod parts;
pub mod pipeline;
pub mod schedule;
pub(crate) mod sums;
pub mod tables;
mod unproven;
mod walkable;
mod weights;

use std::num::NonZeroU16;
use std::ops::{Deref, Range};
use std::sync::Arc;

pub use any::AnyPlan;
pub use collective::{Collective, Definition, Held};
pub(crate) use columns::halves;
pub use columns::{EdgeColumns, LaneColumns};
pub use derive::derive;
use derive::reduce_halves;
pub use draft::Draft;
pub use lanes::{LaneId, LaneRef, LaneRoutes, Lanes, Routing};
pub(crate) use load::busiest_of;
pub use load::{LinkLoads, TreeShape};
pub use lowering::{lower, lower_for, lower_in_chunks};
pub(crate) use messages::{Message, for_each_message, for_each_step, order_by_step};
pub use parts::{Part, parts};
pub use unproven::{Unproven, Written};
pub use walkable::{ReduceHalves, Walkable};

use serde_json::{Map, Value};

use crate::topology::NodeId;
use crate::units::{Bandwidth, Bytes};

/// A plan of an all-reduce, or of another collective, on one network. It is right: it was proven, or a planner made it,
/// and nothing can change it any more. What stands in it can be read as in the [`Draft`] from which it was made.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::Draft;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// assert_eq!(plan.trees.len(), 4);
///
/// let mut draft = Draft::from(plan);
/// draft.trees.pop();
/// assert!(draft.prove().is_err(), "a quarter of the vector is missing");
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan(Arc<Draft>);

impl Deref for Plan {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl From<Plan> for Draft {
    fn from(plan: Plan) -> Self {
        Arc::unwrap_or_clone(plan.0)
    }
}

impl Plan {
    /// Returns the same plan for another purpose.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::Purpose;
    ///
    /// let chosen = plan.made_for(Purpose { chosen_by: Some("flow".into()), ..Purpose::default() });
    /// assert!(chosen != plan && chosen.fingerprint() == plan.fingerprint(), "it sends the same");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn made_for(&self, purpose: Purpose) -> Self {
        Self(Arc::new(Draft { purpose, ..Draft::clone(&self.0) }))
    }
}

/// What a plan was made for, as far as it is known. It changes nothing of what the plan sends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Purpose {
    /// The size of the vector.
    pub size: Option<Bytes>,
    /// The simulator by which the plan was chosen among others, if it was.
    pub chosen_by: Option<String>,
    /// The options of the planner that were not left at their defaults, by name.
    pub options: Map<String, Value>,
}

/// The number of a step of its phase, counted from 1. Where it may be missing, as in streams, it is an `Option`.
pub type Step = NonZeroU16;

/// The most steps of a phase.
pub const MAX_STEPS: u16 = u16::MAX - 1;

/// Returns the number of a step where a bare number is wanted: 0 if there is none.
pub(crate) fn step_number(step: Option<Step>) -> u16 {
    step.map_or(0, Step::get)
}

/// Trees that run together.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("multitree", &ring, &Options::default())?;
/// assert_eq!(plan.phases.len(), 1);
/// assert_eq!((plan.phases[0].trees.clone(), plan.phases[0].pace.is_stream()), (0..4, false));
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The trees of the phase.
    pub trees: Range<usize>,
    /// How the transfers follow each other.
    pub pace: Pace,
    /// The last step, of both halves together; `None` for a stream.
    pub steps: Option<Step>,
}

/// How the transfers of a phase follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// The transfers run step by step.
    Step(Sharing),
    /// The transfers are cut into chunks, which follow each other through each tree without pause.
    Stream,
    /// The transfers are streamed. A schedule table cuts each tree of N ranks into N / 2 sub-flows, starts one every
    /// two steps, and gathers none before all are reduced.
    SubFlows,
    /// The transfers are streamed, and if only the root gets the sums of its tree, it requests the operands, which
    /// switches add up. At other paces, operands are sent unasked.
    Pulled,
    /// Every link of every route serves its messages in the order of their steps, each as soon as its data are there;
    /// nobody waits for the end of a step. Behind switches that takes receivers which grant messages in this order.
    Ordered,
    /// The transfers are streamed, and each tree is held to its part of what the busiest link allows, so that no tree
    /// takes bandwidth from another. That suits trees with rates.
    Paced,
}

impl Pace {
    /// Returns whether trees are cut into chunks, and do not run in steps.
    ///
    /// ```
    /// use treefold::plan::{Pace, Sharing};
    ///
    /// assert!(Pace::Stream.is_stream() && !Pace::Step(Sharing::Shared).is_stream() && !Pace::Ordered.is_stream());
    /// ```
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Step(_) | Self::Ordered)
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

/// One tree and its part of the vector; it need not join all ranks.
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
    /// The half has edges of its own, these of [`Draft::edges`].
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
    /// The step of each edge; `None` in streams.
    pub step: Vec<Option<Step>>,
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
    /// The step; `None` in streams.
    pub step: Option<Step>,
}

impl Direction {
    /// Both directions, in the order in which they run.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];
}

/// The most units of a plan: more would only make sums of them overflow.
pub const MAX_UNITS: u64 = 1 << 48;

impl Edge {
    /// Returns the node from which the data come, and the node to which they go.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::Direction;
    ///
    /// let tree = &plan.trees[0];
    /// let edge = plan.half(&plan.phases[0], tree, Direction::Up).next().expect("there are three");
    /// assert_eq!(edge.ends(Direction::Up), (edge.child, edge.parent));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn ends(&self, direction: Direction) -> (NodeId, NodeId) {
        match direction {
            Direction::Up => (self.child, self.parent),
            Direction::Down => (self.parent, self.child),
        }
    }
}

impl Tree {
    /// Returns how many units of the vector travel over the tree.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// let units: u64 = plan.trees.iter().map(|tree| tree.units()).sum();
    /// assert_eq!(units, plan.units, "the trees share the vector");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn units(&self) -> u64 {
        self.span.end - self.span.start
    }
}

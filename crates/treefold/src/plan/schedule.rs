//! A schedule: a plan lowered for one size, as a list of transfers with dependencies.
//!
//! Transports, event simulators and exporters walk it. Every rank has a main buffer for the whole vector. A switch that
//! takes part in a tree has one for its partial result, and a rank that must send the same units in several trees of a
//! phase while it receives them has a local copy, or one for each of its partial sums.
//!
//! Transfers are in an order that respects the dependencies; any other such order has the same result, as
//! [`super::check_schedule`] proves.

use std::ops::Range;

use super::{Draft, Held, LaneRef, Step};
use crate::ids::ids;
use crate::topology::NodeId;

ids! {
    /// A transfer of a schedule.
    TransferId;
    /// A buffer of a schedule.
    BufferId;
}

impl BufferId {
    /// Returns the buffer that is the vector of `rank`.
    ///
    /// ```
    /// use treefold::plan::schedule::BufferId;
    /// use treefold::topology::NodeId;
    ///
    /// assert_eq!(BufferId::of_rank(NodeId(2)).rank(4), Some(NodeId(2)));
    /// ```
    pub fn of_rank(rank: NodeId) -> Self {
        Self(rank.0)
    }

    /// Returns the rank, among the first `ranks`, whose vector the buffer is.
    ///
    /// ```
    /// use treefold::plan::schedule::BufferId;
    ///
    /// assert_eq!(BufferId(4).rank(4), None, "it is a switch's buffer, or a local copy");
    /// ```
    pub fn rank(self, ranks: u32) -> Option<NodeId> {
        (self.0 < ranks).then_some(NodeId(self.0))
    }
}

/// The kinds of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The transfer adds to its target (an empty buffer that is no rank's vector takes the first operand as it is).
    Reduce,
    /// The transfer replaces its target.
    Copy,
    /// The transfer copies within a node, before anything overwrites the source.
    Local,
    /// The transfer adds to its target within a node, what was received once for several sums.
    LocalReduce,
}

impl Op {
    /// Returns whether the transfer stays within a node, and takes no time on any link.
    ///
    /// ```
    /// use treefold::plan::schedule::Op;
    ///
    /// assert!(Op::LocalReduce.is_local() && !Op::Reduce.is_local());
    /// ```
    pub fn is_local(self) -> bool {
        matches!(self, Self::Local | Self::LocalReduce)
    }
}

/// Rows of different lengths, stored one after the other.
///
/// ```
/// use treefold::plan::schedule::Csr;
///
/// let mut rows = Csr::default();
/// rows.push_row([1, 2]);
/// rows.push_row([]);
/// assert_eq!(rows.row(0usize), [1, 2]);
/// assert!(rows.rows().map(<[i32]>::len).eq([2, 0]));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Csr<T> {
    /// Row `i` is `items[first[i]..first[i + 1]]`.
    pub first: Vec<u64>,
    /// All rows, one after the other.
    pub items: Vec<T>,
}

impl<T> Default for Csr<T> {
    fn default() -> Self {
        Self { first: vec![0], items: Vec::new() }
    }
}

impl<T> Csr<T> {
    /// Returns `count` rows of the second items of pairs, which are in order of their rows' numbers, the first ones.
    pub(crate) fn of_pairs(count: usize, pairs: impl IntoIterator<Item = (usize, T)>) -> Self {
        let (mut rows, mut pairs) = (Self::default(), pairs.into_iter().peekable());
        for number in 0..count {
            while let Some((_, item)) = pairs.next_if(|&(row, _)| row == number) {
                rows.items.push(item);
            }
            rows.push_row([]);
        }
        rows
    }

    /// Returns row `row`.
    #[inline]
    pub fn row(&self, row: impl Into<usize>) -> &[T] {
        let row = row.into();
        &self.items[self.first[row] as usize..self.first[row + 1] as usize]
    }

    /// Returns all rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[T]> {
        self.first.windows(2).map(|ends| &self.items[ends[0] as usize..ends[1] as usize])
    }

    /// Appends a row.
    pub fn push_row(&mut self, row: impl IntoIterator<Item = T>) {
        self.items.extend(row);
        self.first.push(self.items.len() as u64);
    }
}

/// A dependency: one transfer must not start before another has ended. Waits are ordered by the later transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait {
    pub later: TransferId,
    pub earlier: TransferId,
}

/// The transfers of a collective on vectors of `elements` elements.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// The elements of each rank's vector, or of the largest one where they are unlike.
    pub elements: u64,
    /// The node of each buffer; buffer `r` is the vector of rank r.
    pub buffers: Vec<NodeId>,
    /// The lane of each transfer; `None` within a node.
    pub lane: Vec<Option<LaneRef>>,
    /// The phase of each transfer.
    pub phase: Vec<u16>,
    /// The step of each transfer within its phase; `None` in streams, and of local copies.
    pub step: Vec<Option<Step>>,
    /// The tree of each transfer: the first one if the transfer carries parts of several, and 0 for local copies.
    pub tree: Vec<u32>,
    /// The chunk of the tree's span that each transfer carries, counted from 0.
    pub chunk: Vec<u32>,
    /// The kind of each transfer.
    pub op: Vec<Op>,
    /// The buffer that each transfer reads.
    pub source: Vec<BufferId>,
    /// The buffer that each transfer writes.
    pub target: Vec<BufferId>,
    /// The elements of each transfer, the same in source and target. Where each rank is sent a block of its own, the
    /// elements of all ranks are numbered through: element `e` of rank r's vector is `r * elements + e`.
    pub pieces: Csr<Range<u64>>,
    /// The transfers that must have ended before each transfer starts.
    pub dependencies: Csr<TransferId>,
}

impl Schedule {
    /// Returns how many transfers there are.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::lower;
    ///
    /// let schedule = lower(&plan, 1024, 4)?;
    /// assert_eq!(schedule.len(), 4 * 3 * 2, "four trees have three edges each, used up and down");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Returns whether nothing is transferred.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::lower;
    ///
    /// assert!(!lower(&plan, 1024, 4)?.is_empty());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Returns the numbers of all transfers, in order.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::lower;
    ///
    /// let schedule = lower(&plan, 1024, 4)?;
    /// for id in schedule.ids() {
    ///     let earlier = schedule.dependencies.row(id);
    ///     assert!(earlier.iter().all(|&before| before < id), "transfers are in an order that respects them");
    /// }
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TransferId> + ExactSizeIterator + Clone + use<> {
        TransferId::first(self.len())
    }

    /// Returns the numbers of the transfers from `first` on, in order.
    pub(super) fn ids_from(&self, first: TransferId) -> impl Iterator<Item = TransferId> + use<> {
        (first.0..self.len() as u32).map(TransferId)
    }

    /// Returns the nodes between which transfer `id` moves data.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::lower;
    ///
    /// let schedule = lower(&plan, 1024, 4)?;
    /// let [from, to] = schedule.ends(schedule.ids().next().expect("there is one"));
    /// assert!(ring.outgoing(from).iter().any(|&link| ring.link(link).target == to));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn ends(&self, id: TransferId) -> [NodeId; 2] {
        [self.source[id], self.target[id]].map(|buffer| self.buffers[buffer])
    }

    /// Returns how many elements transfer `id` moves.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::lower;
    ///
    /// let schedule = lower(&plan, 1024, 4)?;
    /// assert!(schedule.ids().all(|id| schedule.elements_of(id) == 256), "a tree has a quarter");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn elements_of(&self, id: TransferId) -> u64 {
        self.pieces.row(id).iter().map(|piece| piece.end - piece.start).sum()
    }
}

/// Returns the first element of unit `unit` when a vector of `elements` is cut into `units`; the parts always add up to
/// the whole.
pub(crate) fn cut(elements: u64, units: u64, unit: u64) -> u64 {
    (u128::from(elements) * u128::from(unit) / u128::from(units)) as u64
}

/// Returns the elements of the block of `rank`.
pub(crate) fn block(elements: u64, ranks: u32, rank: NodeId) -> Range<u64> {
    let at = |rank: u64| cut(elements, ranks.into(), rank);
    at(rank.into())..at(u64::from(rank) + 1)
}

/// Returns the elements, numbered as in the schedule, with which `rank` starts.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("multitree", &ring, &Options::default())?;
/// use treefold::plan::{Collective, derive, schedule::input};
/// use treefold::topology::NodeId;
///
/// assert_eq!(input(&plan, 1024, NodeId(1)), 0..1024);
/// let gather = derive(plan, Collective::AllGather, NodeId(0))?;
/// assert_eq!(input(&gather, 1024, NodeId(1)), 256..512, "each rank starts with its block");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn input(plan: &Draft, elements: u64, rank: NodeId) -> Range<u64> {
    if plan.collective.is_personalized() {
        let first = u64::from(rank) * elements;
        return first..first + plan.vector(elements, rank);
    }
    held(plan, elements, rank, plan.collective.definition().before).unwrap_or(0..0)
}

/// Returns the elements, numbered as in the schedule, of which the result of `rank` consists.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("multitree", &ring, &Options::default())?;
/// use treefold::plan::{Collective, derive, schedule::output};
/// use treefold::topology::NodeId;
///
/// let scatter = derive(plan, Collective::ReduceScatter, NodeId(0))?;
/// assert_eq!(output(&scatter, 1024, NodeId(3)), [768..1024]);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn output(plan: &Draft, elements: u64, rank: NodeId) -> Vec<Range<u64>> {
    if !plan.collective.is_personalized() {
        return held(plan, elements, rank, plan.collective.definition().after).into_iter().collect();
    }
    let whole = 0..plan.units_of_a_share();
    let block = |giver: NodeId| {
        let (first, block) = (u64::from(giver) * elements, plan.part_of_block(elements, giver, rank, &whole));
        first + block.start..first + block.end
    };
    plan.givers().map(block).collect()
}

/// Returns the elements of one vector that `rank` holds.
fn held(plan: &Draft, elements: u64, rank: NodeId, held: Held) -> Option<Range<u64>> {
    match held {
        Held::Whole => Some(0..elements),
        Held::Block => Some(block(elements, plan.ranks(), rank)),
        Held::AtRoot => (rank == plan.root()).then_some(0..elements),
    }
}

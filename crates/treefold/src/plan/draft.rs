//! Plans in the making: what planners fill, what files say, and what [`check`](super::check::check) proves.

use std::sync::Arc;

use super::check::check;
use super::{
    Collective, Direction, Edge, Edges, Half, Held, LaneId, LaneRef, Lanes, Pace, Phase, Plan, Purpose, Step, Tree,
    Written, step_number,
};
use crate::blocks::Blocks;
use crate::error::Result;
use crate::topology::{NodeId, Topology};

/// A plan in the making, or of unknown origin, which may be wrong: anybody may fill and change it.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::{Chunk, Draft, Half, Pace, Tree};
/// use treefold::topology::{NodeId, from_spec};
///
/// let line = Arc::new(from_spec("line:3", None, None)?);
/// let mut draft = Draft::new(&line, "by hand", 1);
/// let lanes = [0, 2].map(|child| draft.lanes.routed(NodeId(1), NodeId(child)));
/// let down = draft.streamed_half(lanes);
/// let tree = Tree { span: 0..1, root: NodeId(1), up: Half::Mirror, down, chunk: Chunk::Best };
/// draft.push_phase(Pace::Stream, vec![tree]);
/// let plan = draft.prove()?;
/// assert_eq!(plan.pairs(), [(NodeId(0), NodeId(1)), (NodeId(1), NodeId(2))]);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Draft {
    /// The network of the plan.
    pub topology: Arc<Topology>,
    /// The name of the planner.
    pub algorithm: String,
    /// The collective that the plan computes.
    pub collective: Collective,
    /// The number of equal parts into which the vector is cut, or the largest one where ranks have unlike vectors.
    pub units: u64,
    /// The sizes of the blocks of an all-to-all; `None` if they are equal.
    pub blocks: Option<Arc<Blocks>>,
    /// The lanes of all edges.
    pub lanes: Lanes,
    /// The phases, in order; each works on what the one before it has left.
    pub phases: Vec<Phase>,
    /// All trees, phase by phase.
    pub trees: Vec<Tree>,
    /// The edges of all halves that are not mirrored.
    pub edges: Edges,
    /// What the plan was made for.
    pub purpose: Purpose,
}

impl PartialEq for Draft {
    /// Returns whether both plans send the same, tree by tree and in the same order, and have the same purpose.
    fn eq(&self, other: &Self) -> bool {
        let header = |plan: &Self| (plan.collective, plan.units, plan.blocks.clone(), plan.trees.len());
        header(self) == header(other)
            && (&self.algorithm, &self.purpose) == (&other.algorithm, &other.purpose)
            && (Arc::ptr_eq(&self.topology, &other.topology) || self.topology == other.topology)
            && (&self.phases, &self.lanes) == (&other.phases, &other.lanes)
            && self.trees.iter().zip(&other.trees).all(|(a, b)| self.is_same_tree(a, other, b))
    }
}

impl Draft {
    /// Returns an empty draft of an all-reduce, whose vector is cut into `units` parts.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::{Chunk, Draft, Half, Pace, Tree};
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// // Rank 1 reduces to rank 0 over a link, and gets the sum back over its reverse.
    /// let line = Arc::new(from_spec("line:2", None, None)?);
    /// let mut draft = Draft::new(&line, "by-hand", 1);
    /// let lane = draft.lanes.link(&line, line.outgoing(NodeId(1))[0]);
    /// let up = draft.streamed_half([lane]);
    /// let tree = Tree { span: 0..1, root: NodeId(0), up, down: Half::Mirror, chunk: Chunk::Best };
    /// draft.push_phase(Pace::Stream, vec![tree]);
    /// assert_eq!(draft.prove()?.pairs(), [(NodeId(0), NodeId(1))]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(topology: &Arc<Topology>, algorithm: impl Into<String>, units: u64) -> Self {
        Self {
            topology: Arc::clone(topology),
            algorithm: algorithm.into(),
            collective: Collective::AllReduce,
            units,
            blocks: None,
            lanes: Lanes::default(),
            phases: Vec::new(),
            trees: Vec::new(),
            edges: Edges::default(),
            purpose: Purpose::default(),
        }
    }

    /// Proves that the draft computes its collective, and returns it as a plan.
    ///
    /// # Errors
    /// The first fault that [`check`] finds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::Draft;
    ///
    /// let draft = Draft::from(plan.clone());
    /// assert_eq!(draft.prove()?, plan);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn prove(self) -> Result<Plan> {
        check(&self)?;
        Ok(self.trusted())
    }

    /// Returns the draft as a plan without a proof. That is for planners, whose drafts are right by construction.
    pub(crate) fn trusted(self) -> Plan {
        Plan(Arc::new(self))
    }

    /// Returns the draft as a plan without a proof, for tests of simulators, whose messages make up no collective.
    #[cfg(feature = "test-util")]
    pub fn unchecked(self) -> Plan {
        self.trusted()
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
    pub(crate) fn givers(&self) -> impl Iterator<Item = NodeId> + use<> {
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

    /// Appends edges of a phase in steps, breadth-first from the root, and returns them as a half.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::{Chunk, Draft, Half, Pace, Sharing, Step, Tree};
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = Arc::new(from_spec("line:3", None, None)?);
    /// let mut draft = Draft::new(&line, "by hand", 1);
    /// let lanes = [0, 2].map(|child| draft.lanes.routed(NodeId(1), NodeId(child)));
    /// let down = draft.own_half(lanes.map(|lane| (lane, Step::new(2))));
    /// let tree = Tree { span: 0..1, root: NodeId(1), up: Half::Mirror, down, chunk: Chunk::One };
    /// draft.push_phase(Pace::Step(Sharing::Shared), vec![tree]);
    /// assert_eq!(draft.prove()?.steps(), Some(2), "ranks reduce in step 1, and broadcast in step 2");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn own_half(&mut self, edges: impl IntoIterator<Item = (LaneId, Option<Step>)>) -> Half {
        let first = self.edges.lane.len();
        for (lane, step) in edges {
            self.edges.lane.push(lane);
            self.edges.step.push(step);
        }
        Half::Own(first..self.edges.lane.len())
    }

    /// Appends edges of a streamed phase, breadth-first from the root, and returns them as a half.
    pub fn streamed_half(&mut self, lanes: impl IntoIterator<Item = LaneId>) -> Half {
        self.own_half(lanes.into_iter().map(|lane| (lane, None)))
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
            steps.max().flatten()
        };
        let steps = if pace.is_stream() { None } else { trees.iter().map(last_step).max().flatten() };
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
        self.phases.iter().map(|phase| (!phase.pace.is_stream()).then_some(u32::from(step_number(phase.steps)))).sum()
    }

    /// Returns the pairs of ranks that send to each other, the smaller one first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::topology::NodeId;
    ///
    /// assert_eq!(plan.pairs()[0], (NodeId(0), NodeId(1)));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn pairs(&self) -> Vec<(NodeId, NodeId)> {
        let ends = self.edges.lane.iter().map(|&lane| self.lanes.ends(lane));
        let mut pairs: Vec<(NodeId, NodeId)> = ends.map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the trees of a phase.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// assert_eq!(plan.trees_of(&plan.phases[0]).len(), 4);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
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
            let step = if mirrored { mirror_of(step, last_step) } else { step };
            Edge { parent, child, lane: LaneRef::new(lane, mirrored), step }
        })
    }
}

/// Returns the step of the mirrored edge in a phase with this last step.
fn mirror_of(step: Option<Step>, last: Option<Step>) -> Option<Step> {
    let (step, last) = step.zip(last)?;
    last.get().checked_sub(step.get() - 1).and_then(Step::new)
}

//! Plans from files, and plans that were moved. Anybody may have edited a file, and another network may not keep what a
//! plan promises of its links, so such a plan has to be proven before anything walks it.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::check::check;
use super::check_schedule::check_schedule;
use super::schedule::Schedule;
use super::{Collective, Draft, Plan, Purpose};
use crate::blocks::Blocks;
use crate::error::{Error, Result};
use crate::ids::NodeId;
use crate::topology::Topology;

/// A plan that is well formed but may not compute its collective. [`Unproven::prove`] turns it into a [`Plan`].
///
/// The proof is made at most once, when it is first asked for.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::plan::Plan;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let text = planners::plan("ring", &ring, &Options::default())?.to_json();
/// let read = Plan::from_json(&text)?;
/// assert_eq!(read.as_written().algorithm(), "ring");
/// let plan: &Plan = read.prove()?;
/// assert!(plan.rate().is_some());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Unproven {
    draft: Arc<Draft>,
    /// The plan, or its first fault, once it is known.
    verdict: OnceLock<Result<Plan>>,
}

impl Unproven {
    /// Wraps a draft, such as one that was derived from the trees of a file.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::{Draft, Unproven};
    ///
    /// let mut draft = Draft::from(plan);
    /// draft.phases.clear();
    /// draft.trees.clear();
    /// assert!(Unproven::new(draft).prove().is_err(), "nothing is sent");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(draft: Draft) -> Self {
        Self { draft: Arc::new(draft), verdict: OnceLock::new() }
    }

    /// Proves or refutes that the plan computes its collective.
    ///
    /// # Errors
    /// The first fault that [`check`] finds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::Plan;
    ///
    /// assert!(Plan::from_json(&plan.to_json())?.check().is_ok());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn check(&self) -> Result<()> {
        self.verdict().map(|_| ())
    }

    /// Returns the plan, which anything may walk, once it is proven.
    ///
    /// # Errors
    /// If the plan is wrong.
    pub fn prove(&self) -> Result<&Plan> {
        self.verdict().map_err(|fault| fault.at("the plan is wrong and can only be checked"))
    }

    fn verdict(&self) -> Result<&Plan> {
        let proven = || check(&self.draft).map(|()| Plan(Arc::clone(&self.draft)));
        self.verdict.get_or_init(proven).as_ref().map_err(Error::clone)
    }

    /// Returns what may be read of the plan before it is proven.
    pub fn as_written(&self) -> Written<'_> {
        Written::new(&self.draft)
    }

    /// Returns the same plan, which is as right or wrong as before, for another purpose.
    pub fn made_for(&self, purpose: Purpose) -> Self {
        let draft = Arc::new(Draft { purpose, ..Draft::clone(&self.draft) });
        let verdict = OnceLock::new();
        if let Some(known) = self.verdict.get() {
            let same = known.as_ref().map(|_| Plan(Arc::clone(&draft))).map_err(Error::clone);
            verdict.set(same).expect("it is new");
        }
        Self { draft, verdict }
    }
}

/// A plan as it is written, right or wrong: what may be read of it, compared and written without a proof. It never
/// gives out the [`Plan`], so nothing can walk trees that may be no trees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written<'a> {
    plan: &'a Draft,
}

impl Hash for Written<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Draft { algorithm, units, purpose, trees, edges, .. } = self.plan;
        (algorithm, units, purpose.size, trees.len(), edges.lane.len()).hash(state);
    }
}

impl<'a> Written<'a> {
    pub(super) fn new(plan: &'a Draft) -> Self {
        Self { plan }
    }

    /// Returns the network of the plan.
    pub fn topology(self) -> &'a Arc<Topology> {
        &self.plan.topology
    }

    /// Returns the name of the planner.
    pub fn algorithm(self) -> &'a str {
        &self.plan.algorithm
    }

    /// Returns the sizes of the blocks of an all-to-all; `None` if they are equal.
    pub fn blocks(self) -> Option<&'a Blocks> {
        self.plan.blocks.as_deref()
    }

    /// Returns the collective that the plan is meant to compute.
    pub fn collective(self) -> Collective {
        self.plan.collective
    }

    /// Returns the rank that gives or gets what the others do not; `None` for a collective without a root.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::{AnyPlan, Collective};
    /// use treefold::topology::NodeId;
    ///
    /// assert_eq!(plan.as_written().root(), None, "an all-reduce has no root");
    /// let broadcast = AnyPlan::Sound(plan).derive(Collective::Broadcast, NodeId(2))?;
    /// assert_eq!(broadcast.as_written().root(), Some(NodeId(2)));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn root(self) -> Option<NodeId> {
        self.plan.collective.has_root().then(|| self.plan.root())
    }

    /// Returns what the plan was made for.
    pub fn purpose(self) -> &'a Purpose {
        &self.plan.purpose
    }

    /// Returns how many trees the plan lists.
    pub fn num_trees(self) -> usize {
        self.plan.trees.len()
    }

    /// Returns the steps of all phases together, or `None` when one is a stream.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// assert_eq!(planners::plan("ring", &ring, &Options::default())?.as_written().steps(), Some(6));
    /// assert_eq!(planners::plan("dbtree", &ring, &Options::default())?.as_written().steps(), None);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn steps(self) -> Option<u32> {
        self.plan.steps()
    }

    /// Returns the pairs of ranks that send to each other, the smaller one first.
    pub fn pairs(self) -> Vec<(NodeId, NodeId)> {
        self.plan.pairs()
    }

    /// Returns a hash of what the plan sends: plans that send the same at the same pace have the same one.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// let other = planners::plan("ring", &ring, &Options::default())?;
    /// assert_ne!(plan.as_written().fingerprint(), other.as_written().fingerprint());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn fingerprint(self) -> u64 {
        self.plan.fingerprint()
    }

    /// Returns the text of a plan file.
    pub fn to_json(self) -> String {
        self.plan.to_json()
    }

    /// Checks `schedule` against the collective and the lanes of the plan; its trees do not matter.
    ///
    /// # Errors
    /// The first race or wrong result that is found.
    pub fn check_schedule(self, schedule: &Schedule) -> Result<()> {
        check_schedule(self.plan, schedule)
    }
}

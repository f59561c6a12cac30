//! Plans of any origin, with what their origin says about them.

use std::sync::Arc;

use super::check::check;
use super::{Collective, Draft, Plan, Purpose, ReduceHalves, Unproven, Walkable, Written, derive, reduce_halves};
use crate::blocks::Blocks;
use crate::error::Result;
use crate::misfit;
use crate::topology::{LinkModel, NodeId, Topology};

/// A plan and what is known of it, which decides what may be done with it and with the plans that are made of it.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::{AnyPlan, Collective, Plan};
/// use treefold::planners::{self, Options};
/// use treefold::topology::{NodeId, from_spec};
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("multitree", &ring, &Options::default())?;
/// let read = AnyPlan::Unproven(Plan::from_json(&plan.to_json())?);
/// let derived = read.derive(Collective::Broadcast, NodeId(2))?;
/// assert!(matches!(derived, AnyPlan::Unproven(_)), "a file may have said anything");
///
/// let halves = AnyPlan::Sound(plan).reduce_halves()?;
/// assert!(halves.sound().is_ok() && halves.runnable().is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum AnyPlan {
    /// A planner has made the plan, or it is proven: it is right.
    Sound(Plan),
    /// The reduce halves of a right plan. Their sums end at different roots, so they can be simulated but not run.
    Halves(ReduceHalves),
    /// The plan is from a file, which anybody may have edited, or was moved: it is proven before it is used.
    Unproven(Unproven),
}

impl AnyPlan {
    /// Returns the plan for whatever walks its trees and does not run them; one that is unproven is proven first.
    ///
    /// # Errors
    /// If the plan is wrong.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// let read = AnyPlan::Unproven(treefold::plan::Plan::from_json(&plan.to_json())?);
    /// assert_eq!(read.sound()?.rate(), plan.rate());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn sound(&self) -> Result<Walkable<'_>> {
        match self {
            Self::Halves(halves) => Ok(halves.into()),
            Self::Sound(_) | Self::Unproven(_) => self.runnable().map(Walkable::from),
        }
    }

    /// Returns the plan for a run.
    ///
    /// # Errors
    /// If the plan is wrong, or has reduce halves alone.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// let whole = AnyPlan::Sound(plan);
    /// assert!(whole.runnable().is_ok() && whole.reduce_halves()?.runnable().is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn runnable(&self) -> Result<&Plan> {
        match self {
            Self::Halves(_) => misfit!(
                "reduce halves can be simulated but not run: their sums end at different roots; run the whole plan"
            ),
            Self::Sound(plan) => Ok(plan),
            Self::Unproven(plan) => plan.prove(),
        }
    }

    /// Returns what may be read of the plan, proven or not.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// assert_eq!(AnyPlan::Sound(plan).as_written().num_trees(), 4);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn as_written(&self) -> Written<'_> {
        match self {
            Self::Sound(plan) => plan.as_written(),
            Self::Halves(halves) => halves.as_written(),
            Self::Unproven(plan) => plan.as_written(),
        }
    }

    /// Proves or refutes that the plan computes its collective, whatever its origin.
    ///
    /// # Errors
    /// The first fault that [`check`] finds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// assert!(AnyPlan::Sound(plan.clone()).check().is_ok());
    /// assert!(AnyPlan::Sound(plan).reduce_halves()?.check().is_err(), "the sums end at four roots");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Sound(plan) => check(plan),
            Self::Halves(halves) => check(&Walkable::from(halves)),
            Self::Unproven(plan) => plan.check(),
        }
    }

    /// Returns the same plan for another purpose; as much is known of it as before.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// use treefold::plan::Purpose;
    /// use treefold::units::parse_bytes;
    ///
    /// let purpose = Purpose { size: Some(parse_bytes("1MiB")?), ..Purpose::default() };
    /// let plan = AnyPlan::Sound(plan).made_for(purpose.clone());
    /// assert_eq!(plan.as_written().purpose(), &purpose);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn made_for(&self, purpose: Purpose) -> Self {
        match self {
            Self::Sound(plan) => Self::Sound(plan.made_for(purpose)),
            Self::Halves(halves) => Self::Halves(halves.made_for(purpose)),
            Self::Unproven(plan) => Self::Unproven(plan.made_for(purpose)),
        }
    }

    /// Returns the plan on `topology`, where it has to be proven again; `None` if that lacks something of the plan, see
    /// [`Plan::moved_to`].
    ///
    /// # Errors
    /// If the plan is wrong.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// use treefold::topology::Directions;
    ///
    /// let cut = Arc::new(ring.without_links(&[("GPU0".into(), "GPU1".into())], Directions::BothWays)?);
    /// let plan = AnyPlan::Sound(plan);
    /// assert!(plan.moved_to(&ring)?.is_some() && plan.moved_to(&cut)?.is_none());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn moved_to(&self, topology: &Arc<Topology>) -> Result<Option<Self>> {
        Ok(self.sound()?.walked().moved_to(topology).map(Self::Unproven))
    }

    /// Returns the plan of another collective over the trees of this all-reduce, see [`derive()`].
    ///
    /// # Errors
    /// If the plan is wrong or has reduce halves alone, and the errors of [`derive()`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// use treefold::plan::Collective;
    /// use treefold::topology::NodeId;
    ///
    /// let gather = AnyPlan::Sound(plan).derive(Collective::AllGather, NodeId(0))?;
    /// assert_eq!(gather.as_written().collective(), Collective::AllGather);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn derive(&self, collective: Collective, root: NodeId) -> Result<Self> {
        match self {
            Self::Sound(plan) => derive(plan.clone(), collective, root).map(Self::Sound),
            Self::Halves(_) => misfit!("the plan has reduce halves alone; derive {collective} from the whole plan"),
            // A tree from a file may be no tree any more after it is turned.
            Self::Unproven(plan) => {
                let derived = derive(plan.prove()?.clone(), collective, root)?;
                Ok(Self::Unproven(Unproven::new(derived.into())))
            }
        }
    }

    /// Returns the plan of this all-to-all for blocks of other sizes, see [`Plan::with_blocks`].
    ///
    /// # Errors
    /// If the plan is wrong or has reduce halves alone, and the errors of [`Plan::with_blocks`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:2", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// use treefold::blocks::Blocks;
    ///
    /// let all_reduce = AnyPlan::Sound(plan);
    /// assert!(all_reduce.with_blocks(Blocks::new(2, &[0, 1, 2, 0])?).is_err(), "it is no all-to-all");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_blocks(&self, blocks: Option<Arc<Blocks>>) -> Result<Self> {
        let changed = self.runnable()?.with_blocks(blocks)?;
        Ok(match self {
            Self::Unproven(_) => Self::Unproven(Unproven::new(changed.into())),
            Self::Sound(_) | Self::Halves(_) => Self::Sound(changed),
        })
    }

    /// Returns a plan of the reduce halves alone, in which every tree reduces into its own root: what the MTree paper
    /// simulates as its reduce. If the trees have several roots, [`Self::check`] refuses it.
    ///
    /// # Errors
    /// If the plan is wrong, or has several phases, as then no half reduces the vector by itself.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// let whole = AnyPlan::Sound(plan);
    /// let halves = whole.reduce_halves()?;
    /// assert!(halves.as_written().steps() < whole.as_written().steps());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn reduce_halves(&self) -> Result<Self> {
        reduce_halves(self.sound()?.draft()).map(Self::Halves)
    }

    /// Returns the plan on its network as `model` sees it.
    ///
    /// # Errors
    /// If the plan is wrong.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::AnyPlan;
    /// use treefold::topology::LinkModel;
    ///
    /// let seen = AnyPlan::Sound(plan).under(LinkModel::Hockney)?;
    /// let link = &seen.as_written().topology().links()[0];
    /// assert!(link.overhead.seconds() > 0.0, "the latency occupies the link");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn under(&self, model: LinkModel) -> Result<Self> {
        let draft = self.sound()?.draft();
        let seen = Draft { topology: Arc::new(draft.topology.under(model)), ..draft.clone() };
        Ok(match self {
            Self::Halves(_) => Self::Halves(ReduceHalves::new(seen)),
            Self::Sound(_) | Self::Unproven(_) => Self::Sound(seen.trusted()),
        })
    }
}

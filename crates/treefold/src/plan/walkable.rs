//! What simulators take: plans, and reduce halves, which are no plans.

use std::ops::Deref;

use super::{Draft, Plan, Purpose, TreeShape, Written};
use crate::topology::LinkId;
use crate::units::Bandwidth;

/// The reduce halves of a right plan, which [`super::AnyPlan::reduce_halves`] makes. Each tree reduces into its own
/// root, so that together they compute no collective: they can be simulated, but there is no way to run them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReduceHalves(Plan);

impl ReduceHalves {
    /// Wraps the halves of a right plan. It takes them as a [`Plan`], which never gets out as one.
    pub(super) fn new(halves: Draft) -> Self {
        Self(halves.trusted())
    }

    /// Returns the same halves for another purpose.
    pub fn made_for(&self, purpose: Purpose) -> Self {
        Self(self.0.made_for(purpose))
    }

    /// Returns what may be read of any plan, right or wrong.
    pub fn as_written(&self) -> Written<'_> {
        self.0.as_written()
    }
}

/// A plan or reduce halves: trees over which data can be sent, whatever that computes. Simulators take it, and so does
/// all that counts or lists what is sent; only a [`Plan`] can be run. It can be read as the [`Draft`] of the trees.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::{AnyPlan, check::check};
/// use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, flow::simulate};
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("multitree", &ring, &Options::default())?;
/// let halves = AnyPlan::Sound(plan.clone()).reduce_halves()?;
/// let walkable = halves.sound()?;
/// assert!(check(&walkable).is_err(), "the sums end at different roots");
/// let seconds = simulate(walkable, parse_bytes("1MiB")?, Watch::NOTHING)?.seconds;
/// assert!(seconds < simulate(&plan, parse_bytes("1MiB")?, Watch::NOTHING)?.seconds);
/// # Ok::<(), treefold::error::Error>(())
/// ```
///
/// It cannot be made a plan again without a proof. It is none:
///
/// ```compile_fail,E0308
/// # use treefold::plan::{AnyPlan, Walkable};
/// fn forge(walkable: Walkable<'_>) -> AnyPlan {
///     AnyPlan::Sound(walkable.clone())
/// }
/// ```
///
/// Nor does it give out the plan that it holds:
///
/// ```compile_fail,E0616
/// # use treefold::plan::{AnyPlan, Walkable};
/// fn forge(walkable: Walkable<'_>) -> AnyPlan {
///     AnyPlan::Sound(walkable.0.clone())
/// }
/// ```
///
/// ```compile_fail,E0624
/// # use treefold::plan::{AnyPlan, Walkable};
/// fn forge(walkable: Walkable<'_>) -> AnyPlan {
///     AnyPlan::Sound(walkable.walked().clone())
/// }
/// ```
///
/// ```compile_fail,E0616
/// # use treefold::plan::{AnyPlan, ReduceHalves};
/// fn forge(halves: ReduceHalves) -> AnyPlan {
///     AnyPlan::Sound(halves.0)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Walkable<'a>(&'a Plan);

impl<'a> From<&'a Plan> for Walkable<'a> {
    fn from(plan: &'a Plan) -> Self {
        Self(plan)
    }
}

impl<'a> From<&'a ReduceHalves> for Walkable<'a> {
    fn from(halves: &'a ReduceHalves) -> Self {
        Self(&halves.0)
    }
}

impl Deref for Walkable<'_> {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        self.0
    }
}

impl<'a> Walkable<'a> {
    /// Returns the trees for code of this crate that walks and does not run them.
    pub(crate) fn walked(self) -> &'a Plan {
        self.0
    }

    /// Returns the trees to read.
    pub fn draft(self) -> &'a Draft {
        self.0
    }

    /// Returns the rate to which the algbw of large vectors tends, see [`Plan::rate`].
    pub fn rate(self) -> Option<Bandwidth> {
        self.0.rate()
    }

    /// Returns the links that limit the rate, see [`Plan::busiest_links`].
    pub fn busiest_links(self) -> Vec<LinkId> {
        self.0.busiest_links()
    }

    /// Returns the heights and fanouts of all trees, see [`Plan::shape`].
    pub fn shape(self) -> TreeShape {
        self.0.shape()
    }
}

//! Plans from files. Anybody may have edited a file, so its plan has to be proven before anything walks it.

use std::sync::OnceLock;

use super::Plan;
use super::check::check;
use crate::error::{Error, Result};
use crate::units::Bytes;

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
/// assert_eq!(read.as_written().algorithm, "ring");
/// let plan: &Plan = read.prove()?;
/// assert!(plan.rate().is_some());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Unproven {
    plan: Plan,
    fault: OnceLock<Option<Error>>,
}

impl Unproven {
    /// Wraps a plan that is not proven, such as one that was derived from the trees of a file.
    pub fn new(plan: Plan) -> Self {
        Self { plan, fault: OnceLock::new() }
    }

    /// Proves or refutes that the plan computes its collective.
    ///
    /// # Errors
    /// The first fault that [`check`] finds.
    pub fn check(&self) -> Result<()> {
        match self.fault.get_or_init(|| check(&self.plan).err()) {
            None => Ok(()),
            Some(fault) => Err(fault.clone()),
        }
    }

    /// Returns the plan, which anything may walk, once it is proven.
    ///
    /// # Errors
    /// If the plan is wrong.
    pub fn prove(&self) -> Result<&Plan> {
        self.check().map_err(|fault| fault.at("the plan is wrong and can only be checked"))?;
        Ok(&self.plan)
    }

    /// Returns the plan as it is in the file, for comparing and writing it, and for the names and sizes in it. Code
    /// that walks trees must have them proven.
    pub fn as_written(&self) -> &Plan {
        &self.plan
    }

    /// Returns the same plan, which is as right or wrong as before, for a vector of another size.
    pub fn made_for(&self, size: Bytes, judged_by: Option<String>) -> Self {
        Self { plan: self.plan.made_for(size, judged_by), fault: self.fault.clone() }
    }
}

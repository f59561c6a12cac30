//! What planners prove about their plans.

use serde::Serialize;

use crate::plan::Plan;
use crate::units::Bandwidth;

/// What a planner proved about a plan of an all-reduce, and the limits that it found; what it did not prove is `None`.
///
/// ```
/// use treefold::planners::Proof;
///
/// assert_eq!(serde_json::to_string(&Proof { gap: Some(0.5), ..Proof::default() })?, r#"{"gap":0.5}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Proof {
    /// The rate that no plan exceeds, in bytes a second.
    #[serde(rename = "bound_Bps", skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// The number of trees that MTree grew, among which it chose.
    #[serde(rename = "grown_trees", skip_serializing_if = "Option::is_none")]
    pub grown: Option<usize>,
    /// The limit of the height that MTree found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_limit: Option<u32>,
    /// The least rate of a tree of MTree, in bytes a second.
    #[serde(rename = "least_rate_Bps", skip_serializing_if = "Option::is_none")]
    pub least_rate: Option<f64>,
    /// How far the plan may be from the best, as a fraction; the table of planners says of what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
}

impl Proof {
    /// Returns the proof by a bound on the rate, in bytes a second.
    pub(super) fn of_bound(bound: f64) -> Self {
        Self { bound: Some(bound), ..Self::default() }
    }

    /// Returns the proof of a plan with the gap between its rate and the bound, if the proof has one.
    pub(super) fn of(self, plan: &Plan) -> Self {
        let gap = self.bound.map(|bound| {
            let rate = plan.rate().map_or(bound, Bandwidth::bytes_per_second);
            (bound / rate - 1.0).max(0.0)
        });
        Self { gap: gap.or(self.gap), ..self }
    }
}

//! The fastest plan for a size: every planner that fits, judged by the analytic simulator.

use std::sync::Arc;

use crate::bail;
use crate::error::Result;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Collective, Plan, derive};
use crate::planners::{self, Options, PLANNERS};
use crate::topology::{NodeId, Topology};

/// What became of one algorithm.
pub struct Candidate {
    /// Its name.
    pub algorithm: &'static str,
    /// Predicted seconds, or why it does not fit.
    pub seconds: Result<f64>,
}

/// The plan that is fastest for `options.size`, and how every algorithm fared.
///
/// # Errors
/// If no algorithm fits (never, for all-reduce: rings fit every network).
pub fn plan(
    topology: &Arc<Topology>,
    options: &Options,
    collective: Collective,
    root: NodeId,
) -> Result<(Plan, Vec<Candidate>)> {
    let mut best: Option<(f64, Plan)> = None;
    let mut candidates = Vec::new();
    for planner in &PLANNERS {
        let planned = planners::plan(planner.name, topology, options).and_then(|plan| derive(plan, collective, root));
        let seconds = planned.map(|plan| {
            let seconds = Profile::new(&plan).seconds(options.size);
            if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                best = Some((seconds, plan));
            }
            seconds
        });
        candidates.push(Candidate { algorithm: planner.name, seconds });
    }
    match best {
        Some((_, plan)) => Ok((plan, candidates)),
        None => bail!("no algorithm does {collective} on {}", topology.name()),
    }
}

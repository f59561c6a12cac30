//! Finds the fastest plan for a size: a simulator predicts the times of the plans of all planners that fit.
//!
//! Where latency decides, fewer trees than ranks are faster, so MultiTree is also tried with half its trees, a quarter,
//! and so on. Together these tries cost as much as the first.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::misfit;
use crate::plan::Plan;
use crate::planners::{self, Options, PLANNERS};
use crate::sim::{Simulator, Watch};
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// The result of one algorithm.
pub struct Candidate {
    /// The name of the algorithm, and the number of trees if they are fewer than usual.
    pub algorithm: String,
    /// The predicted time, or the misfit: the reason why the algorithm does not fit.
    pub time: Result<Prediction>,
}

/// A predicted time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The whole time.
    pub seconds: Seconds,
    /// The part of it that a vector of one byte would take too; the rest is due to bandwidth.
    pub latency: Seconds,
}

/// The search for the fastest plan.
struct Search<'a> {
    topology: &'a Arc<Topology>,
    simulator: Simulator,
    size: Bytes,
    go_on: &'a mut dyn FnMut() -> bool,
    best: Option<(Seconds, Plan)>,
    candidates: Vec<Candidate>,
}

/// Returns the plan that is fastest for `options.size`, and the result of each algorithm.
///
/// # Errors
/// If an option is wrong; if no algorithm fits (which cannot happen for an all-reduce, as rings fit every network); or
/// if `go_on` returns false.
///
/// ```
/// use std::sync::Arc;
/// use treefold::auto;
/// use treefold::planners::Options;
/// use treefold::sim::Simulator;
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bytes;
///
/// let mesh = Arc::new(from_spec("mesh:3x3", None, None)?);
/// let options = Options { size: parse_bytes("1MiB")?, ..Options::default() };
/// let (plan, candidates) = auto::plan(&mesh, &options, Simulator::Analytic, &mut || true)?;
/// let misfits = candidates.iter().filter(|one| one.time.is_err());
/// assert!(misfits.map(|one| one.algorithm.as_str()).any(|name| name == "hdrm"), "a mesh is no BiGraph");
/// let times = candidates.iter().filter_map(|one| Some((&one.algorithm, one.time.as_ref().ok()?.seconds)));
/// let (fastest, _) = times.min_by_key(|&(_, seconds)| seconds).unwrap();
/// assert_eq!(*fastest, plan.algorithm);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn plan(
    topology: &Arc<Topology>,
    options: &Options,
    simulator: Simulator,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(Plan, Vec<Candidate>)> {
    let (size, best, candidates) = (options.size, None, Vec::new());
    let mut search = Search { topology, simulator, size, go_on, best, candidates };
    for planner in PLANNERS {
        if planner.is_quick(topology) {
            search.attempt(planner.name, planner.name.into(), options)?;
        } else {
            search.leave_out(planner.name);
        }
    }
    if options.trees.is_none() && search.fits("multitree") {
        search.fewer_trees(options)?;
    }
    match search.best {
        Some((_, plan)) => Ok((plan, search.candidates)),
        None => misfit!("no algorithm has a plan of {} for {}", options.collective, topology.name()),
    }
}

impl Search<'_> {
    /// Plans with `algorithm`, and lists it with the time of its plan or the reason why it does not fit.
    fn attempt(&mut self, algorithm: &str, name: String, options: &Options) -> Result<()> {
        let time = match planners::plan(algorithm, self.topology, options) {
            Ok(plan) => Ok(self.timed(plan)?),
            Err(reason) if reason.is_misfit() => Err(reason),
            Err(mistake) => return Err(mistake),
        };
        self.candidates.push(Candidate { algorithm: name, time });
        Ok(())
    }

    /// Lists an algorithm that would take long.
    fn leave_out(&mut self, algorithm: &str) {
        let (ranks, links) = (self.topology.ranks(), self.topology.links().len());
        let text = format!("takes long with {ranks} ranks and {links} links: not tried unless it is named");
        self.candidates.push(Candidate { algorithm: algorithm.into(), time: Err(Error::new(text).misfit()) });
    }

    /// Returns the time of a plan, and keeps the plan if it is the fastest so far.
    fn timed(&mut self, plan: Plan) -> Result<Prediction> {
        let [seconds, latency] =
            self.simulator.seconds(&plan, [self.size, Bytes::known(1)], Watch::asking(&mut |_| (self.go_on)()))?;
        if self.best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            self.best = Some((seconds, plan));
        }
        Ok(Prediction { seconds, latency: latency.min(seconds) })
    }

    fn fits(&self, algorithm: &str) -> bool {
        self.candidates.iter().any(|candidate| candidate.algorithm == algorithm && candidate.time.is_ok())
    }

    fn fewer_trees(&mut self, options: &Options) -> Result<()> {
        let halves = std::iter::successors(Some(self.topology.ranks() / 2), |trees| Some(trees / 2));
        for trees in halves.take_while(|&trees| trees > 0) {
            let name = format!("multitree, {trees} {}", if trees == 1 { "tree" } else { "trees" });
            self.attempt("multitree", name, &Options { trees: Some(trees), ..options.clone() })?;
        }
        Ok(())
    }
}

//! Finds the fastest plan for a size: a simulator predicts the times of the plans of all planners that fit.
//!
//! Where latency decides, fewer trees than ranks are faster, so MultiTree is also tried with half its trees, a quarter,
//! and so on. Together these tries cost as much as the first. On small switched networks, `forest` is also simulated
//! with the fewest steps, as it judges by the analytic model, which knows little of streams that share links.
//!
//! A flow simulation of many chunks costs far more than its plan. So plans are simulated in the order of their analytic
//! times, and none whose busiest link alone needs longer than the fastest plan so far.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::misfit;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Plan, Walkable};
use crate::planners::forest::few_steps;
use crate::planners::{self, Options, PLANNERS};
use crate::sim::{Simulator, Watch};
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// The result of one algorithm.
pub struct Candidate {
    /// The name of the algorithm, and its number of trees or steps if they are fewer than usual.
    pub algorithm: String,
    /// The predicted time, or a misfit: the reason why the algorithm does not fit, or cannot be the fastest.
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
    entries: Vec<Entry>,
}

/// What one algorithm enters into the race: its plan, or the misfit.
struct Entry {
    algorithm: String,
    plan: Result<Plan>,
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
    let mut search = Search { topology, simulator, size: options.size, go_on, entries: Vec::new() };
    search.enter_all(options)?;
    let Some((best, times)) = search.race()? else {
        misfit!("no algorithm has a plan of {} for {}", options.collective, topology.name());
    };
    let mut entries = search.entries;
    let names: Vec<String> = entries.iter().map(|entry| entry.algorithm.clone()).collect();
    let candidates = names.into_iter().zip(times).map(|(algorithm, time)| Candidate { algorithm, time }).collect();
    Ok((entries.swap_remove(best).plan?, candidates))
}

impl Search<'_> {
    /// Plans with all algorithms, and with those variants of them that may be faster.
    fn enter_all(&mut self, options: &Options) -> Result<()> {
        for planner in PLANNERS {
            if planner.is_quick(self.topology) {
                self.enter(planner.name, planner.name.into(), options)?;
            } else {
                self.leave_out(planner.name);
            }
        }
        if options.trees.is_none() && self.fits("multitree") {
            self.fewer_trees(options)?;
        }
        if options.steps.is_none() && self.simulator == Simulator::Flow && self.fits("forest") {
            self.few_steps(options)?;
        }
        Ok(())
    }

    /// Plans with `algorithm`, and enters the plan, or the reason why the algorithm does not fit.
    fn enter(&mut self, algorithm: &str, name: String, options: &Options) -> Result<()> {
        if !(self.go_on)() {
            return Err(Error::interrupted(format!("interrupted before planning with {name}")));
        }
        let plan = planners::plan(algorithm, self.topology, options);
        if let Err(mistake) = &plan
            && !mistake.is_misfit()
        {
            return Err(mistake.clone());
        }
        self.entries.push(Entry { algorithm: name, plan });
        Ok(())
    }

    /// Enters an algorithm that would take long, without a plan.
    fn leave_out(&mut self, algorithm: &str) {
        let (ranks, links) = (self.topology.ranks(), self.topology.links().len());
        let text = format!("takes long with {ranks} ranks and {links} links: not tried unless it is named");
        self.entries.push(Entry { algorithm: algorithm.into(), plan: Err(Error::new(text).misfit()) });
    }

    fn fits(&self, algorithm: &str) -> bool {
        self.entries.iter().any(|entry| entry.algorithm == algorithm && entry.plan.is_ok())
    }

    fn fewer_trees(&mut self, options: &Options) -> Result<()> {
        let halves = std::iter::successors(Some(self.topology.ranks() / 2), |trees| Some(trees / 2));
        for trees in halves.take_while(|&trees| trees > 0) {
            let name = format!("multitree, {trees} {}", if trees == 1 { "tree" } else { "trees" });
            self.enter("multitree", name, &Options { trees: Some(trees), ..options.clone() })?;
        }
        Ok(())
    }

    fn few_steps(&mut self, options: &Options) -> Result<()> {
        let Some(steps) = few_steps(self.topology, options) else { return Ok(()) };
        let name = format!("forest, {steps} {}", if steps == 1 { "step" } else { "steps" });
        self.enter("forest", name, &Options { steps: Some(steps), ..options.clone() })
    }

    /// Simulates all plans that may be the fastest. Returns the number of the fastest, if there are plans, and the
    /// result of each entry.
    fn race(&mut self) -> Result<Option<(usize, Vec<Result<Prediction>>)>> {
        let mut best = None;
        let mut times = Vec::with_capacity(self.entries.len());
        for number in self.in_order() {
            let time = self.time(number, best)?;
            let done = time.as_ref().ok().map(|time| (time.seconds, number));
            best = best.into_iter().chain(done).min();
            times.push((number, time));
        }
        times.sort_by_key(|&(number, _)| number);
        Ok(best.map(|(_, number)| (number, times.into_iter().map(|(_, time)| time).collect())))
    }

    /// Returns the numbers of all entries; those that will probably be the fastest are first.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        if self.simulator == Simulator::Flow {
            let time = |plan: &Plan| (false, Profile::new(plan).seconds(self.size));
            order.sort_by_cached_key(|&number| self.entries[number].plan.as_ref().map_or((true, Seconds::ZERO), time));
        }
        order
    }

    /// Returns the time of a plan, or the reason why it has none: a misfit, or that it cannot be faster than `best`.
    fn time(&mut self, number: usize, best: Option<(Seconds, usize)>) -> Result<Result<Prediction>> {
        let plan = match &self.entries[number].plan {
            Ok(plan) => plan,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let best = best.filter(|_| self.simulator == Simulator::Flow);
        let name = |fastest: usize| self.entries[fastest].algorithm.as_str();
        let reason = best.and_then(|(least, fastest)| why_slower(plan, self.size, least, name(fastest)));
        if let Some(reason) = reason {
            return Ok(Err(reason));
        }
        let [seconds, latency] =
            self.simulator.seconds(plan, [self.size, Bytes::known(1)], Watch::asking(&mut |_| (self.go_on)()))?;
        Ok(Ok(Prediction { seconds, latency: latency.min(seconds) }))
    }
}

/// Returns why a plan cannot be as fast as that of the algorithm `fastest`, which takes the time `least`: a link needs
/// longer. `None` if it may be.
///
/// ```
/// use std::sync::Arc;
/// use treefold::auto::why_slower;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
/// use treefold::units::{Bytes, Seconds};
///
/// let torus = Arc::new(from_spec("torus:4x4", None, None)?);
/// let ring = planners::plan("ring", &torus, &Options::default())?;
/// let of = |least| why_slower(&ring, Bytes::known(1 << 20), Seconds::known(least), "packing");
/// assert!(of(1e-6).is_some() && of(1.0).is_none());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn why_slower<'a>(plan: impl Into<Walkable<'a>>, size: Bytes, least: Seconds, fastest: &str) -> Option<Error> {
    let needed = plan.into().rate()?.seconds_for(size.get() as f64);
    (needed > least).then(|| {
        let text = format!("not simulated: its busiest link alone needs {needed}, and {fastest} takes {least}");
        Error::new(text).misfit()
    })
}

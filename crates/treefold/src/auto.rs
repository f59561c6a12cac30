//! Finds the fastest plan for a size: a simulator predicts the times of the plans of all planners that fit.
//!
//! Where latency decides, fewer trees than ranks are faster, so MultiTree is also tried with half its trees, a quarter,
//! and so on. Together these tries cost as much as the first. On small switched networks, `forest` is also simulated
//! with the fewest steps, as it judges by the analytic model, which knows little of streams that share links.
//!
//! Where numbers cross lines in fewer bytes, plans are made for these bytes, and simulated for those that really cross
//! in each: where ranks add up by themselves, numbers cross as they are.
//!
//! A flow simulation of many chunks costs far more than its plan. So plans are simulated in the order of their analytic
//! times, and none whose busiest link alone needs longer than the fastest plan so far. Planners that take longest come
//! last, and only if the fastest plan is more than 1 % above the bound.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::misfit;
use crate::number::wire::Wire;
use crate::plan::Plan;
use crate::plan::alpha_beta::Profile;
use crate::planners::forest::few_steps;
use crate::planners::{self, Listener, Options, PLANNERS, Planner, bounds_of, tell};
use crate::run::program::Program;
use crate::sim::{Simulator, Watch};
use crate::topology::Topology;
use crate::units::{Bytes, Seconds};

/// A plan whose time is at most so many times the bound is good enough: no planner that takes long is asked for more.
const GOOD: f64 = 1.01;
/// The most elements for which it is looked up how numbers cross lines, as more would only take longer.
const MOST_LOWERED: u64 = 1 << 16;

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

/// How numbers cross lines in fewer bytes.
#[derive(Debug, Clone, Copy)]
pub struct Crossing {
    /// The type in which they cross.
    pub wire: Wire,
    /// The bytes of an element of the vectors.
    pub element_bytes: u64,
}

impl Crossing {
    /// Returns the bytes of a vector of this size as it crosses lines.
    fn bytes(self, size: Bytes) -> Result<Bytes> {
        Bytes::new(self.wire.bytes((size.get() / self.element_bytes) as usize).max(1) as u64)
    }
}

/// The search for the fastest plan.
struct Search<'a> {
    topology: &'a Arc<Topology>,
    /// The size is that of the bytes that cross lines.
    options: &'a Options,
    crossing: Option<Crossing>,
    /// The size of the vectors.
    whole: Bytes,
    simulator: Simulator,
    listener: Listener<'a>,
    entries: Vec<Entry>,
    /// The least time, and the number of its entry.
    best: Option<(Seconds, usize)>,
}

/// What one algorithm enters into the race: its plan, or the misfit, and what is predicted.
struct Entry {
    algorithm: String,
    plan: Result<Plan>,
    /// The bytes of a vector as they cross lines in this plan.
    size: Bytes,
    time: Result<Prediction>,
}

/// Returns the plan that is fastest for `options.size`, and the result of each algorithm that can keep the limits of
/// the options, for numbers that cross lines as `crossing` says, or as they are. `listener` is told what is done.
///
/// # Errors
/// If an option is wrong; if no algorithm fits (which cannot happen for an all-reduce without limits, as rings fit
/// every network); or if `listener` returns false.
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
/// let (plan, candidates) = auto::plan(&mesh, &options, None, Simulator::Analytic, &mut |_| true)?;
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
    crossing: Option<Crossing>,
    simulator: Simulator,
    listener: Listener,
) -> Result<(Plan, Vec<Candidate>)> {
    let planners = options.able()?;
    let whole = options.size;
    let size = crossing.map_or(Ok(whole), |crossing| crossing.bytes(whole))?;
    let options = &Options { size, ..options.clone() };
    let mut search =
        Search { topology, options, crossing, whole, simulator, listener, entries: Vec::new(), best: None };
    search.enter_quick(&planners)?;
    search.race()?;
    for planner in planners.iter().filter(|planner| planner.is_costly()) {
        search.try_costly(planner)?;
    }
    search.end()
}

impl Search<'_> {
    /// Plans with all algorithms that are not costly, and with those variants of them that may be faster.
    fn enter_quick(&mut self, planners: &[&Planner]) -> Result<()> {
        for planner in planners.iter().filter(|planner| !planner.is_costly()) {
            match self.too_long(planner) {
                Some(reason) => self.leave_out(planner.name, reason),
                None => self.enter(planner.name, planner.name.into(), self.options)?,
            }
        }
        if planners.len() < PLANNERS.len() {
            return Ok(()); // there are limits, which variants may exceed
        }
        if self.fits("multitree") {
            self.fewer_trees()?;
        }
        if self.simulator == Simulator::Flow && self.fits("forest") {
            self.few_steps()?;
        }
        Ok(())
    }

    /// Returns why a planner is left out that would take long; `None` if it would not, or if no other plan is known.
    fn too_long(&self, planner: &Planner) -> Option<String> {
        let (ranks, links) = (self.topology.ranks(), self.topology.links().len());
        let is_left_out = !planner.is_quick(self.topology) && self.entries.iter().any(|entry| entry.plan.is_ok());
        is_left_out.then(|| format!("takes long with {ranks} ranks and {links} links: not tried unless it is named"))
    }

    /// Returns why no planner that is costly is tried; `None` if a better plan may exist.
    fn good_enough(&self) -> Option<String> {
        let (seconds, fastest) = self.best?;
        let bounds = bounds_of(self.topology, self.options);
        let is_good = seconds.get() <= GOOD * bounds.seconds(self.options.size).get();
        is_good.then(|| format!("not tried: {} is within 1 % of the bound", self.algorithm(fastest)))
    }

    /// Plans with a planner that takes long, if that may give a faster plan.
    fn try_costly(&mut self, planner: &Planner) -> Result<()> {
        if let Some(reason) = self.too_long(planner).or_else(|| self.good_enough()) {
            self.leave_out(planner.name, reason);
            return Ok(());
        }
        self.enter(planner.name, planner.name.into(), self.options)?;
        self.time(self.entries.len() - 1)
    }

    /// Plans with `algorithm`, and enters the plan, or the reason why the algorithm does not fit.
    fn enter(&mut self, algorithm: &str, name: String, options: &Options) -> Result<()> {
        tell(self.listener, &name)?;
        match planners::plan_with_proof(algorithm, self.topology, options, self.listener) {
            Ok((plan, _)) => {
                let time = Err(Error::new("not simulated").misfit());
                let size = self.size_of(&plan);
                self.entries.push(Entry { algorithm: name, plan: Ok(plan), size, time });
            }
            Err(misfit) if misfit.is_misfit() => self.leave_out(&name, misfit.to_string()),
            Err(mistake) => return Err(mistake),
        }
        Ok(())
    }

    /// Returns the bytes of a vector as they cross lines in a plan.
    fn size_of(&self, plan: &Plan) -> Bytes {
        let is_smaller = self.crossing.is_none_or(|crossing| {
            let elements = (self.whole.get() / crossing.element_bytes).min(MOST_LOWERED);
            Program::carries(plan, crossing.wire, elements)
        });
        if is_smaller { self.options.size } else { self.whole }
    }

    /// Enters an algorithm without a plan.
    fn leave_out(&mut self, algorithm: &str, reason: String) {
        let reason = Error::new(reason).misfit();
        let size = self.options.size;
        self.entries.push(Entry { algorithm: algorithm.into(), plan: Err(reason.clone()), size, time: Err(reason) });
    }

    fn fits(&self, algorithm: &str) -> bool {
        self.entries.iter().any(|entry| entry.algorithm == algorithm && entry.plan.is_ok())
    }

    /// Returns the name of the algorithm that has made the plan of an entry.
    fn algorithm(&self, number: usize) -> &str {
        let Entry { algorithm, plan, .. } = &self.entries[number];
        plan.as_ref().map_or(algorithm, |plan| &plan.algorithm)
    }

    fn fewer_trees(&mut self) -> Result<()> {
        let halves = std::iter::successors(Some(self.topology.ranks() / 2), |trees| Some(trees / 2));
        for trees in halves.take_while(|&trees| trees > 0) {
            let name = format!("multitree, {trees} {}", if trees == 1 { "tree" } else { "trees" });
            self.enter("multitree", name, &Options { trees: Some(trees), ..self.options.clone() })?;
        }
        Ok(())
    }

    fn few_steps(&mut self) -> Result<()> {
        let Some(steps) = few_steps(self.topology, self.options) else { return Ok(()) };
        let name = format!("forest, {steps} {}", if steps == 1 { "step" } else { "steps" });
        self.enter("forest", name, &Options { steps: Some(steps), ..self.options.clone() })
    }

    /// Simulates all plans that may be the fastest.
    fn race(&mut self) -> Result<()> {
        self.in_order().into_iter().try_for_each(|number| self.time(number))
    }

    /// Returns the numbers of all entries; those that will probably be the fastest are first.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        if self.simulator == Simulator::Flow {
            order.sort_by_cached_key(|&number| {
                let Entry { plan, size, .. } = &self.entries[number];
                plan.as_ref().map_or((true, Seconds::ZERO), |plan| (false, Profile::new(plan).seconds(*size)))
            });
        }
        order
    }

    /// Predicts the time of an entry, unless it has no plan or cannot be the fastest.
    fn time(&mut self, number: usize) -> Result<()> {
        let Entry { plan: Ok(plan), size, .. } = &self.entries[number] else { return Ok(()) };
        let time = match self.why_slower(plan, *size) {
            Some(reason) => Err(reason),
            None => {
                let sizes = [*size, Bytes::known(1)];
                let task = format!("simulating {}", self.entries[number].algorithm);
                let [seconds, latency] =
                    self.simulator.seconds(plan, sizes, Watch::asking(&mut |_| (self.listener)(&task)))?;
                self.best = self.best.into_iter().chain([(seconds, number)]).min();
                Ok(Prediction { seconds, latency: latency.min(seconds) })
            }
        };
        self.entries[number].time = time;
        Ok(())
    }

    /// Returns why a plan cannot be as fast as the best: a link needs longer. `None` if it may be, or if simulations
    /// cost next to nothing.
    fn why_slower(&self, plan: &Plan, size: Bytes) -> Option<Error> {
        let (least, fastest) = self.best.filter(|_| self.simulator == Simulator::Flow)?;
        let needed = plan.rate()?.seconds_for(size.get() as f64);
        (needed > least).then(|| {
            let fastest = &self.entries[fastest].algorithm;
            let text = format!("not simulated: its busiest link alone needs {needed}, and {fastest} takes {least}");
            Error::new(text).misfit()
        })
    }

    /// Returns the fastest plan, and what became of all entries.
    fn end(self) -> Result<(Plan, Vec<Candidate>)> {
        let Some((_, number)) = self.best else {
            let packing = self.entries.iter().find(|entry| entry.algorithm == "packing");
            let reason = packing.or(self.entries.first()).and_then(|entry| entry.plan.as_ref().err());
            misfit!("{}", reason.expect("some planner was tried, and none has a plan"));
        };
        let mut fastest = None;
        let mut candidates = Vec::with_capacity(self.entries.len());
        for (place, Entry { algorithm, plan, time, .. }) in self.entries.into_iter().enumerate() {
            candidates.push(Candidate { algorithm, time });
            fastest = fastest.or(plan.ok().filter(|_| place == number));
        }
        Ok((fastest.expect("the best entry has a plan"), candidates))
    }
}

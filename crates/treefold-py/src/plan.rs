//! The binding of `treefold::plan`.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use treefold::plan::{Collective, check::check, check_schedule::check_schedule, schedule};
use treefold::topology::LinkModel;
use treefold::units::Bytes;

use crate::schedule::Schedule;
use crate::topology::Topology;
use crate::trees::{Tree, trees};
use crate::{TreefoldError, core, raise};

/// An all-reduce, or another collective, on one network. Equal plans send the same and were made for the same size.
#[pyclass(frozen, eq, hash, module = "treefold")]
pub struct Plan {
    pub plan: treefold::plan::Plan,
    /// Whether it came from a file, which anybody may have edited: such a plan is proven before it is used.
    from_file: bool,
    verdict: OnceLock<Option<String>>,
    fingerprint: OnceLock<u64>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.plan == other.plan
    }
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let plan = &self.plan;
        (&plan.algorithm, plan.units, plan.size, plan.trees.len(), plan.edges.lane.len()).hash(state);
        self.topology().hash(state);
    }
}

impl Plan {
    pub fn new(plan: treefold::plan::Plan, from_file: bool) -> Self {
        Self { plan, from_file, verdict: OnceLock::new(), fingerprint: OnceLock::new() }
    }

    fn verdict(&self) -> &Option<String> {
        self.verdict.get_or_init(|| check(&self.plan).err().map(|error| error.to_string()))
    }

    /// The plan, if it may be walked without care.
    pub fn sound(&self) -> PyResult<&treefold::plan::Plan> {
        match self.verdict.get() {
            None if !self.from_file => Ok(&self.plan),
            _ => match self.verdict() {
                None => Ok(&self.plan),
                Some(reason) => {
                    Err(TreefoldError::new_err(format!("the plan is wrong, it can only be checked: {reason}")))
                }
            },
        }
    }
}

#[pymethods]
impl Plan {
    /// The plan of a plan file's text. It is proven before it is used.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self::new(py.detach(|| treefold::plan::Plan::from_json(text)).map_err(raise)?, true))
    }

    /// The plan as the text of a plan file.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.plan.to_json())
    }

    /// What comes out of a pickle is a plan from a file: anybody may have edited it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_plan")?, (self.to_json(py),)))
    }

    /// Itself: a plan never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// The network that it is for.
    #[getter]
    fn topology(&self) -> Topology {
        Topology(Arc::clone(&self.plan.topology))
    }

    /// Size of the vector, in bytes, that it was made for; None where that is not known.
    #[getter]
    fn size_bytes(&self) -> Option<u64> {
        self.plan.size.map(|size| size.0)
    }

    /// Name of the simulator by which it was chosen among others; None if it was not, or that is not known.
    #[getter]
    fn judged_by(&self) -> Option<&str> {
        self.plan.judged_by.as_deref()
    }

    /// The same plan, made for a vector of this size; where it was chosen among others, by this simulator.
    #[pyo3(signature = (size_bytes, judged_by=None))]
    fn made_for(&self, size_bytes: u64, judged_by: Option<String>) -> PyResult<Self> {
        let size = Some(Bytes::new(size_bytes).map_err(raise)?);
        let plan = treefold::plan::Plan { size, judged_by, ..self.plan.clone() };
        let (verdict, fingerprint) = (self.verdict.clone(), self.fingerprint.clone());
        Ok(Self { plan, from_file: self.from_file, verdict, fingerprint })
    }

    /// Another collective by the same trees.
    fn derive(&self, collective: &str, root: u32) -> PyResult<Self> {
        let collective: Collective = collective.parse().map_err(raise)?;
        let derived = treefold::plan::derive(self.sound()?.clone(), collective, root).map_err(raise)?;
        Ok(Self::new(derived, self.from_file)) // trees of strangers may not bear being turned
    }

    /// The reduce halves alone, every tree into its own root.
    fn reduce_halves(&self) -> PyResult<Self> {
        Ok(Self::new(treefold::plan::reduce_halves(self.sound()?).map_err(raise)?, false))
    }

    /// The same plan on its network as a link model sees it.
    fn under(&self, link_model: &str) -> PyResult<Self> {
        let model: LinkModel = link_model.parse().map_err(raise)?;
        let topology = Arc::new(self.plan.topology.under(model));
        Ok(Self::new(treefold::plan::Plan { topology, ..self.sound()?.clone() }, false))
    }

    /// Name of the algorithm that made it.
    #[getter]
    fn algorithm(&self) -> &str {
        &self.plan.algorithm
    }

    /// Name of the collective that it computes.
    #[getter]
    fn collective(&self) -> String {
        self.plan.collective.to_string()
    }

    /// Rank that broadcasts or receives, for the collectives that have one.
    #[getter]
    fn root(&self) -> Option<u32> {
        self.plan.collective.has_root().then(|| self.plan.root())
    }

    /// How many trees it has.
    #[getter]
    fn num_trees(&self) -> usize {
        self.plan.trees.len()
    }

    /// Its trees, phase by phase.
    fn trees(slf: Py<Self>, py: Python<'_>) -> PyResult<Vec<Tree>> {
        trees(&slf, py)
    }

    /// Pairs of ranks that send to each other, the smaller one first.
    #[getter]
    fn pairs(&self) -> Vec<(u32, u32)> {
        self.plan.pairs()
    }

    /// A number that differs between plans that send differently.
    #[getter]
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| treefold::run::program::fingerprint(&self.plan))
    }

    /// Steps of both halves together; None for streams.
    #[getter]
    fn steps(&self) -> Option<u32> {
        self.plan.steps()
    }

    /// `(max_height, mean_height, max_fanout, mean_max_fanout)`.
    #[getter]
    fn shape(&self) -> (u32, f64, u32, f64) {
        let shape = self.plan.shape();
        (shape.max_height, shape.mean_height, shape.max_fanout, shape.mean_max_fanout)
    }

    /// `(latency_s, path, slowest, overhead_s, share, chunks)` of each streamed tree's pipeline: `path` and `slowest` in
    /// seconds a byte of the vector, chunks as for a vector of this size.
    fn pipelines(&self, size_bytes: u64) -> PyResult<Vec<Pipeline>> {
        let plan = self.sound()?;
        let routes = treefold::plan::LaneRoutes::new(&plan.topology, &plan.lanes);
        let streamed = plan.phases.iter().filter(|phase| phase.pace.is_stream());
        let all = streamed.flat_map(|phase| treefold::plan::pipeline::pipelines(plan, phase, &routes));
        let row = |tree: treefold::plan::pipeline::TreePipeline| {
            (tree.latency, tree.path, tree.slowest, tree.overhead, tree.share, tree.chunks(Bytes(size_bytes)))
        };
        Ok(all.map(row).collect())
    }

    /// Bytes of the vector a second that the busiest link allows; None when nothing is sent.
    #[getter]
    fn rate(&self) -> Option<f64> {
        self.plan.rate().map(|rate| rate.0)
    }

    /// nccl-tests' factor from algbw to busbw.
    #[getter]
    fn bus_factor(&self) -> f64 {
        self.plan.collective.bus_factor(self.plan.ranks())
    }

    /// None if the plan computes its collective, else the first fault.
    fn check(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.verdict().clone())
    }

    /// Lowers the plan for vectors of `elements` elements; see `Schedule`.
    fn schedule(&self, py: Python<'_>, elements: u64, element_bytes: u64) -> PyResult<Schedule> {
        let plan = self.sound()?;
        let schedule = py.detach(|| schedule::lower(plan, elements, element_bytes)).map_err(raise)?;
        let ranks = 0..plan.ranks();
        let inputs = ranks.clone().map(|rank| bounds(schedule::input(plan, elements, rank))).collect();
        let outputs =
            ranks.map(|rank| schedule::output(plan, elements, rank).into_iter().map(bounds).collect()).collect();
        Ok(Schedule { schedule, inputs, outputs })
    }

    /// None if every order that the schedule's dependencies allow computes the collective, else the first fault.
    fn check_schedule(&self, py: Python<'_>, schedule: &Schedule) -> Option<String> {
        py.detach(|| check_schedule(&self.plan, &schedule.schedule)).err().map(|error| error.to_string())
    }

    fn __repr__(&self) -> String {
        format!("Plan({:?}, {}, trees={})", self.plan.algorithm, self.plan.collective, self.plan.trees.len())
    }
}

pub fn bounds(range: std::ops::Range<u64>) -> (u64, u64) {
    (range.start, range.end)
}

/// `(latency_s, path, slowest, overhead_s, share, chunks)`.
type Pipeline = (f64, f64, f64, f64, f64, u32);

/// What `pickle` calls to have a plan back.
#[pyfunction]
pub fn read_plan(py: Python<'_>, text: &str) -> PyResult<Plan> {
    Plan::from_json(py, text)
}

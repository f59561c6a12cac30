//! The binding of `treefold::plan`.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Map;
use treefold::blocks::Blocks;
use treefold::error::Error;
use treefold::ids::NodeId;
use treefold::plan::{AnyPlan, Collective, Purpose, Walkable, Written, lower, schedule};
use treefold::topology::LinkModel;

use crate::columns::{add_edges, add_lanes};
use crate::options::{Whole, dictionary, values};
use crate::schedule::{Schedule, bounds};
use crate::shape::{Pipeline, TreeShape};
use crate::topology::Topology;
use crate::trees::{Tree, trees};
use crate::{core, html, planning, raise};

/// A plan for an all-reduce, or for another collective, on one network. It never changes.
///
/// `treefold.plan` makes one, and `treefold.load_plan` reads one. Plans are equal if everything in them is: the
/// network, what is sent, the size, the options, and the simulator that chose. To ask only whether two plans send the
/// same, compare `fingerprint`.
///
/// A plan from a file may be wrong, and is proven when it is first used. If it is wrong, `rate`, `busiest_links`,
/// `shape`, `trees`, `derive`, `reduce_halves`, `under`, `moved_to`, `pipelines` and `schedule` raise a `TreefoldError`
/// that says why.
///
/// Example:
///     >>> plan = treefold.plan("torus:4x4", "multitree", size_bytes=1 << 20)
///     >>> plan.algorithm, plan.collective, plan.size_bytes, plan.num_trees, plan.steps
///     ('multitree', 'all-reduce', 1048576, 16, 10)
///     >>> plan.topology.name, len(plan.busiest_links), round(plan.rate / 1e9, 1)
///     ('torus:4x4', 32, 28.4)
#[pyclass(frozen, eq, hash, module = "treefold")]
pub struct Plan {
    plan: AnyPlan,
    fingerprint: OnceLock<u64>,
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.as_written() == other.as_written()
    }
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_written().hash(state);
        self.topology().hash(state);
    }
}

impl Plan {
    fn new(plan: AnyPlan) -> Self {
        Self { plan, fingerprint: OnceLock::new() }
    }

    /// Wraps a plan that a planner has made.
    pub fn planned(plan: treefold::plan::Plan) -> Self {
        Self::new(AnyPlan::Sound(plan))
    }

    /// Returns the plan for whatever does not run it, proven if it has to be.
    pub fn sound(&self) -> PyResult<Walkable<'_>> {
        self.plan.sound().map_err(raise)
    }

    /// Returns the plan for a run.
    pub fn runnable(&self) -> PyResult<&treefold::plan::Plan> {
        self.plan.runnable().map_err(raise)
    }

    /// Returns what may be read of the plan, proven or not.
    pub fn as_written(&self) -> Written<'_> {
        self.plan.as_written()
    }
}

#[pymethods]
impl Plan {
    /// Parse the text of a plan file; the plan is checked before it is used.
    ///
    /// Raises:
    ///     TreefoldError: If the text is malformed, or does not describe a plan.
    ///
    /// Example:
    ///     >>> plan = treefold.plan("ring:4", "ring")
    ///     >>> treefold.Plan.from_json(plan.to_json()) == plan
    ///     True
    #[staticmethod]
    pub fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        let plan = py.detach(|| treefold::plan::Plan::from_json(text)).map_err(raise)?;
        Ok(Self::new(AnyPlan::Unproven(plan)))
    }

    /// Return the plan as the text of a plan file.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").to_json()[:26]
    ///     '{"format":"treefold-plan",'
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.as_written().to_json())
    }

    /// Pickle the plan as the text of a plan file; it is proven before it is used, as it may have been changed.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_plan")?, (self.to_json(py),)))
    }

    /// Return the plan itself, which never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Return the plan itself, which never changes.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// The network of the plan.
    #[getter]
    fn topology(&self) -> Topology {
        Topology(Arc::clone(self.as_written().topology()))
    }

    /// The size of the vector for which the plan was made, in bytes; None if it is not known.
    #[getter]
    fn size_bytes(&self) -> Option<u64> {
        self.as_written().purpose().size.map(|size| size.get())
    }

    /// The name of the simulator by which `auto` chose the plan; None if it did not, or if that is not known.
    #[getter]
    fn chosen_by(&self) -> Option<&str> {
        self.as_written().purpose().chosen_by.as_deref()
    }

    /// The options of the planner that were not left at their defaults, by name; `treefold.replan` keeps to them.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(py, &self.as_written().purpose().options)
    }

    /// Return the plan with another `size_bytes`, `chosen_by` and `options`; what it sends stays the same.
    ///
    /// What is left out becomes None or empty, and does not keep its old value: give `plan.chosen_by` and
    /// `plan.options` to keep them.
    ///
    /// Args:
    ///     size_bytes: The size of the vector for which the plan was made.
    ///     chosen_by: The name of the simulator by which the plan was chosen among others; None if it was not.
    ///     options: The options of the planner that were not left at their defaults, by name.
    ///
    /// Raises:
    ///     TreefoldError: If the size is not from 0 to 1e18 bytes, or an option is no number, text, True or False.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").made_for(1024).size_bytes
    ///     1024
    #[pyo3(signature = (size_bytes, chosen_by=None, options=None))]
    fn made_for(
        &self,
        size_bytes: Whole,
        chosen_by: Option<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let size = Some(size_bytes.bytes("size_bytes")?);
        let options = options.map_or_else(|| Ok(Map::new()), values)?;
        let plan = self.plan.made_for(Purpose { size, chosen_by, options });
        Ok(Self { plan, fingerprint: self.fingerprint.clone() })
    }

    /// Return the plan for another network, or None if that lacks a rank, a node or a link of the plan.
    ///
    /// Args:
    ///     network: A `Topology`.
    ///
    /// Raises:
    ///     TreefoldError: If the plan is from a file and wrong.
    ///
    /// Example:
    ///     >>> ring = treefold.topology("ring:4")
    ///     >>> plan = treefold.plan(ring, "multitree")
    ///     >>> plan.moved_to(ring.with_bandwidths({("GPU0", "GPU1"): 1e9})).topology.links()[1].bandwidth_Bps
    ///     1000000000.0
    ///     >>> plan.moved_to(ring.without_links([("GPU0", "GPU1")])) is None
    ///     True
    fn moved_to(&self, network: &Topology) -> PyResult<Option<Self>> {
        Ok(self.plan.moved_to(&network.0).map_err(raise)?.map(Self::new))
    }

    /// Return the plan of another collective over the trees of this all-reduce.
    ///
    /// Args:
    ///     collective: One of the collectives of `treefold.plan`; `all-reduce` returns the plan itself.
    ///     root: The rank that broadcasts or receives; the other collectives have no root.
    ///
    /// Raises:
    ///     TreefoldError: If this plan is not for an all-reduce, if its trees do not each reduce from and broadcast to
    ///         all ranks (those of `ring2d` and `p2p` do not), or if there is no such rank.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").derive("broadcast", 2)
    ///     Plan("ring", broadcast, trees=4)
    #[pyo3(signature = (collective, root=Whole::ZERO), text_signature = "($self, collective, root=0)")]
    fn derive(slf: Py<Self>, py: Python<'_>, collective: &str, root: Whole) -> PyResult<Py<Self>> {
        let collective: Collective = collective.parse().map_err(raise)?;
        let plan = slf.get().sound()?;
        let Some(rank) = root.value.and_then(|root| u32::try_from(root).ok()) else {
            let (root, ranks) = (root.written, plan.ranks());
            return Err(raise(Error::new(format!("root {root} does not exist: there are {ranks} ranks"))));
        };
        if collective == Collective::AllReduce && plan.collective == collective {
            return Ok(slf);
        }
        let any = &slf.get().plan;
        let derived = py.detach(|| any.derive(collective, NodeId(rank))).map_err(raise)?;
        Py::new(py, Self::new(derived))
    }

    /// Return the plan of this all-to-all for blocks of other sizes, along the same trees.
    ///
    /// Args:
    ///     blocks: A matrix with a row for each rank: the sizes of its blocks for all ranks, of which ratios count.
    ///
    /// Raises:
    ///     TreefoldError: If the plan is no all-to-all, or the matrix does not fit it or its own blocks.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:2", collective="all-to-all").with_blocks([[0, 4], [2, 0]]).blocks.tolist()
    ///     [[0, 2], [1, 0]]
    fn with_blocks<'py>(&self, py: Python<'py>, blocks: &Bound<'py, PyAny>) -> PyResult<Self> {
        let ranks = self.topology().0.ranks();
        let rows = py.import("treefold.blocks")?.getattr("matrix")?.call1((blocks, ranks))?;
        let blocks = planning::blocks(ranks, Some(&rows.extract()?))?;
        py.detach(|| self.plan.with_blocks(blocks)).map(Self::new).map_err(raise)
    }

    /// The sizes of blocks as a NumPy array with a row for each rank, divided by their common divisor; None if equal.
    #[getter]
    fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<u64>>>> {
        let rows = |blocks: &Blocks| blocks.shares().map(Iterator::collect).collect::<Vec<Vec<u64>>>();
        self.as_written().blocks().map(|blocks| Ok(PyArray2::from_vec2(py, &rows(blocks))?)).transpose()
    }

    /// Return a plan of only the reduce halves of all trees.
    ///
    /// Each tree leaves its sum at its own root. As roots may differ, the result is no collective: the plan can be
    /// simulated but not run, and `check` may report a fault. Its `collective` and `root` mean nothing.
    ///
    /// Raises:
    ///     MisfitError: If the plan has several phases, as those of `ring2d` have.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "packing").reduce_halves().trees()[0].broadcast()
    ///     []
    fn reduce_halves(&self) -> PyResult<Self> {
        self.plan.reduce_halves().map(Self::new).map_err(raise)
    }

    /// Return the plan with its network under a link model.
    ///
    /// Args:
    ///     link_model: One of `treefold.LINK_MODELS`.
    ///
    /// Raises:
    ///     TreefoldError: If the link model is unknown.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").under("hockney").topology.links()[0].overhead_s
    ///     1.5e-07
    fn under(&self, link_model: &str) -> PyResult<Self> {
        let model: LinkModel = link_model.parse().map_err(raise)?;
        self.plan.under(model).map(Self::new).map_err(raise)
    }

    /// The name of the algorithm that has made the plan.
    #[getter]
    fn algorithm(&self) -> &str {
        self.as_written().algorithm()
    }

    /// The name of the collective.
    #[getter]
    fn collective(&self) -> String {
        self.as_written().collective().to_string()
    }

    /// The rank that broadcasts or receives; None for a collective without a root.
    #[getter]
    fn root(&self) -> Option<u32> {
        self.as_written().root().map(|root| root.0)
    }

    /// How many trees the plan has.
    #[getter]
    fn num_trees(&self) -> usize {
        self.as_written().num_trees()
    }

    /// List the trees, phase by phase.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").trees()[0]
    ///     Tree(root="GPU0", share=0.2500, phase=0)
    fn trees(slf: Py<Self>, py: Python<'_>) -> PyResult<Vec<Tree>> {
        trees(&slf, py)
    }

    /// Return a dictionary with a NumPy array for each column of the plan's lanes, trees and edges.
    ///
    /// `Trace.columns` explains them, but for what it says of transfers, which only a trace has.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").columns()["tree_share"].tolist()
    ///     [0.25, 0.25, 0.25, 0.25]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (plan, columns) = (self.sound()?.draft(), PyDict::new(py));
        add_edges(&columns, plan, &add_lanes(&columns, plan)?)?;
        Ok(columns)
    }

    /// The pairs of ranks that exchange messages, each with the smaller number first. In a plan in whose trees switches
    /// reduce or multicast, the pairs are of nodes, numbered as in `Topology.link_columns`.
    #[getter]
    fn pairs(&self) -> Vec<(u32, u32)> {
        self.as_written().pairs().into_iter().map(|(a, b)| (a.0, b.0)).collect()
    }

    /// A hash of all messages of the plan and of how they follow each other, a whole number. Plans with the same
    /// messages have the same fingerprint.
    #[getter]
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| self.as_written().fingerprint())
    }

    /// How many steps the plan takes, from the first send to the last; None if its trees stream.
    #[getter]
    fn steps(&self) -> Option<u32> {
        self.as_written().steps()
    }

    /// The heights and fanouts of the trees, a `TreeShape`.
    #[getter]
    fn shape(&self) -> PyResult<TreeShape> {
        Ok(TreeShape::new(self.sound()?))
    }

    /// Return a list with the `Pipeline` of each streamed tree; it is empty for a plan that runs in steps.
    ///
    /// Args:
    ///     size_bytes: The size of the vector, as a number of bytes.
    ///
    /// Raises:
    ///     TreefoldError: If the size is not from 0 to 1e18 bytes, or the plan is from a file and wrong.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "dbtree").pipelines(1 << 20)[0].share
    ///     0.5
    fn pipelines(&self, size_bytes: Whole) -> PyResult<Vec<Pipeline>> {
        let (plan, size) = (self.sound()?, size_bytes.bytes("size_bytes")?);
        let routes = treefold::plan::LaneRoutes::new(&plan.topology, &plan.lanes);
        let streamed = plan.phases.iter().filter(|phase| phase.pace.is_stream());
        let all = streamed.flat_map(|phase| treefold::plan::pipeline::pipelines(plan, phase, &routes));
        Ok(all.map(|tree| Pipeline::new(&tree, size)).collect())
    }

    /// The bytes of the vector per second that the busiest link allows; None if nothing is sent. Streamed plans come
    /// near it with large vectors; plans in steps stay below.
    #[getter]
    fn rate(&self) -> PyResult<Option<f64>> {
        Ok(self.sound()?.rate().map(|rate| rate.bytes_per_second()))
    }

    /// The links with the largest load for their bandwidth, all that are within 0.1 %, as `source -> target`. They
    /// limit the rate.
    #[getter]
    fn busiest_links(&self) -> PyResult<Vec<String>> {
        let plan = self.sound()?;
        Ok(plan.busiest_links().into_iter().map(|link| plan.topology.describe_link(link)).collect())
    }

    /// The factor from algbw to busbw for the plan's collective, as nccl-tests defines it.
    #[getter]
    fn bus_factor(&self) -> f64 {
        let plan = self.as_written();
        plan.collective().bus_factor(plan.topology().ranks())
    }

    /// Return the first fault of the plan, or None if it is correct; `treefold.check` returns a verdict.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").check() is None
    ///     True
    fn check(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.plan.check()).err().map(|fault| fault.to_string())
    }

    /// Return the `Schedule` of the plan: its transfers for vectors of one size.
    ///
    /// Args:
    ///     elements: How many elements each rank's vector has.
    ///     element_bytes: How many bytes an element has, at least 1.
    ///
    /// Raises:
    ///     TreefoldError: If the vector would have more than 1e18 bytes, or the plan asks for more chunks than treefold
    ///     handles.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").schedule(elements=8, element_bytes=4)
    ///     Schedule(transfers=24, buffers=4)
    fn schedule(&self, py: Python<'_>, elements: Whole, element_bytes: Whole) -> PyResult<Schedule> {
        let plan = self.sound()?;
        let (elements, element_bytes) = (elements.count("elements")?, element_bytes.count("element_bytes")?);
        let schedule = py.detach(|| lower(plan, elements, element_bytes)).map_err(raise)?;
        let ranks = plan.rank_ids();
        let inputs = ranks.clone().map(|rank| bounds(schedule::input(&plan, elements, rank))).collect();
        let outputs =
            ranks.map(|rank| schedule::output(&plan, elements, rank).into_iter().map(bounds).collect()).collect();
        Ok(Schedule { schedule, inputs, outputs })
    }

    /// Return None if a schedule is correct in every order that its dependencies allow, or else its first fault.
    ///
    /// Example:
    ///     >>> plan = treefold.plan("ring:4", "ring")
    ///     >>> plan.check_schedule(plan.schedule(elements=8, element_bytes=4)) is None
    ///     True
    fn check_schedule(&self, py: Python<'_>, schedule: &Schedule) -> Option<String> {
        py.detach(|| self.as_written().check_schedule(&schedule.schedule)).err().map(|error| error.to_string())
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> Option<String> {
        html(slf.as_any(), "of_plan")
    }

    fn __repr__(&self) -> String {
        let plan = self.as_written();
        format!("Plan({:?}, {}, trees={})", plan.algorithm(), plan.collective(), plan.num_trees())
    }
}

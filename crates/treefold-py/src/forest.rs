//! The binding of the trees from which the solver planners, which are written in Python, choose.

use std::sync::{Arc, Mutex, MutexGuard};

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::ids::NodeId;
use treefold::plan::Chunk;
use treefold::planners::in_network::steiner::Halves;
use treefold::planners::spanning::{self, Lengths, Rated, ResourceId, Resources, SpanningTree, Usage};
use treefold::planners::{Heights, Options, gost, packing, surviving};
use treefold::topology;

use crate::options::Known;
use crate::plan::Plan;
use crate::topology::Topology;
use crate::{Column, MisfitError, raise};

/// Spanning trees from which a planner chooses, and the capacities for which they compete.
#[pyclass(frozen, module = "treefold")]
pub struct Forest {
    topology: Arc<topology::Topology>,
    resources: Resources,
    trees: Mutex<Vec<SpanningTree>>,
}

/// How GOST grew the trees of a forest.
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Growth {
    /// The bytes a second of each tree.
    rates: Vec<f64>,
    /// The limit of the height that holds.
    height: u32,
    /// The least rate of a tree that holds, in bytes a second.
    #[pyo3(name = "least_rate_Bps")]
    least_rate: f64,
}

impl Forest {
    fn trees(&self) -> MutexGuard<'_, Vec<SpanningTree>> {
        self.trees.lock().expect("no thread panics while it holds the trees")
    }

    /// Adds trees, and returns their rates.
    fn add(&self, rated: Vec<Rated>) -> Vec<f64> {
        let (trees, rates): (Vec<_>, Vec<_>) = rated.into_iter().map(|Rated { tree, rate }| (tree, rate)).unzip();
        self.trees().extend(trees);
        rates
    }
}

/// Returns the unit of heights that Python's options name.
fn unit_of_heights(text: &str) -> Heights {
    serde_json::from_value(text.into()).expect("Python passes on what the core has read")
}

#[pymethods]
impl Forest {
    #[new]
    fn new(topology: &Topology) -> Self {
        let resources = Resources::new(&topology.0);
        Self { topology: Arc::clone(&topology.0), resources, trees: Mutex::default() }
    }

    /// Return a forest for trees with switches inside, whose halves may differ. It has no trees yet.
    #[staticmethod]
    fn in_network(topology: &Topology) -> Self {
        let resources = Resources::of_links(&topology.0);
        Self { topology: Arc::clone(&topology.0), resources, trees: Mutex::default() }
    }

    fn __len__(&self) -> usize {
        self.trees().len()
    }

    /// The capacity of each resource.
    #[getter]
    fn capacity<'py>(&self, py: Python<'py>) -> Column<'py, f64> {
        let capacity = self.resources.capacity.iter().map(|capacity| capacity.bytes_per_second());
        capacity.collect::<Vec<f64>>().into_pyarray(py)
    }

    /// How many ranks the network has.
    #[getter]
    fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// Return `(first, resource, count)`: tree i uses `resource[first[i]:first[i + 1]]`, each `count` times.
    fn usage<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>, Column<'py, u32>) {
        let (mut first, mut resource, mut count) = (vec![0], Vec::new(), Vec::new());
        for tree in self.trees().iter() {
            for used in self.resources.usage(tree) {
                let Usage { resource: ResourceId(number), count: times } = used;
                resource.push(number);
                count.push(times);
            }
            first.push(resource.len() as u64);
        }
        (first.into_pyarray(py), resource.into_pyarray(py), count.into_pyarray(py))
    }

    /// Add trees by multiplicative weights; return their rates.
    fn add_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> Vec<f64> {
        py.detach(|| self.add(packing::by_weights(&self.topology, &self.resources, epsilon, most)))
    }

    /// Add trees with switches inside by multiplicative weights; return the nodes at which such trees may be rooted.
    fn add_steiner_by_weights(&self, py: Python<'_>, ranks_relay: bool, epsilon: f64, most: usize) -> Vec<u32> {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            self.add(halves.by_weights(&self.resources, epsilon, most));
            halves.roots.iter().map(|root| root.0).collect()
        })
    }

    /// Add a cheap tree with switches inside for each of these roots, under its own prices, unless the forest has it.
    fn add_cheap_steiner(&self, py: Python<'_>, ranks_relay: bool, prices: Vec<Vec<f64>>, roots: Vec<u32>) {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            let mut trees = self.trees();
            for (prices, root) in prices.iter().zip(roots) {
                let found = halves.cheap_tree(&self.resources, prices, NodeId(root));
                if let Some(found) = found.filter(|found| !trees.contains(&found.tree)) {
                    trees.push(found.tree);
                }
            }
        });
    }

    /// Add mirrored trees of one root by multiplicative weights; return their rates.
    fn add_of_one_root_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> PyResult<Vec<f64>> {
        let found = py.detach(|| packing::of_one_root_by_weights(&self.topology, &self.resources, epsilon, most));
        let found = found.ok_or_else(|| {
            let name = self.topology.name();
            MisfitError::new_err(format!(
                "trees of one root need links that carry both ways, but those of {name} do not join all ranks; \
                 packing fits"
            ))
        })?;
        Ok(self.add(found))
    }

    /// Add the cheapest tree under `prices` with one of these roots, unless the forest has it; return its cost.
    fn add_cheapest(&self, py: Python<'_>, prices: Vec<f64>, roots: Vec<u32>) -> f64 {
        let roots: Vec<NodeId> = roots.into_iter().map(NodeId).collect();
        py.detach(|| {
            let found = packing::cheapest_tree(&self.topology, &self.resources, &prices, &roots);
            let mut trees = self.trees();
            if !trees.contains(&found.tree) {
                trees.push(found.tree);
            }
            found.cost
        })
    }

    /// Add the tree of shortest routes from each of `roots`, by `hops` or by `latency`.
    fn add_shortest(&self, py: Python<'_>, roots: Vec<u32>, unit: &str) {
        let heights = unit_of_heights(unit);
        py.detach(|| {
            let trees = roots.into_iter().map(|root| packing::shortest_tree(&self.topology, NodeId(root), heights));
            self.trees().extend(trees);
        });
    }

    /// Add `count` trees with the largest rate that all of them can have; return it, or None if there are not so many.
    fn add_equal(&self, py: Python<'_>, count: usize) -> Option<f64> {
        let found = py.detach(|| packing::equal_trees(&self.topology, &self.resources, count))?;
        self.trees().extend(found.trees);
        Some(found.rate)
    }

    /// Add the trees of a plan for an earlier state of this network that still exist; return the share of each.
    fn add_surviving(&self, plan: &Plan) -> PyResult<Vec<f64>> {
        Ok(self.add(surviving::surviving(plan.sound()?, &self.topology)))
    }

    /// Return how many trees of a plan for this network the forest has.
    fn count_of(&self, plan: &Plan) -> PyResult<usize> {
        let trees = self.trees();
        let of_plan = surviving::surviving(plan.sound()?, &self.topology);
        Ok(of_plan.iter().filter(|standing| trees.contains(&standing.tree)).count())
    }

    /// Add the trees of GOST within the limits of `options`.
    fn grow(&self, py: Python<'_>, options: Known<Options>) -> PyResult<Growth> {
        let Known(options) = options;
        let grown = py.detach(|| gost::grow(&self.topology, &options)).map_err(raise)?;
        let least_rate = grown.least_rate.bytes_per_second();
        Ok(Growth { rates: self.add(grown.trees), height: grown.height, least_rate })
    }

    /// Return the rates of all trees, of which at most `most` have one above zero, without a solver.
    fn greedy_shares(&self, most: usize, least_rate: f64) -> Vec<f64> {
        spanning::greedy_shares(&self.resources, &self.trees(), most, least_rate)
    }

    /// Return the height of each tree, in `hops`, or by `latency` in multiples of the smallest one.
    fn heights(&self, unit: &str) -> Vec<u64> {
        let lengths = Lengths::new(&self.topology, unit_of_heights(unit));
        self.trees().iter().map(|tree| lengths.height(&self.topology, tree)).collect()
    }

    /// Return a forest of the trees with these numbers.
    fn select(&self, trees: Vec<usize>) -> Self {
        let all = self.trees();
        let chosen = trees.into_iter().map(|tree| all[tree].clone()).collect();
        let (topology, resources) = (Arc::clone(&self.topology), self.resources.clone());
        Self { topology, resources, trees: Mutex::new(chosen) }
    }

    /// Add the trees of another forest.
    fn join(&self, other: &Self) {
        let trees = other.trees().clone();
        self.trees().extend(trees);
    }

    /// Return the streamed plan of the trees that have a rate above zero.
    fn plan(&self, py: Python<'_>, algorithm: &str, rates: Vec<f64>, pipeline: bool) -> PyResult<Plan> {
        let chunk = if pipeline { Chunk::Best } else { Chunk::One };
        py.detach(|| {
            let rated = |(tree, rate): (&SpanningTree, f64)| Rated { tree: tree.clone(), rate };
            let trees: Vec<Rated> =
                self.trees().iter().zip(rates).filter(|(_, rate)| *rate != 0.0).map(rated).collect();
            spanning::plan(&self.topology, algorithm, &trees, chunk).prove()
        })
        .map(Plan::planned)
        .map_err(raise)
    }
}

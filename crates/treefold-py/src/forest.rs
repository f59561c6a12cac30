//! The binding of the trees from which the solver planners, which are written in Python, choose.

use std::sync::{Arc, Mutex};

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::ids::NodeId;
use treefold::plan::Chunk;
use treefold::planners::forest::{self, Resources, SpanningTree};
use treefold::planners::in_network::steiner::Halves;
use treefold::planners::{gost, packing, surviving};
use treefold::topology;

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
        self.trees.lock().expect("no panic").len()
    }

    /// The capacity of each resource.
    #[getter]
    fn capacity<'py>(&self, py: Python<'py>) -> Column<'py, f64> {
        self.resources.capacity.clone().into_pyarray(py)
    }

    /// How many ranks the network has.
    #[getter]
    fn ranks(&self) -> u32 {
        self.topology.ranks()
    }

    /// Return `(first, resource, count)`: tree i uses `resource[first[i]:first[i + 1]]`, each `count` times.
    fn usage<'py>(&self, py: Python<'py>) -> (Column<'py, u64>, Column<'py, u32>, Column<'py, u32>) {
        let (mut first, mut resource, mut count) = (vec![0], Vec::new(), Vec::new());
        for tree in self.trees.lock().expect("no panic").iter() {
            for (used, times) in self.resources.usage(tree) {
                resource.push(used);
                count.push(times);
            }
            first.push(resource.len() as u64);
        }
        (first.into_pyarray(py), resource.into_pyarray(py), count.into_pyarray(py))
    }

    /// Add trees by multiplicative weights; return their rates.
    fn add_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> Vec<f64> {
        py.detach(|| {
            let (trees, rates) = packing::by_weights(&self.topology, &self.resources, epsilon, most);
            self.trees.lock().expect("no panic").extend(trees);
            rates
        })
    }

    /// Add trees with switches inside by multiplicative weights; return the nodes at which such trees may be rooted.
    fn add_steiner_by_weights(&self, py: Python<'_>, ranks_relay: bool, epsilon: f64, most: usize) -> Vec<u32> {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            let (trees, _) = halves.by_weights(&self.resources, epsilon, most);
            self.trees.lock().expect("no panic").extend(trees);
            halves.roots.iter().map(|root| root.0).collect()
        })
    }

    /// Add a cheap tree with switches inside for each of these roots, under its own prices, unless the forest has it.
    fn add_cheap_steiner(&self, py: Python<'_>, ranks_relay: bool, prices: Vec<Vec<f64>>, roots: Vec<u32>) {
        py.detach(|| {
            let halves = Halves::new(&self.topology, ranks_relay);
            let mut trees = self.trees.lock().expect("no panic");
            for (prices, root) in prices.iter().zip(roots) {
                let found = halves.cheap_tree(&self.resources, prices, NodeId(root));
                if let Some((_, tree)) = found.filter(|(_, tree)| !trees.contains(tree)) {
                    trees.push(tree);
                }
            }
        });
    }

    /// Add mirrored trees of one root by multiplicative weights; return their rates.
    fn add_of_one_root_by_weights(&self, py: Python<'_>, epsilon: f64, most: usize) -> PyResult<Vec<f64>> {
        let found = py.detach(|| packing::of_one_root_by_weights(&self.topology, &self.resources, epsilon, most));
        let (trees, rates) = found.ok_or_else(|| {
            let name = self.topology.name();
            MisfitError::new_err(format!(
                "trees of one root need links that carry both ways, but those of {name} do not join all ranks; \
                 packing fits"
            ))
        })?;
        self.trees.lock().expect("no panic").extend(trees);
        Ok(rates)
    }

    /// Add the cheapest tree under `prices` with one of these roots, unless the forest has it; return its cost.
    fn add_cheapest(&self, py: Python<'_>, prices: Vec<f64>, roots: Vec<u32>) -> f64 {
        let roots: Vec<NodeId> = roots.into_iter().map(NodeId).collect();
        py.detach(|| {
            let (cost, tree) = packing::cheapest_tree(&self.topology, &self.resources, &prices, &roots);
            let mut trees = self.trees.lock().expect("no panic");
            if !trees.contains(&tree) {
                trees.push(tree);
            }
            cost
        })
    }

    /// Add the tree of shortest routes from each of `roots`, by hops or by latency.
    fn add_shortest(&self, py: Python<'_>, roots: Vec<u32>, by_latency: bool) {
        py.detach(|| {
            let trees = roots.into_iter().map(|root| packing::shortest_tree(&self.topology, NodeId(root), by_latency));
            self.trees.lock().expect("no panic").extend(trees);
        });
    }

    /// Add `count` trees with the largest rate that all of them can have; return it, or None if there are not so many.
    fn add_equal(&self, py: Python<'_>, count: usize) -> Option<f64> {
        let (rate, trees) = py.detach(|| packing::equal_trees(&self.topology, &self.resources, count))?;
        self.trees.lock().expect("no panic").extend(trees);
        Some(rate)
    }

    /// Add the trees of a plan for an earlier state of this network that still exist; return the share of each.
    fn add_surviving(&self, plan: &Plan) -> PyResult<Vec<f64>> {
        let (trees, shares): (Vec<_>, Vec<_>) = surviving::surviving(plan.sound()?, &self.topology).into_iter().unzip();
        self.trees.lock().expect("no panic").extend(trees);
        Ok(shares)
    }

    /// Add the trees of GOST; return `(rates, height, least_rate)`: the height and the least rate are those that hold.
    #[expect(clippy::too_many_arguments, reason = "the fields of gost::Limits")]
    fn grow(
        &self,
        py: Python<'_>,
        height: Option<u32>,
        by_latency: bool,
        least_rate: Option<f64>,
        rho: f64,
        seed: u64,
        most: usize,
    ) -> PyResult<(Vec<f64>, u32, f64)> {
        let limits = gost::Limits { height, by_latency, least_rate, rho, seed, most };
        let grown = py.detach(|| gost::grow(&self.topology, &limits)).map_err(raise)?;
        self.trees.lock().expect("no panic").extend(grown.trees);
        Ok((grown.rates, grown.height, grown.least_rate))
    }

    /// Return the rates of all trees, of which at most `most` have one above zero, without a solver.
    fn greedy_shares(&self, most: usize, least_rate: f64) -> Vec<f64> {
        forest::greedy_shares(&self.resources, &self.trees.lock().expect("no panic"), most, least_rate)
    }

    /// Return the height of each tree, in hops or in multiples of the smallest latency.
    fn heights(&self, by_latency: bool) -> Vec<u64> {
        let lengths = forest::lengths(&self.topology, by_latency);
        let height = |tree: &SpanningTree| forest::height(&self.topology, tree, &lengths, by_latency);
        self.trees.lock().expect("no panic").iter().map(height).collect()
    }

    /// Return a forest of the trees with these numbers.
    fn select(&self, trees: Vec<usize>) -> Self {
        let all = self.trees.lock().expect("no panic");
        let chosen = trees.into_iter().map(|tree| all[tree].clone()).collect();
        let (topology, resources) = (Arc::clone(&self.topology), self.resources.clone());
        Self { topology, resources, trees: Mutex::new(chosen) }
    }

    /// Add the trees of another forest.
    fn join(&self, other: &Self) {
        let trees = other.trees.lock().expect("no panic").clone();
        self.trees.lock().expect("no panic").extend(trees);
    }

    /// Return the streamed plan of the trees that have a rate above zero.
    fn plan(&self, algorithm: &str, rates: Vec<f64>, pipeline: bool) -> Plan {
        let trees = self.trees.lock().expect("no panic");
        let chunk = if pipeline { Chunk::Best } else { Chunk::One };
        Plan::planned(forest::plan(&self.topology, algorithm, &trees, &rates, chunk))
    }
}

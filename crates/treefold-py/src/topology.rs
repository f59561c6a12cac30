//! The binding of `treefold::topology`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::error;
use treefold::error::Error;
use treefold::topology::{self, Directions, Ends, Tested};
use treefold::units::{Bandwidth, Time};

use crate::bounds::Bounds;
use crate::options::Whole;
use crate::trees::{Link, Node, SharedCapacity, links, nodes, shared};
use crate::values::{Pair, Quantity, read};
use crate::{Column, core, html, raise};

/// A network of nodes, and of links between them. It never changes: each change returns another network.
///
/// `treefold.topology` makes one. Networks that are equal have the same hash.
///
/// Example:
///     >>> network = treefold.topology("torus:4x4")
///     >>> network.name, network.ranks, network.accelerators, network.switches, network.num_links
///     ('torus:4x4', 16, 16, 0, 64)
///     >>> network.rank_names[:3]
///     ['GPU0', 'GPU1', 'GPU2']
#[pyclass(frozen, eq, hash, module = "treefold")]
pub struct Topology(pub Arc<topology::Topology>);

impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Hash for Topology {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.name(), self.0.ranks(), self.0.nodes().len(), self.0.links().len()).hash(state);
    }
}

#[pymethods]
impl Topology {
    /// Return the network of a spec such as `torus:8x8`.
    ///
    /// `treefold.topology` also reads files.
    ///
    /// Args:
    ///     spec: The spec.
    ///     bandwidth_Bps: The bandwidth of all links, in bytes per second; of a skewed network it is the mean. By
    ///         default it is the spec's own (16e9 for most).
    ///     latency_s: The latency of all links, in seconds; by default the spec's own (150e-9 for most).
    ///
    /// Raises:
    ///     TreefoldError: If the spec is unknown, the bandwidth is not above 0 or the latency is not from 0 to 1e5 s,
    ///     or one is given for a `cluster`, whose links differ.
    ///
    /// Example:
    ///     >>> treefold.Topology.from_spec("ring:4", bandwidth_Bps=12.5e9).links()[0].bandwidth_Bps
    ///     12500000000.0
    #[staticmethod]
    #[pyo3(signature = (spec, bandwidth_Bps=None, latency_s=None))]
    #[allow(non_snake_case, reason = "units in names, as in Python")]
    fn from_spec(spec: &str, bandwidth_Bps: Option<f64>, latency_s: Option<f64>) -> PyResult<Self> {
        let bandwidth = bandwidth_Bps.map(Bandwidth::new).transpose().map_err(raise)?;
        let latency = latency_s.map(Time::from_seconds).transpose().map_err(raise)?;
        Ok(Self(Arc::new(topology::from_spec(spec, bandwidth, latency).map_err(raise)?)))
    }

    /// Return the network of the text of a topology file in JSON.
    ///
    /// Every link needs its bandwidth and its latency. `treefold.topology` reads files in which some are missing.
    ///
    /// Raises:
    ///     TreefoldError: If the text is malformed or incomplete, or does not describe a network.
    ///
    /// Example:
    ///     >>> network = treefold.topology("ring:4")
    ///     >>> treefold.Topology.from_json(network.to_json()) == network
    ///     True
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(py.detach(|| topology::Topology::from_json(text)).map_err(raise)?)))
    }

    /// Return the network as the text of a topology file in JSON.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").to_json()[:30]
    ///     '{"format":"treefold-topology",'
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_topology")?, (self.to_json(),)))
    }

    /// Return the network itself, which never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Return the network itself, which never changes.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// Return the network with these accelerators as its ranks.
    ///
    /// Args:
    ///     ranks: The indices of the accelerators in `accelerator_names`; the first becomes rank 0.
    ///     ordered: Whether their order is a wish: `ring` then visits them in it, and does not look for a shorter ring.
    ///
    /// Raises:
    ///     TreefoldError: If no accelerator has such an index, one is given twice, or none is given.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").with_ranks([3, 0]).rank_names
    ///     ['GPU3', 'GPU0']
    #[pyo3(signature = (ranks, *, ordered=false))]
    fn with_ranks(&self, ranks: Vec<Whole>, ordered: bool) -> PyResult<Self> {
        let index = |rank: &Whole| {
            let missing = || Error::new(format!("there is no accelerator with index {}", rank.written));
            rank.value.and_then(|index| u32::try_from(index).ok()).ok_or_else(missing)
        };
        let ranks = ranks.iter().map(index).collect::<error::Result<Vec<u32>>>().map_err(raise)?;
        let network = self.0.with_ranks(&ranks).map_err(raise)?;
        Ok(Self(Arc::new(if ordered { network.in_given_order() } else { network })))
    }

    /// The name of the network: its spec, or the name in its file.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What tests of many links at once have shown of the bandwidths: `at once` (they are what links carried all at
    /// once, and one alone may carry more), `alone` (with what links share, they explain all tests), or None.
    #[getter]
    fn tested(&self) -> Option<&'static str> {
        self.0.tested().map(|tested| match tested {
            Tested::Alone => "alone",
            Tested::AtOnce => "at once",
        })
    }

    /// How many accelerators are ranks.
    #[getter]
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    /// How many accelerators there are, ranks or not.
    #[getter]
    fn accelerators(&self) -> usize {
        self.0.num_accelerators()
    }

    /// How many switches there are.
    #[getter]
    fn switches(&self) -> usize {
        self.0.nodes().len() - self.0.num_accelerators()
    }

    /// How many links there are, each in one direction.
    #[getter]
    fn num_links(&self) -> usize {
        self.0.links().len()
    }

    /// List all links, in the order of the file or generator.
    ///
    /// Example:
    ///     >>> treefold.topology("line:4").links()[0]
    ///     Link("GPU0" -> "GPU1", 16GB/s, 150ns)
    fn links(&self) -> Vec<Link> {
        links(&self.0)
    }

    /// List the capacities that several links share, such as caps of nodes.
    ///
    /// Example:
    ///     >>> treefold.topology("line:4").shared(), treefold.topology("full:3", node_cap="20GB/s").shared()[0].name
    ///     ([], 'GPU0 egress')
    fn shared(&self) -> Vec<SharedCapacity> {
        shared(&self.0)
    }

    /// List all nodes, in the order of the file or generator.
    ///
    /// Example:
    ///     >>> treefold.topology("dgx2").nodes()[-1]
    ///     Node("SW1", switch)
    fn nodes(&self) -> Vec<Node> {
        nodes(&self.0)
    }

    /// Return the network with other bandwidths for the links between pairs of nodes.
    ///
    /// Args:
    ///     bandwidths: Bytes per second, or a text such as `10Gbit/s`, for each pair of names.
    ///     one_way: Whether to change only the links from the first node of a pair to the second; by default, both
    ///         directions change.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such link, a link is changed twice, or a value is not a bandwidth above 0.
    ///
    /// Example:
    ///     >>> slower = treefold.topology("line:4").with_bandwidths({("GPU0", "GPU1"): "1Gbit/s"})
    ///     >>> slower.links()[0].bandwidth_Bps
    ///     125000000.0
    #[pyo3(signature = (bandwidths, *, one_way=false))]
    fn with_bandwidths(&self, bandwidths: BTreeMap<Pair, Quantity>, one_way: bool) -> PyResult<Self> {
        let changes = read(bandwidths, Quantity::bandwidth)?;
        Ok(Self(Arc::new(self.0.with_bandwidths(&changes, directions(one_way)).map_err(raise)?)))
    }

    /// Return the network with the bandwidths of some links multiplied by factors.
    ///
    /// Args:
    ///     factors: A factor for each pair of names.
    ///     one_way: Whether to change only the links from the first node of a pair to the second; by default, both
    ///         directions change.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such link, a link is changed twice, or a factor is not above 0.
    ///
    /// Example:
    ///     >>> slower = treefold.topology("line:4").with_scaled_bandwidths({("GPU0", "GPU1"): 0.5}, one_way=True)
    ///     >>> [link.bandwidth_Bps for link in slower.links()[:2]]
    ///     [8000000000.0, 16000000000.0]
    #[pyo3(signature = (factors, *, one_way=false))]
    fn with_scaled_bandwidths(&self, factors: BTreeMap<Pair, f64>, one_way: bool) -> PyResult<Self> {
        let factors: Vec<(Ends, f64)> = factors.into_iter().map(|(pair, factor)| (pair.0, factor)).collect();
        Ok(Self(Arc::new(self.0.with_scaled_bandwidths(&factors, directions(one_way)).map_err(raise)?)))
    }

    /// Return the network as each of some groups has it that use it at once: with its part of every bandwidth.
    ///
    /// Raises:
    ///     TreefoldError: If there are fewer than 1 or more than 4294967295 groups.
    ///
    /// Example:
    ///     >>> treefold.topology("line:4").divided_among(4).links()[0].bandwidth_Bps
    ///     4000000000.0
    fn divided_among(&self, groups: Whole) -> PyResult<Self> {
        let missing =
            || Error::new(format!("a network cannot be divided among {} groups; give 1 or more", groups.written));
        let count = groups.value.and_then(|count| u32::try_from(count).ok()).ok_or_else(missing).map_err(raise)?;
        Ok(Self(Arc::new(self.0.divided_among(count).map_err(raise)?)))
    }

    /// Return the network with time added to the latencies of links between pairs of nodes.
    ///
    /// Args:
    ///     added_s: The seconds, or a text such as `1us`, that are added to the latency of each link between a pair of
    ///         names. A latency that would be negative becomes 0.
    ///     one_way: Whether to change only the links from the first node of a pair to the second; by default, both
    ///         directions change.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such link, a link is changed twice, a value is not a time, or no link can have
    ///         the latency.
    ///
    /// Example:
    ///     >>> farther = treefold.topology("line:4", latency_s=1e-6).with_added_latencies({("GPU0", "GPU1"): "1us"})
    ///     >>> [link.latency_s for link in farther.links()[:3]]
    ///     [2e-06, 2e-06, 1e-06]
    #[pyo3(signature = (added_s, *, one_way=false))]
    fn with_added_latencies(&self, added_s: BTreeMap<Pair, Quantity>, one_way: bool) -> PyResult<Self> {
        let added = read(added_s, Quantity::seconds)?;
        Ok(Self(Arc::new(self.0.with_added_latencies(&added, directions(one_way)).map_err(raise)?)))
    }

    /// Return the network without the links between pairs of nodes.
    ///
    /// A network of a regular shape, such as a torus, becomes a general one: algorithms for that shape, such as
    /// `ring2d`, refuse it. It keeps its name.
    ///
    /// Args:
    ///     links: Pairs of names.
    ///     one_way: Whether to remove only the links from the first node of a pair to the second; by default, both
    ///         directions are removed.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such link, or ranks cannot reach each other any more.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").without_links([("GPU0", "GPU1")]).num_links
    ///     6
    #[pyo3(signature = (links, *, one_way=false))]
    fn without_links(&self, links: Vec<Pair>, one_way: bool) -> PyResult<Self> {
        let links: Vec<Ends> = links.into_iter().map(|pair| pair.0).collect();
        Ok(Self(Arc::new(self.0.without_links(&links, directions(one_way)).map_err(raise)?)))
    }

    /// Return the network without some nodes and the links at them; those that were ranks are gone from the ranks, too.
    ///
    /// A network of a regular shape becomes a general one, as by `without_links`.
    ///
    /// Args:
    ///     nodes: Names of nodes.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such node, no rank is left, or ranks cannot reach each other any more.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").without_nodes(["GPU1"]).rank_names
    ///     ['GPU0', 'GPU2', 'GPU3']
    fn without_nodes(&self, nodes: Vec<String>) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.without_nodes(&nodes).map_err(raise)?)))
    }

    /// Return the network under another name, or with other names for some of its nodes.
    ///
    /// Args:
    ///     name: The new name of the network; by default it keeps its name.
    ///     nodes: The new names of nodes, by their old names.
    ///
    /// Raises:
    ///     TreefoldError: If there is no such node, or two nodes would have the same name.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").renamed("mine", nodes={"GPU0": "paris"}).rank_names[0]
    ///     'paris'
    #[pyo3(signature = (name=None, *, nodes=None))]
    fn renamed(&self, name: Option<&str>, nodes: Option<HashMap<String, String>>) -> PyResult<Self> {
        let renamed = self.0.with_node_names(&nodes.unwrap_or_default()).map_err(raise)?;
        let renamed = name.map_or(Ok(renamed.clone()), |name| renamed.named(name)).map_err(raise)?;
        Ok(Self(Arc::new(renamed)))
    }

    /// The sum over all cables of the lesser of their two bandwidths, in bytes per second; None if a link has no
    /// opposite one.
    #[getter]
    fn cable_capacity(&self) -> Option<f64> {
        let none = self.0.links().is_empty().then_some(0.0);
        self.0.cable_capacity().map(Bandwidth::bytes_per_second).or(none)
    }

    /// Return the network under a link model: `hockney` turns the latency of each link into an overhead of each
    /// message.
    ///
    /// Args:
    ///     link_model: One of `treefold.LINK_MODELS`; `propagation` leaves the network as it is, and does not undo
    ///         `hockney`.
    ///
    /// Raises:
    ///     TreefoldError: If the link model is unknown.
    ///
    /// Example:
    ///     >>> link = treefold.topology("ring:4").under("hockney").links()[0]
    ///     >>> link.latency_s, link.overhead_s
    ///     (0.0, 1.5e-07)
    fn under(&self, link_model: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.under(link_model.parse().map_err(raise)?))))
    }

    /// Return the network with switches that only forward: none of them reduces or multicasts.
    ///
    /// Example:
    ///     >>> sum(node.reduces for node in treefold.topology("dgx2").with_plain_switches().nodes())
    ///     0
    fn with_plain_switches(&self) -> Self {
        Self(Arc::new(self.0.with_plain_switches()))
    }

    /// Return the bounds on all-reduces, which `treefold.bound` keeps.
    ///
    /// Example:
    ///     >>> treefold.topology("ring:4").bounds().of_sizes.latency_s
    ///     3e-07
    fn bounds(&self, py: Python<'_>) -> Bounds {
        let bounds = py.detach(|| treefold::bound::kept(&self.0));
        Bounds { topology: Arc::clone(&self.0), bounds }
    }

    /// Return arrays of the sources, the targets and the bandwidths (in bytes per second) of all links.
    ///
    /// A node has the number that `Node.number` says: the ranks come first, then the other accelerators, which only
    /// relay, and then the switches.
    ///
    /// Example:
    ///     >>> sources, targets, bandwidths = treefold.topology("line:4").link_columns()
    ///     >>> sources[:3].tolist(), targets[:3].tolist()
    ///     ([0, 1, 1], [1, 0, 2])
    fn link_columns<'py>(&self, py: Python<'py>) -> (Column<'py, u32>, Column<'py, u32>, Column<'py, f64>) {
        let links = self.0.links();
        let sources: Vec<u32> = links.iter().map(|link| link.source.0).collect();
        let targets: Vec<u32> = links.iter().map(|link| link.target.0).collect();
        let bandwidths: Vec<f64> = links.iter().map(|link| link.bandwidth.bytes_per_second()).collect();
        (sources.into_pyarray(py), targets.into_pyarray(py), bandwidths.into_pyarray(py))
    }

    /// Return two lists of bool with an item for each node: whether it reduces, and whether it multicasts.
    ///
    /// Nodes have the order of the numbers in `link_columns`, which is not the order of `nodes()`.
    ///
    /// Example:
    ///     >>> reduces, multicasts = treefold.topology("dgx2").abilities()
    ///     >>> sum(reduces), sum(multicasts)
    ///     (2, 2)
    fn abilities(&self) -> (Vec<bool>, Vec<bool>) {
        self.0.nodes().iter().map(|node| (node.reduces(), node.multicasts())).unzip()
    }

    /// The names of all accelerators, in the order of the file or generator.
    #[getter]
    fn accelerator_names(&self) -> Vec<&str> {
        self.0.accelerator_names()
    }

    /// The names of the ranks, in rank order.
    #[getter]
    fn rank_names(&self) -> Vec<&str> {
        self.0.nodes()[..self.0.ranks() as usize].iter().map(|node| node.name.as_str()).collect()
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> Option<String> {
        html(slf.as_any(), "of_topology")
    }

    fn __repr__(&self) -> String {
        format!("Topology({:?}, ranks={}, links={})", self.0.name(), self.0.ranks(), self.0.links().len())
    }
}

fn directions(one_way: bool) -> Directions {
    if one_way { Directions::OneWay } else { Directions::BothWays }
}

/// Return a network that was pickled.
#[pyfunction]
pub fn read_topology(py: Python<'_>, text: &str) -> PyResult<Topology> {
    Topology::from_json(py, text)
}

/// Return the network of the text of a topology file, and why ranks do not reach each other, if they do not.
///
/// Such a network can be shown and written, but no plan can be made for it.
#[pyfunction]
pub fn described_topology(py: Python<'_>, text: &str) -> PyResult<(Topology, Option<String>)> {
    let network = py.detach(|| topology::Topology::described_by(text)).map_err(raise)?;
    let problem = network.check_connected().err().map(|error| error.to_string());
    Ok((Topology(Arc::new(network)), problem))
}

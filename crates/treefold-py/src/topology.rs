//! The binding of `treefold::topology`.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use numpy::IntoPyArray;
use pyo3::prelude::*;
use treefold::error;
use treefold::topology::{self, Ends};
use treefold::units::{Bandwidth, Time, parse_bandwidth};

use crate::bounds::Bounds;
use crate::trees::{Link, Node, links, nodes};
use crate::{Column, core, raise};

/// A network. Equal networks are equal keys of caches.
#[pyclass(frozen, eq, hash, module = "treefold")]
pub struct Topology(pub Arc<topology::Topology>);

/// A quantity as a number of its base unit, or as a text with a unit.
#[derive(FromPyObject)]
enum Quantity {
    Number(f64),
    Text(String),
    Other(Py<PyAny>),
}

impl Quantity {
    fn bandwidth(&self) -> error::Result<Bandwidth> {
        match self {
            Self::Number(number) => Bandwidth::new(*number),
            Self::Text(text) => parse_bandwidth(text),
            Self::Other(_) => {
                treefold::bail!("bandwidth must be a number of bytes a second, or a text such as 10Gbit/s")
            }
        }
    }
}

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
    /// The network of a spec such as `torus:8x8`; bandwidth (bytes a second) and latency (seconds) set every link.
    #[staticmethod]
    #[pyo3(signature = (spec, bandwidth=None, latency_s=None))]
    fn from_spec(spec: &str, bandwidth: Option<f64>, latency_s: Option<f64>) -> PyResult<Self> {
        let bandwidth = bandwidth.map(Bandwidth::new).transpose().map_err(raise)?;
        let latency = latency_s.map(Time::from_seconds).transpose().map_err(raise)?;
        Ok(Self(Arc::new(topology::from_spec(spec, bandwidth, latency).map_err(raise)?)))
    }

    /// The network of a topology file's text; what may be missing there, `treefold.topology` fills in.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(py.detach(|| topology::Topology::from_json(text)).map_err(raise)?)))
    }

    /// The network as the text of a topology file.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((core(py, "read_topology")?, (self.to_json(),)))
    }

    /// Itself: a network never changes.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// The same network with these accelerators as its ranks, by position in the file, rank 0 first.
    fn with_ranks(&self, ranks: Vec<u32>) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.with_ranks(&ranks).map_err(raise)?)))
    }

    /// Its name: the spec, or what the file says.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
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

    /// How many directed links there are.
    #[getter]
    fn num_links(&self) -> usize {
        self.0.links().len()
    }

    /// All links, as the file or generator listed them.
    fn links(&self) -> Vec<Link> {
        links(&self.0)
    }

    /// All nodes, as the file or generator listed them.
    fn nodes(&self) -> Vec<Node> {
        nodes(&self.0)
    }

    /// The network with other bandwidths for the links between pairs of nodes, by name.
    ///
    /// `bandwidths` has a number of bytes a second, or a text such as `10Gbit/s`, for pairs of names. Both directions
    /// change unless `one_way` is set.
    #[pyo3(signature = (bandwidths, *, one_way=false))]
    fn with_bandwidths(&self, bandwidths: HashMap<Ends, Quantity>, one_way: bool) -> PyResult<Self> {
        let typed = bandwidths.into_iter().map(|(ends, bandwidth)| Ok((ends, bandwidth.bandwidth()?)));
        let changes = typed.collect::<error::Result<Vec<_>>>().map_err(raise)?;
        Ok(Self(Arc::new(self.0.with_bandwidths(&changes, !one_way).map_err(raise)?)))
    }

    /// The network with the bandwidths of the links from one node to another, by name, multiplied by factors.
    fn with_scaled_bandwidths(&self, factors: HashMap<Ends, f64>) -> PyResult<Self> {
        let factors: Vec<(Ends, f64)> = factors.into_iter().collect();
        Ok(Self(Arc::new(self.0.with_scaled_bandwidths(&factors).map_err(raise)?)))
    }

    /// The network without the links between pairs of nodes, by name.
    ///
    /// `links` are pairs of names; both directions go unless `one_way` is set. A network of a regular shape, such as
    /// a torus, becomes a general one.
    #[pyo3(signature = (links, *, one_way=false))]
    fn without_links(&self, links: Vec<Ends>, one_way: bool) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.without_links(&links, !one_way).map_err(raise)?)))
    }

    /// The network under another name, or with other names for some of its nodes.
    #[pyo3(signature = (name=None, *, nodes=None))]
    fn renamed(&self, name: Option<&str>, nodes: Option<HashMap<String, String>>) -> PyResult<Self> {
        let renamed = self.0.with_node_names(&nodes.unwrap_or_default()).map_err(raise)?;
        let renamed = name.map_or(Ok(renamed.clone()), |name| renamed.named(name)).map_err(raise)?;
        Ok(Self(Arc::new(renamed)))
    }

    /// Sum over pairs of opposite links of the lesser one's bandwidth; None where a link has no other direction.
    #[getter]
    fn cable_capacity(&self) -> Option<f64> {
        self.0.cable_capacity().map(|capacity| capacity.0)
    }

    /// The same network as a link model sees it.
    fn under(&self, link_model: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(self.0.under(link_model.parse().map_err(raise)?))))
    }

    /// What no plan can beat; computed afresh at every call.
    fn bounds(&self, py: Python<'_>) -> Bounds {
        Bounds(py.detach(|| treefold::bound::bounds(&self.0)))
    }

    /// `(source, target, bandwidth)` of each link; ranks are the nodes `0..ranks`.
    fn link_columns<'py>(&self, py: Python<'py>) -> (Column<'py, u32>, Column<'py, u32>, Column<'py, f64>) {
        let links = self.0.links();
        let sources: Vec<u32> = links.iter().map(|link| link.source.0).collect();
        let targets: Vec<u32> = links.iter().map(|link| link.target.0).collect();
        let bandwidths: Vec<f64> = links.iter().map(|link| link.bandwidth.0).collect();
        (sources.into_pyarray(py), targets.into_pyarray(py), bandwidths.into_pyarray(py))
    }

    /// `(reduces, multicasts)` of each node.
    fn abilities(&self) -> (Vec<bool>, Vec<bool>) {
        self.0.nodes().iter().map(|node| (node.reduces, node.multicasts)).unzip()
    }

    /// Names of all accelerators, in the order in which the file or generator listed them.
    #[getter]
    fn accelerator_names(&self) -> Vec<&str> {
        self.0.accelerator_names()
    }

    /// Names of the ranks, in rank order.
    #[getter]
    fn rank_names(&self) -> Vec<&str> {
        self.0.nodes()[..self.0.ranks() as usize].iter().map(|node| node.name.as_str()).collect()
    }

    fn __repr__(&self) -> String {
        format!("Topology({:?}, ranks={}, links={})", self.0.name(), self.0.ranks(), self.0.links().len())
    }
}

/// What `pickle` calls to have a network back.
#[pyfunction]
pub fn read_topology(py: Python<'_>, text: &str) -> PyResult<Topology> {
    Topology::from_json(py, text)
}

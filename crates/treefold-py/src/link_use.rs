//! The binding of how much links are used.

use pyo3::prelude::*;
use treefold::topology::Topology;
use treefold::units::Seconds;

/// The utilization of links, from 0 to 1.
///
/// A link's utilization is the time that its messages would occupy it at its full bandwidth, overheads included,
/// divided by the time of the collective.
///
/// Example:
///     >>> used = treefold.trace(treefold.plan("line:2", "ring"), size_bytes=1 << 30).utilization
///     >>> round(used.mean, 3), round(used.max, 3)
///     (1.0, 1.0)
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
pub struct Utilization {
    /// The mean over all links.
    pub mean: f64,
    /// The utilization of the busiest link.
    pub max: f64,
}

#[pymethods]
impl Utilization {
    fn __repr__(&self) -> String {
        format!("Utilization(mean={:.4}, max={:.4})", self.mean, self.max)
    }
}

/// The time for which a link was busy.
///
/// Example:
///     >>> [first, *others] = treefold.trace(treefold.plan("line:4", "ring"), size_bytes=4096).links()
///     >>> first.source, first.target, first.busy_s, first.full_rate_s
///     ('GPU0', 'GPU1', 3.839999999999999e-07, 3.84e-07)
#[pyclass(frozen, get_all, module = "treefold")]
pub struct LinkUse {
    /// The name of the node where the link starts.
    pub source: String,
    /// The name of the node where the link ends.
    pub target: String,
    /// The seconds in which the link carried data, at whatever rate.
    pub busy_s: f64,
    /// The seconds that the link would have needed at its full rate, overheads included.
    pub full_rate_s: f64,
}

#[pymethods]
impl LinkUse {
    fn __repr__(&self) -> String {
        let busy = treefold::units::format_seconds(self.busy_s);
        format!("LinkUse({:?} -> {:?}, busy for {busy})", self.source, self.target)
    }
}

/// How busy a shared capacity was in a simulation.
///
/// Example:
///     >>> network = treefold.topology("full:3", node_cap="20GB/s")
///     >>> use = treefold.trace(treefold.plan(network, "direct"), size_bytes=4096).shared()[0]
///     >>> use.name, use.busy_s >= use.full_rate_s
///     ('GPU0 egress', True)
#[pyclass(frozen, get_all, module = "treefold")]
pub struct SharedUse {
    /// The name of the shared capacity.
    name: String,
    /// The seconds in which its links carried a transfer.
    busy_s: f64,
    /// The seconds that what its links carried would have taken at its full rate.
    full_rate_s: f64,
}

/// Lists how busy the shared capacities of a network were, from the seconds of each; none if these were not counted.
pub fn shared_use(topology: &Topology, busy: &[Seconds], needed: &[Seconds]) -> Vec<SharedUse> {
    let links = topology.links().len();
    let seconds = busy.iter().zip(needed).skip(links);
    let listed = topology.shared().iter().zip(seconds).map(|(shared, (busy, needed))| SharedUse {
        name: shared.name.clone(),
        busy_s: busy.get(),
        full_rate_s: needed.get(),
    });
    listed.collect()
}

#[pymethods]
impl SharedUse {
    fn __repr__(&self) -> String {
        format!("SharedUse({:?}, busy for {})", self.name, treefold::units::format_seconds(self.busy_s))
    }
}

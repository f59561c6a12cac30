//! The binding of a plan's trees, and of a network's nodes and links.

use pyo3::prelude::*;
use treefold::plan::{Direction, Draft, Phase, Step};
use treefold::topology::Topology;

use crate::plan::Plan;

/// A tree of a plan, which carries a share of the vector to its root, and back from there.
///
/// In a broadcast, trees carry it only from the root; in a reduce, only to the root.
///
/// Example:
///     >>> tree = treefold.plan("torus:4x4", "multitree").trees()[5]
///     >>> tree.root, tree.share, tree.phase
///     ('GPU5', 0.0625, 0)
#[pyclass(frozen, module = "treefold")]
pub struct Tree {
    plan: Py<Plan>,
    number: usize,
}

/// An edge of a tree: a source, a target, the route between them, and a step.
///
/// Example:
///     >>> edge = treefold.plan("line:3", "ring").trees()[0].reduce()[0]
///     >>> edge.source, edge.target, edge.step, edge.route
///     ('GPU2', 'GPU0', 2, ['GPU2', 'GPU1', 'GPU0'])
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Edge {
    /// The name of the node that sends.
    source: String,
    /// The name of the node that receives.
    target: String,
    /// The step of its phase in which the source sends, counted from 1; None in a streamed tree.
    step: Option<u16>,
    /// The names of all nodes of the route, both ends included.
    route: Vec<String>,
}

/// Lists the trees of a plan.
pub fn trees(plan: &Py<Plan>, py: Python<'_>) -> PyResult<Vec<Tree>> {
    let count = plan.get().sound()?.trees.len();
    Ok((0..count).map(|number| Tree { plan: plan.clone_ref(py), number }).collect())
}

impl Tree {
    /// Returns the plan of the tree.
    fn plan(&self) -> &Draft {
        self.plan.get().sound().expect("the plan was proven when its trees were listed").draft()
    }

    fn tree(&self) -> &treefold::plan::Tree {
        &self.plan().trees[self.number]
    }

    fn phase_number(&self) -> usize {
        let phases = &self.plan().phases;
        phases.iter().position(|phase| phase.trees.contains(&self.number)).expect("every tree has a phase")
    }

    fn phase(&self) -> &Phase {
        &self.plan().phases[self.phase_number()]
    }

    fn edges(&self, direction: Direction) -> Vec<Edge> {
        let plan = self.plan();
        let name = |node| plan.topology.node(node).name.clone();
        let half = plan.half(self.phase(), self.tree(), direction);
        half.map(|edge| {
            let (source, target) = edge.ends(direction);
            let mut route = vec![name(source)];
            route.extend(
                plan.lanes.route(&plan.topology, edge.lane).iter().map(|&link| name(plan.topology.link(link).target)),
            );
            Edge { source: name(source), target: name(target), step: edge.step.map(Step::get), route }
        })
        .collect()
    }
}

#[pymethods]
impl Tree {
    /// The name of the node to which the tree reduces, and from which it broadcasts.
    #[getter]
    fn root(&self) -> String {
        let plan = self.plan();
        plan.topology.node(self.tree().root).name.clone()
    }

    /// The part of the vector that the tree carries, from 0 to 1.
    #[getter]
    fn share(&self) -> f64 {
        self.plan().part_of(self.tree())
    }

    /// The number of the tree's phase, counted from 0; each phase works on what the phase before it has left.
    #[getter]
    #[pyo3(name = "phase")]
    fn phase_of(&self) -> usize {
        self.phase_number()
    }

    /// List the edges of the reduce half, breadth-first from the root; there are none if the tree only broadcasts.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").trees()[0].reduce()[0]
    ///     Edge("GPU3" -> "GPU0", step=3)
    fn reduce(&self) -> Vec<Edge> {
        self.edges(Direction::Up)
    }

    /// List the edges of the broadcast half, breadth-first from the root; there are none if the tree only reduces.
    ///
    /// Example:
    ///     >>> treefold.plan("ring:4", "ring").trees()[0].broadcast()[0]
    ///     Edge("GPU0" -> "GPU1", step=4)
    fn broadcast(&self) -> Vec<Edge> {
        self.edges(Direction::Down)
    }

    fn __repr__(&self) -> String {
        format!("Tree(root={:?}, share={:.4}, phase={})", self.root(), self.share(), self.phase_number())
    }
}

#[pymethods]
impl Edge {
    fn __repr__(&self) -> String {
        let step = self.step.map_or_else(|| "None".to_owned(), |step| step.to_string());
        format!("Edge({:?} -> {:?}, step={step})", self.source, self.target)
    }
}

/// A node of a network.
///
/// Example:
///     >>> switch = treefold.topology("dgx2").nodes()[-1]
///     >>> switch.name, switch.is_switch, switch.rank, switch.reduces, switch.multicasts
///     ('SW1', True, None, True, True)
#[pyclass(frozen, get_all, module = "treefold")]
pub struct Node {
    /// The name of the node.
    name: String,
    /// The number of the node. Ranks have the numbers 0 to ranks - 1; then come the accelerators that only relay, and
    /// then the switches, each in the order of the file or generator.
    number: u32,
    /// The rank of the node; None for a switch, and for an idle accelerator.
    rank: Option<u32>,
    /// Whether the node is a switch.
    is_switch: bool,
    /// Whether the node is a switch that can reduce.
    reduces: bool,
    /// Whether the node is a switch that can multicast.
    multicasts: bool,
    /// The seconds that data need to pass through the node.
    latency_s: f64,
    /// The latitude and the longitude in degrees; None if they are not known.
    position: Option<(f64, f64)>,
}

/// A link: a connection in one direction, from one node to another.
///
/// Example:
///     >>> link = treefold.topology("line:4").links()[0]
///     >>> link.source, link.target, link.bandwidth_Bps, link.latency_s, link.overhead_s
///     ('GPU0', 'GPU1', 16000000000.0, 1.5e-07, 0.0)
#[pyclass(frozen, get_all, module = "treefold")]
#[allow(non_snake_case, reason = "units in names, as in Python")]
pub struct Link {
    /// The name of the node where the link starts.
    source: String,
    /// The name of the node where the link ends.
    target: String,
    /// The bandwidth in bytes per second.
    bandwidth_Bps: f64,
    /// The seconds of propagation, which delay a message; during them, the link is free for other messages.
    latency_s: f64,
    /// The seconds for which each message occupies the link besides its bytes.
    overhead_s: f64,
    /// How many TCP streams side by side fill the link, as `treefold probe` measured it; None if that is not known.
    streams: Option<u16>,
}

/// A capacity that several links share, such as a conduit, an access line, or the network card of a node.
///
/// Example:
///     >>> network = treefold.topology("full:3", node_cap="20GB/s")
///     >>> network.shared()[0]
///     SharedCapacity("GPU0 egress", 20GB/s, 2 links)
#[pyclass(frozen, get_all, eq, module = "treefold")]
#[derive(PartialEq)]
#[allow(non_snake_case, reason = "units in names, as in Python")]
pub struct SharedCapacity {
    /// The name, which no other shared capacity of the network has.
    name: String,
    /// What all its links carry together at most, in bytes per second.
    bandwidth_Bps: f64,
    /// The places of its links in `Topology.links()`.
    links: Vec<u32>,
}

/// Lists the shared capacities of a network.
pub fn shared(network: &Topology) -> Vec<SharedCapacity> {
    let listed = network.shared().iter().map(|shared| SharedCapacity {
        name: shared.name.clone(),
        bandwidth_Bps: shared.bandwidth.bytes_per_second(),
        links: shared.links.iter().map(|link| link.0).collect(),
    });
    listed.collect()
}

/// Lists the nodes of a network in the order of its file or generator.
pub fn nodes(network: &Topology) -> Vec<Node> {
    let ids = (0..network.nodes().len() as u32).map(|place| network.node_at(place));
    ids.map(|id| {
        let node = network.node(id);
        Node {
            name: node.name.clone(),
            number: id.0,
            rank: network.is_rank(id).then_some(id.0),
            is_switch: node.is_switch(),
            reduces: node.reduces(),
            multicasts: node.multicasts(),
            latency_s: node.latency.seconds(),
            position: node.position.map(|position| (position.latitude, position.longitude)),
        }
    })
    .collect()
}

/// Lists the links of a network in the order of its file or generator.
pub fn links(network: &Topology) -> Vec<Link> {
    let name = |node| network.node(node).name.clone();
    let listed = network.links().iter().map(|link| Link {
        source: name(link.source),
        target: name(link.target),
        bandwidth_Bps: link.bandwidth.bytes_per_second(),
        latency_s: link.latency.seconds(),
        overhead_s: link.overhead.seconds(),
        streams: link.streams.map(|streams| streams.get()),
    });
    listed.collect()
}

#[pymethods]
impl Node {
    fn __repr__(&self) -> String {
        let role = match (self.is_switch, self.rank) {
            (true, _) => "switch".to_owned(),
            (false, Some(rank)) => format!("rank={rank}"),
            (false, None) => "relay".to_owned(),
        };
        format!("Node({:?}, {role})", self.name)
    }
}

#[pymethods]
impl SharedCapacity {
    fn __repr__(&self) -> String {
        let rate = treefold::units::format_bandwidth(self.bandwidth_Bps);
        format!("SharedCapacity({:?}, {rate}, {} links)", self.name, self.links.len())
    }
}

#[pymethods]
impl Link {
    fn __repr__(&self) -> String {
        let rate = treefold::units::format_bandwidth(self.bandwidth_Bps);
        let latency = treefold::units::format_seconds(self.latency_s);
        format!("Link({:?} -> {:?}, {rate}, {latency})", self.source, self.target)
    }
}

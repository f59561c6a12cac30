//! The network of accelerators, switches and directed links: one graph type for every network.
//!
//! Ranks are the nodes `0..ranks`, in rank order; then come the idle accelerators, which may relay, and then the
//! switches. The order in which a file or generator listed the nodes is kept as each node's *place*, so that nobody
//! outside sees the renumbering when ranks are chosen.

mod build;
mod builder;
mod cluster;
mod connectivity;
mod correspondence;
mod dragonfly;
mod edit;
mod expanded;
mod fattree;
mod generators;
mod grid;
mod hammingmesh;
mod json;
mod links;
mod node;
mod routing;
mod shared;
mod spec;
mod streams;
mod switched;
mod twisted;
mod wan;

pub use crate::ids::{LinkId, NodeId};
pub(crate) use build::check_name;
pub(crate) use correspondence::Correspondence;
pub use edit::{Directions, Ends};
#[doc(hidden)]
pub use expanded::Expanded;
pub use generators::{GENERATORS, Generator, from_spec, is_spec};
pub use json::VERSION;
pub(crate) use json::{Document, check_header};
pub use node::{Abilities, Kind, Node, Position};
pub use routing::Routes;
pub use shared::{Shared, Tested};
pub use spec::Form;
pub use streams::Streams;

use std::str::FromStr;

use crate::bail;
use crate::error::{Error, Result, named};
use crate::units::{Bandwidth, Time};

/// A link, which carries data in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The node where the link starts.
    pub source: NodeId,
    /// The node where the link ends.
    pub target: NodeId,
    /// The bytes a second.
    pub bandwidth: Bandwidth,
    /// The propagation time, which delays a message and does not occupy the link.
    pub latency: Time,
    /// The time for which each message occupies the link besides its bytes.
    pub overhead: Time,
    /// How many TCP streams side by side fill the link, where that was measured. It changes no plan.
    pub streams: Option<Streams>,
}

impl Link {
    /// Returns the time that a bit needs when nothing else uses the link.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_time;
    ///
    /// let ring = from_spec("ring:3", None, Some(parse_time("2us")?))?;
    /// assert_eq!(ring.links()[0].delay(), parse_time("2us")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn delay(&self) -> Time {
        self.latency + self.overhead
    }
}

/// The regular shape of a network, which picks its routes and tells which specialised algorithms fit.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// No regular shape: routes are shortest paths, and ties are broken by the source.
    #[default]
    General,
    /// A torus (`wrap`) or mesh, numbered row-major with the last dimension (X) fastest.
    Grid {
        /// The nodes along each dimension.
        dims: Vec<u32>,
        /// Whether each dimension is closed to a ring.
        wrap: bool,
    },
    /// A BiGraph: `per_switch` accelerators on each of `switches` switches, half of which are upper and half lower
    /// ones.
    #[serde(rename = "bigraph")]
    BiGraph {
        /// The accelerators on each switch.
        per_switch: u32,
        /// The switches in both halves together.
        switches: u32,
    },
    /// One or more planes of two switches; each parallel trunk of a plane serves certain destinations.
    Dgx2,
}

/// The rule for what a link's latency does.
///
/// ```
/// let model: treefold::topology::LinkModel = "hockney".parse()?;
/// assert_eq!(model, treefold::topology::LinkModel::Hockney);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkModel {
    /// Latency delays a message and occupies nothing: the next message follows at once.
    Propagation,
    /// Latency occupies the link like an overhead, once a message (Hockney 1994; the MTree paper's model).
    Hockney,
}

impl FromStr for LinkModel {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("link model", text, &[("propagation", Self::Propagation), ("hockney", Self::Hockney)])
    }
}

/// A network. It never changes once it is built, so routes and opposite links can be kept.
#[derive(Debug, Clone)]
pub struct Topology {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    ranks: u32,
    /// Whether a caller gave the order of the ranks.
    ordered: bool,
    tested: Option<Tested>,
    /// Whether every link joins two ranks.
    direct: bool,
    shape: Shape,
    /// The place of each node in its file or generator.
    place: Vec<u32>,
    /// The node at each place.
    node_of_place: Vec<NodeId>,
    /// The links out of `v` are `outgoing[first_out[v]..first_out[v + 1]]`, in the order in which they were listed.
    first_out: Vec<u32>,
    outgoing: Vec<LinkId>,
    /// The links into `v` are `incoming[first_in[v]..first_in[v + 1]]`.
    first_in: Vec<u32>,
    incoming: Vec<LinkId>,
    /// The opposite link of each link: the k-th of the parallel links v -> u for the k-th of the parallel links u -> v.
    reverse: Vec<Option<LinkId>>,
    routes: Routes,
    shared: shared::SharedCapacities,
}

/// Networks are equal if what they were built from is equal; everything else follows from it.
impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        let sizes = |of: &Self| (of.ranks, of.links.len(), of.nodes.len());
        sizes(self) == sizes(other)
            && (&self.name, &self.shape, &self.place) == (&other.name, &other.shape, &other.place)
            && (self.ordered, self.tested) == (other.ordered, other.tested)
            && self.nodes == other.nodes
            && self.links == other.links
            && self.shared == other.shared
    }
}

/// The most nodes of a topology: plans store steps and nodes compactly.
pub const MAX_NODES: usize = 1 << 16;
/// The most directed links of a topology.
pub const MAX_LINKS: usize = 1 << 22;

impl Topology {
    /// Builds and checks a network. `nodes` and `links` are in the order of the file; `ranks` lists the nodes that are
    /// ranks, in rank order. If it is `None`, all accelerators are ranks.
    ///
    /// # Errors
    /// If two names are equal, a link has both ends at one node, a rank is no accelerator or is listed twice, the links
    /// do not have the shape, or ranks cannot reach each other.
    ///
    /// ```
    /// use treefold::topology::{Abilities, Link, Node, NodeId, Shape, Topology};
    /// use treefold::units::{parse_bandwidth, parse_time};
    ///
    /// let middle = Node::switch("middle", Abilities::NONE);
    /// let nodes = vec![Node::accelerator("left"), middle, Node::accelerator("right")];
    /// let (bandwidth, latency) = (parse_bandwidth("100Gbit/s")?, parse_time("1us")?);
    /// let overhead = parse_time("0s")?;
    /// let ends = [(0, 1), (1, 0), (1, 2), (2, 1)].map(|(source, target)| (NodeId(source), NodeId(target)));
    /// let link = |(source, target)| Link { source, target, bandwidth, latency, overhead, streams: None };
    /// let links = ends.map(link).to_vec();
    /// let pair = Topology::new("pair", nodes, links, None, Shape::General)?;
    /// assert_eq!((pair.ranks(), pair.nodes().len()), (2, 3));
    /// assert_eq!(pair.hops(NodeId(0), NodeId(1)), 2, "ranks have the first numbers, and the switch the last");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(
        name: impl Into<String>,
        nodes: Vec<Node>,
        links: Vec<Link>,
        ranks: Option<Vec<NodeId>>,
        shape: Shape,
    ) -> Result<Self> {
        let topology = Self::in_parts(name.into(), nodes, links, ranks, shape)?;
        topology.check_connected()?;
        Ok(topology)
    }

    /// Makes a network whose ranks may not reach each other: it can be described, and nothing else.
    fn in_parts(
        name: String,
        nodes: Vec<Node>,
        links: Vec<Link>,
        ranks: Option<Vec<NodeId>>,
        shape: Shape,
    ) -> Result<Self> {
        build::check_name(&name).map_err(|error| error.at(format!("network '{name}'")))?;
        build::check_parts(&nodes, &links)?;
        let ranks = ranks.unwrap_or_else(|| build::accelerators(&nodes));
        build::check_ranks(&nodes, &ranks)?;
        let topology = build::assemble(name, nodes, links, &ranks, shape);
        topology.check_shape()?;
        Ok(topology)
    }

    /// Refuses a network whose ranks cannot all reach each other.
    ///
    /// # Errors
    /// If one cannot reach another.
    ///
    /// [`Self::described_by`] shows a network that is refused.
    pub fn check_connected(&self) -> Result<()> {
        connectivity::check(self)
    }

    /// Returns the name that the file or spec has given.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert_eq!(from_spec("torus:4x4", None, None)?.name(), "torus:4x4");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how many nodes are ranks; these are the nodes `0..ranks`.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert_eq!(from_spec("dgx2", None, None)?.ranks(), 16);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns all nodes, ranks first.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:3", None, None)?;
    /// assert!(ring.nodes().iter().map(|node| &node.name).eq(["GPU0", "GPU1", "GPU2"]));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the numbers of all nodes.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let dgx2 = from_spec("dgx2:planes=1", None, None)?;
    /// let switches = dgx2.node_ids().filter(|&node| dgx2.node(node).is_switch());
    /// assert_eq!(switches.count(), 2);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        NodeId::first(self.nodes.len())
    }

    /// Returns the numbers of the nodes that are ranks.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let relayed = from_spec("line:3", None, None)?.with_ranks(&[0, 2])?;
    /// assert_eq!(relayed.rank_ids().collect::<Vec<_>>(), [NodeId(0), NodeId(1)], "the relay comes behind them");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn rank_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        NodeId::first(self.ranks as usize)
    }

    /// Returns a node by its number.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// assert_eq!(from_spec("ring:3", None, None)?.node(NodeId(2)).name, "GPU2");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node]
    }

    /// Returns the regular shape of the network.
    ///
    /// ```
    /// use treefold::topology::{Shape, from_spec};
    ///
    /// assert!(matches!(from_spec("torus:4x4", None, None)?.shape(), Shape::Grid { wrap: true, .. }));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the place of `node` in its file or generator.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let turned = from_spec("ring:3", None, None)?.with_ranks(&[2, 0, 1])?;
    /// assert_eq!(turned.place(NodeId(0)), 2, "rank 0 is the accelerator that was listed last");
    /// assert_eq!(turned.node_at(2), NodeId(0));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn place(&self, node: NodeId) -> u32 {
        self.place[node]
    }

    /// Returns the node that the file or generator listed at `place`.
    pub fn node_at(&self, place: u32) -> NodeId {
        self.node_of_place[place as usize]
    }

    /// Returns whether `node` is a rank.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let dgx2 = from_spec("dgx2", None, None)?;
    /// assert!(dgx2.is_rank(NodeId(15)) && !dgx2.is_rank(NodeId(16)), "switches come behind the 16 ranks");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_rank(&self, node: NodeId) -> bool {
        node.0 < self.ranks
    }

    /// Returns whether every link joins two ranks, so that trees need no switches and no relays.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert!(from_spec("torus:4x4", None, None)?.is_direct());
    /// assert!(!from_spec("dgx2", None, None)?.is_direct());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Returns the names of all accelerators, in the order in which the file or generator listed them.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert_eq!(from_spec("ring:3", None, None)?.accelerator_names(), ["GPU0", "GPU1", "GPU2"]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn accelerator_names(&self) -> Vec<&str> {
        let listed = self.node_of_place.iter().map(|&node| self.node(node));
        listed.filter(|node| !node.is_switch()).map(|node| node.name.as_str()).collect()
    }

    /// Returns how many nodes are accelerators, ranks or not.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let line = from_spec("line:3", None, None)?.with_ranks(&[0, 2])?;
    /// assert_eq!((line.num_accelerators(), line.ranks()), (3, 2), "the middle one relays");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn num_accelerators(&self) -> usize {
        self.nodes.iter().filter(|node| !node.is_switch()).count()
    }

    /// Returns whether a caller gave the order of the ranks, in which a ring then visits them.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:3", None, None)?;
    /// assert!(!ring.is_ordered() && ring.with_ranks(&[2, 0, 1])?.in_given_order().is_ordered());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Returns the nodes and links in the order of the file or generator.
    fn in_place_order(&self) -> (Vec<Node>, Vec<Link>) {
        let nodes = self.node_of_place.iter().map(|&node| self.node(node).clone()).collect();
        let moved = |link: &Link| Link {
            source: NodeId(self.place(link.source)),
            target: NodeId(self.place(link.target)),
            ..link.clone()
        };
        (nodes, self.links.iter().map(moved).collect())
    }

    /// Refuses a shape that the nodes and links do not have, so that routing and planners may rely on it.
    fn check_shape(&self) -> Result<()> {
        match &self.shape {
            Shape::General | Shape::Dgx2 => Ok(()),
            Shape::Grid { dims, wrap } => {
                self.check_shape_size(dims.iter().map(|&d| u64::from(d)).product())?;
                grid::check_links(self, dims, *wrap)
            }
            Shape::BiGraph { per_switch, switches } => {
                self.check_shape_size(u64::from(*switches) * (u64::from(*per_switch) + 1))?;
                switched::check_bigraph(self, *per_switch, *switches)
            }
        }
    }

    fn check_shape_size(&self, described: u64) -> Result<()> {
        let nodes = self.nodes.len() as u64;
        if described != nodes {
            bail!("{}: its shape is for {described} nodes, but it has {nodes}; correct or drop 'shape'", self.name);
        }
        Ok(())
    }
}

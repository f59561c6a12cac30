//! The network: accelerators, switches and directed links. One graph type for every network.
//!
//! Ranks are the nodes `0..ranks`, in rank order; other accelerators only relay, switches follow. The
//! order in which a file or generator listed the nodes is kept as each node's *place*, so renumbering
//! for `--ranks` is invisible outside.

mod build;
mod connectivity;
mod correspondence;
mod edit;

mod generators;
mod grid;
mod json;
mod routing;
mod spec;
mod switched;
mod wan;

pub use crate::ids::{LinkId, NodeId};
pub(crate) use build::check_name;
pub use correspondence::Correspondence;
pub use edit::Ends;
pub use generators::{GENERATORS, Generator, from_spec, is_spec};
pub use json::VERSION;
pub(crate) use json::{Document, check_header};
pub use routing::Routes;
pub use spec::Form;

use std::str::FromStr;

use crate::bail;
use crate::error::{Error, Result, named};
use crate::units::{Bandwidth, Time};

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Computes, contributes a vector when it is a rank, relays otherwise.
    Accelerator,
    /// Forwards; takes part in trees only as far as its abilities go.
    Switch,
}

/// A node of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// Accelerator or switch.
    pub kind: Kind,
    /// Whether a switch can join operands.
    pub reduces: bool,
    /// Whether a switch can send one operand to several ports.
    pub multicasts: bool,
    /// Time to pass through, between an incoming and an outgoing link.
    pub latency: Time,
    /// Where it stands on earth, for whoever draws it; nothing else looks at it.
    pub position: Option<Position>,
}

/// A place on earth, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// North of the equator, -90 to 90.
    pub latitude: f64,
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
}

impl Position {
    /// Checks that both are degrees on earth.
    ///
    /// # Errors
    /// A number out of range, or not a number.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self> {
        for (name, degrees, most) in [("latitude", latitude, 90.0), ("longitude", longitude, 180.0)] {
            if !(-most..=most).contains(&degrees) {
                bail!("{name} must be between -{most} and {most} degrees, got {degrees}");
            }
        }
        Ok(Self { latitude, longitude })
    }
}

impl Node {
    /// A plain accelerator.
    pub fn accelerator(name: impl Into<String>) -> Self {
        let (kind, reduces, multicasts, position) = (Kind::Accelerator, false, false, None);
        Self { name: name.into(), kind, reduces, multicasts, latency: Time(0), position }
    }

    /// A switch that only forwards.
    pub fn switch(name: impl Into<String>) -> Self {
        Self { kind: Kind::Switch, ..Self::accelerator(name) }
    }
}

/// One direction of a cable.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Where it starts.
    pub source: NodeId,
    /// Where it ends.
    pub target: NodeId,
    /// Bytes a second.
    pub bandwidth: Bandwidth,
    /// Propagation: delays, does not occupy.
    pub latency: Time,
    /// Per message: delays and occupies.
    pub overhead: Time,
}

impl Link {
    /// How long a bit is under way when nothing else is.
    pub fn delay(&self) -> Time {
        self.latency + self.overhead
    }
}

/// What is known about the whole: it picks routes and says which specialised algorithms fit.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// Nothing: shortest paths, ties by source.
    #[default]
    General,
    /// A torus (`wrap`) or mesh, row-major, the last dimension (X) fastest.
    Grid {
        /// Nodes along each dimension.
        dims: Vec<u32>,
        /// Whether each dimension closes to a ring.
        wrap: bool,
    },
    /// `per_switch` accelerators on each of `switches` switches, half of them upper, half lower.
    #[serde(rename = "bigraph")]
    BiGraph {
        /// Accelerators on a switch.
        per_switch: u32,
        /// Switches in both halves together.
        switches: u32,
    },
    /// Two switches with parallel trunk links: a trunk serves a destination.
    Dgx2,
}

/// What a link's latency means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkModel {
    /// It delays a message and occupies nothing: the next message follows at once.
    Propagation,
    /// It occupies the link like an overhead, once a message (Hockney 1994; the MTree paper's model).
    Hockney,
}

impl FromStr for LinkModel {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        named("link model", text, &[("propagation", Self::Propagation), ("hockney", Self::Hockney)])
    }
}

/// A network. Immutable once built, so that routes and reverse links can be looked up freely.
#[derive(Debug, Clone)]
pub struct Topology {
    name: String,
    nodes: Vec<Node>,
    links: Vec<Link>,
    ranks: u32,
    shape: Shape,
    /// Position of each node in the file or generator that named it, and the reverse.
    place: Vec<u32>,
    node_of_place: Vec<NodeId>,
    /// `outgoing[first_out[v]..first_out[v + 1]]`: links out of `v`, in the order they were listed.
    first_out: Vec<u32>,
    outgoing: Vec<LinkId>,
    first_in: Vec<u32>,
    incoming: Vec<LinkId>,
    /// The k-th of the parallel links v -> u for the k-th of the parallel links u -> v.
    reverse: Vec<Option<LinkId>>,
    routes: Routes,
}

/// What was given; everything else follows from it.
impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        let given = |of: &Self| (of.ranks, of.links.len(), of.nodes.len());
        given(self) == given(other)
            && (&self.name, &self.shape, &self.place) == (&other.name, &other.shape, &other.place)
            && self.nodes == other.nodes
            && self.links == other.links
    }
}

/// Most nodes a topology may have: plans store steps and nodes compactly.
pub const MAX_NODES: usize = 1 << 16;
/// Most directed links a topology may have.
pub const MAX_LINKS: usize = 1 << 22;

impl Topology {
    /// Builds and checks a network. `nodes` and `links` are in the file's order; `ranks` lists the nodes
    /// that are ranks, in rank order (all accelerators when `None`).
    ///
    /// # Errors
    /// Duplicate names, a link without ends or with both at one node, ranks that are no accelerators or
    /// are listed twice, a shape that the links do not have, ranks that cannot reach each other.
    pub fn new(
        name: impl Into<String>,
        nodes: Vec<Node>,
        links: Vec<Link>,
        ranks: Option<Vec<NodeId>>,
        shape: Shape,
    ) -> Result<Self> {
        let name = name.into();
        build::check_name(&name).map_err(|error| error.at(format!("network '{name}'")))?;
        build::check_parts(&nodes, &links)?;
        let ranks = ranks.unwrap_or_else(|| build::accelerators(&nodes));
        build::check_ranks(&nodes, &ranks)?;
        let topology = build::assemble(name, nodes, links, &ranks, shape);
        topology.check_shape()?;
        connectivity::check(&topology)?;
        Ok(topology)
    }

    /// The same network with other ranks: `ranks[r]` is the position of rank `r` among the accelerators,
    /// in the order the file or generator listed them. The other accelerators only relay.
    ///
    /// # Errors
    /// A position that does not exist or is listed twice, or no rank at all.
    pub fn with_ranks(&self, ranks: &[u32]) -> Result<Self> {
        let (nodes, links) = self.in_place_order();
        let accelerators = build::accelerators(&nodes);
        let chosen = ranks.iter().map(|&rank| match accelerators.get(rank as usize) {
            Some(&node) => Ok(node),
            None => bail!(
                "rank {rank} does not exist: {} has {} accelerators, 0 to {}",
                self.name,
                accelerators.len(),
                accelerators.len() - 1
            ),
        });
        let chosen = chosen.collect::<Result<Vec<_>>>()?;
        Self::new(self.name.clone(), nodes, links, Some(chosen), self.shape.clone())
    }

    /// The name that the file or spec gave.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many nodes are ranks: they are the nodes `0..ranks`.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// All nodes, ranks first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The numbers of all nodes.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        NodeId::first(self.nodes.len())
    }

    /// The numbers of the nodes that are ranks.
    pub fn rank_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + Clone + use<> {
        NodeId::first(self.ranks as usize)
    }

    /// One node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node]
    }

    /// All directed links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The numbers of all links.
    pub fn link_ids(&self) -> impl DoubleEndedIterator<Item = LinkId> + ExactSizeIterator + Clone + use<> {
        LinkId::first(self.links.len())
    }

    /// One link.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link]
    }

    /// What is known about the whole.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Position of `node` in the file or generator that listed it.
    pub fn place(&self, node: NodeId) -> u32 {
        self.place[node]
    }

    /// The node that the file or generator listed at `place`.
    pub fn node_at(&self, place: u32) -> NodeId {
        self.node_of_place[place as usize]
    }

    /// Whether `node` is a rank.
    pub fn is_rank(&self, node: NodeId) -> bool {
        node.0 < self.ranks
    }

    /// Links out of `node`, in listed order.
    pub fn outgoing(&self, node: NodeId) -> &[LinkId] {
        let node = node.index();
        &self.outgoing[self.first_out[node] as usize..self.first_out[node + 1] as usize]
    }

    /// Links into `node`, in listed order.
    pub fn incoming(&self, node: NodeId) -> &[LinkId] {
        let node = node.index();
        &self.incoming[self.first_in[node] as usize..self.first_in[node + 1] as usize]
    }

    /// The other direction of `link`, if there is one.
    pub fn reverse(&self, link: LinkId) -> Option<LinkId> {
        self.reverse[link]
    }

    /// Whether every link has another direction of the same bandwidth. Latencies may differ: a mirrored tree then
    /// takes longer one way, but overloads nothing.
    pub fn is_symmetric(&self) -> bool {
        self.link_ids()
            .all(|link| self.reverse(link).is_some_and(|back| self.link(back).bandwidth == self.link(link).bandwidth))
    }

    /// Sum over pairs of opposite links of the lesser one's bandwidth; `None` where a link has no other direction.
    pub fn cable_capacity(&self) -> Option<Bandwidth> {
        let both = |link: LinkId| {
            let back = self.reverse(link)?;
            Some(self.link(link).bandwidth.0.min(self.link(back).bandwidth.0))
        };
        let twice: Option<f64> = self.link_ids().map(both).sum();
        Some(Bandwidth(twice? / 2.0))
    }

    /// Whether every node is a rank, so that trees need no switches and no relays.
    pub fn is_direct(&self) -> bool {
        self.ranks as usize == self.nodes.len()
    }

    /// Names of all accelerators, in the order in which the file or generator listed them.
    pub fn accelerator_names(&self) -> Vec<&str> {
        let listed = self.node_of_place.iter().map(|&node| self.node(node));
        listed.filter(|node| node.kind == Kind::Accelerator).map(|node| node.name.as_str()).collect()
    }

    /// How many nodes are accelerators, ranks or not.
    pub fn num_accelerators(&self) -> usize {
        self.nodes.iter().filter(|node| node.kind == Kind::Accelerator).count()
    }

    /// Appends the links of the route from `source` to `target` to `route`.
    pub fn route(&self, source: NodeId, target: NodeId, route: &mut Vec<LinkId>) {
        routing::route(self, source, target, route);
    }

    /// Whether there is a route from `source` to `target`. Between ranks there always is.
    pub fn reaches(&self, source: NodeId, target: NodeId) -> bool {
        routing::reaches(self, source, target)
    }

    /// Hops of the route from `source` to `target`.
    pub fn hops(&self, source: NodeId, target: NodeId) -> u32 {
        routing::hops(self, source, target)
    }

    /// `"GPU0 -> GPU1"`, for messages.
    pub fn describe_link(&self, link: LinkId) -> String {
        let Link { source, target, .. } = *self.link(link);
        format!("{} -> {}", self.node(source).name, self.node(target).name)
    }

    /// This network as `model` sees it: for Hockney's, latencies become overheads.
    pub fn under(&self, model: LinkModel) -> Self {
        let mut seen = self.clone();
        if model == LinkModel::Hockney {
            for link in &mut seen.links {
                (link.latency, link.overhead) = (Time(0), link.delay());
            }
        }
        seen
    }

    /// This network with every link turned round. A reduce tree is a broadcast tree of it.
    pub fn transposed(&self) -> Self {
        let links = self.links.iter().map(|link| Link { source: link.target, target: link.source, ..link.clone() });
        let ranks: Vec<NodeId> = self.rank_ids().collect();
        let turned =
            build::assemble(self.name.clone(), self.nodes.clone(), links.collect(), &ranks, self.shape.clone());
        Self { place: self.place.clone(), node_of_place: self.node_of_place.clone(), ..turned }
    }

    /// Nodes and links as the file or generator listed them.
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
            bail!("{}: its shape is for {described} nodes, it has {nodes}; correct or drop 'shape'", self.name);
        }
        Ok(())
    }
}

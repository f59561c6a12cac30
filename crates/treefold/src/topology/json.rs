//! The topology file, whose published schema is `schema/topology.schema.json`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Abilities, Kind, Link, LinkId, Node, NodeId, Position, Shape, Shared, Streams, Tested, Topology};
use crate::bail;
use crate::error::{Error, Result, unknown};
use crate::units::{Bandwidth, Time};

/// The version of the file format; files of a later one are refused.
pub const VERSION: u32 = 1;
const FORMAT: &str = "treefold-topology";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    format: String,
    version: u32,
    #[serde(default = "unnamed")]
    name: String,
    nodes: Vec<NodeDocument>,
    links: Vec<LinkDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared: Vec<SharedDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranks: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_default")]
    ordered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tested: Option<Tested>,
    #[serde(default, skip_serializing_if = "is_general")]
    shape: Shape,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeDocument {
    name: String,
    #[serde(default = "accelerator")]
    kind: String,
    #[serde(default, skip_serializing_if = "is_default")]
    reduces: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    multicasts: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    latency_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latitude: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    longitude: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkDocument {
    source: String,
    target: String,
    #[serde(rename = "bandwidth_Bps")]
    bandwidth: f64,
    #[serde(default)]
    latency_s: f64,
    #[serde(default, skip_serializing_if = "is_default")]
    overhead_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    streams: Option<u64>,
    /// The names of the shared capacities that the link uses, in each of its directions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shares: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    both_ways: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedDocument {
    name: String,
    #[serde(rename = "bandwidth_Bps")]
    bandwidth: f64,
}

fn unnamed() -> String {
    "unnamed".into()
}

fn accelerator() -> String {
    "accelerator".into()
}

fn is_general(shape: &Shape) -> bool {
    *shape == Shape::General
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Topology {
    /// Reads the text of a topology file.
    ///
    /// # Errors
    /// If the text is no topology file, has a later version, or does not describe a network.
    ///
    /// ```
    /// use treefold::topology::{Topology, from_spec};
    ///
    /// let torus = from_spec("torus:4x4", None, None)?;
    /// assert_eq!(Topology::from_json(&torus.to_json())?, torus);
    /// let error = Topology::from_json("{}").unwrap_err();
    /// assert!(error.to_string().contains("needs \"format\": \"treefold-topology\""));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self> {
        let topology = Self::described_by(text)?;
        topology.check_connected()?;
        Ok(topology)
    }

    /// Returns the network in the text of a topology file, whose ranks may not reach each other: it can be described
    /// and written, and nothing else.
    ///
    /// # Errors
    /// The other errors of [`Self::from_json`].
    ///
    /// ```
    /// use treefold::topology::Topology;
    ///
    /// let nodes = r#"[{"name": "a"}, {"name": "b"}]"#;
    /// let text = format!(r#"{{"format": "treefold-topology", "version": 1, "nodes": {nodes}, "links": []}}"#);
    /// assert!(Topology::from_json(&text).is_err());
    /// let network = Topology::described_by(&text)?;
    /// assert!(network.nodes().len() == 2 && network.check_connected().is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn described_by(text: &str) -> Result<Self> {
        check_header(text, FORMAT, VERSION)?;
        let document: Document =
            serde_json::from_str(text).map_err(|error| Error::new(format!("topology file: {error}")))?;
        Self::of_document(document)
    }

    /// Returns the text of a topology file, with nodes and links in the order in which they were listed.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// use treefold::topology::Topology;
    ///
    /// assert_eq!(Topology::from_json(&ring.to_json())?, ring);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.to_document()).expect("a topology is always valid JSON")
    }

    pub(crate) fn from_document(document: Document) -> Result<Self> {
        let topology = Self::of_document(document)?;
        topology.check_connected()?;
        Ok(topology)
    }

    fn of_document(document: Document) -> Result<Self> {
        Header { format: document.format, version: document.version }.check(FORMAT, VERSION)?;
        let nodes = document.nodes.iter().map(NodeDocument::to_node).collect::<Result<Vec<_>>>()?;
        let ids: HashMap<&str, NodeId> =
            nodes.iter().enumerate().map(|(id, node)| (node.name.as_str(), NodeId::new(id))).collect();
        let mut links = Vec::with_capacity(document.links.len());
        for link in &document.links {
            link.push_to(&mut links, &ids)?;
        }
        let find = |name: &String| match ids.get(name.as_str()) {
            Some(&id) => Ok(id),
            None => bail!("rank '{name}' is not a node of {}; list nodes only", document.name),
        };
        let ranks = document.ranks.as_ref().map(|names| names.iter().map(find).collect()).transpose()?;
        let topology = Self::in_parts(document.name, nodes, links, ranks, document.shape)?;
        let topology = topology.with_shared(shared_of(&document.shared, &document.links)?)?;
        Ok(Self { ordered: document.ordered, tested: document.tested, ..topology })
    }

    pub(crate) fn to_document(&self) -> Document {
        let (nodes, links) = self.in_place_order();
        let name_of = |id: NodeId| nodes[id].name.clone();
        let in_order = self.place[..self.ranks as usize].is_sorted() && self.ranks as usize == self.num_accelerators();
        let ranks = self.rank_ids().map(|rank| self.node(rank).name.clone()).collect();
        Document {
            format: FORMAT.into(),
            version: VERSION,
            name: self.name.clone(),
            links: self.link_ids().zip(&links).map(|(id, link)| self.link_document(id, link, name_of)).collect(),
            shared: self.shared().iter().map(SharedDocument::new).collect(),
            nodes: nodes.iter().map(NodeDocument::new).collect(),
            ranks: (!in_order).then_some(ranks),
            ordered: self.ordered,
            tested: self.tested,
            shape: self.shape.clone(),
        }
    }
}

/// Returns the shared capacities of a file, each with the numbers of its links.
fn shared_of(listed: &[SharedDocument], links: &[LinkDocument]) -> Result<Vec<Shared>> {
    let mut found = listed.iter().map(SharedDocument::to_shared).collect::<Result<Vec<_>>>()?;
    let numbers: HashMap<&str, usize> = listed.iter().enumerate().map(|(k, each)| (each.name.as_str(), k)).collect();
    let mut next = 0;
    for link in links {
        let own = next..next + 1 + usize::from(link.both_ways);
        next = own.end;
        for name in &link.shares {
            let Some(&number) = numbers.get(name.as_str()) else {
                let names: Vec<&str> = listed.iter().map(|each| each.name.as_str()).collect();
                return Err(
                    unknown("shared capacity", name, &names).at(format!("link {} -> {}", link.source, link.target))
                );
            };
            found[number].links.extend(own.clone().map(LinkId::new));
        }
    }
    Ok(found)
}

impl SharedDocument {
    fn new(shared: &Shared) -> Self {
        Self { name: shared.name.clone(), bandwidth: shared.bandwidth.bytes_per_second() }
    }

    fn to_shared(&self) -> Result<Shared> {
        let bandwidth = Bandwidth::new(self.bandwidth);
        let bandwidth = bandwidth.map_err(|error| error.at(format!("shared capacity '{}'", self.name)))?;
        Ok(Shared { name: self.name.clone(), bandwidth, links: Vec::new() })
    }
}

/// The beginning of every file of treefold.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

impl Header {
    fn check(&self, expected: &str, newest: u32) -> Result<()> {
        if self.format != expected {
            bail!(
                "this is a '{}' file, not a '{expected}' one; 'treefold plan -o' makes plans of networks",
                self.format
            );
        }
        if self.version == 0 {
            bail!("{expected} version 0 does not exist; versions count from 1");
        }
        if self.version > newest {
            bail!("{expected} version {} is newer than this treefold reads ({newest}); upgrade treefold", self.version);
        }
        Ok(())
    }
}

/// Refuses a file of another kind or of a later version, before anything else in it is read.
pub(crate) fn check_header(text: &str, expected: &str, newest: u32) -> Result<()> {
    if !text.trim_start().starts_with('{') {
        bail!("not a {expected} file, which is JSON and begins with '{{'; 'treefold plan -o' makes plans of networks");
    }
    let header = serde_json::from_str::<Header>(text);
    let header = header.map_err(|error| {
        Error::new(if error.is_data() {
            format!("the file needs \"format\": \"{expected}\" and \"version\": {newest}; write both")
        } else {
            format!("not a whole {expected} file: {error}; is it complete?")
        })
    })?;
    header.check(expected, newest)
}

impl NodeDocument {
    fn new(node: &Node) -> Self {
        Self {
            name: node.name.clone(),
            kind: if node.is_switch() { "switch".into() } else { accelerator() },
            reduces: node.reduces(),
            multicasts: node.multicasts(),
            latency_s: node.latency.seconds(),
            latitude: node.position.map(|position| position.latitude),
            longitude: node.position.map(|position| position.longitude),
        }
    }

    fn to_node(&self) -> Result<Node> {
        let at = |error: Error| error.at(format!("node '{}'", self.name));
        let abilities = Abilities { reduces: self.reduces, multicasts: self.multicasts };
        let kind = match self.kind.as_str() {
            "accelerator" if abilities != Abilities::NONE => bail!(
                "node '{}': an accelerator does not reduce or multicast as switches do; drop 'reduces' and \
                 'multicasts', or say that its kind is switch",
                self.name
            ),
            "accelerator" => Kind::Accelerator,
            "switch" => Kind::Switch(abilities),
            other => bail!("node '{}': kind must be accelerator or switch, got '{other}'", self.name),
        };
        let latency = Time::from_seconds(self.latency_s).map_err(at)?;
        let position = match (self.latitude, self.longitude) {
            (None, None) => None,
            (Some(latitude), Some(longitude)) => Some(Position::new(latitude, longitude).map_err(at)?),
            _ => bail!("node '{}': latitude and longitude go together; give both or neither", self.name),
        };
        Ok(Node { name: self.name.clone(), kind, latency, position })
    }
}

impl Topology {
    /// Returns how a file lists a link, which `link` has in the file's order.
    fn link_document(&self, id: LinkId, link: &Link, name_of: impl Fn(NodeId) -> String) -> LinkDocument {
        let name = |&shared: &LinkId| self.describe_link(shared);
        LinkDocument {
            shares: self.shared_by(id).iter().map(name).collect(),
            source: name_of(link.source),
            target: name_of(link.target),
            bandwidth: link.bandwidth.bytes_per_second(),
            latency_s: link.latency.seconds(),
            overhead_s: link.overhead.seconds(),
            streams: link.streams.map(|streams| streams.get().into()),
            both_ways: false,
        }
    }
}

impl LinkDocument {
    fn push_to(&self, links: &mut Vec<Link>, ids: &HashMap<&str, NodeId>) -> Result<()> {
        let at = |error: Error| error.at(format!("link {} -> {}", self.source, self.target));
        let find = |name: &str| {
            ids.get(name)
                .copied()
                .ok_or_else(|| at(Error::new(format!("there is no node '{name}'; list it under nodes"))))
        };
        let link = Link {
            source: find(&self.source)?,
            target: find(&self.target)?,
            bandwidth: Bandwidth::new(self.bandwidth).map_err(at)?,
            latency: Time::from_seconds(self.latency_s).map_err(at)?,
            overhead: Time::from_seconds(self.overhead_s).map_err(at)?,
            streams: self.streams.map(Streams::new).transpose().map_err(at)?,
        };
        let back = Link { source: link.target, target: link.source, ..link.clone() };
        links.push(link);
        links.extend(self.both_ways.then_some(back));
        Ok(())
    }
}

//! Finds the nodes and links of a network in a later state of it.
//!
//! Nodes are found by their names, and links by the names of their ends and their number among parallel ones.

use std::collections::HashMap;

use super::{LinkId, NodeId, Topology};

/// The new node and link of each old one; `None` if it is gone.
pub(crate) struct Correspondence {
    /// The new node of each old node.
    pub node: Vec<Option<NodeId>>,
    /// The new link of each old link.
    pub link: Vec<Option<LinkId>>,
}

impl Correspondence {
    /// Finds the nodes and links of `old` in `new`.
    pub fn new(old: &Topology, new: &Topology) -> Self {
        let by_name: HashMap<&str, NodeId> =
            new.node_ids().zip(new.nodes()).map(|(id, node)| (node.name.as_str(), id)).collect();
        let by_ends: HashMap<_, LinkId> = new.link_ids().zip(keys(new)).map(|(id, key)| (key, id)).collect();
        Self {
            node: old.nodes().iter().map(|node| by_name.get(node.name.as_str()).copied()).collect(),
            link: keys(old).map(|key| by_ends.get(&key).copied()).collect(),
        }
    }
}

/// Returns the names of each link's ends, and its number among the links between them.
fn keys(topology: &Topology) -> impl Iterator<Item = (&str, &str, usize)> {
    let mut counts: HashMap<(NodeId, NodeId), usize> = HashMap::new();
    topology.links().iter().map(move |link| {
        let count = counts.entry((link.source, link.target)).or_default();
        *count += 1;
        (topology.node(link.source).name.as_str(), topology.node(link.target).name.as_str(), *count)
    })
}

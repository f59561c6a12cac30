//! The nodes and links of a switched network while it is being built.

use super::grid::accelerators;
use super::spec::{Defaults, Spec};
use super::{Abilities, Link, Node, NodeId, Shape, Topology};
use crate::error::Result;

/// The nodes and links of a network that is being built: accelerators first, then switches.
pub(super) struct Builder<'a> {
    defaults: &'a Defaults,
    accelerators: u32,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

impl<'a> Builder<'a> {
    /// Starts with `count` accelerators and no links; those that are added have the figures of `defaults`.
    pub fn new(count: u32, defaults: &'a Defaults) -> Self {
        Self { defaults, accelerators: count, nodes: accelerators(count), links: Vec::new() }
    }

    /// Adds `count` switches that only forward; returns the number of the first one.
    pub fn switches(&mut self, count: u32) -> u32 {
        self.able_switches(count, Abilities::NONE)
    }

    /// Adds `count` switches with these abilities; returns the number of the first one.
    pub fn able_switches(&mut self, count: u32, abilities: Abilities) -> u32 {
        let first = self.nodes.len() as u32;
        for i in first..first + count {
            let latency = self.defaults.switch_latency;
            let name = format!("SW{}", i - self.accelerators);
            self.nodes.push(Node { latency, ..Node::switch(name, abilities) });
        }
        first
    }

    /// Adds a cable.
    pub fn connect(&mut self, a: u32, b: u32) {
        self.connect_as(self.defaults, a, b);
    }

    /// Adds a cable with other figures.
    pub fn connect_as(&mut self, defaults: &Defaults, a: u32, b: u32) {
        self.links.extend(defaults.both_ways(NodeId(a), NodeId(b)));
    }

    /// Returns the network, whose name is its spec.
    pub fn finish(self, spec: &Spec, shape: Shape) -> Result<Topology> {
        Topology::new(spec.text, self.nodes, self.links, None, shape)
    }
}

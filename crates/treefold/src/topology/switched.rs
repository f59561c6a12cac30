//! Switched networks: DGX-2, fat trees, BiGraph, and clusters of servers with rails.

use super::grid::accelerators;
use super::spec::{Defaults, Spec};
use super::{Abilities, Link, Node, NodeId, Shape, Topology};
use crate::bail;
use crate::error::Result;
use crate::units::{Bandwidth, Time, parse_bandwidth, parse_time};

/// The nodes and links of a network that is being built.
struct Builder<'a> {
    defaults: &'a Defaults,
    accelerators: u32,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

impl<'a> Builder<'a> {
    fn new(count: u32, defaults: &'a Defaults) -> Self {
        Self { defaults, accelerators: count, nodes: accelerators(count), links: Vec::new() }
    }

    /// Adds `count` switches; returns the number of the first one.
    fn switches(&mut self, count: u32, can_reduce: bool) -> u32 {
        let first = self.nodes.len() as u32;
        for i in first..first + count {
            let latency = self.defaults.switch_latency;
            let name = format!("SW{}", i - self.accelerators);
            let abilities = if can_reduce { Abilities::BOTH } else { Abilities::NONE };
            self.nodes.push(Node { latency, ..Node::switch(name, abilities) });
        }
        first
    }

    fn connect(&mut self, a: u32, b: u32) {
        self.links.extend(self.defaults.both_ways(NodeId(a), NodeId(b)));
    }

    fn finish(self, spec: &Spec, shape: Shape) -> Result<Topology> {
        Topology::new(spec.text, self.nodes, self.links, None, shape)
    }
}

/// Builds `dgx2`: one plane of 2 switches with 8 accelerators each and 8 trunks, as in the MultiTree paper.
/// `dgx2:planes=6` has all 12 switches with the in-network paper's ports; its switches multicast and reduce.
pub(super) fn dgx2(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let planes = spec.count("planes", 1)?;
    spec.check_size(16 + 2 * u64::from(planes), 48 * u64::from(planes))?;
    let in_network = planes > 1;
    let mut defaults = defaults.clone();
    if in_network {
        defaults = Defaults {
            switch_latency: Time::from_picoseconds(150_000),
            ..defaults.unless_fixed(Bandwidth::known(25e9), Time::ZERO)
        };
    }
    let mut network = Builder::new(16, &defaults);
    for _ in 0..planes {
        let left = network.switches(2, true);
        for accelerator in 0..16 {
            network.connect(accelerator, left + accelerator / 8);
        }
        for _ in 0..8 {
            network.connect(left, left + 1);
        }
    }
    network.finish(spec, Shape::Dgx2)
}

/// Builds `fattree:8,2`: the k-ary n-tree with k^n accelerators and n levels of k^(n-1) switches. Switches of
/// neighbouring levels are linked if their numbers agree in all digits but the level's.
pub(super) fn fattree(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let [arity, levels] = spec.sizes_exactly()?;
    let (k, n) = (u64::from(arity), u64::from(levels));
    let accelerators = k.checked_pow(levels).unwrap_or(u64::MAX);
    let per_level = accelerators / k;
    spec.check_size(accelerators.saturating_add(per_level.saturating_mul(n)), accelerators.saturating_mul(2 * n))?;
    let per_level = per_level as u32;
    let mut network = Builder::new(accelerators as u32, defaults);
    let first = network.switches(per_level * levels, false);
    for accelerator in 0..accelerators as u32 {
        network.connect(accelerator, first + accelerator / arity);
    }
    for level in 0..levels - 1 {
        let stride = arity.pow(level);
        for low in 0..per_level {
            let base = low - low / stride % arity * stride;
            for digit in 0..arity {
                network
                    .connect(first + level * per_level + low, first + (level + 1) * per_level + base + digit * stride);
            }
        }
    }
    network.finish(spec, Shape::General)
}

/// Builds `fattree128`: 16 groups of 8 accelerators, and 6 planes of 16 leaf and 8 spine switches (in-network, V).
pub(super) fn fattree128(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    const GROUPS: u32 = 16;
    const SPINES: u32 = 8;
    let mut network = Builder::new(128, defaults);
    for _ in 0..6 {
        let leaves = network.switches(GROUPS, true);
        let spines = network.switches(SPINES, true);
        for accelerator in 0..128 {
            network.connect(accelerator, leaves + accelerator / 8);
        }
        for leaf in 0..GROUPS {
            for spine in 0..SPINES {
                network.connect(leaves + leaf, spines + spine);
            }
        }
    }
    network.finish(spec, Shape::General)
}

/// Builds `bigraph:4x8`: 4 accelerators on each of 8 switches; every upper switch is linked to every lower one.
pub(super) fn bigraph(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let [per_switch, switches] = spec.sizes_exactly()?;
    if switches % 2 != 0 {
        return Err(spec.misread(format!("the number of switches must be even, got {switches}")));
    }
    let (count, half) = (u64::from(per_switch) * u64::from(switches), u64::from(switches / 2));
    spec.check_size(count + 2 * half, 2 * (count + half * half))?;
    let mut network = Builder::new(per_switch * switches, defaults);
    let first = network.switches(switches, false);
    for accelerator in 0..per_switch * switches {
        network.connect(accelerator, first + accelerator / per_switch);
    }
    for upper in 0..switches / 2 {
        for lower in switches / 2..switches {
            network.connect(first + upper, first + lower);
        }
    }
    network.finish(spec, Shape::BiGraph { per_switch, switches })
}

/// Refuses a network that has the shape of a BiGraph but lacks a link of it.
pub(super) fn check_bigraph(topology: &Topology, per_switch: u32, switches: u32) -> Result<()> {
    if per_switch == 0 || !switches.is_multiple_of(2) {
        bail!("{}: a bigraph has accelerators on an even number of switches; correct or drop 'shape'", topology.name());
    }
    let first = per_switch * switches;
    let to_switches = (0..first).map(|accelerator| (accelerator, first + accelerator / per_switch));
    let (upper, lower) = (first..first + switches / 2, first + switches / 2..first + switches);
    let trunks = upper.flat_map(|a| lower.clone().map(move |b| (a, b)));
    for (a, b) in to_switches.chain(trunks) {
        for (from, to) in [(a, b), (b, a)].map(|(a, b)| (topology.node_at(a), topology.node_at(b))) {
            if !topology.outgoing(from).iter().any(|&link| topology.link(link).target == to) {
                let (from, to) = (&topology.node(from).name, &topology.node(to).name);
                bail!("{}: its shape needs a link {from} -> {to}; add it or drop 'shape'", topology.name());
            }
        }
    }
    Ok(())
}

/// The keys of a cluster: how many servers, GPUs and network cards in each; bandwidths and latencies of links inside
/// servers and between them.
pub(super) const CLUSTER_KEYS: [&str; 7] = ["nodes", "gpus", "rails", "nvlink", "nvlink_latency", "nic", "nic_latency"];

/// Builds `cluster:nodes=4,gpus=8,rails=8`: each server has a switch between its GPUs (450 GB/s each, NVLink 4) and
/// `rails` network cards of 400 Gbit/s; card r of every server is on rail switch r (1 us a cable). If there are fewer
/// cards than GPUs, neighbouring GPUs share a card; by default there is one a GPU, and 8 at most.
pub(super) fn cluster(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let (nodes, gpus) = (spec.count("nodes", 4)?, spec.count("gpus", 8)?);
    let rails = spec.count("rails", gpus.min(8))?;
    if gpus % rails != 0 {
        return Err(spec.misread(format!("{gpus} gpus cannot share {rails} rails evenly")));
    }
    for (is_fixed, what, keys) in [
        (defaults.fixed_bandwidth, "bandwidth", "nvlink=450GB/s,nic=400Gbit/s"),
        (defaults.fixed_latency, "latency", "nvlink_latency=150ns,nic_latency=1us"),
    ] {
        if is_fixed {
            bail!(
                "topology '{}': its links inside and between servers differ in {what}, so one for all is refused; \
                 drop it and write for example cluster:nodes=4,{keys}",
                spec.text
            );
        }
    }
    let inner = Defaults {
        bandwidth: spec.quantity("nvlink", defaults.bandwidth, parse_bandwidth)?,
        latency: spec.quantity("nvlink_latency", defaults.latency, parse_time)?,
        ..defaults.clone()
    };
    let outer = Defaults {
        bandwidth: spec.quantity("nic", Bandwidth::known(50e9), parse_bandwidth)?,
        latency: spec.quantity("nic_latency", Time::from_picoseconds(1_000_000), parse_time)?,
        ..defaults.clone()
    };
    let total = u64::from(nodes) * u64::from(gpus);
    spec.check_size(total + u64::from(nodes) * u64::from(rails + 1) + u64::from(rails), 6 * total)?;
    let mut network = Builder::new(nodes * gpus, &inner);
    let inside = network.switches(nodes, false);
    for gpu in 0..nodes * gpus {
        network.connect(gpu, inside + gpu / gpus);
    }
    let rail_switches = network.switches(rails, false);
    let sharing = gpus / rails;
    for server in 0..nodes {
        for rail in 0..rails {
            let first_gpu = server * gpus + rail * sharing;
            let card = if sharing == 1 { first_gpu } else { network.switches(1, false) };
            (0..sharing).filter(|_| sharing > 1).for_each(|i| network.connect(first_gpu + i, card));
            network.links.extend(outer.both_ways(NodeId(card), NodeId(rail_switches + rail)));
        }
    }
    network.finish(spec, Shape::General)
}

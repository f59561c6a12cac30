//! The switched networks of the papers: DGX-2, the fat tree of 128 accelerators, and BiGraph.

use super::builder::Builder;
use super::spec::{Defaults, Spec};
use super::{Abilities, Shape, Topology};
use crate::bail;
use crate::error::Result;
use crate::units::{Bandwidth, Time};

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
        let left = network.able_switches(2, Abilities::BOTH);
        for accelerator in 0..16 {
            network.connect(accelerator, left + accelerator / 8);
        }
        for _ in 0..8 {
            network.connect(left, left + 1);
        }
    }
    network.finish(spec, Shape::Dgx2)
}

/// Builds `fattree128`: 16 groups of 8 accelerators, and 6 planes of 16 leaf and 8 spine switches (in-network, V).
pub(super) fn fattree128(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    const GROUPS: u32 = 16;
    const SPINES: u32 = 8;
    let mut network = Builder::new(128, defaults);
    for _ in 0..6 {
        let leaves = network.able_switches(GROUPS, Abilities::BOTH);
        let spines = network.able_switches(SPINES, Abilities::BOTH);
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
    let first = network.switches(switches);
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

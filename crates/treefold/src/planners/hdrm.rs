//! HDRM: halving-doubling with rank mapping (Dong et al., "EFLOPS: algorithm and system co-design for a high
//! performance distributed training platform", HPCA 2020).
//!
//! On a BiGraph every exchange joins an upper and a lower switch, and no two exchanges of a step share the link between
//! two switches. Ranks of even parity are on upper switches, those of odd parity on lower ones: an exchange flips one
//! bit, so it always crosses. Without its last bit (which parity implies) a rank is a word of k - 1 bits. Upper
//! switches take the word's high bits, lower switches its low bits, so that the ranks of one upper switch, which differ
//! in the low bits only, reach as many different lower switches. It takes 2 log2 N steps of three hops.
//!
//! Cost: N log2 N edges.

use std::sync::Arc;

use super::Options;
use super::halving_doubling::push_binomial_trees;
use crate::error::Result;
use crate::misfit;
use crate::plan::{Draft, Sharing};
use crate::topology::{NodeId, Shape, Topology};
use crate::units::Bandwidth;

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let order = rank_mapping(topology)?;
    let mut plan = Draft::new(topology, "hdrm", 1);
    push_binomial_trees(&mut plan, &order);
    let narrowest = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).fold(f64::INFINITY, f64::min);
    let sharing = if order.len() > 1 { Sharing::Messages(Bandwidth::known(narrowest)) } else { Sharing::Shared };
    plan.push_phase_of_all(sharing);
    Ok(plan)
}

/// Returns the accelerator that takes the part of each logical rank.
fn rank_mapping(topology: &Topology) -> Result<Vec<NodeId>> {
    let ranks = topology.ranks();
    if !ranks.is_power_of_two() {
        misfit!("hdrm needs a power of two ranks, got {ranks}: use halving-doubling, ring or multitree");
    }
    let &Shape::BiGraph { per_switch, switches } = topology.shape() else {
        misfit!(
            "hdrm needs a BiGraph such as bigraph:4x8; {} is not one: use halving-doubling or multitree",
            topology.name()
        );
    };
    let half = switches / 2;
    if ranks != per_switch * switches || !half.is_power_of_two() || per_switch > half {
        misfit!(
            "hdrm needs all accelerators of a BiGraph with a power of two switches a half and at most as many \
             accelerators a switch, got {ranks} ranks, {half} switches a half, {per_switch} a switch: use multitree"
        );
    }
    let mut taken = vec![0; switches as usize];
    let place = |rank: u32| {
        let word = rank >> 1;
        let upper = rank.count_ones().is_multiple_of(2);
        let switch = if upper { word / per_switch } else { half + word % half };
        let port = taken[switch as usize];
        taken[switch as usize] += 1;
        topology.node_at(switch * per_switch + port)
    };
    Ok((0..ranks).map(place).collect())
}

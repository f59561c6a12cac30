//! What NCCL does: rings or trees over all rails of the servers at once (Jeaugey, "Massively scale your deep learning
//! training with NCCL 2.4", 2019; Hu et al., "Demystifying NCCL", 2025).
//!
//! NCCL cuts the vector into channels, and each channel has a ring or a tree of its own. *Rings*: one ring after the
//! other is found over links that those before have left free, enters a server on one rail and leaves it on another,
//! and runs both ways. There are as many as raise the rate. *Trees*: for each GPU of a server, a double binary tree
//! over the GPUs at its place in all servers, and in each server a chain from there through all others. NCCL measures
//! which of the two is faster at a size; here the one that is predicted to be faster is taken. Servers are the smallest
//! groups of ranks by latency; where there are none, every rank is a server of its own. A single ring and a single
//! double binary tree are tried, too. What NCCL does in switches (NVLS, SHARP) is not here: see `innet-push`.
//!
//! Cost: a tour of all ranks for each of at most eight rings.

use std::sync::Arc;

use super::dbtree::{self, Which};
use super::groups::{Levels, listed};
use super::ring::{self, Ring, push_rings};
use super::{Options, tour};
use crate::error::Result;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Draft, Pace, Tree};
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bytes;

/// The most places in a server over which there are trees; NCCL had at most 32 channels for a long time.
const MOST_PLACES: usize = 32;
/// The most rings, each of which runs both ways.
const MOST_RINGS: u64 = 8;
/// The part of the rate by which more rings must raise it.
const WORTH: f64 = 0.01;

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let one_of_each = [ring::plan(topology, options)?, dbtree::plan(topology, options)?];
    let forms = [rings(topology, options.size), trees(topology)?].into_iter().chain(one_of_each);
    let seconds = |draft: &Draft| Profile::of(draft).seconds(options.size);
    let fastest = forms.min_by_key(seconds).expect("there are four");
    Ok(Draft { algorithm: "nccl".into(), ..fastest })
}

/// Returns the plan of rings over as many links as raise their rate.
fn rings(topology: &Arc<Topology>, size: Bytes) -> Draft {
    let orders = orders(topology, size);
    let count = 2 * orders.len() as u64;
    let mut plan = Draft::new(topology, "nccl", u64::from(topology.ranks()) * count);
    let mut rings = Vec::new();
    for mut order in orders {
        rings.push(Ring::routed(&mut plan, &order));
        order.reverse();
        rings.push(Ring::routed(&mut plan, &order));
    }
    push_rings(&mut plan, &rings);
    plan
}

/// Returns the orders in which the rings visit the ranks.
fn orders(topology: &Topology, size: Bytes) -> Vec<Vec<NodeId>> {
    if topology.is_ordered() {
        return vec![topology.rank_ids().collect()];
    }
    let chunk = Bytes::known(size.get() / u64::from(topology.ranks()));
    let mut rings = vec![0; topology.links().len()];
    let (mut orders, mut best, mut best_rate) = (Vec::new(), 1, 0.0);
    for count in 1..=MOST_RINGS {
        let order = tour::ring_order_beside(topology, chunk, &rings);
        for link in links_of(topology, &order) {
            rings[link] += 1;
            if let Some(back) = topology.reverse(link) {
                rings[back] += 1;
            }
        }
        orders.push(order);
        let rate = count as f64 * slowest(topology, &rings);
        if rate > best_rate * (1.0 + WORTH) {
            (best, best_rate) = (orders.len(), rate);
        } else if orders.len() > best + 1 {
            break;
        }
    }
    orders.truncate(best);
    orders
}

/// Returns the links that a ring takes.
fn links_of(topology: &Topology, order: &[NodeId]) -> Vec<LinkId> {
    let mut links = Vec::new();
    for (place, &rank) in order.iter().enumerate().filter(|_| order.len() > 1) {
        topology.route(rank, order[(place + 1) % order.len()], &mut links);
    }
    links
}

/// Returns the bandwidth that each ring has on the link that gives it least, in bytes a second.
fn slowest(topology: &Topology, rings: &[u32]) -> f64 {
    let used = topology.links().iter().zip(rings).filter(|&(_, &rings)| rings > 0);
    used.map(|(link, &rings)| link.bandwidth.bytes_per_second() / f64::from(rings)).fold(f64::INFINITY, f64::min)
}

/// Returns the plan of a double binary tree for each place in a server.
fn trees(topology: &Arc<Topology>) -> Result<Draft> {
    let levels = Levels::of(topology);
    let side = if levels.sides.len() < 2 { 1 } else { levels.sides[0] as usize };
    let servers: Vec<&[NodeId]> = levels.order.chunks(side).collect();
    let chain = chain(topology, servers[0])?;
    let count = side.min(MOST_PLACES);
    let mut plan = Draft::new(topology, "nccl", 2 * count as u64);
    let mut trees = Vec::new();
    for place in (0..count).map(|number| number * side / count) {
        for which in [Which::One, Which::Two] {
            let start = trees.len() as u64;
            trees.push(tree(&mut plan, &servers, &chain, (place, which), start));
        }
    }
    plan.push_phase(Pace::SubFlows, trees);
    Ok(plan)
}

/// Returns the places of the ranks of a server in the order of a short ring.
fn chain(topology: &Topology, server: &[NodeId]) -> Result<Vec<usize>> {
    let listed = listed(topology);
    let indices: Vec<u32> = server.iter().map(|&rank| listed[rank.index()]).collect();
    let alone = topology.with_ranks(&indices)?;
    Ok(tour::ring_order(&alone, Bytes::known(1 << 20)).into_iter().map(NodeId::index).collect())
}

/// Returns one of the two binary trees over the ranks at one place of all servers, each of which is above a chain of
/// all others of its server.
fn tree(plan: &mut Draft, servers: &[&[NodeId]], chain: &[usize], (place, which): (usize, Which), start: u64) -> Tree {
    let members: Vec<NodeId> = servers.iter().map(|server| server[place]).collect();
    let (root, mut children) = which.children(&members, plan.ranks());
    let first = chain.iter().position(|&one| one == place).expect("the chain has every place");
    for server in servers {
        let at = |step: usize| server[chain[(first + step) % chain.len()]];
        (1..chain.len()).for_each(|step| children[at(step - 1).index()].push(at(step)));
    }
    dbtree::streamed(plan, start..start + 1, root, &children)
}

//! One parameter server (Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014), as
//! the MTree paper's section II describes it: workers push whole vectors to one server, and pull the sum.
//!
//! The only tree is a star into the server and out of it, which is a worker too; it is not pipelined. N - 1 vectors
//! enter the server and N - 1 leave it, whatever the network: its links are the bottleneck.
//!
//! Our guesses: the papers leave the choice of the server to the operator; here it is the rank with the least mean
//! latency to and from all others (of equals, the one with the best bandwidth, see `routes.rs`). It adds up while it
//! receives, and then sends to all others at once.
//!
//! Cost: a search for the quickest routes from each rank.

use std::sync::Arc;

use super::Options;
use super::routes::Routes;
use crate::error::Result;
use crate::plan::{Draft, Pace};
use crate::topology::{NodeId, Topology};

pub(super) fn plan(topology: &Arc<Topology>, _options: &Options) -> Result<Draft> {
    let routes = Routes::new(topology, "ps")?;
    let ranks: Vec<NodeId> = topology.rank_ids().collect();
    let server = routes.centre(&ranks, &ranks);
    let mut plan = Draft::new(topology, "ps", 1);
    let tree = routes.tree(&mut plan, 0..1, server, &star(server, topology.ranks()));
    plan.push_phase(Pace::Stream, vec![tree]);
    Ok(plan)
}

/// Returns the edges from `server` to all other ranks.
pub(super) fn star(server: NodeId, ranks: u32) -> Vec<(NodeId, NodeId)> {
    NodeId::first(ranks as usize).filter(|&rank| rank != server).map(|rank| (server, rank)).collect()
}

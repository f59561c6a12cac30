//! PSLD (Chen et al., "Elastic parameter server load distribution in deep learning clusters", SoCC 2020): several
//! parameter servers, each with a part of the vector that fits its measured performance.
//!
//! Each server has a star, which is not pipelined. A server with the part s of a vector of v bytes is predicted to
//! finish after `L + s v B`: L is the longest round trip to any worker, B the seconds that a byte takes from and to
//! every worker, one worker after the other. The parts are those with which all servers finish at once (as water fills
//! vessels); a server whose L alone exceeds that time gets none, which is PSLD's scaling in: small vectors have few
//! servers. As with one server, 2 (N - 1) vectors are sent, but spread over the links of many.
//!
//! Our guesses: PSLD measures while it trains and explores. Here the performance is the one that the MTree paper's
//! section IV-A assumes (`routes.rs`: the quickest route, and its mean bandwidth), measured pair by pair, whatever
//! links the pairs share. In this model workers are served one after the other, as their messages meet at the server's
//! link. Any rank may be a server; `trees` keeps those that would be fastest alone.
//!
//! Cost: a search for the quickest routes from each rank, and N edges for each server.

use std::sync::Arc;

use super::Options;
use super::ps::star;
use super::routes::Routes;
use super::spanning::{UNITS, spans};
use crate::error::Result;
use crate::plan::{Draft, Pace};
use crate::topology::{NodeId, Topology};

/// A server's measured performance.
struct Server {
    rank: NodeId,
    /// The picoseconds that an empty vector would take.
    latency: u64,
    /// The seconds that the whole vector adds.
    slope: f64,
}

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let routes = Routes::new(topology, "psld")?;
    let bytes = options.size.get().max(1) as f64;
    let mut servers: Vec<Server> = topology.rank_ids().map(|rank| measure(&routes, rank, bytes)).collect();
    let alone = |server: &Server| server.latency as f64 / 1e12 + server.slope;
    servers.sort_by(|a, b| alone(a).total_cmp(&alone(b)));
    if let Some(trees) = options.trees {
        servers.truncate(trees as usize);
    }
    let shares = equal_finish(&mut servers);
    let mut plan = Draft::new(topology, "psld", UNITS);
    let served = servers.iter().zip(spans(&shares)).filter(|(_, span)| !span.is_empty());
    let trees = served
        .map(|(server, span)| routes.tree(&mut plan, span, server.rank, &star(server.rank, topology.ranks())))
        .collect();
    plan.push_phase(Pace::Stream, trees);
    Ok(plan)
}

fn measure(routes: &Routes, rank: NodeId, bytes: f64) -> Server {
    let farthest = (0..routes.ranks()).map(|worker| routes.round_trip(rank, NodeId(worker))).max().unwrap_or(0);
    let drain: f64 = (0..routes.ranks()).map(|worker| routes.drain(rank, NodeId(worker))).sum();
    // A single rank has nothing to send: any share is right then, but it has to be a number.
    Server { rank, latency: farthest, slope: (drain * bytes).max(f64::MIN_POSITIVE) }
}

/// Sorts the servers by latency; returns the shares, which add up to 1, with which all servers that have one finish at
/// the same time.
fn equal_finish(servers: &mut [Server]) -> Vec<f64> {
    servers.sort_by_key(|server| (server.latency, server.rank));
    // Latencies are counted from the least one, so that a byte's time is not lost beside a long latency.
    let least = servers[0].latency;
    let later = |server: &Server| (server.latency - least) as f64 / 1e12;
    let (mut rate, mut offset, mut finish) = (0.0, 0.0, f64::INFINITY);
    for server in servers.iter() {
        if later(server) >= finish {
            break;
        }
        rate += 1.0 / server.slope;
        offset += later(server) / server.slope;
        finish = (1.0 + offset) / rate;
    }
    servers.iter().map(|server| ((finish - later(server)) / server.slope).max(0.0)).collect()
}

//! The double binary tree in schedule tables, against the formula of Sanders, Speck and Traeff (2009); the routes of
//! packets where both ways around a ring are equally short; and the order of a ring.

use std::collections::HashSet;
use std::sync::Arc;

use crate::common::{planned, spec};
use treefold::plan::Plan;
use treefold::plan::tables::{self, Entry, Opcode, Tables};
use treefold::planners::{self, Options};
use treefold::sim::Watch;
use treefold::sim::packet::{self, Interfaces};
use treefold::topology::{LinkModel, NodeId, Topology};
use treefold::units::Bytes;

fn tables(plan: &Plan) -> Tables {
    let schedule = tables::lower_for_interfaces(plan, 1 << 12, 4).unwrap();
    Tables::new(plan, &schedule, 4, false).unwrap()
}

/// The ranks to which an entry sends.
fn targets(entry: &Entry) -> Vec<u32> {
    if entry.op == Opcode::Reduce { entry.parent.into_iter().collect() } else { entry.children.clone() }
}

/// "A node never receives or sends data simultaneously in both trees" (MultiTree paper, section II).
#[test]
fn a_rank_sends_and_receives_at_most_once_a_step() {
    for ranks in 2..40 {
        let tables = tables(&planned("dbtree", &format!("full:{ranks}")));
        let mut receipts = HashSet::new();
        for (rank, table) in tables.of_rank.iter().enumerate() {
            let steps: HashSet<u32> = table.iter().map(|entry| entry.step).collect();
            assert_eq!(steps.len(), table.len(), "{ranks} ranks: {rank} sends twice in a step");
            for (entry, target) in table.iter().flat_map(|entry| targets(entry).into_iter().map(move |to| (entry, to)))
            {
                assert!(receipts.insert((entry.step, target)), "{ranks} ranks: {target} receives twice in a step");
            }
        }
    }
}

/// "A new sub-flow every two steps": 2 (N/2 - 1) + 2 log2 N steps reduce, then gathers begin.
#[test]
fn all_is_reduced_before_anything_is_gathered() {
    for bits in 2..7u32 {
        let ranks = 1 << bits;
        let tables = tables(&planned("dbtree", &format!("full:{ranks}")));
        let steps = |op| {
            let entries = tables.of_rank.iter().flatten();
            entries.filter(move |entry| entry.op == op).map(|entry| entry.step).collect::<Vec<_>>()
        };
        let last = steps(Opcode::Reduce).into_iter().max().unwrap();
        assert_eq!(last, 2 * (ranks / 2 - 1) + 2 * bits);
        assert_eq!(steps(Opcode::Gather).into_iter().min(), Some(last + 1));
        let root = tables.of_rank[0].iter().find(|entry| entry.op == Opcode::Gather).unwrap();
        assert_eq!(root.waits.len() as u32, ranks / 2, "the root waits for all its sub-flows");
    }
}

fn above(rank: u32, ranks: u32) -> u32 {
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | (bit << 1);
    if above < ranks { above } else { rank ^ bit }
}

/// The colour of the edge above an inner node of its tree, by the formula: tree 0 has the even ranks inside, tree 1,
/// which mirrors it, the odd ones.
fn inner_colour(rank: u32, ranks: u32) -> u32 {
    let place = if rank.is_multiple_of(2) { rank } else { ranks - 1 - rank };
    if place == 0 {
        return rank % 2;
    }
    let parent = above(place, ranks);
    let of_parent = inner_colour(if rank.is_multiple_of(2) { parent } else { ranks - 1 - parent }, ranks);
    of_parent ^ (ranks / 2 % 2) ^ u32::from(parent < place)
}

#[test]
fn colours_are_sanders() {
    for ranks in (4..70).step_by(2) {
        let tables = tables(&planned("dbtree", &format!("full:{ranks}")));
        let reduces = |entry: &&Entry| entry.op == Opcode::Reduce;
        for (rank, table) in (0..ranks).zip(&tables.of_rank) {
            for entry in table.iter().filter(reduces) {
                let is_inner = rank % 2 == entry.flow;
                let colour = inner_colour(rank, ranks) ^ u32::from(!is_inner);
                assert_eq!(entry.step % 2, colour, "{ranks} ranks: {rank} in tree {}", entry.flow);
            }
        }
    }
}

#[test]
fn all_ways_are_shortest_and_differ() {
    for (text, from, to, ways) in [
        ("torus:4x4", 0, 10, 4),
        ("torus:4x4", 0, 8, 2),
        ("torus:5x4", 0, 9, 1),
        ("torus:4x4x4", 0, 42, 8),
        ("torus:2x2x2x2", 0, 15, 8),
        ("mesh:4x4", 0, 10, 1),
        ("dgx2", 0, 9, 1),
    ] {
        let network = spec(text);
        let (from, to) = (NodeId(from), NodeId(to));
        assert_eq!(network.ways(from, to), ways, "{text}");
        let mut seen = HashSet::new();
        for way in 0..ways {
            let mut route = Vec::new();
            network.append_way(from, to, way, &mut route);
            assert_eq!(route.len() as u32, network.hops(from, to));
            let end = route.iter().fold(from, |at, &link| {
                assert_eq!(network.link(link).source, at);
                network.link(link).target
            });
            assert_eq!(end, to);
            assert!(seen.insert(route));
        }
    }
}

/// The flits that each link of a ring of four carries when the ranks on its far sides reduce half a MiB in each of two
/// messages of a tree, and gather it.
fn flits_around_a_ring(interfaces: Interfaces) -> Vec<u64> {
    let across = Arc::new(spec("ring:4").with_ranks(&[0, 2]).unwrap());
    let plan = planners::plan("dbtree", &across, &Options::default()).unwrap();
    let options = packet::Options { interfaces, ..packet::Options::default() };
    let seen = packet::simulate(&plan, Bytes::known(1 << 20), &options, Watch::NOTHING).unwrap();
    seen.trace.carried.iter().map(|seconds| (seconds.get() * 1e9).round() as u64).collect()
}

/// A message of half a MiB has 2,048 packets of 17 flits; each rank sends two.
#[test]
fn packets_take_both_ways_around_a_ring() {
    let flits = flits_around_a_ring(Interfaces::Shared);
    assert!(flits.iter().all(|flits| flits.abs_diff(2048 * 17) < 2048 * 17 / 20), "about half each: {flits:?}");
    assert_eq!(flits.iter().sum::<u64>(), 8 * 2048 * 17);
}

/// The interface to which a message is bound feeds one link, so that all of its packets go the same way.
#[test]
fn a_message_that_is_bound_to_a_port_goes_one_way() {
    let flits = flits_around_a_ring(Interfaces::Bound);
    assert!(flits.iter().all(|flits| flits.is_multiple_of(2048 * 17)), "{flits:?}");
    assert_eq!(flits.iter().sum::<u64>(), 8 * 2048 * 17);
}

fn order_of_ring(network: Topology) -> Vec<u32> {
    let plan = planners::plan("ring", &Arc::new(network), &Options::default()).unwrap();
    plan.lanes.ids().map(|lane| plan.lanes.ends(lane).0.0).collect()
}

#[test]
fn a_ring_keeps_an_order_that_is_given() {
    let torus = spec("torus:2x2");
    assert_eq!(order_of_ring((*torus).clone()), [0, 1, 3, 2], "a short ring");
    let ordered = torus.with_ranks(&[0, 1, 2, 3]).unwrap().in_given_order();
    assert_eq!(order_of_ring(ordered.clone()), [0, 1, 2, 3], "rank 1 and rank 2 are no neighbours");
    let read = Topology::from_json(&ordered.to_json()).unwrap();
    assert!(read == ordered && read.is_ordered() && ordered != *torus);
    let renamed = ordered.named("mine").unwrap();
    assert!(renamed.is_ordered() && renamed.under(LinkModel::Hockney).is_ordered());
}

//! PLink (Luo et al., "PLink: Discovering and exploiting datacenter network locality for efficient cloud-based
//! distributed training", MLSys 2020): trees of two levels, fitted to the locality that probes find.
//!
//! Ranks form groups of small latency. In each group, members send to an aggregator, and aggregators send to a root
//! among them. There is one tree an aggregator, which is its root, with equal parts of the vector, so that roots share
//! the load; trees are not pipelined. The height is 2. Only aggregators send between groups, so at most one vector goes
//! in and out of a group for each other group and part.
//!
//! Our guesses: PLink probes and clusters hosts, and adapts its plan as the cloud changes. Here the probes are the
//! quickest routes between ranks (`routes.rs`, as in the MTree paper's section IV-A), and groups are k-medoids under
//! round-trip latency: aggregators start farthest first from the centre; then ranks join their nearest aggregator and
//! groups choose their new centres, in turn. k is chosen as PLink fits its plan: of 2 to 2 sqrt(N) groups, those whose
//! plan is predicted to be fastest for the size. Members of a group do not take turns as aggregators.
//!
//! Cost: a search for the quickest routes from each rank, and for each number of groups a few rounds of k-medoids.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Options;
use super::routes::Routes;
use super::spanning::{UNITS, spans};
use crate::error::Result;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Draft, Pace};
use crate::topology::{NodeId, Topology};

/// The most rounds of k-medoids, which settle in fewer.
const MAX_ROUNDS: usize = 10;

/// An aggregator and all ranks of its group, of which it is one.
struct Group {
    aggregator: NodeId,
    members: Vec<NodeId>,
}

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let routes = Routes::new(topology, "plink")?;
    let aggregators = farthest_first(&routes, numbers_of_groups(topology.ranks()).end as usize - 1);
    let plans = numbers_of_groups(topology.ranks())
        .map(|count| two_levels(topology, &routes, &settle(&routes, aggregators[..count as usize].to_vec()), options));
    let timed = plans.map(|plan| (Profile::of(&plan).seconds(options.size), plan));
    Ok(timed.min_by_key(|&(seconds, _)| seconds).expect("there is at least one number of groups").1)
}

/// Returns the numbers of groups that are tried.
fn numbers_of_groups(ranks: u32) -> std::ops::Range<u32> {
    let most = (2.0 * f64::from(ranks).sqrt()).ceil() as u32;
    2.min(ranks)..most.min(ranks) + 1
}

/// Returns the centre of all ranks, and then again and again the rank that is farthest from all ranks chosen before.
fn farthest_first(routes: &Routes, count: usize) -> Vec<NodeId> {
    let ranks: Vec<NodeId> = routes.rank_ids().collect();
    let mut chosen = vec![routes.centre(&ranks, &ranks)];
    while chosen.len() < count {
        let distance = |&rank: &NodeId| chosen.iter().map(|&other| routes.round_trip(rank, other)).min();
        let farthest =
            ranks.iter().filter(|rank| !chosen.contains(rank)).max_by_key(|&rank| (distance(rank), Reverse(rank)));
        chosen.push(*farthest.expect("fewer groups than ranks"));
    }
    chosen
}

/// Returns groups around `aggregators`, which move to their groups' centres until nothing changes.
fn settle(routes: &Routes, mut aggregators: Vec<NodeId>) -> Vec<Group> {
    for _ in 0..MAX_ROUNDS {
        let moved: Vec<NodeId> =
            groups(routes, &aggregators).iter().map(|group| routes.centre(&group.members, &group.members)).collect();
        if moved == aggregators {
            break;
        }
        aggregators = moved;
    }
    groups(routes, &aggregators)
}

/// Puts every rank into the group of its nearest aggregator; of equally near ones, into the one with the fewest
/// members.
fn groups(routes: &Routes, aggregators: &[NodeId]) -> Vec<Group> {
    let group = |&aggregator: &NodeId| Group { aggregator, members: vec![aggregator] };
    let mut groups: Vec<Group> = aggregators.iter().map(group).collect();
    for rank in routes.rank_ids().filter(|rank| !aggregators.contains(rank)) {
        let near = |group: &&mut Group| (routes.round_trip(rank, group.aggregator), group.members.len());
        groups.iter_mut().min_by_key(near).expect("there are groups").members.push(rank);
    }
    groups
}

/// Returns the plan with a tree for each aggregator, or with as many as the options ask for, rooted at the most central
/// ones.
fn two_levels(topology: &Arc<Topology>, routes: &Routes, groups: &[Group], options: &Options) -> Draft {
    let mut roots: Vec<NodeId> = groups.iter().map(|group| group.aggregator).collect();
    let far = |&root: &NodeId| groups.iter().map(|group| routes.round_trip(root, group.aggregator)).sum::<u64>();
    roots.sort_by_key(far);
    if let Some(trees) = options.trees {
        roots.truncate(trees as usize);
    }
    let mut plan = Draft::new(topology, "plink", UNITS);
    let shares = spans(&vec![1.0; roots.len()]);
    let trees = roots.iter().zip(shares).map(|(&root, span)| routes.tree(&mut plan, span, root, &edges(groups, root)));
    let trees = trees.collect();
    plan.push_phase(Pace::Stream, trees);
    plan
}

/// Returns the root's edges to the other aggregators and to its own group, and then each aggregator's edges to its
/// group.
fn edges(groups: &[Group], root: NodeId) -> Vec<(NodeId, NodeId)> {
    let between = groups.iter().map(|group| (root, group.aggregator));
    let within = |group: &Group| {
        let aggregator = group.aggregator;
        group.members.clone().into_iter().map(move |member| (aggregator, member))
    };
    let own = groups.iter().filter(|group| group.aggregator == root).flat_map(within);
    let others = groups.iter().filter(|group| group.aggregator != root).flat_map(within);
    between.chain(own).chain(others).filter(|(parent, child)| parent != child).collect()
}

//! MultiTree (Huang, Majumder, Kim, Muzahid, Yum, Kim, ISCA 2021): trees grown together with their schedule.
//!
//! Algorithm 1 grows one broadcast tree a rank, all from their roots at once. In each time step every link may be used
//! once. Trees take turns to add one node over a link that is still free, from nodes that they had before the step; so
//! the levels near the roots, which would be sparse, become dense. When no tree can grow any more, the next step begins
//! with all links free. The reduction runs the same trees backwards. The result has no contention: no link carries two
//! messages in a step. N trees carry 1/N of the vector each, and on tori there are as many steps as the links' capacity
//! allows.
//!
//! Further parts are as the paper describes: switches are searched breadth-first for the nearest free child (III-C3,
//! `switched`); a wide link has several slots of bandwidth (VII-B); fewer trees than ranks trade bandwidth for latency
//! (VII-C); trees with a larger remaining height may go first (III-C1). Two parts are ours: the slot of bandwidth is
//! chosen by the time of the resulting plan, and where the two directions of links differ, the reduce halves are grown
//! on the transposed network instead of mirrored.
//!
//! Cost: on direct networks steps x trees x frontiers, and a bit test for each edge (`direct`); where switches lie
//! between ranks, a breadth-first search of switches for each edge (`switched`).

mod direct;
mod remaining;
mod switched;

use std::sync::Arc;

use super::options::{NeighborOrder, Options, TreeOrder};
use crate::error::{Error, Result};
use crate::misfit;
use crate::plan::alpha_beta::Profile;
use crate::plan::check::slots_of;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Sharing, Step, Tree};
use crate::search::BreadthFirst;
use crate::topology::{LinkId, NodeId, Shape, Topology};
use crate::units::{Bandwidth, Bytes, Seconds};

/// The settings of the growth of trees.
#[derive(Clone, Copy)]
struct Settings<'a> {
    roots: &'a [NodeId],
    /// The bandwidth that a message of a step takes.
    slot: Bandwidth,
    tree_order: TreeOrder,
    neighbor_order: NeighborOrder,
}

/// All that the growth of trees depends on.
struct Ground<'a> {
    topology: &'a Topology,
    settings: Settings<'a>,
    /// How many messages each link takes in a step; 0 for links that are narrower than a slot.
    room: Vec<u32>,
}

/// The trees that have grown: tree by tree, the route and step of each edge in order of joining.
struct Forest {
    edges: Vec<(RouteId, u16)>,
    edges_a_tree: usize,
    steps: u16,
    routes: RoutesFound,
}

crate::ids::ids! {
    /// A route of a forest.
    RouteId;
}

/// The links of a forest's routes.
enum RoutesFound {
    /// Each link is a route, with the link's number.
    Links(Vec<LinkId>),
    /// Each row of links is a route.
    Rows(Vec<Box<[LinkId]>>),
}

impl RoutesFound {
    fn links(&self, route: RouteId) -> &[LinkId] {
        match self {
            Self::Links(links) => std::slice::from_ref(&links[route]),
            Self::Rows(rows) => &rows[route],
        }
    }
}

/// The most steps of a half: steps are stored in 16 bits, both halves together.
const MAX_STEPS_OF_HALF: u32 = u16::MAX as u32 / 2;

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let roots = roots(topology, options.trees)?;
    let tree_order = options.tree_order.unwrap_or(TreeOrder::Ascending);
    let with_slot = |slot| Settings { roots: &roots, slot, tree_order, neighbor_order: options.neighbor_order };
    let mut best = Best::new(options.size);
    for slot in slots_to_try(topology) {
        best.consider(with_slot(slot).plan(topology)?, slot);
    }
    if options.tree_order.is_none() && !is_regular(topology) {
        let farthest_first = Settings { tree_order: TreeOrder::RemainingHeight, ..with_slot(best.slot) };
        best.consider(farthest_first.plan(topology)?, best.slot);
    }
    Ok(best.plan.expect("at least one slot is tried"))
}

/// The fastest plan so far for a size.
struct Best {
    size: Bytes,
    plan: Option<Draft>,
    /// The predicted time, which is only computed once there is a plan to compare with.
    seconds: Option<Seconds>,
    slot: Bandwidth,
}

impl Best {
    fn new(size: Bytes) -> Self {
        Self { size, plan: None, seconds: None, slot: Bandwidth::known(1.0) }
    }

    fn consider(&mut self, plan: Draft, slot: Bandwidth) {
        let predict = |plan: &Draft| Profile::of(plan).seconds(self.size);
        let Some(before) = &self.plan else {
            (self.plan, self.slot) = (Some(plan), slot);
            return;
        };
        let (least, seconds) = (self.seconds.unwrap_or_else(|| predict(before)), predict(&plan));
        self.seconds = Some(least);
        if seconds < least {
            (self.plan, self.seconds, self.slot) = (Some(plan), Some(seconds), slot);
        }
    }
}

impl Settings<'_> {
    fn plan(self, topology: &Arc<Topology>) -> Result<Draft> {
        let mut plan = Draft::new(topology, "multitree", self.roots.len() as u64);
        let broadcast = self.grow(topology)?;
        let trees = if topology.is_symmetric() {
            self.mirrored_trees(&mut plan, &broadcast)
        } else {
            self.trees_of_two_halves(&mut plan, &broadcast)?
        };
        plan.push_phase(Pace::Step(Sharing::Transfers(self.slot)), trees);
        Ok(plan)
    }

    /// Returns trees that reduce over the edges of their broadcast halves.
    fn mirrored_trees(self, plan: &mut Draft, broadcast: &Forest) -> Vec<Tree> {
        let (topology, steps) = (Arc::clone(&plan.topology), broadcast.steps);
        let numbered = self.roots.iter().enumerate();
        let with_mirror = |(i, &root)| {
            let edges = half_edges(plan, &topology, broadcast, i, root, |step| steps + step);
            tree(i, root, Half::Mirror, plan.own_half(edges))
        };
        numbered.map(with_mirror).collect()
    }

    /// Returns trees whose reduce halves are grown on the transposed network.
    fn trees_of_two_halves(self, plan: &mut Draft, broadcast: &Forest) -> Result<Vec<Tree>> {
        let (topology, transposed) = (Arc::clone(&plan.topology), plan.topology.transposed());
        let reduce = self.grow(&transposed)?;
        let steps = reduce.steps;
        let numbered = self.roots.iter().enumerate();
        let with_both = |(i, &root)| {
            let up = half_edges(plan, &transposed, &reduce, i, root, |step| steps + 1 - step);
            let up = plan.own_half(up);
            let down = half_edges(plan, &topology, broadcast, i, root, |step| steps + step);
            tree(i, root, up, plan.own_half(down))
        };
        Ok(numbered.map(with_both).collect())
    }

    fn grow(self, topology: &Topology) -> Result<Forest> {
        let room = topology.links().iter().map(|link| room(link.bandwidth, self.slot)).collect();
        let ground = Ground { topology, settings: self, room };
        let forest = if topology.is_direct() { direct::grow(&ground) } else { switched::grow(&ground) };
        forest.ok_or_else(|| {
            Error::new(format!(
                "multitree needs more than {MAX_STEPS_OF_HALF} steps for half of an all-reduce on {}, more than a plan \
                 holds: use packing or dbtree",
                topology.name()
            ))
            .misfit()
        })
    }
}

fn tree(index: usize, root: NodeId, up: Half, down: Half) -> Tree {
    let start = index as u64;
    Tree { span: start..start + 1, root, up, down, chunk: Chunk::One }
}

/// Returns how many messages a link of this bandwidth takes in a step.
fn room(bandwidth: Bandwidth, slot: Bandwidth) -> u32 {
    if bandwidth.bytes_per_second() * (1.0 + 1e-9) < slot.bytes_per_second() {
        0
    } else {
        slots_of(bandwidth, slot).min(u32::MAX.into()) as u32
    }
}

/// Returns the edges of tree `i` breadth-first from its root, as lanes of `plan` and steps. `grown_on` is the plan's
/// topology, or its transpose, on which a route's links are in the opposite order.
fn half_edges(
    plan: &mut Draft,
    grown_on: &Topology,
    forest: &Forest,
    i: usize,
    root: NodeId,
    step: impl Fn(u16) -> u16,
) -> Vec<(LaneId, Option<Step>)> {
    let topology = Arc::clone(&plan.topology);
    let ordered =
        breadth_first(grown_on, forest, &forest.edges[i * forest.edges_a_tree..][..forest.edges_a_tree], root);
    let mut reversed = Vec::new();
    let turned = !std::ptr::eq(grown_on, Arc::as_ptr(&topology));
    let lane_and_step = |(route, at): (RouteId, u16)| {
        let mut links = forest.routes.links(route);
        if turned {
            reversed.clear();
            reversed.extend(links.iter().rev());
            links = &reversed;
        }
        (plan.lanes.via(&topology, links), Step::new(step(at)))
    };
    ordered.into_iter().map(lane_and_step).collect()
}

/// Puts edges, which are in order of joining, breadth-first with siblings together (siblings stay ordered by step).
fn breadth_first(topology: &Topology, forest: &Forest, edges: &[(RouteId, u16)], root: NodeId) -> Vec<(RouteId, u16)> {
    let ends = |edge: &(RouteId, u16)| {
        let links = forest.routes.links(edge.0);
        (topology.link(links[0]).source, topology.link(links[links.len() - 1]).target)
    };
    let nodes = topology.ranks() as usize;
    let mut first = vec![0u32; nodes + 1];
    edges.iter().for_each(|edge| first[(ends(edge).0).index() + 1] += 1);
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    let mut next = first.clone();
    let mut by_parent = vec![(RouteId::default(), 0); edges.len()];
    for edge in edges {
        let place = &mut next[ends(edge).0];
        by_parent[*place as usize] = *edge;
        *place += 1;
    }
    let children = |node: NodeId| first[node] as usize..first[node.index() + 1] as usize;
    let mut ordered: Vec<(RouteId, u16)> = by_parent[children(root)].to_vec();
    let mut at = 0;
    while at < ordered.len() {
        let (_, child) = ends(&ordered[at]);
        ordered.extend_from_slice(&by_parent[children(child)]);
        at += 1;
    }
    ordered
}

/// The most ranks for which the second order of turns is tried unasked: it needs the distances of all pairs.
const MAX_RANKS_OF_BOTH_TURNS: u32 = 1024;

/// Returns whether only the first order of turns is worth trying. On a torus, whose nodes are alike, turns by root are
/// balanced already. On a mesh they are not, but either order takes as many steps, which decide; behind switches the
/// order was seen to change nothing.
fn is_regular(topology: &Topology) -> bool {
    let grid = matches!(topology.shape(), Shape::Grid { .. });
    grid || !topology.is_direct() || topology.ranks() > MAX_RANKS_OF_BOTH_TURNS
}

/// Returns all ranks, or `count` of them far from each other (greedy k-centre from the most central one).
fn roots(topology: &Topology, count: Option<u32>) -> Result<Vec<NodeId>> {
    let ranks = topology.ranks();
    let count = count.unwrap_or(ranks);
    if count > ranks {
        misfit!(
            "multitree grows at most one tree a rank: asked for {count} trees on {ranks} ranks; ask for at most {ranks}"
        );
    }
    let ranks = topology.rank_ids();
    if count as usize == ranks.len() {
        return Ok(ranks.collect());
    }
    let eccentricity = |rank: NodeId| ranks.clone().map(|other| topology.hops(rank, other)).max().unwrap_or(0);
    let centre = ranks.clone().min_by_key(|&rank| eccentricity(rank)).expect("there is a rank");
    let mut roots = vec![centre];
    let mut distance: Vec<u32> = ranks.clone().map(|rank| topology.hops(centre, rank)).collect();
    while roots.len() < count as usize {
        let farthest = ranks.clone().rev().max_by_key(|&rank| distance[rank]).expect("there is a rank");
        roots.push(farthest);
        for rank in ranks.clone() {
            distance[rank] = distance[rank].min(topology.hops(farthest, rank));
        }
    }
    roots.sort_unstable();
    Ok(roots)
}

/// The numbers of slots into which the narrowest link that is needed may be divided.
const PARTS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 4.0, 8.0];

/// Returns the slots of bandwidth that are worth trying: the widest one with which links at least as wide still join
/// all ranks, and fractions of it, which use more of the links' width at the price of coarser steps.
fn slots_to_try(topology: &Topology) -> Vec<Bandwidth> {
    let mut widths: Vec<f64> = topology.links().iter().map(|link| link.bandwidth.bytes_per_second()).collect();
    widths.sort_by(f64::total_cmp);
    widths.dedup();
    let joined = |width: &f64| joins_all_ranks(topology, *width);
    let Some(&widest) = widths.get(widths.partition_point(joined).saturating_sub(1)) else {
        return vec![Bandwidth::known(1.0)];
    };
    if widths.len() == 1 {
        return vec![Bandwidth::known(widest)];
    }
    // Slots that give every link the same room lead to the same trees.
    let rooms = |slot: &Bandwidth| topology.links().iter().map(|link| room(link.bandwidth, *slot)).collect::<Vec<_>>();
    let mut slots: Vec<Bandwidth> = PARTS.iter().map(|part| Bandwidth::known(widest / part)).collect();
    slots.dedup_by_key(|slot| rooms(slot));
    slots
}

/// Returns whether every rank reaches rank 0, and rank 0 every rank, over links at least this wide.
fn joins_all_ranks(topology: &Topology, width: f64) -> bool {
    let is_wide = |&&link: &&LinkId| topology.link(link).bandwidth.bytes_per_second() >= width;
    let [mut from_first, mut to_first] = [(); 2].map(|()| BreadthFirst::new(topology.nodes().len()));
    from_first.flood(NodeId(0), |node| {
        topology.outgoing(node).iter().filter(is_wide).map(|&link| topology.link(link).target)
    });
    to_first.flood(NodeId(0), |node| {
        topology.incoming(node).iter().filter(is_wide).map(|&link| topology.link(link).source)
    });
    topology.rank_ids().all(|rank| from_first.reaches(rank) && to_first.reaches(rank))
}

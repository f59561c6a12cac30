//! Trees that are cheap under prices, trees of shortest routes, and packings by multiplicative weights.
//!
//! On a network whose directions are alike the cheapest tree is a minimum spanning tree over ranks (Kruskal); elsewhere
//! it has the root for which the reduce and the broadcast arborescence together are cheapest (Chu-Liu/Edmonds). Through
//! switches, ranks are joined by the cheapest routes under the prices. Cost: O(m log m), or O(n^2 m) at worst with
//! arborescences.

mod arborescence;
mod disjoint;

use std::collections::BTreeMap;

pub(super) use arborescence::{Edge, arborescence};
pub use disjoint::{EqualTrees, equal_trees};

use super::spanning::{Lengths, Priced, Rated, Resources, Route, SpanningTree, Usage, breadth_first};
use super::{Heights, Listener, tell};
use crate::error::Result;
use crate::plan::Direction;
use crate::search::Shortest;
use crate::topology::{LinkId, NodeId, Topology};

/// A route from one rank to another.
#[derive(Debug, Clone)]
pub(super) struct Arc {
    pub source: NodeId,
    pub target: NodeId,
    pub cost: f64,
    pub route: Route,
}

/// Returns the cheapest tree under `prices`, one a resource. If the directions of links differ, only
/// `roots` are tried; if these are all ranks, the cost is a lower bound for every tree.
pub fn cheapest_tree(topology: &Topology, resources: &Resources, prices: &[f64], roots: &[NodeId]) -> Priced {
    let price_of_link: Vec<f64> = topology.link_ids().map(|link| resources.price(link, prices)).collect();
    if topology.is_symmetric() {
        return cheapest_mirrored(topology, &price_of_link, None)
            .expect("every link of a symmetric network has a reverse");
    }
    arborescence::cheapest_pair(topology, arcs(topology, &price_of_link), roots)
}

/// Returns the cheapest tree whose halves mirror each other, at the price of one of its halves; `None` if links without
/// an opposite one are needed to join the ranks.
fn cheapest_mirrored(topology: &Topology, price_of_link: &[f64], root: Option<NodeId>) -> Option<Priced> {
    let (cost, chosen) = minimum_spanning_tree(topology.ranks(), arcs(topology, price_of_link));
    let spans = chosen.len() + 1 == topology.ranks() as usize;
    let mirrors = chosen.iter().flat_map(|arc| &arc.route).all(|&link| topology.reverse(link).is_some());
    (spans && mirrors).then(|| Priced { tree: rooted(topology, chosen, root), cost })
}

/// Returns the cheapest mirrored tree where the prices of both directions of a link count.
fn cheapest_both_ways(
    topology: &Topology,
    resources: &Resources,
    prices: &[f64],
    root: Option<NodeId>,
) -> Option<SpanningTree> {
    let of = |link: LinkId| resources.price(link, prices);
    // A link without an opposite one cannot be used.
    let both = |link: LinkId| topology.reverse(link).map_or(f64::INFINITY, |back| of(link) + of(back));
    let price_of_link: Vec<f64> = topology.link_ids().map(both).collect();
    cheapest_mirrored(topology, &price_of_link, root).map(|priced| priced.tree)
}

/// Returns the routes between ranks: links, or the cheapest routes through nodes that are no ranks.
fn arcs(topology: &Topology, price_of_link: &[f64]) -> Vec<Arc> {
    if topology.is_direct() {
        let arc = |(id, link): (LinkId, &crate::topology::Link)| Arc {
            source: link.source,
            target: link.target,
            cost: price_of_link[id],
            route: Box::new([id]),
        };
        return topology.link_ids().zip(topology.links()).map(arc).collect();
    }
    let mut search = Shortest::new(topology.nodes().len());
    topology.rank_ids().flat_map(|rank| arcs_from(topology, price_of_link, rank, &mut search)).collect()
}

/// Finds the cheapest routes from `rank` to other ranks, at which they end.
fn arcs_from(topology: &Topology, price_of_link: &[f64], rank: NodeId, search: &mut Shortest<f64, LinkId>) -> Vec<Arc> {
    search.start(rank);
    while let Some((node, cost)) = search.settle() {
        if topology.is_rank(node) && node != rank {
            continue;
        }
        for &link in topology.outgoing(node) {
            search.offer(topology.link(link).target, cost + price_of_link[link], link);
        }
    }
    let reached = topology.rank_ids().filter(|&other| search.last_edge(other).is_some());
    let arc = |target: NodeId| Arc {
        source: rank,
        target,
        cost: search.cost(target),
        route: search.route(target, |link| topology.link(link).source),
    };
    reached.map(arc).collect()
}

/// Finds a minimum spanning tree (Kruskal) among the arcs of one direction; those of the other direction cost the same.
fn minimum_spanning_tree(ranks: u32, mut arcs: Vec<Arc>) -> (f64, Vec<Arc>) {
    arcs.retain(|arc| arc.source < arc.target);
    arcs.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut part: Vec<NodeId> = NodeId::first(ranks as usize).collect();
    let mut cost = 0.0;
    arcs.retain(|arc| {
        let (a, b) = (find(&mut part, arc.source), find(&mut part, arc.target));
        if a != b {
            part[a] = b;
            cost += arc.cost;
        }
        a != b
    });
    (cost, arcs)
}

fn find(part: &mut [NodeId], mut node: NodeId) -> NodeId {
    while part[node] != node {
        part[node] = part[part[node]];
        node = part[node];
    }
    node
}

/// Returns the tree of these arcs, rooted at `root`, or else where the longest latency to any rank is least.
fn rooted(topology: &Topology, arcs: Vec<Arc>, root: Option<NodeId>) -> SpanningTree {
    let ranks = topology.ranks() as usize;
    let mut neighbors: Vec<Vec<(NodeId, Route)>> = vec![Vec::new(); ranks];
    for Arc { source, target, route, .. } in arcs {
        let back: Route = route
            .iter()
            .rev()
            .map(|&link| topology.reverse(link).expect("a symmetric network has every link's reverse"))
            .collect();
        neighbors[source].push((target, route));
        neighbors[target].push((source, back));
    }
    let root = root.unwrap_or_else(|| centre(topology, &neighbors));
    let mut routes = Vec::with_capacity(ranks - 1);
    walk(&neighbors, root, |_, _, route| routes.push(route.clone()));
    SpanningTree { root, down: breadth_first(topology, root, routes, Direction::Down), up: None }
}

/// Returns the rank from which the longest latency to any other is least, and of several the one with the fewest hops.
///
/// In a tree the farthest rank from any one is an end of a longest path, so a few walks find it in O(n).
fn centre(topology: &Topology, neighbors: &[Vec<(NodeId, Route)>]) -> NodeId {
    let delay = |route: &Route| route.iter().map(|&link| topology.link(link).delay().picoseconds()).sum::<u64>();
    let (latency, hops) = (eccentricities(neighbors, delay), eccentricities(neighbors, |_| 1));
    NodeId::first(neighbors.len()).min_by_key(|&rank| (latency[rank], hops[rank])).unwrap_or(NodeId(0))
}

/// Returns the length of the longest path from each rank of a tree.
fn eccentricities(neighbors: &[Vec<(NodeId, Route)>], length: impl Fn(&Route) -> u64) -> Vec<u64> {
    let far = |from: NodeId| {
        let mut far = vec![0u64; neighbors.len()];
        walk(neighbors, from, |from, to, route| far[to] = far[from] + length(route));
        far
    };
    let farthest = |far: &[u64]| NodeId::first(far.len()).max_by_key(|&rank| far[rank]).unwrap_or(NodeId(0));
    let one = far(farthest(&far(NodeId(0))));
    let other = far(farthest(&one));
    one.into_iter().zip(other).map(|(one, other)| one.max(other)).collect()
}

/// Calls `visit` with every edge of a tree, away from `root`, parents first.
fn walk<'a>(neighbors: &'a [Vec<(NodeId, Route)>], root: NodeId, mut visit: impl FnMut(NodeId, NodeId, &'a Route)) {
    let mut queue = vec![(root, None)];
    while let Some((node, parent)) = queue.pop() {
        for (next, route) in neighbors[node].iter().filter(|(next, _)| Some(*next) != parent) {
            visit(node, *next, route);
            queue.push((*next, Some(node)));
        }
    }
}

/// Returns the tree of shortest routes from `root` and back, by hops or by latency.
///
/// ```
/// use treefold::planners::Heights;
/// use treefold::planners::cheapest::shortest_tree;
/// use treefold::topology::{NodeId, from_spec};
///
/// let mesh = from_spec("mesh:3x3", None, None)?;
/// let tree = shortest_tree(&mesh, NodeId(0), Heights::Hops);
/// assert_eq!(tree.down.len(), 8, "every other node is reached once");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn shortest_tree(topology: &Topology, root: NodeId, heights: Heights) -> SpanningTree {
    let lengths = Lengths::new(topology, heights).of_link;
    let delay = |link: LinkId| topology.link(link).delay().seconds();
    // Among equally short routes the quicker one is taken.
    let cost = |(id, &length): (LinkId, &u64)| length as f64 + 1e-9 * delay(id);
    let arcs = arcs(topology, &topology.link_ids().zip(&lengths).map(cost).collect::<Vec<f64>>());
    let down = shortest_routes(topology, &arcs, root, Direction::Down);
    let up = (!topology.is_symmetric()).then(|| shortest_routes(topology, &arcs, root, Direction::Up));
    SpanningTree { root, down, up }
}

/// Finds shortest routes over arcs between ranks, away from `root` (`Down`) or towards it.
fn shortest_routes(topology: &Topology, arcs: &[Arc], root: NodeId, direction: Direction) -> Vec<Route> {
    let ends = |arc: &Arc| match direction {
        Direction::Up => (arc.target, arc.source),
        Direction::Down => (arc.source, arc.target),
    };
    let mut from: Vec<Vec<&Arc>> = vec![Vec::new(); topology.ranks() as usize];
    arcs.iter().for_each(|arc| from[ends(arc).0].push(arc));
    let mut search: Shortest<f64, &Arc> = Shortest::new(from.len());
    search.start(root);
    while let Some((node, cost)) = search.settle() {
        from[node].iter().for_each(|&arc| search.offer(ends(arc).1, cost + arc.cost, arc));
    }
    let routes = topology.rank_ids().filter_map(|rank| Some(search.last_edge(rank)?.route.clone())).collect();
    breadth_first(topology, root, routes, direction)
}

/// The number of roots that are tried for a tree by multiplicative weights.
pub(super) const TRIED: usize = 4;

/// Returns so many of `TRIED` roots that lie far apart; they take turns.
pub(super) fn spread(roots: &[NodeId], turn: usize, count: usize) -> impl Iterator<Item = NodeId> + '_ {
    (0..count).map(move |place| roots[(turn + place * roots.len() / TRIED) % roots.len()])
}

/// Finds an approximate packing by multiplicative weights (Garg and Koenemann 2007): again and again it takes the
/// cheapest tree under prices that grow exponentially with load. Every fourth one is the cheapest mirrored tree.
/// Returns trees whose rates fit; they are a start for the master program.
pub fn by_weights(
    topology: &Topology,
    resources: &Resources,
    epsilon: f64,
    most: usize,
    listener: Listener,
) -> Result<Vec<Rated>> {
    let roots: Vec<NodeId> = topology.rank_ids().collect();
    let next = |turn: usize, prices: &[f64]| {
        let mirrored =
            if turn.is_multiple_of(4) { cheapest_both_ways(topology, resources, prices, None) } else { None };
        let tried: Vec<NodeId> = spread(&roots, turn, TRIED).collect();
        Some(mirrored.unwrap_or_else(|| cheapest_tree(topology, resources, prices, &tried).tree))
    };
    Ok(weighted(resources, epsilon, most, listener, next)?.expect("there always is a tree"))
}

/// Finds an approximate packing by multiplicative weights with mirrored trees of one root: the centre of the first
/// tree. Returns `None` if links without an opposite one are needed to join the ranks.
pub fn of_one_root_by_weights(
    topology: &Topology,
    resources: &Resources,
    epsilon: f64,
    most: usize,
    listener: Listener,
) -> Result<Option<Vec<Rated>>> {
    let mut root = None;
    weighted(resources, epsilon, most, listener, |_, prices| {
        let tree = cheapest_both_ways(topology, resources, prices, root)?;
        root = Some(tree.root);
        Some(tree)
    })
}

/// Finds a packing by multiplicative weights over the trees that `next` returns for a turn and prices.
pub(super) fn weighted(
    resources: &Resources,
    epsilon: f64,
    most: usize,
    listener: Listener,
    mut next: impl FnMut(usize, &[f64]) -> Option<SpanningTree>,
) -> Result<Option<Vec<Rated>>> {
    let capacity: Vec<f64> = resources.capacity.iter().map(|capacity| capacity.bytes_per_second()).collect();
    let mut prices: Vec<f64> = capacity.iter().map(|capacity| 1.0 / capacity).collect();
    let mut load = vec![0.0f64; prices.len()];
    let mut found: BTreeMap<SpanningTree, f64> = BTreeMap::new();
    for turn in 0..most {
        tell(listener, "first trees")?;
        let Some(tree) = next(turn, &prices) else { return Ok(None) };
        let usage = resources.usage(&tree);
        let fits = |&Usage { resource, count }: &Usage| capacity[resource] / f64::from(count);
        let rate = usage.iter().map(fits).fold(f64::INFINITY, f64::min);
        for Usage { resource, count } in usage {
            let part = rate * f64::from(count) / capacity[resource];
            prices[resource] *= 1.0 + epsilon * part;
            load[resource] += part;
        }
        *found.entry(tree).or_default() += rate;
        let largest = prices.iter().copied().fold(0.0, f64::max);
        prices.iter_mut().for_each(|price| *price /= largest);
    }
    let most_loaded = load.iter().copied().fold(0.0, f64::max);
    Ok(Some(found.into_iter().map(|(tree, rate)| Rated { tree, rate: rate / most_loaded }).collect()))
}

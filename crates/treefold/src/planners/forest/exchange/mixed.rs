//! Trees of unequal rates for an all-to-all, where trees of one rate leave a part of the bound.
//!
//! The maximum concurrent flow that proves the bound is a mean of trees of cheapest routes (`bound/concurrent.rs`). Its
//! blocks are divided anew among few of them (`parts.rs`). Cost: a table with a row for each link and each rank, and a
//! column for each tree.

use std::collections::{HashMap, HashSet};

use super::super::grown::Grown;
use super::super::parts::{Asked, BLOCK, Entries, Half, SLACK, Tree, divide, entries, units};
use super::branches::Branches;
use crate::blocks::{Blocks, share};
use crate::bound::{Concurrent, RoutingTree};
use crate::plan::Direction;
use crate::planners::spanning::{Route, breadth_first};
use crate::topology::{LinkId, NodeId, Topology};

/// The most entries of the table.
const LARGEST_TABLE: usize = 1 << 19;

/// Returns trees of a concurrent flow that reach almost its rate; `None` if they are too many, or carry too little.
pub(super) fn mix(topology: &Topology, blocks: Option<&Blocks>, flow: &Concurrent) -> Option<Grown> {
    let mut known = HashSet::new();
    let mut routed: Vec<&RoutingTree> = flow.trees.iter().filter(|&tree| known.insert(tree)).collect();
    routed.sort_by_key(|tree| tree.root);
    let rows = topology.links().len() + topology.ranks() as usize;
    if routed.is_empty() || routed.len() * rows > LARGEST_TABLE {
        return None;
    }
    let grown: Vec<Branches> = routed.into_iter().map(|tree| branches(topology, blocks, tree)).collect();
    let trees: Vec<Tree> = grown.iter().map(|tree| (tree.root, tree.routes())).collect();
    let of_links = entries(topology.links().len(), grown.iter().map(|tree| loads(topology, tree, flow.rate)));
    let asked = Asked { wanted: flow.reached.min(1.0) * (1.0 - SLACK), is_few: true };
    let parts = divide(&trees, &of_links, &vec![1.0; trees.len()], asked)?;
    let divided = units(&trees, parts);
    let reached = reached(&of_links, &divided);
    let (places, units): (Vec<usize>, Vec<u32>) = divided.into_iter().unzip();
    let (roots, halves): (Vec<NodeId>, Vec<Half>) = places.into_iter().map(|place| trees[place].clone()).unzip();
    let in_order = |(&root, routes): (&NodeId, Half)| breadth_first(topology, root, routes, Direction::Down);
    let down = roots.iter().zip(halves).map(in_order).collect();
    Some(Grown::unequal(roots, units, BLOCK, (down, None), reached))
}

/// Returns the part of the rate that trees reach with these units.
fn reached(of_links: &[Entries], divided: &[(usize, u32)]) -> f64 {
    let carried: HashMap<usize, u32> = divided.iter().copied().collect();
    let of_tree = |(tree, part): &(usize, f64)| part * f64::from(carried.get(tree).copied().unwrap_or(0));
    let busy = of_links.iter().map(|(_, entries)| entries.iter().map(of_tree).sum::<f64>() / f64::from(BLOCK));
    1.0 / busy.fold(0.0, f64::max)
}

/// Returns the tree with its routes from rank to rank.
fn branches(topology: &Topology, blocks: Option<&Blocks>, tree: &RoutingTree) -> Branches {
    let before = |node: NodeId| tree.into[node].map(|link| (link, topology.link(link).source));
    let route = |rank: NodeId| -> Route {
        let (mut route, mut node) = (Vec::new(), rank);
        while let Some((link, source)) = before(node).filter(|_| route.is_empty() || !topology.is_rank(node)) {
            route.push(link);
            node = source;
        }
        route.reverse();
        route.into()
    };
    let own = |rank| if rank == tree.root { 0 } else { share(blocks, tree.root, rank) };
    let (into, own) = (topology.rank_ids().map(route).collect(), topology.rank_ids().map(own).collect());
    Branches::new(topology, tree.root, into, own)
}

/// Returns each link of a tree with the part of it that the tree fills, if each share has `rate` bytes a second.
fn loads(topology: &Topology, tree: &Branches, rate: f64) -> Vec<(LinkId, f64)> {
    let part = |link, shares| (link, shares as f64 * rate / topology.link(link).bandwidth.bytes_per_second());
    let of_routes = tree.routes_with_shares().filter(|&(_, shares)| shares > 0);
    of_routes.flat_map(|(route, shares)| route.iter().map(move |&link| part(link, shares))).collect()
}

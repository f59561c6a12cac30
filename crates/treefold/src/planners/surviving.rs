//! The trees of a plan that still exist when its network has changed, and plans that keep them.
//!
//! A tree survives if every link that it needs still exists. Ranks that are gone may go with it as leaves; no old tree
//! reaches new ranks. Cost: linear in the plan.

use std::sync::Arc;

use super::spanning::{Rated, Route, SpanningTree, breadth_first, child};
use super::{Listener, Options, packing};
use crate::error::Result;
use crate::plan::{Direction, Half, LaneRoutes, Plan, Tree, Walkable};
use crate::topology::{Correspondence, LinkId, NodeId, Topology};

/// Returns plans of an all-reduce that may follow `old` on the network of `fresh`, and how many old trees each keeps.
///
/// The first plan is `fresh`. Where that is a packing, there is one in which old trees stay wherever that costs next to
/// nothing.
///
/// # Errors
/// If `listener` returns false.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options, surviving::successors};
/// use treefold::topology::from_spec;
///
/// let options = Options::default();
/// let b4 = Arc::new(from_spec("b4", None, None)?);
/// let [old, fresh] = ["mtree", "packing"].map(|name| planners::plan(name, &b4, &options));
/// let plans = successors(&old?, fresh?, &options, &mut |_| true)?;
/// assert!(plans.len() == 2 && plans[1].1 >= plans[0].1);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn successors<'a>(
    old: impl Into<Walkable<'a>>,
    fresh: Plan,
    options: &Options,
    listener: Listener,
) -> Result<Vec<(Plan, usize)>> {
    let topology = Arc::clone(&fresh.topology);
    let standing = surviving(old, &topology);
    let stays = |new: &Rated| standing.iter().any(|old| old.tree == new.tree);
    let kept = surviving(&fresh, &topology).into_iter().filter(stays).count();
    let is_packing = fresh.algorithm == "packing" && topology.ranks() > 1;
    let keeping = if is_packing { packing::keeping(&topology, &standing, options, listener)? } else { None };
    Ok(std::iter::once((fresh, kept)).chain(keeping).collect())
}

/// Returns the trees of `plan`, an all-reduce in one phase, that survive on `topology`, each at the rate of
/// its part of the vector.
fn surviving<'a>(plan: impl Into<Walkable<'a>>, topology: &Topology) -> Vec<Rated> {
    let plan = plan.into().draft();
    let [phase] = &plan.phases[..] else { return Vec::new() };
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let now = Correspondence::new(&plan.topology, topology);
    let standing = |tree: &Tree| {
        let routes_of = |direction| -> Vec<Vec<LinkId>> {
            plan.half(phase, tree, direction).map(|edge| routes.of(edge.lane).to_vec()).collect()
        };
        let root = now.node[tree.root].filter(|&root| topology.is_rank(root))?;
        let down = half(&now, topology, root, Direction::Down, routes_of(Direction::Down))?;
        let up = match tree.up {
            Half::Mirror if mirrors(topology, &down) => None,
            _ => Some(half(&now, topology, root, Direction::Up, routes_of(Direction::Up))?),
        };
        Some(Rated { tree: SpanningTree { root, down, up }, rate: tree.units() as f64 / plan.units as f64 })
    };
    plan.trees_of(phase).iter().filter_map(standing).collect()
}

/// Returns whether every link of `routes` has an opposite one.
fn mirrors(topology: &Topology, routes: &[Route]) -> bool {
    routes.iter().flatten().all(|&link| topology.reverse(link).is_some())
}

/// Returns a half on the new network. Routes to ranks that are gone are cut off; the others must all exist and reach
/// every rank.
fn half(
    now: &Correspondence,
    topology: &Topology,
    root: NodeId,
    direction: Direction,
    routes: Vec<Vec<LinkId>>,
) -> Option<Vec<Route>> {
    let mut standing: Vec<Route> = Vec::new();
    for route in routes {
        let links: Option<Route> = route.iter().map(|&link| now.link[link]).collect();
        match links {
            Some(links) if topology.is_rank(child(topology, &links, direction)) => standing.push(links),
            _ => {}
        }
    }
    // The rest is a tree with one route less than ranks, or it is in pieces.
    let all = standing.len() + 1 == topology.ranks() as usize;
    let ordered = breadth_first(topology, root, standing, direction);
    (all && ordered.len() + 1 == topology.ranks() as usize).then_some(ordered)
}

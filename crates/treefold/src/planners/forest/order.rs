//! The order in which links send the parts of trees, by list scheduling (`planners/order.rs`).

use crate::blocks::{Blocks, share};
use crate::plan::Step;
use crate::plan::schedule::Csr;
use crate::planners::order::{Message, Runs, in_order};
use crate::planners::spanning::Route;
use crate::topology::{NodeId, Topology};

/// The messages of a tree in order.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    /// The step of each message of each tree.
    pub steps: Vec<Vec<Step>>,
    /// The seconds until the last message has arrived.
    pub seconds: f64,
}

impl Ordered {
    /// Returns the last step.
    pub fn last(&self) -> u16 {
        self.steps.iter().flatten().map(|step| step.get()).max().unwrap_or(0)
    }
}

/// What the edges of a tree carry.
#[derive(Clone, Copy)]
pub(super) enum Carried<'a> {
    /// Every edge carries the same.
    Same,
    /// An edge carries the blocks for all ranks below it, which are equal unless they are given.
    Blocks(Option<&'a Blocks>),
}

impl Carried<'_> {
    /// Returns how many shares go over an edge into a rank for that rank alone.
    fn own(self, root: NodeId, rank: NodeId) -> u64 {
        match self {
            Self::Same => 1,
            Self::Blocks(blocks) => share(blocks, root, rank),
        }
    }
}

/// Orders the messages of trees, whose routes stand breadth-first; each edge of a tree carries so many bytes, or as
/// many for each share of the ranks below it. Returns `None` if that takes more steps than a plan may have, or more
/// seconds than `most`.
pub(super) fn ordered(
    topology: &Topology,
    trees: &[(&[Route], f64)],
    carried: Carried,
    runs: Runs,
    most: f64,
) -> Option<Ordered> {
    let mut messages = Vec::with_capacity(trees.iter().map(|(routes, _)| routes.len()).sum());
    let mut after = Csr::default();
    let mut into = vec![None; topology.nodes().len()];
    for &(routes, bytes) in trees {
        into.fill(None);
        let first = after.rows().len();
        for route in routes {
            let (source, target) = ends(topology, route);
            into[target] = Some(after.rows().len() as u32);
            after.push_row(into[source]);
        }
        let shares = shares(topology, routes, carried, |place| {
            after.row(first + place).first().map(|&edge| edge as usize - first)
        });
        let sized = routes.iter().zip(shares).map(|(route, shares)| (route, bytes * shares as f64));
        messages.extend(sized.map(|(route, bytes)| Message::new(topology, route, bytes, runs)));
    }
    let (steps, seconds) = in_order(topology, messages, &after, most)?;
    let mut rest = steps.into_iter();
    let steps = trees.iter().map(|(routes, _)| rest.by_ref().take(routes.len()).collect()).collect();
    Some(Ordered { steps, seconds })
}

/// Returns the ends of a route.
fn ends(topology: &Topology, route: &Route) -> (NodeId, NodeId) {
    (topology.link(route[0]).source, topology.link(route[route.len() - 1]).target)
}

/// Returns how many shares each edge of a tree carries; `parent` returns the edge that brings the data of another.
fn shares(
    topology: &Topology,
    routes: &[Route],
    carried: Carried,
    parent: impl Fn(usize) -> Option<usize>,
) -> Vec<u64> {
    let root = routes.first().map(|route| ends(topology, route).0);
    let own = |route| root.map_or(0, |root| carried.own(root, ends(topology, route).1));
    let mut shares: Vec<u64> = routes.iter().map(own).collect();
    if let Carried::Blocks(_) = carried {
        for place in (0..routes.len()).rev() {
            if let Some(parent) = parent(place) {
                shares[parent] += shares[place];
            }
        }
    }
    shares
}

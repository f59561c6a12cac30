//! TopoAdopt (Luo et al., ICENAT 2022; the MTree paper's baseline [6]): a few spanning trees and their shares of the
//! vector, found together by simulated annealing, for networks of sites joined by cables of unequal bandwidth.
//!
//! It minimises the predicted completion time without pipelining, and starts with random spanning trees. Moves exchange
//! a tree's edge, give a tree another root, or move a share from one tree to another; see `topoadopt/anneal.rs`. As
//! with any trees, N - 1 vectors are sent up and down; whole shares travel hop by hop.
//!
//! Our guesses: the MTree paper says no more than "a joint mixed-integer nonlinear program" and "simulated annealing".
//! The objective (longest route of any tree, each hop as long as all trees' shares take on its cable), the moves, their
//! frequencies, the cooling and the number of trees (4, or `trees`) are ours. A cable counts with the lesser of its
//! two bandwidths.
//!
//! Cost: 400 moves for each tree and cable, or fewer on large networks; a move is linear in trees times ranks.

mod anneal;

use std::sync::Arc;

use super::Options;
use super::spanning::{self, Rated, Route, SpanningTree, breadth_first};
use crate::error::Result;
use crate::misfit;
use crate::plan::{Chunk, Direction, Draft};
use crate::random::Random;
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bytes;
use anneal::{Above, Solution, Tree, anneal};

/// The usual number of trees, with which annealing still settles on networks of a few dozen sites.
const TREES: u32 = 4;
/// The most ranks: with more, so few moves are possible in a second that the trees stay random.
const MAX_RANKS: u32 = 128;
const MAX_TREES: u32 = 1 << 10;

/// Two links between two ranks, one in each direction.
struct Cable {
    ends: [NodeId; 2],
    /// The link into the second end, and the link into the first.
    links: [LinkId; 2],
    /// The seconds of a bit there and back.
    delay: f64,
    /// The seconds of the whole vector there and back, at the lesser bandwidth.
    drain: f64,
}

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let trees = options.trees.unwrap_or(TREES);
    if trees > MAX_TREES {
        misfit!(
            "topoadopt anneals at most {MAX_TREES} trees, got {trees}; packing and mtree find out how many are enough"
        );
    }
    let cables = cables(topology, options.size)?;
    let mut random = Random::new(options.seed);
    let start = Solution::random(topology.ranks(), &cables, trees as usize, &mut random);
    let best = anneal(&cables, start, &mut random);
    let rated = |(tree, &rate): (&Tree, &f64)| Rated { tree: spanning_tree(topology, &cables, tree), rate };
    let trees: Vec<Rated> = best.trees.iter().zip(&best.shares).map(rated).collect();
    Ok(spanning::plan(topology, "topoadopt", &trees, Chunk::One))
}

fn cables(topology: &Topology, size: Bytes) -> Result<Vec<Cable>> {
    if !topology.is_direct() {
        misfit!(
            "topoadopt needs a network without switches and relays, but {} has some; use psld or plink",
            topology.name()
        );
    }
    if topology.ranks() > MAX_RANKS {
        misfit!(
            "topoadopt anneals trees of at most {MAX_RANKS} ranks, but {} has {}; use multitree or packing",
            topology.name(),
            topology.ranks()
        );
    }
    let mut cables = Vec::new();
    for (id, link) in topology.link_ids().zip(topology.links()) {
        let Some(back) = topology.reverse(id) else {
            misfit!(
                "topoadopt needs links in both directions, but {} is one-way; use packing or psld",
                topology.describe_link(id)
            );
        };
        if id < back {
            let other = topology.link(back);
            let slower = if other.bandwidth < link.bandwidth { other } else { link };
            cables.push(Cable {
                ends: [link.source, link.target],
                links: [id, back],
                delay: (link.delay() + other.delay()).seconds(),
                drain: 2.0 * slower.bandwidth.seconds_for(size.get() as f64).get(),
            });
        }
    }
    Ok(cables)
}

/// Returns an annealed tree in the form that all planners use.
fn spanning_tree(topology: &Topology, cables: &[Cable], tree: &Tree) -> SpanningTree {
    let root = tree.root;
    let down = topology.rank_ids().filter(|&rank| rank != root).map(|rank| {
        let Above { cable, .. } = tree.above[rank].expect("only the root has no parent");
        let cable = &cables[cable as usize];
        let route: Route = Box::new([cable.links[usize::from(cable.ends[0] == rank)]]);
        route
    });
    SpanningTree { root, down: breadth_first(topology, root, down.collect(), Direction::Down), up: None }
}

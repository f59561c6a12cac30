//! Trees for all-to-alls: equally many of one rate out of every rank, which together come near a maximum concurrent
//! flow.
//!
//! An edge of a tree carries the blocks of all ranks below it, each of one share, or of as many as it has if blocks are
//! unequal. So what goes from a rank to all others along shortest paths under some prices is such a tree, and any flow
//! is a mean of trees (Shahrokhi and Matula 1990). Few trees of one rate do as well if they are chosen for each other
//! (`trees.rs`): mostly one to eight out of each rank. Where trees of one rate leave a part of the bound, those of the
//! flow that proves it are mixed (`mixed.rs`).
//!
//! Cost: that of a search for each number of trees and limit of latency; a second for 64 ranks.

mod branches;
mod mixed;
mod trees;

use self::trees::{Asked, trees};
use super::grown::Grown;
use crate::blocks::Blocks;
use crate::bound::{Concurrent, concurrent_flow};
use crate::plan::Direction;
use crate::planners::spanning::breadth_first;
use crate::topology::{NodeId, Topology};

/// The limits on latency that are tried, as factors of that of the farthest rank; higher trees may carry more.
const STRETCHES: [Option<f64>; 3] = [Some(1.0), Some(1.5), None];
/// The numbers of trees for each rank that are tried.
const TREES: [u32; 9] = [1, 2, 3, 5, 7, 12, 24, 60, 96];
/// The most trees in all, if there is more than one for each rank.
const MOST_TREES: u32 = 512;
/// Trees that reach this part of the bound end the search for others.
const ENOUGH: f64 = 0.998;
/// Trees that reach this part of the bound end the search: higher ones would gain little, and have more latency.
const GOOD: f64 = 0.99;
/// So many trees a rank are always found where links are single: their messages are finer, and get in order better.
const FINE: u32 = 3;
/// More trees a rank are not kept unless they carry so much more, as a part of it, than fewer do.
const WORTH: f64 = 0.001;
/// No more trees are searched once searches have looked at so many links, which takes some seconds.
const MOST_WORK: usize = 1 << 28;

/// Returns forests for all-to-alls on a network of at least two ranks: higher ones that carry more, and lower ones or
/// with fewer trees; none if some rank does not reach all others.
pub(super) fn grow(topology: &Topology, blocks: Option<&Blocks>) -> Vec<Grown> {
    let numbers = TREES.into_iter().filter(|&trees| trees == 1 || trees * topology.ranks() <= MOST_TREES);
    let fine = if topology.is_direct() { FINE } else { 1 };
    let (mut kept, mut flow, mut work) = (Vec::new(), None, 0);
    for stretch in STRETCHES {
        let mut best = 0.0f64;
        for trees in numbers.clone() {
            if work > MOST_WORK {
                break;
            }
            let most = flow.as_ref().map_or(f64::INFINITY, |flow: &Concurrent| flow.rate);
            let Some((grown, looks)) = forest(topology, Asked { blocks, trees, stretch, most, enough: ENOUGH }) else {
                return kept;
            };
            work += looks;
            let reached = grown.reached;
            if trees <= fine || reached >= best * (1.0 + WORTH) {
                kept.push(grown);
            }
            best = best.max(reached);
            if best >= ENOUGH && trees >= fine {
                break;
            }
            if best < ENOUGH && flow.is_none() {
                // Trees prove the most that any reach, but not always tightly.
                flow = Some(concurrent_flow(topology, blocks));
            }
        }
        if best >= GOOD {
            break;
        }
    }
    let best = kept.iter().map(|grown| grown.reached).fold(0.0, f64::max);
    if let Some(flow) = flow.filter(|_| best < ENOUGH) {
        kept.extend(mixed::mix(topology, blocks, &flow).filter(|grown| grown.reached > best + WORTH));
    }
    kept
}

/// Returns so many trees out of each rank, and at how many links the search has looked.
fn forest(topology: &Topology, asked: Asked) -> Option<(Grown, usize)> {
    let found = trees(topology, asked)?;
    let ordered = |(number, routes)| {
        let root = NodeId::new(number / asked.trees as usize);
        breadth_first(topology, root, routes, Direction::Down)
    };
    let down = found.trees.into_iter().enumerate().map(ordered).collect();
    Some((Grown::equal(asked.trees, None, (down, None), found.reached), found.work))
}

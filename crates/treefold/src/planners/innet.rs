//! Reduction trees with switches as inner nodes, packed into any network (our own).
//!
//! If switches reduce and multicast, an all-reduce is a fractional packing of Steiner trees: each rank's operand goes
//! up once, and the sum comes down once. The cheapest such tree under prices is hard to find, so the column generation,
//! which is like that of `packing`, uses cheap trees (`in_network/steiner.rs`). The in-network bound of `treefold
//! bound` tells how good the result is; it is computed without trees.
//!
//! Cost: a linear program and a search for cheap trees in each round.

use std::sync::Arc;

use super::in_network::steiner::Halves;
use super::packing::{Packing, corner, noisy, seconds};
use super::pool::Pool;
use super::shares::total;
use super::spanning::{Rated, Resources};
use super::{Heights, Listener, Options, Planned, Proof, is_fabric, tell};
use crate::bound;
use crate::error::Result;
use crate::memory::Memory;
use crate::misfit;
use crate::random::Random;
use crate::topology::{NodeId, Topology};

/// A packing this close to the bound is good enough.
const GAP: f64 = 1e-3;
/// The most rounds, and the most with less than `GAP` of progress.
const ROUNDS: usize = 30;
const IDLE_ROUNDS: usize = 4;
/// The step of the multiplicative weights that find the first trees, and how many they take for each rank.
const EPSILON: f64 = 0.3;
const TURNS: usize = 4;
/// The number of roots for which a round seeks cheap trees.
const ROOTS: usize = 16;

static PACKINGS: Memory<bool, Packing> = Memory::new();

/// Plans with the best packing, or for small vectors with its lowest trees.
pub(super) fn plan(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Planned> {
    let relay = options.ranks_relay;
    let packing = PACKINGS.try_get(topology, relay, || pack(topology, relay, listener))?;
    let plans = [&packing.best, &lowest(&packing.pool)].map(|rated| {
        let draft = Pool::plan(topology, "innet", rated, options.pipeline);
        (seconds(&draft, options), draft)
    });
    let [wide, low] = plans;
    let draft = if low.0 < wide.0 { low.1 } else { wide.1 };
    Ok(Planned { draft, proof: Proof::of_bound(packing.bound) })
}

/// Returns a packing within `GAP` of the bound, or the best after some rounds. If `ranks_relay`, ranks may relay data
/// of other ranks where that increases the rate.
fn pack(topology: &Arc<Topology>, ranks_relay: bool, listener: Listener) -> Result<Packing> {
    let name = topology.name();
    if !is_fabric(topology) {
        let has_switches = topology.node_ids().any(|node| topology.node(node).is_switch());
        let in_a_file = ", or if the network is in a file, say \"reduces\": true, \"multicasts\": true of its switches";
        let hint = if has_switches { in_a_file } else { "" };
        misfit!("innet needs switches that reduce and multicast; {name} has none: use packing{hint}");
    }
    let bound = bound::in_network_rate(topology).expect("a network with such switches has one");
    let mut pool = grow(topology, bound, false, listener)?;
    let rate = rate(&pool);
    if ranks_relay && rate < bound * (1.0 - GAP) {
        let relayed = grow(topology, bound, true, listener)?;
        if self::rate(&relayed) > rate * (1.0 + GAP) {
            pool = relayed;
        }
    }
    if pool.len() == 0 {
        misfit!("innet found no tree on {name}: its switches and links do not join all ranks");
    }
    Ok(Packing { best: pool.rated(&corner(&pool)), pool, bound })
}

/// Returns trees that pack well together.
fn grow(topology: &Arc<Topology>, bound: f64, ranks_relay: bool, listener: Listener) -> Result<Pool> {
    let halves = Halves::new(topology, ranks_relay);
    let mut pool = Pool::new(topology, Resources::of_links(topology), []);
    let first = halves.by_weights(&pool.resources, EPSILON, TURNS * topology.ranks() as usize, listener)?;
    pool.extend(first.into_iter().map(|rated| rated.tree));
    let mut random = Random::new(1);
    let (mut best, mut idle) = (0.0f64, 0);
    for round in 1..=if pool.len() > 0 { ROUNDS } else { 0 } {
        let priced = pool.columns.priced();
        let rate = total(&priced.rates);
        let part = rate / bound * 100.0;
        tell(listener, &format!("innet: round {round}, {} trees carry {part:.2}% of the bound", pool.len()))?;
        idle = if rate > best * (1.0 + GAP) { 0 } else { idle + 1 };
        best = best.max(rate);
        if best >= bound * (1.0 - GAP) || idle == IDLE_ROUNDS {
            break;
        }
        let roots = some(&halves.roots, &mut random);
        let cheap = |root| halves.cheap_tree(&pool.resources, &noisy(&priced.prices, &mut random), root);
        let cheap: Vec<_> = roots.into_iter().filter_map(cheap).map(|priced| priced.tree).collect();
        pool.extend(cheap);
    }
    Ok(pool)
}

/// Returns some roots at random.
fn some(roots: &[NodeId], random: &mut Random) -> Vec<NodeId> {
    let mut roots = roots.to_vec();
    let count = roots.len().min(ROOTS);
    for place in 0..count {
        let other = place + random.below((roots.len() - place) as u64) as usize;
        roots.swap(place, other);
    }
    roots.truncate(count);
    roots
}

/// Returns the rate of the best packing.
fn rate(pool: &Pool) -> f64 {
    if pool.len() == 0 { 0.0 } else { total(&pool.columns.priced().rates) }
}

/// Returns the lowest trees at their best rates.
fn lowest(pool: &Pool) -> Vec<Rated> {
    let least = pool.heights(Heights::Latency).into_iter().min().unwrap_or(0);
    let low = pool.within(least, Heights::Latency);
    low.rated(&corner(&low))
}

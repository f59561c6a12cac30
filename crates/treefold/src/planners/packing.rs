//! The optimum: a fractional packing of spanning trees by column generation (our own; Nash-Williams 1961 and Tutte 1961
//! give its value on undirected networks, Edmonds 1973 on directed ones), and the best plans of few trees.
//!
//! A tree takes both directions of each of its links, whatever its root. The master program holds the trees found so
//! far, and its prices say which further trees would help: those that cost less than 1 (`cheapest.rs`). The sum of
//! prices times capacities, divided by the cost of the cheapest tree, bounds the rate of any packing (Farley 1990), so
//! the result has its own certificate. Of the packings with the best rate a corner of the program is taken, with few
//! and low trees; small vectors get lower or fewer trees, also of those that MTree grows, which are low. If at most K
//! trees are allowed, see `packing/limits.rs`.
//!
//! Cost: a linear program and a search for cheap trees in each round, which is seconds in all on networks of a few
//! hundred links, also if they share capacities: then there are some ten rounds instead of one, and each starts from
//! the solution before it and ends early (Gondzio, Gonzalez-Brevis and Munari 2013). On large networks `auto` leaves
//! this algorithm out.

mod limits;

use std::sync::Arc;

use super::cheapest::{by_weights, cheapest_tree, equal_trees, shortest_tree};
use super::pool::Pool;
use super::shares::{self, total};
use super::spanning::{Lengths, Rated, Resources};
use super::stripe::stripe;
use super::{Heights, Listener, Options, Planned, Proof, blink, mtree, multitree, ordering, planner_named, tell};
use crate::bound;
use crate::error::Result;
use crate::memory::Memory;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Draft, Plan};
use crate::random::Random;
use crate::topology::{NodeId, Topology};
use crate::units::{Bytes, Seconds};

/// A packing this close to its bound is good enough.
const GAP: f64 = 1e-4;
/// The most rounds.
const ROUNDS: usize = 200;
/// Where links share many capacities, the last tenths of a percent take most rounds: once a packing is this close to
/// its bound, no more rounds follow than have so many entries of trees together, which is about two seconds.
const NEAR: f64 = 5e-3;
const MOST_WORK: usize = 1 << 18;
/// How exactly a round's program is solved, as a part of how far the packing before it was from its bound, and at most.
/// Where links share capacities, exact prices would cost most of the time, and lead to no better trees.
const ROUGH: f64 = 0.1;
const ROUGHEST: f64 = 1e-3;
/// The step of the multiplicative weights that find the first trees, and how many they take for each rank. A large step
/// finds unlike trees, among which the linear program chooses well.
const EPSILON: f64 = 0.5;
const TURNS: usize = 8;
/// How many trees each round seeks under prices with noise.
const NOISY_TREES: usize = 16;
/// The bonus of the lowest tree over the highest, as a part of the rate.
const LOW: f64 = 1e-4;
/// The most ranks whose trees of shortest routes are among the first trees.
const CENTRES: u32 = 64;
/// The part of the time that lower trees must save to be worth a lower rate.
const WORTH_LOWERING: f64 = 0.01;
/// The part of the time that messages in order must save, which need receivers that keep it.
const WORTH_ORDER: f64 = 0.02;
/// The limits of height for plans of small vectors, as multiples of the lowest tree's height.
const LEVELS: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 5.0];
/// The most trees of a packing of few; divided by it, the best rate is the least rate of a packing of wide trees.
const FEW: [usize; 5] = [27, 18, 12, 8, 6];
/// How many corners of a program are tried, and the most trees times resources for that.
const CORNERS: usize = 6;
const MOST_ENTRIES: usize = 1 << 18;
/// The most trees whose rates are also taken from the middle of all best ones, where they are alike.
const MIDDLE: usize = 64;
/// The most trees of equal rate that are sought, and the most edges that they may have together.
const EQUAL_TREES: usize = 16;
const EQUAL_EDGES: usize = 1000;
/// The part of the rate that keeping an old tree may cost.
const WORTH_KEEPING: f64 = 1e-3;

/// Trees, the rates of the best packing, and a bound on the rate of any packing, in bytes a second.
pub(super) struct Packing {
    pub pool: Pool,
    pub best: Vec<Rated>,
    pub bound: f64,
}

static PACKINGS: Memory<(), Packing> = Memory::new();
static LESSER: Memory<(), Vec<Vec<Rated>>> = Memory::new();
static EQUAL: Memory<(), Vec<Pool>> = Memory::new();

/// Plans with the best packing, or with the best trees within the limits.
pub(super) fn plan(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Planned> {
    let packing = pack(topology, listener)?;
    let best = if keeps(topology, &packing.best, options) {
        packing.best.clone()
    } else {
        limits::choose(topology, options, listener)?.to_vec()
    };
    let draft = quickest(topology, best, options, listener)?;
    Ok(Planned { draft, proof: Proof::of_bound(packing.bound) })
}

/// Returns whether trees keep the limits.
fn keeps(topology: &Topology, rated: &[Rated], limits: &Options) -> bool {
    let lengths = Lengths::new(topology, limits.heights);
    let is_low = |tree: &Rated| limits.height.is_none_or(|most| lengths.height(topology, &tree.tree) <= most.into());
    let least = limits.least_rate.map_or(0.0, |rate| rate.bytes_per_second()) * (1.0 - 1e-6);
    limits.trees.is_none_or(|most| rated.len() <= most as usize)
        && rated.iter().all(|tree| is_low(tree) && tree.rate >= least)
}

/// Returns the fastest plan at this size: that of the best rate, or one of lower or fewer trees if that pays off.
fn quickest(topology: &Arc<Topology>, best: Vec<Rated>, options: &Options, listener: Listener) -> Result<Draft> {
    let wide = sum(&best) * (1.0 - GAP);
    let lesser = lesser(topology, listener)?;
    let others = lesser.iter().filter(|rated| keeps(topology, rated, options));
    let timed = |rated: &Vec<Rated>| {
        let draft = Pool::plan(topology, "packing", rated, options.pipeline);
        let seconds = seconds(&draft, options).get();
        (draft, if sum(rated) >= wide { seconds } else { seconds / (1.0 - WORTH_LOWERING) })
    };
    let plans: Vec<(Draft, f64)> = std::iter::once(&best).chain(others).map(timed).collect();
    let may_order = options.pipeline && options.limits() == Options::default().limits();
    let ordered = if may_order { in_order(&plans, options.size) } else { None };
    let fastest = plans.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let packed = ordered.unwrap_or_else(|| fastest.expect("the best packing is one").0);
    Ok(if may_order { better_of_steps(packed, topology, options)? } else { packed })
}

/// Returns the plan, or that of MultiTree's trees in steps if it is faster, as it may be for small vectors.
fn better_of_steps(packed: Draft, topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let Some(steps) = fitting(multitree::plan(topology, options))? else { return Ok(packed) };
    let steps = Draft { algorithm: packed.algorithm.clone(), ..stripe(steps) };
    let is_faster = seconds(&steps, options).get() < seconds(&packed, options).get() * (1.0 - WORTH_LOWERING);
    Ok(if is_faster { steps } else { packed })
}

/// Returns the fastest of these plans, which come with their times, if its messages are put in order; `None` if that is
/// no faster than all of them.
fn in_order(plans: &[(Draft, f64)], size: Bytes) -> Option<Draft> {
    let mut least = plans.iter().map(|&(_, seconds)| seconds).fold(f64::INFINITY, f64::min) * (1.0 - WORTH_ORDER);
    let mut best = None;
    for (streamed, _) in plans {
        if let Some((ordered, seconds)) = ordering::ordered(streamed, size, least) {
            (best, least) = (Some(ordered), seconds);
        }
    }
    best
}

/// Returns the sum of the rates of trees.
fn sum(rated: &[Rated]) -> f64 {
    rated.iter().map(|tree| tree.rate).sum()
}

/// Returns packings of lower trees, of MTree's and Blink's too, and of fewer trees.
fn lesser(topology: &Arc<Topology>, listener: Listener) -> Result<Arc<Vec<Vec<Rated>>>> {
    LESSER.try_get(topology, (), || {
        if !planner_named("packing")?.is_quick(topology) {
            return Ok(Vec::new());
        }
        let pool = &pack(topology, listener)?.pool;
        let heights = pool.heights(Heights::Latency);
        let lowest = heights.iter().copied().min().unwrap_or(0);
        let mut levels = LEVELS.map(|factor| (lowest as f64 * factor) as u64).to_vec();
        levels.dedup();
        let mut lower = of_low_trees(topology, pool, &levels, listener)?;
        lower.extend(corners(pool, listener)?.into_iter().skip(1));
        let fewer = of_equal_rate(topology).iter().map(|few| few.rated(&best_of(few))).collect::<Vec<_>>();
        let grown = grown(topology, listener)?;
        Ok(lower.into_iter().chain(grown).chain(of_one_root(topology, listener)?).chain(fewer).collect())
    })
}

/// Returns Blink's packing; `None` if it would take long, or does not fit.
fn of_one_root(topology: &Arc<Topology>, listener: Listener) -> Result<Option<Vec<Rated>>> {
    if !planner_named("blink")?.is_quick(topology) {
        return Ok(None);
    }
    Ok(fitting(blink::solve(topology, None, listener))?.map(|few| few.rated.clone()))
}

/// Returns MTree's packing, or where its shares would take long, a corner of its trees; `None` if it does not fit.
fn grown(topology: &Arc<Topology>, listener: Listener) -> Result<Option<Vec<Rated>>> {
    let limits = Options::default().limits();
    let Some(grown) = fitting(mtree::grow(topology, &limits))? else { return Ok(None) };
    let pool = Pool::new(topology, Resources::new(topology), grown.trees.iter().map(|rated| rated.tree.clone()));
    if pool.columns.is_large() {
        return Ok(Some(pool.rated(&corner(&pool))));
    }
    Ok(Some(mtree::solve(topology, &limits, listener)?.shares.clone()))
}

/// Returns a result, or `None` if an algorithm does not fit.
fn fitting<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.is_misfit() => Ok(None),
        other => other.map(Some),
    }
}

/// Returns forests of 1, 2, 3, ... trees of equal rate, if they exist.
fn of_equal_rate(topology: &Arc<Topology>) -> Arc<Vec<Pool>> {
    EQUAL.get(topology, (), || {
        let resources = Resources::new(topology);
        let most = EQUAL_TREES.min(EQUAL_EDGES / topology.ranks() as usize);
        let found = (1..=most).filter_map(|count| equal_trees(topology, &resources, count));
        found.map(|equal| Pool::new(topology, resources.clone(), equal.trees)).collect()
    })
}

/// Returns a packing within `GAP` of its bound, or the best after many rounds.
fn pack(topology: &Arc<Topology>, listener: Listener) -> Result<Arc<Packing>> {
    PACKINGS.try_get(topology, (), || find(topology, listener))
}

fn find(topology: &Arc<Topology>, listener: Listener) -> Result<Packing> {
    let mut pool = Pool::new(topology, Resources::new(topology), shortest_trees(topology, Heights::Latency));
    let turns = TURNS * topology.ranks() as usize;
    let first = by_weights(topology, &pool.resources, EPSILON, turns, listener)?;
    pool.extend(first.into_iter().map(|rated| rated.tree));
    let mut bound = bound::all_reduce_rate(topology);
    let (mut random, mut work) = (Random::new(1), 0);
    let (mut priced, mut part) = (shares::Priced::default(), 0.0);
    for round in 1..=ROUNDS {
        priced = pool.columns.priced_near(&priced, (ROUGH * (1.0 - part)).min(ROUGHEST));
        part = total(&priced.rates) / bound;
        tell(
            listener,
            &format!("packing: round {round}, {} trees carry {:.2}% of the bound", pool.len(), part * 100.0),
        )?;
        work += pool.columns.uses();
        if part >= 1.0 - GAP || (part >= 1.0 - NEAR && work > MOST_WORK) {
            break;
        }
        bound = bound.min(price(topology, &mut pool, priced.prices.clone(), &mut random, listener)?);
    }
    Ok(Packing { best: pool.rated(&corner(&pool)), pool, bound })
}

/// Returns the trees of shortest routes from some ranks, evenly spread over all.
fn shortest_trees(topology: &Topology, unit: Heights) -> impl Iterator<Item = super::spanning::SpanningTree> + use<'_> {
    let (ranks, count) = (u64::from(topology.ranks()), u64::from(topology.ranks().min(CENTRES)));
    let centres = (0..count).map(move |place| NodeId((place * ranks / count) as u32));
    centres.map(move |root| shortest_tree(topology, root, unit))
}

/// Adds trees that are cheap under the prices; returns the bound that the prices prove.
fn price(
    topology: &Topology,
    pool: &mut Pool,
    mut prices: Vec<f64>,
    random: &mut Random,
    listener: Listener,
) -> Result<f64> {
    let highest = prices.iter().copied().fold(0.0, f64::max);
    prices.iter_mut().for_each(|price| *price += 1e-9 * highest);
    let roots: Vec<NodeId> = topology.rank_ids().collect();
    let cheapest = cheapest_tree(topology, &pool.resources, &prices, &roots);
    let mut found = vec![cheapest.tree];
    for _ in 0..NOISY_TREES {
        tell(listener, "packing: more trees")?;
        found.push(cheapest_tree(topology, &pool.resources, &noisy(&prices, random), &roots).tree);
    }
    pool.extend(found);
    let worth: f64 = prices.iter().zip(pool.columns.capacity()).map(|(price, capacity)| price * capacity).sum();
    Ok(if cheapest.cost > 0.0 { worth / cheapest.cost } else { f64::INFINITY })
}

/// Raises prices a little at random, so that other trees become the cheapest.
pub(super) fn noisy(prices: &[f64], random: &mut Random) -> Vec<f64> {
    let mean = prices.iter().sum::<f64>() / prices.len() as f64;
    prices.iter().map(|price| price + (0.1 * price + 0.02 * mean) * random.unit()).collect()
}

/// Returns the best rates at a corner of the program, where few trees carry anything; low trees get a bonus.
pub(super) fn corner(pool: &Pool) -> Vec<f64> {
    let heights = pool.heights(Heights::Latency);
    let highest = heights.iter().copied().max().unwrap_or(1).max(1) as f64;
    let bonus: Vec<f64> = heights.iter().map(|&height| LOW * (1.0 - height as f64 / highest)).collect();
    pool.columns.corner(&bonus)
}

/// Returns the best rates at a few corners. Many corners have the same rate, but not the same time: where rates are
/// unlike, small chunks of narrow trees take long.
fn corners(pool: &Pool, listener: Listener) -> Result<Vec<Vec<Rated>>> {
    let mut random = Random::new(1);
    let count = if pool.columns.entries() > MOST_ENTRIES { 1 } else { CORNERS };
    let mut found = vec![corner(pool)];
    for _ in 1..count {
        tell(listener, "packing: lower trees")?;
        let tilted: Vec<f64> = (0..pool.len()).map(|_| LOW * random.unit()).collect();
        found.push(pool.columns.corner(&tilted));
    }
    found.extend((pool.len() <= MIDDLE).then(|| pool.columns.priced().rates));
    Ok(found.into_iter().map(|rates| pool.rated(&rates)).collect())
}

/// Returns packings within each limit of height, also of the trees that MTree grows, which are low.
fn of_low_trees(topology: &Arc<Topology>, pool: &Pool, levels: &[u64], listener: Listener) -> Result<Vec<Vec<Rated>>> {
    let mut pool = pool.clone();
    pool.extend(limits::grown_again(topology, &Options::default().limits())?);
    let mut pools: Vec<Pool> = levels.iter().map(|&level| pool.within(level, Heights::Latency)).collect();
    pools.dedup_by_key(|low| low.len());
    let mut found = Vec::new();
    for low in &pools {
        tell(listener, "packing: few and low trees")?;
        found.extend(corners(low, listener)?);
        if !low.columns.is_large() {
            found.extend(few_of(low));
        }
    }
    Ok(found)
}

/// Returns packings of few trees, and of trees that all carry much. Corners may have the same rate with many narrow
/// trees, which are slow for small vectors.
fn few_of(pool: &Pool) -> Vec<Vec<Rated>> {
    let most = total(&best_of(pool));
    let few = pool.columns.trimmed_in_turn(FEW.map(|few| (few, 0.0)));
    let wide = pool.columns.trimmed_in_turn(FEW.map(|few| (pool.len(), most / few as f64)));
    few.iter().chain(&wide).map(|rates| pool.rated(rates)).filter(|rated| !rated.is_empty()).collect()
}

/// Returns the rates with the largest sum.
fn best_of(pool: &Pool) -> Vec<f64> {
    pool.columns.corner(&vec![0.0; pool.len()])
}

/// Returns the plan of the best packing in which `old` trees stay wherever that costs next to nothing, and how many
/// stay; `None` if it breaks the limits.
pub(super) fn keeping(
    topology: &Arc<Topology>,
    old: &[Rated],
    options: &Options,
    listener: Listener,
) -> Result<Option<(Plan, usize)>> {
    let packing = pack(topology, listener)?;
    let mut pool = Pool::new(topology, Resources::new(topology), old.iter().map(|rated| rated.tree.clone()));
    let count = pool.len();
    pool.extend(packing.pool.trees.iter().cloned());
    let bonus: Vec<f64> = (0..pool.len()).map(|tree| if tree < count { WORTH_KEEPING } else { 0.0 }).collect();
    let rates = pool.columns.corner(&bonus);
    let rated = pool.rated(&rates);
    let kept = rates[..count].iter().filter(|&&rate| rate > 0.0).count();
    let plan = || Pool::plan(topology, "packing", &rated, options.pipeline).trusted();
    Ok(keeps(topology, &rated, options).then(|| (plan(), kept)))
}

/// Returns the time that the alpha-beta model predicts.
pub(super) fn seconds(draft: &Draft, options: &Options) -> Seconds {
    Profile::of(draft).seconds(options.size)
}

//! Optimal all-gathers and reduce-scatters: out of every rank trees to all others, which together reach the rate of the
//! minimum cuts (Edmonds 1973; ForestColl, Zhao et al. 2024), and into every rank the same backwards; and all-to-alls
//! near the maximum concurrent flow.
//!
//! Cuts tell the rate at which all ranks can broadcast at once (`bound/cut.rs`). The trees are found by prices that
//! change after every tree, with rip-up and reroute (`packed.rs`), among trees whose latency is near the least
//! (`low.rs`); where trees of one rate leave a part of the bound, a linear program shares blocks unequally
//! (`unequal.rs`) and says which trees are missing (`columns.rs`). Equal parallel links also act as one (`bundles.rs`).
//! A plan has one of three forms. In the first, trees stream chunks. In the second, each tree sends its part in a few
//! whole pieces, and every link of a route serves its messages in an order found by list scheduling (`order.rs`). In
//! the third, which is tried on small networks with switches or relays, messages wait for steps, and there are as few
//! steps as can be (`steps.rs`). The form that is predicted to be the fastest for the size is taken. An all-reduce is a
//! reduce-scatter and the all-gather of the sums, which the streams overlap. A broadcast has trees out of its root only
//! (Edmonds 1973), and a reduce the same backwards. The trees of an all-to-all are others (`exchange.rs`), because
//! their edges carry more the more ranks are below. Where the number of steps is limited, the plan is of the third
//! form.
//!
//! Cost: for n ranks with d ways into each, k trees a rank and p passes, p k n searches of O(n d); half a second for 64
//! ranks, and two for an all-to-all; for the fewest steps see `steps/fitting.rs`. What is found for a network is kept,
//! and serves all sizes.

mod bundles;
mod choice;
mod columns;
mod exchange;
mod grown;
mod low;
mod order;
mod packed;
mod parts;
mod steps;
mod unequal;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use self::choice::{in_one_order, time_as_wholes, timed, with_few_messages};
use self::grown::{Grown, Roots, forests};
use self::order::{Carried, Ordered, ordered};
use super::order::Runs;
use super::spanning::Route;
use super::{Listener, Options, bounds_of, derived, packing, planner_named};
use crate::bound::distances_relayed;
use crate::error::Result;
use crate::misfit;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Chunk, Collective, Draft, Half, LaneId, Pace, Step, Tree};
use crate::topology::{LinkId, Topology};
use crate::units::{Bytes, Seconds};

/// The numbers of pieces in which a tree may send its part.
const PIECES: [u32; 4] = [1, 2, 4, 8];
/// The numbers of pieces that are tried in an all-to-all, where edges near a root carry many blocks.
const PIECES_OF_BLOCKS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The most pieces that all trees of a rank send in an all-to-all.
const MOST_PIECES: u32 = 32;
/// The most messages that are put in order.
const MOST_MESSAGES: usize = 1 << 16;
/// A tree is not cut into smaller pieces than this, and each rank has only one tree where more would carry less:
/// whoever sends and receives messages has to do something for each.
const LEAST_BYTES: f64 = 128.0;
/// The most ranks for which a plan with the fewest steps is tried.
const MOST_RANKS_IN_STEPS: u32 = 32;
/// The least part of the time that is latency where such a plan is tried.
const LEAST_LATENCY: f64 = 0.05;
/// The part of the time that more messages must save.
const WORTH: f64 = 1e-4;
/// The part of the time that streams must save which share links as they come, and not at paces.
const WORTH_SHARING: f64 = 0.005;

/// What takes at most so many times the bound is good enough: no packing is asked for more.
const GOOD: f64 = 1.01;
/// The part of the time that a packing must save.
const WORTH_PACKED: f64 = 0.005;

/// The halves of trees that a collective needs.
#[derive(Clone, Copy, PartialEq)]
enum Halves {
    Up,
    Down,
    Both,
}

/// A plan, and the time that is predicted for it.
type Timed = (Draft, Seconds);

pub(super) fn plan(topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Draft> {
    if let Some(most) = options.steps {
        return steps::plan(topology, options, most);
    }
    let own = of_trees(topology, options)?;
    let (draft, _) = if options.collective.is_personalized() {
        let own = better_of_derived(own, &of_trees(topology, &all_reduce(options))?.0, options)?;
        better_of_packed(own, topology, options, listener)?
    } else if options.collective.has_root() {
        let own = better_of_few_steps(own, topology, options)?;
        better_of_derived(own, &plan(topology, &all_reduce(options), listener)?, options)?
    } else {
        better_of_packed(better_of_few_steps(own, topology, options)?, topology, options, listener)?
    };
    Ok(draft)
}

/// Returns the plan of a collective of all ranks, or that of trees which reduce and broadcast at once if it is faster:
/// on networks with unequal links a packing of such trees (`packing.rs`) may have a higher rate than a reduce-scatter
/// and an all-gather together.
fn better_of_packed(own: Timed, topology: &Arc<Topology>, options: &Options, listener: Listener) -> Result<Timed> {
    // The order of messages knows links only.
    let own =
        if topology.shared().is_empty() { own } else { (own.0.clone(), Profile::of(&own.0).seconds(options.size)) };
    let is_good = own.1.get() <= GOOD * bounds_of(topology, options).seconds(options.size).get();
    if is_good || options.alone || !planner_named("packing")?.is_quick(topology) {
        return Ok(own);
    }
    let packed = packing::plan(topology, &all_reduce(options), listener)?.draft;
    let packed = Draft { algorithm: own.0.algorithm.clone(), ..packed };
    let packed =
        if options.collective == Collective::AllReduce { packed } else { derived(packed.trusted(), options)?.into() };
    let time = packing::seconds(&packed, options);
    Ok(if time.get() < own.1.get() * (1.0 - WORTH_PACKED) { (packed, time) } else { own })
}

fn all_reduce(options: &Options) -> Options {
    Options { collective: Collective::AllReduce, blocks: None, ..options.clone() }
}

/// Returns the fastest plan of trees that are made for the collective.
fn of_trees(topology: &Arc<Topology>, options: &Options) -> Result<Timed> {
    let (halves, roots) = match options.collective {
        Collective::AllReduce => (Halves::Both, Roots::Every),
        Collective::AllGather => (Halves::Down, Roots::Every),
        Collective::ReduceScatter => (Halves::Up, Roots::Every),
        Collective::Broadcast => (Halves::Down, Roots::Only(options.root)),
        Collective::Reduce => (Halves::Up, Roots::Only(options.root)),
        Collective::AllToAll => (Halves::Down, Roots::Personalized(options.blocks.clone())),
    };
    let forests = forests(topology, roots);
    let forms = forests.iter().flat_map(|grown| {
        let sendings = sendings(options, grown.trees).into_iter();
        sendings.map(move |sending| Form { topology, grown, sending, halves, options })
    });
    let mut timed = timed(forms);
    if halves == Halves::Both {
        time_as_wholes(&mut timed);
    }
    let Some(least) = timed.iter().map(|&(_, seconds)| seconds).min() else {
        misfit!("forest finds no trees on {}: some rank does not reach all others", topology.name());
    };
    if halves != Halves::Down
        && let Some(together) = in_one_order(&timed, least)
    {
        return Ok(together);
    }
    let timed = with_few_messages(timed);
    let (fastest, least) = *timed.iter().min_by_key(|(_, seconds)| *seconds).expect("one has the least time");
    // The first that is near the best has the fewest messages, each of which costs a little.
    let worth = if fastest.sending == Sending::Streamed { WORTH_SHARING } else { WORTH };
    let is_near = |(_, seconds): &&(Form, Seconds)| seconds.get() <= least.get() * (1.0 + worth);
    Ok((timed.iter().find(is_near).expect("the best is near itself").0.draft(), least))
}

/// Returns the fewest steps, if a plan with so many may be faster than others and is found soon.
pub(crate) fn few_steps(topology: &Arc<Topology>, options: &Options) -> Option<u32> {
    may_have_few_steps(topology, options).then(|| steps::fewest(topology, options))
}

fn may_have_few_steps(topology: &Topology, options: &Options) -> bool {
    let is_small = (2..=MOST_RANKS_IN_STEPS).contains(&topology.ranks()) && !topology.is_direct();
    is_small && options.pipeline && !options.collective.is_personalized()
}

/// Returns the plan, or that with the fewest steps if it is faster: where routes pass switches, nothing puts messages
/// in order, and where latency decides, steps are ahead of streams that share links.
fn better_of_few_steps(own: Timed, topology: &Arc<Topology>, options: &Options) -> Result<Timed> {
    let is_worth_a_search = || Profile::of(&own.0).seconds(Bytes::known(1)) >= own.1 * LEAST_LATENCY;
    if !may_have_few_steps(topology, options) || !is_worth_a_search() {
        return Ok(own);
    }
    // Nothing is lost where there is no such plan.
    let Ok(few) = steps::plan(topology, options, steps::fewest(topology, options)) else { return Ok(own) };
    let time = Profile::of(&few).seconds(options.size);
    Ok(if time < own.1 { (few, time) } else { own })
}

/// Returns the plan, or that of the collective which the trees of an all-reduce make if that is faster: where latency
/// decides, many low trees of all ranks may be ahead of the trees of one, and other trees ahead of an all-to-all's.
fn better_of_derived(own: Timed, all_reduce: &Draft, options: &Options) -> Result<Timed> {
    let derived = derived(all_reduce.clone().trusted(), options)?;
    let time = Profile::new(&derived).seconds(options.size);
    Ok(if time < own.1 { (Draft::from(derived), time) } else { own })
}

/// How trees send their parts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sending {
    /// They stream chunks at equal rates.
    Paced,
    /// They stream chunks as fast as links let them.
    Streamed,
    /// They send so many whole pieces, in order.
    Ordered(u32),
}

/// Returns the ways of sending that are tried for so many trees of a rank.
fn sendings(options: &Options, trees: u32) -> Vec<Sending> {
    if !options.pipeline {
        return vec![Sending::Streamed];
    }
    if !options.collective.is_personalized() {
        return std::iter::once(Sending::Paced).chain(PIECES.map(Sending::Ordered)).collect();
    }
    // Edges carry unlike numbers of blocks. At paces that suit the busiest link, most would be slower than they can be.
    let pieces = PIECES_OF_BLOCKS.into_iter().filter(|pieces| pieces * trees <= MOST_PIECES);
    [Sending::Paced, Sending::Streamed].into_iter().chain(pieces.map(Sending::Ordered)).collect()
}

/// What a plan is made of.
#[derive(Clone, Copy)]
struct Form<'a> {
    topology: &'a Arc<Topology>,
    grown: &'a Grown,
    sending: Sending,
    halves: Halves,
    options: &'a Options,
}

/// The steps of the messages of both halves, where there are any.
#[derive(Default)]
struct Steps {
    up: Option<Ordered>,
    down: Option<Ordered>,
}

impl Form<'_> {
    fn is_ordered(&self) -> bool {
        matches!(self.sending, Sending::Ordered(_))
    }

    /// Returns in how many pieces each tree sends its part.
    fn pieces(&self) -> u32 {
        if let Sending::Ordered(pieces) = self.sending { pieces } else { 1 }
    }

    /// Returns how many pieces all trees send.
    fn parts(&self) -> usize {
        self.grown.down.len() * self.pieces() as usize
    }

    /// Returns how many messages the plan has, if streams are not cut into chunks.
    fn messages(&self) -> usize {
        self.parts() * self.topology.ranks() as usize
    }

    /// Returns how many units the vector has; a tree's units are cut into pieces.
    fn units(&self) -> u64 {
        match self.options.blocks.as_ref() {
            Some(blocks) => u64::from(self.pieces()) * u64::from(self.grown.block) * blocks.largest(),
            None => self.parts_of_trees(),
        }
    }

    /// Returns how many parts of the vector all trees carry in units, as if blocks were equal.
    fn parts_of_trees(&self) -> u64 {
        u64::from(self.pieces()) * self.grown.units.iter().map(|&units| u64::from(units)).sum::<u64>()
    }

    /// Returns the time of the plan; `None` if there should be no such plan, or it is found to take more than `most`
    /// seconds.
    fn seconds(&self, most: f64) -> Option<Seconds> {
        let is_cut = self.parts() * self.grown.trees as usize > self.grown.down.len();
        let least = self.grown.units.iter().copied().min().unwrap_or(1);
        let bytes_of_a_part = self.options.size.get() as f64 / self.parts_of_trees() as f64;
        let is_small = bytes_of_a_part * f64::from(least) < LEAST_BYTES && is_cut;
        if !self.is_ordered() {
            return (!is_small || self.grown.trees == 1).then(|| Profile::of(&self.draft()).seconds(self.options.size));
        }
        if is_small || self.messages() > MOST_MESSAGES {
            return None;
        }
        let Steps { up, down } = self.ordered(most)?;
        Some(Seconds::known([up, down].into_iter().flatten().map(|half| half.seconds).sum()))
    }

    /// Returns whether the reduce halves are the broadcast halves backwards. Where messages with unlike latencies share
    /// links behind switches, the order of one direction would be slower in the other.
    fn is_mirrored(&self) -> bool {
        self.halves == Halves::Both && self.grown.up.is_none() && (!self.is_ordered() || self.topology.is_direct())
    }

    /// Puts the messages in order; returns `None` if they take too many steps or, one half after the other, more than
    /// `most` seconds.
    fn ordered(&self, most: f64) -> Option<Steps> {
        let unit = self.options.size.get() as f64 / self.units() as f64;
        let carried = match self.options.collective.is_personalized() {
            true => Carried::Blocks(self.options.blocks.as_deref()),
            false => Carried::Same,
        };
        let of = |network: &Topology, halves: &[Vec<Route>], runs, most| {
            // The first pieces of all trees come first, as all of them are wanted at once.
            let pieces = 0..self.pieces();
            let sized =
                || halves.iter().zip(&self.grown.units).map(|(half, &units)| (&**half, unit * f64::from(units)));
            let trees: Vec<(&[Route], f64)> = pieces.flat_map(|_| sized()).collect();
            ordered(network, &trees, carried, runs, most)
        };
        let mut steps = Steps::default();
        if self.halves != Halves::Up {
            let most = if self.is_mirrored() { most / 2.0 } else { most };
            steps.down = Some(of(self.topology, &self.grown.down, Runs::Forwards, most)?);
        }
        if self.halves != Halves::Down {
            let most = steps.down.as_ref().map_or(most, |down| most - down.seconds);
            steps.up = match (&self.grown.up, &steps.down) {
                (Some(up), _) => Some(of(&self.topology.transposed(), &turned(up), Runs::Backwards, most)?),
                (None, Some(down)) if self.is_mirrored() => Some(down.clone()),
                (None, _) => Some(of(self.topology, &self.grown.down, Runs::Backwards, most)?),
            };
        }
        Some(steps)
    }

    /// Returns the plan.
    fn draft(&self) -> Draft {
        let collective = self.options.collective;
        let (pace, steps) = match self.sending {
            Sending::Paced => (Pace::Paced, Steps::default()),
            Sending::Streamed => (Pace::Stream, Steps::default()),
            Sending::Ordered(_) => (Pace::Ordered, self.ordered(f64::INFINITY).expect("the time was known")),
        };
        let chunk = if pace.is_stream() && self.options.pipeline { Chunk::Best } else { Chunk::One };
        let blocks = self.options.blocks.clone();
        let mut draft = Draft { collective, blocks, ..Draft::new(self.topology, "forest", self.units().max(1)) };
        let spans = self.spans().into_iter().enumerate();
        let mut trees: Vec<Tree> =
            spans.map(|(place, span)| self.tree(&mut draft, place, span, &steps, chunk)).collect();
        trees.sort_by_key(|tree| tree.span.start);
        draft.push_phase(pace, trees);
        draft
    }

    /// Returns a tree, or one of the pieces of a tree. Reduce halves run backwards, and before broadcast halves.
    fn tree(&self, draft: &mut Draft, place: usize, span: Range<u64>, steps: &Steps, chunk: Chunk) -> Tree {
        let number = place % self.grown.down.len();
        let last_up = steps.up.as_ref().map_or(0, Ordered::last);
        let down = match self.halves {
            Halves::Up => Half::None,
            _ => self.half(draft, &self.grown.down[number], steps.down.as_ref(), place, |step| last_up + step),
        };
        let up = match self.halves {
            Halves::Down => Half::None,
            _ if self.is_mirrored() => Half::Mirror,
            _ => self.half(draft, &self.up(number), steps.up.as_ref(), place, |step| last_up + 1 - step),
        };
        Tree { span, root: self.grown.roots[number], up, down, chunk }
    }

    /// Returns the routes of a reduce half.
    fn up(&self, number: usize) -> Cow<'_, [Route]> {
        match &self.grown.up {
            Some(up) => Cow::Borrowed(&up[number]),
            None => self.grown.down[number].iter().map(|route| mirrored(self.topology, route)).collect(),
        }
    }

    /// Returns the units of each piece of each tree; all first pieces come first. In an all-to-all, where each rank has
    /// a block for every other one, the trees of each root cut all of its blocks.
    fn spans(&self) -> Vec<Range<u64>> {
        let pieces = u64::from(self.pieces());
        let mut next = 0;
        let mut of_tree = |&units: &u32| {
            let units = u64::from(units);
            let start =
                if self.options.collective.is_personalized() { next % u64::from(self.grown.block) } else { next };
            next += units;
            (start * pieces, units)
        };
        let trees: Vec<(u64, u64)> = self.grown.units.iter().map(&mut of_tree).collect();
        let of_piece =
            |piece| trees.iter().map(move |&(start, units)| start + piece * units..start + (piece + 1) * units);
        (0..pieces).flat_map(of_piece).collect()
    }

    fn half(
        &self,
        draft: &mut Draft,
        routes: &[Route],
        steps: Option<&Ordered>,
        place: usize,
        moved: impl Fn(u16) -> u16,
    ) -> Half {
        let lanes: Vec<LaneId> = routes.iter().map(|route| draft.lanes.via(self.topology, route)).collect();
        match steps {
            None => draft.streamed_half(lanes),
            Some(ordered) => {
                let steps = ordered.steps[place].iter().map(|step| Step::new(moved(step.get())));
                draft.own_half(lanes.into_iter().zip(steps))
            }
        }
    }
}

/// Returns the routes of reduce halves as they run on the transposed network.
fn turned(halves: &[Vec<Route>]) -> Vec<Vec<Route>> {
    let turned = |route: &Route| route.iter().rev().copied().collect();
    halves.iter().map(|routes| routes.iter().map(turned).collect()).collect()
}

/// Returns a route in the opposite direction, on a network whose directions are alike.
fn mirrored(topology: &Topology, route: &Route) -> Route {
    let back = |&link: &LinkId| topology.reverse(link).expect("a symmetric network has every link's reverse");
    route.iter().rev().map(back).collect()
}

/// Returns the least common multiple of small numbers.
fn lcm(a: u32, b: u32) -> u32 {
    super::lcm(a.into(), b.into()).expect("the product of two numbers of 32 bits fits") as u32
}

/// Returns the latency from each rank to the farthest other one, in picoseconds.
fn farthest(topology: &Topology) -> Vec<u64> {
    let from = |source| distances_relayed(topology, source).into_iter().max().unwrap_or_default();
    topology.rank_ids().map(|source| from(source).picoseconds()).collect()
}

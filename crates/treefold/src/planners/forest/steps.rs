//! Plans of few steps: the trade between steps and bandwidth that SCCL's frontier describes (Cai et al., "Synthesizing
//! Optimal Collective Algorithms", PPoPP 2021).
//!
//! In a synchronous algorithm of S steps, R rounds and C chunks a rank, a link carries as many chunks in a step as the
//! step has rounds, a link of twice the bandwidth twice as many, and the time is S alpha + R / C times that of a rank's
//! part over the narrowest link. SCCL asks an SMT solver for given S, R and C. Here R / C is made small for each S
//! and several C: trees through time that fit into ever shorter steps (`steps/fitting.rs`). What cuts allow is the
//! least R / C; numbers of chunks with which all links can be full come first, and end the search when they reach it.
//! Nothing proves that less is impossible where they do not. A round need not be whole here: a wide link may carry
//! three chunks while a link of half its bandwidth carries one. Of all S up to a limit the fastest for the size is
//! taken.
//!
//! A reduce-scatter is an all-gather backwards. An all-reduce is a reduce-scatter and an all-gather, with half of the
//! steps each. An all-to-all has the trees of the all-gather, in which an edge carries only what ranks below it want.
//! Cost: see `fitting.rs`; it is limited to a second or two for each S, but every tree is grown once at least.

mod fitting;
mod growing;
mod searching;

use std::sync::Arc;

use self::fitting::Timed;
use self::searching::{Network, Schedule, schedules};
use super::lcm;
use crate::error::Result;
use crate::memory::Memory;
use crate::misfit;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Chunk, Collective, Direction, Draft, Half, LaneId, Pace, Sharing, Step, Tree};
use crate::planners::spanning::{Route, breadth_first, child};
use crate::planners::{Options, derived};
use crate::topology::{NodeId, Topology};
use crate::units::Seconds;

/// How many steps each half may have.
#[derive(Clone, Copy)]
struct Split {
    up: u32,
    down: u32,
}

/// The messages of both halves, where there are any.
struct Schedules<'a> {
    up: Option<&'a Schedule>,
    down: Option<&'a Schedule>,
    /// Whether the reduce halves are the broadcast halves backwards.
    is_mirrored: bool,
}

/// The collective of a plan, its root if it has one, and its steps.
type Asked = (Collective, Option<NodeId>, u32);

static MEMORY: Memory<Asked, Vec<Draft>> = Memory::new();

/// Plans in at most `steps` steps: in as many as make the fastest plan for the size.
pub(super) fn plan(topology: &Arc<Topology>, options: &Options, steps: u32) -> Result<Draft> {
    let root = root_of(options);
    let asked = (options.collective, root, steps);
    let found = MEMORY.try_get(topology, asked, || planned(topology, options.collective, root, steps))?;
    let timed: Result<Vec<_>> = found.iter().map(|draft| Ok((seconds_of(draft, options)?, draft))).collect();
    let fastest = timed?.into_iter().min_by_key(|(seconds, _)| *seconds);
    Ok(fastest.expect("there is a plan, or an error says why not").1.clone())
}

/// Returns the time of a plan, which is that of an all-reduce where an all-to-all is derived from it.
fn seconds_of(draft: &Draft, options: &Options) -> Result<Seconds> {
    let profile = if draft.collective == options.collective {
        Profile::of(draft)
    } else {
        Profile::new(&derived(draft.clone().trusted(), options)?)
    };
    Ok(profile.seconds(options.size))
}

/// Returns plans of ever more steps and fewer rounds.
fn planned(topology: &Arc<Topology>, collective: Collective, root: Option<NodeId>, steps: u32) -> Result<Vec<Draft>> {
    // The halves of an all-to-all are those of an all-reduce, of which only the second one is used.
    let of_draft = if collective == Collective::AllToAll { Collective::AllReduce } else { collective };
    let draft = Draft { collective: of_draft, ..Draft::new(topology, "forest", 1) };
    if topology.ranks() < 2 {
        return Ok(vec![filled(draft, &[NodeId(0)], &Schedules { up: None, down: None, is_mirrored: false })]);
    }
    let transposed = topology.transposed();
    let (network, backwards) = (Network::new(topology, root), Network::new(&transposed, root));
    let split = split(&network, &backwards, collective, steps)?;
    let is_mirrored = split.up == split.down && topology.is_symmetric();
    let down = if split.down > 0 { schedules(&network, split.down) } else { Vec::new() };
    let up = if split.up > 0 && !is_mirrored { schedules(&backwards, split.up) } else { Vec::new() };
    let of_place = |place: usize| {
        let (up, down) = (nth_or_last(&up, place), nth_or_last(&down, place));
        filled(draft.clone(), &network.roots, &Schedules { up, down, is_mirrored })
    };
    Ok((0..up.len().max(down.len())).map(of_place).collect())
}

fn nth_or_last(schedules: &[Schedule], place: usize) -> Option<&Schedule> {
    schedules.get(place).or(schedules.last())
}

fn root_of(options: &Options) -> Option<NodeId> {
    options.collective.has_root().then_some(options.root)
}

/// Returns the least number of steps that a plan can have.
pub(super) fn fewest(topology: &Arc<Topology>, options: &Options) -> u32 {
    let root = root_of(options);
    let transposed = topology.transposed();
    let Split { up, down } = least(&Network::new(topology, root), &Network::new(&transposed, root), options.collective);
    up + down
}

/// Returns the least number of steps of each half.
fn least(network: &Network, backwards: &Network, collective: Collective) -> Split {
    match collective {
        Collective::ReduceScatter | Collective::Reduce => Split { up: backwards.hops(), down: 0 },
        Collective::AllGather | Collective::Broadcast | Collective::AllToAll => Split { up: 0, down: network.hops() },
        Collective::AllReduce => Split { up: backwards.hops(), down: network.hops() },
    }
}

/// Says how many steps each half gets, or that there are too few.
fn split(network: &Network, backwards: &Network, collective: Collective, steps: u32) -> Result<Split> {
    let Split { up, down } = least(network, backwards, collective);
    let Some(spare) = steps.checked_sub(up + down) else {
        let (name, least, hops) = (network.topology.name(), up + down, up.max(down));
        let unit = if hops == 1 { "hop" } else { "hops" };
        let what = match collective {
            Collective::AllReduce => format!(
                "an all-reduce that gathers what it has reduced takes at least {least} steps; allow {least} steps, or \
                 plan only one half, such as an all-gather in {down}"
            ),
            _ => format!("{collective} takes at least {least} steps; allow {least} steps"),
        };
        misfit!("steps {steps} is too few: on {name} the farthest rank is {hops} {unit} away, and {what}");
    };
    Ok(match collective {
        Collective::AllToAll => Split { up: steps, down: steps },
        Collective::AllReduce => Split { up: up + spare / 2, down: down + spare.div_ceil(2) },
        _ if up > 0 => Split { up: steps, down: 0 },
        _ => Split { up: 0, down: steps },
    })
}

/// Returns the draft with a tree for each chunk of each root. Where the halves are cut into different numbers of
/// chunks, trees carry smaller ones, and several of them go in one message.
fn filled(mut draft: Draft, roots: &[NodeId], schedules: &Schedules) -> Draft {
    let Schedules { up, down, is_mirrored } = schedules;
    let chunks = [up, down].into_iter().flatten().fold(1, |chunks, half| lcm(chunks, half.chunks));
    let last_up = if *is_mirrored { down } else { up }.map_or(0, |half| half.last);
    draft.units = u64::from(chunks) * roots.len() as u64;
    let mut trees = Vec::with_capacity(draft.units as usize);
    for (place, &root) in roots.iter().enumerate() {
        for chunk in 0..chunks {
            let number = |half: &Schedule| (chunk * half.chunks / chunks) as usize * roots.len() + place;
            let down = down.map_or(Half::None, |half| {
                own_half(&mut draft, root, &half.trees[number(half)], Direction::Down, |step| last_up + step)
            });
            let up = up.map_or(if *is_mirrored { Half::Mirror } else { Half::None }, |half| {
                own_half(&mut draft, root, &half.trees[number(half)], Direction::Up, |step| last_up + 1 - step)
            });
            let start = trees.len() as u64;
            trees.push(Tree { span: start..start + 1, root, up, down, chunk: Chunk::One });
        }
    }
    let pace = Pace::Step(sharing(&draft.topology, schedules));
    draft.push_phase(pace, trees);
    draft
}

/// Returns a half of a tree. The messages of a reduce half are those of a tree on the network turned around.
fn own_half(
    draft: &mut Draft,
    root: NodeId,
    tree: &[Timed],
    direction: Direction,
    moved: impl Fn(usize) -> usize,
) -> Half {
    let topology = Arc::clone(&draft.topology);
    let mut steps = vec![None; topology.nodes().len()];
    let mut routes: Vec<Route> = Vec::with_capacity(tree.len());
    for Timed { route, step } in tree {
        let mut route = route.clone();
        if direction == Direction::Up {
            route.reverse();
        }
        steps[child(&topology, &route, direction)] = Step::new(moved(*step) as u16);
        routes.push(route);
    }
    let ordered = breadth_first(&topology, root, routes, direction);
    let edges: Vec<(LaneId, Option<Step>)> = ordered
        .iter()
        .map(|route| (draft.lanes.via(&topology, route), steps[child(&topology, route, direction)]))
        .collect();
    draft.own_half(edges)
}

/// Returns what the plan promises: where all routes are single links, a link carries one message in a step, however
/// many chunks that has.
fn sharing(topology: &Topology, schedules: &Schedules) -> Sharing {
    let halves = [schedules.up, schedules.down].into_iter().flatten();
    let is_direct = halves.flat_map(|half| half.trees.iter().flatten()).all(|timed| timed.route.len() == 1);
    let widest = topology
        .links()
        .iter()
        .map(|link| link.bandwidth)
        .max_by(|a, b| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
    match widest {
        Some(widest) if is_direct => Sharing::Messages(widest),
        _ => Sharing::Shared,
    }
}

//! Hierarchical all-reduces: each level of groups does its part with the planner that suits it (Cho et al.,
//! "BlueConnect", 2019; Horovod's and NeMo's hierarchical all-reduce).
//!
//! Ranks of a group reduce-scatter; then the ranks at the same place of all groups all-reduce the part that they hold,
//! all places at once; and the ranks of a group all-gather. Where groups make up larger groups, such as servers in
//! pods, the middle does the same again. So each level sends only what is left of the vector to the next, slower one.
//! Groups are found by latency (`groups.rs`). On a grid they are its rows, and there is a copy for each dimension,
//! which begins there with its part of the vector, so that all links are busy (Rashidi et al., "Themis", 2022). Any
//! planner serves inside the groups and between them; unless they are named, those are taken that are predicted to be
//! the fastest together.
//!
//! Cost: that of the planners, for each group; rows that are alike are planned once.

use std::rc::Rc;
use std::sync::Arc;

use super::groups::{Alone, Levels, Part, listed};
use super::{Level, Options, grid_of_ranks, lcm, plan as plan_with};
use crate::error::{Error, Result};
use crate::misfit;
use crate::plan::alpha_beta::Profile;
use crate::plan::{Collective, Direction, Draft, Half, LaneRoutes, MAX_UNITS, Pace, Phase, Plan, Sharing, Tree};
use crate::topology::{Correspondence, LinkId, NodeId, Shape, Topology};
use crate::units::Bytes;

/// The most dimensions of a grid: of more there are too many ways to make levels.
const MOST_DIMENSIONS: usize = 3;
/// The planners that are tried inside groups, and between them.
const INSIDE: [Level; 3] = [Level::Direct, Level::Multitree, Level::Ring];
const BETWEEN: [Level; 4] = [Level::Exchange, Level::Direct, Level::Multitree, Level::Ring];

pub(super) fn plan(topology: &Arc<Topology>, options: &Options) -> Result<Draft> {
    let mut drafts = Vec::new();
    for copies in copies(topology)? {
        drafts.extend(drafts_of(copies, topology, options)?);
    }
    match drafts.into_iter().min_by_key(|draft| Profile::of(draft).seconds(options.size)) {
        Some(draft) => Ok(draft),
        None => misfit!("hierarchical cannot cut the vector into whole parts on {}: use multitree", topology.name()),
    }
}

/// Returns the ways to make levels; in each there is a copy of the algorithm for some equal parts of the vector.
fn copies(topology: &Topology) -> Result<Vec<Vec<Levels>>> {
    let dims = grid_of_ranks(topology).map_or(&[][..], |(dims, _)| dims);
    let long: Vec<usize> = (0..dims.len()).filter(|&dimension| dims[dimension] > 1).collect();
    if long.len() > MOST_DIMENSIONS {
        let name = topology.name();
        misfit!("hierarchical takes rows of two or three dimensions, and {name} has {}: use forest", long.len());
    }
    if long.len() < 2 {
        let levels = Levels::of(topology);
        return if levels.sides.len() < 2 { Err(without_groups(topology, &levels)) } else { Ok(vec![vec![levels]]) };
    }
    // So many dimensions are reduced one by one; the others are a level together.
    let copies = |alone: usize| {
        let copy = |start: usize| {
            let turned = |number: usize| long[(start + number) % long.len()];
            let mut rest: Vec<usize> = (alone..long.len()).map(turned).collect();
            rest.sort_unstable();
            let levels: Vec<Vec<usize>> = (0..alone).map(|number| vec![turned(number)]).chain([rest]).collect();
            Levels::of_grid(topology, dims, &levels)
        };
        (0..long.len()).map(copy).collect()
    };
    Ok((1..long.len()).map(copies).collect())
}

/// Returns the plans of the planners that are named, or of those that are tried, on these levels.
fn drafts_of(copies: Vec<Levels>, topology: &Arc<Topology>, options: &Options) -> Result<Vec<Draft>> {
    let is_grid = copies[0].grids.is_some();
    let named = |level: Option<Level>, others: &[Level]| match level {
        Some(level) => vec![level],
        None => others.iter().copied().chain(is_grid.then_some(Level::Forest)).collect(),
    };
    let work = Work { topology, copies, listed: listed(topology), size: options.size, seed: options.seed };
    let mut insides = Vec::new();
    for level in named(options.inside, &INSIDE) {
        insides.extend(fitting(work.inside(level), options.inside.is_some())?);
    }
    let mut middles = Vec::new();
    for level in named(options.between, &BETWEEN) {
        middles.extend(fitting(work.middle(level), options.between.is_some())?);
    }
    let all = insides.iter().flat_map(|inside| middles.iter().map(move |middle| (inside, middle)));
    Ok(all.filter_map(|(inside, middle)| work.draft(inside, middle)).collect())
}

/// Returns why a network without levels does not fit.
fn without_groups(topology: &Topology, levels: &Levels) -> Error {
    let (name, remedy) = (topology.name(), "use multitree or forest");
    let reason = match &levels.unequal {
        Some(sizes) => format!(
            "hierarchical needs groups of equal size, and those of {name} have {} to {} ranks; leave out some ranks of \
             the larger ones, or {remedy}",
            sizes.start(),
            sizes.end()
        ),
        None => format!(
            "hierarchical needs groups of equal size whose ranks are nearer to each other than to the rest; {name} has \
             none: {remedy}"
        ),
    };
    Error::new(reason).misfit()
}

/// Returns what planners have made; `None` if they do not fit, unless they were named.
fn fitting<T>(made: Result<T>, is_named: bool) -> Result<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(misfit) if misfit.is_misfit() && !is_named => Ok(None),
        Err(error) => Err(error),
    }
}

/// What one level of groups does.
type Stage = Vec<OfGroup>;

/// What one group does: its plan, the part of the vector that it has, and the nodes and links of the whole network.
struct OfGroup {
    plan: Rc<Plan>,
    part: Part,
    now: Correspondence,
}

/// The levels inside: their reduce-scatters, from the first on, and their all-gathers, in the same order.
struct Inside {
    scatters: Vec<Stage>,
    gathers: Vec<Stage>,
}

struct Work<'a> {
    topology: &'a Arc<Topology>,
    /// The levels of each copy, all with the same number of levels.
    copies: Vec<Levels>,
    /// The index of each rank among the accelerators, in the order in which these are listed.
    listed: Vec<u32>,
    size: Bytes,
    seed: u64,
}

impl Work<'_> {
    /// Plans all levels but the last.
    fn inside(&self, level: Level) -> Result<Inside> {
        if level == Level::Exchange {
            misfit!(
                "inside must be an algorithm that also reduce-scatters and all-gathers, such as direct or ring; \
                 exchange only all-reduces"
            );
        }
        let below = 0..self.last();
        let stages =
            |collective| below.clone().map(|number| self.stage(number, level, collective)).collect::<Result<_>>();
        Ok(Inside { scatters: stages(Collective::ReduceScatter)?, gathers: stages(Collective::AllGather)? })
    }

    /// Plans the last level.
    fn middle(&self, level: Level) -> Result<Stage> {
        self.stage(self.last(), level, Collective::AllReduce)
    }

    /// Returns the number of the last level.
    fn last(&self) -> usize {
        self.copies[0].sides.len() - 1
    }

    /// Plans a collective for each group of a level in each copy.
    fn stage(&self, number: usize, level: Level, collective: Collective) -> Result<Stage> {
        let count = self.copies.len() as u64;
        let mut stage: Stage = Vec::new();
        for (copy, levels) in (0..).zip(&self.copies) {
            for (ranks, part) in levels.groups(number) {
                let part = Part { number: copy * part.of + part.number, of: count * part.of };
                let size = Bytes::known((self.size.get() / part.of).max(1));
                let options = Options { collective, size, seed: self.seed, alone: true, ..Options::default() };
                let plan = |network: Topology| plan_with(level.name(), &Arc::new(network), &options).map(Rc::new);
                let Some(grids) = &levels.grids else {
                    let (network, now) = self.of_ranks(&ranks)?;
                    stage.push(OfGroup { plan: plan(network)?, part, now });
                    continue;
                };
                let alone = Alone::new(self.topology, &ranks, self.shape(&grids[number]))?;
                let known = stage.iter().find(|other| other.part.of == part.of && alone.is_like(&other.plan.topology));
                let planned = known.map(|other| Rc::clone(&other.plan));
                let plan = planned.map_or_else(|| plan(alone.network), Ok)?;
                stage.push(OfGroup { plan, part, now: alone.now });
            }
        }
        Ok(stage)
    }

    /// Returns the network with these ranks only, and where its nodes and links are in the whole one.
    fn of_ranks(&self, ranks: &[NodeId]) -> Result<(Topology, Correspondence)> {
        let ranks: Vec<u32> = ranks.iter().map(|rank| self.listed[rank.index()]).collect();
        let network = self.topology.with_ranks(&ranks)?;
        let now = Correspondence::new(&network, self.topology);
        Ok((network, now))
    }

    /// Returns the shape of a part of a grid.
    fn shape(&self, dims: &[u32]) -> Shape {
        let wrap = grid_of_ranks(self.topology).is_some_and(|(_, wrap)| wrap);
        Shape::Grid { dims: dims.to_vec(), wrap }
    }

    /// Returns the plan of these stages; `None` if it needs more units than a plan may have.
    fn draft(&self, inside: &Inside, middle: &Stage) -> Option<Draft> {
        let gathers = inside.gathers.iter().rev();
        let stages: Vec<&Stage> = inside.scatters.iter().chain([middle]).chain(gathers).collect();
        let mut units = 1u64;
        for OfGroup { plan, part, .. } in stages.iter().copied().flatten() {
            units = lcm(units, plan.units.checked_mul(part.of)?).filter(|&units| units <= MAX_UNITS)?;
        }
        let mut draft = Draft::new(self.topology, "hierarchical", units);
        for stage in stages {
            append(&mut draft, stage);
        }
        Some(draft)
    }
}

/// Appends the phases of a stage: the first ones of all groups run together, then the second ones, and so on.
fn append(draft: &mut Draft, stage: &Stage) {
    let phases = stage.iter().map(|group| group.plan.phases.len()).max().unwrap_or(0);
    for number in 0..phases {
        let mut of_paces: Vec<(Pace, Vec<Tree>)> = Vec::new();
        for group in stage {
            let Some(phase) = group.plan.phases.get(number) else { continue };
            let trees = moved(draft, group, phase);
            let pace = without_promise(phase.pace);
            match of_paces.iter_mut().find(|(other, _)| *other == pace) {
                Some((_, others)) => others.extend(trees),
                None => of_paces.push((pace, trees)),
            }
        }
        of_paces.into_iter().for_each(|(pace, trees)| draft.push_phase(pace, trees));
    }
}

/// Returns a pace that promises nothing of links, which groups may share.
fn without_promise(pace: Pace) -> Pace {
    if let Pace::Step(_) = pace { Pace::Step(Sharing::Shared) } else { pace }
}

/// Returns the trees of a group's phase in the plan of all groups.
fn moved(draft: &mut Draft, OfGroup { plan, part, now }: &OfGroup, phase: &Phase) -> Vec<Tree> {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let of_part = draft.units / part.of;
    let (first, unit) = (part.number * of_part, of_part / plan.units);
    let topology = Arc::clone(&draft.topology);
    let half = |draft: &mut Draft, tree: &Tree, direction| {
        let edges: Vec<_> = plan.half(phase, tree, direction).collect();
        if edges.is_empty() {
            return Half::None;
        }
        let route = |lane| -> Vec<LinkId> {
            routes.of(lane).iter().map(|&link| now.link[link].expect("groups have the links of the network")).collect()
        };
        let edges: Vec<_> =
            edges.iter().map(|edge| (draft.lanes.via(&topology, &route(edge.lane)), edge.step)).collect();
        draft.own_half(edges)
    };
    let trees = plan.trees_of(phase).iter();
    trees
        .map(|tree| {
            let (up, down) = (half(draft, tree, Direction::Up), half(draft, tree, Direction::Down));
            let root = now.node[tree.root].expect("groups have the nodes of the network");
            Tree { span: first + tree.span.start * unit..first + tree.span.end * unit, root, up, down, ..tree.clone() }
        })
        .collect()
}

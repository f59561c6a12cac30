//! Steps in which every rank sends to one other: what recursive doubling, Swing, Bine, Bruck and PAT share.
//!
//! Such an algorithm is a list of steps, each of which says to whom every rank sends. Two kinds of plans are made of
//! it. In *exchanges*, pairs of ranks send each other all that they have and add it up: each step is a phase with a
//! tree of one edge into every rank. That takes few steps and sends the whole vector in each. In *spreading trees*,
//! every rank has a part of the vector, which is reduced into it along the steps and spread from it along the same
//! steps backwards. Who has the part passes it on in every step, unless the other has it already. That takes twice as
//! many steps and sends 2 (N - 1) / N of the vector.
//!
//! Ranks beyond those that take part in the steps (beyond a power of two) are folded: each hands its vector to a
//! partner first, and gets the result from it last.
//!
//! Cost: a tree for each rank has N - 1 edges; exchanges have N edges a step.

use std::sync::Arc;

use crate::plan::alpha_beta::Profile;
use crate::plan::{Chunk, Draft, Half, LaneId, Pace, Sharing, Step, Tree};
use crate::topology::NodeId;
use crate::units::Bytes;

/// To whom each rank sends in every step of the all-gather, as positions in a list of ranks. The steps stand in the
/// order of the reduction, which goes the other way: the all-gather begins with the last one.
pub(super) type Targets = Vec<Vec<usize>>;

/// An algorithm for each of some equal parts of the vector, all at once, each with steps of its own.
pub(super) struct Copies {
    /// The ranks. The first of them, as many as a step has targets, take part in the steps; the others are folded.
    pub order: Vec<NodeId>,
    /// The steps of each copy.
    pub targets: Vec<Targets>,
    /// Whether every second copy is the mirror image of the one before it, and goes backwards where both ways around a
    /// ring are equally short.
    pub mirrored: bool,
}

impl Copies {
    /// Returns a single copy.
    pub fn one(order: Vec<NodeId>, targets: Targets) -> Self {
        Self { order, targets: vec![targets], mirrored: false }
    }

    /// Returns how many ranks take part in the steps.
    fn core(&self) -> usize {
        self.targets[0].first().map_or(1, Vec::len)
    }

    /// Returns the partners and those that are folded into them, as positions.
    fn folded(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let core = self.core();
        (core..self.order.len()).map(move |extra| (extra - core, extra))
    }

    fn lane(&self, plan: &mut Draft, copy: usize, source: usize, target: usize) -> LaneId {
        lane(plan, self.order[source], self.order[target], self.mirrored && copy % 2 == 1)
    }

    /// Returns the plan of spreading trees, made of an `empty` one; or that of exchanges, if there may be any and it is
    /// predicted to be faster for vectors of `size`.
    pub fn faster_form(&self, empty: &Draft, may_exchange: bool, size: Bytes) -> Draft {
        let (mut spread, mut exchange) = (empty.clone(), empty.clone());
        self.spread(&mut spread);
        if !may_exchange {
            return spread;
        }
        self.exchange(&mut exchange);
        let seconds = |draft: &Draft| Profile::of(draft).seconds(size);
        if seconds(&exchange) < seconds(&spread) { exchange } else { spread }
    }

    /// Makes a plan whose pairs of ranks exchange their vectors; each must be the other's target.
    pub fn exchange(&self, plan: &mut Draft) {
        plan.units = self.targets.len() as u64;
        let whole = 0..plan.units;
        let fold: Vec<Tree> = self.folded().map(|(to, extra)| self.into(plan, whole.clone(), 0, extra, to)).collect();
        push_step(plan, fold);
        for step in 0..self.targets[0].len() {
            let mut trees = Vec::new();
            for (copy, targets) in self.targets.iter().enumerate() {
                let span = copy as u64..copy as u64 + 1;
                for (source, &target) in targets[step].iter().enumerate() {
                    trees.push(self.into(plan, span.clone(), copy, source, target));
                }
            }
            push_step(plan, trees);
        }
        let serve: Vec<Tree> = self.folded().map(|(from, extra)| self.out_of(plan, from, extra)).collect();
        push_step(plan, serve);
    }

    /// Returns the tree in which `source` reduces into `target`.
    fn into(&self, plan: &mut Draft, span: std::ops::Range<u64>, copy: usize, source: usize, target: usize) -> Tree {
        let lane = self.lane(plan, copy, source, target);
        let up = plan.own_half([(lane, Step::new(1))]);
        Tree { span, root: self.order[target], up, down: Half::None, chunk: Chunk::One }
    }

    /// Returns the tree in which `source` sends the result to `target`.
    fn out_of(&self, plan: &mut Draft, source: usize, target: usize) -> Tree {
        let lane = self.lane(plan, 0, source, target);
        let down = plan.own_half([(lane, Step::new(1))]);
        Tree { span: 0..plan.units, root: self.order[source], up: Half::None, down, chunk: Chunk::One }
    }

    /// Makes a plan of one phase with a tree for each copy and each rank that takes part in the steps.
    pub fn spread(&self, plan: &mut Draft) {
        let core = self.core();
        plan.units = (self.targets.len() * core) as u64;
        let mut trees = Vec::with_capacity(self.targets.len() * core);
        for copy in 0..self.targets.len() {
            trees.extend((0..core).map(|root| self.spreading_tree(plan, copy, root)));
        }
        plan.push_phase(Pace::Step(Sharing::Shared), trees);
    }

    /// Returns the tree of the part of `root`, whose reduce half is the mirror of its broadcast half.
    fn spreading_tree(&self, plan: &mut Draft, copy: usize, root: usize) -> Tree {
        let (core, steps) = (self.core(), self.targets[copy].len());
        let all = steps + usize::from(core < self.order.len());
        let joins = joins(&self.targets[copy], root, core);
        let mut edges = Vec::with_capacity(self.order.len());
        let mut queue = vec![root];
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            let mut add = |child: usize, step: usize| {
                edges.push((self.lane(plan, copy, at, child), Step::new((all + step) as u16)));
            };
            for step in joins[at].step + 1..=steps {
                let child = self.targets[copy][steps - step][at];
                if (joins[child].from, joins[child].step) == (at, step) {
                    add(child, step);
                    queue.push(child);
                }
            }
            if at + core < self.order.len() {
                add(at + core, all);
            }
        }
        let down = plan.own_half(edges);
        let start = (copy * core + root) as u64;
        Tree { span: start..start + 1, root: self.order[root], up: Half::Mirror, down, chunk: Chunk::One }
    }
}

/// How a rank gets a part of the vector.
#[derive(Clone, Copy)]
struct Join {
    /// The position of the rank that sends it.
    from: usize,
    /// The step of the all-gather, from 1; 0 for the root, which has it from the beginning.
    step: usize,
}

/// Returns how each of the `core` ranks gets the part of `root`.
fn joins(targets: &Targets, root: usize, core: usize) -> Vec<Join> {
    let nobody = Join { from: usize::MAX, step: usize::MAX };
    let mut joins = vec![nobody; core];
    joins[root].step = 0;
    let mut members = vec![root];
    for (step, targets) in (1..).zip(targets.iter().rev()) {
        for at in 0..members.len() {
            let (from, child) = (members[at], targets[members[at]]);
            if joins[child].step == nobody.step {
                joins[child] = Join { from, step };
                members.push(child);
            }
        }
    }
    assert_eq!(members.len(), core, "the steps lead to every rank");
    joins
}

/// Appends a phase of one step, if it has any trees.
fn push_step(plan: &mut Draft, trees: Vec<Tree>) {
    if !trees.is_empty() {
        plan.push_phase(Pace::Step(Sharing::Shared), trees);
    }
}

/// Returns a lane over the network's route; if both ways around a ring are equally short, over that backwards if so
/// asked for.
pub(super) fn lane(plan: &mut Draft, source: NodeId, target: NodeId, backwards: bool) -> LaneId {
    let topology = Arc::clone(&plan.topology);
    if !backwards || topology.ways(source, target) == 1 {
        return plan.lanes.routed(source, target);
    }
    let mut links = Vec::new();
    topology.append_way(source, target, 1, &mut links);
    plan.lanes.via(&topology, &links)
}

/// Returns the steps in which every one of `count` ranks, a power of two, exchanges with the one whose number differs
/// in one bit, the lowest first.
pub(super) fn by_bits(count: usize) -> Targets {
    (0..count.ilog2()).map(|bit| (0..count).map(|rank| rank ^ (1 << bit)).collect()).collect()
}

/// Returns with whom a rank of a ring of `count`, an even number, exchanges in each step of Swing: at the distances 1,
/// -1, 3, -5, 11 and so on from even ranks (the partial sums of the powers of -2), and at their opposites from odd
/// ones.
pub(super) fn swinging(count: usize) -> Targets {
    let steps = count.next_power_of_two().ilog2();
    let distance = |step: u32| (1 - (-2i64).pow(step + 1)) / 3;
    let target = |rank: usize, step| {
        let distance = if rank.is_multiple_of(2) { distance(step) } else { -distance(step) };
        (rank as i64 + distance).rem_euclid(count as i64) as usize
    };
    (0..steps).map(|step| (0..count).map(|rank| target(rank, step)).collect()).collect()
}

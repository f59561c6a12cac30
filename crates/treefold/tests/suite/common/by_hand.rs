//! Plans that are made by hand, to be broken or because no planner makes them yet.

use std::sync::Arc;

use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::lower;
use treefold::plan::{Draft, Half, Pace, Plan, Sharing, Tree};
use treefold::topology::Topology;
use treefold::units::Bandwidth;

use super::{accelerators, cabled, half, spec, star, tree};

pub const STEPS: Pace = Pace::Step(Sharing::Shared);

/// One phase whose trees `build` makes; `units` as given.
pub fn plan_of(topology: &Arc<Topology>, units: u64, pace: Pace, build: impl FnOnce(&mut Draft) -> Vec<Tree>) -> Draft {
    let mut plan = Draft::new(topology, "by hand", units);
    let trees = build(&mut plan);
    plan.push_phase(pace, trees);
    plan
}

/// Peer to peer on a full mesh: everyone sends its part to the owner in step 1 and gets the sum in step 2.
pub fn stars(ranks: u32) -> Draft {
    let pace = Pace::Step(Sharing::Transfers(Bandwidth::known(1e9)));
    plan_of(&spec(&format!("full:{ranks}")), ranks.into(), pace, |plan| {
        let one = |root: u32| {
            let edges: Vec<_> = (0..ranks).filter(|&rank| rank != root).map(|rank| (root, rank, 2)).collect();
            let down = half(plan, &edges);
            tree(root.into()..u64::from(root) + 1, root, Half::Mirror, down)
        };
        (0..ranks).map(one).collect()
    })
}

/// One tree over the whole vector, with these edges in its halves, in steps.
pub fn one_tree(topology: &Arc<Topology>, root: u32, up: &[(u32, u32, u16)], down: &[(u32, u32, u16)]) -> Draft {
    plan_of(topology, 1, STEPS, |plan| {
        let (up, down) = (half(plan, up), half(plan, down));
        vec![tree(0..1, root, up, down)]
    })
}

/// A line of three: 0 - 1 - 2.
pub fn line() -> Arc<Topology> {
    cabled(accelerators(3), &[(0, 1), (1, 2)], None)
}

/// A correct tree on the line, rooted at 0.
pub const UP: [(u32, u32, u16); 2] = [(1, 0, 2), (2, 1, 1)];
pub const DOWN: [(u32, u32, u16); 2] = [(0, 1, 3), (1, 2, 4)];

pub fn changed(plan: impl Into<Draft>, change: impl FnOnce(&mut Draft)) -> Draft {
    let mut plan = plan.into();
    change(&mut plan);
    plan
}

pub fn own(half: &mut Half) -> &mut std::ops::Range<usize> {
    match half {
        Half::Own(range) => range,
        Half::None | Half::Mirror => panic!("has no edges of its own"),
    }
}

#[track_caller]
pub fn refuses(plan: &Draft, expected: &str) {
    match check(plan) {
        Ok(()) => panic!("accepted; expected: {expected}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}; expected: {expected}"),
    }
}

/// All ranks on one switch, which is the root and joins and fans out.
pub fn in_switch(reduces: bool, multicasts: bool) -> Draft {
    let up: Vec<_> = (0..3).map(|rank| (rank, 3, 1)).collect();
    let down: Vec<_> = (0..3).map(|rank| (3, rank, 2)).collect();
    one_tree(&star(3, reduces, multicasts), 3, &up, &down)
}

/// Both oracles, for several sizes, also smaller than the number of ranks. Returns the plan, which is proven.
#[track_caller]
pub fn accepts(draft: &Draft) -> Plan {
    let plan = draft.clone().prove().unwrap();
    for elements in [0, 1, 5, 64, 1000] {
        check_schedule(&plan, &lower(&plan, elements, 8).unwrap()).unwrap();
    }
    plan
}

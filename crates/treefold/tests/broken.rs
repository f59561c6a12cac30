//! Deliberately broken plans and schedules: the right oracle refuses each and says why. And hand-made plans of
//! kinds that no planner makes yet, which both oracles accept.

mod common;

use std::sync::Arc;

use common::{accelerators, cabled, half, lane, one_way, planned, spec, star, tree};
use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::schedule::{Csr, Op, Schedule, lower};
use treefold::plan::{Chunk, Collective, Half, Pace, Plan, Sharing, Tree, derive};
use treefold::topology::{NodeId, Topology};
use treefold::units::Bandwidth;

const STEPS: Pace = Pace::Step(Sharing::Shared);

/// One phase whose trees `build` makes; `units` as given.
fn plan_of(topology: &Arc<Topology>, units: u64, pace: Pace, build: impl FnOnce(&mut Plan) -> Vec<Tree>) -> Plan {
    let mut plan = Plan::new(topology, "by hand", units);
    let trees = build(&mut plan);
    plan.push_phase(pace, trees);
    plan
}

/// Peer to peer on a full mesh: everyone sends its part to the owner in step 1 and gets the sum in step 2.
fn stars(ranks: u32) -> Plan {
    let pace = Pace::Step(Sharing::Transfers(Bandwidth(1e9)));
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
fn one_tree(topology: &Arc<Topology>, root: u32, up: &[(u32, u32, u16)], down: &[(u32, u32, u16)]) -> Plan {
    plan_of(topology, 1, STEPS, |plan| {
        let (up, down) = (half(plan, up), half(plan, down));
        vec![tree(0..1, root, up, down)]
    })
}

/// A line of three: 0 - 1 - 2.
fn line() -> Arc<Topology> {
    cabled(accelerators(3), &[(0, 1), (1, 2)], None)
}

/// A correct tree on the line, rooted at 0.
const UP: [(u32, u32, u16); 2] = [(1, 0, 2), (2, 1, 1)];
const DOWN: [(u32, u32, u16); 2] = [(0, 1, 3), (1, 2, 4)];

fn changed(mut plan: Plan, change: impl FnOnce(&mut Plan)) -> Plan {
    change(&mut plan);
    plan
}

fn own(half: &mut Half) -> &mut std::ops::Range<usize> {
    match half {
        Half::Own(range) => range,
        Half::None | Half::Mirror => panic!("has no edges of its own"),
    }
}

#[track_caller]
fn refuses(plan: &Plan, expected: &str) {
    match check(plan) {
        Ok(()) => panic!("accepted; expected: {expected}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}; expected: {expected}"),
    }
}

#[test]
fn the_plans_that_get_broken_are_right() {
    check(&stars(4)).unwrap();
    check(&one_tree(&line(), 0, &UP, &DOWN)).unwrap();
}

#[test]
fn a_missing_rank() {
    let plan = changed(stars(4), |plan| own(&mut plan.trees[1].down).end -= 1);
    refuses(&plan, "units 1..2: GPU0 ends with GPU3's contribution 0 times instead of 1");
}

#[test]
fn a_rank_that_does_not_get_the_result() {
    refuses(&one_tree(&line(), 0, &UP, &DOWN[..1]), "R2 ends with no result");
}

#[test]
fn a_doubled_rank() {
    refuses(&one_tree(&line(), 0, &UP, &[(0, 1, 3), (1, 2, 4), (1, 2, 5)]), "R2 is reached twice");
    refuses(&one_tree(&line(), 0, &[(1, 0, 2), (0, 1, 1)], &DOWN), "R0 is reached twice");
}

#[test]
fn a_doubled_span() {
    let plan = changed(stars(4), |plan| plan.trees[1].span = 0..1);
    refuses(&plan, "units 0..1: GPU1 receives from two trees in one phase");
}

#[test]
fn a_gap_between_spans() {
    refuses(&changed(stars(4), |plan| plan.units = 5), "units 4..5: GPU0 ends with GPU1's contribution 0 times");
    refuses(
        &changed(stars(4), |plan| plan.trees[2].span = 2..2),
        "units 2..3: GPU0 ends with GPU1's contribution 0 times",
    );
}

/// An all-reduce of three ranks, after which the last two double their sums so many times.
fn doubled_sums(doublings: usize) -> Plan {
    let mut plan = Plan::new(&spec("full:3"), "by hand", 1);
    push_all_reduce(&mut plan, &[0, 1, 2]);
    (0..doublings).for_each(|_| push_all_reduce(&mut plan, &[1, 2]));
    plan
}

/// A phase in which the first of these ranks adds up what they have, and gives it to the others.
fn push_all_reduce(plan: &mut Plan, ranks: &[u32]) {
    let edges: Vec<_> = ranks[1..].iter().map(|&rank| (ranks[0], rank, 2)).collect();
    let down = half(plan, &edges);
    let all = tree(0..1, ranks[0], Half::Mirror, down);
    plan.push_phase(STEPS, vec![all]);
}

/// 2^64 is 0 in 64 bits: what is doubled so often vanishes from sums of machine words.
#[test]
fn contributions_that_vanish_in_machine_words() {
    for doublings in [64, 65, 128, 248] {
        let plan = changed(doubled_sums(doublings), |plan| {
            let (up, down) = (half(plan, &[(1, 0, 1)]), half(plan, &[(0, 1, 2), (0, 2, 2)]));
            plan.push_phase(STEPS, vec![tree(0..1, 0, up, down)]);
        });
        refuses(&plan, "GPU0 ends with GPU0's contribution at least 4294967295 times instead of 1");
    }
}

/// 2^61 is 1 modulo 2^61 - 1: sums in a field alone come back to what they were.
#[test]
fn contributions_that_come_back_in_a_field() {
    for doublings in [61, 122] {
        refuses(&doubled_sums(doublings), "GPU1 ends with GPU0's contribution at least 4294967295 times instead of 1");
    }
}

#[test]
fn steps_in_a_stream() {
    for pace in [Pace::Stream, Pace::Paced] {
        let plan = changed(stars(4), |plan| plan.phases[0].pace = pace);
        refuses(&plan, "has step 1, but its phase is a stream, which has no steps");
    }
}

#[test]
fn more_chunks_than_anybody_could_run() {
    let chunked = |chunk| {
        let trees = |plan: &mut Plan| {
            let down = half(plan, &[(0, 1, 0), (1, 2, 0)]);
            vec![Tree { chunk, ..tree(0..1, 0, Half::Mirror, down) }]
        };
        plan_of(&line(), 1, Pace::Stream, trees)
    };
    check(&chunked(Chunk::Count(1 << 18))).unwrap();
    refuses(&chunked(Chunk::Count((1 << 18) + 1)), "make 1048580 transfers, treefold handles 1048576: use fewer");
    let bytes = chunked(Chunk::Bytes(1));
    check(&bytes).unwrap();
    assert!(lower(&bytes, 1 << 18, 8).unwrap_err().to_string().contains("use fewer chunks"));
    let simulated = treefold::sim::flow::simulate(&bytes, treefold::units::Bytes(1 << 21), false, &mut || true);
    assert!(simulated.unwrap_err().to_string().contains("use fewer chunks"));
    let lonely = plan_of(&spec("full:1"), 1, Pace::Stream, |_| {
        vec![Tree { chunk: Chunk::Count((1 << 20) + 1), ..tree(0..1, 0, Half::Mirror, Half::Own(0..0)) }]
    });
    refuses(&lonely, "make 1048577 transfers");
}

#[test]
fn more_phases_than_schedules_can_number() {
    let plan = changed(doubled_sums(0), |plan| plan.phases = vec![plan.phases[0].clone(); 1 << 16]);
    refuses(&plan, "65536 phases are more than the 65535 that treefold handles");
}

#[test]
fn more_phases_than_a_large_network_takes() {
    let plan = changed(planned("ring", "full:150"), |plan| {
        (0..20_000).for_each(|_| plan.push_phase(STEPS, Vec::new()));
    });
    refuses(&plan, "20001 phases are more than the");
}

#[test]
fn spans_that_cut_more_than_anybody_could_replay() {
    let plan = plan_of(&line(), 1 << 15, Pace::Stream, |plan| {
        let down = half(plan, &[(0, 1, 0), (1, 2, 0)]);
        (0..1 << 15).map(|unit| tree(unit..unit + 1, 0, Half::Mirror, down.clone())).collect()
    });
    let plan = changed(plan, |plan| {
        for _ in 0..1 << 13 {
            let down = half(plan, &[(0, 1, 0)]);
            plan.push_phase(Pace::Stream, vec![tree(0..1 << 15, 0, Half::None, down)]);
        }
    });
    refuses(&plan, "cut edges into 537034752 pieces, treefold handles 268435456: cut the vector less often");
}

/// Two trees each give one rank the sum, which is right as an all-reduce; turned to another root they would both give
/// it to everyone.
#[test]
fn a_plan_whose_trees_serve_a_part_of_the_ranks_is_not_turned_into_other_collectives() {
    let plan = plan_of(&spec("full:3"), 1, Pace::Stream, |plan| {
        let (to_zero, to_two) = (half(plan, &[(1, 0, 0), (2, 0, 0)]), half(plan, &[(1, 2, 0), (0, 2, 0)]));
        let (from_zero, from_two) = (half(plan, &[(0, 1, 0)]), half(plan, &[]));
        vec![tree(0..1, 0, to_zero, from_zero), tree(0..1, 2, to_two, from_two)]
    });
    accepts(&plan);
    for (collective, name) in Collective::NAMES.into_iter().filter(|&(other, _)| other != Collective::AllReduce) {
        let error = derive(plan.clone(), collective, NodeId(1)).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot do {name}: its trees do not each reduce from")), "{error}");
    }
}

#[test]
fn a_tree_that_carries_nothing_is_left_out_of_other_collectives() {
    let plan = changed(planned("ring", "fattree:4,2"), |plan| {
        let switch = plan.ranks();
        let nothing = tree(0..0, switch, Half::None, Half::None);
        plan.trees.push(nothing);
        plan.phases[0].trees.end += 1;
    });
    accepts(&plan);
    for (collective, _) in Collective::NAMES {
        accepts(&derive(plan.clone(), collective, NodeId(2)).unwrap());
    }
}

#[test]
fn more_units_than_blocks_can_have() {
    let plan = changed(stars(4), |plan| plan.units = (1 << 38) + 1);
    assert!(
        derive(plan, Collective::AllGather, NodeId(0)).unwrap_err().to_string().contains("cut the vector less often")
    );
}

#[test]
fn overlapping_spans() {
    let plan = changed(stars(4), |plan| plan.trees[2].span = 1..3);
    refuses(&plan, "units 1..2: GPU2 receives from two trees in one phase");
}

#[test]
fn a_span_beyond_the_units() {
    refuses(&changed(stars(4), |plan| plan.units = 3), "its span 3..4 is not within 0..3");
}

#[test]
fn no_units_at_all() {
    refuses(&changed(stars(4), |plan| plan.units = 0), "0 units");
}

#[test]
fn a_contribution_counted_twice() {
    // The first phase is an all-reduce already; the second adds the sums once more.
    let plan = changed(stars(2), |plan| {
        let trees = plan.trees.clone();
        plan.push_phase(STEPS, trees);
    });
    refuses(&plan, "units 0..1: GPU0 ends with GPU0's contribution 2 times instead of 1");
}

#[test]
fn edges_out_of_breadth_first_order() {
    let topology = spec("full:4");
    let down = [(0, 1, 3), (1, 3, 4), (0, 2, 3)];
    refuses(
        &one_tree(&topology, 0, &[(1, 0, 2), (2, 0, 2), (3, 0, 2)], &down),
        "GPU0 - GPU2 is out of breadth-first order",
    );
    refuses(
        &one_tree(&line(), 0, &UP, &[(1, 2, 4), (0, 1, 3)]),
        "R2 hangs from R1, which is not in the tree before it",
    );
}

#[test]
fn steps_that_fall_in_a_broadcast() {
    refuses(&one_tree(&line(), 0, &UP, &[(0, 1, 4), (1, 2, 3)]), "R1 -> R2 in step 3 does not fit the step 4");
    refuses(&one_tree(&line(), 0, &UP, &[(0, 1, 4), (1, 2, 4)]), "R1 -> R2 in step 4 does not fit the step 4");
}

#[test]
fn steps_that_rise_towards_the_leaves_in_a_reduction() {
    refuses(&one_tree(&line(), 0, &[(1, 0, 1), (2, 1, 2)], &DOWN), "R2 -> R1 in step 2 does not fit the step 1");
}

#[test]
fn a_broadcast_before_the_reduction_has_ended() {
    refuses(
        &one_tree(&line(), 0, &UP, &[(0, 1, 2), (1, 2, 3)]),
        "broadcasts in step 2 what is still being reduced in step 2",
    );
}

#[test]
fn step_0() {
    refuses(&one_tree(&line(), 0, &[(1, 0, 2), (2, 1, 0)], &DOWN), "R2 -> R1 in step 0 does not fit");
    let mirrored = changed(stars(3), |plan| plan.edges.step[0] = 0);
    refuses(&mirrored, "does not fit");
}

#[test]
fn a_step_beyond_the_phase() {
    refuses(
        &changed(one_tree(&line(), 0, &UP, &DOWN), |plan| plan.phases[0].steps = 3),
        "R1 -> R2 in step 4 does not fit",
    );
}

#[test]
fn a_link_used_twice_in_a_step() {
    // Rank 2 sends to rank 0 through rank 1, whose own message needs the same link in the same step.
    let plan = plan_of(&line(), 2, Pace::Step(Sharing::Transfers(Bandwidth(1e9))), |plan| {
        let up = half(plan, &[(1, 0, 1), (2, 0, 1)]);
        let down = half(plan, &[(0, 1, 2), (0, 2, 3)]);
        vec![tree(0..2, 0, up, down)]
    });
    refuses(&plan, "link R1 -> R0 carries more than 1 message(s) in step 1");
    check(&changed(plan.clone(), |plan| plan.phases[0].pace = Pace::Step(Sharing::Transfers(Bandwidth(5e8))))).unwrap();
    check(&changed(plan, |plan| plan.phases[0].pace = STEPS)).unwrap();
}

#[test]
fn a_link_used_by_two_trees_in_a_step() {
    let two_trees = |sharing| {
        plan_of(&spec("line:2"), 2, Pace::Step(sharing), |plan| {
            let both: Vec<_> = (0..2).map(|_| half(plan, &[(0, 1, 2)])).collect();
            both.into_iter().zip(0..).map(|(down, i)| tree(i..i + 1, 0, Half::Mirror, down)).collect()
        })
    };
    let unit = Bandwidth(16e9);
    refuses(&two_trees(Sharing::Transfers(unit)), "carries more than 1 message(s) in step 1");
    check(&two_trees(Sharing::Messages(unit))).unwrap();
    check(&two_trees(Sharing::Transfers(Bandwidth(8e9)))).unwrap();
}

#[test]
fn a_lane_whose_links_are_no_path() {
    let topology = line();
    let find = |source, target| {
        let mut out = topology.outgoing(NodeId(source)).iter();
        let found = out.find(|&&link| topology.link(link).target == NodeId(target));
        *found.unwrap()
    };
    for (links, expected) in [
        ([find(0, 1), find(0, 1)], "R0 -> R1 does not start at R1"),
        ([find(1, 2), find(1, 0)], "R1 -> R0 does not start at R2"),
    ] {
        let plan = changed(one_tree(&topology, 0, &UP, &DOWN), |plan| {
            plan.lanes.via(&topology, &links);
        });
        refuses(&plan, expected);
    }
}

#[test]
fn a_mirror_of_a_one_way_link() {
    let topology = one_way(accelerators(3), &[(0, 1), (1, 2), (2, 0)], None);
    let plan = plan_of(&topology, 1, STEPS, |plan| {
        let down = half(plan, &[(0, 1, 3), (1, 2, 4)]);
        vec![tree(0..1, 0, Half::Mirror, down)]
    });
    refuses(&plan, "mirrors link R0 -> R1, which has no other direction");
}

#[test]
fn a_mirror_of_nothing() {
    let without = |up, down| plan_of(&line(), 1, STEPS, |_| vec![tree(0..1, 0, up, down)]);
    refuses(&without(Half::Mirror, Half::Mirror), "mirrors a half that has no edges");
    refuses(&without(Half::None, Half::Mirror), "mirrors a half that has no edges");
}

/// All ranks on one switch, which is the root and joins and fans out.
fn in_switch(reduces: bool, multicasts: bool) -> Plan {
    let up: Vec<_> = (0..3).map(|rank| (rank, 3, 1)).collect();
    let down: Vec<_> = (0..3).map(|rank| (3, rank, 2)).collect();
    one_tree(&star(3, reduces, multicasts), 3, &up, &down)
}

#[test]
fn a_switch_that_joins_or_fans_out_but_cannot() {
    refuses(&in_switch(false, true), "switch S0 joins 3 operands but cannot reduce");
    refuses(&in_switch(true, false), "switch S0 fans out to 3 but cannot multicast");
}

#[test]
fn a_switch_that_broadcasts_or_gets_the_sum() {
    for collective in [Collective::Broadcast, Collective::Reduce] {
        let plan = changed(in_switch(true, true), |plan| plan.collective = collective);
        refuses(&plan, &format!("a {collective} needs a rank as root, S0 is none"));
    }
}

#[test]
fn a_switch_that_is_a_leaf() {
    let up = [(1, 0, 1), (2, 0, 1), (3, 0, 1)];
    let plan = one_tree(&star(3, true, true), 0, &up, &[(0, 1, 2), (0, 2, 2)]);
    refuses(&plan, "switch S0 is a leaf");
}

#[test]
fn an_accelerator_that_only_relays_in_a_tree() {
    let topology = cabled(accelerators(3), &[(0, 1), (1, 2)], Some(vec![0, 2]));
    let relay = 2;
    assert_eq!(topology.node(NodeId(relay)).name, "R1");
    let plan = one_tree(&topology, 0, &[(relay, 0, 2), (1, relay, 1)], &[(0, relay, 3), (relay, 1, 4)]);
    refuses(&plan, "R1 is no rank and only relays");
}

#[test]
fn a_rank_that_receives_twice_in_a_phase() {
    let plan = plan_of(&spec("full:3"), 1, STEPS, |plan| {
        let there = half(plan, &[(1, 0, 1)]);
        let here = half(plan, &[(2, 0, 1)]);
        vec![tree(0..1, 0, there, Half::None), tree(0..1, 0, here, Half::None)]
    });
    refuses(&plan, "GPU0 receives from two trees in one phase");
}

#[test]
fn sending_what_the_phase_before_left_undefined() {
    let mut plan = one_tree(&line(), 0, &UP, &[]);
    plan.trees[0].down = Half::None;
    let (up, down) = (half(&mut plan, &UP), half(&mut plan, &DOWN));
    plan.push_phase(STEPS, vec![tree(0..1, 0, up, down)]);
    refuses(&plan, "R1 sends what it does not have");
}

#[test]
fn a_tree_that_nobody_contributes_to() {
    let plan = plan_of(&star(2, true, true), 1, STEPS, |plan| {
        let down = half(plan, &[(2, 0, 1), (2, 1, 1)]);
        vec![tree(0..1, 2, Half::None, down)]
    });
    refuses(&plan, "the tree at S0 has no rank that contributes");
}

#[test]
fn the_wrong_root_for_reduce_scatter() {
    let plan = changed(derive(stars(4), Collective::ReduceScatter, NodeId(0)).unwrap(), |plan| {
        let span = plan.trees[0].span.clone();
        plan.trees[0].span = plan.trees[1].span.clone();
        plan.trees[1].span = span;
    });
    refuses(&plan, "units 0..1: GPU0 ends with no result");
}

#[test]
fn blocks_that_are_no_whole_units() {
    let plan = changed(derive(stars(4), Collective::AllGather, NodeId(0)).unwrap(), |plan| plan.units = 5);
    refuses(&plan, "5 units do not divide into 4 blocks");
}

#[test]
fn an_all_gather_of_somebody_elses_block() {
    let plan =
        changed(derive(stars(4), Collective::AllGather, NodeId(0)).unwrap(), |plan| plan.trees[0].root = NodeId(1));
    refuses(&plan, "hangs from GPU0, which is not in the tree");
    let plan = changed(derive(stars(4), Collective::AllGather, NodeId(0)).unwrap(), |plan| plan.trees[0].span = 1..2);
    refuses(&plan, "units 0..1: GPU1 ends with no result");
}

#[test]
fn an_all_to_all_that_forgets_a_rank_or_a_block() {
    let all_to_all = || derive(stars(4), Collective::AllToAll, NodeId(0)).unwrap();
    check(&all_to_all()).unwrap();
    refuses(
        &changed(all_to_all(), |plan| own(&mut plan.trees[2].down).end -= 1),
        "the tree at GPU2 reaches 3 of 4 ranks",
    );
    refuses(
        &changed(all_to_all(), |plan| plan.trees[2].span = 0..0),
        "the trees at GPU2 do not carry each unit of its blocks exactly once",
    );
}

#[test]
fn an_all_to_all_from_a_switch() {
    let plan = changed(one_tree(&star(2, true, true), 2, &[], &[(2, 0, 1), (2, 1, 1)]), |plan| {
        plan.units = 2;
        plan.collective = Collective::AllToAll;
        for (root, other) in [(0, 1), (1, 0)] {
            let down = half(plan, &[(root, other, 2)]);
            plan.trees.push(tree(0..1, root, Half::None, down));
        }
        plan.phases[0].trees = 0..3;
        plan.phases[0].steps = 2;
    });
    refuses(&plan, "the tree at S0 has no block to send");
}

/// Ranks reach each other, but a relay hangs loose and a file routes a lane to it.
#[test]
fn a_lane_to_where_no_route_leads() {
    let topology = cabled(accelerators(3), &[(0, 1)], Some(vec![0, 1]));
    let plan = changed(one_tree(&topology, 0, &[(1, 0, 1)], &[(0, 1, 2)]), |plan| {
        plan.lanes.routed(NodeId(0), NodeId(2));
    });
    let error = Plan::from_json(&plan.to_json()).unwrap_err().to_string();
    assert!(error.contains("lane 2: there is no route from R0 to R2"), "{error}");
}

// ---- schedules ----

#[track_caller]
fn refuses_schedule(plan: &Plan, schedule: &Schedule, expected: &str) {
    match check_schedule(plan, schedule) {
        Ok(()) => panic!("accepted; expected: {expected}"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}; expected: {expected}"),
    }
}

/// MultiTree on the 2x2 mesh with four elements a rank's part, and its schedule.
fn lowered() -> (Plan, Schedule) {
    let plan = planned("multitree", "mesh:2x2");
    let schedule = lower(&plan, 16, 4).unwrap();
    check_schedule(&plan, &schedule).unwrap();
    (plan, schedule)
}

/// The first transfer of this kind that waits for another.
fn waiting(schedule: &Schedule, op: Op) -> usize {
    let found = (0..schedule.len()).find(|&id| schedule.op[id] == op && !schedule.dependencies.row(id).is_empty());
    found.expect("there is one")
}

/// The same rows, but for row `id`.
fn with_row<T: Clone>(rows: &Csr<T>, id: usize, row: Vec<T>) -> Csr<T> {
    let mut changed = Csr { first: vec![0], items: Vec::new() };
    for other in 0..rows.first.len() - 1 {
        changed.push_row(if other == id { row.clone() } else { rows.row(other).to_vec() });
    }
    changed
}

/// `schedule` without what transfer `id` waits for, as far as `drop` says so.
fn without(schedule: &Schedule, id: usize, drop: impl Fn(u32) -> bool) -> Schedule {
    let kept = schedule.dependencies.row(id).iter().copied().filter(|&before| !drop(before)).collect();
    Schedule { dependencies: with_row(&schedule.dependencies, id, kept), ..schedule.clone() }
}

/// Appends transfer `id` once more, after everything else.
fn doubled(schedule: &Schedule, id: usize) -> Schedule {
    let mut twice = schedule.clone();
    let pieces = schedule.pieces.row(id).to_vec();
    twice.lane.push(schedule.lane[id]);
    twice.phase.push(schedule.phase[id]);
    twice.step.push(schedule.step[id]);
    twice.op.push(schedule.op[id]);
    twice.source.push(schedule.source[id]);
    twice.target.push(schedule.target[id]);
    twice.pieces.push_row(pieces);
    twice.dependencies.push_row(0..schedule.len() as u32);
    twice
}

#[test]
fn a_doubled_transfer() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &doubled(&schedule, 0), "ends with a wrong result");
}

#[test]
fn a_lost_dependency_of_a_reduction() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &without(&schedule, waiting(&schedule, Op::Reduce), |_| true), "race for buffer");
}

#[test]
fn a_lost_dependency_of_a_broadcast() {
    let (plan, schedule) = lowered();
    refuses_schedule(&plan, &without(&schedule, waiting(&schedule, Op::Copy), |_| true), "race for buffer");
}

#[test]
fn a_reduction_that_became_a_copy() {
    let (plan, mut schedule) = lowered();
    let last = waiting(&schedule, Op::Reduce);
    schedule.op[last] = Op::Copy;
    assert!(check_schedule(&plan, &schedule).is_err());
    // Even in an order without races: two ranks, so only one reduction into each root.
    let pair = planned("ring", "line:2");
    let mut schedule = lower(&pair, 2, 4).unwrap();
    let first = schedule.op.iter().position(|&op| op == Op::Reduce).unwrap();
    schedule.op[first] = Op::Copy;
    refuses_schedule(&pair, &schedule, "ends with a wrong result from element");
}

#[test]
fn a_dependency_on_a_later_transfer() {
    let (plan, mut schedule) = lowered();
    schedule.dependencies = with_row(&schedule.dependencies, 0, vec![3]);
    refuses_schedule(&plan, &schedule, "transfer 0 depends on 3, which does not come before it");
}

#[test]
fn a_piece_cut_short() {
    let (plan, mut schedule) = lowered();
    let piece = schedule.pieces.row(0)[0].clone();
    schedule.pieces = with_row(&schedule.pieces, 0, vec![piece.start..piece.end - 1]);
    refuses_schedule(&plan, &schedule, &format!("wrong result from element {}", piece.end - 1));
}

#[test]
fn a_buffer_that_does_not_exist_or_is_empty() {
    let (plan, mut schedule) = lowered();
    let (from, to) = (schedule.source[0], schedule.target[0]);
    schedule.source[0] = 4;
    refuses_schedule(&plan, &schedule, "transfer 0 uses a buffer that does not exist");
    schedule.buffers.push(NodeId(to));
    let expected = format!("transfer 0 moves from node {to} to {to}, its lane from {from} to {to}");
    refuses_schedule(&plan, &schedule, &expected);
    schedule.buffers[4] = NodeId(from);
    refuses_schedule(&plan, &schedule, "of buffer 4, which hold nothing");
    schedule.source[0] = schedule.target[0];
    refuses_schedule(&plan, &schedule, "reads and writes the same buffer");
}

/// Whether `later` comes after `earlier` by the dependencies.
fn implied(schedule: &Schedule, earlier: u32, later: u32) -> bool {
    let mut stack = vec![later];
    while let Some(id) = stack.pop() {
        let before = schedule.dependencies.row(id as usize);
        if before.contains(&earlier) {
            return true;
        }
        stack.extend(before.iter().filter(|&&other| other > earlier));
    }
    false
}

/// Removes each dependency in turn, where nothing else implies it: returns how many there were.
fn every_loss_shows(plan: &Plan, elements: u64, which: impl Fn(&Schedule, usize, u32) -> bool) -> usize {
    let schedule = lower(plan, elements, 4).unwrap();
    check_schedule(plan, &schedule).unwrap();
    let mut losses = 0;
    for id in 0..schedule.len() {
        for &before in schedule.dependencies.row(id).iter().filter(|&&before| which(&schedule, id, before)) {
            let lossy = without(&schedule, id, |other| other == before);
            if !implied(&lossy, before, id as u32) {
                refuses_schedule(plan, &lossy, "race for buffer");
                losses += 1;
            }
        }
    }
    losses
}

#[test]
fn any_lost_dependency() {
    for (algorithm, text) in
        [("multitree", "mesh:2x3"), ("halving-doubling", "full:6"), ("dbtree", "ring:5"), ("ring2d", "torus:3x3")]
    {
        assert!(every_loss_shows(&planned(algorithm, text), 72, |_, _, _| true) > 10, "{algorithm}");
    }
}

/// 2D-ring: a fast column must not overwrite what a slow row still has to send.
#[test]
fn a_lost_write_after_read_between_phases() {
    let overwrites_a_read = |schedule: &Schedule, id: usize, before: u32| {
        let before = before as usize;
        schedule.phase[before] < schedule.phase[id]
            && schedule.source[before] == schedule.target[id]
            && schedule.target[before] != schedule.source[id]
    };
    assert!(every_loss_shows(&planned("ring2d", "torus:3x3"), 144, overwrites_a_read) > 10);
}

// ---- plans that no planner makes yet ----

/// Both oracles, for several sizes, also smaller than the number of ranks.
#[track_caller]
fn accepts(plan: &Plan) {
    check(plan).unwrap();
    for elements in [0, 1, 5, 64, 1000] {
        check_schedule(plan, &lower(plan, elements, 8).unwrap()).unwrap();
    }
}

#[test]
fn switches_that_reduce_and_multicast() {
    accepts(&in_switch(true, true));
    let streamed = changed(in_switch(true, true), |plan| {
        (plan.phases[0].pace, plan.phases[0].steps) = (Pace::Stream, 0);
        plan.edges.step.fill(0);
        plan.trees[0].chunk = Chunk::Count(3);
    });
    accepts(&streamed);
    assert_eq!(lower(&streamed, 64, 8).unwrap().len(), 3 * 6);
}

/// In-network pull: the requesting accelerator is the root, the switches of two levels are inner nodes, and the
/// two halves are the same tree.
#[test]
fn a_tree_with_switches_inside() {
    let mut nodes = accelerators(4);
    nodes.extend([0, 1, 2].map(|i| treefold::topology::Node {
        reduces: true,
        multicasts: true,
        ..treefold::topology::Node::switch(format!("S{i}"))
    }));
    let topology = cabled(nodes, &[(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)], None);
    let plan = plan_of(&topology, 4, STEPS, |plan| {
        let one = |root: u32| {
            let (near, far) = (4 + root / 2, 5 - root / 2);
            let (mate, others) = (root ^ 1, [2 - root / 2 * 2, 3 - root / 2 * 2]);
            let down = half(
                plan,
                &[
                    (root, near, 6),
                    (near, mate, 7),
                    (near, 6, 7),
                    (6, far, 8),
                    (far, others[0], 9),
                    (far, others[1], 9),
                ],
            );
            tree(root.into()..u64::from(root) + 1, root, Half::Mirror, down)
        };
        (0..4).map(one).collect()
    });
    for (collective, _) in Collective::NAMES {
        accepts(&derive(plan.clone(), collective, NodeId(2)).unwrap());
    }
}

/// In-network push: everyone sends to the home switch over routes that nothing joins on the way; the result comes
/// down a tree of switches.
#[test]
fn a_star_into_a_switch_and_a_tree_out_of_it() {
    let mut nodes = accelerators(3);
    let switch = |name: &str, reduces| treefold::topology::Node {
        reduces,
        multicasts: true,
        ..treefold::topology::Node::switch(name)
    };
    nodes.extend([switch("home", true), switch("leaf", false)]);
    let topology = cabled(nodes, &[(0, 4), (1, 4), (2, 4), (4, 3)], None);
    accepts(&one_tree(&topology, 3, &[(0, 3, 1), (1, 3, 1), (2, 3, 1)], &[(3, 4, 2), (4, 0, 3), (4, 1, 3), (4, 2, 3)]));
}

/// Phases in each of which every rank gets its partner's whole vector: reduce-only trees over the same span.
fn recursive_doubling(pace: Pace, chunk: Chunk) -> Plan {
    let mut plan = Plan::new(&spec("full:8"), "recursive doubling", 1);
    for bit in 0..3 {
        let one = |rank: u32| {
            let up = half(&mut plan, &[(rank ^ (1 << bit), rank, u16::from(pace == STEPS))]);
            Tree { chunk, ..tree(0..1, rank, up, Half::None) }
        };
        let trees = (0..8).map(one).collect();
        plan.push_phase(pace, trees);
    }
    plan
}

#[test]
fn recursive_doubling_in_steps() {
    let plan = recursive_doubling(STEPS, Chunk::One);
    accepts(&plan);
    assert_eq!(plan.steps(), Some(3));
    assert!(every_loss_shows(&plan, 4, |_, _, _| true) > 10);
}

/// Chunks end inside spans: the next phase must wait for the chunk that it touches.
#[test]
fn recursive_doubling_in_chunks() {
    accepts(&recursive_doubling(Pace::Stream, Chunk::Count(4)));
}

/// Everybody sends its whole vector to everybody.
fn exchange() -> Plan {
    plan_of(&spec("full:5"), 1, STEPS, |plan| {
        let one = |rank: u32| {
            let others: Vec<_> = (0..5).filter(|&other| other != rank).map(|other| (other, rank, 1)).collect();
            let up = half(plan, &others);
            tree(0..1, rank, up, Half::None)
        };
        (0..5).map(one).collect()
    })
}

#[test]
fn peer_to_peer_exchange() {
    let plan = exchange();
    accepts(&plan);
    assert!(lower(&plan, 64, 8).unwrap().op.contains(&Op::Local), "each needs a copy of what it sends");
}

/// Such a tree needs no copy of what it does not send.
#[test]
fn a_tree_that_carries_nothing() {
    let with_empty = changed(exchange(), |plan| {
        let empty = Tree { span: 1..1, ..plan.trees[0].clone() };
        plan.trees.push(empty);
        plan.phases[0].trees.end += 1;
    });
    accepts(&with_empty);
    assert_eq!(lower(&with_empty, 64, 8).unwrap().len(), lower(&exchange(), 64, 8).unwrap().len());
}

/// Reduce-only chains over the same span whose inner ranks pass on sums that they do not keep.
#[test]
fn exchange_over_chains() {
    let plan = plan_of(&spec("ring:3"), 1, STEPS, |plan| {
        let one = |root: u32| {
            let up = half(plan, &[((root + 1) % 3, root, 2), ((root + 2) % 3, (root + 1) % 3, 1)]);
            tree(0..1, root, up, Half::None)
        };
        (0..3).map(one).collect()
    });
    accepts(&plan);
}

/// Two ranks swap their vectors, then add: a phase reads what the one before left, on both sides at once.
#[test]
fn a_swap_before_an_all_reduce() {
    let mut plan = stars(2);
    plan.units = 2;
    let swap = [(0, 1), (1, 0)].map(|(from, to)| {
        let down = half(&mut plan, &[(from, to, 1)]);
        tree(0..2, from, Half::None, down)
    });
    let all_reduce = std::mem::take(&mut plan.trees);
    let pace = plan.phases.remove(0).pace;
    plan.push_phase(STEPS, swap.into());
    plan.push_phase(pace, all_reduce);
    accepts(&plan);
}

/// A phase reads what the one before left where spans are cut differently.
#[test]
fn phases_with_different_cuts() {
    let mut plan = Plan::new(&spec("full:4"), "by hand", 6);
    for (bit, cuts) in [(1, vec![0, 2, 6]), (2, vec![0, 3, 6])] {
        let mut trees = Vec::new();
        for pair in [0, 1] {
            let low: u32 = if bit == 1 { 2 * pair } else { pair };
            for (number, cut) in cuts.windows(2).enumerate() {
                let root = if number == 0 { low } else { low ^ bit };
                let down = half(&mut plan, &[(root, root ^ bit, 2)]);
                trees.push(tree(cut[0]..cut[1], root, Half::Mirror, down));
            }
        }
        plan.push_phase(STEPS, trees);
    }
    accepts(&plan);
    assert!(every_loss_shows(&plan, 12, |_, _, _| true) > 10);
}

#[test]
fn a_lane_is_the_link_where_there_is_one() {
    let mut plan = Plan::new(&line(), "by hand", 1);
    let lanes = [lane(&mut plan, 0, 1), lane(&mut plan, 0, 2), lane(&mut plan, 0, 1)];
    assert_eq!(lanes.map(|lane| lane.0), [0, 1, 0], "lanes are interned");
}

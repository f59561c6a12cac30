//! Deliberately broken plans: the oracle refuses each and says why.

use crate::common::by_hand::{DOWN, STEPS, UP, changed, in_switch, line, one_tree, own, plan_of, refuses, stars};
use crate::common::{accelerators, cabled, half, one_way, planned, spec, star, tree};
use treefold::plan::check::check;
use treefold::plan::lower;
use treefold::plan::{Chunk, Collective, Draft, Half, LaneId, Pace, Plan, Sharing, Step, Tree};
use treefold::topology::NodeId;
use treefold::units::Bandwidth;

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
fn doubled_sums(doublings: usize) -> Draft {
    let mut plan = Draft::new(&spec("full:3"), "by hand", 1);
    push_all_reduce(&mut plan, &[0, 1, 2]);
    (0..doublings).for_each(|_| push_all_reduce(&mut plan, &[1, 2]));
    plan
}

/// A phase in which the first of these ranks adds up what they have, and gives it to the others.
fn push_all_reduce(plan: &mut Draft, ranks: &[u32]) {
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
        let trees = |plan: &mut Draft| {
            let down = half(plan, &[(0, 1, 0), (1, 2, 0)]);
            vec![Tree { chunk, ..tree(0..1, 0, Half::Mirror, down) }]
        };
        plan_of(&line(), 1, Pace::Stream, trees)
    };
    check(&chunked(Chunk::Count(1 << 18))).unwrap();
    refuses(&chunked(Chunk::Count((1 << 18) + 1)), "make 1048580 transfers; treefold handles 1048576, so use fewer");
    let bytes = chunked(Chunk::Bytes(1)).prove().unwrap();
    assert!(lower(&bytes, 1 << 18, 8).unwrap_err().to_string().contains("use fewer chunks"));
    let simulated =
        treefold::sim::flow::simulate(&bytes, treefold::units::Bytes::known(1 << 21), treefold::sim::Watch::NOTHING);
    assert!(simulated.unwrap_err().to_string().contains("use fewer chunks"));
    let lonely = plan_of(&spec("full:1"), 1, Pace::Stream, |_| {
        vec![Tree { chunk: Chunk::Count((1 << 20) + 1), ..tree(0..1, 0, Half::Mirror, Half::Own(0..0)) }]
    });
    refuses(&lonely, "make 1048577 transfers");
}

#[test]
fn what_does_not_exist() {
    let ring = || Draft::from(planned("ring", "ring:4"));
    type Change = fn(&mut Draft);
    let changes: [(Change, &str); 8] = [
        (|plan| plan.trees.truncate(3), "phase 0 lists trees 0..4, but it has to begin at tree 0 of 3"),
        (|plan| plan.phases[0].trees.end = 3, "tree 3 is in no phase"),
        (|plan| plan.phases[0].trees.start = 1, "phase 0 lists trees 1..4"),
        (|plan| plan.edges.step.truncate(23), "24 lanes of edges but 23 steps"),
        (|plan| plan.edges.lane[0] = LaneId(9), "an edge has lane 9, but the plan has 4 lanes"),
        (|plan| plan.trees[2].root = NodeId(4), "tree 2: its root 4 is none of the 4 nodes"),
        (|plan| own(&mut plan.trees[3].up).end = 99, "tree 3: it has the edges 18..99, but the plan has 24"),
        (|plan| _ = plan.lanes.routed(NodeId(0), NodeId(7)), "lane 4 refers to a node or a link that ring:4 does"),
    ];
    for (change, expected) in changes {
        refuses(&changed(ring(), change), expected);
    }
}

#[test]
fn more_phases_than_schedules_can_number() {
    let plan = changed(doubled_sums(0), |plan| (1..1 << 16).for_each(|_| plan.push_phase(STEPS, Vec::new())));
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
    refuses(&plan, "cut edges into 537034752 pieces; treefold handles 268435456, so cut the vector less often");
}

/// Two trees each give one rank the sum, which is right as an all-reduce; turned to another root they would both give
/// it to everyone.
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
        "it broadcasts in step 2, but still reduces in step 2",
    );
}

#[test]
fn step_0() {
    refuses(&one_tree(&line(), 0, &[(1, 0, 2), (2, 1, 0)], &DOWN), "R2 -> R1 in step 0 does not fit");
    let mirrored = changed(stars(3), |plan| plan.edges.step[0] = None);
    refuses(&mirrored, "does not fit");
}

#[test]
fn a_step_beyond_the_phase() {
    let steps = |steps| changed(one_tree(&line(), 0, &UP, &DOWN), |plan| plan.phases[0].steps = Step::new(steps));
    refuses(&steps(3), "phase 1: tree 0 has an edge in step 4, but the phase has 3 steps");
    refuses(&steps(0), "phase 1: tree 0 has an edge in step 2, but the phase has 0 steps");
    refuses(&steps(u16::MAX), "phase 1: it has 65535 steps, but treefold handles 65534");
}

/// The steps of a mirrored half are counted back from the last one of the phase.
#[test]
fn a_mirrored_step_beyond_the_phase() {
    for step in [5, u16::MAX] {
        let plan = changed(stars(4), |plan| *plan.edges.step.last_mut().unwrap() = Step::new(step));
        refuses(&plan, &format!("phase 1: tree 3 has an edge in step {step}, but the phase has 2 steps"));
    }
}

#[test]
fn a_link_used_twice_in_a_step() {
    // Rank 2 sends to rank 0 through rank 1, whose own message needs the same link in the same step.
    let plan = plan_of(&line(), 2, Pace::Step(Sharing::Transfers(Bandwidth::known(1e9))), |plan| {
        let up = half(plan, &[(1, 0, 1), (2, 0, 1)]);
        let down = half(plan, &[(0, 1, 2), (0, 2, 3)]);
        vec![tree(0..2, 0, up, down)]
    });
    refuses(&plan, "link R1 -> R0 carries more than 1 message(s) in step 1");
    check(&changed(plan.clone(), |plan| plan.phases[0].pace = Pace::Step(Sharing::Transfers(Bandwidth::known(5e8)))))
        .unwrap();
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
    let unit = Bandwidth::known(16e9);
    refuses(&two_trees(Sharing::Transfers(unit)), "carries more than 1 message(s) in step 1");
    check(&two_trees(Sharing::Messages(unit))).unwrap();
    check(&two_trees(Sharing::Transfers(Bandwidth::known(8e9)))).unwrap();
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

#[test]
fn a_switch_that_joins_or_fans_out_but_cannot() {
    refuses(&in_switch(false, true), "switch S0 has to add 3 operands but cannot reduce");
    refuses(&in_switch(true, false), "switch S0 has to send to 3 children but cannot multicast");
}

#[test]
fn a_switch_that_broadcasts_or_gets_the_sum() {
    for collective in [Collective::Broadcast, Collective::Reduce] {
        let plan = changed(in_switch(true, true), |plan| plan.collective = collective);
        refuses(
            &plan,
            &format!("a {collective} needs a rank as its root, but the first tree has the root S0, which is none"),
        );
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
    refuses(&plan, "R1 is no rank, and may only relay");
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
    refuses(&plan, "R1 sends a part of the vector that it does not have");
}

#[test]
fn a_tree_that_nobody_contributes_to() {
    let plan = plan_of(&star(2, true, true), 1, STEPS, |plan| {
        let down = half(plan, &[(2, 0, 1), (2, 1, 1)]);
        vec![tree(0..1, 2, Half::None, down)]
    });
    refuses(&plan, "the tree at S0 has no rank that contributes");
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

//! Broken plans of the other collectives, and what no collective can be derived from: each is refused with its reason.

use crate::common::by_hand::{accepts, changed, one_tree, own, plan_of, refuses, stars};
use crate::common::{half, planned, spec, star, tree};
use treefold::plan::check::check;
use treefold::plan::{Collective, Half, Pace, Step, derive};
use treefold::topology::NodeId;

#[test]
fn a_plan_whose_trees_serve_a_part_of_the_ranks_is_not_turned_into_other_collectives() {
    let plan = plan_of(&spec("full:3"), 1, Pace::Stream, |plan| {
        let (to_zero, to_two) = (half(plan, &[(1, 0, 0), (2, 0, 0)]), half(plan, &[(1, 2, 0), (0, 2, 0)]));
        let (from_zero, from_two) = (half(plan, &[(0, 1, 0)]), half(plan, &[]));
        vec![tree(0..1, 0, to_zero, from_zero), tree(0..1, 2, to_two, from_two)]
    });
    let plan = accepts(&plan);
    for collective in Collective::ALL.into_iter().filter(|&other| other != Collective::AllReduce) {
        let error = derive(plan.clone(), collective, NodeId(1)).unwrap_err();
        assert!(error.is_misfit());
        let error = error.to_string();
        assert!(error.contains(&format!("cannot do {collective}: its trees do not each reduce from")), "{error}");
    }
}

#[test]
fn only_an_all_reduce_is_turned_into_other_collectives() {
    let broadcast = derive(stars(4).unchecked(), Collective::Broadcast, NodeId(0)).unwrap();
    let error = derive(broadcast, Collective::AllReduce, NodeId(0)).unwrap_err().to_string();
    assert!(error.starts_with("the plan is for broadcast; derive all-reduce from"), "{error}");
}

#[test]
fn a_tree_that_carries_nothing_is_left_out_of_other_collectives() {
    let plan = changed(planned("ring", "fattree:4,2"), |plan| {
        let switch = plan.ranks();
        let nothing = tree(0..0, switch, Half::None, Half::None);
        plan.trees.push(nothing);
        plan.phases[0].trees.end += 1;
    });
    let plan = accepts(&plan);
    for collective in Collective::ALL {
        accepts(&derive(plan.clone(), collective, NodeId(2)).unwrap());
    }
}

#[test]
fn more_units_than_blocks_can_have() {
    let plan = changed(stars(4), |plan| plan.units = (1 << 46) + 1);
    assert!(
        derive(plan.unchecked(), Collective::AllGather, NodeId(0))
            .unwrap_err()
            .to_string()
            .contains("cut the vector less often")
    );
}

#[test]
fn the_wrong_root_for_reduce_scatter() {
    let plan = changed(derive(stars(4).unchecked(), Collective::ReduceScatter, NodeId(0)).unwrap(), |plan| {
        let span = plan.trees[0].span.clone();
        plan.trees[0].span = plan.trees[1].span.clone();
        plan.trees[1].span = span;
    });
    refuses(&plan, "units 0..1: GPU0 ends with no result");
}

#[test]
fn blocks_that_are_no_whole_units() {
    let plan = changed(derive(stars(4).unchecked(), Collective::AllGather, NodeId(0)).unwrap(), |plan| plan.units = 5);
    refuses(&plan, "5 units do not divide into 4 blocks");
}

#[test]
fn an_all_gather_of_somebody_elses_block() {
    let plan = changed(derive(stars(4).unchecked(), Collective::AllGather, NodeId(0)).unwrap(), |plan| {
        plan.trees[0].root = NodeId(1)
    });
    refuses(&plan, "hangs from GPU0, which is not in the tree");
    let plan = changed(derive(stars(4).unchecked(), Collective::AllGather, NodeId(0)).unwrap(), |plan| {
        plan.trees[0].span = 1..2
    });
    refuses(&plan, "units 0..1: GPU1 ends with no result");
}

#[test]
fn an_all_to_all_that_forgets_a_rank_or_a_block() {
    let all_to_all = || derive(stars(4).unchecked(), Collective::AllToAll, NodeId(0)).unwrap();
    check(&all_to_all()).unwrap();
    refuses(
        &changed(all_to_all(), |plan| own(&mut plan.trees[2].down).end -= 1),
        "the tree at GPU2 does not reach GPU3, for which it has a block",
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
        plan.phases[0].steps = Step::new(2);
    });
    refuses(&plan, "the tree at S0 has no block to send");
}

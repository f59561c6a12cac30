//! Hand-made plans of kinds that no planner makes yet, which both oracles accept.

use crate::common::by_hand::{STEPS, accepts, changed, in_switch, line, one_tree, plan_of, stars};
use crate::common::losses::every_loss_shows;
use crate::common::{accelerators, cabled, half, lane, spec, tree};
use treefold::plan::lower;
use treefold::plan::schedule::Op;
use treefold::plan::{Chunk, Collective, Draft, Half, Pace, Tree, derive};
use treefold::topology::{Abilities, Node, NodeId};

#[test]
fn switches_that_reduce_and_multicast() {
    accepts(&in_switch(true, true));
    let streamed = changed(in_switch(true, true), |plan| {
        (plan.phases[0].pace, plan.phases[0].steps) = (Pace::Stream, None);
        plan.edges.step.fill(None);
        plan.trees[0].chunk = Chunk::Count(3);
    });
    let streamed = accepts(&streamed);
    assert_eq!(lower(&streamed, 64, 8).unwrap().len(), 3 * 6);
}

/// In-network pull: the requesting accelerator is the root, the switches of two levels are inner nodes, and the
/// two halves are the same tree.
#[test]
fn a_tree_with_switches_inside() {
    let mut nodes = accelerators(4);
    nodes.extend([0, 1, 2].map(|i| Node::switch(format!("S{i}"), Abilities::BOTH)));
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
    for collective in Collective::ALL {
        accepts(&derive(plan.clone().unchecked(), collective, NodeId(2)).unwrap());
    }
}

/// In-network push: everyone sends to the home switch over routes that nothing joins on the way; the result comes
/// down a tree of switches.
#[test]
fn a_star_into_a_switch_and_a_tree_out_of_it() {
    let mut nodes = accelerators(3);
    let switch = |name: &str, reduces| Node::switch(name, Abilities { reduces, multicasts: true });
    nodes.extend([switch("home", true), switch("leaf", false)]);
    let topology = cabled(nodes, &[(0, 4), (1, 4), (2, 4), (4, 3)], None);
    accepts(&one_tree(&topology, 3, &[(0, 3, 1), (1, 3, 1), (2, 3, 1)], &[(3, 4, 2), (4, 0, 3), (4, 1, 3), (4, 2, 3)]));
}

/// Phases in each of which every rank gets its partner's whole vector: reduce-only trees over the same span.
fn recursive_doubling(pace: Pace, chunk: Chunk) -> Draft {
    let mut plan = Draft::new(&spec("full:8"), "recursive doubling", 1);
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
    let plan = accepts(&recursive_doubling(STEPS, Chunk::One));
    assert_eq!(plan.steps(), Some(3));
    assert!(every_loss_shows(&plan, 4, |_, _, _| true) > 10);
}

/// Chunks end inside spans: the next phase must wait for the chunk that it touches.
#[test]
fn recursive_doubling_in_chunks() {
    accepts(&recursive_doubling(Pace::Stream, Chunk::Count(4)));
}

/// Everybody sends its whole vector to everybody.
fn exchange() -> Draft {
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
    let plan = accepts(&exchange());
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
    let (with_empty, without) = (accepts(&with_empty), accepts(&exchange()));
    assert_eq!(lower(&with_empty, 64, 8).unwrap().len(), lower(&without, 64, 8).unwrap().len());
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
    let mut plan = Draft::new(&spec("full:4"), "by hand", 6);
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
    let plan = accepts(&plan);
    assert!(every_loss_shows(&plan, 12, |_, _, _| true) > 10);
}

#[test]
fn a_lane_is_the_link_where_there_is_one() {
    let mut plan = Draft::new(&line(), "by hand", 1);
    let lanes = [lane(&mut plan, 0, 1), lane(&mut plan, 0, 2), lane(&mut plan, 0, 1)];
    assert_eq!(lanes.map(|lane| lane.0), [0, 1, 0], "lanes are interned");
}

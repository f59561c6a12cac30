//! Small published examples, worked by hand.
//!
//! MultiTree (ISCA 2021), Fig. 5: the schedule tables of the 2x2 mesh. In the paper's tables accelerator 0 is the
//! Y neighbour of 2 and the X neighbour of 1, which is our row-major numbering, and neighbours are tried Y before X.
//! Algorithm 1 by hand, links in the order in which they are taken: step 1: 0-2, 1-3, 2-0, 3-1 (Y), then 0-1, 1-0,
//! 2-3, 3-2 (X; the last one is the paper's "sequence number 7"); step 2: tree 0 asks 0, then 2: 2-3; tree 1 3-2;
//! tree 2 0-1; tree 3 1-0. So the paper's tables arise without any freedom of choice. Erratum: accelerator 2's own
//! Gather is of flow 2, not 1.

mod common;

use common::planned;
use treefold::plan::{Direction, Plan};
use treefold::topology::NodeId;

/// Op, FlowID, Parent, Children, Step.
type Entry = (&'static str, usize, Option<NodeId>, Vec<NodeId>, u16);

/// One Reduce a flow that `node` is not the root of; one Gather a flow and step in which it has children to serve.
fn table(plan: &Plan, node: NodeId) -> Vec<Entry> {
    let phase = &plan.phases[0];
    let mut entries: Vec<Entry> = Vec::new();
    for (flow, tree) in plan.trees.iter().enumerate() {
        let (parent, children) = family(plan, flow, Direction::Up, node);
        entries.extend(parent.map(|(parent, step)| ("Reduce", flow, Some(parent), sorted(&children), step)));
        let (parent, children) = family(plan, flow, Direction::Down, node);
        let mut steps: Vec<u16> = children.iter().map(|child| child.1).collect();
        steps.sort_unstable();
        steps.dedup();
        for step in steps {
            let served: Vec<_> = children.iter().copied().filter(|child| child.1 == step).collect();
            entries.push(("Gather", flow, parent.map(|parent| parent.0), sorted(&served), step));
        }
        assert_eq!(tree.units() * plan.trees.len() as u64, plan.units, "equal shares");
    }
    assert_eq!(plan.phases.len(), 1, "{phase:?}");
    entries.sort_by_key(|&(op, flow, _, ref children, step)| (step, op, !children.is_empty(), flow));
    entries
}

/// A neighbour in a tree and the step of the edge to it.
type Relative = (NodeId, u16);

/// Parent and children of `node` in one half of a tree.
fn family(plan: &Plan, flow: usize, direction: Direction, node: NodeId) -> (Option<Relative>, Vec<Relative>) {
    let edges: Vec<_> = plan.half(&plan.phases[0], &plan.trees[flow], direction).collect();
    let parent = edges.iter().find(|edge| edge.child == node).map(|edge| (edge.parent, edge.step));
    (parent, edges.iter().filter(|edge| edge.parent == node).map(|edge| (edge.child, edge.step)).collect())
}

fn sorted(relatives: &[Relative]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = relatives.iter().map(|relative| relative.0).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn multitree_makes_the_tables_of_figure_5() {
    let plan = planned("multitree", "mesh:2x2");
    let expected: [[Entry; 5]; 4] = [
        [
            ("Reduce", 3, Some(1), vec![], 1),
            ("Reduce", 1, Some(1), vec![], 2),
            ("Reduce", 2, Some(2), vec![1], 2),
            ("Gather", 0, None, vec![1, 2], 3),
            ("Gather", 2, Some(2), vec![1], 4),
        ],
        [
            ("Reduce", 2, Some(0), vec![], 1),
            ("Reduce", 0, Some(0), vec![], 2),
            ("Reduce", 3, Some(3), vec![0], 2),
            ("Gather", 1, None, vec![0, 3], 3),
            ("Gather", 3, Some(3), vec![0], 4),
        ],
        [
            ("Reduce", 1, Some(3), vec![], 1),
            ("Reduce", 3, Some(3), vec![], 2),
            ("Reduce", 0, Some(0), vec![3], 2),
            ("Gather", 2, None, vec![0, 3], 3),
            ("Gather", 0, Some(0), vec![3], 4),
        ],
        [
            ("Reduce", 0, Some(2), vec![], 1),
            ("Reduce", 2, Some(2), vec![], 2),
            ("Reduce", 1, Some(1), vec![2], 2),
            ("Gather", 3, None, vec![1, 2], 3),
            ("Gather", 1, Some(1), vec![2], 4),
        ],
    ];
    for (node, expected) in (0..).zip(expected) {
        assert_eq!(table(&plan, node), expected, "accelerator {node}");
    }
    assert_eq!(plan.steps(), Some(4));
}

/// Parent of each rank in a tree's broadcast half.
fn parents(plan: &Plan, number: usize) -> Vec<Option<NodeId>> {
    let mut parents = vec![None; plan.ranks() as usize];
    let edges = plan.half(&plan.phases[0], &plan.trees[number], Direction::Down);
    edges.for_each(|edge| parents[edge.child as usize] = Some(edge.parent));
    parents
}

/// The drawing of 14 ranks in NCCL's `trees.cc`; the second tree has the ranks mirrored.
#[test]
fn dbtree_is_the_one_drawn_in_nccl() {
    let drawn = [0, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12];
    let plan = planned("dbtree", "full:14");
    let first: Vec<Option<NodeId>> = (0..14).map(|rank| (rank > 0).then(|| drawn[rank])).collect();
    assert_eq!(parents(&plan, 0), first);
    let mirrored: Vec<Option<NodeId>> =
        first.into_iter().rev().map(|parent| parent.map(|parent| 13 - parent)).collect();
    assert_eq!(parents(&plan, 1), mirrored);
}

/// NCCL shifts an odd number of ranks by one instead.
#[test]
fn dbtree_shifts_an_odd_number_of_ranks() {
    let plan = planned("dbtree", "full:5");
    assert_eq!(parents(&plan, 0), [None, Some(2), Some(4), Some(2), Some(0)]);
    assert_eq!(parents(&plan, 1), [Some(1), None, Some(3), Some(0), Some(3)]);
}

/// Four ranks: chunk 2 starts behind rank 2, at rank 3, and goes round twice less two hops.
#[test]
fn ring_sends_each_chunk_round_from_behind_its_root() {
    let plan = planned("ring", "ring:4");
    let phase = &plan.phases[0];
    let tree = plan.trees.iter().find(|tree| tree.root == 2).unwrap();
    let hops = |direction| {
        let edges = plan.half(phase, tree, direction);
        edges.map(|edge| (edge.ends(direction).0, edge.ends(direction).1, edge.step)).collect::<Vec<_>>()
    };
    assert_eq!(hops(Direction::Up), [(1, 2, 3), (0, 1, 2), (3, 0, 1)]);
    assert_eq!(hops(Direction::Down), [(2, 3, 4), (3, 0, 5), (0, 1, 6)]);
}

//! Small published examples, worked by hand.
//!
//! MultiTree (ISCA 2021), Fig. 5: the schedule tables of the 2x2 mesh. In the paper's tables accelerator 0 is the
//! Y neighbour of 2 and the X neighbour of 1, which is our row-major numbering, and neighbours are tried Y before X.
//! Algorithm 1 by hand, links in the order in which they are taken: step 1: 0-2, 1-3, 2-0, 3-1 (Y), then 0-1, 1-0,
//! 2-3, 3-2 (X; the last one is the paper's "sequence number 7"); step 2: tree 0 asks 0, then 2: 2-3; tree 1 3-2;
//! tree 2 0-1; tree 3 1-0. So the paper's tables arise without any freedom of choice. Erratum: accelerator 2's own
//! Gather is of flow 2, not 1.

use std::collections::{HashMap, HashSet};

use crate::common::planned;
use treefold::plan::lower_in_chunks;
use treefold::plan::tables::{self, Tables};
use treefold::plan::{Direction, Plan};
use treefold::topology::NodeId;

/// Op, FlowID, Parent, Children, Step.
type Entry = (&'static str, u32, Option<u32>, Vec<u32>, u32);

/// The tables of `plan` for a vector of 64 KiB.
fn tables(plan: &Plan) -> Tables {
    let schedule = tables::lower_for_interfaces(plan, 1 << 14, 4).unwrap();
    Tables::new(plan, &schedule, 4, tables::lockstep(plan)).unwrap()
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
    let tables = tables(&plan);
    for (node, expected) in expected.into_iter().enumerate() {
        let entry = |entry: &tables::Entry| {
            let tables::Entry { op, flow, parent, ref children, step, .. } = *entry;
            (op.name(), flow, parent, children.clone(), step)
        };
        let table = &tables.of_rank[node];
        assert_eq!(table.iter().map(entry).collect::<Vec<_>>(), expected, "accelerator {node}");
        let parts = table.iter().map(|entry| (entry.start, entry.size));
        let quarters = table.iter().map(|entry| (u64::from(entry.flow) << 14, 1 << 14));
        assert!(parts.eq(quarters), "accelerator {node}: each tree carries its quarter");
    }
    assert_eq!((plan.steps(), tables.steps), (Some(4), 4));
}

/// Section V-A: a table entry of 200 bits for 64 nodes, at most two entries a tree where all children are served in one
/// step.
#[test]
fn tables_of_64_nodes_fit_into_the_paper_s_hardware() {
    let tables = tables(&planned("multitree", "torus:8x8"));
    assert_eq!(tables.entry_bits(), 200);
    assert!(tables.entries() <= 128, "{}", tables.entries());
}

/// A NOP stands for every step before a rank's last in which it sends nothing.
#[test]
fn tables_wait_out_idle_steps() {
    for table in &tables(&planned("multitree", "mesh:4x4")).of_rank {
        let mut steps: Vec<u32> = table.iter().map(|entry| entry.step).collect();
        steps.dedup();
        assert_eq!(steps, (1..=*steps.last().unwrap()).collect::<Vec<_>>());
    }
}

/// Sanders' colouring: in each half a rank sends one message a step and receives one, and chunks follow every other
/// step.
#[test]
fn the_double_binary_tree_starts_a_chunk_every_two_steps() {
    let plan = planned("dbtree", "full:16");
    let schedule = lower_in_chunks(&plan, 1 << 14, 8);
    let (mut first, mut used) = (HashMap::new(), HashSet::new());
    for (rank, table) in tables(&plan).of_rank.iter().enumerate() {
        for (entry, &send) in table.iter().flat_map(|entry| entry.sends.iter().map(move |send| (entry, send))) {
            let (target, chunk) = (schedule.target[send], schedule.chunk[send]);
            let start = entry.step - 2 * chunk;
            assert_eq!(*first.entry((entry.op as u8, entry.flow, rank, target)).or_insert(start), start);
            assert!(used.insert((entry.op as u8, "sends", rank, entry.step)), "rank {rank}, step {}", entry.step);
            assert!(used.insert((entry.op as u8, "receives", target.index(), entry.step)), "rank {target}");
        }
    }
}

/// Parent of each rank in a tree's broadcast half.
fn parents(plan: &Plan, number: usize) -> Vec<Option<u32>> {
    let mut parents = vec![None; plan.ranks() as usize];
    let edges = plan.half(&plan.phases[0], &plan.trees[number], Direction::Down);
    edges.for_each(|edge| parents[edge.child] = Some(edge.parent.0));
    parents
}

/// The drawing of 14 ranks in NCCL's `trees.cc`; the second tree has the ranks mirrored.
#[test]
fn dbtree_is_the_one_drawn_in_nccl() {
    let drawn = [0, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12];
    let plan = planned("dbtree", "full:14");
    let first: Vec<Option<u32>> = (0..14).map(|rank| (rank > 0).then(|| drawn[rank])).collect();
    assert_eq!(parents(&plan, 0), first);
    let mirrored: Vec<Option<u32>> = first.into_iter().rev().map(|parent| parent.map(|parent| 13 - parent)).collect();
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
    let tree = plan.trees.iter().find(|tree| tree.root == NodeId(2)).unwrap();
    let hops = |direction| {
        let edges = plan.half(phase, tree, direction);
        edges
            .map(|edge| (edge.ends(direction).0.0, edge.ends(direction).1.0, edge.step.unwrap().get()))
            .collect::<Vec<_>>()
    };
    assert_eq!(hops(Direction::Up), [(1, 2, 3), (0, 1, 2), (3, 0, 1)]);
    assert_eq!(hops(Direction::Down), [(2, 3, 4), (3, 0, 5), (0, 1, 6)]);
}

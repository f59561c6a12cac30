//! The fast MultiTree grows exactly the trees of the paper's Algorithm 1, taken line by line.

use std::sync::Arc;

use treefold::plan::Direction;
use treefold::planners::{self, Options, options::TreeOrder};
use treefold::topology::{LinkId, from_spec};

#[path = "common/algorithm1.rs"]
mod literal;

#[test]
fn the_fast_planner_grows_the_trees_of_algorithm_1() {
    for spec in [
        "torus:4x4",
        "torus:5x3",
        "torus:2x3",
        "torus:3x3x3",
        "mesh:4x5",
        "hypercube:4",
        "ring:7",
        "line:6",
        "full:9",
        "b4",
        "random:n=17,links=31,seed=5",
        "random:n=40,links=70,seed=9",
        "torus:12x12",
    ] {
        let topology = Arc::new(from_spec(spec, None, None).unwrap());
        let options = Options { tree_order: Some(TreeOrder::Ascending), ..Options::default() };
        let plan = planners::plan("multitree", &topology, &options).unwrap();
        let phase = &plan.phases[0];
        for (tree, expected) in plan.trees.iter().zip(literal::all_gather_trees(&topology)) {
            let link = |lane| plan.lanes.links(lane)[0];
            let mut edges: Vec<(LinkId, u16)> = plan
                .half(phase, tree, Direction::Down)
                .map(|edge| (link(edge.lane.lane()), edge.step.unwrap().get() - phase.steps.unwrap().get() / 2))
                .collect();
            let mut expected = expected.clone();
            edges.sort_unstable();
            expected.sort_unstable();
            assert_eq!(edges, expected, "{spec}, tree of {}", tree.root);
        }
    }
}

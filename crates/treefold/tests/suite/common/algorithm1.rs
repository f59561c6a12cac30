//! MultiTree's Algorithm 1 as the paper prints it, line by line, for direct networks. Slow and obviously right:
//! the planner's oracle in tests and its rival in benches.

use treefold::topology::{LinkId, NodeId, Topology};

/// For each root, the links that its all-gather tree takes and their time steps, in order of joining.
pub fn all_gather_trees(topology: &Topology) -> Vec<Vec<(LinkId, u16)>> {
    let count = topology.ranks() as usize;
    // Nodes of each tree with the step in which they joined (roots: 0).
    let mut nodes: Vec<Vec<(NodeId, u16)>> = topology.rank_ids().map(|root| vec![(root, 0)]).collect();
    let mut edges = vec![Vec::new(); count];
    let mut step = 0;
    while nodes.iter().any(|tree| tree.len() < count) {
        step += 1;
        let mut free = vec![true; topology.links().len()];
        let mut added = true;
        while added {
            added = false;
            for tree in 0..count {
                if let Some(link) = next_link(topology, &nodes[tree], step, &free) {
                    free[link] = false;
                    nodes[tree].push((topology.link(link).target, step));
                    edges[tree].push((link, step));
                    added = true;
                }
            }
        }
    }
    edges
}

/// Lines 9 to 14: the first free link from a node of an earlier step to a node that the tree lacks.
fn next_link(topology: &Topology, tree: &[(NodeId, u16)], step: u16, free: &[bool]) -> Option<LinkId> {
    let joined_before = tree.iter().filter(|(_, joined)| *joined < step);
    let mut links = joined_before.flat_map(|(node, _)| topology.outgoing(*node));
    let lacks = |node: NodeId| tree.iter().all(|(member, _)| *member != node);
    links.find(|&&link| free[link] && lacks(topology.link(link).target)).copied()
}

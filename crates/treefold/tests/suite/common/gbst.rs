//! MTree's Algorithms 1 and 2 as the paper prints them, with the errata; if asked for with our limit on a tree's rate,
//! and with our other starts where one fails: slow and obviously right. Heights are those of all rooted trees, each
//! computed anew by a walk.

use treefold::planners::{Options, Starts, TreeRate};
use treefold::random::Random;
use treefold::topology::{LinkId, NodeId, Topology};

/// A cable: its lesser link, its ends, its length.
#[derive(Clone, Copy)]
pub struct Cable {
    pub link: LinkId,
    pub ends: [NodeId; 2],
    pub length: u64,
}

/// Root, cables (rising) and rate of each tree; `None` where no start finds a first tree.
pub type Trees = Option<Vec<(NodeId, Vec<LinkId>, f64)>>;

/// Algorithm 1.
pub fn trees(topology: &Topology, cables: &[Cable], options: &Options, height: u64) -> Trees {
    let least_rate = options.least_rate.expect("a least rate is given").bytes_per_second();
    let mut capacity: Vec<f64> =
        cables.iter().map(|cable| topology.link(cable.link).bandwidth.bytes_per_second()).collect();
    let mut random = Random::new(options.seed);
    let most_rate = match options.tree_rate {
        TreeRate::Quarter => (0.25 * capacity.iter().copied().fold(0.0, f64::max)).max(least_rate),
        TreeRate::All => f64::INFINITY,
    };
    let mut found: Vec<(NodeId, Vec<LinkId>, f64)> = Vec::new();
    loop {
        let usable: Vec<usize> = (0..cables.len()).filter(|&cable| capacity[cable] >= least_rate).collect();
        let first = random.below(topology.ranks().into()) as u32;
        let others = if options.starts == Starts::One { 0..0 } else { 0..topology.ranks() - 1 };
        let starts = [first].into_iter().chain(others.map(|turn| (first + 1 + turn) % topology.ranks())).map(NodeId);
        let tree = starts.map(|start| tree(topology, cables, &capacity, &usable, height, start)).find_map(|tree| tree);
        let Some((root, chosen)) = tree else { return (!found.is_empty()).then_some(found) };
        let rate = usable.iter().map(|&cable| capacity[cable]).fold(most_rate, f64::min);
        chosen.iter().for_each(|&cable| capacity[cable] -= rate);
        let mut links: Vec<LinkId> = chosen.iter().map(|&cable| cables[cable].link).collect();
        links.sort_unstable();
        match found.iter_mut().find(|tree| (tree.0, &tree.1) == (root, &links)) {
            Some(again) => again.2 += rate,
            None => found.push((root, links, rate)),
        }
    }
}

/// Lines 3 to 20.
fn tree(
    topology: &Topology,
    cables: &[Cable],
    capacity: &[f64],
    usable: &[usize],
    height: u64,
    start: NodeId,
) -> Option<(NodeId, Vec<usize>)> {
    let (mut members, mut chosen) = (vec![start], Vec::new());
    while members.len() < topology.ranks() as usize {
        let leaves = |cable: usize| cables[cable].ends.iter().filter(|end| members.contains(end)).count() == 1;
        let mut candidates: Vec<usize> = usable.iter().copied().filter(|&cable| leaves(cable)).collect();
        candidates.sort_by(|&a, &b| capacity[b].total_cmp(&capacity[a]));
        let (mut best, mut least) = (None, 2 * height);
        for cable in candidates {
            if best.is_some_and(|best: usize| capacity[cable] < capacity[best]) {
                break;
            }
            let with: Vec<usize> = chosen.iter().copied().chain([cable]).collect();
            let diameter = heights(topology, cables, &with).into_iter().max().unwrap();
            if diameter <= least {
                (best, least) = (Some(cable), diameter);
            }
        }
        chosen.push(best?);
        members.extend(cables[best?].ends.iter().copied().filter(|end| !members.contains(end)).collect::<Vec<_>>());
    }
    let heights = heights(topology, cables, &chosen);
    let root = (0..heights.len()).min_by_key(|&rank| heights[rank])?;
    (heights[root] <= height).then_some((NodeId::new(root), chosen))
}

/// Height of the tree of these cables from every rank that it has; 0 for the others.
pub fn heights(topology: &Topology, cables: &[Cable], chosen: &[usize]) -> Vec<u64> {
    let from = |root: NodeId| {
        let mut queue = vec![(root, None, 0)];
        let mut next = 0;
        while next < queue.len() {
            let (node, parent, far) = queue[next];
            for cable in chosen.iter().map(|&cable| cables[cable]).filter(|cable| cable.ends.contains(&node)) {
                let other = cable.ends[usize::from(cable.ends[0] == node)];
                if Some(other) != parent {
                    queue.push((other, Some(node), far + cable.length));
                }
            }
            next += 1;
        }
        queue.into_iter().map(|(_, _, far)| far).max().unwrap()
    };
    topology.rank_ids().map(from).collect()
}

//! Groups of ranks that are nearer to each other than to the rest, level by level: servers, pods, sites.
//!
//! At a distance of latency, two ranks are in one group if ranks lead from one to the other of which each is no farther
//! from the next than that (single linkage; Florek et al., 1951). Each distance at which groups of equal size come out
//! is a level. The levels of a grid are its dimensions instead. Cost: a search from each rank, and a pass over all
//! pairs for each distance; linear on a grid.

use std::ops::RangeInclusive;

use crate::bound::distances_relayed;
use crate::error::Result;
use crate::topology::{Correspondence, Link, NodeId, Shape, Topology};
use crate::units::Time;

/// The most distances that are tried, the shortest ones.
const MOST_DISTANCES: usize = 16;

/// Ranks in an order in which the groups of every level stand together, and how many groups of one level make one of
/// the next; a single rank is a group of the first.
pub(super) struct Levels {
    pub order: Vec<NodeId>,
    pub sides: Vec<u32>,
    /// The dimensions of the part of a grid that a group of each level has; `None` if groups were found by latency.
    pub grids: Option<Vec<Vec<u32>>>,
    /// The least and the most ranks of a group at the first distance where groups are unequal.
    pub unequal: Option<RangeInclusive<usize>>,
}

impl Levels {
    /// Finds the levels of a network; there is only one side if it has no groups.
    pub fn of(topology: &Topology) -> Self {
        let between: Vec<Vec<Time>> = topology.rank_ids().map(|rank| distances_relayed(topology, rank)).collect();
        let mut distances: Vec<Time> = between.iter().flatten().copied().filter(|&one| one > Time::ZERO).collect();
        distances.sort_unstable();
        distances.dedup();
        let mut levels = Self { order: topology.rank_ids().collect(), sides: Vec::new(), grids: None, unequal: None };
        let mut size = 1;
        for distance in distances.into_iter().take(MOST_DISTANCES) {
            let group = groups(&between, distance);
            let count = group.iter().max().map_or(0, |last| last + 1);
            let mut sizes = vec![0; count];
            group.iter().for_each(|&one| sizes[one] += 1);
            let (least, larger) = (sizes.iter().copied().min().unwrap_or(0), sizes.into_iter().max().unwrap_or(0));
            if least < larger {
                levels.unequal.get_or_insert(least..=larger);
            } else if larger > size {
                levels.sides.push((larger / size) as u32);
                levels.order.sort_by_key(|&rank| group[rank.index()]);
                size = larger;
            }
        }
        if size < levels.order.len() {
            levels.sides.push((levels.order.len() / size) as u32);
        }
        levels
    }

    /// Returns the levels of a grid with these `dims`, each of which has the dimensions that `of_levels` lists in
    /// rising order. A group of a level has the ranks along these dimensions.
    pub fn of_grid(topology: &Topology, dims: &[u32], of_levels: &[Vec<usize>]) -> Self {
        let mut cells = vec![0];
        for level in of_levels {
            let places = level.iter().fold(vec![0], |places, &dimension| {
                let stride: u32 = dims[dimension + 1..].iter().product();
                places.iter().flat_map(|place| (0..dims[dimension]).map(move |at| place + at * stride)).collect()
            });
            cells = places.iter().flat_map(|place| cells.iter().map(move |cell| place + cell)).collect();
        }
        let grids: Vec<Vec<u32>> = of_levels.iter().map(|level| level.iter().map(|&one| dims[one]).collect()).collect();
        Self {
            order: cells.into_iter().map(|cell| topology.node_at(cell)).collect(),
            sides: grids.iter().map(|sides| sides.iter().product()).collect(),
            grids: Some(grids),
            unequal: None,
        }
    }

    /// Returns who exchange data at a level: ranks at the same place of groups of the level before, and the part of the
    /// vector that these ranks hold after all levels before.
    pub fn groups(&self, level: usize) -> Vec<(Vec<NodeId>, Part)> {
        let below: usize = self.sides[..level].iter().map(|&side| side as usize).product();
        let side = self.sides[level] as usize;
        let starts = (0..self.order.len()).filter(|place| (place / below).is_multiple_of(side));
        let group = |start: usize| (0..side).map(|member| self.order[start + member * below]).collect();
        starts.map(|start| (group(start), self.part(start % below, level))).collect()
    }

    /// Returns the part that the rank at this place among those of a group holds before a level.
    fn part(&self, place: usize, level: usize) -> Part {
        let (mut place, mut part) = (place as u64, Part { number: 0, of: 1 });
        for &side in &self.sides[..level] {
            let side = u64::from(side);
            part = Part { number: part.number * side + place % side, of: part.of * side };
            place /= side;
        }
        part
    }
}

/// The part of a vector with this number among so many equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub number: u64,
    pub of: u64,
}

/// Some nodes of a network and the links between them as a network of its own, and where they are in the whole one.
pub(super) struct Alone {
    pub network: Topology,
    pub now: Correspondence,
}

impl Alone {
    /// Returns the network of ranks that are a grid of this shape, in the order of its cells.
    pub fn new(topology: &Topology, ranks: &[NodeId], shape: Shape) -> Result<Self> {
        let mut place = vec![None; topology.nodes().len()];
        ranks.iter().enumerate().for_each(|(number, &rank)| place[rank.index()] = Some(NodeId::new(number)));
        let mut kept = Vec::new();
        let mut links = Vec::new();
        for &rank in ranks {
            for &number in topology.outgoing(rank) {
                let link = topology.link(number);
                if let (Some(source), Some(target)) = (place[link.source.index()], place[link.target.index()]) {
                    links.push(Link { source, target, ..*link });
                    kept.push(Some(number));
                }
            }
        }
        let nodes = ranks.iter().map(|&rank| topology.node(rank).clone()).collect();
        let network = Topology::new(topology.name(), nodes, links, None, shape)?;
        let node = ranks.iter().map(|&rank| Some(rank)).collect();
        Ok(Self { network, now: Correspondence { node, link: kept } })
    }

    /// Returns whether another network differs in the names of its nodes only.
    pub fn is_like(&self, other: &Topology) -> bool {
        self.network.links() == other.links() && self.network.shape() == other.shape()
    }
}

/// Returns the index of each rank among the accelerators, in the order in which these are listed.
pub(super) fn listed(topology: &Topology) -> Vec<u32> {
    let mut listed = vec![0; topology.ranks() as usize];
    let nodes = (0..topology.nodes().len() as u32).map(|place| topology.node_at(place));
    for (index, node) in (0..).zip(nodes.filter(|&node| !topology.node(node).is_switch())) {
        if topology.is_rank(node) {
            listed[node.index()] = index;
        }
    }
    listed
}

/// Returns the number of each rank's group, if no two of its neighbours in a group are farther from each other than
/// `distance`.
fn groups(between: &[Vec<Time>], distance: Time) -> Vec<usize> {
    let mut group = vec![usize::MAX; between.len()];
    let mut count = 0;
    for first in 0..between.len() {
        if group[first] != usize::MAX {
            continue;
        }
        let mut stack = vec![first];
        group[first] = count;
        while let Some(rank) = stack.pop() {
            for other in 0..between.len() {
                if group[other] == usize::MAX && between[rank][other].max(between[other][rank]) <= distance {
                    group[other] = count;
                    stack.push(other);
                }
            }
        }
        count += 1;
    }
    group
}

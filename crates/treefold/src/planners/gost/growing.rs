//! A tree that is growing: GRTH (Algorithm 2), which is kept up to date instead of computed anew.

use super::cables::Cables;
use crate::topology::NodeId;

pub(super) struct Growing<'a> {
    cables: &'a Cables,
    members: Vec<NodeId>,
    is_member: Vec<bool>,
    /// The distance between any two members over the tree, row after row.
    distance: Vec<u64>,
    /// The distance of each member to its farthest one, the paper's D: the height of the tree if it were rooted there.
    farthest: Vec<u64>,
    diameter: u64,
    chosen: Vec<usize>,
}

impl<'a> Growing<'a> {
    pub fn new(cables: &'a Cables, start: NodeId) -> Self {
        let ranks = cables.ranks();
        let mut tree = Self {
            cables,
            members: vec![start],
            is_member: vec![false; ranks],
            distance: vec![0; ranks * ranks],
            farthest: vec![0; ranks],
            diameter: 0,
            chosen: Vec::with_capacity(ranks - 1),
        };
        tree.is_member[start] = true;
        tree
    }

    /// Grows the whole tree; returns its root and its cables. `order` lists the cables that may be used, widest first.
    pub fn span(mut self, capacity: &[f64], order: &[usize], height: u64) -> Option<(NodeId, Vec<usize>)> {
        while self.members.len() < self.cables.ranks() {
            let next = self.next(capacity, order, 2 * height)?;
            self.add(next);
        }
        let root = (0..self.cables.ranks()).min_by_key(|&rank| self.farthest[rank])?;
        (self.farthest[root] <= height).then_some((NodeId::new(root), self.chosen))
    }

    /// Returns the widest cable to a new rank within the diameter; of equally wide ones the last that increases it
    /// least.
    fn next(&self, capacity: &[f64], order: &[usize], diameter: u64) -> Option<usize> {
        let (mut best, mut least) = (None, diameter);
        for &cable in order {
            if best.is_some_and(|best: usize| capacity[cable] < capacity[best]) {
                break;
            }
            if let Some((inner, _)) = self.leaving(cable) {
                let after = self.diameter.max(self.farthest[inner] + self.cables.length[cable]);
                if after <= least {
                    (best, least) = (Some(cable), after);
                }
            }
        }
        best
    }

    /// Returns the end of a cable within the tree and the end outside it, if there is one of each.
    fn leaving(&self, cable: usize) -> Option<(usize, usize)> {
        let (a, b) = ((self.cables.ends[cable].0).index(), (self.cables.ends[cable].1).index());
        match (self.is_member[a], self.is_member[b]) {
            (true, false) => Some((a, b)),
            (false, true) => Some((b, a)),
            _ => None,
        }
    }

    fn add(&mut self, cable: usize) {
        let (inner, new) = self.leaving(cable).expect("chosen because it leaves the tree");
        let (ranks, length) = (self.cables.ranks(), self.cables.length[cable]);
        for &member in &self.members {
            let member = member.index();
            let far = self.distance[inner * ranks + member] + length;
            self.distance[new * ranks + member] = far;
            self.distance[member * ranks + new] = far;
            self.farthest[member] = self.farthest[member].max(far);
            self.farthest[new] = self.farthest[new].max(far);
        }
        self.diameter = self.diameter.max(self.farthest[new]);
        self.members.push(NodeId::new(new));
        self.is_member[new] = true;
        self.chosen.push(cable);
    }
}

//! Maximum flow by shortest augmenting paths (Ahuja and Orlin 1991), on a network whose capacities at the terminals
//! change between runs.
//!
//! Capacities are real numbers. Residuals below a small part of the largest capacity count as zero, so that rounding
//! cannot keep the search alive. The cuts are therefore exact as sets; a caller that needs the exact capacity of one
//! adds up the original capacities over it. Cost: O(V^2 E) at worst, and nearly linear on the networks here.

use crate::ids::NodeId;
use crate::search::BreadthFirst;

/// A flow network. Arcs come in pairs: arc `2 k` and its reverse `2 k + 1`.
pub(super) struct FlowNetwork {
    target: Vec<u32>,
    capacity: Vec<f64>,
    residual: Vec<f64>,
    arcs_of: Vec<Vec<u32>>,
    distance: Vec<u32>,
    nodes_at: Vec<u32>,
    next: Vec<u32>,
    noise: f64,
}

impl FlowNetwork {
    pub fn new(nodes: usize) -> Self {
        Self {
            target: Vec::new(),
            capacity: Vec::new(),
            residual: Vec::new(),
            arcs_of: vec![Vec::new(); nodes],
            distance: vec![0; nodes],
            nodes_at: vec![0; nodes + 1],
            next: vec![0; nodes],
            noise: 0.0,
        }
    }

    /// Adds an arc with a capacity in each direction; returns its number for [`Self::set_capacity`].
    pub fn add(&mut self, from: usize, to: usize, forward: f64, backward: f64) -> usize {
        let arc = self.target.len();
        for (at, end, capacity) in [(from, to, forward), (to, from, backward)] {
            self.arcs_of[at].push(self.target.len() as u32);
            self.target.push(end as u32);
            self.capacity.push(capacity);
        }
        arc
    }

    pub fn set_capacity(&mut self, arc: usize, capacity: f64) {
        self.capacity[arc] = capacity;
    }

    /// Removes all flow.
    pub fn reset(&mut self) {
        self.residual.clone_from(&self.capacity);
        let largest = self.capacity.iter().copied().filter(|capacity| capacity.is_finite()).fold(0.0, f64::max);
        self.noise = largest * 1e-12;
    }

    /// Returns the present flow, for [`Self::back_to`].
    pub fn flow_so_far(&self) -> Vec<f64> {
        self.residual.clone()
    }

    /// Restores an earlier flow, which was within the same capacities.
    pub fn back_to(&mut self, flow: Vec<f64>) {
        self.residual = flow;
    }

    /// Computes a maximum flow and returns its value. The search stops once it has reached `enough`.
    pub fn flow(&mut self, source: usize, sink: usize, enough: f64) -> f64 {
        self.reset();
        self.augment(source, sink, enough)
    }

    /// Adds as much flow as possible to the present one, at most `enough`, and returns how much it has added.
    ///
    /// If the source is the sink of the present flow, the flow is sent on to the new sink. So it costs little more to
    /// try many sinks, one after the other, than to try one.
    pub fn augment(&mut self, source: usize, sink: usize, enough: f64) -> f64 {
        self.label(source, sink);
        let mut path: Vec<u32> = Vec::new();
        let (mut node, mut total, mut relabelled) = (source, 0.0, 0);
        while enough - total > self.noise {
            if node == sink {
                total += self.send(&mut path, enough - total);
                node = path.last().map_or(source, |&arc| self.target[arc as usize] as usize);
            } else if let Some(arc) = self.onward(node) {
                path.push(arc);
                node = self.target[arc as usize] as usize;
            } else if self.relabel(node) {
                node = path.pop().map_or(source, |arc| self.target[arc as usize ^ 1] as usize);
                relabelled += 1;
                if relabelled % (self.arcs_of.len() / 4 + 1) == 0 {
                    // If distances were only corrected one by one, a long route would take the square of its length.
                    self.label(source, sink);
                    path.clear();
                    node = source;
                }
            } else {
                break;
            }
        }
        total
    }

    /// Returns whether each node is on the source's side of the smallest minimum cut, after [`Self::flow`] or
    /// [`Self::augment`].
    pub fn source_side(&self, source: usize) -> Vec<bool> {
        self.reached(source, 0)
    }

    /// Returns whether each node is on the source's side of the largest minimum cut: nothing more can be sent from
    /// there to the sink.
    pub fn outside_sink_side(&self, sink: usize) -> Vec<bool> {
        self.reached(sink, 1).into_iter().map(|sends_on| !sends_on).collect()
    }

    /// Returns whether residual arcs lead from `start` to each node, or, if `reverse` is 1, from each node to `start`.
    fn reached(&self, start: usize, reverse: usize) -> Vec<bool> {
        let mut search = BreadthFirst::new(self.arcs_of.len());
        search.flood(NodeId::new(start), |node| {
            let open = |&&arc: &&u32| self.residual[arc as usize ^ reverse] > self.noise;
            self.arcs_of[node].iter().filter(open).map(|&arc| NodeId(self.target[arc as usize]))
        });
        NodeId::first(self.arcs_of.len()).map(|node| search.reaches(node)).collect()
    }

    /// Sets each node's distance to the sink. Nodes that are as far as the source, or farther, get the distance of the
    /// source. This is a breadth-first search of its own because it ends at the source, and because the distances that
    /// it leaves are those that [`Self::relabel`] corrects.
    fn label(&mut self, source: usize, sink: usize) {
        let farthest = self.arcs_of.len() as u32;
        self.distance.fill(farthest);
        self.distance[sink] = 0;
        let mut queue = vec![sink as u32];
        let mut at = 0;
        while at < queue.len() && self.distance[source] == farthest {
            let node = queue[at] as usize;
            at += 1;
            for &arc in &self.arcs_of[node] {
                let end = self.target[arc as usize] as usize;
                if self.residual[arc as usize ^ 1] > self.noise && self.distance[end] == farthest {
                    self.distance[end] = self.distance[node] + 1;
                    queue.push(end as u32);
                }
            }
        }
        let most = self.distance[source];
        self.nodes_at.fill(0);
        for distance in &mut self.distance {
            *distance = most.min(*distance);
            self.nodes_at[*distance as usize] += 1;
        }
        self.next.fill(0);
    }

    /// Returns the next arc out of `node` that leads nearer to the sink.
    fn onward(&mut self, node: usize) -> Option<u32> {
        let nearer = |&&arc: &&u32| {
            self.residual[arc as usize] > self.noise
                && self.distance[self.target[arc as usize] as usize] + 1 == self.distance[node]
        };
        let skipped = self.next[node] as usize;
        let found = self.arcs_of[node][skipped..].iter().position(|arc| nearer(&arc));
        self.next[node] = found.map_or(self.arcs_of[node].len(), |ahead| skipped + ahead) as u32;
        found.map(|ahead| self.arcs_of[node][skipped + ahead])
    }

    /// Corrects the distance of a node from which no arc leads nearer to the sink. Returns false if nothing more can
    /// get there: the source is farther than a distance at which there is no node, or than all nodes could be.
    fn relabel(&mut self, node: usize) -> bool {
        let old = self.distance[node] as usize;
        let farthest = self.arcs_of.len() as u32;
        let open = self.arcs_of[node].iter().filter(|&&arc| self.residual[arc as usize] > self.noise);
        let nearest = open.map(|&arc| self.distance[self.target[arc as usize] as usize] + 1).min();
        let new = nearest.unwrap_or(farthest).min(farthest);
        self.nodes_at[old] -= 1;
        self.nodes_at[new as usize] += 1;
        self.distance[node] = new;
        self.next[node] = 0;
        self.nodes_at[old] > 0 && old < farthest as usize
    }

    /// Sends as much as fits, at most `most`, along a path; shortens the path to the part before its first full arc.
    fn send(&mut self, path: &mut Vec<u32>, most: f64) -> f64 {
        let least = path.iter().map(|&arc| self.residual[arc as usize]).fold(most, f64::min);
        for &arc in path.iter() {
            self.residual[arc as usize] -= least;
            self.residual[arc as usize ^ 1] += least;
        }
        let full = path.iter().position(|&arc| self.residual[arc as usize] <= self.noise);
        path.truncate(full.unwrap_or(0));
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_and_cut_of_a_textbook_network() {
        let mut network = FlowNetwork::new(6);
        for (from, to, capacity) in [
            (0, 1, 16.0),
            (0, 2, 13.0),
            (1, 3, 12.0),
            (2, 1, 4.0),
            (2, 4, 14.0),
            (3, 2, 9.0),
            (3, 5, 20.0),
            (4, 3, 7.0),
            (4, 5, 4.0),
        ] {
            network.add(from, to, capacity, 0.0);
        }
        assert_eq!(network.flow(0, 5, f64::INFINITY), 23.0);
        assert_eq!(network.source_side(0), [true, true, true, false, true, false]);
        assert_eq!(network.flow(0, 5, 5.0), 5.0);
    }
}

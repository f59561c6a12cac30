//! Maximum flow (Dinic 1970) on a network whose terminal capacities change between runs.
//!
//! Capacities are real; residuals below a small part of the largest capacity count as nothing, so that rounding
//! cannot keep the search alive. Cuts found are therefore exact as sets, and whoever needs exact values sums the
//! original capacities over the cut. Cost: O(V^2 E) at worst, near linear on the networks here.

/// A flow network. Arcs come in pairs: arc `2 k` and its reverse `2 k + 1`.
pub(super) struct FlowNetwork {
    target: Vec<u32>,
    capacity: Vec<f64>,
    residual: Vec<f64>,
    arcs_of: Vec<Vec<u32>>,
    level: Vec<u32>,
    next: Vec<u32>,
    noise: f64,
}

const UNREACHED: u32 = u32::MAX;

impl FlowNetwork {
    pub fn new(nodes: usize) -> Self {
        Self {
            target: Vec::new(),
            capacity: Vec::new(),
            residual: Vec::new(),
            arcs_of: vec![Vec::new(); nodes],
            level: vec![0; nodes],
            next: vec![0; nodes],
            noise: 0.0,
        }
    }

    /// Adds an arc with a capacity each way; returns its number for [`Self::set_capacity`].
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

    /// Forgets all flow.
    pub fn reset(&mut self) {
        self.residual.clone_from(&self.capacity);
        let largest = self.capacity.iter().copied().filter(|capacity| capacity.is_finite()).fold(0.0, f64::max);
        self.noise = largest * 1e-12;
    }

    /// The value of a maximum flow, at most `enough`: the search stops once it has that much.
    pub fn flow(&mut self, source: usize, sink: usize, enough: f64) -> f64 {
        self.reset();
        self.augment(source, sink, enough)
    }

    /// What can be sent on top of the flow there is, at most `enough`; it stays.
    ///
    /// Sent from the sink of that flow to another node, it makes that node the sink: looking at all sinks in turn costs
    /// little more than looking at one.
    pub fn augment(&mut self, source: usize, sink: usize, enough: f64) -> f64 {
        let mut total = 0.0;
        while enough - total > self.noise && self.find_levels(source, sink) {
            self.next.fill(0);
            loop {
                let pushed = self.push(source, sink, enough - total);
                if pushed <= self.noise {
                    break;
                }
                total += pushed;
            }
        }
        total
    }

    /// After [`Self::flow`] or [`Self::augment`]: whether each node is on the source's side of a minimum cut.
    pub fn source_side(&mut self, source: usize) -> Vec<bool> {
        self.find_levels(source, usize::MAX);
        self.level.iter().map(|&level| level != UNREACHED).collect()
    }

    /// Distances from the source, as far as the sink; whether the sink is reached.
    fn find_levels(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(UNREACHED);
        self.level[source] = 0;
        let mut queue = vec![source as u32];
        let mut at = 0;
        while at < queue.len() {
            let node = queue[at] as usize;
            at += 1;
            for &arc in &self.arcs_of[node] {
                let end = self.target[arc as usize] as usize;
                if self.residual[arc as usize] > self.noise && self.level[end] == UNREACHED {
                    self.level[end] = self.level[node] + 1;
                    if end == sink {
                        return true; // Nodes as far as the sink or farther are on no shortest path.
                    }
                    queue.push(end as u32);
                }
            }
        }
        false
    }

    /// Pushes along one shortest path; iterative, as paths on lines are as long as the network.
    fn push(&mut self, source: usize, sink: usize, most: f64) -> f64 {
        let mut path: Vec<u32> = Vec::new();
        let mut node = source;
        while node != sink {
            let Some(&arc) = self.arcs_of[node].get(self.next[node] as usize) else {
                let Some(back) = path.pop() else { return 0.0 };
                node = self.target[back as usize ^ 1] as usize;
                self.next[node] += 1;
                continue;
            };
            let end = self.target[arc as usize] as usize;
            if self.residual[arc as usize] > self.noise && self.level[end] == self.level[node] + 1 {
                path.push(arc);
                node = end;
            } else {
                self.next[node] += 1;
            }
        }
        let least = path.iter().map(|&arc| self.residual[arc as usize]).fold(most, f64::min);
        for &arc in &path {
            self.residual[arc as usize] -= least;
            self.residual[arc as usize ^ 1] += least;
        }
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

//! Streams of trees as messages in order: each tree sends its part in a few whole pieces, and every link of a route
//! serves its messages in an order that list scheduling has found (`order.rs`).
//!
//! Streams of chunks fill every tree before it runs at its rate; where latency and bandwidth both matter, a few pieces
//! in a good order take less time. Both halves of all trees are put in order together, so that the broadcast of a piece
//! that is complete passes what is still being reduced.
//!
//! Cost: that of list scheduling for each number of pieces, which ends as soon as it is behind.

use super::order::{Message, Runs, in_order};
use crate::plan::schedule::Csr;
use crate::plan::{Chunk, Direction, Draft, Edge, Half, LaneRoutes, Pace, Step, Tree, for_each_message};
use crate::units::Bytes;

/// The numbers of pieces in which a tree may send its part.
const PIECES: [u64; 5] = [1, 2, 4, 8, 16];
/// The most messages that are put in order.
const MOST_MESSAGES: u64 = 1 << 16;
/// The least bytes of a piece: whoever sends and receives messages has to do something for each.
const LEAST_BYTES: f64 = 512.0;
/// The part of the time that twice as many messages must save.
const WORTH: f64 = 0.01;

/// Returns the trees of `streamed`, a plan of one streamed phase, with messages in order, and the seconds that they
/// take; `None` if no number of pieces takes less than `most` seconds.
pub(super) fn ordered(streamed: &Draft, size: Bytes, most: f64) -> Option<(Draft, f64)> {
    let phase = &streamed.phases[0];
    let messages: u64 = streamed.trees_of(phase).iter().map(|tree| streamed.edges_of(phase, tree)).sum();
    let mut best: Option<(Pieces, f64)> = None;
    let least_units = streamed.trees_of(phase).iter().map(Tree::units).filter(|&units| units > 0).min()?;
    let least_bytes = size.get() as f64 * least_units as f64 / streamed.units as f64;
    let is_large = |&count: &u64| count * messages <= MOST_MESSAGES && least_bytes >= LEAST_BYTES * count as f64;
    for count in PIECES.into_iter().filter(is_large) {
        let least = best.as_ref().map_or(most, |&(_, seconds)| seconds * (1.0 - WORTH));
        let found = Pieces::new(streamed, count).in_order(streamed, size, least);
        best = found.filter(|&(_, seconds)| seconds < least).or(best);
    }
    best.map(|(pieces, seconds)| (pieces.draft(streamed), seconds))
}

/// A half of a tree: its edges, breadth-first, and the message that each is of one piece of the tree.
struct Messages {
    edges: Vec<Edge>,
    numbers: Vec<u32>,
}

/// The messages of all pieces of all trees.
struct Pieces {
    count: u64,
    /// The halves of each piece, of which all first ones come first: reduce half and broadcast half.
    halves: Vec<[Messages; 2]>,
    /// The messages that bring the data of each.
    after: Csr<u32>,
    steps: Vec<Step>,
}

impl Pieces {
    /// Lists the messages of the trees in so many pieces each.
    fn new(streamed: &Draft, count: u64) -> Self {
        let mut pieces = Self { count, halves: Vec::new(), after: Csr::default(), steps: Vec::new() };
        let mut into = vec![Vec::new(); streamed.topology.nodes().len()];
        for _ in 0..count {
            for tree in streamed.trees_of(&streamed.phases[0]) {
                let halves = pieces.list(streamed, tree, &mut into);
                pieces.halves.push(halves);
            }
        }
        pieces
    }

    /// Lists the messages of a piece of a tree; `into` has room for the messages into each node.
    fn list(&mut self, streamed: &Draft, tree: &Tree, into: &mut [Vec<u32>]) -> [Messages; 2] {
        into.iter_mut().for_each(Vec::clear);
        Direction::BOTH.map(|direction| {
            let edges: Vec<Edge> = streamed.half(&streamed.phases[0], tree, direction).collect();
            let mut numbers = vec![0; edges.len()];
            for_each_message(&edges, direction, into, |place, after| {
                numbers[place] = self.after.rows().len() as u32;
                self.after.push_row(after.iter().copied());
                numbers[place]
            });
            Messages { edges, numbers }
        })
    }

    /// Puts the messages in order; returns `None` if that takes more than `most` seconds, or too many steps.
    fn in_order(mut self, streamed: &Draft, size: Bytes, most: f64) -> Option<(Self, f64)> {
        let routes = LaneRoutes::new(&streamed.topology, &streamed.lanes);
        let bytes_of_unit = size.get() as f64 / (streamed.units * self.count) as f64;
        let trees = streamed.trees_of(&streamed.phases[0]).iter().cycle();
        let mut messages: Vec<Option<Message>> = (0..self.after.rows().len()).map(|_| None).collect();
        for (halves, tree) in self.halves.iter().zip(trees) {
            let bytes = bytes_of_unit * tree.units() as f64;
            for Messages { edges, numbers } in halves {
                for (edge, &number) in edges.iter().zip(numbers) {
                    let capacities = routes.capacities(edge.lane);
                    let message = Message::new(&streamed.topology, capacities, bytes, Runs::Forwards);
                    messages[number as usize] = Some(message);
                }
            }
        }
        let messages = messages.into_iter().map(|message| message.expect("every edge is a message")).collect();
        let (steps, seconds) = in_order(&streamed.topology, messages, &self.after, most)?;
        self.steps = steps;
        Some((self, seconds))
    }

    /// Returns the plan.
    fn draft(&self, streamed: &Draft) -> Draft {
        let routes = LaneRoutes::new(&streamed.topology, &streamed.lanes);
        let empty = Draft::new(&streamed.topology, streamed.algorithm.clone(), streamed.units * self.count);
        let mut draft = Draft { collective: streamed.collective, ..empty };
        let trees = streamed.trees_of(&streamed.phases[0]);
        let mut planned = Vec::with_capacity(self.halves.len());
        for (number, halves) in self.halves.iter().enumerate() {
            let tree = &trees[number % trees.len()];
            let [up, down] = halves.each_ref().map(|Messages { edges, numbers }| {
                if edges.is_empty() {
                    return Half::None;
                }
                let lane = |edge: &Edge| draft.lanes.via(&streamed.topology, routes.of(edge.lane));
                let lanes: Vec<_> = edges.iter().map(lane).collect();
                let steps = numbers.iter().map(|&number| Some(self.steps[number as usize]));
                draft.own_half(lanes.into_iter().zip(steps))
            });
            let piece = number as u64 / trees.len() as u64;
            let start = tree.span.start * self.count + piece * tree.units();
            planned.push(Tree { span: start..start + tree.units(), root: tree.root, up, down, chunk: Chunk::One });
        }
        planned.sort_by_key(|tree| tree.span.start);
        draft.push_phase(Pace::Ordered, planned);
        draft
    }
}

//! What waits for messages of other phases and trees: partial sums that several trees share, and later phases.
//!
//! A *junction* awaits grains of messages, and other junctions; then it releases grains, and counts for the junctions
//! that await it. A *grain* is a chunk, or a run of chunks where a message has more than `MOST_GRAINS`. A phase begins
//! on a rank, and with a part of the vector, when all that earlier phases send there has been received. For each part
//! of each rank's vector, one junction stands for all of them: it awaits what the last phase sends there, and the
//! junction before it. A message of several parts is taken as a whole, when what was sent before to each of its parts
//! is there.
//!
//! Cost: linear in the grains and in the pairs of them that meet in a vector, but for sorting.

use std::collections::BTreeMap;
use std::ops::Range;

use super::workload::{Message, MessageId, Workload};
use crate::plan::Plan;
use crate::plan::schedule::Csr;
use crate::sim::numbers::numbers;
use crate::topology::NodeId;

numbers! {
    /// A junction of a workload.
    JunctionId;
}

/// The most grains of a message. More would show little that these do not, and take memory.
const MOST_GRAINS: u32 = 32;

/// A grain of a message, counted from 0.
#[derive(Clone, Copy)]
pub(super) struct Grain {
    pub message: MessageId,
    pub number: u32,
}

impl Message {
    fn grains(&self) -> u32 {
        self.chunks.min(MOST_GRAINS)
    }

    /// Returns the first chunk of a grain; of the grain behind the last, the number of chunks.
    fn first_chunk(&self, grain: u32) -> u32 {
        (u64::from(grain) * u64::from(self.chunks) / u64::from(self.grains())) as u32
    }

    /// Returns the grain that begins with a chunk, if one does.
    pub fn grain_from(&self, chunk: u32) -> Option<u32> {
        let grain = ((u64::from(chunk) + 1) * u64::from(self.grains()) - 1) / u64::from(self.chunks);
        (self.first_chunk(grain as u32) == chunk).then_some(grain as u32)
    }

    /// Returns the grain that ends with a chunk, if one does.
    pub fn grain_to(&self, chunk: u32) -> Option<u32> {
        if chunk + 1 == self.chunks { Some(self.grains() - 1) } else { self.grain_from(chunk + 1).map(|next| next - 1) }
    }
}

/// All junctions of a workload.
#[derive(Default)]
pub(super) struct Junctions {
    /// How many grains and junctions each awaits.
    pub awaited: Vec<u32>,
    /// The grains that each junction releases.
    pub releases: Csr<Grain>,
    /// The junctions that await each junction.
    pub next: Csr<JunctionId>,
    /// How many junctions each grain waits for, message by message; nothing if there are none.
    pub before: Vec<u32>,
    /// The junctions that await each grain, message by message.
    behind: Csr<JunctionId>,
    /// Where the grains of each message begin.
    first_grain: Vec<u32>,
    awaits: Vec<(Grain, JunctionId)>,
    frees: Vec<(JunctionId, Grain)>,
    follows: Vec<(JunctionId, JunctionId)>,
}

impl Junctions {
    /// Makes `later` wait for these messages of one chunk each, if there are any.
    pub fn add(&mut self, earlier: impl Iterator<Item = MessageId>, later: MessageId) {
        let mut earlier = earlier.map(|message| Grain { message, number: 0 }).peekable();
        if earlier.peek().is_some() {
            let junction = self.new_junction(earlier);
            self.frees.push((junction, Grain { message: later, number: 0 }));
        }
    }

    /// Returns a new junction that awaits these grains.
    fn new_junction(&mut self, earlier: impl Iterator<Item = Grain>) -> JunctionId {
        let junction = JunctionId::new(self.awaited.len() as u32);
        let before = self.awaits.len();
        self.awaits.extend(earlier.map(|grain| (grain, junction)));
        self.awaited.push((self.awaits.len() - before) as u32);
        junction
    }

    /// Returns whether nothing waits for anything.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Returns the count of a grain in a list as `before` is; 0 where the list is empty.
    pub fn count_of(&self, counts: &[u32], grain: Grain) -> u32 {
        if counts.is_empty() { 0 } else { counts[self.index_of(grain)] }
    }

    /// Returns where a grain stands in `before`.
    pub fn index_of(&self, grain: Grain) -> usize {
        (self.first_grain[grain.message] + grain.number) as usize
    }

    /// Returns the junctions that await a grain.
    pub fn behind(&self, grain: Grain) -> &[JunctionId] {
        self.behind.row(self.index_of(grain))
    }

    /// Makes the lists of what waits for what, for these messages.
    pub fn link(&mut self, messages: &[Message]) {
        if self.is_empty() {
            return;
        }
        let mut grains = 0;
        for message in messages {
            self.first_grain.push(grains);
            grains += message.grains();
        }
        self.before = vec![0; grains as usize];
        let (awaits, frees) = (std::mem::take(&mut self.awaits), std::mem::take(&mut self.frees));
        for &(_, grain) in &frees {
            let index = self.index_of(grain);
            self.before[index] += 1;
        }
        self.behind = rows(awaits, grains as usize, |grain| self.index_of(grain));
        self.releases = rows(frees, self.awaited.len(), JunctionId::index);
        self.next = rows(std::mem::take(&mut self.follows), self.awaited.len(), JunctionId::index);
    }
}

/// Returns the second of each pair, in rows by the index of the first.
fn rows<A: Copy, B: Copy>(mut pairs: Vec<(A, B)>, count: usize, index: impl Fn(A) -> usize) -> Csr<B> {
    pairs.sort_by_key(|&(first, _)| index(first));
    Csr::of_pairs(count, pairs.into_iter().map(|(first, second)| (index(first), second)))
}

/// A place in the vector. Chunks end between units, so places count in parts of 2^-40 of a unit: the same places of
/// different spans are the same number.
type Place = u128;

/// Returns the part of a span that a grain of a message covers.
fn part_of(span: &Range<u64>, message: &Message, grain: u32) -> Range<Place> {
    let length = u128::from(span.end - span.start) << 40;
    let place = |chunk: u32| (u128::from(span.start) << 40) + length * u128::from(chunk) / u128::from(message.chunks);
    place(message.first_chunk(grain))..place(message.first_chunk(grain + 1))
}

/// Where a part of a rank's vector ends, and the junction that awaits all that has been sent there.
#[derive(Clone, Copy)]
struct Segment {
    end: Place,
    junction: JunctionId,
}

/// What the phases so far send to each rank: parts of its vector that do not overlap, by where they start.
pub(super) struct Received {
    of_rank: Vec<BTreeMap<Place, Segment>>,
}

impl Received {
    pub fn new(plan: &Plan) -> Self {
        Self { of_rank: vec![BTreeMap::new(); plan.ranks() as usize] }
    }

    /// Makes these messages, those of a phase, wait for what earlier phases send to their sources, and notes what they
    /// send themselves.
    pub fn join(&mut self, plan: &Plan, workload: &mut Workload, messages: impl Iterator<Item = MessageId>) {
        let mut received: BTreeMap<(NodeId, Place, Place), Arrival> = BTreeMap::new();
        for id in messages {
            let spans = spans_of(plan, workload, id);
            self.wait(plan, workload, id, spans.clone());
            let message = &workload.messages[id];
            let target = plan.lanes.ends_of(message.lane).1;
            if !plan.topology.is_rank(target) {
                continue;
            }
            for number in 0..message.grains() {
                let part = |span: &Range<u64>| part_of(span, message, number);
                // Those of a single part are found when it is noted.
                let before = if spans.len() > 1 { self.at(target, spans.iter().map(part)) } else { Vec::new() };
                for part in spans.iter().map(part).filter(|part| !part.is_empty()) {
                    let arrival = received.entry((target, part.start, part.end)).or_default();
                    arrival.grains.push(Grain { message: id, number });
                    arrival.before.extend(&before);
                }
            }
        }
        for ((rank, start, end), arrival) in received {
            self.note(rank, start..end, arrival, &mut workload.junctions);
        }
    }

    /// Makes a message of these spans wait for what earlier phases send to its source: to its own parts, and to those
    /// of messages of several parts that its source must take before.
    fn wait(&self, plan: &Plan, workload: &mut Workload, id: MessageId, mut spans: Vec<Range<u64>>) {
        spans.extend(workload.taken_before(id).into_iter().flat_map(|other| spans_of(plan, workload, other)));
        let (spans, message) = (joined(spans), &workload.messages[id]);
        let source = plan.lanes.ends_of(message.lane).0;
        for number in 0..message.grains() {
            let awaited = self.at(source, spans.iter().map(|span| part_of(span, message, number)));
            let grain = Grain { message: id, number };
            workload.junctions.frees.extend(awaited.into_iter().map(|junction| (junction, grain)));
        }
    }

    /// Returns the junctions of these parts of a node's vector.
    fn at(&self, node: NodeId, parts: impl Iterator<Item = Range<Place>>) -> Vec<JunctionId> {
        let Some(segments) = self.of_rank.get(node.index()) else { return Vec::new() };
        let found = parts.flat_map(|part| overlapping(segments, &part).collect::<Vec<_>>());
        let mut junctions: Vec<JunctionId> = found.map(|(_, segment)| segment.junction).collect();
        junctions.sort_unstable();
        junctions.dedup();
        junctions
    }

    /// Notes what is sent to this part of a rank's vector.
    fn note(&mut self, rank: NodeId, part: Range<Place>, arrival: Arrival, junctions: &mut Junctions) {
        let Arrival { grains, mut before } = arrival;
        let junction = junctions.new_junction(grains.into_iter());
        let segments = &mut self.of_rank[rank.index()];
        let old: Vec<(Place, Segment)> = overlapping(segments, &part).collect();
        for (start, segment) in old {
            before.push(segment.junction);
            segments.remove(&start);
            if start < part.start {
                segments.insert(start, Segment { end: part.start, ..segment });
            }
            if part.end < segment.end {
                segments.insert(part.end, segment);
            }
        }
        before.sort_unstable();
        before.dedup();
        junctions.awaited[junction] += before.len() as u32;
        junctions.follows.extend(before.into_iter().map(|earlier| (earlier, junction)));
        segments.insert(part.start, Segment { end: part.end, junction });
    }
}

/// Grains that are sent to one part of a rank's vector.
#[derive(Default)]
struct Arrival {
    grains: Vec<Grain>,
    /// Junctions of the other parts that come with the same messages.
    before: Vec<JunctionId>,
}

/// Returns the spans of what travels together.
fn spans_of(plan: &Plan, workload: &Workload, message: MessageId) -> Vec<Range<u64>> {
    let mut spans: Vec<_> = workload.trees_of(message).map(|tree| plan.trees[tree as usize].span.clone()).collect();
    spans.dedup();
    spans
}

/// Returns the same spans as few that do not touch.
fn joined(mut spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
    spans.sort_unstable_by_key(|span| span.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

/// Returns the segments that overlap a part of a vector, and where they start, the last one first.
fn overlapping(segments: &BTreeMap<Place, Segment>, part: &Range<Place>) -> impl Iterator<Item = (Place, Segment)> {
    let before_end = segments.range(..part.end).rev().map(|(&start, &segment)| (start, segment));
    let start = part.start;
    before_end.take_while(move |(_, segment)| start < segment.end)
}

//! What waits for messages of other phases and trees: partial sums that several trees share, and later phases.
//!
//! A *junction* awaits chunks of messages, and other junctions; then it releases chunks, and counts for the junctions
//! that await it. A phase begins on a rank, and with a part of the vector, when all that earlier phases send there has
//! been received. For each part of each rank's vector, one junction stands for all of them: it awaits what the last
//! phase sends there, and the junction before it. Cost: linear in the chunks, besides the trees that each message
//! carries.

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

/// A chunk of a message, counted from 0.
#[derive(Clone, Copy)]
pub(super) struct ChunkOf {
    pub message: MessageId,
    pub chunk: u32,
}

/// All junctions of a workload.
#[derive(Default)]
pub(super) struct Junctions {
    /// How many chunks and junctions each awaits.
    pub awaited: Vec<u32>,
    /// The chunks that each junction releases.
    pub releases: Csr<ChunkOf>,
    /// The junctions that await each junction.
    pub next: Csr<JunctionId>,
    /// How many junctions each chunk waits for, message by message; nothing if there are none.
    pub before: Vec<u32>,
    /// The junctions that await each chunk, message by message.
    behind: Csr<JunctionId>,
    /// Where the chunks of each message begin.
    first_chunk: Vec<u32>,
    awaits: Vec<(ChunkOf, JunctionId)>,
    frees: Vec<(JunctionId, ChunkOf)>,
    follows: Vec<(JunctionId, JunctionId)>,
}

impl Junctions {
    /// Makes `later` wait for these messages of one chunk each, if there are any.
    pub fn add(&mut self, earlier: impl Iterator<Item = MessageId>, later: MessageId) {
        let mut earlier = earlier.map(|message| ChunkOf { message, chunk: 0 }).peekable();
        if earlier.peek().is_some() {
            let junction = self.new_junction(earlier);
            self.frees.push((junction, ChunkOf { message: later, chunk: 0 }));
        }
    }

    /// Returns a new junction that awaits these chunks.
    fn new_junction(&mut self, earlier: impl Iterator<Item = ChunkOf>) -> JunctionId {
        let junction = JunctionId::new(self.awaited.len() as u32);
        let before = self.awaits.len();
        self.awaits.extend(earlier.map(|chunk| (chunk, junction)));
        self.awaited.push((self.awaits.len() - before) as u32);
        junction
    }

    /// Returns whether nothing waits for anything.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Returns what `counts`, one for each chunk as in `before`, says of a chunk; 0 if there are none.
    pub fn of(&self, counts: &[u32], chunk: ChunkOf) -> u32 {
        if counts.is_empty() { 0 } else { counts[self.place(chunk)] }
    }

    /// Returns where a chunk stands in `before`.
    pub fn place(&self, chunk: ChunkOf) -> usize {
        (self.first_chunk[chunk.message] + chunk.chunk) as usize
    }

    /// Returns the junctions that await a chunk.
    pub fn behind(&self, chunk: ChunkOf) -> &[JunctionId] {
        self.behind.row(self.place(chunk))
    }

    /// Makes the lists of what waits for what, for these messages.
    pub fn link(&mut self, messages: &[Message]) {
        if self.is_empty() {
            return;
        }
        let mut chunks = 0;
        for message in messages {
            self.first_chunk.push(chunks);
            chunks += message.chunks;
        }
        self.before = vec![0; chunks as usize];
        let (awaits, frees) = (std::mem::take(&mut self.awaits), std::mem::take(&mut self.frees));
        for &(_, chunk) in &frees {
            let place = self.place(chunk);
            self.before[place] += 1;
        }
        self.behind = rows(awaits, chunks as usize, |chunk| self.place(chunk));
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

/// Returns the part of a span that a chunk of so many covers.
fn part_of(span: &Range<u64>, chunk: u32, chunks: u32) -> Range<Place> {
    let length = u128::from(span.end - span.start) << 40;
    let place = |chunk: u32| (u128::from(span.start) << 40) + length * u128::from(chunk) / u128::from(chunks);
    place(chunk)..place(chunk + 1)
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
        for message in messages {
            let (source, target) = plan.lanes.ends_of(workload.messages[message].lane);
            let (spans, chunks) = (spans_of(plan, workload, message), workload.messages[message].chunks);
            let taken: Vec<_> = workload.taken_by(message).flat_map(|other| spans_of(plan, workload, other)).collect();
            for chunk in (0..chunks).map(|chunk| ChunkOf { message, chunk }) {
                let part = |span: &Range<u64>| part_of(span, chunk.chunk, chunks);
                let awaited = self.at(source, spans.iter().chain(&taken).map(part));
                workload.junctions.frees.extend(awaited.into_iter().map(|junction| (junction, chunk)));
                if !plan.topology.is_rank(target) {
                    continue;
                }
                let before = if spans.len() > 1 { self.at(target, spans.iter().map(part)) } else { Vec::new() };
                for part in spans.iter().map(part).filter(|part| !part.is_empty()) {
                    let arrival = received.entry((target, part.start, part.end)).or_default();
                    arrival.chunks.push(chunk);
                    arrival.before.extend(&before);
                }
            }
        }
        for ((rank, start, end), arrival) in received {
            self.note(rank, start..end, arrival, &mut workload.junctions);
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
        let Arrival { chunks, mut before } = arrival;
        let junction = junctions.new_junction(chunks.into_iter());
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

/// Chunks that are sent to one part of a rank's vector.
#[derive(Default)]
struct Arrival {
    chunks: Vec<ChunkOf>,
    /// Junctions of other parts that come with the same messages: a message is taken as a whole, when what was sent
    /// before to any of its parts is there.
    before: Vec<JunctionId>,
}

/// Returns the spans of what travels together.
fn spans_of(plan: &Plan, workload: &Workload, message: MessageId) -> Vec<Range<u64>> {
    let mut spans: Vec<_> = workload.trees_of(message).map(|tree| plan.trees[tree as usize].span.clone()).collect();
    spans.dedup();
    spans
}

/// Returns the segments that overlap a part of a vector, and where they start, the last one first.
fn overlapping(segments: &BTreeMap<Place, Segment>, part: &Range<Place>) -> impl Iterator<Item = (Place, Segment)> {
    let before_end = segments.range(..part.end).rev().map(|(&start, &segment)| (start, segment));
    let start = part.start;
    before_end.take_while(move |(_, segment)| start < segment.end)
}

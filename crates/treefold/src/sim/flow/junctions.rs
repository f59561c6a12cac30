//! What waits for whole messages: partial sums that several trees share, and phases for the one before.
//!
//! A *junction* awaits messages, all chunks of each, and other junctions; then it releases messages, and counts for the
//! junctions that await it. A phase begins on a rank, and with a part of the vector, when all that earlier phases send
//! there has been received. For each part of each rank's vector, one junction stands for all of them: it awaits what
//! the last phase sends there, and the junction before it. Cost: linear in the messages, besides the trees that each
//! carries.

use std::collections::BTreeMap;
use std::ops::Range;

use super::workload::{MessageId, Workload};
use crate::plan::Plan;
use crate::plan::schedule::Csr;
use crate::sim::numbers::numbers;
use crate::topology::NodeId;

numbers! {
    /// A junction of a workload.
    JunctionId;
}

/// All junctions of a workload.
#[derive(Default)]
pub(super) struct Junctions {
    /// How many messages and junctions each awaits.
    pub awaited: Vec<u32>,
    /// The junctions that await each message.
    pub behind: Csr<JunctionId>,
    /// The messages that each junction releases.
    pub releases: Csr<MessageId>,
    /// The junctions that await each junction.
    pub next: Csr<JunctionId>,
    /// How many junctions each message waits for; nothing if there are none.
    before: Vec<u32>,
    awaits: Vec<(MessageId, JunctionId)>,
    frees: Vec<(JunctionId, MessageId)>,
    follows: Vec<(JunctionId, JunctionId)>,
}

impl Junctions {
    /// Makes `later` wait for these messages, if there are any.
    pub fn add(&mut self, earlier: impl Iterator<Item = MessageId>, later: MessageId) {
        let mut earlier = earlier.peekable();
        if earlier.peek().is_some() {
            let junction = self.new_junction(earlier);
            self.frees.push((junction, later));
        }
    }

    /// Returns a new junction that awaits these messages.
    fn new_junction(&mut self, earlier: impl Iterator<Item = MessageId>) -> JunctionId {
        let junction = JunctionId::new(self.awaited.len() as u32);
        let before = self.awaits.len();
        self.awaits.extend(earlier.map(|message| (message, junction)));
        self.awaited.push((self.awaits.len() - before) as u32);
        junction
    }

    /// Returns how many junctions a message waits for.
    pub fn before(&self, message: MessageId) -> u32 {
        self.before.get(message.index()).copied().unwrap_or(0)
    }

    /// Makes the lists of what waits for what, for so many messages.
    pub fn link(&mut self, messages: usize) {
        let junctions = self.awaited.len();
        if junctions == 0 {
            return;
        }
        self.before = vec![0; messages];
        self.frees.iter().for_each(|&(_, message)| self.before[message] += 1);
        self.behind = rows(std::mem::take(&mut self.awaits), messages, MessageId::index);
        self.releases = rows(std::mem::take(&mut self.frees), junctions, JunctionId::index);
        self.next = rows(std::mem::take(&mut self.follows), junctions, JunctionId::index);
    }
}

/// Returns the second of each pair, in rows by the index of the first.
fn rows<A: Copy, B: Copy>(mut pairs: Vec<(A, B)>, count: usize, index: impl Fn(A) -> usize) -> Csr<B> {
    pairs.sort_by_key(|&(first, _)| index(first));
    Csr::of_pairs(count, pairs.into_iter().map(|(first, second)| (index(first), second)))
}

/// Where a part of a rank's vector ends, and the junction that awaits all that has been sent there.
#[derive(Clone, Copy)]
struct Segment {
    end: u64,
    junction: JunctionId,
}

/// What the phases so far send to each rank: parts of its vector that do not overlap, by where they start.
pub(super) struct Received {
    of_rank: Vec<BTreeMap<u64, Segment>>,
}

impl Received {
    pub fn new(plan: &Plan) -> Self {
        Self { of_rank: vec![BTreeMap::new(); plan.ranks() as usize] }
    }

    /// Makes these messages, those of a phase, wait for what earlier phases send to their sources, and notes what they
    /// send themselves.
    pub fn join(&mut self, plan: &Plan, workload: &mut Workload, messages: impl Iterator<Item = MessageId>) {
        let mut received: BTreeMap<(NodeId, u64, u64), Vec<MessageId>> = BTreeMap::new();
        for id in messages {
            let (source, target) = plan.lanes.ends_of(workload.messages[id].lane);
            let mut spans: Vec<_> = workload.trees_of(id).map(|tree| plan.trees[tree as usize].span.clone()).collect();
            spans.dedup();
            self.wait(source, &spans, id, workload);
            for span in spans.into_iter().filter(|span| !span.is_empty() && plan.topology.is_rank(target)) {
                received.entry((target, span.start, span.end)).or_default().push(id);
            }
        }
        for ((rank, start, end), messages) in received {
            self.note(rank, start..end, messages, workload);
        }
    }

    /// Makes a message wait for what is sent to its source.
    fn wait(&self, source: NodeId, spans: &[Range<u64>], message: MessageId, workload: &mut Workload) {
        let Some(segments) = self.of_rank.get(source.index()) else { return };
        let awaited = spans.iter().flat_map(|span| overlapping(segments, span).map(|(_, segment)| segment.junction));
        let mut junctions: Vec<JunctionId> = awaited.collect();
        junctions.sort_unstable();
        junctions.dedup();
        workload.junctions.frees.extend(junctions.into_iter().map(|junction| (junction, message)));
    }

    /// Notes that these messages are sent to this part of a rank's vector.
    fn note(&mut self, rank: NodeId, span: Range<u64>, messages: Vec<MessageId>, workload: &mut Workload) {
        let junctions = &mut workload.junctions;
        let junction = junctions.new_junction(messages.into_iter());
        let segments = &mut self.of_rank[rank.index()];
        let old: Vec<(u64, Segment)> = overlapping(segments, &span).collect();
        for (start, segment) in old {
            junctions.follows.push((segment.junction, junction));
            junctions.awaited[junction] += 1;
            segments.remove(&start);
            if start < span.start {
                segments.insert(start, Segment { end: span.start, ..segment });
            }
            if span.end < segment.end {
                segments.insert(span.end, segment);
            }
        }
        segments.insert(span.start, Segment { end: span.end, junction });
    }
}

/// Returns the segments that overlap a span, and where they start, the last one first.
fn overlapping(segments: &BTreeMap<u64, Segment>, span: &Range<u64>) -> impl Iterator<Item = (u64, Segment)> {
    let before_end = segments.range(..span.end).rev().map(|(&start, &segment)| (start, segment));
    let start = span.start;
    before_end.take_while(move |(_, segment)| start < segment.end)
}

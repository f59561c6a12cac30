//! A rank's program: its part of a lowered schedule, as tasks that wait for each other.
//!
//! A task is a transfer as one rank sees it: the rank sends, receives, or copies within its memory. A rank keeps the
//! dependencies between transfers in which it has a part; other ranks keep the others. A received copy also waits until
//! the data that it overwrites have been sent, and terms of one sum are added in the order of the schedule, so that
//! sums are the same bits whenever messages arrive.
//! Cost: one pass over the schedule, and memory for the rank's own tasks only.

mod crossing;
mod turns;
mod waits;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::error::Result;
use crate::ids::{NodeId, ids};
use crate::number::wire::Wire;
use crate::plan::schedule::{BufferId, Csr, Op, Schedule, TransferId, input, output};
use crate::plan::{Collective, Plan, lower_for};
use crate::units::Time;
use crate::{bail, misfit};
use turns::turns;
use waits::waits;

ids! {
    /// A task of a program.
    TaskId;
    /// A peer of a program, which has this index among the program's peers.
    PeerId;
}

/// A task: a transfer as the rank sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Sends to this peer.
    Send(PeerId),
    /// Receives from this peer, and adds.
    Reduce(PeerId),
    /// Receives from this peer, and replaces.
    Replace(PeerId),
    /// Copies within the rank's memory.
    Copy,
    /// Adds within the rank's memory.
    Add,
}

impl Task {
    /// Returns the peer that has a part in the task.
    pub(crate) fn peer(self) -> Option<PeerId> {
        match self {
            Self::Send(peer) | Self::Reduce(peer) | Self::Replace(peer) => Some(peer),
            Self::Copy | Self::Add => None,
        }
    }
}

/// One rank's part of a collective on vectors of one size.
#[derive(Debug, Clone)]
pub struct Program {
    /// The rank.
    pub rank: NodeId,
    /// How many ranks the collective has.
    pub ranks: u32,
    /// The collective.
    pub collective: Collective,
    /// The bytes of an element.
    pub element_bytes: u64,
    /// The elements of each rank's vector, or of the largest one where they are unlike.
    pub elements: u64,
    /// The type in which the numbers cross lines; `None` if they cross as they are.
    pub wire: Option<Wire>,
    /// The type in which they were to cross lines, on which all ranks have to agree.
    pub wanted: Option<Wire>,
    /// The ranks that this one sends to or receives from, in order.
    pub peers: Vec<NodeId>,
    /// The tasks, in the order of the schedule.
    pub(super) tasks: Vec<Task>,
    /// The number of each task's transfer in the schedule, which is the same at both ends.
    pub(super) transfer: Vec<TransferId>,
    /// How many transfers the whole schedule has, those of other ranks included.
    pub transfers: usize,
    /// The turn of each task: of several sends to one peer, the one with the lowest goes first.
    pub(super) turn: Vec<u64>,
    /// The bytes that each task moves, as ranges of the vector; beyond its end is scratch space.
    pub(super) pieces: Csr<Range<usize>>,
    /// Whether each task carries values that are no partial sums, and so end alike on several ranks. Copies within the
    /// rank's memory do so if numbers cross lines in another type, and results are sent from the copy.
    pub(super) is_final: Vec<bool>,
    /// How far the places of each task's pieces are behind those of the same elements in the vector: 0 unless they are
    /// scratch space. Only known of all-reduces whose numbers cross lines in another type.
    pub(super) offset: Vec<usize>,
    /// The place to which each task within the rank's memory writes.
    pub(super) local_target: HashMap<TaskId, usize>,
    /// How many tasks each task waits for.
    pub(super) waits: Vec<u32>,
    /// The tasks that wait for each task.
    pub(super) wakes: Csr<TaskId>,
    /// The bytes of the vector on which the rank works.
    pub vector_bytes: usize,
    /// The bytes of scratch space.
    pub scratch_bytes: usize,
    /// The mean of the bytes of the messages that the rank sends.
    pub mean_bytes: usize,
    /// The place of the rank's own values at the beginning.
    pub input: Range<usize>,
    /// The places of the result's pieces at the end; beyond the vector's end is scratch space.
    pub output: Vec<Range<usize>>,
    /// A number that differs between plans, by which ranks make sure that they have the same one.
    pub fingerprint: u64,
}

/// The places of the elements of a schedule's buffers in a rank's memory.
struct Places {
    /// The elements of the vector.
    vector: u64,
    /// The elements of vector and scratch space together.
    end: u64,
    /// How many buffers are ranks' vectors.
    ranks: u32,
    /// The elements before the rank's own vector, where the elements of all ranks are numbered through.
    before: u64,
    /// What each buffer that is no rank's vector holds.
    copies: HashMap<BufferId, Copied>,
    /// The places of data that pass through on their route to others, by their first element.
    passing: HashMap<u64, u64>,
}

/// A span in a buffer.
#[derive(Clone, Copy)]
struct Copied {
    first: u64,
    place: u64,
}

impl Places {
    /// Returns the places of a vector of `elements` elements, and nothing beside it.
    fn new(elements: u64, ranks: u32, before: u64) -> Self {
        Self { vector: elements, end: elements, ranks, before, copies: HashMap::new(), passing: HashMap::new() }
    }

    /// Finds the places, in bytes, of the pieces of each transfer of `own`, and those to which local ones write.
    fn find(
        &mut self,
        schedule: &Schedule,
        own: &[TransferId],
        rank: NodeId,
        element_bytes: u64,
    ) -> (Csr<Range<usize>>, HashMap<TaskId, usize>) {
        let (mut pieces, mut local_target) = (Csr::default(), HashMap::new());
        for (task, &id) in TaskId::first(own.len()).zip(own) {
            let (source, target) = (schedule.source[id], schedule.target[id]);
            let buffer = if schedule.buffers[source] == rank { source } else { target };
            let row = schedule.pieces.row(id);
            if schedule.op[id].is_local() {
                local_target.insert(task, (self.of(target, &row[0]) * element_bytes) as usize);
            }
            pieces.push_row(row.iter().map(|piece| {
                let place = self.of(buffer, piece);
                in_bytes(place..place + piece.end - piece.start, element_bytes)
            }));
        }
        (pieces, local_target)
    }

    /// Returns the place of `piece` of `buffer`. A buffer that is no rank's vector gets room when it is first used, for
    /// what is used of it then; and so does a piece that is not the rank's own.
    fn of(&mut self, buffer: BufferId, piece: &Range<u64>) -> u64 {
        if buffer.rank(self.ranks).is_none() {
            let Copied { first, place } =
                *self.copies.entry(buffer).or_insert(Copied { first: piece.start, place: self.end });
            self.end = self.end.max(place + piece.end - first);
            return place + piece.start - first;
        }
        if (self.before..self.before + self.vector).contains(&piece.start) {
            return piece.start - self.before;
        }
        let end = self.end;
        let place = *self.passing.entry(piece.start).or_insert(end);
        if place == end {
            self.end += piece.end - piece.start;
        }
        place
    }
}

impl Program {
    /// Returns the part of `rank` in `plan` for vectors of `elements` elements. `overhead` is the least time that a
    /// message takes, which decides how small chunks are.
    ///
    /// # Errors
    /// If there is no such rank, or if switches have to reduce or multicast, as no process can run on them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{self, Options};
    /// use treefold::run::program::Program;
    /// use treefold::topology::{NodeId, from_spec};
    /// use treefold::units::parse_time;
    ///
    /// let ring = Arc::new(from_spec("ring:4", None, None)?);
    /// let plan = planners::plan("ring", &ring, &Options::default())?;
    /// let program = Program::new(&plan, NodeId(2), 1000, 4, parse_time("0s")?)?;
    /// assert_eq!(program.peers, [NodeId(1), NodeId(3)]);
    /// assert_eq!((program.sends(), program.mean_bytes), (6, 1000), "six times a quarter of 4000 bytes");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: &Plan, rank: NodeId, elements: u64, element_bytes: u64, overhead: Time) -> Result<Self> {
        Self::crossing_as(None, plan, rank, elements, element_bytes, overhead)
    }

    /// Returns what [`Self::new`] does for numbers that cross lines as `wire`. They cross as they are all the same
    /// where the ranks would not end with the same bits, as in exchanges, where each rank adds up by itself.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("ring", &ring, &Options::default())?;
    /// use treefold::number::wire::Wire;
    /// use treefold::run::program::Program;
    /// use treefold::topology::NodeId;
    /// use treefold::units::parse_time;
    ///
    /// let wire = Some(Wire::Int8);
    /// let program = Program::crossing_as(wire, &plan, NodeId(2), 1024, 4, parse_time("0s")?)?;
    /// assert_eq!((program.wire, program.mean_bytes), (wire, 260), "a quarter is a block, with its scale");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn crossing_as(
        wire: Option<Wire>,
        plan: &Plan,
        rank: NodeId,
        elements: u64,
        element_bytes: u64,
        overhead: Time,
    ) -> Result<Self> {
        if rank.0 >= plan.ranks() {
            bail!("rank {rank} does not exist: the plan is for {} ranks", plan.ranks());
        }
        let (schedule, used) = Self::lower_as(wire, plan, elements, element_bytes, overhead)?;
        let part = Self::of_schedule(plan, &schedule, rank, elements, element_bytes).crossing(used, &schedule);
        Ok(Self { wanted: wire, ..part })
    }

    /// Returns the parts of all ranks.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::run::program::Program;
    /// use treefold::units::parse_time;
    ///
    /// let programs = Program::all(&plan, 1000, 4, parse_time("0s")?)?;
    /// assert_eq!(programs.iter().map(|each| each.rank.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn all(plan: &Plan, elements: u64, element_bytes: u64, overhead: Time) -> Result<Vec<Self>> {
        Self::all_crossing_as(None, plan, elements, element_bytes, overhead)
    }

    /// Returns the parts of all ranks, for numbers that cross lines as `wire`.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn all_crossing_as(
        wire: Option<Wire>,
        plan: &Plan,
        elements: u64,
        element_bytes: u64,
        overhead: Time,
    ) -> Result<Vec<Self>> {
        let (schedule, used) = Self::lower_as(wire, plan, elements, element_bytes, overhead)?;
        let part = |rank| Self::of_schedule(plan, &schedule, rank, elements, element_bytes).crossing(used, &schedule);
        Ok(plan.rank_ids().map(|rank| Self { wanted: wire, ..part(rank) }).collect())
    }

    pub(super) fn lower(plan: &Plan, elements: u64, element_bytes: u64, overhead: Time) -> Result<Schedule> {
        let schedule = lower_for(plan, elements, element_bytes, overhead)?;
        if let Some(&switch) = schedule.buffers.iter().find(|&&node| !plan.topology.is_rank(node)) {
            misfit!(
                "switch {} reduces or multicasts in this plan, which can therefore be simulated, but not run between \
                 workers; name another algorithm, for example packing",
                plan.topology.node(switch).name
            );
        }
        Ok(schedule)
    }

    fn of_schedule(plan: &Plan, schedule: &Schedule, rank: NodeId, elements: u64, element_bytes: u64) -> Self {
        let part = |&id: &TransferId| schedule.ends(id).contains(&rank);
        let own: Vec<TransferId> = schedule.ids().filter(part).collect();
        let peers = peers(schedule, &own, rank);
        let tasks = tasks(schedule, &own, rank, plan.ranks(), &peers);
        let is_personalized = plan.collective.is_personalized();
        let own_elements = plan.vector(elements, rank);
        let before = if is_personalized { u64::from(rank) * elements } else { 0 };
        let mut places = Places::new(own_elements, plan.ranks(), before);
        let (pieces, local_target) = places.find(schedule, &own, rank, element_bytes);
        let (waits, wakes) = waits(schedule, &own, &tasks, &pieces, &local_target);
        let given = input(plan, elements, rank);
        let first = if is_personalized { 0 } else { given.start };
        let outputs = outputs(plan, elements, rank, &places).into_iter();
        Self {
            rank,
            ranks: plan.ranks(),
            collective: plan.collective,
            element_bytes,
            elements,
            wire: None,
            wanted: None,
            peers,
            turn: turns(plan, schedule, &own),
            transfers: schedule.len(),
            offset: Vec::new(),
            is_final: own.iter().map(|&id| schedule.op[id] == Op::Copy).collect(),
            local_target,
            waits,
            wakes,
            vector_bytes: (own_elements * element_bytes) as usize,
            scratch_bytes: ((places.end - own_elements) * element_bytes) as usize,
            mean_bytes: mean_of_sends(&tasks, &pieces),
            input: in_bytes(first..first + given.end - given.start, element_bytes),
            output: outputs.map(|range| in_bytes(range, element_bytes)).collect(),
            fingerprint: plan.fingerprint(),
            transfer: own,
            tasks,
            pieces,
        }
    }

    /// Returns how many tasks the rank has with each peer.
    pub(super) fn tasks_with(&self) -> Vec<u32> {
        let mut count = vec![0; self.peers.len()];
        self.tasks.iter().filter_map(|task| task.peer()).for_each(|peer| count[peer] += 1);
        count
    }

    /// Returns how many messages the rank sends.
    pub fn sends(&self) -> usize {
        self.tasks.iter().filter(|task| matches!(task, Task::Send(_))).count()
    }

    /// Returns how many messages come from each peer.
    pub fn receives(&self) -> Vec<usize> {
        let mut count = vec![0; self.peers.len()];
        for task in &self.tasks {
            if let Task::Reduce(peer) | Task::Replace(peer) = task {
                count[*peer] += 1;
            }
        }
        count
    }

    /// Returns the bytes of a task's message, as it crosses lines.
    pub fn bytes(&self, task: TaskId) -> usize {
        self.pieces.row(task).iter().map(|piece| self.bytes_crossing(piece)).sum()
    }

    /// Returns the bytes of the result.
    pub fn result_bytes(&self) -> usize {
        self.output.iter().map(ExactSizeIterator::len).sum()
    }

    /// Returns the bytes of the longest message.
    pub fn longest_message(&self) -> usize {
        TaskId::first(self.tasks.len()).map(|task| self.bytes(task)).max().unwrap_or(0)
    }
}

/// Returns the ranks other than `rank` at the ends of the transfers of `own`, in order.
fn peers(schedule: &Schedule, own: &[TransferId], rank: NodeId) -> Vec<NodeId> {
    let ends = own.iter().flat_map(|&id| schedule.ends(id));
    let mut peers: Vec<NodeId> = ends.filter(|&end| end != rank).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// Returns what `rank`, whose peers are `peers`, has to do in each transfer of `own`. What comes into an empty buffer
/// replaces it.
fn tasks(schedule: &Schedule, own: &[TransferId], rank: NodeId, ranks: u32, peers: &[NodeId]) -> Vec<Task> {
    let number_of = |peer| PeerId::new(peers.binary_search(&peer).expect("every peer is listed"));
    let copies = own.iter().filter(|&&id| schedule.op[id] == Op::Local);
    let filled: HashSet<BufferId> = copies.map(|&id| schedule.target[id]).collect();
    let is_filled = |buffer: BufferId| buffer.rank(ranks).is_some() || filled.contains(&buffer);
    let task = |&id: &TransferId| match (schedule.op[id], schedule.ends(id)) {
        (Op::Local, _) => Task::Copy,
        (Op::LocalReduce, _) => Task::Add,
        (_, [source, target]) if source == rank => Task::Send(number_of(target)),
        (Op::Reduce, [source, _]) if is_filled(schedule.target[id]) => Task::Reduce(number_of(source)),
        (Op::Reduce | Op::Copy, [source, _]) => Task::Replace(number_of(source)),
    };
    own.iter().map(task).collect()
}

/// Returns the mean of the bytes of the messages that are sent.
fn mean_of_sends(tasks: &[Task], pieces: &Csr<Range<usize>>) -> usize {
    let sends = TaskId::first(tasks.len()).filter(|&task| matches!(tasks[task], Task::Send(_)));
    let (count, bytes) = sends.fold((0, 0), |(count, bytes), task| (count + 1, bytes + bytes_of(pieces, task)));
    bytes / count.max(1)
}

fn bytes_of(pieces: &Csr<Range<usize>>, task: TaskId) -> usize {
    pieces.row(task).iter().map(|piece| piece.end - piece.start).sum()
}

/// Turns a range of elements into one of bytes.
fn in_bytes(elements: Range<u64>, element_bytes: u64) -> Range<usize> {
    (elements.start * element_bytes) as usize..(elements.end * element_bytes) as usize
}

/// Returns the places of the result's pieces, in elements. In an all-to-all, trees and chunks cut the blocks that
/// arrive, and each part has a place of its own, which is found by its first element.
fn outputs(plan: &Plan, elements: u64, rank: NodeId, places: &Places) -> Vec<Range<u64>> {
    let wanted = output(plan, elements, rank);
    if !plan.collective.is_personalized() {
        return wanted;
    }
    let mut received: Vec<(u64, u64)> = places.passing.iter().map(|(&start, &place)| (start, place)).collect();
    received.sort_unstable();
    let mut all = Vec::new();
    for range in wanted {
        if range.start >= places.before && range.end <= places.before + places.vector {
            all.push(range.start - places.before..range.end - places.before);
            continue;
        }
        let first = received.partition_point(|&(start, _)| start < range.start);
        let here: Vec<(u64, u64)> =
            received[first..].iter().copied().take_while(|&(start, _)| start < range.end).collect();
        for (i, &(start, place)) in here.iter().enumerate() {
            let end = here.get(i + 1).map_or(range.end, |next| next.0);
            all.push(place..place + end - start);
        }
    }
    all
}

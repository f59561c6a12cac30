//! A rank's program: its part of a lowered schedule, as tasks that wait for each other.
//!
//! A task is a transfer as one rank sees it: the rank sends, receives, or copies within its memory. A rank keeps the
//! dependencies between transfers in which it has a part; other ranks keep the others. A received copy also waits until
//! the data that it overwrites have been sent.
//! Cost: one pass over the schedule, and memory for the rank's own tasks only.

use std::collections::HashMap;
use std::ops::Range;

use crate::bail;
use crate::error::Result;
use crate::ids::NodeId;
use crate::plan::schedule::{Csr, Op, Schedule, input, lower_for, output};
use crate::plan::{Collective, Plan};
use crate::units::Time;

/// A task: a transfer as the rank sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Sends to the peer with this index.
    Send(u32),
    /// Receives from the peer with this index, and adds.
    Reduce(u32),
    /// Receives from the peer with this index, and replaces.
    Replace(u32),
    /// Copies within the rank's memory.
    Local,
}

impl Task {
    /// Returns the index of the peer that has a part in the task.
    pub fn peer(self) -> Option<usize> {
        match self {
            Self::Send(peer) | Self::Reduce(peer) | Self::Replace(peer) => Some(peer as usize),
            Self::Local => None,
        }
    }
}

/// One rank's part of a collective on vectors of one size.
#[derive(Debug, Clone)]
pub struct Program {
    /// The rank.
    pub rank: u32,
    /// How many ranks the collective has.
    pub ranks: u32,
    /// The collective.
    pub collective: Collective,
    /// The bytes of an element.
    pub element_bytes: usize,
    /// The elements of each rank's vector.
    pub elements: u64,
    /// The ranks that this one sends to or receives from, in order.
    pub peers: Vec<u32>,
    /// The tasks, in the order of the schedule.
    pub(super) tasks: Vec<Task>,
    /// The number of each task's transfer in the schedule, which is the same at both ends.
    pub(super) transfer: Vec<u32>,
    /// The turn of each task: of several sends to one peer, the one with the lowest goes first.
    pub(super) turn: Vec<u64>,
    /// The bytes that each task moves, as ranges of the vector; beyond its end is scratch space.
    pub(super) pieces: Csr<Range<usize>>,
    /// The place to which each local copy goes.
    pub(super) local_target: HashMap<u32, usize>,
    /// How many tasks each task waits for.
    pub(super) waits: Vec<u32>,
    /// The tasks that wait for each task.
    pub(super) wakes: Csr<u32>,
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
    /// The elements before the rank's own vector, where the elements of all ranks are numbered through.
    before: u64,
    /// The copy in each buffer.
    copies: HashMap<u32, Copied>,
    /// The places of data that pass through on their route to others, by their first element.
    passing: HashMap<u64, u64>,
}

/// A copied span.
struct Copied {
    first: u64,
    place: u64,
}

impl Places {
    /// Makes room for a copy of `span`; returns its place.
    fn copy(&mut self, buffer: u32, span: &Range<u64>) -> u64 {
        let place = self.end;
        self.copies.insert(buffer, Copied { first: span.start, place });
        self.end += span.end - span.start;
        place
    }

    /// Returns the place of `piece` of `buffer`; a piece that is not the rank's own gets one at the end.
    fn of(&mut self, buffer: u32, piece: &Range<u64>) -> u64 {
        if let Some(Copied { first, place }) = self.copies.get(&buffer) {
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
    pub fn new(plan: &Plan, rank: u32, elements: u64, element_bytes: usize, overhead: Time) -> Result<Self> {
        if rank >= plan.ranks() {
            bail!("rank {rank} does not exist: the plan is for {} ranks", plan.ranks());
        }
        let schedule = Self::lower(plan, elements, element_bytes, overhead)?;
        Ok(Self::of_schedule(plan, &schedule, NodeId(rank), elements, element_bytes))
    }

    /// Returns the parts of all ranks.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn all(plan: &Plan, elements: u64, element_bytes: usize, overhead: Time) -> Result<Vec<Self>> {
        let schedule = Self::lower(plan, elements, element_bytes, overhead)?;
        let part = |rank| Self::of_schedule(plan, &schedule, rank, elements, element_bytes);
        Ok(plan.rank_ids().map(part).collect())
    }

    fn lower(plan: &Plan, elements: u64, element_bytes: usize, overhead: Time) -> Result<Schedule> {
        let schedule = lower_for(plan, elements, element_bytes as u64, overhead)?;
        if let Some(&switch) = schedule.buffers.iter().find(|&&node| !plan.topology.is_rank(node)) {
            bail!(
                "switch {} is a node of the plan's trees: only a network whose switches reduce and multicast can run \
                 it; plan with switches that do not (\"reduces\": false, \"multicasts\": false)",
                plan.topology.node(switch).name
            );
        }
        Ok(schedule)
    }

    fn of_schedule(plan: &Plan, schedule: &Schedule, rank: NodeId, elements: u64, element_bytes: usize) -> Self {
        let node = |buffer: u32| schedule.buffers[buffer as usize];
        let part = |id: usize| (node(schedule.source[id]), node(schedule.target[id]));
        let own: Vec<usize> = (0..schedule.len()).filter(|&id| part(id).0 == rank || part(id).1 == rank).collect();
        let other = |(a, b): (NodeId, NodeId)| if a == rank { b } else { a };
        let mut peers: Vec<u32> = own.iter().map(|&id| other(part(id)).0).collect();
        peers.retain(|&peer| peer != rank.0);
        peers.sort_unstable();
        peers.dedup();
        let slot = |peer: NodeId| peers.binary_search(&peer.0).expect("every peer is listed") as u32;
        let task = |&id: &usize| match (schedule.op[id], part(id)) {
            (Op::Local, _) => Task::Local,
            (_, (source, target)) if source == rank => Task::Send(slot(target)),
            (Op::Reduce, (source, _)) => Task::Reduce(slot(source)),
            (_, (source, _)) => Task::Replace(slot(source)),
        };
        let is_personalized = plan.collective.is_personalized();
        let before = if is_personalized { u64::from(rank) * elements } else { 0 };
        let (copies, passing) = (HashMap::new(), HashMap::new());
        let mut places = Places { vector: elements, end: elements, before, copies, passing };
        let mut program = Self {
            rank: rank.0,
            ranks: plan.ranks(),
            collective: plan.collective,
            element_bytes: 1,
            elements,
            tasks: own.iter().map(task).collect(),
            transfer: own.iter().map(|&id| id as u32).collect(),
            turn: turns(plan, schedule, &own),
            pieces: Csr::default(),
            local_target: HashMap::new(),
            waits: Vec::new(),
            wakes: Csr::default(),
            vector_bytes: 0,
            scratch_bytes: 0,
            mean_bytes: 0,
            input: 0..0,
            output: Vec::new(),
            fingerprint: plan.fingerprint(),
            peers,
        };
        program.place(schedule, &own, rank, &mut places);
        program.wire(schedule, &own);
        let range = input(plan, elements, rank);
        let first = if is_personalized { 0 } else { range.start };
        program.input = first as usize..(first + range.end - range.start) as usize;
        program.output = outputs(plan, elements, rank, &places);
        (program.vector_bytes, program.scratch_bytes) = (elements as usize, (places.end - elements) as usize);
        program.scale(element_bytes);
        program.mean_bytes = program.mean_of_sends();
        program
    }

    /// Finds the places of each task's pieces in the rank's vector and scratch space.
    fn place(&mut self, schedule: &Schedule, own: &[usize], rank: NodeId, places: &mut Places) {
        for (number, &id) in own.iter().enumerate() {
            let (source, target) = (schedule.source[id], schedule.target[id]);
            let buffer = if schedule.buffers[source as usize] == rank { source } else { target };
            let rows = schedule.pieces.row(id);
            if schedule.op[id] == Op::Local {
                let place = places.copy(target, &rows[0]);
                self.local_target.insert(number as u32, place as usize);
            }
            let row: Vec<Range<usize>> = rows.iter().map(|piece| here(places.of(buffer, piece), piece)).collect();
            self.pieces.push_row(row);
        }
    }

    /// Finds which task waits for which.
    fn wire(&mut self, schedule: &Schedule, own: &[usize]) {
        let count = own.len();
        let number_of = |id: u32| own.binary_search(&(id as usize)).ok().map(|number| number as u32);
        let mut edges: Vec<(u32, u32)> = Vec::new();
        let mut last_sent: HashMap<usize, u32> = HashMap::new();
        for (number, &id) in (0u32..).zip(own) {
            edges.extend(schedule.dependencies.row(id).iter().filter_map(|&before| Some((number_of(before)?, number))));
            let starts = self.pieces.row(number as usize).iter().map(|piece| piece.start);
            match self.tasks[number as usize] {
                Task::Send(_) => last_sent.extend(starts.map(|start| (start, number))),
                Task::Replace(_) => edges.extend(starts.filter_map(|start| Some((*last_sent.get(&start)?, number)))),
                Task::Reduce(_) | Task::Local => {}
            }
        }
        edges.sort_unstable();
        edges.dedup();
        self.waits = vec![0; count];
        edges.iter().for_each(|&(_, after)| self.waits[after as usize] += 1);
        let mut rest = edges.as_slice();
        for number in 0..count as u32 {
            let (row, others) = rest.split_at(rest.partition_point(|&(before, _)| before == number));
            rest = others;
            self.wakes.push_row(row.iter().map(|&(_, after)| after));
        }
    }

    /// Turns elements into bytes.
    fn scale(&mut self, element_bytes: usize) {
        let scale = |range: &mut Range<usize>| *range = range.start * element_bytes..range.end * element_bytes;
        self.pieces.items.iter_mut().for_each(scale);
        self.output.iter_mut().for_each(scale);
        scale(&mut self.input);
        self.local_target.values_mut().for_each(|place| *place *= element_bytes);
        self.vector_bytes *= element_bytes;
        self.scratch_bytes *= element_bytes;
        self.element_bytes = element_bytes;
    }

    fn mean_of_sends(&self) -> usize {
        let sends = (0..).zip(&self.tasks).filter(|(_, task)| matches!(task, Task::Send(_)));
        let (count, bytes) = sends.fold((0, 0), |(count, bytes), (task, _)| (count + 1, bytes + self.bytes(task)));
        bytes / count.max(1)
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
                count[*peer as usize] += 1;
            }
        }
        count
    }

    /// Returns the bytes of a task's message.
    pub fn bytes(&self, task: u32) -> usize {
        self.pieces.row(task as usize).iter().map(|piece| piece.end - piece.start).sum()
    }

    /// Returns the bytes of the longest message.
    pub fn longest_message(&self) -> usize {
        (0..self.tasks.len() as u32).map(|task| self.bytes(task)).max().unwrap_or(0)
    }
}

fn here(place: u64, piece: &Range<u64>) -> Range<usize> {
    place as usize..(place + piece.end - piece.start) as usize
}

/// Returns the places of the result's pieces. In an all-to-all, trees and chunks cut the blocks that arrive, and each
/// part has a place of its own, which is found by its first element.
fn outputs(plan: &Plan, elements: u64, rank: NodeId, places: &Places) -> Vec<Range<usize>> {
    let wanted = output(plan, elements, rank);
    if !plan.collective.is_personalized() {
        return wanted.iter().map(|range| range.start as usize..range.end as usize).collect();
    }
    let mut received: Vec<(u64, u64)> = places.passing.iter().map(|(&start, &place)| (start, place)).collect();
    received.sort_unstable();
    let mut all = Vec::new();
    for range in wanted {
        if range.start >= places.before && range.end <= places.before + places.vector {
            all.push((range.start - places.before) as usize..(range.end - places.before) as usize);
            continue;
        }
        let first = received.partition_point(|&(start, _)| start < range.start);
        let here: Vec<(u64, u64)> =
            received[first..].iter().copied().take_while(|&(start, _)| start < range.end).collect();
        for (i, &(start, place)) in here.iter().enumerate() {
            let end = here.get(i + 1).map_or(range.end, |next| next.0);
            all.push(place as usize..(place + end - start) as usize);
        }
    }
    all
}

/// Returns the turn of each transfer of `own`: by phase, then by step, then by how far its tree has progressed.
fn turns(plan: &Plan, schedule: &Schedule, own: &[usize]) -> Vec<u64> {
    let spans: Vec<Vec<Range<u64>>> =
        plan.phases.iter().map(|phase| spans_of(plan, phase.trees.clone(), schedule)).collect();
    let turn = |&id: &usize| {
        let (phase, step) = (schedule.phase[id], schedule.step[id]);
        let streamed = plan.phases[phase as usize].pace.is_stream() && !plan.collective.is_personalized();
        let first = schedule.pieces.row(id).first().map_or(0, |piece| piece.start);
        let progress = if streamed { progress(&spans[phase as usize], first) } else { 0 };
        u64::from(phase) << 48 | u64::from(step) << 32 | u64::from(progress)
    };
    own.iter().map(turn).collect()
}

fn spans_of(plan: &Plan, trees: Range<usize>, schedule: &Schedule) -> Vec<Range<u64>> {
    let at = |unit| crate::plan::schedule::cut(schedule.elements, plan.units, unit);
    let mut spans: Vec<Range<u64>> = plan.trees[trees]
        .iter()
        .map(|tree| at(tree.span.start)..at(tree.span.end))
        .filter(|span| !span.is_empty())
        .collect();
    spans.sort_unstable_by_key(|span| span.start);
    spans
}

/// Returns how much of its tree's span lies before `element`, as a part of 2^32.
fn progress(spans: &[Range<u64>], element: u64) -> u32 {
    let next = spans.partition_point(|span| span.start <= element);
    let Some(span) = next.checked_sub(1).map(|last| &spans[last]) else { return 0 };
    ((u128::from(element - span.start) << 32) / u128::from(span.end - span.start)) as u32
}

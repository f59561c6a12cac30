//! An operation: a program at work on one vector. It knows no transport: it decides what to send next to each peer, and
//! uses the messages that arrive.
//!
//! Messages that may be sent to a peer wait in a queue ordered by turn: by phase, by step, and by how far their trees
//! have progressed. A message that arrives before it may be used is parked; any other is added or copied as it comes,
//! block by block.
//! Cost: a few dozen nanoseconds a task, besides the bytes.

mod crossing;
mod feedback;
mod places;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use super::message::Message;
use super::program::{PeerId, Program, Task, TaskId};
use super::recording::Recording;
use crate::bail;
use crate::error::Result;
use crate::number::{Combine, Number, Operator, combine};
use crate::plan::schedule::TransferId;
use places::{place, rest, two_places};

/// A send that waits for nothing more. Sends are ordered by turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    turn: u64,
    task: TaskId,
}

/// The progress of a program: the state of an operation that is suspended.
#[derive(Debug, Clone)]
pub struct Progress {
    number: Number,
    operator: Operator,
    combine: Combine,
    /// How many tasks each task still waits for.
    waits: Vec<u32>,
    /// The sends to each peer that wait for nothing more.
    ready: Vec<BinaryHeap<Reverse<Ready>>>,
    /// What came before it may be used, by task: parts of messages, each with the bytes of its message before it.
    parked: HashMap<TaskId, Vec<(usize, Message)>>,
    /// The bytes that have come of messages that come in several parts.
    arrived: HashMap<TaskId, usize>,
    /// How many tasks have not ended.
    left: usize,
    /// How many tasks with each peer have not ended.
    left_with: Vec<u32>,
}

impl Progress {
    /// Returns the progress of a program of which nothing is done.
    ///
    /// # Errors
    /// If the numbers have no such operator.
    fn new(program: &Program, number: Number, operator: Operator) -> Result<Self> {
        Ok(Self {
            number,
            operator,
            combine: combine(number, operator)?,
            waits: program.waits.clone(),
            ready: vec![BinaryHeap::new(); program.peers.len()],
            parked: HashMap::new(),
            arrived: HashMap::new(),
            left: program.tasks.len(),
            left_with: program.tasks_with(),
        })
    }

    /// Returns whether everything is sent and received.
    pub fn done(&self) -> bool {
        self.left == 0
    }

    /// Returns the task that sends next to a peer, which stays queued.
    pub fn peek_send(&self, peer: PeerId) -> Option<TaskId> {
        self.ready[peer].peek().map(|Reverse(ready)| ready.task)
    }
}

/// A program at work on a vector.
pub struct Operation<'a> {
    program: &'a Program,
    vector: &'a mut [u8],
    scratch: &'a mut [u8],
    progress: Progress,
    recording: Option<&'a mut Recording>,
    /// What rounding has taken from each element; `None` if it is not kept.
    residual: Option<&'a mut [f32]>,
}

/// The place of the next bytes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// They replace the bytes of this range of the vector, or of the scratch space behind it: [`Operation::place`].
    Place(Range<usize>),
    /// They are passed to [`Operation::take`], whole elements at a time.
    Take,
}

impl<'a> Operation<'a> {
    /// Begins `program` on `vector`, which holds the rank's input and will hold its result. `scratch` is memory that
    /// one operation after the other uses.
    ///
    /// # Errors
    /// If the vector's length or alignment does not fit the program, or the numbers have no such operator.
    pub fn new(
        program: &'a Program,
        number: Number,
        operator: Operator,
        vector: &'a mut [u8],
        scratch: &'a mut Vec<u64>,
    ) -> Result<Self> {
        let progress = Progress::new(program, number, operator)?;
        Ok(Self::resume(program, vector, scratch, progress)?.begun())
    }

    /// Starts all tasks that wait for nothing.
    fn begun(mut self) -> Self {
        for task in TaskId::first(self.program.tasks.len()) {
            // A task that waits for others is released by them.
            if self.program.waits[task] == 0 {
                self.release(task);
            }
        }
        self
    }

    /// Resumes an operation that was suspended, on the same memory.
    ///
    /// # Errors
    /// If the vector's length or alignment does not fit the program.
    pub fn resume(
        program: &'a Program,
        vector: &'a mut [u8],
        scratch: &'a mut Vec<u64>,
        progress: Progress,
    ) -> Result<Self> {
        if let Some(wire) = program.wire {
            wire.carrying(progress.number)?;
        }
        if vector.len() != program.vector_bytes {
            bail!("the vector has {} bytes, but the program is for {}", vector.len(), program.vector_bytes);
        }
        if !vector.is_empty() && !vector.as_ptr().addr().is_multiple_of(program.element_bytes.min(8) as usize) {
            bail!("the vector's first element is not aligned to its {} bytes; copy it", program.element_bytes);
        }
        scratch.resize(scratch.len().max(program.scratch_bytes.div_ceil(8)), 0);
        let scratch = &mut bytemuck::cast_slice_mut(scratch)[..program.scratch_bytes];
        Ok(Self { program, vector, scratch, progress, recording: None, residual: None })
    }

    /// Records from now on when messages leave and come; the recording is prepared for this program.
    pub fn recorded(mut self, recording: &'a mut Recording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Suspends the operation: gives its memory back and keeps its progress.
    pub fn suspend(self) -> Progress {
        self.progress
    }

    /// Returns the program at work.
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Returns the type of the vector's numbers.
    pub fn number(&self) -> Number {
        self.progress.number
    }

    /// Returns the operator that reduces them.
    pub fn operator(&self) -> Operator {
        self.progress.operator
    }

    /// Returns whether everything is sent and received.
    pub fn done(&self) -> bool {
        self.progress.done()
    }

    /// Returns whether anything has still to be sent to a peer or received from it.
    pub(crate) fn needs(&self, peer: PeerId) -> bool {
        self.progress.left_with[peer] > 0
    }

    /// Takes the task that sends next to a peer out of the queue.
    pub fn next_send(&mut self, peer: PeerId) -> Option<TaskId> {
        self.progress.ready[peer].pop().map(|Reverse(ready)| ready.task)
    }

    /// Returns the task that sends next to a peer, which stays in the queue.
    pub(crate) fn peek_send(&self, peer: PeerId) -> Option<TaskId> {
        self.progress.peek_send(peer)
    }

    /// Returns the number of a task's transfer, which is the same at both ends.
    pub fn transfer(&self, task: TaskId) -> TransferId {
        self.program.transfer[task]
    }

    /// Returns the bytes of a task's message.
    pub fn bytes(&self, task: TaskId) -> usize {
        self.program.bytes(task)
    }

    /// Returns the ranges of a task's bytes in the vector and in the scratch space behind it.
    pub(crate) fn pieces(&self, task: TaskId) -> &'a [Range<usize>] {
        self.program.pieces.row(task)
    }

    /// Returns the bytes of a message from byte `from` on, piece by piece.
    pub(crate) fn payload(&self, task: TaskId, from: usize) -> impl Iterator<Item = &[u8]> {
        rest(self.pieces(task), from).map(|piece| self.at(piece))
    }

    /// Copies a message's bytes from byte `from` on to `target`, as many as it has room for. Numbers that cross lines
    /// in another type are encoded, whole blocks at a time.
    pub fn copy_payload(&mut self, task: TaskId, from: usize, mut target: &mut [u8]) {
        if let Some(wire) = self.program.wire {
            return self.encode(wire, task, from, target);
        }
        for piece in self.payload(task, from) {
            let (now, later) = target.split_at_mut(piece.len().min(target.len()));
            now.copy_from_slice(&piece[..now.len()]);
            target = later;
        }
    }

    fn at(&self, range: Range<usize>) -> &[u8] {
        match range.start.checked_sub(self.vector.len()) {
            Some(start) => &self.scratch[start..range.end - self.vector.len()],
            None => &self.vector[range],
        }
    }

    /// Returns the bytes of a range of the vector, or of the scratch space behind it.
    pub(crate) fn place(&mut self, range: Range<usize>) -> &mut [u8] {
        place(self.vector, self.scratch, range)
    }

    /// Returns the task that sends transfer `transfer`, if there is one.
    pub fn sender(&self, transfer: TransferId) -> Option<TaskId> {
        self.task(transfer).filter(|&task| matches!(self.program.tasks[task], Task::Send(_)))
    }

    /// Returns the task that receives transfer `transfer` from the peer, if there is one.
    pub fn receiver(&self, peer: PeerId, transfer: TransferId) -> Option<TaskId> {
        self.task(transfer).filter(|&task| match self.program.tasks[task] {
            Task::Reduce(from) | Task::Replace(from) => from == peer,
            Task::Send(_) | Task::Copy | Task::Add => false,
        })
    }

    fn task(&self, transfer: TransferId) -> Option<TaskId> {
        self.program.transfer.binary_search(&transfer).ok().map(TaskId::new)
    }

    /// Returns whether a message may be used as it comes; otherwise it has to be parked.
    pub fn may_use(&self, task: TaskId) -> bool {
        self.progress.waits[task] == 0
    }

    /// Keeps a part of a message, which begins at byte `from` of it, until it may be used.
    pub fn park(&mut self, task: TaskId, from: usize, part: Message) {
        let length = part.bytes().len();
        if self.may_use(task) {
            self.take(task, from, part.bytes());
            self.has_taken(task, length);
            return;
        }
        if self.is_whole(task, length) {
            self.note_end(task);
        }
        self.progress.parked.entry(task).or_default().push((from, part));
    }

    /// Notes that a part of a message of this length has been used, which ends the task if it was the last.
    pub(crate) fn has_taken(&mut self, task: TaskId, length: usize) {
        if self.is_whole(task, length) {
            self.end(task);
        }
    }

    /// Counts a part of a message that has come; returns whether that was the last one.
    fn is_whole(&mut self, task: TaskId, length: usize) -> bool {
        let bytes = self.bytes(task);
        if length == bytes {
            return true;
        }
        let arrived = self.progress.arrived.entry(task).or_default();
        *arrived += length;
        *arrived == bytes
    }

    /// Uses the parts of a message that came before it may be used; returns whether that was all of it.
    fn take_parked(&mut self, task: TaskId) -> bool {
        let Some(parts) = self.progress.parked.remove(&task) else { return false };
        for (from, part) in &parts {
            self.take(task, *from, part.bytes());
        }
        let bytes = self.bytes(task);
        self.progress.arrived.get(&task).is_none_or(|&arrived| arrived == bytes)
    }

    /// Returns where the bytes of a message belong from byte `from` on. The message must be one that may be used.
    pub(crate) fn sink(&self, task: TaskId, from: usize) -> Sink {
        match self.program.tasks[task] {
            Task::Replace(_) => rest(self.pieces(task), from).next().map_or(Sink::Take, Sink::Place),
            _ => Sink::Take,
        }
    }

    /// Adds or copies a message's bytes, which begin at byte `from` and are whole elements, to the vector.
    pub fn take(&mut self, task: TaskId, from: usize, mut bytes: &[u8]) {
        if let Some(wire) = self.program.wire {
            return self.decode(wire, task, from, bytes);
        }
        let reduces = matches!(self.program.tasks[task], Task::Reduce(_));
        for piece in rest(self.pieces(task), from) {
            let length = bytes.len().min(piece.end - piece.start);
            let (now, later) = bytes.split_at(length);
            let target = place(self.vector, self.scratch, piece.start..piece.start + length);
            if reduces {
                (self.progress.combine)(target, now);
            } else {
                target.copy_from_slice(now);
            }
            bytes = later;
        }
    }

    /// Copies the pieces of the result to `target`, one behind the other.
    ///
    /// # Errors
    /// If `target` does not have the length of the result.
    pub fn copy_result(&self, target: &mut [u8]) -> Result<()> {
        let bytes = self.program.result_bytes();
        if bytes != target.len() {
            bail!("the result has {bytes} bytes, but there is room for {}", target.len());
        }
        let mut rest = target;
        for piece in &self.program.output {
            let (now, later) = rest.split_at_mut(piece.len());
            now.copy_from_slice(self.at(piece.clone()));
            rest = later;
        }
        Ok(())
    }

    /// Tells the recording, if there is one, that the first byte of a message is about to leave.
    pub(crate) fn note_begin(&mut self, task: TaskId) {
        if let Some(recording) = &mut self.recording {
            recording.begin(task);
        }
    }

    fn note_end(&mut self, task: TaskId) {
        if let Some(recording) = &mut self.recording {
            recording.end(task);
        }
    }

    /// Ends a task whose message has wholly left or been used, and starts the tasks that wait for nothing else.
    pub fn end(&mut self, task: TaskId) {
        self.note_end(task);
        let mut ended = vec![task];
        while let Some(task) = ended.pop() {
            self.progress.left -= 1;
            if let Some(peer) = self.program.tasks[task].peer() {
                self.progress.left_with[peer] -= 1;
            }
            for &next in self.program.wakes.row(task) {
                self.progress.waits[next] -= 1;
                if self.progress.waits[next] == 0 && self.start(next) {
                    ended.push(next);
                }
            }
        }
    }

    fn release(&mut self, task: TaskId) {
        if self.start(task) {
            self.end(task);
        }
    }

    /// Copies or adds within the rank's memory.
    fn run_locally(&mut self, task: TaskId) {
        let pieces = self.pieces(task);
        let first = self.program.local_target[&task];
        for source in pieces {
            self.round_result(task, source.clone());
            let start = first + source.start - pieces[0].start;
            let (from, to) = two_places(self.vector, self.scratch, source.clone(), start..start + source.len());
            match self.program.tasks[task] {
                Task::Add => (self.progress.combine)(to, from),
                _ => to.copy_from_slice(from),
            }
        }
    }

    /// Starts a task that waits for nothing more; returns whether that has ended it.
    fn start(&mut self, task: TaskId) -> bool {
        match self.program.tasks[task] {
            Task::Send(peer) => {
                self.progress.ready[peer].push(Reverse(Ready { turn: self.program.turn[task], task }));
                false
            }
            Task::Copy | Task::Add => {
                self.run_locally(task);
                true
            }
            Task::Reduce(_) | Task::Replace(_) => self.take_parked(task),
        }
    }
}

//! The in-process transport: each rank has a thread, and messages go through queues.
//!
//! A message travels in blocks that are small enough to stay in the caches: the sender copies a block, and the receiver
//! adds it while it is in the cache and uses its memory again. A rank's inbox holds few blocks. A sender whose block
//! finds no room empties its own inbox first, so that no rank blocks another. Ranks with little to do share one thread,
//! because waking another thread would take longer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::message::Message;
use super::operation::Operation;
use super::program::{PeerId, Program, TaskId};
use super::recording::Recording;
use crate::error::{Error, Result};
use crate::ids::NodeId;
use crate::number::{Number, Operator};
use crate::plan::schedule::TransferId;

/// The most bytes of a block, which are whole elements of any type.
const BLOCK_BYTES: usize = 64 << 10;
/// The most blocks in an inbox.
const INBOX: usize = 16;
/// The most bytes of all vectors together for which one thread does all the work.
const ONE_THREAD_BYTES: usize = 256 << 10;
/// How often a rank that waits asks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A part of a message that is sent.
struct Block {
    /// The rank that has sent it.
    from: NodeId,
    transfer: TransferId,
    /// Its first byte in the message.
    start: usize,
    content: Message,
}

/// A message that is sent, block by block.
struct Outgoing {
    task: TaskId,
    /// The block that goes next.
    next: Block,
}

/// Runs one operation on all ranks in this process. `vectors` are the vectors of the ranks, in rank order, and hold the
/// results afterwards. Each rank has a recording, if there are any. `go_on` is asked now and then on the calling
/// thread, which works for rank 0.
///
/// # Errors
/// If a vector does not fit its program, the numbers have no such operator, or `go_on` returns false.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options};
/// use treefold::run::memory;
/// use treefold::number::{Number, Operator};
/// use treefold::run::program::Program;
/// use treefold::topology::from_spec;
/// use treefold::units::parse_time;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// let programs = Program::all(&plan, 8, 1, parse_time("0s")?)?;
/// let mut vectors: Vec<Vec<u8>> = (1..=4).map(|rank| vec![rank; 8]).collect();
/// let mut vectors: Vec<&mut [u8]> = vectors.iter_mut().map(Vec::as_mut_slice).collect();
/// let programs: Vec<&Program> = programs.iter().collect();
/// let mut scratch = vec![Vec::new(); 4];
/// memory::run(&programs, Number::Uint8, Operator::Sum, &mut vectors, &mut scratch, None, &mut || true)?;
/// assert!(vectors.iter().all(|vector| **vector == [1 + 2 + 3 + 4; 8]));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn run(
    programs: &[&Program],
    number: Number,
    operator: Operator,
    vectors: &mut [&mut [u8]],
    scratch: &mut [Vec<u64>],
    recordings: Option<&mut [Recording]>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let is_little = vectors.iter().map(|vector| vector.len()).sum::<usize>() <= ONE_THREAD_BYTES;
    let (inboxes, receivers): (Vec<_>, Vec<_>) = programs.iter().map(|_| sync_channel(INBOX)).unzip();
    let mut ranks = Vec::new();
    let mut recordings = recordings.into_iter().flatten();
    for (((program, vector), scratch), inbox) in programs.iter().zip(vectors).zip(scratch).zip(receivers) {
        let mut operation = Operation::new(program, number, operator, vector, scratch)?;
        if let Some(recording) = recordings.next() {
            recording.prepare(program);
            operation = operation.recorded(recording);
        }
        let outgoing = program.peers.iter().map(|_| None).collect();
        ranks.push(Rank { operation, inboxes: &inboxes, inbox, outgoing, early: HashMap::new(), spare: Vec::new() });
    }
    if is_little { on_one_thread(&mut ranks, go_on) } else { on_threads(ranks, go_on) }
}

fn interrupted() -> Error {
    Error::interrupted("interrupted: the vectors hold no result")
}

/// Runs all ranks on this thread, one after the other again and again.
fn on_one_thread(ranks: &mut [Rank<'_>], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let mut last_poll = Instant::now();
    while ranks.iter().any(|rank| !rank.operation.done()) {
        for rank in &mut *ranks {
            rank.send();
            rank.take_all();
        }
        if last_poll.elapsed() > POLL_INTERVAL {
            last_poll = Instant::now();
            if !go_on() {
                return Err(interrupted());
            }
        }
    }
    Ok(())
}

/// Runs each rank on a thread of its own, and rank 0 on this one.
fn on_threads(ranks: Vec<Rank<'_>>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let mut ranks = ranks.into_iter();
        let first = ranks.next();
        let others: Vec<_> =
            ranks.map(|rank| scope.spawn(move || rank.work(&mut || !stop.load(Ordering::Relaxed)))).collect();
        let ours = first.map_or(Ok(()), |rank| rank.work(go_on));
        stop.store(ours.is_err(), Ordering::Relaxed);
        others
            .into_iter()
            .fold(ours, |result, thread| result.and(thread.join().expect("a rank's thread does not panic")))
    })
}

/// A rank at work.
struct Rank<'a> {
    operation: Operation<'a>,
    inboxes: &'a [SyncSender<Block>],
    inbox: Receiver<Block>,
    /// The message that is sent to each peer.
    outgoing: Vec<Option<Outgoing>>,
    /// The messages that must not be used yet, as far as they have come.
    early: HashMap<TaskId, Message>,
    spare: Vec<Message>,
}

impl Rank<'_> {
    fn work(mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        while !self.operation.done() {
            let full = self.send();
            if self.operation.done() {
                break;
            }
            // Nobody reports that a full inbox has room again, so it is tried again soon.
            match self.inbox.recv_timeout(if full { Duration::from_micros(20) } else { POLL_INTERVAL }) {
                Ok(block) => self.take(block),
                Err(RecvTimeoutError::Timeout) if go_on() => continue,
                Err(_) => return Err(interrupted()),
            }
            self.take_all();
        }
        Ok(())
    }

    fn take_all(&mut self) {
        while let Ok(block) = self.inbox.try_recv() {
            self.take(block);
        }
    }

    /// Sends all blocks that can be sent; returns whether one of them found no room.
    fn send(&mut self) -> bool {
        let mut full = false;
        for peer in PeerId::first(self.outgoing.len()) {
            while let Some(Outgoing { task, next }) = self.outgoing[peer].take().or_else(|| self.next(peer)) {
                let end = next.start + next.content.bytes().len();
                if next.start == 0 {
                    self.operation.note_begin(task);
                }
                match self.inboxes[self.operation.program().peers[peer]].try_send(next) {
                    Ok(()) if end == self.operation.bytes(task) => self.operation.end(task),
                    Ok(()) => self.outgoing[peer] = Some(Outgoing { task, next: self.block(task, end) }),
                    Err(TrySendError::Full(next) | TrySendError::Disconnected(next)) => {
                        self.outgoing[peer] = Some(Outgoing { task, next });
                        full = true;
                        break;
                    }
                }
            }
        }
        full
    }

    fn next(&mut self, peer: PeerId) -> Option<Outgoing> {
        let task = self.operation.next_send(peer)?;
        Some(Outgoing { task, next: self.block(task, 0) })
    }

    fn block(&mut self, task: TaskId, start: usize) -> Block {
        let mut content = self.spare.pop().unwrap_or_default();
        content.resize(self.operation.whole_blocks(task, start, BLOCK_BYTES));
        self.operation.copy_payload(task, start, content.bytes_mut());
        Block { from: self.operation.program().rank, transfer: self.operation.transfer(task), start, content }
    }

    fn take(&mut self, block: Block) {
        let Block { from, transfer, start, content } = block;
        let peer = self.operation.program().peers.binary_search(&from).expect("only peers send");
        let task = self.operation.receiver(PeerId::new(peer), transfer).expect("both ends have the same plan");
        let (length, end) = (self.operation.bytes(task), start + content.bytes().len());
        let is_early = if start == 0 { !self.operation.may_use(task) } else { self.early.contains_key(&task) };
        if is_early {
            let message = self.early.entry(task).or_default();
            message.resize(length);
            message.bytes_mut()[start..end].copy_from_slice(content.bytes());
            if end == length {
                let message = self.early.remove(&task).expect("it has come");
                self.operation.park(task, 0, message);
            }
        } else {
            self.operation.take(task, start, content.bytes());
            if end == length {
                self.operation.end(task);
            }
        }
        self.spare.push(content);
    }
}

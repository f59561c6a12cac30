//! The in-process transport: a thread a rank, messages through queues.
//!
//! A message travels in blocks small enough to stay in the caches: its sender copies a block, and its receiver joins it
//! while it is warm and hands the memory on. A rank's inbox holds few blocks: a sender whose block finds no room looks
//! after his own inbox first, so that nobody blocks anybody. Ranks with little to do take turns on one thread: to wake
//! another one would take longer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::number::{Number, Operator};
use super::operation::{Message, Operation};
use super::program::Program;
use crate::error::{Error, Result};

/// Bytes of a block: whole elements of any type.
const BLOCK: usize = 64 << 10;
/// Blocks that an inbox holds.
const INBOX: usize = 16;
/// Bytes of all vectors together up to which one thread does all the work.
const LITTLE: usize = 256 << 10;
/// How often a rank that waits looks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);

/// A block under way: who sent it, which transfer it is of, and its first byte in that.
struct Letter {
    from: u32,
    transfer: u32,
    start: usize,
    block: Message,
}

/// Runs one operation on all ranks of this process; `vectors` are theirs in order, in place. `go_on` is asked now and
/// then on the calling thread, which is rank 0's.
///
/// # Errors
/// If a vector does not fit its program, the numbers have no such operator, or `go_on` says no.
pub fn run(
    programs: &[&Program],
    number: Number,
    operator: Operator,
    vectors: &mut [&mut [u8]],
    scratch: &mut [Vec<u64>],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let little = vectors.iter().map(|vector| vector.len()).sum::<usize>() <= LITTLE;
    let (inboxes, receivers): (Vec<_>, Vec<_>) = programs.iter().map(|_| sync_channel(INBOX)).unzip();
    let mut ranks = Vec::new();
    for (((program, vector), scratch), inbox) in programs.iter().zip(vectors).zip(scratch).zip(receivers) {
        let operation = Operation::new(program, number, operator, vector, scratch)?;
        let outgoing = program.peers.iter().map(|_| None).collect();
        ranks.push(Rank { operation, inboxes: &inboxes, inbox, outgoing, early: HashMap::new(), spare: Vec::new() });
    }
    if little { in_turns(&mut ranks, go_on) } else { side_by_side(ranks, go_on) }
}

fn interrupted() -> Error {
    Error::new("interrupted: the vectors hold no result")
}

/// All ranks on this thread.
fn in_turns(ranks: &mut [Rank<'_>], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let mut looked = Instant::now();
    while ranks.iter().any(|rank| !rank.operation.done()) {
        for rank in &mut *ranks {
            rank.send();
            rank.take_all();
        }
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if !go_on() {
                return Err(interrupted());
            }
        }
    }
    Ok(())
}

/// A thread a rank; this one is rank 0's.
fn side_by_side(ranks: Vec<Rank<'_>>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
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
    inboxes: &'a [SyncSender<Letter>],
    inbox: Receiver<Letter>,
    /// By peer: the message that is leaving, and its next block.
    outgoing: Vec<Option<(u32, Letter)>>,
    /// Messages that must not be used yet, as far as they have come.
    early: HashMap<u32, Message>,
    spare: Vec<Message>,
}

impl Rank<'_> {
    fn work(mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        while !self.operation.done() {
            let full = self.send();
            if self.operation.done() {
                break;
            }
            // A full inbox empties without a word: look again soon.
            match self.inbox.recv_timeout(if full { Duration::from_micros(20) } else { LOOK }) {
                Ok(letter) => self.take(letter),
                Err(RecvTimeoutError::Timeout) if go_on() => continue,
                Err(_) => return Err(interrupted()),
            }
            self.take_all();
        }
        Ok(())
    }

    fn take_all(&mut self) {
        while let Ok(letter) = self.inbox.try_recv() {
            self.take(letter);
        }
    }

    /// Sends what can be sent; says whether something found no room.
    fn send(&mut self) -> bool {
        let mut full = false;
        for peer in 0..self.outgoing.len() {
            while let Some((task, letter)) = self.outgoing[peer].take().or_else(|| self.next(peer)) {
                let end = letter.start + letter.block.bytes().len();
                match self.inboxes[self.operation.program().peers[peer] as usize].try_send(letter) {
                    Ok(()) if end == self.operation.bytes(task) => self.operation.end(task),
                    Ok(()) => self.outgoing[peer] = Some((task, self.letter(task, end))),
                    Err(TrySendError::Full(letter) | TrySendError::Disconnected(letter)) => {
                        self.outgoing[peer] = Some((task, letter));
                        full = true;
                        break;
                    }
                }
            }
        }
        full
    }

    fn next(&mut self, peer: usize) -> Option<(u32, Letter)> {
        let task = self.operation.next_send(peer)?;
        Some((task, self.letter(task, 0)))
    }

    fn letter(&mut self, task: u32, start: usize) -> Letter {
        let mut block = self.spare.pop().unwrap_or_default();
        block.resize(BLOCK.min(self.operation.bytes(task) - start));
        self.operation.copy_payload(task, start, block.bytes_mut());
        Letter { from: self.operation.program().rank, transfer: self.operation.transfer(task), start, block }
    }

    fn take(&mut self, letter: Letter) {
        let Letter { from, transfer, start, block } = letter;
        let peer = self.operation.program().peers.binary_search(&from).expect("only peers send");
        let task = self.operation.receiver(peer, transfer).expect("both ends have the same plan");
        let (length, end) = (self.operation.bytes(task), start + block.bytes().len());
        let is_early = if start == 0 { !self.operation.may_use(task) } else { self.early.contains_key(&task) };
        if is_early {
            let message = self.early.entry(task).or_default();
            message.resize(length);
            message.bytes_mut()[start..end].copy_from_slice(block.bytes());
            if end == length {
                let message = self.early.remove(&task).expect("it has come");
                self.operation.park(task, message);
            }
        } else {
            self.operation.take(task, start, block.bytes());
            if end == length {
                self.operation.end(task);
            }
        }
        self.spare.push(block);
    }
}

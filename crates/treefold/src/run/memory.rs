//! The in-process transport: a thread a rank, messages through queues.
//!
//! A message is copied once, into a buffer that its receiver hands on when he has joined it. A rank's inbox holds few
//! messages: a sender whose message finds no room looks after his own inbox first, so that nobody blocks anybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use super::number::{Number, Operator};
use super::operation::{Message, Operation};
use super::program::Program;
use crate::error::{Error, Result};

/// Messages that an inbox holds.
const INBOX: usize = 32;
/// How often a rank that waits looks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);

/// A message under way: who sent it, and which transfer it is.
struct Letter {
    from: u32,
    transfer: u32,
    message: Message,
}

/// Runs one operation on all ranks of this process; `vectors` are theirs in order, in place. `go_on` is asked now and then
/// on the calling thread, which is rank 0's.
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
    let mut operations = Vec::new();
    for ((program, vector), scratch) in programs.iter().zip(vectors).zip(scratch) {
        operations.push(Operation::new(program, number, operator, vector, scratch)?);
    }
    let (inboxes, receivers): (Vec<_>, Vec<_>) = programs.iter().map(|_| sync_channel(INBOX)).unzip();
    let (inboxes, stop) = (&inboxes, &AtomicBool::new(false));
    thread::scope(|scope| {
        let mut ranks = operations.into_iter().zip(receivers);
        let first = ranks.next();
        let others: Vec<_> = ranks
            .map(|(operation, inbox)| {
                scope.spawn(move || work(operation, inboxes, &inbox, &mut || !stop.load(Ordering::Relaxed)))
            })
            .collect();
        let ours = first.map_or(Ok(()), |(operation, inbox)| work(operation, inboxes, &inbox, go_on));
        stop.store(ours.is_err(), Ordering::Relaxed);
        others
            .into_iter()
            .fold(ours, |result, thread| result.and(thread.join().expect("a rank's thread does not panic")))
    })
}

/// One rank's thread.
fn work(
    mut operation: Operation<'_>,
    inboxes: &[SyncSender<Letter>],
    inbox: &Receiver<Letter>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut spare: Vec<Message> = Vec::new();
    let mut held: Vec<Option<(u32, Letter)>> = operation.program().peers.iter().map(|_| None).collect();
    while !operation.done() {
        let full = send(&mut operation, inboxes, &mut held, &mut spare);
        if operation.done() {
            break;
        }
        // A full inbox empties without a word: look again soon.
        let message = match inbox.recv_timeout(if full { Duration::from_micros(20) } else { LOOK }) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) if go_on() => continue,
            Err(_) => return Err(Error::new("interrupted: the vectors hold no result")),
        };
        take(&mut operation, message, &mut spare);
        while let Ok(message) = inbox.try_recv() {
            take(&mut operation, message, &mut spare);
        }
    }
    Ok(())
}

/// Sends what can be sent; says whether something found no room.
fn send(
    operation: &mut Operation<'_>,
    inboxes: &[SyncSender<Letter>],
    held: &mut [Option<(u32, Letter)>],
    spare: &mut Vec<Message>,
) -> bool {
    let program = operation.program();
    let mut full = false;
    for (peer, held) in held.iter_mut().enumerate() {
        while let Some((task, letter)) = held.take().or_else(|| next(operation, peer, spare)) {
            match inboxes[program.peers[peer] as usize].try_send(letter) {
                Ok(()) => operation.sent(task),
                Err(TrySendError::Full(letter) | TrySendError::Disconnected(letter)) => {
                    *held = Some((task, letter));
                    full = true;
                    break;
                }
            }
        }
    }
    full
}

fn next(operation: &mut Operation<'_>, peer: usize, spare: &mut Vec<Message>) -> Option<(u32, Letter)> {
    let task = operation.next_send(peer)?;
    let mut message = spare.pop().unwrap_or_default();
    message.resize(operation.bytes(task));
    operation.copy_payload(task, message.bytes_mut());
    Some((task, Letter { from: operation.program().rank, transfer: operation.transfer(task), message }))
}

fn take(operation: &mut Operation<'_>, letter: Letter, spare: &mut Vec<Message>) {
    let Letter { from, transfer, message } = letter;
    let peer = operation.program().peers.binary_search(&from).expect("only peers send");
    let task = operation.receiver(peer, transfer).expect("both ends have the same plan");
    if operation.may_use(task) {
        operation.take(task, 0, message.bytes());
        operation.received(task);
        spare.push(message);
    } else {
        operation.park(task, message);
    }
}

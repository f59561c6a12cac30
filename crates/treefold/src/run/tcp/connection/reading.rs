//! The receiving half of a stream: it reads frames, and uses their bodies as they come.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use socket2::Socket;

use super::{Connection, EARLY, Received, Stream};
use crate::run::operation::{Operation, Sink};
use crate::run::program::{PeerId, TaskId};
use crate::run::tcp::frame::{Frame, HEADER, Kind};
use crate::run::tcp::secure::Session;
use crate::run::tcp::window::Work;

/// The most bytes that are read from a stream before the others have their turn.
const VISIT: usize = 4 << 20;
/// The most bytes that are read before it is known what they are.
const AHEAD: usize = 4 << 10;
/// A multiple of the bytes of all kinds of numbers.
const LARGEST: usize = 64;
/// The bytes that are added at a time.
const BLOCK: usize = 64 << 10;

/// The frame whose body is coming.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    frame: Frame,
    used: Use,
}

/// The use of a frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The body is added to the vector, or copied into it, as it comes.
    Take(TaskId),
    /// The body is kept whole until the operation may use it; one that has to be decoded is always kept.
    Park(TaskId),
    /// The body is kept whole for the caller.
    Keep,
    /// The body is kept whole for its operation, which has not begun here.
    Early,
    /// The body is dropped, as its operation was given up.
    Drop,
}

impl Frame {
    /// Returns the task that receives this part of a message from a peer; `None` if the operation has no such message.
    pub(super) fn task_of(&self, operation: &Operation<'_>, peer: PeerId) -> Option<TaskId> {
        let task = operation.receiver(peer, self.message())?;
        let is_within = self.from.checked_add(self.length).is_some_and(|end| end <= operation.bytes(task) as u64);
        let is_whole = is_within && [self.from, self.from + self.length].iter().all(|&at| operation.may_cut(task, at));
        is_whole.then_some(task)
    }
}

impl<'b> Work<'_, 'b> {
    /// Returns the operation that runs, and its task, which a part of a message is for; `None` if it has no such
    /// message.
    pub(super) fn receiver(&mut self, frame: &Frame) -> Option<(&mut Operation<'b>, TaskId)> {
        let (operation, peer) = self.with_peer(frame.sequence)?;
        let task = frame.task_of(operation, peer)?;
        Some((operation, task))
    }

    /// Returns the operation of a frame if it runs.
    fn of(&mut self, frame: Frame) -> Option<&mut Operation<'b>> {
        if self.runs(frame.sequence) { self.operation(frame.sequence) } else { None }
    }
}

impl Stream {
    /// Reads as [`Connection::read`] does. `pair` is the connection that this stream belongs to.
    pub(super) fn read(
        &mut self,
        pair: &mut Connection,
        work: &mut Work<'_, '_>,
        progress: &mut bool,
    ) -> io::Result<Received> {
        let mut left = VISIT;
        while self.readable && !self.has_ended && !self.is_broken {
            let Some(Coming { frame, used }) = self.coming else {
                if self.header_done < HEADER {
                    let Some(read) = self.read_some(None)? else { break };
                    (*progress, self.header_done) = (true, self.header_done + read);
                    continue;
                }
                let frame = Frame::from_bytes(&self.header).map_err(io::Error::other)?;
                match self.begin(pair, frame, work) {
                    Some(used) => (self.coming, self.body_done) = (Some(Coming { frame, used }), 0),
                    None if frame.sequence <= work.last => return Ok(Received::Foreign(frame.sequence)),
                    None => break,
                }
                continue;
            };
            if self.body_done < frame.length as usize {
                let Some(read) = self.read_body(pair, frame, used, work)? else { break };
                *progress = true;
                left = left.saturating_sub(read);
            }
            if self.body_done == frame.length as usize {
                (self.coming, self.header_done) = (None, 0);
                if let Some(received) = self.finish(pair, frame, used, work, progress) {
                    return Ok(received);
                }
            }
            if left == 0 {
                break;
            }
        }
        Ok(Received::Nothing)
    }

    /// Uses a frame that has come wholly; returns it if it is no message of an operation in flight.
    fn finish(
        &mut self,
        pair: &mut Connection,
        frame: Frame,
        used: Use,
        work: &mut Work<'_, '_>,
        progress: &mut bool,
    ) -> Option<Received> {
        if frame.kind == Kind::Data {
            self.note_come();
        }
        match used {
            Use::Take(task) => work.of(frame)?.has_taken(task, frame.length as usize),
            Use::Park(task) => {
                let (operation, from) = (work.of(frame)?, frame.from as usize);
                if operation.may_use(task) {
                    operation.take(task, from, self.body.bytes());
                    operation.has_taken(task, frame.length as usize);
                } else {
                    operation.park(task, from, std::mem::take(&mut self.body));
                }
            }
            Use::Keep => {
                std::mem::swap(&mut pair.returned, &mut self.body);
                return Some(Received::Frame(frame));
            }
            Use::Early => {
                pair.early_bytes += frame.length;
                pair.early.push_back((frame, std::mem::take(&mut self.body)));
                // Its operation may have begun while it came.
                return pair.take_early(work, progress);
            }
            Use::Drop => {}
        }
        None
    }

    /// Returns how a frame's body is used; `None` if the frame has to wait, or if it is foreign.
    fn begin(&mut self, pair: &mut Connection, frame: Frame, work: &mut Work<'_, '_>) -> Option<Use> {
        let used = match frame.kind {
            Kind::Control | Kind::Bye | Kind::Ask | Kind::Answer | Kind::Welcome => Use::Keep,
            Kind::Came | Kind::Broken | Kind::Fence | Kind::Open => Use::Keep,
            Kind::Probe => Use::Drop,
            _ if frame.sequence > work.last => {
                pair.early_bytes.checked_add(frame.length).filter(|&bytes| bytes <= EARLY)?;
                Use::Early
            }
            _ if !work.runs(frame.sequence) => Use::Drop,
            Kind::Start => Use::Keep,
            Kind::Data => {
                let (operation, task) = work.receiver(&frame)?;
                let is_used_at_once = operation.may_use(task) && !operation.is_encoded();
                if is_used_at_once { Use::Take(task) } else { Use::Park(task) }
            }
        };
        self.body.resize(match used {
            Use::Keep | Use::Park(_) | Use::Early => frame.length as usize,
            Use::Take(_) | Use::Drop => BLOCK,
        });
        Some(used)
    }

    /// Uses what has come of a part whose rest will come over another stream; returns how many bytes that was.
    pub(super) fn use_what_has_come(&mut self, work: &mut Work<'_, '_>) -> usize {
        let Some(Coming { frame, used: Use::Take(task) }) = self.coming.take() else { return 0 };
        let Some(operation) = work.of(frame) else { return 0 };
        // What was added is whole blocks; what was put in its place may come again.
        let block = match operation.sink(task, frame.from as usize) {
            Sink::Take => BLOCK,
            Sink::Place(_) => LARGEST,
        };
        let usable = self.body_done / block * block;
        if usable > 0 {
            operation.has_taken(task, usable);
        }
        usable
    }

    /// Reads into a range of the body, or else into the header; returns the bytes read, or `None` if nothing has come.
    fn read_some(&mut self, body: Option<Range<usize>>) -> io::Result<Option<usize>> {
        let target = match body {
            Some(range) => &mut self.body.bytes_mut()[range],
            None => &mut self.header[self.header_done..],
        };
        let read = self.ahead.read(&self.socket, &mut self.session, target);
        read_bytes(&mut self.readable, read)
    }

    fn read_body(
        &mut self,
        pair: &mut Connection,
        frame: Frame,
        used: Use,
        work: &mut Work<'_, '_>,
    ) -> io::Result<Option<usize>> {
        let length = frame.length as usize;
        let read = match (used, work.of(frame)) {
            (Use::Take(task), Some(operation)) => self.read_message(frame, task, operation)?,
            (Use::Keep | Use::Early, _) | (Use::Park(_), Some(_)) => self.read_some(Some(self.body_done..length))?,
            // The operation of the message may have ended without a result meanwhile.
            _ => self.read_some(Some(0..BLOCK.min(length - self.body_done)))?,
        };
        self.body_done += read.unwrap_or(0);
        pair.received += read.unwrap_or(0) as u64;
        pair.moved += if matches!(used, Use::Take(_) | Use::Park(_)) { read.unwrap_or(0) as u64 } else { 0 };
        Ok(read)
    }

    /// Reads what comes of a part of a message that may be used, and uses it.
    fn read_message(&mut self, frame: Frame, task: TaskId, operation: &mut Operation<'_>) -> io::Result<Option<usize>> {
        let (length, from) = (frame.length as usize, frame.from as usize);
        let left = length - self.body_done;
        match operation.sink(task, from + self.body_done) {
            Sink::Place(range) => {
                let range = range.start..range.end.min(range.start + left);
                let read = self.ahead.read(&self.socket, &mut self.session, operation.place(range));
                read_bytes(&mut self.readable, read)
            }
            Sink::Take => {
                let at = self.body_done % BLOCK;
                let read = self.read_some(Some(at..BLOCK.min(at + left)))?;
                let end = at + read.unwrap_or(0);
                if end == BLOCK || self.body_done + end - at == length {
                    operation.take(task, from + self.body_done - at, &self.body.bytes()[..end]);
                }
                Ok(read)
            }
        }
    }
}

/// What was read ahead of its use, so that small frames take one call of the kernel and not two each.
#[derive(Debug, Default)]
pub struct Ahead {
    bytes: Box<[u8]>,
    /// Which of them have not been used.
    left: Range<usize>,
}

impl Ahead {
    /// Reads as [`receive`] does.
    fn read(&mut self, socket: &Socket, session: &mut Option<Box<Session>>, target: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            if target.len() >= AHEAD {
                return receive(socket, session, target);
            }
            self.bytes.is_empty().then(|| self.bytes = vec![0; AHEAD].into());
            self.left = 0..receive(socket, session, &mut self.bytes)?;
        }
        let used = target.len().min(self.left.len());
        target[..used].copy_from_slice(&self.bytes[self.left.start..self.left.start + used]);
        self.left.start += used;
        Ok(used)
    }
}

/// Reads what has come, through TLS if there is a session.
fn receive(mut socket: &Socket, session: &mut Option<Box<Session>>, target: &mut [u8]) -> io::Result<usize> {
    match session {
        Some(session) => session.read(&mut socket, target),
        None => socket.read(target),
    }
}

/// Returns the bytes that a read has read, or `None` if nothing has come; the end of the stream is an error.
fn read_bytes(readable: &mut bool, read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            *readable = false;
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

//! The receiving half of a stream: it reads frames, and uses their bodies as they come.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use mio::net::TcpStream;

use super::{Connection, EARLY, Received, Stream};
use crate::run::operation::{Operation, Sink};
use crate::run::program::{PeerId, TaskId};
use crate::run::tcp::frame::{Frame, HEADER, Kind};
use crate::run::tcp::secure::Session;

/// The most bytes that are read from a stream before the others have their turn.
const VISIT: usize = 4 << 20;
/// The bytes that are added at a time.
const BLOCK: usize = 64 << 10;

/// The frame whose body is coming.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coming {
    frame: Frame,
    used: Use,
}

impl Coming {
    /// Lets the rest of a message go, as its operation was given up.
    pub fn drop_message(&mut self) {
        if matches!(self.used, Use::Take(_) | Use::Park(_)) {
            self.used = Use::Drop;
        }
    }
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

impl Stream {
    /// Reads as [`Connection::read`] does. `pair` is the connection that this stream belongs to.
    pub(super) fn read(
        &mut self,
        pair: &mut Connection,
        mut work: Option<(&mut Operation<'_>, PeerId)>,
        sequence: u32,
        progress: &mut bool,
    ) -> io::Result<Received> {
        let mut left = VISIT;
        while self.readable && !self.has_ended {
            let Some(Coming { frame, used }) = self.coming else {
                if self.header_done < HEADER {
                    let Some(read) = self.read_some(None)? else { break };
                    (*progress, self.header_done) = (true, self.header_done + read);
                    continue;
                }
                let frame = Frame::from_bytes(&self.header).map_err(io::Error::other)?;
                match self.begin(pair, frame, &mut work, sequence) {
                    Some(used) => (self.coming, self.body_done) = (Some(Coming { frame, used }), 0),
                    None if frame.kind == Kind::Data && work.is_some() && frame.sequence == sequence => {
                        return Ok(Received::Foreign);
                    }
                    None => break,
                }
                continue;
            };
            if self.body_done < frame.length as usize {
                let operation = work.as_mut().map(|work| &mut *work.0);
                let Some(read) = self.read_body(pair, frame, used, operation)? else { break };
                *progress = true;
                left = left.saturating_sub(read);
            }
            if self.body_done == frame.length as usize {
                (self.coming, self.header_done) = (None, 0);
                if let Some(received) = self.finish(pair, frame, used, &mut work, sequence, progress) {
                    return Ok(received);
                }
            }
            if left == 0 {
                break;
            }
        }
        Ok(Received::Nothing)
    }

    /// Uses a frame that has come wholly; returns it if it is no message of the operation at work.
    fn finish(
        &mut self,
        pair: &mut Connection,
        frame: Frame,
        used: Use,
        work: &mut Option<(&mut Operation<'_>, PeerId)>,
        sequence: u32,
        progress: &mut bool,
    ) -> Option<Received> {
        match (used, work) {
            (Use::Take(task), Some((operation, _))) => operation.has_taken(task, frame.length as usize),
            (Use::Park(task), Some((operation, _))) if operation.may_use(task) => {
                operation.take(task, frame.from as usize, self.body.bytes());
                operation.has_taken(task, frame.length as usize);
            }
            (Use::Park(task), Some((operation, _))) => {
                operation.park(task, frame.from as usize, std::mem::take(&mut self.body));
            }
            (Use::Keep, _) => {
                std::mem::swap(&mut pair.returned, &mut self.body);
                return Some(Received::Frame(frame));
            }
            (Use::Early, work) => {
                pair.early.push_back((frame, std::mem::take(&mut self.body)));
                // Its operation may have begun while it came.
                let (operation, peer) = work.as_mut()?;
                return pair.take_early(operation, *peer, sequence, progress);
            }
            _ => {}
        }
        None
    }

    /// Returns how a frame's body is used; `None` if the frame has to wait, or if it is foreign.
    fn begin(
        &mut self,
        pair: &mut Connection,
        frame: Frame,
        work: &mut Option<(&mut Operation<'_>, PeerId)>,
        sequence: u32,
    ) -> Option<Use> {
        let used = match frame.kind {
            Kind::Control | Kind::Bye | Kind::Ask | Kind::Answer | Kind::Welcome => Use::Keep,
            Kind::Probe => Use::Drop,
            _ if frame.sequence < sequence => Use::Drop,
            _ if frame.sequence > sequence => {
                pair.early_bytes = pair.early_bytes.checked_add(frame.length).filter(|&bytes| bytes <= EARLY)?;
                Use::Early
            }
            Kind::Start if work.is_some() => Use::Keep,
            Kind::Start => Use::Drop,
            Kind::Data if work.is_none() => Use::Drop,
            Kind::Data => {
                let (operation, peer) = work.as_mut()?;
                let task = frame.task_of(operation, *peer)?;
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

    /// Reads into a range of the body, or else into the header; returns the bytes read, or `None` if nothing has come.
    fn read_some(&mut self, body: Option<Range<usize>>) -> io::Result<Option<usize>> {
        let target = match body {
            Some(range) => &mut self.body.bytes_mut()[range],
            None => &mut self.header[self.header_done..],
        };
        read_bytes(&mut self.readable, receive(&self.socket, &mut self.session, target))
    }

    fn read_body(
        &mut self,
        pair: &mut Connection,
        frame: Frame,
        used: Use,
        operation: Option<&mut Operation<'_>>,
    ) -> io::Result<Option<usize>> {
        let length = frame.length as usize;
        let read = match (used, operation) {
            (Use::Take(task), Some(operation)) => self.read_message(frame, task, operation)?,
            (Use::Drop, _) => self.read_some(Some(0..BLOCK.min(length - self.body_done)))?,
            _ => self.read_some(Some(self.body_done..length))?,
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
                read_bytes(&mut self.readable, receive(&self.socket, &mut self.session, operation.place(range)))
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

/// Reads what has come, through TLS if there is a session.
fn receive(mut socket: &TcpStream, session: &mut Option<Box<Session>>, target: &mut [u8]) -> io::Result<usize> {
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

//! The receiving half of a connection: it reads frames without ever waiting, and uses their bodies as they come.

use std::io::{self, ErrorKind, Read};

use super::{BLOCK, Connection, EARLY, Received, Use, VISIT};
use crate::run::operation::{Operation, Sink};
use crate::run::program::PeerId;
use crate::run::tcp::frame::{Frame, HEADER, Kind};

impl Connection {
    /// Reads and drops all bytes that have come; returns whether the peer has closed the connection.
    pub(in crate::run::tcp) fn drained(&mut self) -> bool {
        let mut dropped = [0; 1 << 12];
        loop {
            match (&self.stream).read(&mut dropped) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    /// Returns whether messages have come whose operations have not begun.
    pub(in crate::run::tcp) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Returns the body of the frame that was returned last.
    pub(in crate::run::tcp) fn body(&self) -> &[u8] {
        self.returned.bytes()
    }

    /// Reads until a frame comes that is no message of this operation, or nothing is left. `sequence` is the number of
    /// the operation at work, or of the last one; frames of later ones are kept.
    pub(in crate::run::tcp) fn read(
        &mut self,
        mut work: Option<(&mut Operation<'_>, PeerId)>,
        sequence: u32,
        progress: &mut bool,
    ) -> io::Result<Received> {
        if let Some((operation, peer)) = &mut work
            && let Some(received) = self.take_early(operation, *peer, sequence, progress)
        {
            return Ok(received);
        }
        let mut left = VISIT;
        while self.readable {
            let Some((frame, used)) = self.coming else {
                if self.header_done < HEADER {
                    let Some(read) = self.read_some(None)? else { break };
                    (*progress, self.header_done) = (true, self.header_done + read);
                    continue;
                }
                let frame = Frame::from_bytes(&self.header).map_err(io::Error::other)?;
                match self.begin(frame, &mut work, sequence) {
                    Some(used) => (self.coming, self.body_done) = (Some((frame, used)), 0),
                    None if frame.kind == Kind::Data && work.is_some() && frame.sequence == sequence => {
                        return Ok(Received::Foreign);
                    }
                    None => break,
                }
                continue;
            };
            if self.body_done < frame.length as usize {
                let Some(read) = self.read_body(frame, used, work.as_mut().map(|work| &mut *work.0))? else { break };
                *progress = true;
                left = left.saturating_sub(read);
            }
            if self.body_done == frame.length as usize {
                (self.coming, self.header_done) = (None, 0);
                if let Some(received) = self.finish(frame, used, &mut work, sequence, progress) {
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
        frame: Frame,
        used: Use,
        work: &mut Option<(&mut Operation<'_>, PeerId)>,
        sequence: u32,
        progress: &mut bool,
    ) -> Option<Received> {
        match (used, work) {
            (Use::Take(task), Some((operation, _))) => operation.end(task),
            (Use::Park(task), Some((operation, _))) => operation.park(task, std::mem::take(&mut self.body)),
            (Use::Keep, _) => {
                std::mem::swap(&mut self.returned, &mut self.body);
                return Some(Received::Frame(frame));
            }
            (Use::Early, work) => {
                self.early.push_back((frame, std::mem::take(&mut self.body)));
                // Its operation may have begun while it came.
                let (operation, peer) = work.as_mut()?;
                return self.take_early(operation, *peer, sequence, progress);
            }
            _ => {}
        }
        None
    }

    /// Uses the messages that came before their operation began; returns the first frame that is no message of it.
    fn take_early(
        &mut self,
        operation: &mut Operation<'_>,
        peer: PeerId,
        sequence: u32,
        progress: &mut bool,
    ) -> Option<Received> {
        while self.early.front().is_some_and(|(frame, _)| frame.sequence <= sequence) {
            let (frame, message) = self.early.pop_front()?;
            self.early_bytes -= frame.length;
            *progress = true;
            match frame.kind {
                _ if frame.sequence < sequence => {}
                Kind::Data => match operation.receiver(peer, frame.message()) {
                    Some(task) if operation.bytes(task) as u64 == frame.length => operation.park(task, message),
                    _ => return Some(Received::Foreign),
                },
                _ => {
                    self.returned = message;
                    return Some(Received::Frame(frame));
                }
            }
        }
        None
    }

    /// Returns how a frame's body is used; `None` if the frame has to wait, or if it is foreign.
    fn begin(&mut self, frame: Frame, work: &mut Option<(&mut Operation<'_>, PeerId)>, sequence: u32) -> Option<Use> {
        let used = match frame.kind {
            Kind::Control | Kind::Bye | Kind::Ask | Kind::Answer | Kind::Welcome => Use::Keep,
            Kind::Probe => Use::Drop,
            _ if frame.sequence < sequence => Use::Drop,
            _ if frame.sequence > sequence => {
                self.early_bytes = self.early_bytes.checked_add(frame.length).filter(|&bytes| bytes <= EARLY)?;
                Use::Early
            }
            Kind::Start if work.is_some() => Use::Keep,
            Kind::Start => Use::Drop,
            Kind::Data if work.is_none() => Use::Drop,
            Kind::Data => {
                let (operation, peer) = work.as_mut()?;
                let task = operation.receiver(*peer, frame.message());
                let task = task.filter(|&task| operation.bytes(task) as u64 == frame.length)?;
                if operation.may_use(task) { Use::Take(task) } else { Use::Park(task) }
            }
        };
        self.body.resize(match used {
            Use::Keep | Use::Park(_) | Use::Early => frame.length as usize,
            Use::Take(_) | Use::Drop => BLOCK,
        });
        Some(used)
    }

    /// Reads into a range of the body, or else into the header; returns the bytes read, or `None` if nothing has come.
    fn read_some(&mut self, body: Option<std::ops::Range<usize>>) -> io::Result<Option<usize>> {
        let target = match body {
            Some(range) => &mut self.body.bytes_mut()[range],
            None => &mut self.header[self.header_done..],
        };
        read_bytes(&mut self.readable, (&self.stream).read(target))
    }

    fn read_body(
        &mut self,
        frame: Frame,
        used: Use,
        operation: Option<&mut Operation<'_>>,
    ) -> io::Result<Option<usize>> {
        let length = frame.length as usize;
        let read = match (used, operation) {
            (Use::Take(task), Some(operation)) => match operation.sink(task, self.body_done) {
                Sink::Place(range) => read_bytes(&mut self.readable, (&self.stream).read(operation.place(range)))?,
                Sink::Take => {
                    let at = self.body_done % BLOCK;
                    let read = self.read_some(Some(at..BLOCK.min(at + length - self.body_done)))?;
                    let end = at + read.unwrap_or(0);
                    if end == BLOCK || self.body_done + end - at == length {
                        operation.take(task, self.body_done - at, &self.body.bytes()[..end]);
                    }
                    read
                }
            },
            (Use::Drop, _) => self.read_some(Some(0..BLOCK.min(length - self.body_done)))?,
            _ => self.read_some(Some(self.body_done..length))?,
        };
        self.body_done += read.unwrap_or(0);
        self.received += read.unwrap_or(0) as u64;
        self.moved += if matches!(used, Use::Take(_) | Use::Park(_)) { read.unwrap_or(0) as u64 } else { 0 };
        Ok(read)
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

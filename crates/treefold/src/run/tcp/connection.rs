//! One connection to a peer: it writes and reads frames without ever waiting.
//!
//! Outgoing frames that are ready go first; then messages follow, each chosen only when the one before has left for the
//! kernel. The kernel keeps little that is not yet on the wire, so the order of sends stays the operation's choice.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};

use mio::net::TcpStream;
use socket2::SockRef;

use super::frame::{END_OF_BURST, Frame, HEADER, Kind};
use super::usage::Usage;
use crate::ids::NodeId;
use crate::run::operation::{Message, Operation, Sink};
use crate::run::program::{PeerId, TaskId};

/// The most bytes that are read from a connection before the others have their turn.
const VISIT: usize = 4 << 20;
/// The bytes that are added at a time.
const BLOCK: usize = 64 << 10;
/// The least bytes that the kernel keeps unsent.
const MIN_UNSENT: usize = 128 << 10;
/// The most bytes that the kernel keeps unsent.
const MAX_UNSENT: usize = 512 << 10;
/// The bytes that go to another machine in one burst, whose end is marked for the kernel. Without the mark the kernel
/// makes packets of up to 64 KiB where the round trip is short. A shaper with a smaller bucket (32 KiB is common) cuts
/// those into frames one by one, which takes five times the processor time at both ends and lets queues overflow.
const BURST: usize = 24 << 10;
/// The bytes that go to a peer before it has begun the operation. More would fill its kernel's buffers, and a
/// connection whose buffers stay full looks dead.
const AHEAD: u64 = 32 << 10;
/// The most bytes of frames of later operations that are kept, so that control messages behind them can be read. Peers
/// send little ahead; only a peer that sends to ranks which have long stopped reading reaches the limit.
const EARLY: u64 = 4 << 20;
/// The most pieces that are written at a time.
const SLICES: usize = 64;

/// A connection to a peer.
pub struct Connection {
    pub(super) stream: TcpStream,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the peer has said farewell.
    pub(super) left: bool,
    /// Frames that are ready to go.
    queue: VecDeque<Vec<u8>>,
    /// The bytes of the first of them that have gone.
    queue_done: usize,
    sending: Option<Sending>,
    header: [u8; HEADER],
    header_done: usize,
    /// The frame whose body is coming.
    coming: Option<(Frame, Use)>,
    /// The bytes of it that have come.
    body_done: usize,
    body: Message,
    /// The body of the frame that was returned last.
    returned: Message,
    /// Frames of later operations.
    early: VecDeque<(Frame, Message)>,
    early_bytes: u64,
    pub(super) usage: Usage,
    /// The bytes that the kernel keeps unsent.
    unsent: usize,
    /// The most bytes of a burst; `None` where bursts have no end.
    burst: Option<usize>,
    /// The bytes in the burst that is being filled.
    in_burst: usize,
    /// The bytes of messages that were sent and received in all operations.
    pub(super) moved: u64,
    /// The bytes of this operation that were sent before the peer had begun it.
    ahead: u64,
}

/// A message that is being written.
struct Sending {
    task: TaskId,
    header: [u8; HEADER],
    done: usize,
}

/// The use of a frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The body is added to the vector, or copied into it, as it comes.
    Take(TaskId),
    /// The body is kept whole until the operation may use it.
    Park(TaskId),
    /// The body is kept whole for the caller.
    Keep,
    /// The body is kept whole for its operation, which has not begun here.
    Early,
    /// The body is dropped, as its operation was given up.
    Drop,
}

/// The result of reading from a connection.
pub enum Received {
    /// There is nothing more for now.
    Nothing,
    /// A whole frame that is no message of an operation; `Connection::body` is its body.
    Frame(Frame),
    /// A message that this operation does not have.
    Foreign,
}

impl Connection {
    /// Wraps a connection to a peer, which is on this machine (`is_near`) or on another one.
    pub(super) fn new(stream: TcpStream, is_near: bool) -> Self {
        Self {
            stream,
            readable: true,
            writable: true,
            left: false,
            queue: VecDeque::new(),
            queue_done: 0,
            sending: None,
            header: [0; HEADER],
            header_done: 0,
            coming: None,
            body_done: 0,
            body: Message::default(),
            returned: Message::default(),
            early: VecDeque::new(),
            early_bytes: 0,
            usage: Usage::default(),
            unsent: 0,
            moved: 0,
            ahead: 0,
            burst: (!is_near).then_some(BURST),
            in_burst: 0,
        }
    }

    /// Begins an operation with messages of about `message` bytes, of which the kernel keeps two unsent.
    pub(super) fn begin_operation(&mut self, message: usize) -> io::Result<()> {
        (self.usage.peer_has_begun, self.ahead) = (false, 0);
        let unsent = (2 * message).clamp(MIN_UNSENT, MAX_UNSENT);
        if unsent != self.unsent {
            SockRef::from(&self.stream).set_tcp_notsent_lowat(unsent as u32)?;
            self.unsent = unsent;
        }
        Ok(())
    }

    /// Appends a frame to those that go before all further messages.
    pub(super) fn queue(&mut self, frame: Vec<u8>) {
        self.queue.push_back(frame);
    }

    /// Returns whether all queued frames and the message at work have left.
    pub(super) fn flushed(&self) -> bool {
        self.queue.is_empty() && self.sending.is_none()
    }

    /// Writes until nothing is left to write or the kernel takes no more; returns whether anything was written.
    pub(super) fn write(&mut self, mut work: Option<(&mut Operation<'_>, PeerId, u32)>) -> io::Result<bool> {
        let mut progress = false;
        while self.writable {
            let written = if self.sending.is_none() && !self.queue.is_empty() {
                self.write_queue()
            } else if let Some((operation, peer, sequence)) = &mut work {
                if self.sending.is_none() {
                    let Some(task) = operation.peek_send(*peer) else { break };
                    let (transfer, length) = (operation.transfer(task).0, operation.bytes(task) as u64);
                    self.ahead += if self.usage.peer_has_begun { 0 } else { length };
                    if !self.usage.peer_has_begun && self.ahead > AHEAD {
                        self.ahead -= length;
                        break;
                    }
                    operation.next_send(*peer);
                    let frame = Frame { kind: Kind::Data, sequence: *sequence, transfer, origin: NodeId(0), length };
                    self.sending = Some(Sending { task, header: frame.to_bytes(), done: 0 });
                }
                self.write_message(operation)
            } else {
                break;
            };
            match written {
                Ok(bytes) => {
                    self.usage.written += bytes as u64;
                    progress = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.usage.full();
                    return Ok(progress);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.writable {
            self.usage.empty();
        }
        Ok(progress)
    }

    fn write_queue(&mut self) -> io::Result<usize> {
        let written = (&self.stream).write(&self.queue[0][self.queue_done..])?;
        self.queue_done += written;
        if self.queue_done == self.queue[0].len() {
            self.queue.pop_front();
            self.queue_done = 0;
        }
        Ok(written)
    }

    fn write_message(&mut self, operation: &mut Operation<'_>) -> io::Result<usize> {
        let sending = self.sending.as_mut().expect("a message is being written");
        let header = &sending.header[sending.done.min(HEADER)..];
        let body = sending.done.saturating_sub(HEADER);
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut bytes) = (0, 0);
        let room = self.burst.map_or(usize::MAX, |burst| burst - self.in_burst);
        for piece in [header].into_iter().filter(|rest| !rest.is_empty()).chain(operation.payload(sending.task, body)) {
            if count == SLICES || bytes == room {
                break;
            }
            let piece = &piece[..piece.len().min(room - bytes)];
            bytes += piece.len();
            slices[count] = IoSlice::new(piece);
            count += 1;
        }
        // The kernel marks the end of the burst only when it takes all bytes.
        let flags = if bytes == room { END_OF_BURST } else { 0 };
        let written = SockRef::from(&self.stream).send_vectored_with_flags(&slices[..count], flags)?;
        sending.done += written;
        self.in_burst = if written == room { 0 } else { self.in_burst + written };
        self.moved += written as u64;
        if sending.done == HEADER + operation.bytes(sending.task) {
            operation.end(sending.task);
            self.sending = None;
        }
        Ok(written)
    }

    /// Gives up an operation. The rest of a message that has gone in part is kept to be sent, so that the peer finds
    /// the next frame.
    pub(super) fn give_up(&mut self, operation: &Operation<'_>) {
        if let Some(Sending { task, header, done }) = self.sending.take() {
            let mut rest = header[done.min(HEADER)..].to_vec();
            operation.payload(task, done.saturating_sub(HEADER)).for_each(|piece| rest.extend(piece));
            self.queue.push_front(rest);
        }
        if let Some((_, used @ (Use::Take(_) | Use::Park(_)))) = &mut self.coming {
            *used = Use::Drop;
        }
        self.usage.empty();
        self.usage.peer_has_begun = false;
    }

    /// Reads and drops all bytes that have come; returns whether the peer has closed the connection.
    pub(super) fn drained(&mut self) -> bool {
        let mut dropped = [0; 1 << 12];
        loop {
            match (&self.stream).read(&mut dropped) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    /// Returns the body of the frame that was returned last.
    pub(super) fn body(&self) -> &[u8] {
        self.returned.bytes()
    }

    /// Reads until a frame comes that is no message of this operation, or nothing is left. `sequence` is the number of
    /// the operation at work, or of the last one; frames of later ones are kept.
    pub(super) fn read(
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
            Kind::Control | Kind::Bye => Use::Keep,
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

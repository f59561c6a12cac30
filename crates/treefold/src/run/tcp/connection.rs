//! One connection to a peer: frames out and frames in, without ever waiting.
//!
//! Outgoing frames that are ready go first; then messages, each chosen only when the one before has left for the
//! kernel, which keeps little that is not yet on the wire: so the order of sends stays the operation's choice.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};

use mio::net::TcpStream;
use socket2::SockRef;

use super::frame::{Frame, HEADER, Kind};
use super::gauge::Gauge;
use crate::run::operation::{Message, Operation, Sink};

/// Bytes that one visit reads at most before the others have their turn.
const VISIT: usize = 4 << 20;
/// Bytes that are joined at a time.
const BLOCK: usize = 64 << 10;
/// Least and most bytes that the kernel keeps unsent.
const UNSENT: (usize, usize) = (128 << 10, 512 << 10);
/// Bytes that go to another machine in one burst, its own end marked for the kernel. Else it joins up to 64 KiB into
/// one packet where the round trip is short, and a shaper with a smaller bucket (32 KiB is common) cuts that into
/// frames one by one: five times the processor time at both ends, and queues that overflow.
const BURST: usize = 24 << 10;
/// Bytes that go to a peer before it has begun the operation. More would fill its kernel's buffers, and a connection
/// whose buffers stay full looks dead.
const AHEAD: u64 = 32 << 10;
/// Bytes of frames of later operations that are kept, so that notices behind them can be read. Peers send little ahead;
/// only one that sends to ranks which have long stopped listening gets there.
const EARLY: u64 = 4 << 20;
/// Pieces written at a time.
const SLICES: usize = 64;

/// A connection to a peer.
pub struct Connection {
    pub(super) stream: TcpStream,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the peer has said that it leaves.
    pub(super) left: bool,
    /// Frames that are ready to go, and how much of the first has gone.
    queue: VecDeque<Vec<u8>>,
    queue_done: usize,
    sending: Option<Sending>,
    header: [u8; HEADER],
    header_done: usize,
    /// The frame whose body is coming, and how much of it has come.
    coming: Option<(Frame, Use)>,
    body_done: usize,
    body: Message,
    /// The body of the frame found last.
    found: Message,
    /// Frames of later operations.
    early: VecDeque<(Frame, Message)>,
    early_bytes: u64,
    pub(super) gauge: Gauge,
    unsent: usize,
    /// Bytes of a burst, and of the one that is being filled.
    burst: usize,
    in_burst: usize,
    /// Bytes of messages that went or came, of all operations.
    pub(super) moved: u64,
    /// Bytes of this operation that went before the peer had begun it.
    ahead: u64,
}

/// A message that is being written.
struct Sending {
    task: u32,
    header: [u8; HEADER],
    done: usize,
}

/// What becomes of a frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Joined into the vector as it comes.
    Take(u32),
    /// Kept whole for later.
    Park(u32),
    /// Kept whole for the caller.
    Keep,
    /// Kept whole for the operation that it belongs to, which has not begun here.
    Early,
    /// Of an operation that was given up.
    Drop,
}

/// What reading found.
pub enum Found {
    /// Nothing more for now.
    Nothing,
    /// A whole frame that is no message: its body is kept for the caller.
    Frame(Frame),
    /// A message that this operation does not have.
    Stranger,
}

impl Connection {
    /// A connection to a peer on this machine (`is_near`) or another one.
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
            found: Message::default(),
            early: VecDeque::new(),
            early_bytes: 0,
            gauge: Gauge::default(),
            unsent: 0,
            moved: 0,
            ahead: 0,
            burst: if is_near { usize::MAX } else { BURST },
            in_burst: 0,
        }
    }

    /// Begins an operation with messages of about `message` bytes: the kernel keeps two of them.
    pub(super) fn begin_operation(&mut self, message: usize) -> io::Result<()> {
        (self.gauge.open, self.ahead) = (false, 0);
        let unsent = (2 * message).clamp(UNSENT.0, UNSENT.1);
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

    /// Whether all queued frames have left.
    pub(super) fn flushed(&self) -> bool {
        self.queue.is_empty() && self.sending.is_none()
    }

    /// Writes until nothing is left to write or the kernel takes no more.
    pub(super) fn write(&mut self, mut work: Option<(&mut Operation<'_>, usize, u32)>) -> io::Result<bool> {
        let mut progress = false;
        while self.writable {
            let written = if self.sending.is_none() && !self.queue.is_empty() {
                self.write_queue()
            } else if let Some((operation, peer, sequence)) = &mut work {
                if self.sending.is_none() {
                    let Some(task) = operation.peek_send(*peer) else { break };
                    let (transfer, length) = (operation.transfer(task), operation.bytes(task) as u64);
                    self.ahead += if self.gauge.open { 0 } else { length };
                    if !self.gauge.open && self.ahead > AHEAD {
                        self.ahead -= length;
                        break;
                    }
                    operation.next_send(*peer);
                    let frame = Frame { kind: Kind::Data, sequence: *sequence, transfer, origin: 0, length };
                    self.sending = Some(Sending { task, header: frame.to_bytes(), done: 0 });
                }
                self.write_message(operation)
            } else {
                break;
            };
            match written {
                Ok(bytes) => {
                    self.gauge.written += bytes as u64;
                    progress = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.gauge.full();
                    return Ok(progress);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.writable {
            self.gauge.empty();
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
        let room = self.burst - self.in_burst;
        for piece in [header].into_iter().filter(|rest| !rest.is_empty()).chain(operation.payload(sending.task, body)) {
            if count == SLICES || bytes == room {
                break;
            }
            let piece = &piece[..piece.len().min(room - bytes)];
            bytes += piece.len();
            slices[count] = IoSlice::new(piece);
            count += 1;
        }
        // The kernel marks the end only when it takes all.
        let flags = if bytes == room { libc::MSG_EOR } else { 0 };
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

    /// Gives up an operation: a message that has gone in part is kept to be sent wholly, so that the peer finds the
    /// next frame.
    pub(super) fn give_up(&mut self, operation: &Operation<'_>) {
        if let Some(Sending { task, header, done }) = self.sending.take() {
            let mut rest = header[done.min(HEADER)..].to_vec();
            operation.payload(task, done.saturating_sub(HEADER)).for_each(|piece| rest.extend(piece));
            self.queue.push_front(rest);
        }
        if let Some((_, used @ (Use::Take(_) | Use::Park(_)))) = &mut self.coming {
            *used = Use::Drop;
        }
        self.gauge.empty();
        self.gauge.open = false;
    }

    /// Reads and drops what comes; says whether the peer has closed.
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

    /// The body of the frame found last.
    pub(super) fn body(&self) -> &[u8] {
        self.found.bytes()
    }

    /// Reads until something is found that is no message of this operation, or nothing is left. `sequence` is the
    /// number of the operation at work, or of the last one; frames of later ones are kept.
    pub(super) fn read(
        &mut self,
        mut work: Option<(&mut Operation<'_>, usize)>,
        sequence: u32,
        progress: &mut bool,
    ) -> io::Result<Found> {
        if let Some((operation, peer)) = &mut work
            && let Some(found) = self.take_early(operation, *peer, sequence, progress)
        {
            return Ok(found);
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
                        return Ok(Found::Stranger);
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
                if let Some(found) = self.finish(frame, used, &mut work, sequence, progress) {
                    return Ok(found);
                }
            }
            if left == 0 {
                break;
            }
        }
        Ok(Found::Nothing)
    }

    /// Uses a frame that is here whole; returns what is no message of the operation at work.
    fn finish(
        &mut self,
        frame: Frame,
        used: Use,
        work: &mut Option<(&mut Operation<'_>, usize)>,
        sequence: u32,
        progress: &mut bool,
    ) -> Option<Found> {
        match (used, work) {
            (Use::Take(task), Some((operation, _))) => operation.end(task),
            (Use::Park(task), Some((operation, _))) => operation.park(task, std::mem::take(&mut self.body)),
            (Use::Keep, _) => {
                std::mem::swap(&mut self.found, &mut self.body);
                return Some(Found::Frame(frame));
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

    /// Takes in what came before the operation began; returns the first frame that is not a message of it.
    fn take_early(
        &mut self,
        operation: &mut Operation<'_>,
        peer: usize,
        sequence: u32,
        progress: &mut bool,
    ) -> Option<Found> {
        while self.early.front().is_some_and(|(frame, _)| frame.sequence <= sequence) {
            let (frame, message) = self.early.pop_front()?;
            self.early_bytes -= frame.length;
            *progress = true;
            match frame.kind {
                _ if frame.sequence < sequence => {}
                Kind::Data => match operation.receiver(peer, frame.transfer) {
                    Some(task) if operation.bytes(task) as u64 == frame.length => operation.park(task, message),
                    _ => return Some(Found::Stranger),
                },
                _ => {
                    self.found = message;
                    return Some(Found::Frame(frame));
                }
            }
        }
        None
    }

    /// What becomes of a frame's body; `None` if it has to wait, or is a stranger.
    fn begin(&mut self, frame: Frame, work: &mut Option<(&mut Operation<'_>, usize)>, sequence: u32) -> Option<Use> {
        let used = match frame.kind {
            Kind::Notice | Kind::Bye => Use::Keep,
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
                let task = operation.receiver(*peer, frame.transfer)?;
                if operation.bytes(task) as u64 != frame.length {
                    return None;
                }
                if operation.may_use(task) { Use::Take(task) } else { Use::Park(task) }
            }
        };
        self.body.resize(match used {
            Use::Keep | Use::Park(_) | Use::Early => frame.length as usize,
            Use::Take(_) | Use::Drop => BLOCK,
        });
        Some(used)
    }

    /// Reads into the body, or into the header; `None` if nothing has come.
    fn read_some(&mut self, body: Option<std::ops::Range<usize>>) -> io::Result<Option<usize>> {
        let target = match body {
            Some(range) => &mut self.body.bytes_mut()[range],
            None => &mut self.header[self.header_done..],
        };
        some(&mut self.readable, (&self.stream).read(target))
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
                Sink::Place(range) => some(&mut self.readable, (&self.stream).read(operation.place(range)))?,
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

/// What a read gave: nothing yet is no error, the end of the stream is one.
fn some(readable: &mut bool, read: io::Result<usize>) -> io::Result<Option<usize>> {
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

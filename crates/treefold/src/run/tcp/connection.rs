//! One connection to a peer: it writes and reads frames without ever waiting.
//!
//! Outgoing frames that are ready go first; then messages follow, each chosen only when the one before has left for the
//! kernel. The kernel keeps little that is not yet on the wire, so the order of sends stays the operation's choice.

mod reading;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::Instant;

use mio::net::TcpStream;
use socket2::SockRef;

use super::frame::{END_OF_BURST, Frame, HEADER, Kind};
use super::probe::{Probe, RoundTrips};
use super::usage::Usage;
use crate::ids::NodeId;
use crate::run::operation::{Message, Operation};
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
pub const BURST: usize = 24 << 10;
/// The bytes that go to a peer before it has begun the operation. More would fill its kernel's buffers, and a
/// connection whose buffers stay full looks dead.
const AHEAD: u64 = 32 << 10;
/// The most bytes of frames of later operations that are kept, so that control messages behind them can be read. Peers
/// send little ahead; only a peer that sends to ranks which have long stopped reading reaches the limit.
const EARLY: u64 = 4 << 20;
/// The frames of a probe that are written before the other connections have their turn.
const PROBE_VISIT: usize = 16;
/// The most pieces that are written at a time.
const SLICES: usize = 64;

/// A connection to a peer.
pub struct Connection {
    pub(super) stream: TcpStream,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the peer has said farewell.
    pub(super) left: bool,
    /// How often the pair had lost its connection when this one was made.
    pub(super) life: u32,
    pub(super) trips: RoundTrips,
    /// The probe at work.
    pub(super) probe: Option<Probe>,
    /// The bytes of bodies that have come.
    pub(super) received: u64,
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
    pub(super) fn new(stream: TcpStream, is_near: bool, life: u32) -> Self {
        Self {
            stream,
            readable: true,
            writable: true,
            left: false,
            life,
            trips: RoundTrips::default(),
            probe: None,
            received: 0,
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
        self.probe.iter_mut().for_each(Probe::stop);
        self.limit_unsent((2 * message).clamp(MIN_UNSENT, MAX_UNSENT))
    }

    /// Begins a probe, of which the kernel keeps little unsent.
    pub(super) fn begin_probe(&mut self, probe: Probe) -> io::Result<()> {
        self.probe = Some(probe);
        self.limit_unsent(MIN_UNSENT)
    }

    fn limit_unsent(&mut self, unsent: usize) -> io::Result<()> {
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
        let mut frames = PROBE_VISIT;
        while self.writable {
            let written = if self.probe.as_ref().is_some_and(Probe::is_within_frame) {
                self.write_probe()
            } else if self.sending.is_none() && !self.queue.is_empty() {
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
            } else if frames > 0 && self.probe.as_ref().is_some_and(|probe| !probe.is_over(Instant::now())) {
                frames -= 1;
                self.write_probe()
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
                    self.probe.iter_mut().for_each(|probe| probe.full(Instant::now()));
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

    fn write_probe(&mut self) -> io::Result<usize> {
        let probe = self.probe.as_mut().expect("a probe is at work");
        let written = SockRef::from(&self.stream).send_with_flags(probe.rest(), END_OF_BURST)?;
        probe.gone(written);
        Ok(written)
    }

    fn write_message(&mut self, operation: &mut Operation<'_>) -> io::Result<usize> {
        let sending = self.sending.as_mut().expect("a message is being written");
        if sending.done == 0 {
            operation.note_begin(sending.task);
        }
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
}

//! The connection to a peer: one TCP stream, or several side by side where a line needs more under way than the kernel
//! grants one of them. It writes and reads frames without ever waiting.
//!
//! Outgoing frames that are ready go first; then messages follow, each chosen only when the one before has left for the
//! kernel. The kernel keeps little that is not yet on the wire, so the order of sends stays the operation's choice.
//! Over several streams a message goes in parts, each on the stream that has room first, so that none waits for a
//! slower one; the peer joins them in place. Frames that must come before later messages go over every stream.

mod log;
mod parts;
mod reading;
mod sending;
mod several;
mod stream;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::frame::{Frame, Kind};
use super::probe::{Probe, RoundTrips};
use super::usage::Usage;
use super::window::Work;
use crate::run::message::Message;
use crate::run::operation::Operation;
use log::Sent;
pub use parts::{Part, Parts};
use several::stream_does;
pub use stream::{BURST, Stream};

/// The least bytes that the kernel keeps unsent on a stream.
const MIN_UNSENT: usize = 128 << 10;
/// The most bytes that the kernel keeps unsent on a stream.
const MAX_UNSENT: usize = 512 << 10;
/// So many streams keep as much unsent as one.
const FEW: usize = 4;
/// The most bytes of frames of later operations that are kept, so that control messages behind them can be read. Peers
/// send little ahead; only a peer that sends to ranks which have long stopped reading reaches the limit.
const EARLY: u64 = 4 << 20;

/// The connection to a peer.
pub struct Connection {
    streams: Vec<Stream>,
    /// The frames that were lost with a stream, which go over the others.
    again: VecDeque<Sent>,
    /// Whether the peer has said farewell.
    pub(super) left: bool,
    /// How often the pair had lost its connection when this one was made.
    pub(super) life: u32,
    pub(super) trips: RoundTrips,
    /// The probe at work.
    pub(super) probe: Option<Probe>,
    /// The bytes of bodies that have come.
    pub(super) received: u64,
    /// The body of the frame that was returned last.
    returned: Message,
    /// Frames of later operations.
    early: VecDeque<(Frame, Message)>,
    early_bytes: u64,
    pub(super) usage: Usage,
    /// The bytes of messages that were sent and received in all operations.
    pub(super) moved: u64,
}

/// The result of reading from a connection.
pub enum Received {
    /// There is nothing more for now.
    Nothing,
    /// A whole frame that is no message of an operation; `Connection::body` is its body.
    Frame(Frame),
    /// A message that the operation with this number does not have.
    Foreign(u32),
}

impl Connection {
    /// Wraps the streams to a peer.
    pub(super) fn new(mut streams: Vec<Stream>, life: u32) -> Self {
        if streams.len() > 1 {
            streams.iter_mut().zip(0..).for_each(|(stream, number)| stream.as_one_of_several(number));
        }
        Self {
            streams,
            again: VecDeque::new(),
            left: false,
            life,
            trips: RoundTrips::default(),
            probe: None,
            received: 0,
            returned: Message::default(),
            early: VecDeque::new(),
            early_bytes: 0,
            usage: Usage::default(),
            moved: 0,
        }
    }

    /// Returns the descriptors of its streams that are not broken, which the caller has to close.
    pub(super) fn descriptors(&mut self) -> io::Result<Vec<OwnedFd>> {
        self.whole().map(|stream| stream.socket.try_clone().map(OwnedFd::from)).collect()
    }

    /// Returns whether the peer is on this machine.
    pub(super) fn is_near(&self) -> bool {
        self.streams.iter().all(Stream::is_near)
    }

    /// Begins an operation with messages of about `message` bytes, of which the kernel keeps two unsent. Each of many
    /// streams keeps less, as what waits on a slow one could have gone over another.
    pub(super) fn begin_operation(&mut self, message: usize) -> io::Result<()> {
        self.probe.iter_mut().for_each(Probe::stop);
        let unsent = (2 * message).clamp(MIN_UNSENT, MAX_UNSENT);
        self.limit_unsent(unsent * FEW / self.streams.len().max(FEW))
    }

    /// Begins a probe, of which the kernel keeps little unsent.
    pub(super) fn begin_probe(&mut self, probe: Probe) -> io::Result<()> {
        self.probe = Some(probe);
        self.limit_unsent(MIN_UNSENT)
    }

    fn limit_unsent(&mut self, unsent: usize) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(|stream| stream.limit_unsent(unsent))
    }

    /// Returns whether the probe is over, and its last frame has gone wholly on every stream.
    pub(super) fn has_probed(&self, now: Instant) -> bool {
        let is_over = self.probe.as_ref().is_none_or(|probe| probe.is_over(now));
        is_over && !self.streams.iter().any(Stream::is_within_probe)
    }

    /// Appends a frame to those that go before all further messages.
    pub(super) fn queue(&mut self, frame: Vec<u8>) {
        self.whole().for_each(|stream| stream.queue(frame.clone()));
    }

    /// Appends a frame that may come after later messages.
    pub(super) fn queue_once(&mut self, frame: Vec<u8>) {
        if let Some(stream) = self.whole().next() {
            stream.queue(frame);
        }
    }

    /// Returns the streams that are not broken.
    fn whole(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.iter_mut().filter(|stream| !stream.is_broken)
    }

    /// Returns whether all queued frames and the messages at work have left.
    pub(super) fn flushed(&self) -> bool {
        self.again.is_empty() && self.streams.iter().all(Stream::flushed)
    }

    /// Notes that each stream may be read and written again.
    pub(super) fn wake(&mut self) {
        self.streams.iter_mut().for_each(Stream::wake);
    }

    /// Notes what mio says of a stream.
    pub(super) fn note(&mut self, stream: usize, is_readable: bool, is_writable: bool) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.note(is_readable, is_writable);
        }
    }

    /// Lets no more bytes leave after those that the kernel has.
    pub(super) fn shut_down(&self) {
        self.streams.iter().for_each(Stream::shut_down);
    }

    /// Reads and drops all bytes that have come; returns whether the peer has closed every stream.
    pub(super) fn drained(&mut self) -> bool {
        let open = self.streams.iter_mut().filter_map(|stream| (!stream.drained()).then_some(()));
        open.count() == 0
    }

    /// Writes until nothing is left to write or the kernel takes no more; returns whether anything was written.
    pub(super) fn write(&mut self, work: &mut Work<'_, '_>) -> io::Result<bool> {
        let mut streams = mem::take(&mut self.streams);
        let (count, mut written) = (streams.len(), Ok(false));
        for at in 0..count {
            if streams[at].is_broken {
                continue;
            }
            let now = stream_does(&mut streams, at, work, |stream, work| stream.write(self, count, work));
            written = written.and_then(|before| Ok(now?.unwrap_or(true) | before));
        }
        if streams.iter().all(|stream| stream.is_writable() || stream.is_broken) {
            self.usage.empty();
        }
        self.streams = streams;
        written
    }

    /// Reads until a frame comes that is no message of an operation in flight, or nothing is left. Frames of later
    /// operations are kept.
    pub(super) fn read(&mut self, work: &mut Work<'_, '_>, progress: &mut bool) -> io::Result<Received> {
        if let Some(received) = self.take_early(work, progress) {
            return Ok(received);
        }
        let mut streams = mem::take(&mut self.streams);
        let read = self.read_streams(&mut streams, work, progress);
        self.streams = streams;
        read
    }

    fn read_streams(
        &mut self,
        streams: &mut [Stream],
        work: &mut Work<'_, '_>,
        progress: &mut bool,
    ) -> io::Result<Received> {
        for at in 0..streams.len() {
            let has_left = self.left;
            let mut read = stream_does(streams, at, work, |stream, work| match stream.read(self, work, progress) {
                // The streams of a peer that has left end one after the other; there may be more on the others.
                Err(_) if has_left => {
                    stream.has_ended = true;
                    Ok(Received::Nothing)
                }
                read => read,
            })?;
            if let Some(Received::Frame(frame)) = &read
                && self.tell_streams(streams, at, *frame, work)?
            {
                *progress = true;
                read = None;
            }
            match read {
                Some(Received::Nothing) | None => {}
                Some(received) => return Ok(received),
            }
        }
        let are_over = streams.iter().all(|stream| stream.has_ended || stream.is_broken);
        if are_over { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Received::Nothing) }
    }

    /// Gives up an operation. The rest of a part that has gone in part is kept to be sent, so that the peer finds the
    /// next frame.
    pub(super) fn give_up(&mut self, sequence: u32, operation: &Operation<'_>) {
        self.streams.iter_mut().for_each(|stream| stream.give_up(sequence, operation));
        self.usage.empty();
    }

    /// Returns whether messages have come whose operations have not begun.
    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Returns the body of the frame that was returned last.
    pub(super) fn body(&self) -> &[u8] {
        self.returned.bytes()
    }

    /// Uses the messages that came before their operation began; returns the first frame that is no message of one.
    fn take_early(&mut self, work: &mut Work<'_, '_>, progress: &mut bool) -> Option<Received> {
        while let Some(at) = self.early.iter().position(|(frame, _)| frame.sequence <= work.last) {
            let (frame, message) = self.early.remove(at)?;
            self.early_bytes -= frame.length;
            *progress = true;
            match frame.kind {
                _ if !work.runs(frame.sequence) => {}
                Kind::Data => match work.receiver(&frame) {
                    Some((operation, task)) => operation.park(task, frame.from as usize, message),
                    None => return Some(Received::Foreign(frame.sequence)),
                },
                _ => {
                    self.returned = message;
                    return Some(Received::Frame(frame));
                }
            }
        }
        None
    }
}

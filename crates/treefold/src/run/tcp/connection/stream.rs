//! One TCP stream to a peer: its sending half.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use socket2::Socket;

use super::Connection;
use super::log::{CONFIRMED, Log, Sent};
use super::reading::{Ahead, Coming};
use super::sending::{Sending, header};
use crate::ids::NodeId;
use crate::run::message::Message;
use crate::run::operation::Operation;
use crate::run::tcp::frame::{END_OF_BURST, Frame, HEADER, Kind};
use crate::run::tcp::probe;
use crate::run::tcp::secure::{RECORD, Session, leaves_machine};
use crate::run::tcp::window::Work;

/// The bytes that go to another machine in one burst, whose end is marked for the kernel. Without the mark the kernel
/// makes packets of up to 64 KiB where the round trip is short. A shaper with a smaller bucket (32 KiB is common) cuts
/// those into frames one by one, which takes five times the processor time at both ends and lets queues overflow.
pub const BURST: usize = 24 << 10;
/// The frames of a probe that are written before the other streams have their turn.
const PROBE_VISIT: usize = 16;
/// The most pieces that are written at a time.
const SLICES: usize = 64;
/// The most bytes of a part that is copied to the frames that are ready, so that one call of the kernel takes several.
const SMALL: usize = 4 << 10;
/// The bytes of frames that are ready to go beyond which no more are gathered.
const GATHERED: usize = 16 << 10;

/// A stream to a peer, over TCP or within a machine.
pub struct Stream {
    pub(super) socket: Socket,
    /// TLS, where the group has certificates.
    pub(super) session: Option<Box<Session>>,
    pub(super) readable: bool,
    /// Whether the peer, which has left, has closed it.
    pub(super) has_ended: bool,
    writable: bool,
    /// Frames that are ready to go.
    queue: VecDeque<Vec<u8>>,
    /// The bytes of the first of them that have gone.
    queue_done: usize,
    sending: Option<Sending>,
    /// Its number, if it is one of several.
    number: Option<u32>,
    pub(super) log: Log,
    /// Whether it is broken, and the others do its work.
    pub(super) is_broken: bool,
    /// Whether it is known what has come at the other end of a broken stream.
    pub(super) is_settled: bool,
    /// How many frames of messages have come.
    pub(super) came: u64,
    /// How often it was made again.
    pub(super) life: u32,
    /// Whether it carries no messages yet, as it was made again a moment ago.
    pub(super) is_young: bool,
    /// The lives of the peer's end whose fences have come, each with the number of the stream over which one came.
    pub(super) fences: BTreeSet<(u32, usize)>,
    /// The bytes of the frame of a probe that have gone.
    probe_done: usize,
    /// The bytes that the kernel keeps unsent.
    unsent: usize,
    /// The most bytes of a burst; `None` where bursts have no end.
    burst: Option<usize>,
    /// The bytes in the burst that is being filled.
    in_burst: usize,
    pub(super) header: [u8; HEADER],
    pub(super) header_done: usize,
    pub(super) ahead: Ahead,
    /// The frame whose body is coming.
    pub(super) coming: Option<Coming>,
    /// The bytes of it that have come.
    pub(super) body_done: usize,
    pub(super) body: Message,
}

impl Stream {
    /// Wraps a stream to a peer, which is on this machine (`is_near`) or on another one.
    pub fn new(socket: Socket, session: Option<Box<Session>>, is_near: bool) -> Self {
        Self {
            socket,
            session,
            readable: true,
            has_ended: false,
            writable: true,
            queue: VecDeque::new(),
            queue_done: 0,
            sending: None,
            number: None,
            log: Log::default(),
            is_broken: false,
            is_settled: false,
            came: 0,
            life: 0,
            is_young: false,
            fences: BTreeSet::new(),
            probe_done: 0,
            unsent: 0,
            burst: (!is_near).then_some(BURST),
            in_burst: 0,
            header: [0; HEADER],
            header_done: 0,
            ahead: Ahead::default(),
            coming: None,
            body_done: 0,
            body: Message::default(),
        }
    }

    /// Makes it one of several streams, with this number.
    pub fn as_one_of_several(&mut self, number: u32) {
        self.number = Some(number);
    }

    /// Returns whether the peer is on this machine.
    pub fn is_near(&self) -> bool {
        self.burst.is_none()
    }

    /// Returns whether the kernel takes more.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns whether a frame of a probe has gone in part: its rest goes before anything else.
    pub fn is_within_probe(&self) -> bool {
        self.probe_done > 0
    }

    /// Returns whether all queued frames and the part at work have left. What a broken one had is the others' to send.
    pub fn flushed(&self) -> bool {
        self.is_broken || (self.queue.is_empty() && self.sending.is_none() && !self.is_behind())
    }

    /// Returns whether encrypted bytes wait for the kernel to take them.
    fn is_behind(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_behind())
    }

    pub fn queue(&mut self, frame: Vec<u8>) {
        self.queue.push_back(frame);
    }

    pub fn wake(&mut self) {
        (self.readable, self.writable) = (true, true);
    }

    pub fn note(&mut self, is_readable: bool, is_writable: bool) {
        self.readable |= is_readable;
        self.writable |= is_writable;
    }

    pub fn shut_down(&self) {
        // A stream that is broken needs no farewell.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads and drops all bytes that have come; returns whether the peer has closed the stream.
    pub fn drained(&mut self) -> bool {
        let mut dropped = [0; 1 << 12];
        loop {
            match (&self.socket).read(&mut dropped) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }

    pub fn limit_unsent(&mut self, unsent: usize) -> io::Result<()> {
        if unsent != self.unsent {
            if leaves_machine(&self.socket) {
                self.socket.set_tcp_notsent_lowat(unsent as u32)?;
            }
            self.unsent = unsent;
        }
        Ok(())
    }

    /// Writes until nothing is left to write or the kernel takes no more; returns whether anything was written.
    /// `pair` is the connection that this stream belongs to.
    pub fn write(&mut self, pair: &mut Connection, streams: usize, work: &mut Work<'_, '_>) -> io::Result<bool> {
        let mut progress = false;
        let mut frames = PROBE_VISIT;
        while self.writable {
            let written = if self.is_behind() {
                send(&self.socket, &mut self.session, self.burst, &[], 0)
            } else if self.is_within_probe() {
                self.write_probe(pair)
            } else if self.may_write_queue() && self.gather(pair, streams, work) {
                self.write_queue()
            } else if self.sending.as_ref().is_some_and(|sending| sending.is_at_hand(work)) {
                self.write_part(pair, work)
            } else if frames > 0
                && self.sending.is_none()
                && pair.probe.as_ref().is_some_and(|probe| !probe.is_over(Instant::now()))
            {
                frames -= 1;
                self.write_probe(pair)
            } else {
                break;
            };
            match written {
                Ok(bytes) => {
                    pair.usage.wrote(bytes);
                    progress = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    let sending = self.sending.as_ref();
                    if sending.is_some_and(|sending| work.peer_has_begun(sending.frame.sequence)) {
                        pair.usage.full();
                    }
                    pair.probe.iter_mut().for_each(|probe| probe.full(Instant::now()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    /// Returns whether frames that are ready may go now: not while a part has gone in part.
    fn may_write_queue(&self) -> bool {
        self.sending.as_ref().is_none_or(|sending| sending.done == 0)
    }

    /// Adds small parts to the frames that are ready, and takes up the first part that is not small; returns whether
    /// any frame is ready.
    fn gather(&mut self, pair: &mut Connection, streams: usize, work: &mut Work<'_, '_>) -> bool {
        let mut gathered = 0;
        while self.sending.is_none() && gathered < GATHERED && !self.is_young {
            if let Some(again) = pair.again.pop_front() {
                self.sending = Some(Sending::again(again));
                break;
            }
            let Some((sequence, part)) = work.next_part(streams) else { break };
            let operation = work.operation(sequence).expect("its part was cut now");
            if part.length > SMALL || self.number.is_some() {
                let copies = self.number.is_some() || operation.is_encoded();
                self.sending = Some(Sending::of(part, operation, sequence, copies.then(|| self.log.spare())));
                break;
            }
            if part.from == 0 {
                operation.note_begin(part.task);
            }
            let mut frame = header(part, operation, sequence).to_bytes().to_vec();
            frame.resize(HEADER + part.length, 0);
            operation.copy_payload(part.task, part.from, &mut frame[HEADER..]);
            (gathered, pair.moved) = (gathered + frame.len(), pair.moved + frame.len() as u64);
            self.queue.push_back(frame);
            work.has_left(sequence, part);
        }
        !self.queue.is_empty()
    }

    fn write_queue(&mut self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut skip = self.queue_done;
        let frames = slices.iter_mut().zip(&self.queue).map(|(slice, frame)| {
            *slice = IoSlice::new(&frame[std::mem::take(&mut skip)..]);
        });
        let count = frames.count();
        let written = send(&self.socket, &mut self.session, self.burst, &slices[..count], 0)?;
        self.queue_done += written;
        while self.queue.front().is_some_and(|frame| frame.len() <= self.queue_done) {
            self.queue_done -= self.queue.pop_front().map_or(0, |frame| frame.len());
        }
        Ok(written)
    }

    fn write_probe(&mut self, pair: &mut Connection) -> io::Result<usize> {
        let frame = probe::frame();
        let rest = IoSlice::new(&frame[self.probe_done..]);
        let written = send(&self.socket, &mut self.session, self.burst, &[rest], END_OF_BURST)?;
        self.probe_done = (self.probe_done + written) % frame.len();
        pair.probe.iter_mut().for_each(|probe| probe.gone(written));
        Ok(written)
    }

    fn write_part(&mut self, pair: &mut Connection, work: &mut Work<'_, '_>) -> io::Result<usize> {
        let sending = self.sending.as_mut().expect("a part is being written");
        let mut operation = work.operation(sending.frame.sequence);
        if let (0, Some(part), Some(operation)) = (sending.done, sending.part, &mut operation)
            && part.from == 0
        {
            operation.note_begin(part.task);
        }
        let (header, length) = (&sending.header[sending.done.min(HEADER)..], sending.frame.length as usize);
        let body = sending.done.saturating_sub(HEADER);
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut bytes) = (0, 0);
        let most = self.burst.map_or(usize::MAX, |burst| burst - self.in_burst);
        let room = most.min(header.len() + length - body);
        for piece in [header].into_iter().filter(|rest| !rest.is_empty()).chain(sending.rest(operation.as_deref())) {
            if count == SLICES || bytes == room {
                break;
            }
            let piece = &piece[..piece.len().min(room - bytes)];
            bytes += piece.len();
            slices[count] = IoSlice::new(piece);
            count += 1;
        }
        // The kernel marks the end of the burst only when it takes all bytes.
        let flags = if bytes == most { END_OF_BURST } else { 0 };
        let written = send(&self.socket, &mut self.session, self.burst, &slices[..count], flags)?;
        sending.done += written;
        self.in_burst = if written == most { 0 } else { self.in_burst + written };
        pair.moved += written as u64;
        if sending.done == HEADER + length {
            let sending = self.sending.take().expect("a part is being written");
            if let Some(part) = sending.part {
                work.has_left(sending.frame.sequence, part);
            }
            self.keep(sending, false);
        }
        Ok(written)
    }

    /// Keeps a frame that has begun to leave until the other end says that it has come, if this is one of several
    /// streams; `owes` says whether it has not left wholly, and its operation waits for that.
    fn keep(&mut self, sending: Sending, owes: bool) {
        let Sending { frame, part, body, .. } = sending;
        // Only a stream that is alone sends without a copy.
        let Some(body) = body else { return };
        if self.number.is_none() {
            return self.log.give_back(body);
        }
        let owes = part.filter(|_| owes).map(|part| (frame.sequence, part));
        self.log.push(Sent { frame, body, owes });
    }

    /// Notes that a frame of a message has come.
    pub fn note_come(&mut self) {
        self.came += 1;
        if let Some(number) = self.number.filter(|_| self.came.is_multiple_of(CONFIRMED)) {
            let frame = Frame { from: self.came, ..Frame::new(Kind::Came, self.life, number, NodeId(0)) };
            self.queue(frame.to_bytes().to_vec());
        }
    }

    /// Breaks the stream off: what has not come at the other end is kept, and whatever else it had to send goes over
    /// the others, too. Returns what tells the other end how much has come here.
    pub fn break_off(&mut self, work: &mut Work<'_, '_>) -> Vec<u8> {
        let usable = self.use_what_has_come(work) as u64;
        self.is_broken = true;
        // The socket may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(sending) = self.sending.take() {
            self.keep(sending, true);
        }
        self.queue.clear();
        (self.queue_done, self.probe_done) = (0, 0);
        let number = self.number.unwrap_or_default();
        let frame = Frame { from: self.came, ..Frame::new(Kind::Broken, self.life, number, NodeId(0)) };
        frame.with_body(&usable.to_le_bytes())
    }

    /// Gives up an operation, as [`Connection::give_up`] does.
    pub fn give_up(&mut self, sequence: u32, operation: &Operation<'_>) {
        if let Some(mut sending) = self.sending.take_if(|sending| sending.frame.sequence == sequence)
            && sending.done > 0
        {
            let mut rest = sending.header[sending.done.min(HEADER)..].to_vec();
            let end = rest.len() + HEADER + sending.frame.length as usize - sending.done.max(HEADER);
            for piece in sending.rest(Some(operation)) {
                rest.extend(&piece[..piece.len().min(end - rest.len())]);
            }
            self.queue.push_front(rest);
            sending.part = None;
            self.keep(sending, false);
        }
    }
}

/// Sends what the kernel takes, through TLS if there is a session.
fn send(
    socket: &Socket,
    session: &mut Option<Box<Session>>,
    burst: Option<usize>,
    pieces: &[IoSlice<'_>],
    flags: i32,
) -> io::Result<usize> {
    match session {
        Some(session) => session.write(&mut Records { socket, flags: burst.map_or(0, |_| END_OF_BURST) }, pieces),
        None => socket.send_vectored_with_flags(pieces, flags),
    }
}

/// Sends records of TLS, with these flags.
struct Records<'a> {
    socket: &'a Socket,
    flags: i32,
}

impl Write for Records<'_> {
    fn write_vectored(&mut self, records: &[IoSlice<'_>]) -> io::Result<usize> {
        // To another machine they go in bursts.
        let most = if self.flags == 0 { SLICES } else { BURST / RECORD };
        let count = records.len().min(most);
        self.socket.send_vectored_with_flags(&records[..count], self.flags)
    }

    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.socket.send_with_flags(record, self.flags)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

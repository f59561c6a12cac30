//! Several streams of one connection: one that breaks leaves its work to the others, until it is made again.
//!
//! Both ends tell each other, over all other streams, how much has come over the broken one, and send the rest again. A
//! new stream in its place carries messages when its fence has come over all others, as `repair` says.

use std::cmp::Ordering;
use std::io;
use std::mem;

use super::log::Log;
use super::{Connection, Stream};
use crate::ids::NodeId;
use crate::run::tcp::frame::{Frame, Kind};
use crate::run::tcp::window::Work;

impl Connection {
    /// Returns the numbers of the streams that are broken, and whose places are free.
    pub fn broken(&self) -> impl Iterator<Item = usize> {
        let is_free = |stream: &Stream| stream.is_broken && stream.is_settled && !self.left;
        self.streams.iter().enumerate().filter_map(move |(number, stream)| is_free(stream).then_some(number))
    }

    /// Puts a new stream in the place of a broken one.
    pub fn replace(&mut self, number: usize, mut stream: Stream) {
        let old = &mut self.streams[number];
        if !old.is_broken || !old.is_settled {
            return;
        }
        stream.as_one_of_several(number as u32);
        (stream.life, stream.is_young, stream.fences) = (old.life + 1, true, mem::take(&mut old.fences));
        // The fences of other new streams have to come over this one, too.
        let young = self.streams.iter().enumerate().filter(|&(other, stream)| other != number && stream.is_young);
        young.for_each(|(other, young)| stream.queue(about(Kind::Fence, other, young.life)));
        let own = about(Kind::Fence, number, stream.life);
        self.streams[number] = stream;
        let others =
            self.streams.iter_mut().enumerate().filter(|(other, stream)| *other != number && !stream.is_broken);
        others.for_each(|(_, stream)| stream.queue(own.clone()));
        open_fenced(&mut self.streams);
    }

    /// Handles a frame about a stream, which came over the stream number `over`; returns whether it is one.
    pub(super) fn tell_streams(
        &mut self,
        streams: &mut [Stream],
        over: usize,
        frame: Frame,
        work: &mut Work<'_, '_>,
    ) -> io::Result<bool> {
        let (at, life) = (frame.transfer as usize, frame.sequence);
        if !matches!(frame.kind, Kind::Came | Kind::Broken | Kind::Fence | Kind::Open) {
            return Ok(false);
        }
        let stream = streams.get_mut(at).ok_or_else(wrong)?;
        match frame.kind {
            Kind::Broken => self.hear_of_break(streams, frame, work)?,
            Kind::Fence => drop(stream.fences.insert((life, over))),
            _ if life != stream.life => {}
            Kind::Came => stream.log.confirm(frame.from).then_some(()).ok_or_else(wrong)?,
            _ => stream.is_young = false,
        }
        open_fenced(streams);
        Ok(true)
    }

    fn hear_of_break(&mut self, streams: &mut [Stream], frame: Frame, work: &mut Work<'_, '_>) -> io::Result<()> {
        let (at, life) = (frame.transfer as usize, frame.sequence);
        let usable = u64::from_le_bytes(self.returned.bytes().try_into().map_err(|_| wrong())?);
        match life.cmp(&streams[at].life) {
            Ordering::Less => return Ok(()),
            Ordering::Equal if streams[at].is_broken => {}
            Ordering::Equal => break_off(streams, at, work),
            // It was made again at the other end only, and broke there.
            Ordering::Greater => {
                let stream = &mut streams[at];
                (stream.life, stream.came, stream.log, stream.is_settled) = (life, 0, Log::default(), false);
                break_off(streams, at, work);
            }
        }
        // The other end tells it over all streams.
        if !mem::replace(&mut streams[at].is_settled, true) {
            self.again.extend(streams[at].log.rest(frame.from, usable).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

fn wrong() -> io::Error {
    io::Error::other("the peer speaks of a stream that there is not")
}

/// Returns a frame about the stream with this number, which was made again so often.
fn about(kind: Kind, number: usize, life: u32) -> Vec<u8> {
    Frame::new(kind, life, number as u32, NodeId(0)).to_bytes().to_vec()
}

/// Tells the other end which of its new streams may carry messages: those whose fence has come over all others.
fn open_fenced(streams: &mut [Stream]) {
    for at in 0..streams.len() {
        let life = streams[at].life;
        let mut others = streams.iter().enumerate().filter(|&(other, stream)| other != at && !stream.is_broken);
        let is_fenced = streams[at].fences.iter().any(|&(of, _)| of == life);
        if is_fenced && !streams[at].is_broken && others.all(|(other, _)| streams[at].fences.contains(&(life, other))) {
            streams[at].fences.retain(|&(of, _)| of > life);
            let open = about(Kind::Open, at, life);
            streams.iter_mut().filter(|stream| !stream.is_broken).for_each(|stream| stream.queue(open.clone()));
        }
    }
}

/// Lets a stream do something. If that breaks it, the others do its work, if there are any; `None` then.
pub fn stream_does<T>(
    streams: &mut [Stream],
    at: usize,
    work: &mut Work<'_, '_>,
    act: impl FnOnce(&mut Stream, &mut Work<'_, '_>) -> io::Result<T>,
) -> io::Result<Option<T>> {
    let error = match act(&mut streams[at], work) {
        Ok(done) => return Ok(Some(done)),
        Err(error) => error,
    };
    // A young stream may lack what was told before it was there, so it cannot stand in for the last one.
    let may_stand_in = |(other, stream): (usize, &Stream)| other != at && !stream.is_broken && !stream.is_young;
    let has_others = streams.iter().enumerate().any(may_stand_in);
    // What is no error of the kernel is one of the peer.
    if !has_others || error.kind() == io::ErrorKind::Other {
        return Err(error);
    }
    break_off(streams, at, work);
    open_fenced(streams);
    Ok(None)
}

/// Breaks a stream off, and tells the other end over all others how much has come.
fn break_off(streams: &mut [Stream], at: usize, work: &mut Work<'_, '_>) {
    let told = streams[at].break_off(work);
    streams.iter_mut().filter(|stream| !stream.is_broken).for_each(|stream| stream.queue(told.clone()));
}

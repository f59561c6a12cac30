//! A frame of a message while it is being written.

use super::log::Sent;
use super::parts::Part;
use crate::ids::NodeId;
use crate::run::message::Message;
use crate::run::operation::Operation;
use crate::run::tcp::frame::{Frame, HEADER, Kind};
use crate::run::tcp::window::Work;

/// A frame of a message that is being written.
pub struct Sending {
    pub frame: Frame,
    pub header: [u8; HEADER],
    pub done: usize,
    /// The part that is sent; `None` if it was sent before, over a stream that broke.
    pub part: Option<Part>,
    /// Its body, if it is a copy or encoded.
    pub body: Option<Message>,
}

/// Returns the header of a part of a message.
pub fn header(part: Part, operation: &Operation<'_>, sequence: u32) -> Frame {
    let frame = Frame::new(Kind::Data, sequence, operation.transfer(part.task).0, NodeId(0));
    Frame { from: part.from as u64, length: part.length as u64, ..frame }
}

impl Sending {
    /// Begins to send a part; if there is memory for a copy, its numbers are copied, or encoded if they cross lines in
    /// another type.
    pub fn of(part: Part, operation: &mut Operation<'_>, sequence: u32, copy: Option<Message>) -> Self {
        let frame = header(part, operation, sequence);
        let body = copy.map(|mut body| {
            body.resize(part.length);
            operation.copy_payload(part.task, part.from, body.bytes_mut());
            body
        });
        Self { frame, header: frame.to_bytes(), done: 0, part: Some(part), body }
    }

    /// Begins to send a frame again that was lost with its stream.
    pub fn again(sent: Sent) -> Self {
        let Sent { frame, body, owes } = sent;
        Self { frame, header: frame.to_bytes(), done: 0, part: owes.map(|(_, part)| part), body: Some(body) }
    }

    /// Returns whether the bytes of the body are there.
    pub fn is_at_hand(&self, work: &mut Work<'_, '_>) -> bool {
        self.body.is_some() || work.operation(self.frame.sequence).is_some()
    }

    /// Returns the bytes of the body that have not left, piece by piece, and all that follow them in the message.
    pub fn rest<'a>(&'a self, operation: Option<&'a Operation<'_>>) -> impl Iterator<Item = &'a [u8]> {
        let done = self.done.saturating_sub(HEADER);
        let copied = self.body.as_ref().map(|body| &body.bytes()[done..]);
        let part = self.part.zip(operation).filter(|_| copied.is_none());
        let pieces = part.map(|(part, operation)| operation.payload(part.task, part.from + done));
        copied.into_iter().chain(pieces.into_iter().flatten())
    }
}

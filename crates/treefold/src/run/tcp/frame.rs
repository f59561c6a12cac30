//! Frames: all that travels on a connection, each with a header of fixed length and a body.

use crate::bail;
use crate::error::Result;
use crate::ids::NodeId;
use crate::number::wire::Wire;
use crate::number::{Number, Operator};
use crate::plan::Collective;
use crate::plan::schedule::TransferId;
use crate::run::program::Program;

/// The flag of a send that ends a burst, so that the kernel keeps its parts together; Windows has none.
#[cfg(unix)]
pub const END_OF_BURST: i32 = libc::MSG_EOR;
#[cfg(not(unix))]
pub const END_OF_BURST: i32 = 0;

/// The bytes of a header.
pub const HEADER: usize = 32;

/// The most bytes of a body that is no message of an operation.
pub const MAX_CONTROL: u64 = 1 << 28;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message of an operation, or a part of one.
    Data = 1,
    /// The signature of an operation, which comes before its first message.
    Start = 2,
    /// A control message, which is passed on to all ranks.
    Control = 3,
    /// The sender leaves, and nothing more will come from it.
    Bye = 4,
    /// The body says nothing: it measures how fast the link is.
    Probe = 5,
    /// The question how long a round trip takes; `transfer` is its number.
    Ask = 6,
    /// The answer to the question with the same number.
    Answer = 7,
    /// The first frame of a connection that was cut and came back; `transfer` is its life.
    Welcome = 8,
    /// So many frames of messages (`from`) have come over the stream with the number `transfer`. In this frame and in
    /// the next ones, `sequence` says how often that stream was made again.
    Came = 9,
    /// The stream with the number `transfer` is broken; `from` frames of messages have come over it, and of the next
    /// one so many bytes as the body says, a number of eight bytes.
    Broken = 10,
    /// What was told before over all streams but the one with the number `transfer` comes before this frame.
    Fence = 11,
    /// A fence has come over all of them: the stream with the number `transfer` may carry messages.
    Open = 12,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: Kind,
    /// The number of the operation.
    pub sequence: u32,
    /// The number of the transfer in the operation; for a control message, its number among those of its origin.
    pub transfer: u32,
    /// The rank that has broadcast the frame, if it is a control message.
    pub origin: NodeId,
    /// The bytes of the message before this part of it; 0 for other frames.
    pub from: u64,
    /// The bytes of the body.
    pub length: u64,
}

impl Frame {
    /// Returns a frame of an operation, or of none, without a body.
    pub fn new(kind: Kind, sequence: u32, transfer: u32, origin: NodeId) -> Self {
        Self { kind, sequence, transfer, origin, from: 0, length: 0 }
    }

    /// Returns the header as bytes.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (at, word) in [self.kind as u32, self.sequence, self.transfer, self.origin.0].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..24].copy_from_slice(&self.from.to_le_bytes());
        bytes[24..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Reads a header from its bytes.
    ///
    /// # Errors
    /// If the bytes are no header: then the peer is no rank of this version.
    pub fn from_bytes(bytes: &[u8; HEADER]) -> Result<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let kind = match word(0) {
            1 => Kind::Data,
            2 => Kind::Start,
            3 => Kind::Control,
            4 => Kind::Bye,
            5 => Kind::Probe,
            6 => Kind::Ask,
            7 => Kind::Answer,
            8 => Kind::Welcome,
            9 => Kind::Came,
            10 => Kind::Broken,
            11 => Kind::Fence,
            12 => Kind::Open,
            other => bail!("a frame of unknown kind {other} came; all ranks need the same treefold"),
        };
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (from, length) = (number(16), number(24));
        if kind != Kind::Data && length > MAX_CONTROL {
            bail!("a frame of {length} bytes came; all ranks need the same treefold");
        }
        Ok(Self { kind, sequence: word(1), transfer: word(2), origin: NodeId(word(3)), from, length })
    }

    /// Returns the transfer whose message the body is.
    pub fn message(&self) -> TransferId {
        TransferId(self.transfer)
    }

    /// Returns the header, with the length of this body, and the body as bytes.
    pub fn with_body(mut self, body: &[u8]) -> Vec<u8> {
        self.length = body.len() as u64;
        [&self.to_bytes()[..], body].concat()
    }
}

/// The computation of a rank in an operation, on which all ranks have to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    collective: Collective,
    fingerprint: u64,
    elements: u64,
    number: Number,
    wire: Option<Wire>,
    operator: Operator,
}

impl Signature {
    /// Returns what a rank with this program computes.
    pub fn new(program: &Program, number: Number, operator: Operator) -> Self {
        let Program { collective, fingerprint, elements, wanted: wire, .. } = *program;
        Self { collective, fingerprint, elements, number, wire, operator }
    }

    /// Returns the signature as plain text, for the body of a frame.
    pub fn to_bytes(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { collective, fingerprint, elements, number, wire, operator } = self;
        write!(f, "{collective}")?;
        if collective.reduces() {
            write!(f, " '{}'", operator.name())?;
        }
        write!(f, " of {elements} {}", number.name())?;
        if let Some(wire) = wire {
            write!(f, " as {}", wire.name())?;
        }
        write!(f, " by plan {fingerprint:016x}")
    }
}

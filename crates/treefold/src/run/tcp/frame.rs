//! What travels on a connection: frames of a fixed header and a body.

use crate::error::{Error, Result};
use crate::run::number::{Number, Operator};
use crate::run::program::Program;

/// Bytes of a header.
pub const HEADER: usize = 24;

/// The longest body that is no message of an operation.
pub const MAX_NOTICE: u64 = 1 << 28;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message of an operation.
    Data = 1,
    /// An operation's signature, before its first message.
    Start = 2,
    /// Something that every rank has to hear: passed on to all.
    Notice = 3,
    /// The sender leaves: there is nothing more to come.
    Bye = 4,
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Number of the operation.
    pub sequence: u32,
    /// Number of the transfer within it; for notices, their number at their origin.
    pub transfer: u32,
    /// For notices, the rank where it began.
    pub origin: u32,
    /// Bytes of the body.
    pub length: u64,
}

impl Frame {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        for (at, word) in [self.kind as u32, self.sequence, self.transfer, self.origin].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The frame of these bytes.
    ///
    /// # Errors
    /// If no frame looks like that: somebody else is talking.
    pub fn from_bytes(bytes: &[u8; HEADER]) -> Result<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let kind = match word(0) {
            1 => Kind::Data,
            2 => Kind::Start,
            3 => Kind::Notice,
            4 => Kind::Bye,
            other => return Err(Error::new(format!("a frame of kind {other} came; all ranks need the same treefold"))),
        };
        let length = u64::from_le_bytes(bytes[16..].try_into().expect("eight bytes"));
        if kind != Kind::Data && length > MAX_NOTICE {
            return Err(Error::new(format!("a frame of {length} bytes came; all ranks need the same treefold")));
        }
        Ok(Self { kind, sequence: word(1), transfer: word(2), origin: word(3), length })
    }

    /// The frame and its body in one.
    pub fn with_body(mut self, body: &[u8]) -> Vec<u8> {
        self.length = body.len() as u64;
        [&self.to_bytes()[..], body].concat()
    }
}

/// What a rank does in an operation: all ranks have to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    fingerprint: u64,
    elements: u64,
    number: Number,
    operator: Operator,
}

impl Signature {
    /// What a rank with this program does.
    pub fn new(program: &Program, number: Number, operator: Operator) -> Self {
        Self { fingerprint: program.fingerprint, elements: program.elements, number, operator }
    }

    /// For a frame's body: plain text.
    pub fn to_bytes(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fingerprint, elements, number, operator } = self;
        write!(f, "'{}' of {elements} {} by plan {fingerprint:016x}", operator.name(), number.name())
    }
}

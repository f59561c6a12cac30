//! Notices: what every rank has to hear, passed on from neighbour to neighbour over whatever connections there are.
//!
//! A notice is queued before any later message on every connection. So whoever ends an operation that began after a
//! notice of rank 0 has heard it: all data of the operation that depend on rank 0 came behind it.

use crate::error::{Error, Result};

/// What a notice says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Words between workers, for the layer above.
    Words(Vec<u8>),
    /// A rank's process is gone.
    Gone {
        /// Which.
        rank: u32,
        /// How that showed: the sentence goes on behind its name.
        cause: String,
    },
    /// The way between two ranks does not work any more, though both may be there.
    Cut {
        /// The one that did not answer.
        rank: u32,
        /// How that showed.
        cause: String,
    },
    /// An operation is given up.
    GiveUp {
        /// Which.
        sequence: u32,
        /// Why.
        cause: String,
    },
    /// Who is there?
    Ask,
    /// I am.
    Here,
}

impl Notice {
    /// Its bytes: a kind, a number, a text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, number, text): (u8, u32, &[u8]) = match self {
            Self::Words(words) => (0, 0, words),
            Self::Gone { rank, cause } => (1, *rank, cause.as_bytes()),
            Self::Cut { rank, cause } => (2, *rank, cause.as_bytes()),
            Self::GiveUp { sequence, cause } => (3, *sequence, cause.as_bytes()),
            Self::Ask => (4, 0, &[]),
            Self::Here => (5, 0, &[]),
        };
        [&[kind][..], &number.to_le_bytes(), text].concat()
    }

    /// The notice of these bytes.
    ///
    /// # Errors
    /// If no notice looks like that.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some((&[kind, a, b, c, d], rest)) = bytes.split_first_chunk::<5>() else {
            return Err(Error::new("a notice is too short; all ranks need the same treefold"));
        };
        let number = u32::from_le_bytes([a, b, c, d]);
        let cause = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            0 => Self::Words(rest.to_vec()),
            1 => Self::Gone { rank: number, cause: cause() },
            2 => Self::Cut { rank: number, cause: cause() },
            3 => Self::GiveUp { sequence: number, cause: cause() },
            4 => Self::Ask,
            5 => Self::Here,
            _ => return Err(Error::new(format!("a notice of kind {kind} came; all ranks need the same treefold"))),
        })
    }
}

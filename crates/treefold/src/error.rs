//! The one error type: a caller's mistake, said in one line.
//!
//! A message names the thing, the value and the remedy, for example
//! `link GPU3 -> GPU7: bandwidth must be positive, got 0`. A bug in treefold panics instead.

/// A caller's mistake. `Display` is the whole message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

impl Error {
    /// An error with this message: the thing, the value, the remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The same error, with the place where it happened put before it.
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message) }
    }
}

/// Result of anything a caller can get wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// The one of `known` that `text` names; `what` says of what it is one.
///
/// # Errors
/// A name that is none of them.
pub fn named<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|&(_, one)| one).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        Error::new(format!("{what} '{text}' is unknown; known are {}", names.join(", ")))
    })
}

/// Return early with an [`Error`] built like `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::error::Error::new(format!($($arg)*))) };
}

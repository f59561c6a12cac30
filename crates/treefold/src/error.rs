//! The one error type: a caller's mistake, said in one line.
//!
//! A message names the thing, the value and the remedy, for example
//! `link GPU3 -> GPU7: bandwidth must be positive, got 0`. A bug in treefold panics instead.

mod names;

pub use names::{find, named, nearest, unknown};

/// A caller's mistake. `Display` is the whole message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

impl Error {
    /// An error with this message: the thing, the value, the remedy. What in it would move a terminal's cursor is
    /// escaped, because messages quote what strangers wrote into files.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: shortened(printable(message.into())) }
    }

    /// The same error, with the place where it happened put before it.
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self::new(format!("{place}: {}", self.message))
    }
}

/// Bytes of the longest message; what is longer quotes a value that nobody wants to read whole.
const LONGEST: usize = 2000;

/// Whether a character moves a terminal's cursor, hides, or reorders what stands beside it.
pub fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with its control characters as `\n` or `\u{1b}`.
fn printable(text: String) -> String {
    if !text.contains(is_control) {
        return text;
    }
    let shown = |character: char| match is_control(character) {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(shown).collect()
}

/// The text without its middle where it is too long for a message.
fn shortened(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let boundary = |from: usize| (from..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    format!("{} [...] {}", &text[..boundary(LONGEST / 2)], &text[boundary(text.len() - LONGEST / 2)..])
}

/// Result of anything a caller can get wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// Return early with an [`Error`] built like `format!`.
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::error::Error::new(format!($($arg)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_printable_line_of_bounded_length() {
        let error = Error::new("node 'a\nb\u{1b}[2J\u{202e}é'").at("file\r");
        assert_eq!(error.to_string(), "file\\r: node 'a\\nb\\u{1b}[2J\\u{202e}é'");
        let long = Error::new("é".repeat(1_000_000)).to_string();
        assert!(long.len() <= LONGEST + 10 && long.contains("[...]"), "{}", long.len());
    }
}

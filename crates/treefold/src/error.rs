//! The only error type: a caller's mistake, things that do not suit each other, a failure of the outer world, or an
//! interruption, described in one line.
//!
//! A message names the thing, the value and the remedy, for example `link GPU3 -> GPU7: bandwidth must be positive, got
//! 0`. A bug in treefold panics instead. [`bail!`](crate::bail) returns a mistake, [`misfit!`](crate::misfit) a misfit:
//! a search leaves out what does not fit, and stops at everything else.

use std::io;

mod names;

pub use names::named;
// The binding looks up names of Python's with them.
#[doc(hidden)]
pub use names::{find, nearest, unknown};

/// A caller's mistake, a misfit, a failure outside, or an interruption; `Display` writes the whole message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
    kind: Kind,
}

/// Says what a search does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An argument is wrong: a search stops.
    Mistake,
    /// The outer world has failed, as the operating system says: a search stops.
    Outside(io::ErrorKind),
    /// The caller has interrupted what it had begun: a search stops, and nothing is wrong.
    Interruption,
    /// A network, a plan or a machine does not suit what was asked for: a search leaves it out.
    Misfit,
}

impl Error {
    /// Returns a mistake with this message, which names the thing, the value and the remedy. Characters that print
    /// nothing, or that move a terminal's cursor, are escaped, because messages quote files that anybody may have
    /// written.
    ///
    /// ```
    /// use treefold::error::Error;
    ///
    /// let error = Error::new("node 'a\nb' is unknown; name one of the file's nodes");
    /// assert_eq!(error.to_string(), r"node 'a\nb' is unknown; name one of the file's nodes");
    /// ```
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: shortened(printable(message.into())), kind: Kind::Mistake }
    }

    /// Returns the same error as a misfit: nothing is wrong with the arguments, but they do not suit each other.
    ///
    /// ```
    /// use treefold::error::Error;
    ///
    /// let error = Error::new("ring2d needs a 2-D torus or mesh");
    /// assert!(!error.is_misfit() && error.misfit().at("cluster").is_misfit());
    /// ```
    pub fn misfit(self) -> Self {
        Self { kind: Kind::Misfit, ..self }
    }

    /// Returns whether a network, a plan or a machine does not suit what was asked for. Another network, algorithm or
    /// machine may do; a mistake stays one whatever else is tried.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{Options, plan};
    /// use treefold::topology::from_spec;
    ///
    /// let line = Arc::new(from_spec("line:4", None, None)?);
    /// assert!(plan("ring2d", &line, &Options::default()).unwrap_err().is_misfit());
    /// assert!(!plan("ringg", &line, &Options::default()).unwrap_err().is_misfit());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_misfit(&self) -> bool {
        self.kind == Kind::Misfit
    }

    /// Returns the same error as a failure of the outer world, such as an address in use or a peer that is gone. The
    /// arguments may be right, and the same call may succeed later.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use treefold::error::Error;
    ///
    /// let error = Error::new("rank 1 does not answer; is it running?").outside(ErrorKind::TimedOut);
    /// assert_eq!(error.at("group").outside_kind(), Some(ErrorKind::TimedOut));
    /// ```
    pub fn outside(self, kind: io::ErrorKind) -> Self {
        Self { kind: Kind::Outside(kind), ..self }
    }

    /// Returns how the outer world has failed, as the operating system has it; `None` for all other errors.
    ///
    /// ```
    /// use treefold::run::tcp::Mesh;
    /// use treefold::topology::NodeId;
    /// use treefold::units::parse_bytes;
    ///
    /// let elsewhere = Mesh::listen(NodeId(0), 2, "192.0.2.1".parse().unwrap(), Some(0), &[7; 32]).err().unwrap();
    /// assert!(elsewhere.outside_kind().is_some(), "{elsewhere}");
    /// assert!(parse_bytes("64MQB").unwrap_err().outside_kind().is_none(), "that is a mistake");
    /// ```
    pub fn outside_kind(&self) -> Option<io::ErrorKind> {
        match self.kind {
            Kind::Outside(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns the error of work that stops because its caller said so, as by a `go_on` that returned false. The
    /// message says what was interrupted.
    ///
    /// ```
    /// use treefold::error::Error;
    ///
    /// let error = Error::interrupted("interrupted at cycle 4096");
    /// assert!(error.is_interrupted() && !error.is_misfit());
    /// ```
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interruption, ..Self::new(message) }
    }

    /// Returns whether the caller itself has stopped the work: nothing is wrong, and the same call may succeed later.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::planners::{Options, plan};
    /// use treefold::sim::Watch;
    /// use treefold::sim::packet::{self, simulate};
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bytes;
    ///
    /// let ring = Arc::new(from_spec("ring:4", None, None)?);
    /// let plan = plan("ring", &ring, &Options::default())?;
    /// let never = &mut |_| false;
    /// let stopped = simulate(&plan, parse_bytes("64MiB")?, &packet::Options::default(), Watch::asking(never));
    /// assert!(stopped.unwrap_err().is_interrupted());
    /// assert!(!parse_bytes("64MQB").unwrap_err().is_interrupted(), "that is a mistake");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_interrupted(&self) -> bool {
        self.kind == Kind::Interruption
    }

    /// Returns the error with the place where it happened in front of its message.
    ///
    /// ```
    /// use treefold::error::Error;
    ///
    /// let error = Error::new("bandwidth must be positive, got 0").at("link GPU3 -> GPU7");
    /// assert_eq!(error.to_string(), "link GPU3 -> GPU7: bandwidth must be positive, got 0");
    /// ```
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self { kind: self.kind, ..Self::new(format!("{place}: {}", self.message)) }
    }
}

/// The most bytes of a message; a longer one quotes a value that nobody wants to read whole.
const LONGEST: usize = 2000;

/// Returns whether a character moves a terminal's cursor or reorders the characters beside it.
pub(crate) fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character shows as itself. Others move the cursor, are invisible, or are unknown to Unicode.
fn is_printable(character: char) -> bool {
    // An accent is escaped where it stands alone, so a letter stands before the character.
    let is_debug_printable = |character| format!("a{character}").escape_debug().count() == 2;
    if character.is_ascii() { !character.is_ascii_control() } else { is_debug_printable(character) }
}

/// Returns the text with all characters that are not printable written as Python would: `\n` or `\x1b`.
fn printable(text: String) -> String {
    if text.chars().all(is_printable) { text } else { text.chars().map(shown).collect() }
}

/// Returns a character as an error shows it.
fn shown(character: char) -> String {
    match (character, u32::from(character)) {
        ('\n', _) => "\\n".into(),
        ('\r', _) => "\\r".into(),
        ('\t', _) => "\\t".into(),
        _ if is_printable(character) => character.into(),
        (_, code @ ..0x100) => format!("\\x{code:02x}"),
        (_, code @ ..0x1_0000) => format!("\\u{code:04x}"),
        (_, code) => format!("\\U{code:08x}"),
    }
}

/// Returns the text, without its middle if it is too long for a message.
fn shortened(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let boundary = |from: usize| (from..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    format!("{} [...] {}", &text[..boundary(LONGEST / 2)], &text[boundary(text.len() - LONGEST / 2)..])
}

/// The result of anything that a caller can get wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns early with a mistake, an [`Error`] whose message is built as by `format!`.
///
/// ```
/// use treefold::{bail, error::Result};
///
/// fn half(ranks: u32) -> Result<u32> {
///     if ranks % 2 == 1 {
///         bail!("{ranks} ranks have no half; use an even number");
///     }
///     Ok(ranks / 2)
/// }
/// assert_eq!(half(8), Ok(4));
/// assert_eq!(half(3).unwrap_err().to_string(), "3 ranks have no half; use an even number");
/// ```
#[macro_export]
macro_rules! bail {
    ($($arg:tt)*) => { return Err($crate::error::Error::new(format!($($arg)*))) };
}

/// Returns early with a misfit, an [`Error`] whose message is built as by `format!`.
///
/// ```
/// use treefold::{error::Result, misfit};
///
/// fn dimensions(ranks: u32) -> Result<u32> {
///     if !ranks.is_power_of_two() {
///         misfit!("a hypercube needs a power of two ranks, got {ranks}; use ring");
///     }
///     Ok(ranks.ilog2())
/// }
/// assert!(dimensions(3).unwrap_err().is_misfit());
/// ```
#[macro_export]
macro_rules! misfit {
    ($($arg:tt)*) => { return Err($crate::error::Error::new(format!($($arg)*)).misfit()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_printable_line_of_bounded_length() {
        let error = Error::new("node 'a\nb\u{1b}[2J\u{202e}é\u{feff}e\u{301}\u{e0001}\"\\'").at("file\r");
        let expected = r#"file\r: node 'a\nb\x1b[2J\u202eé\ufeffé\U000e0001"\'"#;
        assert_eq!(error.to_string(), expected.replace("ufeffé", "ufeffe\u{301}"));
        let long = Error::new("é".repeat(1_000_000)).to_string();
        assert!(long.len() <= LONGEST + 10 && long.contains("[...]"), "{}", long.len());
    }
}

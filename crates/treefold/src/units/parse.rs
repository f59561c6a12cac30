//! Quantities as people write them: a number and a unit.

use super::exact::whole_product;
use super::{Bandwidth, Bytes, Frequency, MAX_BYTES, Time};
use crate::bail;
use crate::error::Result;

/// Splits a text such as `16GB/s` into its number and its unit.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let (written, unit) = split_text(text);
    Some((written.parse().ok()?, unit))
}

/// Splits a text such as `16GB/s` into the text of its number and its unit.
fn split_text(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || c == '.' || is_sign_or_exponent(text, i)))
        .map_or(text.len(), |(i, _)| i);
    (&text[..end], text[end..].trim())
}

/// Returns whether byte `i` of `text` is a leading sign or belongs to an exponent such as `e-3`.
fn is_sign_or_exponent(text: &str, i: usize) -> bool {
    let bytes = text.as_bytes();
    let next_is_digit = |j: usize| bytes.get(j).is_some_and(u8::is_ascii_digit);
    match bytes[i] {
        b'-' | b'+' => i == 0 || matches!(bytes[i - 1], b'e' | b'E'),
        b'e' | b'E' => {
            i > 0 && (next_is_digit(i + 1) || matches!(bytes.get(i + 1), Some(b'-' | b'+')) && next_is_digit(i + 2))
        }
        _ => false,
    }
}

/// Splits a prefix off a unit: returns its factor (10^3 for `k`, 2^10 for `Ki`) and the rest of the unit.
fn split_prefix(unit: &str) -> (f64, &str) {
    const PREFIXES: [(char, i32); 6] = [('k', 1), ('K', 1), ('M', 2), ('G', 3), ('T', 4), ('P', 5)];
    let mut chars = unit.chars();
    let Some(&(_, power)) = chars.next().and_then(|c| PREFIXES.iter().find(|(p, _)| *p == c)) else {
        return (1.0, unit);
    };
    match chars.as_str().strip_prefix('i') {
        Some(rest) => (1024f64.powi(power), rest),
        None => (1000f64.powi(power), chars.as_str()),
    }
}

/// Returns the question whether one of `units` is meant by a text with a unit in the wrong case; empty if none is.
fn guess_case(text: &str, units: &[&str]) -> String {
    let (number, unit) = split_text(text);
    let meant = units.iter().find(|known| known.eq_ignore_ascii_case(unit) && !number.is_empty());
    meant.map_or(String::new(), |known| format!("; did you mean {number}{known}?"))
}

/// Reads a size such as `64MiB`, `32KiB`, `1GB` or `4096`.
///
/// # Errors
/// If the unit is unknown, or the number of bytes is negative, fractional or above 10^18.
///
/// ```
/// use treefold::units::{Bytes, parse_bytes};
///
/// assert_eq!(parse_bytes("64MiB")?, Bytes::new(64 << 20)?);
/// assert_eq!(parse_bytes("4096")?.to_string(), "4KiB");
/// assert!(parse_bytes("0.5B").is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn parse_bytes(text: &str) -> Result<Bytes> {
    let (written, unit) = split_text(text);
    let (factor, rest) = split_prefix(unit);
    let number = written.parse::<f64>().ok().filter(|_| matches!(rest, "B" | ""));
    let Some(bytes) = number.map(|number| number * factor) else {
        let hint = guess_case(text, &["KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"]);
        bail!("size '{text}': write a number and a unit, such as 64MiB, 1GB or 4096{hint}");
    };
    if !(0.0..=MAX_BYTES as f64).contains(&bytes) {
        bail!("size '{text}': must be between 0 and 1e18 bytes");
    }
    match whole_product(written, factor as u64) {
        Some(exact) => Bytes::new(exact),
        None => bail!("size '{text}': must be a whole number of bytes, got {bytes}"),
    }
}

/// Reads a bandwidth such as `16GB/s`, `100Gbit/s` or `5Gbps`.
///
/// # Errors
/// If the unit is unknown or missing, or the bandwidth is not positive or out of range.
///
/// ```
/// use treefold::units::parse_bandwidth;
///
/// assert_eq!(parse_bandwidth("100Gbit/s")?, parse_bandwidth("12.5GB/s")?);
/// assert_eq!(parse_bandwidth("12.5GB/s")?.seconds_for(25e9).get(), 2.0);
/// let error = parse_bandwidth("100").unwrap_err();
/// assert!(error.to_string().contains("write a number and a unit"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn parse_bandwidth(text: &str) -> Result<Bandwidth> {
    let parsed = split_number(text).and_then(|(number, unit)| {
        let (factor, rest) = split_prefix(unit);
        match rest {
            "B/s" | "Bps" => Some(number * factor),
            "bit/s" | "b/s" | "bps" => Some(number * factor / 8.0),
            _ => None,
        }
    });
    match parsed {
        None => {
            // A b may be a bit or a byte, so only bits that are spelled out have a case to guess.
            let hint = guess_case(text, &["kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
            bail!("bandwidth '{text}': write a number and a unit, such as 16GB/s or 100Gbit/s{hint}")
        }
        Some(value) => Bandwidth::new(value).map_err(|error| error.at(format!("bandwidth '{text}'"))),
    }
}

/// Reads a time such as `150ns`, `5ms` or `0s`.
///
/// # Errors
/// If the unit is unknown or missing, or the time is negative or more than 10^5 seconds.
///
/// ```
/// use treefold::units::{Time, parse_time};
///
/// assert_eq!(parse_time("150ns")?, Time::from_seconds(150e-9)?);
/// assert_eq!(parse_time("5ms")?.seconds(), 0.005);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn parse_time(text: &str) -> Result<Time> {
    let parsed = split_number(text).and_then(|(number, unit)| {
        let factor = match unit {
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            "ps" => 1e-12,
            "" if number == 0.0 => 0.0,
            _ => return None,
        };
        Some(number * factor)
    });
    match parsed {
        None => {
            let hint = guess_case(text, &["s", "ms", "us", "ns", "ps"]);
            bail!("time '{text}': write a number and a unit, such as 150ns, 5ms or 1s{hint}")
        }
        Some(seconds) => Time::from_seconds(seconds).map_err(|error| error.at(format!("time '{text}'"))),
    }
}

/// Reads a frequency such as `1.5GHz` or `800MHz`.
///
/// # Errors
/// If the unit is unknown or missing, or the frequency is not positive or infinite.
///
/// ```
/// use treefold::units::parse_frequency;
///
/// assert_eq!(parse_frequency("1.5GHz")?, parse_frequency("1500MHz")?);
/// assert!(parse_frequency("1.5").is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn parse_frequency(text: &str) -> Result<Frequency> {
    let parsed = split_number(text).and_then(|(number, unit)| {
        let (factor, rest) = split_prefix(unit);
        (rest == "Hz").then_some(number * factor)
    });
    match parsed {
        None => bail!("frequency '{text}': write a number and a unit, such as 1.5GHz or 800MHz"),
        Some(hertz) => Frequency::new(hertz).map_err(|error| error.at(format!("frequency '{text}'"))),
    }
}

//! How quantities are written for people.

use std::fmt;

use super::{Bandwidth, Bytes, Frequency, Time};

/// Returns the largest prefix of `steps` that leaves at least 1 of `value`, and the prefix's factor.
fn prefix<'a>(value: f64, steps: &[(f64, &'a str)]) -> (f64, &'a str) {
    *steps.iter().find(|(factor, _)| value >= *factor).unwrap_or(&steps[steps.len() - 1])
}

/// Writes `value` with the largest prefix of `steps` that leaves at least 1.
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let value = value + 0.0; // -0 becomes 0
    let (factor, unit) = prefix(value, steps);
    let text = format!("{:.3}", value / factor);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(self.0))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bandwidth(self.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_seconds(self.seconds()))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_hertz(self.0))
    }
}

/// Returns a number of bytes as a text: `64MiB` for 67108864, and `1GB` for 10^9, of which only decimal prefixes give
/// the exact number. They may be what was asked for, which can be more than any vector has.
///
/// ```
/// use treefold::units::format_bytes;
///
/// assert_eq!(format_bytes(3 << 29), "1.5GiB");
/// assert_eq!(format_bytes(1_500_000_000), "1.5GB");
/// ```
pub fn format_bytes(bytes: u64) -> String {
    const BINARY: [(f64, &str); 5] =
        [((1u64 << 40) as f64, "TiB"), ((1u64 << 30) as f64, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")];
    const DECIMAL: [(f64, &str); 5] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
    // Three decimals write a number exactly if a thousand times it is a multiple of the prefix's factor.
    let exact = |steps| u128::from(bytes) * 1000 % (prefix(bytes as f64, steps).0 as u128) == 0;
    let only_decimal = exact(&DECIMAL) && !exact(&BINARY);
    scaled(bytes as f64, if only_decimal { &DECIMAL } else { &BINARY })
}

/// Returns cycles a second as a text: `1.5GHz` for 1.5e9. They may be what was asked for, which can be 0.
pub fn format_hertz(hertz: f64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")];
    scaled(hertz, &STEPS)
}

/// Returns bytes a second as a text: `12.5GB/s` for 12.5e9. They may be a rate that was measured or asked for, which
/// can be 0.
///
/// ```
/// assert_eq!(treefold::units::format_bandwidth(12.5e9), "12.5GB/s");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn format_bandwidth(bytes_per_second: f64) -> String {
    const STEPS: [(f64, &str); 5] = [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")];
    scaled(bytes_per_second, &STEPS)
}

/// Returns seconds as a text: `2.5ms` for 0.0025. They may be the result of a simulation, which can be longer than any
/// latency.
///
/// ```
/// use treefold::units::format_seconds;
///
/// assert_eq!(format_seconds(0.0025), "2.5ms");
/// assert_eq!(format_seconds(150e-9), "150ns");
/// ```
pub fn format_seconds(seconds: f64) -> String {
    const STEPS: [(f64, &str); 5] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")];
    // A little is added, because 0.15 us should not print as 149.999 ns.
    scaled(seconds * (1.0 + 1e-12), &STEPS)
}

//! Types for bytes, bandwidth, time and frequency, and the texts that people write for them.
//!
//! `64MiB` is 64 times 2^20 bytes, and `64MB` is 64 times 10^6; `100Gbit/s` and `12.5GB/s` are the same bandwidth; the
//! units of time are `s`, `ms`, `us`, `ns` and `ps`. A number of bytes may have no unit; a bandwidth or a time must
//! have one, because nobody could tell which one was meant.

mod declared;
mod exact;
mod format;
mod parse;
mod seconds;
#[cfg(test)]
mod tests;

pub use format::{format_bandwidth, format_bytes, format_hertz, format_seconds};
pub use parse::{parse_bandwidth, parse_bytes, parse_frequency, parse_time};
pub use seconds::Seconds;

use std::iter::Sum;
use std::ops::Add;

use crate::bail;
use crate::error::Result;

/// A number of bytes, at most 10^18.
///
/// [`Bytes::new`] checks what people wrote, and [`Bytes::known`] takes what the caller knows to be right; there is no
/// other way to make one.
///
/// ```
/// use treefold::units::Bytes;
///
/// const PAGE: Bytes = Bytes::known(4096);
/// assert_eq!(Bytes::new(4096)?, PAGE);
/// assert_eq!(PAGE.get(), 4096);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// The bytes a second of one direction of a link, or of what links carry together; they are positive.
///
/// [`Bandwidth::new`] checks what people wrote, and [`Bandwidth::known`] takes what the caller knows to be right; there
/// is no other way to make one.
///
/// ```
/// use treefold::units::Bandwidth;
///
/// const LINK: Bandwidth = Bandwidth::known(25e9);
/// assert_eq!(Bandwidth::new(25e9)?, LINK);
/// assert_eq!(LINK.bytes_per_second(), 25e9);
/// assert!(Bandwidth::new(-1.0).is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

/// A span of time in integer picoseconds, so that simulations are exact and repeatable.
///
/// [`Time::from_seconds`] checks what people wrote, and [`Time::from_picoseconds`] takes what the caller knows to be
/// right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A number of cycles a second; it is positive and finite.
///
/// [`Frequency::new`] checks what people wrote, and [`Frequency::known`] takes what the caller knows to be right; there
/// is no other way to make one.
///
/// ```
/// use treefold::units::Frequency;
///
/// const CLOCK: Frequency = Frequency::known(1.5e9);
/// assert_eq!(Frequency::new(1.5e9)?, CLOCK);
/// assert_eq!(CLOCK.hertz(), 1.5e9);
/// assert!(Frequency::new(f64::NAN).is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Frequency(f64);

/// The most bytes of a vector: more are a typing error.
const MAX_BYTES: u64 = 1_000_000_000_000_000_000;
/// The highest bandwidth: a higher one is a typing error.
const MAX_BANDWIDTH: f64 = 1e18;
/// The lowest bandwidth, with which a byte takes a quarter of an hour: a lower one is a typing error.
const MIN_BANDWIDTH: f64 = 1e-3;
/// The longest time, which is longer than any latency between planets.
const MAX_SECONDS: f64 = 1e5;

/// The picoseconds in a second.
const PICOSECONDS: u64 = 1_000_000_000_000;

impl Bytes {
    /// Checks that a vector can have so many bytes.
    ///
    /// # Errors
    /// If it cannot.
    ///
    /// ```
    /// use treefold::units::Bytes;
    ///
    /// assert_eq!(Bytes::new(4096)?.to_string(), "4KiB");
    /// assert!(Bytes::new(u64::MAX).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(bytes: u64) -> Result<Self> {
        if bytes > MAX_BYTES {
            bail!("a vector of {bytes} bytes is out of range (0 to 1e18)");
        }
        Ok(Self(bytes))
    }

    /// Returns the bytes of a constant, or of what was computed.
    ///
    /// # Panics
    /// If they are more than any vector can have.
    ///
    /// ```
    /// assert_eq!(treefold::units::Bytes::known(1 << 20), treefold::units::parse_bytes("1MiB")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn known(bytes: u64) -> Self {
        assert!(bytes <= MAX_BYTES, "a vector has at most 1e18 bytes");
        Self(bytes)
    }

    /// Returns the number of bytes.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_bytes("1KiB")?.get(), 1024);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Bandwidth {
    /// Checks that `bytes_per_second` is a possible bandwidth.
    ///
    /// # Errors
    /// If it is not positive, or out of range.
    ///
    /// ```
    /// use treefold::units::Bandwidth;
    ///
    /// assert_eq!(Bandwidth::new(25e9)?.seconds_for(1e9).to_string(), "40ms");
    /// assert_eq!(Bandwidth::new(0.0).unwrap_err().to_string(), "bandwidth must be positive, got 0");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(bytes_per_second: f64) -> Result<Self> {
        if bytes_per_second.is_nan() || bytes_per_second <= 0.0 {
            bail!("bandwidth must be positive, got {bytes_per_second}");
        }
        if !(MIN_BANDWIDTH..=MAX_BANDWIDTH).contains(&bytes_per_second) {
            bail!("bandwidth of {bytes_per_second} B/s is out of range (1e-3 to 1e18); is the unit right?");
        }
        Ok(Self(bytes_per_second))
    }

    /// Returns the bandwidth of a constant, or of what was computed from bandwidths. It may be out of the range of what
    /// people write, and is infinite where nothing limits a rate.
    ///
    /// # Panics
    /// If `bytes_per_second` is not positive.
    ///
    /// ```
    /// assert_eq!(treefold::units::Bandwidth::known(1e9), treefold::units::parse_bandwidth("8Gbit/s")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn known(bytes_per_second: f64) -> Self {
        assert!(bytes_per_second > 0.0, "a bandwidth is positive");
        Self(bytes_per_second)
    }

    /// Returns the bytes a second.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_bandwidth("100Gbit/s")?.bytes_per_second(), 12.5e9);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// Returns the time that `bytes`, which may be a fraction, take.
    ///
    /// # Panics
    /// If `bytes` is negative.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_bandwidth("2GB/s")?.seconds_for(1e9).get(), 0.5);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds_for(self, bytes: f64) -> Seconds {
        Seconds::known(bytes / self.0)
    }
}

impl Time {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Returns the time of a constant, or of what was computed; it may be longer than what people may write.
    ///
    /// ```
    /// assert_eq!(treefold::units::Time::from_picoseconds(150_000), treefold::units::parse_time("150ns")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn from_picoseconds(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// Returns the number of picoseconds.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_time("1us")?.picoseconds(), 1_000_000);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn picoseconds(self) -> u64 {
        self.0
    }

    /// Checks that `seconds` is a possible latency and rounds it to picoseconds.
    ///
    /// # Errors
    /// If it is negative, or too long.
    ///
    /// ```
    /// use treefold::units::Time;
    ///
    /// assert_eq!(Time::from_seconds(1.5e-7)?.to_string(), "150ns");
    /// assert!(Time::from_seconds(-1.0).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn from_seconds(seconds: f64) -> Result<Self> {
        if seconds.is_nan() || seconds < 0.0 {
            bail!("time must not be negative, got {seconds}");
        }
        if seconds > MAX_SECONDS {
            bail!("time of {seconds} s is out of range (0 to 1e5 s); is the unit right?");
        }
        // The fraction is multiplied apart from the whole seconds, because a product above 2^52 picoseconds would be
        // rounded.
        let part = ((seconds - seconds.trunc()) * 1e12).round();
        Ok(Self(seconds.trunc() as u64 * PICOSECONDS + part as u64))
    }

    /// Returns the time in seconds, from which [`Self::from_seconds`] makes the same time again.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_time("250ms")?.seconds(), 0.25);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds(self) -> f64 {
        match self.0 {
            exact if exact < 1 << f64::MANTISSA_DIGITS => exact as f64 / 1e12,
            long => (long / PICOSECONDS) as f64 + (long % PICOSECONDS) as f64 / 1e12,
        }
    }
}

impl Frequency {
    /// Checks that `hertz` is a possible frequency; the option that takes it says which it allows.
    ///
    /// # Errors
    /// If it is not positive, or infinite.
    ///
    /// ```
    /// use treefold::units::Frequency;
    ///
    /// assert_eq!(Frequency::new(1e9)?.to_string(), "1GHz");
    /// let error = Frequency::new(0.0).unwrap_err();
    /// assert_eq!(error.to_string(), "frequency must be positive and finite, got 0");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(hertz: f64) -> Result<Self> {
        if !hertz.is_finite() || hertz <= 0.0 {
            bail!("frequency must be positive and finite, got {hertz}");
        }
        Ok(Self(hertz))
    }

    /// Returns the frequency of a constant, or of what was computed.
    ///
    /// # Panics
    /// If `hertz` is not positive, or infinite.
    ///
    /// ```
    /// assert_eq!(treefold::units::Frequency::known(1e9), treefold::units::parse_frequency("1GHz")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn known(hertz: f64) -> Self {
        assert!(hertz.is_finite() && hertz > 0.0, "a frequency is positive and finite");
        Self(hertz)
    }

    /// Returns the cycles a second.
    ///
    /// ```
    /// assert_eq!(treefold::units::parse_frequency("1.5GHz")?.hertz(), 1.5e9);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub const fn hertz(self) -> f64 {
        self.0
    }

    /// Returns the time that `cycles`, which may be a fraction, take.
    ///
    /// ```
    /// use treefold::units::Frequency;
    ///
    /// assert_eq!(Frequency::known(1e9).seconds_for(150.0).to_string(), "150ns");
    /// ```
    ///
    /// # Panics
    /// If `cycles` is negative.
    pub fn seconds_for(self, cycles: f64) -> Seconds {
        Seconds::known(cycles / self.0)
    }
}

impl Add for Time {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), Add::add)
    }
}

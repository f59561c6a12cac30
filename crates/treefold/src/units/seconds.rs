//! Seconds as models and simulators compute them: fractions that cannot be negative.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};

use super::{Time, format_seconds};
use crate::bail;
use crate::error::Result;

/// A span of time that was simulated, predicted or measured, in seconds, which may be a fraction; it is not negative.
/// As with [`std::time::Duration`], arithmetic panics where the result would be negative.
///
/// [`Seconds::new`] checks what people wrote, and [`Seconds::known`] takes what the caller knows to be right; there is
/// no other way to make one. A latency, which people write and plans keep, is a [`Time`].
///
/// ```
/// use treefold::units::Seconds;
///
/// const LIMIT: Seconds = Seconds::known(0.0025);
/// assert_eq!(Seconds::new(0.0025)?, LIMIT);
/// assert_eq!((LIMIT.get(), LIMIT.to_string().as_str()), (0.0025, "2.5ms"));
/// assert_eq!((LIMIT + LIMIT) / LIMIT, 2.0, "the quotient of two times is a number");
/// assert_eq!(LIMIT - LIMIT, Seconds::ZERO);
/// assert!(LIMIT < LIMIT * 2.0 && LIMIT.max(Seconds::ZERO) == LIMIT);
/// assert!(Seconds::new(f64::NAN).is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Seconds(f64);

impl Seconds {
    /// No time at all.
    pub const ZERO: Self = Self(0.0);

    /// Checks that `seconds` is a possible time.
    ///
    /// # Errors
    /// If it is negative, or no number.
    ///
    /// ```
    /// use treefold::units::Seconds;
    ///
    /// assert_eq!(Seconds::new(1.5e-7)?.to_string(), "150ns");
    /// assert_eq!(Seconds::new(-1.0).unwrap_err().to_string(), "time must not be negative, got -1");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(seconds: f64) -> Result<Self> {
        if seconds.is_nan() || seconds < 0.0 {
            bail!("time must not be negative, got {seconds}");
        }
        Ok(Self::known(seconds))
    }

    /// Returns the time of a constant, or of what was computed or measured.
    ///
    /// # Panics
    /// If `seconds` is negative, or no number.
    pub const fn known(seconds: f64) -> Self {
        assert!(seconds >= 0.0, "a time is not negative");
        // -0 becomes 0, so that equal times are written alike.
        Self(seconds + 0.0)
    }

    /// Returns the number of seconds.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Seconds {}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seconds {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl From<Time> for Seconds {
    fn from(time: Time) -> Self {
        Self(time.seconds())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_seconds(self.0))
    }
}

impl Add for Seconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sum for Seconds {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::ZERO, Add::add)
    }
}

impl Sub for Seconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::known(self.0 - other.0)
    }
}

impl Mul<f64> for Seconds {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self::known(self.0 * factor)
    }
}

impl Div for Seconds {
    type Output = f64;
    fn div(self, other: Self) -> f64 {
        self.0 / other.0
    }
}

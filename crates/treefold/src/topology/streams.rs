//! How many TCP streams side by side fill a link.

use std::num::NonZero;

use crate::bail;
use crate::error::Result;

/// A number of streams, from 1 to [`Streams::MOST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Streams(NonZero<u16>);

impl Streams {
    /// The most streams of a connection.
    pub const MOST: u16 = 256;

    /// Makes a number of streams of a whole number.
    ///
    /// # Errors
    /// If it is 0 or more than [`Self::MOST`].
    ///
    /// ```
    /// use treefold::topology::Streams;
    ///
    /// assert_eq!(Streams::new(8)?.get(), 8);
    /// assert!(Streams::new(0).is_err() && Streams::new(257).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(count: u64) -> Result<Self> {
        match u16::try_from(count).ok().and_then(NonZero::new) {
            Some(count) if count.get() <= Self::MOST => Ok(Self(count)),
            _ => bail!("streams {count} must be from 1 to {}; leave them out where they were not measured", Self::MOST),
        }
    }

    /// Returns the number.
    ///
    /// ```
    /// use treefold::topology::Streams;
    ///
    /// assert_eq!(Streams::new(1)?.get(), 1);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

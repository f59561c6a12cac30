//! The quantities of the flow simulator, which are fractions: moments, spans of time, bytes, and rates.
//!
//! They are types so that one cannot stand where another belongs, and have the arithmetic that physics gives them.

use std::cmp::Ordering;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use crate::units::Seconds;

/// Defines a quantity: a number that is ordered as numbers are.
macro_rules! quantities {
    ($($(#[$doc:meta])* $Quantity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(super) struct $Quantity(pub f64);

        impl $Quantity {
            pub const ZERO: Self = Self(0.0);
        }

        impl PartialEq for $Quantity {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }

        impl Eq for $Quantity {}

        impl PartialOrd for $Quantity {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $Quantity {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }
    )*};
}

quantities! {
    /// A moment, in seconds since the simulation began.
    Instant;
    /// A span of time, in seconds; unlike [`Seconds`], a difference may be negative.
    Span;
    /// A number of bytes, or a position of a virtual clock that counts bytes.
    Amount;
    /// A number of bytes a second; it may be infinite where nothing limits a message.
    Rate;
}

/// Defines an operation on two quantities by that on their numbers.
macro_rules! operations {
    ($($Left:ident $Operation:ident::$function:ident $Right:ident = $Result:ident;)*) => {$(
        impl $Operation<$Right> for $Left {
            type Output = $Result;
            fn $function(self, other: $Right) -> $Result {
                $Result(self.0.$function(other.0))
            }
        }
    )*};
}

operations! {
    Instant Add::add Span = Instant;
    Instant Sub::sub Instant = Span;
    Span Sub::sub Span = Span;
    Amount Add::add Amount = Amount;
    Amount Sub::sub Amount = Amount;
    Amount Div::div Rate = Span;
    Rate Mul::mul Span = Amount;
    Rate Add::add Rate = Rate;
    Rate Sub::sub Rate = Rate;
}

impl Mul<f64> for Rate {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

impl Div<u32> for Rate {
    type Output = Self;
    fn div(self, messages: u32) -> Self {
        Self(self.0 / f64::from(messages))
    }
}

impl From<Instant> for Seconds {
    fn from(moment: Instant) -> Self {
        Self::known(moment.0)
    }
}

impl From<Span> for Seconds {
    fn from(span: Span) -> Self {
        Self::known(span.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl AddAssign for Rate {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for Rate {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

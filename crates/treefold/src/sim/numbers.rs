//! Numbers of what a simulator keeps by the million: in an `Option` they take no more room than alone.

/// Defines types of numbers. Each is the index of its thing in the list that holds it, and indexes vectors as such.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(std::num::NonZeroU32);

        impl $name {
            /// Returns the number of the item at `index`.
            #[inline]
            pub fn new(index: u32) -> Self {
                // One more than the index is kept, so that zero is left for `None`.
                Self(std::num::NonZeroU32::new(index.wrapping_add(1)).expect("fewer than 2^32 things are numbered"))
            }

            /// Returns where it stands.
            #[inline]
            pub fn index(self) -> usize {
                self.get() as usize
            }

            /// Returns where it stands, as 32 bits.
            #[inline]
            pub fn get(self) -> u32 {
                self.0.get() - 1
            }
        }

        $crate::ids::indexes!($name);
    )*};
}

pub(crate) use numbers;

//! Numbers of nodes, links and lanes, each with a type of its own, so that the compiler tells them apart.
//!
//! Each number is the index of its item in the list that holds all of them; it indexes vectors and slices.

/// Lets numbers of a type index slices and vectors, at what its method `index` returns.
macro_rules! indexes {
    ($number:ident) => {
        impl<T> std::ops::Index<$number> for [T] {
            type Output = T;
            #[inline]
            fn index(&self, number: $number) -> &T {
                &self[number.index()]
            }
        }

        impl<T> std::ops::IndexMut<$number> for [T] {
            #[inline]
            fn index_mut(&mut self, number: $number) -> &mut T {
                &mut self[number.index()]
            }
        }

        impl<T> std::ops::Index<$number> for Vec<T> {
            type Output = T;
            #[inline]
            fn index(&self, number: $number) -> &T {
                &self.as_slice()[number.index()]
            }
        }

        impl<T> std::ops::IndexMut<$number> for Vec<T> {
            #[inline]
            fn index_mut(&mut self, number: $number) -> &mut T {
                &mut self.as_mut_slice()[number.index()]
            }
        }
    };
}

/// Defines a type for each kind of number.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number of the item at `index`.
            ///
            /// ```
            /// assert_eq!(treefold::topology::NodeId::new(3), treefold::topology::NodeId(3));
            /// ```
            #[inline]
            pub fn new(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok(), "{index} does not fit into 32 bits");
                Self(index as u32)
            }

            /// Returns the index of the item.
            ///
            /// ```
            /// let names = ["Paris", "Rome"];
            /// let node = treefold::topology::NodeId(1);
            /// assert_eq!(names[node.index()], names[node], "a number indexes a slice itself");
            /// ```
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the first `count` numbers, in order.
            ///
            /// ```
            /// use treefold::topology::NodeId;
            ///
            /// assert!(NodeId::first(3).eq([NodeId(0), NodeId(1), NodeId(2)]));
            /// ```
            pub fn first(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (0..count as u32).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl From<$name> for u64 {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }

        impl From<$name> for usize {
            #[inline]
            fn from(id: $name) -> Self {
                id.index()
            }
        }

        $crate::ids::indexes!($name);
    )*};
}

pub(crate) use {ids, indexes};

ids! {
    /// A node of a topology; ranks come first, so that rank `r` is the node `r`.
    NodeId;
    /// A directed link of a topology.
    LinkId;
    /// A lane of a plan.
    LaneId;
}

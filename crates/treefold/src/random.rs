//! A small seeded generator of random numbers, so that the same seed gives the same network on every machine for ever.
//!
//! It is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). The generator of a
//! library may change its stream between versions; this one must not, because papers name networks by their seeds.

/// The SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Returns a generator whose stream depends on `seed` alone.
    ///
    /// ```
    /// use treefold::random::Random;
    ///
    /// let (mut one, mut other) = (Random::new(7), Random::new(7));
    /// assert_eq!(one.bits(), other.bits());
    /// assert!(one.below(6) < 6 && one.unit() < 1.0);
    /// ```
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number that is uniform in `0..bound`; it is 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number that is uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }
}

/// Returns the number in `[0, 1)` that 64 random bits make; it is uniform if they are.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

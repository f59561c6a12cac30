//! The numbers with which the oracles count contributions: for each rank a random weight in a field, beside the plain
//! count.
//!
//! A rank ends with the sum of `c[r] * weight[r]` over all ranks r, where `c[r]` says how often it has the contribution
//! of r. Only 0 and 1 are right, and `right[r]` is the one that the collective promises. The count is the sum of all
//! `c[r]`, in integers that stay at their largest value instead of wrapping. If the count is as promised, no `c[r]` is
//! larger than the number of ranks, so each `c[r] - right[r]` that is not 0 is not 0 in the field either; and a sum of
//! random weights with coefficients that are not all 0 is 0 with a probability of 2^-60 at most (Schwartz 1980, Zippel
//! 1979). The operating system draws new weights for each check, so whoever writes a plan cannot know them. Each of the
//! two alone can be forged: phases that double all contributions come back to 1 in any field, and a count does not say
//! whose contributions it has.

use crate::topology::NodeId;

/// The field's order, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// Contributions that have been added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    weight: u64,
    count: u64,
}

impl Sum {
    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        let weight = self.weight + other.weight;
        Self {
            weight: if weight < PRIME { weight } else { weight - PRIME },
            count: self.count.saturating_add(other.count),
        }
    }
}

/// Returns a contribution of each rank, with a weight that nobody can know before.
pub(super) fn draw(ranks: u32) -> Vec<Sum> {
    let mut bytes = vec![0; ranks as usize * size_of::<u64>()];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    let weight = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes")) >> 3;
    // One value in 2^61 is the prime itself, which is 0.
    bytes.chunks_exact(size_of::<u64>()).map(|word| Sum { weight: weight(word) % PRIME, count: 1 }).collect()
}

/// Returns the sum of the contributions of these ranks, each once; `None` if there are none.
pub(super) fn total(of_rank: &[Sum], ranks: impl IntoIterator<Item = NodeId>) -> Option<Sum> {
    ranks.into_iter().map(|rank| of_rank[rank]).reduce(Sum::plus)
}

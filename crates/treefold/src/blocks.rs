//! The sizes of the blocks of an all-to-all, where ranks send each other unlike amounts, as experts do.
//!
//! Only ratios count: the shares of the largest vector make up the size of the collective. So one matrix serves all
//! sizes, and shares that are all equal are no matrix at all.

use std::sync::Arc;

use crate::bail;
use crate::error::Result;
use crate::ids::NodeId;

/// How large the block of each rank for each other one is, in shares of the largest vector.
///
/// ```
/// use treefold::blocks::Blocks;
/// use treefold::ids::NodeId;
///
/// let blocks = Blocks::new(2, &[0, 6, 2, 4])?.expect("they are unequal");
/// assert_eq!(blocks.share(NodeId(1), NodeId(0)), 1, "shares are as small as can be");
/// assert_eq!(blocks.largest(), 3, "each rank has three shares");
/// assert!(Blocks::new(2, &[5, 5, 5, 5])?.is_none(), "equal blocks need no matrix");
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    ranks: u32,
    /// The shares before each block in its rank's vector, and all of them: a row of `ranks + 1` for each rank.
    before: Vec<u64>,
    largest: u64,
}

impl Blocks {
    /// Makes blocks of the amounts that each rank has for each other one, rank by rank, in any unit. Returns `None` if
    /// all are equal.
    ///
    /// # Errors
    /// If there are not as many amounts as pairs of ranks, if no rank has any for another, or if a vector is too large.
    ///
    /// ```
    /// use treefold::blocks::Blocks;
    ///
    /// assert!(Blocks::new(3, &[1, 2, 3, 4]).is_err(), "three ranks have nine blocks");
    /// assert!(Blocks::new(2, &[0; 4]).is_err(), "nothing is sent");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(ranks: u32, amounts: &[u64]) -> Result<Option<Arc<Self>>> {
        if ranks == 0 || amounts.len() != (ranks as usize).pow(2) {
            bail!("blocks must be a matrix of {ranks} rows of {ranks} sizes, one a rank; got {} sizes", amounts.len());
        }
        let of_others = amounts.iter().enumerate().filter(|(place, _)| place % (ranks as usize + 1) != 0);
        if ranks > 1 && of_others.map(|(_, &amount)| amount).max() == Some(0) {
            bail!("the blocks of every rank for others are empty, so nothing is sent; give at least one a size");
        }
        let divisor = amounts.iter().copied().fold(0, common_divisor);
        if amounts.iter().all(|&amount| amount == amounts[0]) {
            return Ok(None);
        }
        let (mut before, mut largest) = (Vec::with_capacity(amounts.len() + ranks as usize), 0);
        for row in amounts.chunks(ranks as usize) {
            let mut sum = 0u64;
            before.push(0);
            for amount in row {
                sum = sum.saturating_add(amount / divisor);
                before.push(sum);
            }
            largest = largest.max(sum);
        }
        if largest > MAX_SHARES {
            bail!(
                "blocks of one rank add up to {largest} times their greatest common divisor, and treefold handles \
                 {MAX_SHARES}; round them, for example to whole KiB"
            );
        }
        Ok(Some(Arc::new(Self { ranks, before, largest })))
    }

    /// Makes blocks as [`Self::new`] does, of a row for each rank.
    ///
    /// # Errors
    /// The errors of [`Self::new`], and if a row has not a size for each rank.
    ///
    /// ```
    /// use treefold::blocks::Blocks;
    ///
    /// assert!(Blocks::of_rows(2, &[vec![1, 2], vec![3, 4]])?.is_some());
    /// assert!(Blocks::of_rows(2, &[vec![1, 2, 3], vec![4]]).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn of_rows(ranks: u32, rows: &[Vec<u64>]) -> Result<Option<Arc<Self>>> {
        if rows.len() != ranks as usize {
            bail!("blocks must have a row for each of {ranks} ranks, got {} rows", rows.len());
        }
        if let Some((number, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != ranks as usize) {
            bail!("row {number} of blocks must have a size for each of {ranks} ranks, got {} sizes", row.len());
        }
        Self::new(ranks, &rows.concat())
    }

    /// Returns how many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the shares of the largest vector.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Returns the shares of the vector of `giver`.
    ///
    /// ```
    /// use treefold::{blocks::Blocks, ids::NodeId};
    ///
    /// let blocks = Blocks::new(2, &[0, 1, 2, 3])?.expect("they are unequal");
    /// assert_eq!(blocks.of_vector(NodeId(0)), 1);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn of_vector(&self, giver: NodeId) -> u64 {
        self.before[self.place(giver) + self.ranks as usize]
    }

    /// Returns the shares that stand in the vector of `giver` before its block for `receiver`.
    pub fn before(&self, giver: NodeId, receiver: NodeId) -> u64 {
        self.before[self.place(giver) + receiver.index()]
    }

    /// Returns the shares of the block of `giver` for `receiver`.
    #[inline]
    pub fn share(&self, giver: NodeId, receiver: NodeId) -> u64 {
        let place = self.place(giver) + receiver.index();
        self.before[place + 1] - self.before[place]
    }

    /// Returns the shares of all blocks, rank by rank.
    pub fn shares(&self) -> impl Iterator<Item = impl Iterator<Item = u64>> {
        self.before.chunks(self.ranks as usize + 1).map(|row| row.windows(2).map(|ends| ends[1] - ends[0]))
    }

    fn place(&self, giver: NodeId) -> usize {
        giver.index() * (self.ranks as usize + 1)
    }
}

/// The most shares of a vector: a plan cuts each into some units.
const MAX_SHARES: u64 = 1 << 36;

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Returns the share of a block; those of equal blocks are 1.
#[inline]
pub(crate) fn share(blocks: Option<&Blocks>, giver: NodeId, receiver: NodeId) -> u64 {
    blocks.map_or(1, |blocks| blocks.share(giver, receiver))
}

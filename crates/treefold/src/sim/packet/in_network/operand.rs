//! Operands: what a rank contributes to a line, how a switch combines two, and what must come out.
//!
//! The ALUs of a switch take 32 bits at a time (in-network paper, section IV-D; its Fig. 5). Every packet stands for
//! its line with one element, which is combined as `treefold run` combines it: a float32, or a uint32 for the operators
//! that combine bits. Beside it goes a sum of words, one of each contributor, by which a lost or doubled operand shows
//! even where the operator cannot tell, as a minimum cannot.

use bytemuck::{bytes_of, bytes_of_mut};

use super::mixed;
use super::packet::Address;
use crate::number::{Combine, Number, Operator, combine};
use crate::topology::NodeId;

/// Operands that were reduced to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operand {
    /// How many operands they are; idempotent operators count them as well.
    pub count: u32,
    /// The bits of their element, reduced in the order in which they came.
    pub element: u32,
    /// The sum of the contributors' words, modulo 2^64.
    pub words: u64,
}

impl Operand {
    /// Combines another operand with this one.
    #[inline]
    pub fn add(&mut self, other: Self, combine: Combine) {
        if self.count == 0 {
            *self = other;
            return;
        }
        self.count += other.count;
        self.words = self.words.wrapping_add(other.words);
        combine(bytes_of_mut(&mut self.element), bytes_of(&other.element));
    }
}

/// How operands are made, combined and checked.
#[derive(Debug, Clone, Copy)]
pub struct Reducer {
    operator: Operator,
    pub combine: Combine,
}

impl From<Operator> for Reducer {
    fn from(operator: Operator) -> Self {
        let combine = combine(Number::Float32, operator).or_else(|_| combine(Number::Uint32, operator));
        Self { operator, combine: combine.expect("integers have every operator") }
    }
}

impl Reducer {
    /// Returns what a rank contributes to a line.
    pub fn operand(self, rank: NodeId, address: Address) -> Operand {
        let words = mixed(1, rank.0, address.bits());
        let random = (words >> 40) as f32 / (1 << 24) as f32;
        let element = match self.operator {
            // Factors are near 1, so that the product of all ranks stays finite.
            Operator::Prod => (0.875 + random / 4.0).to_bits(),
            Operator::Sum | Operator::Min | Operator::Max => (16.0 * random).to_bits(),
            // Each rank clears or sets one bit, so that not all are alike in the end.
            Operator::Band => !(1 << (words >> 59)),
            Operator::Bor => 1 << (words >> 59),
            Operator::Bxor => (words >> 32) as u32,
        };
        Operand { count: 1, element, words }
    }

    /// Says whether `found`, in whatever order it was reduced, is `expected`. Sums and products in floating point
    /// depend on the order, by half a unit in the last place for each operand; all others are exact.
    pub fn agrees(self, found: Operand, expected: Operand) -> bool {
        let rounds = matches!(self.operator, Operator::Sum | Operator::Prod);
        let close = || {
            let [found, right] = [found, expected].map(|operand| f32::from_bits(operand.element));
            (found - right).abs() <= right * f32::EPSILON * expected.count as f32
        };
        (found.count, found.words) == (expected.count, expected.words)
            && (found.element == expected.element || rounds && close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Combines what some ranks contribute to a line, in this order.
    fn reduced(operator: Operator, ranks: &[u32]) -> Operand {
        let reducer = Reducer::from(operator);
        let mut sum = Operand::default();
        let operands = ranks.iter().map(|&rank| reducer.operand(NodeId(rank), Address::new(3, 7)));
        operands.for_each(|operand| sum.add(operand, reducer.combine));
        sum
    }

    /// The elements of three ranks, as floats and as bits.
    fn elements(operator: Operator) -> ([f32; 3], [u32; 3]) {
        let bits = [0, 1, 2].map(|rank| reduced(operator, &[rank]).element);
        (bits.map(f32::from_bits), bits)
    }

    #[test]
    fn elements_are_combined_as_the_operator_says() {
        let reduced = |operator| reduced(operator, &[0, 1, 2]).element;
        let ([a, b, c], _) = elements(Operator::Min);
        assert_eq!(f32::from_bits(reduced(Operator::Min)), a.min(b).min(c));
        assert_eq!(f32::from_bits(reduced(Operator::Max)), a.max(b).max(c));
        assert_eq!(f32::from_bits(reduced(Operator::Sum)), a + b + c);
        let ([a, b, c], _) = elements(Operator::Prod);
        assert_eq!(f32::from_bits(reduced(Operator::Prod)), a * b * c);
        let (_, [a, b, c]) = elements(Operator::Band);
        assert_eq!(reduced(Operator::Band), a & b & c);
        let (_, [a, b, c]) = elements(Operator::Bor);
        assert_eq!(reduced(Operator::Bor), a | b | c);
        let (_, [a, b, c]) = elements(Operator::Bxor);
        assert_eq!(reduced(Operator::Bxor), a ^ b ^ c);
    }

    /// A lost operand, a doubled one, and one in the place of another show for every operator; the order does not.
    #[test]
    fn every_contributor_counts_once() {
        for operator in Operator::ALL {
            let expected = reduced(operator, &[0, 1, 2, 3]);
            let agrees = |ranks: &[u32]| Reducer::from(operator).agrees(reduced(operator, ranks), expected);
            assert!(agrees(&[3, 1, 0, 2]), "{operator:?}");
            for wrong in [vec![0, 1, 2], vec![0, 1, 2, 3, 3], vec![0, 1, 2, 2]] {
                assert!(!agrees(&wrong), "{operator:?} {wrong:?}");
            }
        }
    }

    #[test]
    fn an_element_that_is_wrong_shows() {
        for operator in Operator::ALL {
            let expected = reduced(operator, &[0, 1, 2, 3]);
            let wrong = Operand { element: expected.element ^ (1 << 9), ..expected };
            assert!(!Reducer::from(operator).agrees(wrong, expected), "{operator:?}");
        }
    }
}

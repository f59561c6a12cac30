//! Wire types: how numbers cross lines in fewer bytes than they take in vectors.
//!
//! Numbers are cut into blocks, each of which is encoded by itself. `bfloat16` and `float16` round every number to two
//! bytes. `int8` and `float8` have one byte a number and a scale a block, so that the largest number of a block has the
//! largest code (block-wise quantization: Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise
//! Quantization", 2022). A number that is far larger than all others spoils its own block only.
//!
//! With `x` a number and `s` its block's scale, decoding gives `x` back with an error of at most
//! - `bfloat16`: `|x| / 2^8`; `float16`: `|x| / 2^11`, or `2^-25` where that is more, and infinity from 65520 on;
//! - `int8`: `s / 2`, where `s` is at most the block's largest magnitude divided by 127 (by 63.5 in a vector of
//!   `bfloat16`, where scales are powers of two);
//! - `float8`: `|x| / 16`, or `s / 2^10` where that is more, where `s` is at most the largest magnitude divided by 224.
//!
//! A scale is at least `2^-126` (`float8`: `2^-117`). NaN and infinities arrive as such. In a block that has any, the
//! scale is negative, the errors are twice as large, and the largest codes stand for infinities.
//!
//! Decoded numbers are fixed points: they are encoded to the same bytes again, however often they are passed on. For
//! that, the products of scales and codes are exact in the vector's type, and the largest code tells the scale.
//!
//! Cost: a few passes over a block in the caches, in loops without branches, which compilers vectorize.

mod codes;
mod feedback;

use std::str::FromStr;

use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Combine, Number};
use crate::bail;
use crate::error::{Error, Result, named};
use codes::{Float8, Int8};
pub use feedback::give_back;

/// How many numbers a block has; the last one of a range may have fewer.
pub const BLOCK: usize = 256;
/// The bytes of a scale.
const SCALE: usize = 4;

/// A type in which numbers cross lines.
///
/// ```
/// use treefold::number::wire::Wire;
///
/// assert_eq!("int8".parse::<Wire>()?, Wire::Int8);
/// assert!("itn8".parse::<Wire>().unwrap_err().to_string().contains("did you mean int8"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// The upper half of single precision.
    Bfloat16,
    /// IEEE half precision.
    Float16,
    /// Numbers of 8 bits with 4 bits for the exponent and 3 for the fraction, and a scale a block.
    Float8,
    /// Integers from -127 to 127, and a scale a block.
    Int8,
}

const WIRES: [(&str, Wire); 4] =
    [("bfloat16", Wire::Bfloat16), ("float16", Wire::Float16), ("float8", Wire::Float8), ("int8", Wire::Int8)];

impl FromStr for Wire {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        named("wire type", name, &WIRES)
    }
}

impl Wire {
    /// All wire types.
    pub const ALL: [Self; 4] = [Self::Bfloat16, Self::Float16, Self::Float8, Self::Int8];

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(treefold::number::wire::Wire::Float8.name(), "float8");
    /// ```
    pub fn name(self) -> &'static str {
        WIRES.iter().find(|row| row.1 == self).expect("every wire type has a row").0
    }

    /// Returns the wire type that vectors of `number` need; `None` if they have it already.
    ///
    /// # Errors
    /// If such vectors cannot cross lines in this type.
    ///
    /// ```
    /// use treefold::number::{Number, wire::Wire};
    ///
    /// assert_eq!(Wire::Bfloat16.carrying(Number::Float32)?, Some(Wire::Bfloat16));
    /// assert_eq!(Wire::Bfloat16.carrying(Number::Bfloat16)?, None);
    /// assert!(Wire::Int8.carrying(Number::Int64).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn carrying(self, number: Number) -> Result<Option<Self>> {
        match (number, self) {
            (Number::Bfloat16, Self::Bfloat16) => Ok(None),
            (Number::Float32 | Number::Bfloat16, _) => Ok(Some(self)),
            _ => bail!(
                "wire type {} is for float32 and bfloat16 vectors, and this one is {}",
                self.name(),
                number.name()
            ),
        }
    }

    /// Returns the bytes of a number on the wire, without its part of the block's scale.
    ///
    /// ```
    /// use treefold::number::wire::Wire;
    ///
    /// assert_eq!(Wire::ALL.map(Wire::element_bytes), [2, 2, 1, 1]);
    /// ```
    pub fn element_bytes(self) -> usize {
        match self {
            Self::Bfloat16 | Self::Float16 => 2,
            Self::Float8 | Self::Int8 => 1,
        }
    }

    /// Returns the bytes of so many numbers on the wire.
    ///
    /// ```
    /// use treefold::number::wire::Wire;
    ///
    /// assert_eq!(Wire::Bfloat16.bytes(1000), 2000);
    /// assert_eq!(Wire::Int8.bytes(1000), 1000 + 4 * 4, "four blocks, each with a scale");
    /// ```
    pub fn bytes(self, elements: usize) -> usize {
        elements * self.element_bytes() + elements.div_ceil(BLOCK) * self.scale_bytes()
    }

    /// Returns the bytes of a whole block.
    pub(crate) fn block_bytes(self) -> usize {
        self.bytes(BLOCK)
    }

    fn scale_bytes(self) -> usize {
        if self.element_bytes() == 1 { SCALE } else { 0 }
    }

    /// Encodes a range of numbers, block by block. `target` has the bytes that they take on the wire.
    ///
    /// ```
    /// use treefold::number::{Number, wire::Wire};
    ///
    /// let values = [0.0f32, 1.0, -254.0, 3.1];
    /// let (mut encoded, mut decoded) = ([0; 8], [0.0f32; 4]);
    /// Wire::Int8.encode(Number::Float32, bytemuck::cast_slice(&values), &mut encoded);
    /// assert_eq!(encoded, [0, 0, 0, 64, 0, 0, 129, 2], "the scale is 2, and a half is rounded to even");
    /// Wire::Int8.decode(Number::Float32, &encoded, bytemuck::cast_slice_mut(&mut decoded));
    /// assert_eq!(decoded, [0.0, 0.0, -254.0, 4.0]);
    /// ```
    pub fn encode(self, number: Number, values: &[u8], target: &mut [u8]) {
        let mut wide = [0.0; BLOCK];
        for (values, target) in values.chunks(BLOCK * number.bytes()).zip(target.chunks_mut(self.block_bytes())) {
            match number {
                Number::Bfloat16 => {
                    let values: &[u16] = cast_slice(values);
                    let wide = &mut wide[..values.len()];
                    widen(values, wide);
                    self.encode_block(wide, true, target);
                }
                _ => self.encode_block(cast_slice(values), false, target),
            }
        }
    }

    /// Rounds numbers to those that they are decoded to.
    pub fn round(self, number: Number, values: &mut [u8]) {
        let mut memory = [0; BLOCK * 4];
        for values in values.chunks_mut(BLOCK * number.bytes()) {
            let encoded = &mut memory[..self.bytes(values.len() / number.bytes())];
            self.encode(number, values, encoded);
            self.decode(number, encoded, values);
        }
    }

    fn encode_block(self, values: &[f32], is_narrow: bool, target: &mut [u8]) {
        match self {
            Self::Bfloat16 => {
                for (bytes, &value) in target.chunks_exact_mut(2).zip(values) {
                    bytes.copy_from_slice(&narrowed(value).to_le_bytes());
                }
            }
            Self::Float16 => {
                let mut halves = [f16::ZERO; BLOCK];
                halves[..values.len()].convert_from_f32_slice(values);
                target.copy_from_slice(cast_slice(&halves[..values.len()]));
            }
            Self::Float8 => codes::encode::<Float8>(values, is_narrow, target),
            Self::Int8 => codes::encode::<Int8>(values, is_narrow, target),
        }
    }

    /// Decodes a range of numbers, which was encoded block by block. Whatever bytes come, numbers come of them.
    pub fn decode(self, number: Number, encoded: &[u8], values: &mut [u8]) {
        let mut wide = [0.0; BLOCK];
        for (values, encoded) in values.chunks_mut(BLOCK * number.bytes()).zip(encoded.chunks(self.block_bytes())) {
            match number {
                Number::Bfloat16 => {
                    let values: &mut [u16] = cast_slice_mut(values);
                    let wide = &mut wide[..values.len()];
                    self.decode_block(encoded, wide);
                    narrow(wide, values);
                }
                _ => self.decode_block(encoded, cast_slice_mut(values)),
            }
        }
    }

    fn decode_block(self, encoded: &[u8], values: &mut [f32]) {
        match self {
            Self::Bfloat16 => {
                for (value, bytes) in values.iter_mut().zip(encoded.chunks_exact(2)) {
                    *value = f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16);
                }
            }
            Self::Float16 => {
                let mut halves = [f16::ZERO; BLOCK];
                cast_slice_mut(&mut halves[..values.len()]).copy_from_slice(encoded);
                halves[..values.len()].convert_to_f32_slice(values);
            }
            Self::Float8 => codes::decode::<Float8>(encoded, values),
            Self::Int8 => codes::decode::<Int8>(encoded, values),
        }
    }

    /// Decodes a range of numbers, and reduces them into `target`.
    pub fn decode_into(self, number: Number, encoded: &[u8], target: &mut [u8], combine: Combine) {
        let mut memory = [0u32; BLOCK];
        for (target, encoded) in target.chunks_mut(BLOCK * number.bytes()).zip(encoded.chunks(self.block_bytes())) {
            let decoded = &mut cast_slice_mut(&mut memory)[..target.len()];
            self.decode(number, encoded, decoded);
            combine(target, decoded);
        }
    }
}

/// Rounds a number to the nearest with an 8-bit significand, of two the even one.
fn narrowed(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    if value.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}

fn narrow(from: &[f32], to: &mut [u16]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = narrowed(from));
}

fn widen(from: &[u16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f32::from_bits(u32::from(from) << 16));
}

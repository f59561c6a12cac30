//! Error feedback: what rounding takes from numbers is kept, and given back to the numbers of the next operation.
//!
//! So in the long run nothing is lost (Karimireddy, Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other
//! Gradient Compression Schemes", ICML 2019). What is kept is the *residual*: a number of single precision for each
//! element. Differences that are not finite are not kept.
//! Cost: a decoding and two more passes over each block in the caches.

use bytemuck::{cast_slice, cast_slice_mut};

use super::{BLOCK, Number, Wire, narrow, widen};

impl Wire {
    /// Encodes a range of numbers as [`Wire::encode`] does, rounds the numbers to what they are decoded to, and adds to
    /// `residual` what that takes from each. Numbers that were rounded before lose nothing more.
    ///
    /// ```
    /// use treefold::number::{Number, wire::Wire};
    ///
    /// let (mut values, mut residual, mut encoded) = ([0.0f32, 1.0, -254.0, 3.5], [0.0; 4], [0; 8]);
    /// let bytes = bytemuck::cast_slice_mut(&mut values);
    /// Wire::Int8.encode_with_feedback(Number::Float32, bytes, &mut encoded, &mut residual);
    /// assert_eq!((values, residual), ([0.0, 0.0, -254.0, 4.0], [0.0, 1.0, 0.0, -0.5]));
    /// ```
    pub fn encode_with_feedback(self, number: Number, values: &mut [u8], target: &mut [u8], residual: &mut [f32]) {
        let (mut before, mut after) = ([0.0; BLOCK], [0.0; BLOCK]);
        let blocks = values.chunks_mut(BLOCK * number.bytes()).zip(target.chunks_mut(self.block_bytes()));
        for ((values, target), residual) in blocks.zip(residual.chunks_mut(BLOCK)) {
            let (before, after) = (&mut before[..residual.len()], &mut after[..residual.len()]);
            load(number, values, before);
            self.encode_block(before, number == Number::Bfloat16, target);
            self.decode_block(target, after);
            for ((residual, &before), &after) in residual.iter_mut().zip(&*before).zip(&*after) {
                *residual += if_finite(before - after);
            }
            store(number, after, values);
        }
    }

    /// Rounds numbers as [`Wire::round`] does, and adds to `residual` what that takes from each.
    pub fn round_with_feedback(self, number: Number, values: &mut [u8], residual: &mut [f32]) {
        let mut encoded = [0; BLOCK * 4];
        for (values, residual) in values.chunks_mut(BLOCK * number.bytes()).zip(residual.chunks_mut(BLOCK)) {
            self.encode_with_feedback(number, values, &mut encoded[..self.bytes(residual.len())], residual);
        }
    }
}

/// Adds the residual to numbers, and leaves in it what the numbers' type has no room for.
///
/// ```
/// use treefold::number::{Number, wire::give_back};
///
/// let (mut values, mut residual) = ([1.0f32, 2.0], [0.25, -3.0]);
/// give_back(Number::Float32, bytemuck::cast_slice_mut(&mut values), &mut residual);
/// assert_eq!((values, residual), ([1.25, -1.0], [0.0, 0.0]));
/// ```
pub fn give_back(number: Number, values: &mut [u8], residual: &mut [f32]) {
    let (mut before, mut after) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (values, residual) in values.chunks_mut(BLOCK * number.bytes()).zip(residual.chunks_mut(BLOCK)) {
        let (before, after) = (&mut before[..residual.len()], &mut after[..residual.len()]);
        load(number, values, before);
        before.iter_mut().zip(&*residual).for_each(|(value, residual)| *value += residual);
        store(number, before, values);
        load(number, values, after);
        for ((residual, &before), &after) in residual.iter_mut().zip(&*before).zip(&*after) {
            *residual = if_finite(before - after);
        }
    }
}

#[inline(always)]
fn if_finite(difference: f32) -> f32 {
    if difference.abs() < f32::INFINITY { difference } else { 0.0 }
}

fn load(number: Number, values: &[u8], wide: &mut [f32]) {
    match number {
        Number::Bfloat16 => widen(cast_slice(values), wide),
        _ => wide.copy_from_slice(cast_slice(values)),
    }
}

fn store(number: Number, wide: &[f32], values: &mut [u8]) {
    match number {
        Number::Bfloat16 => narrow(wide, cast_slice_mut(values)),
        _ => values.copy_from_slice(cast_slice(wide)),
    }
}

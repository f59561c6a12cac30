//! Blocks of numbers as a scale and codes of one byte each.

use super::SCALE;

/// The least scale of integers: all products of it and a code are normal numbers.
const LEAST_OF_INT8: f32 = f32::MIN_POSITIVE;
/// The largest scale that is a power of two: a larger one would decode the largest code to infinity.
const MOST_OF_INT8: f32 = f32::from_bits((121 + 127) << 23);
/// The bits of the exponent of the least scale of 8-bit floats, `2^-117`.
const LEAST_OF_FLOAT8: u32 = 127 - 117;
/// The bits of an infinity.
const INFINITY: u32 = 0x7f80_0000;

/// A code of one byte.
pub(super) trait Code {
    /// The code of NaN.
    const NAN: u8;
    /// The codes of positive and negative infinity, in blocks that have any.
    const INFINITIES: [u8; 2];
    /// Returns the scale of a block whose largest magnitude is `peak`, and the most that a number may be, in scales.
    /// `is_narrow` asks for products that are exact in bfloat16, and holds for blocks with numbers that are not finite.
    fn scale(peak: f32, is_narrow: bool) -> (f32, f32);
    /// Returns the code of a number, in scales, after rounding.
    fn code(value: f32) -> u8;
    /// Returns the number that a code stands for, in scales.
    fn value(code: u8) -> f32;
    /// The most that a finite number may be, in scales that are twice as large as needed, besides half of the limit.
    const MOST_BESIDE_INFINITY: f32;
}

/// Integers.
pub(super) struct Int8;

/// Floats with 4 bits of exponent and 3 of fraction (Micikevicius et al., "FP8 formats for deep learning", 2022).
pub(super) struct Float8;

impl Code for Int8 {
    const NAN: u8 = 128;
    const INFINITIES: [u8; 2] = [127, 129];
    const MOST_BESIDE_INFINITY: f32 = 63.0;

    /// The scale has 17 bits, and codes 7, so that products are exact; as it is rounded down, the peak has code 127.
    /// A power of two is rounded up: then codes of the peak are at least 64, which tells the scale again.
    fn scale(peak: f32, is_narrow: bool) -> (f32, f32) {
        let bits = (peak / 127.0).to_bits();
        let scale = if is_narrow {
            f32::from_bits((bits + 0x7f_ffff) & INFINITY).min(MOST_OF_INT8)
        } else {
            f32::from_bits(bits & !0x7f)
        };
        (scale.max(LEAST_OF_INT8), 127.0)
    }

    /// Adding a large number shifts all bits behind the point out, rounding them to the nearest even.
    #[inline(always)]
    fn code(value: f32) -> u8 {
        (value + 12_582_912.0).to_bits() as u8
    }

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code as i8)
    }
}

impl Code for Float8 {
    const NAN: u8 = 0x7f;
    const INFINITIES: [u8; 2] = [0x7e, 0xfe];
    const MOST_BESIDE_INFINITY: f32 = 224.0;

    /// The scale is the power of two by which the peak, rounded as its code will be, is above 224 and at most 448.
    fn scale(peak: f32, _is_narrow: bool) -> (f32, f32) {
        let bits = peak.to_bits();
        let rounded = bits + 0x7_ffff + (bits >> 20 & 1);
        let exponent = ((rounded + 0x10_0000) >> 23).saturating_sub(8).max(LEAST_OF_FLOAT8);
        // Numbers that would be rounded to 2^128, which is infinity, are rounded down.
        let most = if exponent == 247 { 240.0 } else { 448.0 };
        (f32::from_bits(exponent << 23), most)
    }

    #[inline(always)]
    fn code(value: f32) -> u8 {
        let (bits, magnitude) = (value.to_bits(), value.to_bits() & 0x7fff_ffff);
        let normal = ((magnitude + 0x7_ffff + (magnitude >> 20 & 1)) >> 20).wrapping_sub(120 << 3);
        let small = (f32::from_bits(magnitude) + 16_384.0).to_bits().wrapping_sub(16_384f32.to_bits());
        let code = if magnitude < 0x3c80_0000 { small } else { normal };
        (code | (bits >> 24 & 0x80)) as u8
    }

    #[inline(always)]
    fn value(code: u8) -> f32 {
        VALUES[usize::from(code)]
    }
}

/// The number that each code of a [`Float8`] stands for.
static VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, fraction) = (code >> 3 & 15, (code & 7) as f32);
        let magnitude = match exponent {
            0 => fraction / 512.0,
            _ => (1.0 + fraction / 8.0) * f32::from_bits((exponent as u32 + 120) << 23),
        };
        values[code] = if code & 0x7f == 0x7f {
            f32::NAN
        } else if code < 128 {
            magnitude
        } else {
            -magnitude
        };
        code += 1;
    }
    values
};

/// Encodes a block: its scale, and a code for each number.
pub(super) fn encode<C: Code>(values: &[f32], is_narrow: bool, target: &mut [u8]) {
    let (head, codes) = target.split_at_mut(SCALE);
    let peak = values.iter().fold(0, |peak, value| peak.max(value.to_bits() & 0x7fff_ffff));
    if peak >= INFINITY {
        return encode_not_finite::<C>(values, head, codes);
    }
    let (scale, most) = C::scale(f32::from_bits(peak), is_narrow);
    head.copy_from_slice(&scale.to_le_bytes());
    for (code, &value) in codes.iter_mut().zip(values) {
        *code = C::code(within(value / scale, most));
    }
}

/// Encodes a block in which some numbers are not finite. Its scale is a power of two, twice as large as needed, so that
/// the largest codes are free for infinities, and negative, which tells that they stand for them.
#[cold]
fn encode_not_finite<C: Code>(values: &[f32], head: &mut [u8], codes: &mut [u8]) {
    let finite = values.iter().filter(|value| value.is_finite());
    let (scale, most) = C::scale(finite.fold(0.0, |peak: f32, value| peak.max(value.abs())), true);
    let (scale, most) = (2.0 * scale, C::MOST_BESIDE_INFINITY.min(most / 2.0));
    head.copy_from_slice(&(-scale).to_le_bytes());
    for (code, &value) in codes.iter_mut().zip(values) {
        *code = match value {
            _ if value.is_nan() => C::NAN,
            f32::INFINITY => C::INFINITIES[0],
            f32::NEG_INFINITY => C::INFINITIES[1],
            _ => C::code(within(value / scale, most)),
        };
    }
}

#[inline(always)]
fn within(value: f32, most: f32) -> f32 {
    let below = if value > most { most } else { value };
    if below < -most { -most } else { below }
}

/// Decodes a block.
pub(super) fn decode<C: Code>(encoded: &[u8], values: &mut [f32]) {
    let (head, codes) = encoded.split_at(SCALE);
    let scale = f32::from_le_bytes(head.try_into().expect("a scale has four bytes"));
    for (value, &code) in values.iter_mut().zip(codes) {
        *value = scale.abs() * C::value(code);
    }
    if scale.is_sign_negative() {
        restore_not_finite::<C>(codes, values);
    }
}

#[cold]
fn restore_not_finite<C: Code>(codes: &[u8], values: &mut [f32]) {
    for (value, &code) in values.iter_mut().zip(codes) {
        *value = match code {
            _ if code == C::NAN => f32::NAN,
            _ if code == C::INFINITIES[0] => f32::INFINITY,
            _ if code == C::INFINITIES[1] => f32::NEG_INFINITY,
            _ => *value,
        };
    }
}

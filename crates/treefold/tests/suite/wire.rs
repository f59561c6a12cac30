//! Wire types: decoded numbers are near, are fixed points, and NaN and infinities arrive as such.

use crate::common::networks::cases;
use half::{bf16, f16};
use proptest::prelude::*;
use treefold::number::Number;
use treefold::number::wire::{BLOCK, Wire};

fn encoded(wire: Wire, number: Number, values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xaa; wire.bytes(values.len() / number.bytes())];
    wire.encode(number, values, &mut bytes);
    bytes
}

/// The numbers as a vector of `number` holds them.
fn stored(number: Number, values: &[f32]) -> Vec<u32> {
    match number {
        Number::Bfloat16 => {
            let halves: Vec<u16> = values.iter().map(|&value| bf16::from_f32(value).to_bits()).collect();
            let mut words = vec![0; halves.len().div_ceil(2)];
            bytemuck::cast_slice_mut(&mut words)[..halves.len()].copy_from_slice(&halves);
            words
        }
        _ => values.iter().map(|value| value.to_bits()).collect(),
    }
}

fn read(number: Number, bytes: &[u8]) -> Vec<f32> {
    match number {
        Number::Bfloat16 => bytemuck::cast_slice(bytes).iter().map(|&bits| bf16::from_bits(bits).to_f32()).collect(),
        _ => bytemuck::cast_slice(bytes).to_vec(),
    }
}

/// The largest error that the documentation allows for a number of a block.
fn bound(wire: Wire, number: Number, value: f32, block: &[f32]) -> f64 {
    let peak =
        block.iter().filter(|value| value.is_finite()).fold(0.0f64, |peak, &each| peak.max(f64::from(each).abs()));
    let wider = if block.iter().all(|value| value.is_finite()) { 1.0 } else { 2.0 };
    let size = f64::from(value).abs();
    match wire {
        Wire::Bfloat16 => (size / 256.0).max(2f64.powi(-134)),
        Wire::Float16 => (size / 2048.0).max(2f64.powi(-25)),
        Wire::Int8 => {
            let least = if number == Number::Bfloat16 || wider > 1.0 { 63.5 } else { 127.0 };
            wider * (peak / least * (1.0 + 1e-6)).max(2f64.powi(-126)) / 2.0
        }
        Wire::Float8 => (size / 16.0).max(wider * (peak / 224.0).max(2f64.powi(-117)) / 1024.0),
    }
}

fn check(wire: Wire, number: Number, values: &[f32]) {
    let length = values.len() * number.bytes();
    let words = stored(number, values);
    let bytes = &bytemuck::cast_slice(&words)[..length];
    let values = read(number, bytes);
    let once = encoded(wire, number, bytes);
    let mut memory = vec![0u32; words.len()];
    let decoded = &mut bytemuck::cast_slice_mut(&mut memory)[..length];
    wire.decode(number, &once, decoded);
    assert_eq!(encoded(wire, number, decoded), once, "{wire:?} {number:?} {values:?}");
    let found = read(number, decoded);
    for (block, found) in values.chunks(BLOCK).zip(found.chunks(BLOCK)) {
        for (&value, &found) in block.iter().zip(found) {
            let overflows = wire == Wire::Float16 && f16::from_f32(value).is_infinite();
            let overflows = overflows || wire == Wire::Bfloat16 && bf16::from_f32(value).is_infinite();
            if !value.is_finite() || overflows {
                let is_right = if value.is_nan() { found.is_nan() } else { found.is_infinite() };
                assert!(
                    is_right && (value.is_nan() || value.is_sign_negative() == found.is_sign_negative()),
                    "{value}"
                );
                continue;
            }
            let error = (f64::from(value) - f64::from(found)).abs();
            let most = bound(wire, number, value, block);
            assert!(error <= most, "{wire:?} {number:?}: {value:e} became {found:e}, {error:e} > {most:e}");
        }
    }
}

fn any_bits() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => any::<u32>().prop_map(f32::from_bits),
        4 => (-1.0f32..1.0).prop_map(|value| value),
        1 => Just(0.0), 1 => Just(-0.0), 1 => Just(f32::MAX), 1 => Just(f32::MIN), 1 => Just(f32::INFINITY),
        1 => Just(f32::from_bits(1)), 1 => Just(f32::MIN_POSITIVE), 1 => Just(1.99 * 2f32.powi(127)),
    ]
}

/// Blocks whose numbers have about one magnitude, so that all codes are used.
fn alike() -> impl Strategy<Value = Vec<f32>> {
    (-149i32..127, prop::collection::vec(-2.0f32..2.0, 1..600)).prop_map(|(exponent, values)| {
        values.iter().map(|value| (f64::from(*value) * 2f64.powi(exponent)) as f32).collect()
    })
}

fn all(values: &[f32]) {
    for wire in Wire::ALL {
        for number in [Number::Float32, Number::Bfloat16] {
            if wire.carrying(number).unwrap().is_some() {
                check(wire, number, values);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_numbers_are_near_and_fixed(values in prop::collection::vec(any_bits(), 0..600)) {
        all(&values);
        let finite: Vec<f32> = values.into_iter().filter(|value| value.is_finite()).collect();
        all(&finite);
        for part in finite.chunks(3) {
            all(part);
        }
    }

    #[test]
    fn numbers_of_one_magnitude_are_near_and_fixed(values in alike(), special in any_bits()) {
        all(&values);
        all(&[&values[..], &[special]].concat());
    }

    #[test]
    fn any_bytes_are_numbers(bytes in prop::collection::vec(any::<u8>(), 260)) {
        for wire in [Wire::Int8, Wire::Float8] {
            wire.decode(Number::Float32, &bytes, bytemuck::cast_slice_mut(&mut [0f32; BLOCK]));
        }
    }
}

#[test]
fn each_peak_tells_its_scale_again() {
    for step in 0..200_000u32 {
        let peak = f32::from_bits(step.wrapping_mul(0x9e37_79b9) & 0x7fff_ffff);
        if peak.is_finite() {
            for wire in [Wire::Int8, Wire::Float8] {
                check(wire, Number::Float32, &[peak, peak / 3.0, peak / 500.0]);
                check(wire, Number::Bfloat16, &[peak, peak / 3.0, peak / 500.0]);
                check(wire, Number::Float32, &[peak, f32::NAN, -peak / 7.0, f32::NEG_INFINITY]);
            }
        }
    }
}

#[test]
fn codes_of_8_bit_floats_are_fixed_points() {
    let values: Vec<f32> = (0..=0x7e).map(|code| f32::from(f16::from_bits(code << 7)) * 256.0).collect();
    assert_eq!((values[1], values[0x7e]), (2f32.powi(-9), 448.0));
    let bytes = encoded(Wire::Float8, Number::Float32, bytemuck::cast_slice(&values));
    assert_eq!(bytes[..4], 1.0f32.to_le_bytes());
    assert!((0..=0x7e).eq(bytes[4..].iter().copied()));
}

#[test]
fn only_floats_cross_in_fewer_bytes() {
    let error = Wire::Int8.carrying(Number::Int64).unwrap_err().to_string();
    assert_eq!(error, "wire type int8 is for float32 and bfloat16 vectors, and this one is int64");
    assert!(Wire::Float8.carrying(Number::Float16).is_err() && Wire::Float8.carrying(Number::Float64).is_err());
}

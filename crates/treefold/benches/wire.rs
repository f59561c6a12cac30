//! How many bytes of float32 a core encodes and decodes in a second, by wire type.

use std::hint::black_box;
use std::time::Instant;

use treefold::number::wire::{Wire, give_back};
use treefold::number::{Number, Operator, combine};

/// Numbers that stay in the caches, as the parts of messages do.
const ELEMENTS: usize = 128 << 10;
const ROUNDS: usize = 400;

fn main() {
    let values: Vec<f32> = (0..ELEMENTS).map(|at| ((at * 7919) % 10_007) as f32 / 5000.0 - 1.0).collect();
    let sum = combine(Number::Float32, Operator::Sum).expect("floats are added");
    for wire in Wire::ALL {
        let (mut encoded, mut target) = (vec![0; wire.bytes(ELEMENTS)], vec![0f32; ELEMENTS]);
        let encode = rate(|| wire.encode(Number::Float32, bytemuck::cast_slice(black_box(&values)), &mut encoded));
        let (mut rounded, mut residual) = (values.clone(), vec![0f32; ELEMENTS]);
        let fed_back = rate(|| {
            // What was rounded before would lose nothing; the residual makes other numbers of it.
            let numbers = bytemuck::cast_slice_mut(black_box(&mut rounded));
            give_back(Number::Float32, numbers, &mut residual);
            wire.encode_with_feedback(Number::Float32, numbers, &mut encoded, &mut residual);
        });
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut target);
        let decode = rate(|| wire.decode(Number::Float32, black_box(&encoded), bytes));
        let add = rate(|| wire.decode_into(Number::Float32, black_box(&encoded), bytes, sum));
        println!(
            "{:10} encode {encode:5.2} GB/s, with error feedback {fed_back:5.2} GB/s  decode {decode:5.2} GB/s  decode \
             and add {add:5.2} GB/s",
            wire.name()
        );
    }
}

/// Returns the GB of float32 a second, in the best of several runs.
fn rate(mut work: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        (0..ROUNDS / 10).for_each(|_| work());
        start.elapsed().as_secs_f64()
    };
    let best = (0..10).map(timed).fold(f64::INFINITY, f64::min);
    (ELEMENTS * 4 * ROUNDS / 10) as f64 / best / 1e9
}

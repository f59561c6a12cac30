//! Powers that are the same on every machine.

/// Returns 2 to the power of `x`, which is at most 1000, to seven digits, and the same on every machine: a library's
/// function may differ in the last bit.
pub(crate) fn exp2(x: f64) -> f64 {
    let whole = x.max(-1000.0).floor();
    let exponent = (x.max(-1000.0) - whole) * std::f64::consts::LN_2;
    // The Taylor series of the exponential function, of a number below 0.7.
    let sum = (1..=9).rev().fold(1.0, |sum, term| 1.0 + sum * exponent / f64::from(term));
    f64::from_bits(((whole as i64 + 1023) as u64) << 52) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_right_to_seven_digits() {
        for step in 0..4000 {
            let x = -f64::from(step) / 100.0;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-7, "{x}");
        }
        assert!(exp2(-1e9) > 0.0);
    }
}

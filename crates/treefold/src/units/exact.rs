//! Products of the decimal numbers that people write, without the rounding of floats.

use super::MAX_BYTES;

/// Returns `factor` times the decimal number `written`, such as `2.01` or `1e3`, if that is a whole number of at most
/// [`MAX_BYTES`]. Floats would not do: 2.01 times 1000 is no whole number in them.
pub(super) fn whole_product(written: &str, factor: u64) -> Option<u64> {
    let (digits, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    let digits = all.trim_start_matches(['+', '-', '0']).trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let zeros = all.len() - all.trim_end_matches('0').len();
    let power = exponent.parse::<i64>().ok()? - part.len() as i64 + zeros as i64;
    // What 128 bits do not hold is refused: no size that people write has so many digits.
    let product = digits.parse::<u128>().ok()?.checked_mul(factor.into())?;
    let ten = 10u128.checked_pow(u32::try_from(power.unsigned_abs()).ok()?)?;
    let whole =
        if power < 0 { product.is_multiple_of(ten).then(|| product / ten)? } else { product.checked_mul(ten)? };
    u64::try_from(whole).ok().filter(|&bytes| bytes <= MAX_BYTES)
}

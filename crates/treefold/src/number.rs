//! The number types of vectors, and the operators that reduce them.
//!
//! Half floats are widened block by block, and rounded once an addition. The result of `min` and `max` is a NaN if one
//! operand is one. Booleans are bytes of 0 and 1, whose sum is "or" and whose product is "and".

pub mod wire;

use std::str::FromStr;

use bytemuck::{AnyBitPattern, NoUninit, cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bail;
use crate::error::{Error, Result, named};

/// A function that reduces `source` into `target`, element by element. Both have the same length and are aligned to the
/// number's size.
pub type Combine = fn(target: &mut [u8], source: &[u8]);

/// A number type.
///
/// ```
/// use treefold::number::Number;
///
/// assert_eq!("float32".parse::<Number>()?, Number::Float32);
/// assert!("float33".parse::<Number>().is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// IEEE half precision.
    Float16,
    /// The upper half of single precision.
    Bfloat16,
    /// Single precision.
    Float32,
    /// Double precision.
    Float64,
    /// Two single precision numbers.
    Complex64,
    /// Two double precision numbers.
    Complex128,
    /// Signed integers of 8 bits, whose sums and products wrap around.
    Int8,
    /// Signed integers of 16 bits, whose sums and products wrap around.
    Int16,
    /// Signed integers of 32 bits, whose sums and products wrap around.
    Int32,
    /// Signed integers of 64 bits, whose sums and products wrap around.
    Int64,
    /// Unsigned integers of 8 bits, whose sums and products wrap around.
    Uint8,
    /// Unsigned integers of 16 bits, whose sums and products wrap around.
    Uint16,
    /// Unsigned integers of 32 bits, whose sums and products wrap around.
    Uint32,
    /// Unsigned integers of 64 bits, whose sums and products wrap around.
    Uint64,
    /// A byte of 0 or 1.
    Bool,
}

/// A reduction operator.
///
/// ```
/// use treefold::number::Operator;
///
/// assert_eq!("max".parse::<Operator>()?, Operator::Max);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Operator {
    /// Addition.
    Sum,
    /// Multiplication.
    Prod,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// Bitwise and.
    Band,
    /// Bitwise or.
    Bor,
    /// Bitwise exclusive or.
    Bxor,
}

const NUMBERS: [(&str, Number, usize); 15] = [
    ("float16", Number::Float16, 2),
    ("bfloat16", Number::Bfloat16, 2),
    ("float32", Number::Float32, 4),
    ("float64", Number::Float64, 8),
    ("complex64", Number::Complex64, 8),
    ("complex128", Number::Complex128, 16),
    ("int8", Number::Int8, 1),
    ("int16", Number::Int16, 2),
    ("int32", Number::Int32, 4),
    ("int64", Number::Int64, 8),
    ("uint8", Number::Uint8, 1),
    ("uint16", Number::Uint16, 2),
    ("uint32", Number::Uint32, 4),
    ("uint64", Number::Uint64, 8),
    ("bool", Number::Bool, 1),
];

const OPERATORS: [(&str, Operator); 7] = [
    ("sum", Operator::Sum),
    ("prod", Operator::Prod),
    ("min", Operator::Min),
    ("max", Operator::Max),
    ("band", Operator::Band),
    ("bor", Operator::Bor),
    ("bxor", Operator::Bxor),
];

impl FromStr for Number {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match NUMBERS.iter().find(|row| row.0 == name) {
            Some(row) => Ok(row.1),
            None => {
                bail!("number type '{name}' is unknown; known are {}", list(NUMBERS.iter().map(|row| row.0)))
            }
        }
    }
}

impl FromStr for Operator {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        named("operator", name, &OPERATORS)
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

impl Number {
    /// Returns the name that NumPy and PyTorch have for the type.
    ///
    /// ```
    /// assert_eq!(treefold::number::Number::Bfloat16.name(), "bfloat16");
    /// ```
    pub fn name(self) -> &'static str {
        NUMBERS.iter().find(|row| row.1 == self).expect("every number has a row").0
    }

    /// Returns the bytes of an element.
    ///
    /// ```
    /// assert_eq!("bfloat16".parse::<treefold::number::Number>()?.bytes(), 2);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn bytes(self) -> usize {
        NUMBERS.iter().find(|row| row.1 == self).expect("every number has a row").2
    }
}

impl Operator {
    /// All operators.
    pub const ALL: [Self; 7] = [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Band, Self::Bor, Self::Bxor];

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(treefold::number::Operator::Bxor.name(), "bxor");
    /// ```
    pub fn name(self) -> &'static str {
        OPERATORS.iter().find(|row| row.1 == self).expect("every operator has a row").0
    }
}

/// Returns the function that reduces two vectors of `number` by `operator`.
///
/// # Errors
/// If the numbers have no such operator: floats have no bits to combine, and complex numbers have no order.
///
/// ```
/// use treefold::number::{Number, Operator, combine};
///
/// let maximum = combine(Number::Uint8, Operator::Max)?;
/// let mut values = [1, 200, 3];
/// maximum(&mut values, &[2, 100, 3]);
/// assert_eq!(values, [2, 200, 3]);
/// assert!(combine(Number::Complex64, Operator::Max).is_err());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn combine(number: Number, operator: Operator) -> Result<Combine> {
    found(number, operator).ok_or_else(|| {
        let known = OPERATORS.iter().filter(|row| found(number, row.1).is_some());
        let (number, known) = (number.name(), list(known.map(|row| row.0)));
        Error::new(format!("{number} numbers have no operator '{}'; they have {known}", operator.name()))
    })
}

fn found(number: Number, operator: Operator) -> Option<Combine> {
    match number {
        Number::Float16 => half::<f16>(operator),
        Number::Bfloat16 => half::<bf16>(operator),
        Number::Float32 => float32(operator),
        Number::Float64 => float64(operator),
        Number::Complex64 => complex64(operator),
        Number::Complex128 => complex128(operator),
        Number::Int8 => int8(operator),
        Number::Int16 => int16(operator),
        Number::Int32 => int32(operator),
        Number::Int64 => int64(operator),
        Number::Uint8 => uint8(operator),
        Number::Uint16 => uint16(operator),
        Number::Uint32 => uint32(operator),
        Number::Uint64 => uint64(operator),
        Number::Bool => boolean(operator),
    }
}

fn each<T: AnyBitPattern + NoUninit>(target: &mut [u8], source: &[u8], combine: impl Fn(T, T) -> T) {
    let (target, source): (&mut [T], &[T]) = (cast_slice_mut(target), cast_slice(source));
    for (a, &b) in target.iter_mut().zip(source) {
        *a = combine(*a, b);
    }
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {$(
        fn $name(operator: Operator) -> Option<Combine> {
            Some(match operator {
                Operator::Sum => |a, b| each::<$type>(a, b, <$type>::wrapping_add),
                Operator::Prod => |a, b| each::<$type>(a, b, <$type>::wrapping_mul),
                Operator::Min => |a, b| each::<$type>(a, b, Ord::min),
                Operator::Max => |a, b| each::<$type>(a, b, Ord::max),
                Operator::Band => |a, b| each::<$type>(a, b, |a, b| a & b),
                Operator::Bor => |a, b| each::<$type>(a, b, |a, b| a | b),
                Operator::Bxor => |a, b| each::<$type>(a, b, |a, b| a ^ b),
            })
        }
    )*};
}

integers!(int8: i8, int16: i16, int32: i32, int64: i64, uint8: u8, uint16: u16, uint32: u32, uint64: u64);

macro_rules! floats {
    ($($name:ident: $type:ty),*) => {$(
        fn $name(operator: Operator) -> Option<Combine> {
            Some(match operator {
                Operator::Sum => |a, b| each::<$type>(a, b, |a, b| a + b),
                Operator::Prod => |a, b| each::<$type>(a, b, |a, b| a * b),
                Operator::Min => |a, b| each::<$type>(a, b, |a, b| if a.is_nan() || a < b { a } else { b }),
                Operator::Max => |a, b| each::<$type>(a, b, |a, b| if a.is_nan() || a > b { a } else { b }),
                _ => return None,
            })
        }
    )*};
}

floats!(float32: f32, float64: f64);

macro_rules! complexes {
    ($($name:ident: $type:ty),*) => {$(
        fn $name(operator: Operator) -> Option<Combine> {
            Some(match operator {
                Operator::Sum => |a, b| each::<$type>(a, b, |a, b| a + b),
                Operator::Prod => |a, b| {
                    each::<[$type; 2]>(a, b, |a, b| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]);
                },
                _ => return None,
            })
        }
    )*};
}

complexes!(complex64: f32, complex128: f64);

fn boolean(operator: Operator) -> Option<Combine> {
    Some(match operator {
        Operator::Sum | Operator::Max | Operator::Bor => |a, b| each::<u8>(a, b, |a, b| a | b),
        Operator::Prod | Operator::Min | Operator::Band => |a, b| each::<u8>(a, b, |a, b| a & b),
        Operator::Bxor => |a, b| each::<u8>(a, b, |a, b| a ^ b),
    })
}

/// A half float, which is widened a block at a time.
trait HalfFloat: AnyBitPattern + NoUninit {
    fn widen(from: &[Self], to: &mut [f32]);
    fn narrow(from: &[f32], to: &mut [Self]);
}

macro_rules! halves {
    ($($type:ty),*) => {$(
        impl HalfFloat for $type {
            fn widen(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
            fn narrow(from: &[f32], to: &mut [Self]) {
                to.convert_from_f32_slice(from);
            }
        }
    )*};
}

halves!(f16, bf16);

const BLOCK: usize = 256;

fn half<T: HalfFloat>(operator: Operator) -> Option<Combine> {
    Some(match operator {
        Operator::Sum => |a, b| blocks::<T>(a, b, |a, b| a + b),
        Operator::Prod => |a, b| blocks::<T>(a, b, |a, b| a * b),
        Operator::Min => |a, b| blocks::<T>(a, b, |a, b| if a.is_nan() || a < b { a } else { b }),
        Operator::Max => |a, b| blocks::<T>(a, b, |a, b| if a.is_nan() || a > b { a } else { b }),
        _ => return None,
    })
}

fn blocks<T: HalfFloat>(target: &mut [u8], source: &[u8], combine: impl Fn(f32, f32) -> f32) {
    let (target, source): (&mut [T], &[T]) = (cast_slice_mut(target), cast_slice(source));
    let (mut left, mut right) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
        let (left, right) = (&mut left[..target.len()], &mut right[..source.len()]);
        T::widen(target, left);
        T::widen(source, right);
        for (a, &b) in left.iter_mut().zip(&*right) {
            *a = combine(*a, b);
        }
        T::narrow(left, target);
    }
}

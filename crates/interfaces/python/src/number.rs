//! Kinds of numbers, by dtype, and the operations that fold them.

use farside::raw::{self, Accumulate};
use farside::{Complex, Op};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::error::{Raise as _, bad_argument, unsupported};

/// A kind of number that numpy and farside both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    C32,
    C64,
}

impl Number {
    /// Returns the kind of a dtype in native byte order, if it has one.
    pub(crate) fn of(descr: &Bound<'_, PyArrayDescr>) -> Option<Number> {
        if descr.has_fields() || descr.is_native_byteorder() == Some(false) {
            return None;
        }
        Some(match (descr.kind(), descr.itemsize()) {
            (b'b', 1) => Number::Bool,
            (b'i', 1) => Number::I8,
            (b'i', 2) => Number::I16,
            (b'i', 4) => Number::I32,
            (b'i', 8) => Number::I64,
            (b'u', 1) => Number::U8,
            (b'u', 2) => Number::U16,
            (b'u', 4) => Number::U32,
            (b'u', 8) => Number::U64,
            (b'f', 4) => Number::F32,
            (b'f', 8) => Number::F64,
            (b'c', 8) => Number::C32,
            (b'c', 16) => Number::C64,
            _ => return None,
        })
    }

    /// Returns whether numbers of this kind can be accumulated at another rank.
    pub(crate) fn is_summand(self) -> bool {
        use Number::{C32, C64, F32, F64, I32, I64, U32, U64};
        matches!(self, I32 | I64 | U32 | U64 | F32 | F64 | C32 | C64)
    }

    /// Returns the kind of an element of an accumulate.
    fn raw(self) -> raw::Number {
        match self {
            Number::Bool | Number::U8 => raw::Number::U8,
            Number::I8 => raw::Number::I8,
            Number::I16 => raw::Number::I16,
            Number::I32 => raw::Number::I32,
            Number::I64 => raw::Number::I64,
            Number::U16 => raw::Number::U16,
            Number::U32 => raw::Number::U32,
            Number::U64 => raw::Number::U64,
            Number::F32 => raw::Number::F32,
            Number::F64 => raw::Number::F64,
            Number::C32 => raw::Number::C32,
            Number::C64 => raw::Number::C64,
        }
    }

    /// Returns the unsigned integer that has as many bytes as an element of a dtype.
    pub(crate) fn word_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<raw::Number> {
        Ok(match descr.itemsize() {
            1 => raw::Number::U8,
            2 => raw::Number::U16,
            4 => raw::Number::U32,
            8 => raw::Number::U64,
            16 => raw::Number::C64,
            _ => {
                let text = format!("atomics on {descr}: elements have 1, 2, 4, 8 or 16 bytes");
                return Err(unsupported(descr.py(), text));
            }
        })
    }

    /// Returns the bytes of a Python number, if it is of this kind without a loss; `None` leaves
    /// the conversion to numpy.
    #[inline]
    pub(crate) fn bytes_of(self, value: &Bound<'_, PyAny>) -> Option<([u8; 8], usize)> {
        let mut bytes = [0; 8];
        macro_rules! integer {
            ($type:ty) => {{
                let value = value.cast::<PyInt>().ok()?.extract::<$type>().ok()?;
                bytes[..size_of::<$type>()].copy_from_slice(&value.to_ne_bytes());
                size_of::<$type>()
            }};
        }
        let len = match self {
            Number::F64 => {
                let value = match value.cast::<PyFloat>() {
                    Ok(value) => value.value(),
                    Err(_) => value.cast::<PyInt>().ok()?.extract::<f64>().ok()?,
                };
                bytes = value.to_ne_bytes();
                8
            }
            Number::I64 => integer!(i64),
            Number::U64 => integer!(u64),
            Number::I32 => integer!(i32),
            Number::U32 => integer!(u32),
            _ => return None,
        };
        Some((bytes, len))
    }
}

/// Reads the name of an operation that combines elements of a dtype at another rank.
pub(crate) fn accumulate_named(descr: &Bound<'_, PyArrayDescr>, op: &str) -> PyResult<Accumulate> {
    let py = descr.py();
    let (number, op) = match op {
        // Whatever the elements are, these only move them.
        "replace" => (Number::word_of(descr)?, Op::Replace),
        "no_op" => (Number::word_of(descr)?, Op::NoOp),
        _ => {
            let fold = Fold::named(py, op)?;
            let number = Number::of(descr)
                .ok_or_else(|| unsupported(py, format!("{op} of {descr} at another rank")))?;
            (number.raw(), fold.op(number))
        }
    };
    Accumulate::new(number, op).raise(py)
}

/// Calls a generic function for a kind of number that can be accumulated.
macro_rules! of_summand {
    ($number:expr, $function:ident($($argument:expr),* $(,)?), $other:expr) => {
        match $number {
            Some($crate::number::Number::I32) => $function::<i32>($($argument),*),
            Some($crate::number::Number::I64) => $function::<i64>($($argument),*),
            Some($crate::number::Number::U32) => $function::<u32>($($argument),*),
            Some($crate::number::Number::U64) => $function::<u64>($($argument),*),
            Some($crate::number::Number::F32) => $function::<f32>($($argument),*),
            Some($crate::number::Number::F64) => $function::<f64>($($argument),*),
            Some($crate::number::Number::C32) => {
                $function::<farside::Complex<f32>>($($argument),*)
            }
            Some($crate::number::Number::C64) => {
                $function::<farside::Complex<f64>>($($argument),*)
            }
            _ => $other,
        }
    };
}
pub(crate) use of_summand;

/// Returns the exception for a dtype that has no sums.
pub(crate) fn no_summand(descr: &Bound<'_, PyArrayDescr>) -> PyErr {
    unsupported(
        descr.py(),
        format!(
            "accumulate of {descr}: numbers that can be accumulated are int32, int64, uint32, \
             uint64, float32, float64, complex64 and complex128"
        ),
    )
}

/// An operation that folds numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Product,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Fold {
    /// Reads the name of an operation.
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Fold> {
        Ok(match name {
            "sum" => Fold::Sum,
            "prod" => Fold::Product,
            "min" => Fold::Min,
            "max" => Fold::Max,
            "and" => Fold::And,
            "or" => Fold::Or,
            "xor" => Fold::Xor,
            _ => {
                let names = "sum, prod, min, max, and, or, xor";
                let text = format!("{name:?} is not an operation; use one of {names}");
                return Err(bad_argument(py, text));
            }
        })
    }

    /// Returns the operation of an accumulate of numbers of a kind. Of truth values numpy's sum is
    /// the disjunction, and its product the conjunction.
    fn op(self, number: Number) -> Op {
        let is_truth = number == Number::Bool;
        match self {
            Fold::Sum | Fold::Max if is_truth => Op::Or,
            Fold::Product | Fold::Min if is_truth => Op::And,
            Fold::Sum => Op::Sum,
            Fold::Product => Op::Product,
            Fold::Min => Op::Min,
            Fold::Max => Op::Max,
            Fold::And => Op::And,
            Fold::Or => Op::Or,
            Fold::Xor => Op::Xor,
        }
    }
}

/// Folds the elements of the second run of bytes into those of the first.
pub(crate) type Folder = fn(&mut [u8], &[u8]);

/// Folds elements of `N` bytes.
fn fold_all<const N: usize>(
    into: &mut [u8],
    from: &[u8],
    fold: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (from, _) = from.as_chunks::<N>();
    for (a, b) in into.iter_mut().zip(from) {
        *a = fold(*a, *b);
    }
}

macro_rules! folder {
    ($type:ty, $fold:expr) => {{
        fn run(into: &mut [u8], from: &[u8]) {
            fold_all::<{ size_of::<$type>() }>(into, from, |a, b| {
                let fold: fn($type, $type) -> $type = $fold;
                fold(<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b)).to_ne_bytes()
            });
        }
        Some(run as Folder)
    }};
}

macro_rules! integer_folder {
    ($type:ty, $fold:expr) => {
        match $fold {
            Fold::Sum => folder!($type, <$type>::wrapping_add),
            Fold::Product => folder!($type, <$type>::wrapping_mul),
            Fold::Min => folder!($type, Ord::min),
            Fold::Max => folder!($type, Ord::max),
            Fold::And => folder!($type, |a, b| a & b),
            Fold::Or => folder!($type, |a, b| a | b),
            Fold::Xor => folder!($type, |a, b| a ^ b),
        }
    };
}

macro_rules! float_folder {
    ($type:ty, $fold:expr) => {
        match $fold {
            Fold::Sum => folder!($type, |a, b| a + b),
            Fold::Product => folder!($type, |a, b| a * b),
            Fold::Min => folder!($type, <$type>::min),
            Fold::Max => folder!($type, <$type>::max),
            _ => None,
        }
    };
}

macro_rules! complex_folder {
    ($type:ty, $fold:expr) => {{
        const HALF: usize = size_of::<$type>();
        fn split(bytes: [u8; 2 * HALF]) -> Complex<$type> {
            let half = |at: usize| {
                let mut half = [0; HALF];
                half.copy_from_slice(&bytes[at..at + HALF]);
                <$type>::from_ne_bytes(half)
            };
            Complex { re: half(0), im: half(HALF) }
        }
        fn join(value: Complex<$type>) -> [u8; 2 * HALF] {
            let mut bytes = [0; 2 * HALF];
            bytes[..HALF].copy_from_slice(&value.re.to_ne_bytes());
            bytes[HALF..].copy_from_slice(&value.im.to_ne_bytes());
            bytes
        }
        fn sum(into: &mut [u8], from: &[u8]) {
            fold_all(into, from, |a, b| {
                let (a, b) = (split(a), split(b));
                join(Complex { re: a.re + b.re, im: a.im + b.im })
            });
        }
        fn product(into: &mut [u8], from: &[u8]) {
            fold_all(into, from, |a, b| {
                let (a, b) = (split(a), split(b));
                let re = a.re * b.re - a.im * b.im;
                join(Complex { re, im: a.re * b.im + a.im * b.re })
            });
        }
        match $fold {
            Fold::Sum => Some(sum as Folder),
            Fold::Product => Some(product as Folder),
            _ => None,
        }
    }};
}

/// Returns the function that folds numbers of a kind, if they have the operation.
pub(crate) fn folder(number: Number, fold: Fold) -> Option<Folder> {
    match number {
        // Of truth values numpy's sum is the disjunction, and its product the conjunction.
        Number::Bool => match fold {
            Fold::Sum | Fold::Or | Fold::Max => folder!(u8, |a, b| a | b),
            Fold::Product | Fold::And | Fold::Min => folder!(u8, |a, b| a & b),
            Fold::Xor => folder!(u8, |a, b| a ^ b),
        },
        Number::I8 => integer_folder!(i8, fold),
        Number::I16 => integer_folder!(i16, fold),
        Number::I32 => integer_folder!(i32, fold),
        Number::I64 => integer_folder!(i64, fold),
        Number::U8 => integer_folder!(u8, fold),
        Number::U16 => integer_folder!(u16, fold),
        Number::U32 => integer_folder!(u32, fold),
        Number::U64 => integer_folder!(u64, fold),
        Number::F32 => float_folder!(f32, fold),
        Number::F64 => float_folder!(f64, fold),
        Number::C32 => complex_folder!(f32, fold),
        Number::C64 => complex_folder!(f64, fold),
    }
}

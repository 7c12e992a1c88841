//! Kinds of numbers, by dtype, and the operations that fold them.

use farside::Op;
use farside::raw::{Accumulate, Number};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

use crate::error::{Raise as _, bad_argument, unsupported};

/// Returns the kind of number of a dtype in native byte order, if it has one. Truth values are
/// bytes.
pub(crate) fn number_of(descr: &Bound<'_, PyArrayDescr>) -> Option<Number> {
    if descr.has_fields() || descr.is_native_byteorder() == Some(false) {
        return None;
    }
    Some(match (descr.kind(), descr.itemsize()) {
        (b'i', 1) => Number::I8,
        (b'i', 2) => Number::I16,
        (b'i', 4) => Number::I32,
        (b'i', 8) => Number::I64,
        (b'b' | b'u', 1) => Number::U8,
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

/// Returns whether numbers of a kind can be accumulated at another rank.
pub(crate) fn is_summand(number: Number) -> bool {
    use Number::{C32, C64, F32, F64, I32, I64, U32, U64};
    matches!(number, I32 | I64 | U32 | U64 | F32 | F64 | C32 | C64)
}

/// Returns the unsigned integer that has as many bytes as an element of a dtype.
pub(crate) fn word_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<Number> {
    Ok(match descr.itemsize() {
        1 => Number::U8,
        2 => Number::U16,
        4 => Number::U32,
        8 => Number::U64,
        16 => Number::C64,
        _ => {
            let text = format!("atomics on {descr}: elements have 1, 2, 4, 8 or 16 bytes");
            return Err(unsupported(descr.py(), text));
        }
    })
}

/// Returns the bytes of a Python number, if it is of a kind without a loss; `None` leaves the
/// conversion to numpy.
#[inline]
pub(crate) fn bytes_of(number: Number, value: &Bound<'_, PyAny>) -> Option<([u8; 8], usize)> {
    let mut bytes = [0; 8];
    macro_rules! integer {
        ($type:ty) => {{
            let value = value.cast::<PyInt>().ok()?.extract::<$type>().ok()?;
            bytes[..size_of::<$type>()].copy_from_slice(&value.to_ne_bytes());
            size_of::<$type>()
        }};
    }
    let len = match number {
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

/// Reads the name of an operation that combines elements of a dtype at another rank.
pub(crate) fn accumulate_named(descr: &Bound<'_, PyArrayDescr>, op: &str) -> PyResult<Accumulate> {
    let py = descr.py();
    let (number, op) = match op {
        // Whatever the elements are, these only move them.
        "replace" => (word_of(descr)?, Op::Replace),
        "no_op" => (word_of(descr)?, Op::NoOp),
        _ => {
            let fold = fold_named(py, op)?;
            let number = number_of(descr)
                .ok_or_else(|| unsupported(py, format!("{op} of {descr} at another rank")))?;
            (number, of_truth(fold, descr))
        }
    };
    Accumulate::new(number, op).raise(py)
}

/// Calls a generic function for a kind of number that can be accumulated.
macro_rules! of_summand {
    ($number:expr, $function:ident($($argument:expr),* $(,)?), $other:expr) => {
        match $number {
            Some(farside::raw::Number::I32) => $function::<i32>($($argument),*),
            Some(farside::raw::Number::I64) => $function::<i64>($($argument),*),
            Some(farside::raw::Number::U32) => $function::<u32>($($argument),*),
            Some(farside::raw::Number::U64) => $function::<u64>($($argument),*),
            Some(farside::raw::Number::F32) => $function::<f32>($($argument),*),
            Some(farside::raw::Number::F64) => $function::<f64>($($argument),*),
            Some(farside::raw::Number::C32) => {
                $function::<farside::Complex<f32>>($($argument),*)
            }
            Some(farside::raw::Number::C64) => {
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

/// Reads the name of an operation that folds numbers.
pub(crate) fn fold_named(py: Python<'_>, name: &str) -> PyResult<Op> {
    Ok(match name {
        "sum" => Op::Sum,
        "prod" => Op::Product,
        "min" => Op::Min,
        "max" => Op::Max,
        "and" => Op::And,
        "or" => Op::Or,
        "xor" => Op::Xor,
        _ => {
            let names = "sum, prod, min, max, and, or, xor";
            let text = format!("{name:?} is not an operation; use one of {names}");
            return Err(bad_argument(py, text));
        }
    })
}

/// Returns what an operation is for a dtype: of truth values numpy's sum is the disjunction, and
/// its product the conjunction.
fn of_truth(op: Op, descr: &Bound<'_, PyArrayDescr>) -> Op {
    match op {
        Op::Sum | Op::Max if descr.kind() == b'b' => Op::Or,
        Op::Product | Op::Min if descr.kind() == b'b' => Op::And,
        op => op,
    }
}

/// Returns the fold of numbers of a dtype, if they have the operation.
pub(crate) fn folder(descr: &Bound<'_, PyArrayDescr>, op: Op) -> Option<Accumulate> {
    Accumulate::new(number_of(descr)?, of_truth(op, descr)).ok()
}

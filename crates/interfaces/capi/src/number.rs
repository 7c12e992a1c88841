//! Kinds of numbers and the operations that fold them.

use std::ffi::{c_int, c_void};

use farside::raw::{Accumulate, Number};
use farside::{Complex, Error, Op, Plain, Result};

use crate::status::{bad, bytes_mut, input};

/// A signed integer of 32 bits.
pub const FARSIDE_I32: c_int = 0;
/// A signed integer of 64 bits.
pub const FARSIDE_I64: c_int = 1;
/// An unsigned integer of 32 bits.
pub const FARSIDE_U32: c_int = 2;
/// An unsigned integer of 64 bits.
pub const FARSIDE_U64: c_int = 3;
/// A floating-point number of 32 bits: float.
pub const FARSIDE_F32: c_int = 4;
/// A floating-point number of 64 bits: double.
pub const FARSIDE_F64: c_int = 5;
/// A complex number of two floats, the real part first.
pub const FARSIDE_C32: c_int = 6;
/// A complex number of two doubles, the real part first.
pub const FARSIDE_C64: c_int = 7;
/// A signed integer of 8 bits.
pub const FARSIDE_I8: c_int = 8;
/// A signed integer of 16 bits.
pub const FARSIDE_I16: c_int = 9;
/// An unsigned integer of 8 bits.
pub const FARSIDE_U8: c_int = 10;
/// An unsigned integer of 16 bits.
pub const FARSIDE_U16: c_int = 11;
/// A structure of an int16_t and an int32_t, its index. Accumulates only, as the following.
pub const FARSIDE_I16_INDEX: c_int = 12;
/// A structure of an int32_t and an int32_t, its index.
pub const FARSIDE_I32_INDEX: c_int = 13;
/// A structure of an int64_t and an int32_t, its index.
pub const FARSIDE_I64_INDEX: c_int = 14;
/// A structure of a float and an int32_t, its index.
pub const FARSIDE_F32_INDEX: c_int = 15;
/// A structure of a double and an int32_t, its index.
pub const FARSIDE_F64_INDEX: c_int = 16;

/// The kinds of numbers, each at its code. Operations have farside's own codes.
const NUMBERS: [Number; 17] = {
    use Number::{C32, C64, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use Number::{F32Index, F64Index, I16Index, I32Index, I64Index};
    [
        I32, I64, U32, U64, F32, F64, C32, C64, I8, I16, U8, U16, I16Index, I32Index, I64Index,
        F32Index, F64Index,
    ]
};

/// The sum; integers wrap.
pub const FARSIDE_SUM: c_int = 0;
/// The product; integers wrap.
pub const FARSIDE_PRODUCT: c_int = 1;
/// The least. Complex numbers have none; of a number and a NaN it is the number.
pub const FARSIDE_MIN: c_int = 2;
/// The greatest. Complex numbers have none; of a number and a NaN it is the number.
pub const FARSIDE_MAX: c_int = 3;
/// The bits that both have. Integers only.
pub const FARSIDE_AND: c_int = 4;
/// The bits that one of both has. Integers only.
pub const FARSIDE_OR: c_int = 5;
/// The bits that only one of both has. Integers only.
pub const FARSIDE_XOR: c_int = 6;
/// 1 if both are not zero, else 0. Accumulates of integers only.
pub const FARSIDE_LOGICAL_AND: c_int = 7;
/// 1 if one of both is not zero, else 0. Accumulates of integers only.
pub const FARSIDE_LOGICAL_OR: c_int = 8;
/// 1 if only one of both is not zero, else 0. Accumulates of integers only.
pub const FARSIDE_LOGICAL_XOR: c_int = 9;
/// The structure with the lesser value, of equal values that with the lesser index. Accumulates of
/// values with an index only.
pub const FARSIDE_MIN_LOC: c_int = 10;
/// The structure with the greater value, of equal values that with the lesser index. Accumulates of
/// values with an index only.
pub const FARSIDE_MAX_LOC: c_int = 11;
/// What was sent. Accumulates only.
pub const FARSIDE_REPLACE: c_int = 12;
/// What was there: nothing is sent. Accumulates only, for fetching.
pub const FARSIDE_NO_OP: c_int = 13;

/// Calls a generic function for a kind of number.
macro_rules! of_number {
    ($number:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $number {
            $crate::number::FARSIDE_I32 => $function::<i32>($($argument),*),
            $crate::number::FARSIDE_I64 => $function::<i64>($($argument),*),
            $crate::number::FARSIDE_U32 => $function::<u32>($($argument),*),
            $crate::number::FARSIDE_U64 => $function::<u64>($($argument),*),
            $crate::number::FARSIDE_F32 => $function::<f32>($($argument),*),
            $crate::number::FARSIDE_F64 => $function::<f64>($($argument),*),
            $crate::number::FARSIDE_C32 => $function::<farside::Complex<f32>>($($argument),*),
            $crate::number::FARSIDE_C64 => $function::<farside::Complex<f64>>($($argument),*),
            $crate::number::FARSIDE_I8 => $function::<i8>($($argument),*),
            $crate::number::FARSIDE_I16 => $function::<i16>($($argument),*),
            $crate::number::FARSIDE_U8 => $function::<u8>($($argument),*),
            $crate::number::FARSIDE_U16 => $function::<u16>($($argument),*),
            other => Err($crate::number::unknown(other)),
        }
    };
}
pub(crate) use of_number;

/// An unknown kind of number.
#[cold]
pub(crate) fn unknown(number: c_int) -> Error {
    bad(format!(
        "{number} is not a kind of number; use FARSIDE_I32 to FARSIDE_U16, or for accumulates \
         FARSIDE_I16_INDEX to FARSIDE_F64_INDEX"
    ))
}

/// Reads the kind of an accumulate's elements, its operation, and the factor of a sum, which is one
/// where the pointer is null.
///
/// # Safety
///
/// The pointer is null or valid for a read of one number.
pub(crate) unsafe fn accumulate(
    number: c_int,
    operation: c_int,
    scale: *const c_void,
) -> Result<Accumulate> {
    let at = usize::try_from(number).ok();
    let kind = *at.and_then(|at| NUMBERS.get(at)).ok_or_else(|| unknown(number))?;
    let op = u8::try_from(operation).ok().and_then(Op::from_code).ok_or_else(|| {
        bad(format!("{operation} is not an operation; use FARSIDE_SUM to FARSIDE_NO_OP"))
    })?;
    if scale.is_null() {
        return Accumulate::new(kind, op);
    }
    if op != Op::Sum {
        return Err(bad(format!(
            "a scale with operation {operation}: only FARSIDE_SUM has one; pass NULL"
        )));
    }
    let (mut padded, bytes) = ([0; 16], kind.bytes() as usize);
    // SAFETY: by the caller's promise.
    padded[..bytes].copy_from_slice(unsafe { input::<u8>(scale.cast(), bytes, "scale")? });
    Accumulate::scaled_sum(kind, padded)
}

/// The elements of an accumulate as bytes; a no-op has none.
///
/// # Safety
///
/// The pointer is null or valid for reads of so many elements.
pub(crate) unsafe fn elements<'a>(
    accumulate: &Accumulate,
    data: *const c_void,
    count: usize,
) -> Result<&'a [u8]> {
    if !accumulate.writes() {
        return Ok(&[]);
    }
    // SAFETY: by the caller's promise.
    unsafe { input::<u8>(data.cast(), element_bytes(accumulate, count)?, "data") }
}

/// The elements of an accumulate that fetches, and the memory for what was there.
///
/// # Safety
///
/// The pointers are null or valid for reads, and for writes, of so many elements.
pub(crate) unsafe fn fetching<'a>(
    accumulate: &Accumulate,
    data: *const c_void,
    old: *mut c_void,
    count: usize,
) -> Result<(&'a [u8], &'a mut [u8])> {
    let bytes = element_bytes(accumulate, count)?;
    let distance = data.addr().abs_diff(old.addr());
    if accumulate.writes() && !data.is_null() && distance < bytes {
        return Err(bad("`data` and `old` overlap: they must be separate"));
    }
    // SAFETY: by the caller's promise; they do not overlap.
    unsafe { Ok((elements(accumulate, data, count)?, bytes_mut(old, bytes, "old")?)) }
}

/// The bytes of so many elements.
fn element_bytes(accumulate: &Accumulate, count: usize) -> Result<usize> {
    let bytes = accumulate.number().bytes() as usize;
    count.checked_mul(bytes).ok_or_else(|| {
        bad(format!("{count} elements of {bytes} bytes are more than an address space has"))
    })
}

/// An operation of one kind of number.
pub(crate) struct Operation<T> {
    pub(crate) fold: fn(T, T) -> T,
    /// What folded with any number gives that number.
    pub(crate) identity: T,
}

/// A number that can be folded.
pub(crate) trait Foldable: Plain {
    /// Returns an operation, if this kind of number has it.
    fn operation(code: c_int) -> Option<Operation<Self>>;
}

/// Reads an operation.
pub(crate) fn operation<T: Foldable>(code: c_int) -> Result<Operation<T>> {
    if !(FARSIDE_SUM..=FARSIDE_XOR).contains(&code) {
        return Err(bad(format!(
            "{code} is not an operation of a reduction; use FARSIDE_SUM to FARSIDE_XOR"
        )));
    }
    T::operation(code).ok_or_else(|| Error::Unsupported {
        what: format!(
            "operation {code} on {}: complex numbers have FARSIDE_SUM and FARSIDE_PRODUCT, \
             floating-point numbers also FARSIDE_MIN and FARSIDE_MAX",
            std::any::type_name::<T>().rsplit("::").next().unwrap_or_default()
        ),
    })
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Foldable for $type {
            fn operation(code: c_int) -> Option<Operation<$type>> {
                let (fold, identity): (fn($type, $type) -> $type, $type) = match code {
                    FARSIDE_SUM => (<$type>::wrapping_add, 0),
                    FARSIDE_PRODUCT => (<$type>::wrapping_mul, 1),
                    FARSIDE_MIN => (Ord::min, <$type>::MAX),
                    FARSIDE_MAX => (Ord::max, <$type>::MIN),
                    FARSIDE_AND => (|a, b| a & b, !0),
                    FARSIDE_OR => (|a, b| a | b, 0),
                    FARSIDE_XOR => (|a, b| a ^ b, 0),
                    _ => return None,
                };
                Some(Operation { fold, identity })
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Foldable for $type {
            fn operation(code: c_int) -> Option<Operation<$type>> {
                let (fold, identity): (fn($type, $type) -> $type, $type) = match code {
                    FARSIDE_SUM => (|a, b| a + b, 0.0),
                    FARSIDE_PRODUCT => (|a, b| a * b, 1.0),
                    FARSIDE_MIN => (<$type>::min, <$type>::INFINITY),
                    FARSIDE_MAX => (<$type>::max, <$type>::NEG_INFINITY),
                    _ => return None,
                };
                Some(Operation { fold, identity })
            }
        }

        impl Foldable for Complex<$type> {
            fn operation(code: c_int) -> Option<Operation<Self>> {
                let (fold, re): (fn(Self, Self) -> Self, $type) = match code {
                    FARSIDE_SUM => (|a, b| Complex { re: a.re + b.re, im: a.im + b.im }, 0.0),
                    FARSIDE_PRODUCT => (
                        |a, b| Complex {
                            re: a.re * b.re - a.im * b.im,
                            im: a.re * b.im + a.im * b.re,
                        },
                        1.0,
                    ),
                    _ => return None,
                };
                Some(Operation { fold, identity: Complex { re, im: 0.0 } })
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
floats! { f32 f64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_change_nothing() {
        for code in FARSIDE_SUM..=FARSIDE_XOR {
            let integer = operation::<i32>(code).unwrap();
            assert_eq!((integer.fold)(-7, integer.identity), -7, "{code}");
            let unsigned = operation::<u64>(code).unwrap();
            assert_eq!((unsigned.fold)(7, unsigned.identity), 7, "{code}");
            match operation::<f64>(code) {
                Ok(float) => assert_eq!((float.fold)(-2.5, float.identity), -2.5, "{code}"),
                Err(error) => assert!(error.to_string().contains("f64"), "{error}"),
            }
            if let Ok(complex) = operation::<Complex<f32>>(code) {
                let one = Complex { re: 1.5, im: -2.0 };
                assert_eq!((complex.fold)(one, complex.identity), one, "{code}");
            }
        }
        assert!(operation::<i32>(7).is_err() && operation::<i32>(-1).is_err());
    }

    #[test]
    fn every_kind_and_operation_has_a_code() {
        let named = |number, operation| {
            // SAFETY: there is no scale.
            unsafe { accumulate(number, operation, std::ptr::null()) }
        };
        for number in Number::ALL {
            assert!(NUMBERS.contains(&number), "{number:?}");
        }
        assert_eq!(Op::ALL.len() as c_int, FARSIDE_NO_OP + 1);
        let of = |number, operation| {
            let accumulate = named(number, operation).unwrap();
            (accumulate.number(), accumulate.op())
        };
        for (code, op) in [
            (FARSIDE_SUM, Op::Sum),
            (FARSIDE_PRODUCT, Op::Product),
            (FARSIDE_MIN, Op::Min),
            (FARSIDE_MAX, Op::Max),
            (FARSIDE_AND, Op::And),
            (FARSIDE_OR, Op::Or),
            (FARSIDE_XOR, Op::Xor),
            (FARSIDE_LOGICAL_AND, Op::LogicalAnd),
            (FARSIDE_LOGICAL_OR, Op::LogicalOr),
            (FARSIDE_LOGICAL_XOR, Op::LogicalXor),
            (FARSIDE_REPLACE, Op::Replace),
        ] {
            assert_eq!(of(FARSIDE_U8, code), (Number::U8, op));
        }
        assert_eq!(of(FARSIDE_I16_INDEX, FARSIDE_MAX_LOC), (Number::I16Index, Op::MaxLoc));
        assert_eq!(of(FARSIDE_U16, FARSIDE_MAX), (Number::U16, Op::Max));
        assert_eq!(of(FARSIDE_F64_INDEX, FARSIDE_MIN_LOC), (Number::F64Index, Op::MinLoc));
        assert_eq!(of(FARSIDE_C64, FARSIDE_NO_OP), (Number::C64, Op::NoOp));
        assert_eq!(of(FARSIDE_I8, FARSIDE_LOGICAL_XOR), (Number::I8, Op::LogicalXor));
        for (number, operation) in [(-1, 0), (17, 0), (0, -1), (0, 14)] {
            assert!(named(number, operation).is_err());
        }
        let error = named(FARSIDE_F64, FARSIDE_XOR).unwrap_err();
        assert!(matches!(error, Error::UndefinedOperation { op: Op::Xor, number: Number::F64 }));
    }

    #[test]
    fn complex_numbers_multiply() {
        let product = operation::<Complex<f64>>(FARSIDE_PRODUCT).unwrap().fold;
        let i = Complex { re: 0.0, im: 1.0 };
        assert_eq!(product(i, i), Complex { re: -1.0, im: 0.0 });
    }
}

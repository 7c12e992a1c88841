//! Kinds of numbers and the operations that fold them.

use std::ffi::{c_int, c_void};

use farside::{Complex, Error, Plain, Result, Summand};

use crate::status::{bad, input};

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
            other => Err($crate::number::unknown(other)),
        }
    };
}
pub(crate) use of_number;

/// An unknown kind of number.
#[cold]
pub(crate) fn unknown(number: c_int) -> Error {
    bad(format!("{number} is no kind of number: FARSIDE_I32 to FARSIDE_C64 are"))
}

/// The factor of an accumulate; one where the pointer is null.
///
/// # Safety
///
/// The pointer is null or valid for a read of one number.
pub(crate) unsafe fn scale<T: Summand>(pointer: *const c_void) -> Result<T> {
    if pointer.is_null() {
        return Ok(T::ONE);
    }
    // SAFETY: by the caller's promise.
    Ok(unsafe { input::<T>(pointer.cast(), 1, "scale")? }[0])
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

/// Refuses operations of an accumulate that fabrics do not have.
pub(crate) fn check_accumulate(operation: c_int) -> Result<()> {
    if operation == FARSIDE_SUM {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: format!(
            "accumulate with operation {operation}: fabrics have FARSIDE_SUM; for others, use \
             farside_atomic, or a reduction"
        ),
    })
}

/// Reads an operation.
pub(crate) fn operation<T: Foldable>(code: c_int) -> Result<Operation<T>> {
    if !(FARSIDE_SUM..=FARSIDE_XOR).contains(&code) {
        return Err(bad(format!("{code} is no operation: FARSIDE_SUM to FARSIDE_XOR are")));
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

integers! { i32 i64 u32 u64 }
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
    fn complex_numbers_multiply() {
        let product = operation::<Complex<f64>>(FARSIDE_PRODUCT).unwrap().fold;
        let i = Complex { re: 0.0, im: 1.0 };
        assert_eq!(product(i, i), Complex { re: -1.0, im: 0.0 });
    }
}

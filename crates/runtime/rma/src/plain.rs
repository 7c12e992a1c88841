//! Which types can live in memory that others write: plain data, words, numbers.

use farside_fabric::{Accumulate, Number, Result, Width};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Data without padding, pointers or forbidden values: any bytes are a value, and any value is its
/// bytes.
///
/// Implemented for everything that derives `zerocopy`'s `FromBytes`, `IntoBytes` and `Immutable`
/// and is `Copy`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data, which other ranks could read and write as bytes",
    label = "not plain data",
    note = "numbers and arrays of them are; a struct is, if it is `#[repr(C)]`, has no padding and \
            no pointers, and derives `Clone`, `Copy` and, of `farside::zerocopy`, `FromBytes`, \
            `IntoBytes` and `Immutable` with `#[zerocopy(crate = \"farside::zerocopy\")]`",
    note = "a `bool`, a `char` or an enum has forbidden values: use a number in its place"
)]
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> Plain for T {}

/// What can be loaded, stored, swapped and compared atomically: 32 and 64 bits, and [`Pair`]s of
/// 64.
pub trait AtomicWord: Plain + sealed::Sealed {
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn to_bits(self) -> u128;
    #[doc(hidden)]
    fn from_bits(bits: u128) -> Self;
}

/// A [`AtomicWord`] that can be added to and masked: the integers of 32 and 64 bits.
pub trait Integer: AtomicWord {}

/// What can be accumulated: integers of 8 to 64 bits, `f32`, `f64` and [`Complex`] numbers of the
/// latter two. Integers wrap.
pub trait Summand: Plain + sealed::Sealed {
    #[doc(hidden)]
    const NUMBER: Number;
    /// One, the scale factor that changes nothing.
    const ONE: Self;
    #[doc(hidden)]
    fn sum(self) -> Result<Accumulate> {
        let mut scale = [0; 16];
        scale[..size_of::<Self>()].copy_from_slice(self.as_bytes());
        Accumulate::scaled_sum(Self::NUMBER, scale)
    }
}

/// Two words that change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(16))]
pub struct Pair(pub u64, pub u64);

/// A complex number, real part first.
#[derive(Debug, Clone, Copy, PartialEq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

macro_rules! integers {
    ($($type:ty => $unsigned:ty, $width:expr;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Integer for $type {}
        impl AtomicWord for $type {
            const WIDTH: Width = $width;
            #[inline]
            fn to_bits(self) -> u128 {
                self as $unsigned as u128
            }
            #[inline]
            fn from_bits(bits: u128) -> Self {
                bits as $unsigned as $type
            }
        }
    )*};
}

integers! {
    u32 => u32, Width::W32;
    i32 => u32, Width::W32;
    u64 => u64, Width::W64;
    i64 => u64, Width::W64;
}

impl sealed::Sealed for Pair {}
impl AtomicWord for Pair {
    const WIDTH: Width = Width::Pair;
    #[inline]
    fn to_bits(self) -> u128 {
        u128::from(self.0) | (u128::from(self.1) << 64)
    }
    #[inline]
    fn from_bits(bits: u128) -> Self {
        Pair(bits as u64, (bits >> 64) as u64)
    }
}

macro_rules! summands {
    ($($type:ty => $number:expr, $one:expr;)*) => {$(
        impl Summand for $type {
            const NUMBER: Number = $number;
            const ONE: Self = $one;
        }
    )*};
}

summands! {
    i8 => Number::I8, 1;
    i16 => Number::I16, 1;
    i32 => Number::I32, 1;
    i64 => Number::I64, 1;
    u8 => Number::U8, 1;
    u16 => Number::U16, 1;
    u32 => Number::U32, 1;
    u64 => Number::U64, 1;
    f32 => Number::F32, 1.0;
    f64 => Number::F64, 1.0;
    Complex<f32> => Number::C32, Complex { re: 1.0, im: 0.0 };
    Complex<f64> => Number::C64, Complex { re: 1.0, im: 0.0 };
}

impl sealed::Sealed for i8 {}
impl sealed::Sealed for i16 {}
impl sealed::Sealed for u8 {}
impl sealed::Sealed for u16 {}
impl sealed::Sealed for f32 {}
impl sealed::Sealed for f64 {}
impl sealed::Sealed for Complex<f32> {}
impl sealed::Sealed for Complex<f64> {}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_survive_the_trip_through_bits() {
        assert_eq!(i32::from_bits((-5i32).to_bits()), -5);
        assert_eq!(
            (-5i32).to_bits(),
            u128::from(u32::MAX - 4),
            "no sign leaks into the upper half"
        );
        assert_eq!(i64::from_bits(i64::MIN.to_bits()), i64::MIN);
        assert_eq!(Pair::from_bits(Pair(1, u64::MAX).to_bits()), Pair(1, u64::MAX));
        assert_eq!(
            Pair(1, 2).as_bytes()[..8],
            1u64.to_le_bytes(),
            "the low half comes first in memory"
        );
    }
}

//! Numbers with the usual folds: sum, minimum, maximum.

use crate::plain::Plain;

/// A number that [`Team::all_sum`](crate::Team::all_sum), `all_min` and `all_max` fold: all
/// integers and floating-point numbers.
pub trait Numeric: Plain {
    /// Returns the sum; integers wrap.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Returns the smaller one; of a number and a NaN, the number.
    #[must_use]
    fn lesser(self, other: Self) -> Self;
    /// Returns the larger one; of a number and a NaN, the number.
    #[must_use]
    fn greater(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Numeric for $type {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Numeric for $type {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize }
floats! { f32 f64 }

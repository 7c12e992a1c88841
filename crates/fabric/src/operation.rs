//! Operations as plain data, each with its reference meaning.
//!
//! A fabric may execute an operation with the processor's atomics, in a network interface or in a
//! simulation: what it must do is what [`Atomic::apply`] and [`Sum::apply`] say.

use crate::address::Shape;
use crate::error::{Error, Result};

/// How wide a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
    /// A pair of 64 bits, aligned to 16 bytes; the first is the low half.
    Pair,
}

impl Width {
    /// Its size, which is also its alignment.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Width::W32 => 4,
            Width::W64 => 8,
            Width::Pair => 16,
        }
    }

    /// Returns the bits of `value` that such a word keeps.
    #[inline]
    pub const fn truncate(self, value: u128) -> u128 {
        match self {
            Width::W32 => value as u32 as u128,
            Width::W64 => value as u64 as u128,
            Width::Pair => value,
        }
    }
}

/// An atomic operation on one word. All of them return what the word held before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// Changes nothing.
    Load,
    /// Writes the operand. A *signal* is a store whose old value is not returned.
    Store(u128),
    /// Adds the operand, wrapping.
    Add(u128),
    /// Writes the operand.
    Swap(u128),
    /// Writes `desired` if the word holds `expected`.
    CompareSwap {
        /// What the word must hold.
        expected: u128,
        /// What it is to hold then.
        desired: u128,
    },
    /// Keeps the bits that the operand has too.
    And(u128),
    /// Sets the operand's bits.
    Or(u128),
    /// Flips the operand's bits.
    Xor(u128),
}

impl Atomic {
    /// Returns the reference meaning: what the word holds after the operation, when it held `old`
    /// before.
    pub fn apply(self, width: Width, old: u128) -> u128 {
        let new = match self {
            Atomic::Load => old,
            Atomic::Store(value) | Atomic::Swap(value) => value,
            Atomic::Add(value) => old.wrapping_add(value),
            Atomic::CompareSwap { expected, desired } if width.truncate(expected) == old => desired,
            Atomic::CompareSwap { .. } => old,
            Atomic::And(value) => old & value,
            Atomic::Or(value) => old | value,
            Atomic::Xor(value) => old ^ value,
        };
        width.truncate(new)
    }

    /// Checks that the operation exists for words of this width: pairs are loaded, stored,
    /// swapped and compared only.
    pub fn check(self, width: Width) -> Result<()> {
        match (width, self) {
            (Width::Pair, Atomic::Add(_) | Atomic::And(_) | Atomic::Or(_) | Atomic::Xor(_)) => {
                Err(Error::Unsupported { what: format!("{} on a pair", self.name()) })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the operation may change the word.
    pub fn writes(self) -> bool {
        !matches!(self, Atomic::Load)
    }

    /// Returns the verb, for messages and traces.
    pub fn name(self) -> &'static str {
        match self {
            Atomic::Load => "load",
            Atomic::Store(_) => "store",
            Atomic::Add(_) => "fetch_add",
            Atomic::Swap(_) => "swap",
            Atomic::CompareSwap { .. } => "compare_swap",
            Atomic::And(_) => "fetch_and",
            Atomic::Or(_) => "fetch_or",
            Atomic::Xor(_) => "fetch_xor",
        }
    }
}

/// What kind of number an accumulate adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// 32-bit integer, wrapping.
    I32,
    /// 64-bit integer, wrapping.
    I64,
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// Complex of two 32-bit floating points, real part first.
    C32,
    /// Complex of two 64-bit floating points, real part first.
    C64,
}

impl Number {
    /// Returns the size of one element.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Number::I32 | Number::F32 => 4,
            Number::I64 | Number::F64 | Number::C32 => 8,
            Number::C64 => 16,
        }
    }

    /// Returns what an element's offset must be a multiple of: its size.
    #[inline]
    pub const fn align(self) -> u64 {
        self.bytes()
    }
}

fn zip<const N: usize>(
    into: &mut [u8],
    from: &[u8],
    combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    for (into, from) in into.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *into = combine(*into, *from);
    }
}

/// An accumulate: every element of the target grows by `scale` times the element of the message.
///
/// Each element, of a complex number each part, is updated atomically with respect to other
/// accumulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The kind of the elements.
    pub number: Number,
    /// The scale factor, in the memory representation of one element, padded with zeros.
    pub scale: [u8; 16],
}

impl Sum {
    /// Checks that every run of a shape is made of whole, aligned elements.
    pub fn check(&self, shape: &Shape<'_>) -> Result<()> {
        let (size, align) = (self.number.bytes(), self.number.align());
        let mut result = Ok(());
        shape.for_each(|piece| {
            let fault = if !piece.offset.is_multiple_of(align) {
                Error::Misaligned { offset: piece.offset, align }
            } else if !piece.bytes.is_multiple_of(size) {
                let what = "bytes of a piece against the size of a number";
                Error::Mismatch { what, left: piece.bytes, right: size }
            } else {
                return;
            };
            if result.is_ok() {
                result = Err(fault);
            }
        });
        result
    }

    /// The same as [`Sum::apply`] for many elements at once, in loops that the compiler makes fast.
    pub(crate) fn apply_all(&self, y: &mut [u8], x: &[u8]) {
        fn part<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
            std::array::from_fn(|i| from[at + i])
        }
        let scale = &self.scale;
        match self.number {
            Number::I32 => {
                let s = i32::from_le_bytes(part(scale, 0));
                zip(y, x, |y, x| {
                    i32::from_le_bytes(y)
                        .wrapping_add(s.wrapping_mul(i32::from_le_bytes(x)))
                        .to_le_bytes()
                });
            }
            Number::I64 => {
                let s = i64::from_le_bytes(part(scale, 0));
                zip(y, x, |y, x| {
                    i64::from_le_bytes(y)
                        .wrapping_add(s.wrapping_mul(i64::from_le_bytes(x)))
                        .to_le_bytes()
                });
            }
            Number::F32 => {
                let s = f32::from_le_bytes(part(scale, 0));
                zip(y, x, |y, x| (f32::from_le_bytes(y) + s * f32::from_le_bytes(x)).to_le_bytes());
            }
            Number::F64 => {
                let s = f64::from_le_bytes(part(scale, 0));
                zip(y, x, |y, x| (f64::from_le_bytes(y) + s * f64::from_le_bytes(x)).to_le_bytes());
            }
            Number::C32 | Number::C64 => {
                let size = self.number.bytes() as usize;
                y.chunks_exact_mut(size)
                    .zip(x.chunks_exact(size))
                    .for_each(|(y, x)| self.apply(y, x));
            }
        }
    }

    /// The reference meaning, for one element: what it holds after `x` was accumulated to `y`.
    pub fn apply(&self, y: &mut [u8], x: &[u8]) {
        fn bytes<const N: usize>(from: &[u8]) -> [u8; N] {
            std::array::from_fn(|i| from[i])
        }
        let scale = &self.scale;
        match self.number {
            Number::I32 => {
                let [y_, x, s] = [&*y, x, scale].map(|b| i32::from_le_bytes(bytes(b)));
                y.copy_from_slice(&y_.wrapping_add(s.wrapping_mul(x)).to_le_bytes());
            }
            Number::I64 => {
                let [y_, x, s] = [&*y, x, scale].map(|b| i64::from_le_bytes(bytes(b)));
                y.copy_from_slice(&y_.wrapping_add(s.wrapping_mul(x)).to_le_bytes());
            }
            Number::F32 => {
                let [y_, x, s] = [&*y, x, scale].map(|b| f32::from_le_bytes(bytes(b)));
                y.copy_from_slice(&(y_ + s * x).to_le_bytes());
            }
            Number::F64 => {
                let [y_, x, s] = [&*y, x, scale].map(|b| f64::from_le_bytes(bytes(b)));
                y.copy_from_slice(&(y_ + s * x).to_le_bytes());
            }
            Number::C32 => {
                let part = |b: &[u8]| [0, 4].map(|at| f32::from_le_bytes(bytes(&b[at..])));
                let ([yr, yi], [xr, xi], [sr, si]) = (part(y), part(x), part(scale));
                y[..4].copy_from_slice(&(yr + (sr * xr - si * xi)).to_le_bytes());
                y[4..].copy_from_slice(&(yi + (sr * xi + si * xr)).to_le_bytes());
            }
            Number::C64 => {
                let part = |b: &[u8]| [0, 8].map(|at| f64::from_le_bytes(bytes(&b[at..])));
                let ([yr, yi], [xr, xi], [sr, si]) = (part(y), part(x), part(scale));
                y[..8].copy_from_slice(&(yr + (sr * xr - si * xi)).to_le_bytes());
                y[8..].copy_from_slice(&(yi + (sr * xi + si * xr)).to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_meaning_of_every_atomic() {
        let w = Width::W32;
        assert_eq!(Atomic::Load.apply(w, 5), 5);
        assert_eq!(Atomic::Store(9).apply(w, 5), 9);
        assert_eq!(Atomic::Add(u128::from(u32::MAX)).apply(w, 5), 4);
        assert_eq!(Atomic::Swap(1 << 40).apply(w, 5), 0);
        assert_eq!(Atomic::CompareSwap { expected: 5, desired: 6 }.apply(w, 5), 6);
        assert_eq!(Atomic::CompareSwap { expected: 4, desired: 6 }.apply(w, 5), 5);
        assert_eq!(Atomic::And(4).apply(w, 5), 4);
        assert_eq!(Atomic::Or(2).apply(w, 5), 7);
        assert_eq!(Atomic::Xor(1).apply(w, 5), 4);
    }

    #[test]
    fn a_pair_has_no_arithmetic() {
        assert!(Atomic::Add(1).check(Width::Pair).is_err());
        assert!(Atomic::Swap(1).check(Width::Pair).is_ok());
    }

    #[test]
    fn sums_take_whole_aligned_elements() {
        let sum = Sum { number: Number::F64, scale: [0; 16] };
        let block = |offset, bytes| Shape::Block(crate::address::Piece { offset, bytes });
        assert_eq!(sum.check(&block(16, 24)), Ok(()));
        assert_eq!(sum.check(&block(4, 8)), Err(Error::Misaligned { offset: 4, align: 8 }));
        assert!(matches!(
            sum.check(&block(8, 12)),
            Err(Error::Mismatch { left: 12, right: 8, .. })
        ));
    }

    #[test]
    fn complex_sums_multiply_by_a_complex_scale() {
        let mut scale = [0; 16];
        scale[..8].copy_from_slice(&0f64.to_le_bytes());
        scale[8..].copy_from_slice(&1f64.to_le_bytes());
        let mut y = [0u8; 16];
        let mut x = [0u8; 16];
        x[..8].copy_from_slice(&3f64.to_le_bytes());
        Sum { number: Number::C64, scale }.apply(&mut y, &x);
        assert_eq!(f64::from_le_bytes(y[..8].try_into().unwrap()), 0.0);
        assert_eq!(f64::from_le_bytes(y[8..].try_into().unwrap()), 3.0);
    }
}

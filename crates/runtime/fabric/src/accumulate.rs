//! Accumulates as plain data: the numbers, the operations, and the reference meaning of each.
//!
//! An accumulate combines every element `y` of the target with the element `x` of the message that
//! goes there. What a fabric must do, wherever it does it, is what [`Accumulate::apply`] says.

mod element;

use crate::address::{Region, Shape};
use crate::error::{Error, Result};
use crate::number::{Number, Op};

pub(crate) use element::{Element, Visit, visit};

/// An accumulate: an operation of one kind of elements, which that kind has.
///
/// Each element, of a complex number each part, is updated atomically with respect to other
/// accumulates of the same kind of elements, whatever their operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accumulate {
    number: Number,
    op: Op,
    /// The factor of a sum, or the value that a compare-swap expects, in the memory representation
    /// of one element, padded with zeros.
    operand: Option<[u8; 16]>,
}

impl Accumulate {
    /// Describes an accumulate; [`Error::UndefinedOperation`] if these elements lack the operation.
    #[inline]
    pub const fn new(number: Number, op: Op) -> Result<Accumulate> {
        if op.is_defined_for(number) {
            Ok(Accumulate { number, op, operand: None })
        } else {
            Err(Error::UndefinedOperation { op, number })
        }
    }

    /// Describes a sum of elements that are multiplied by `scale`, one element in its memory
    /// representation, padded with zeros.
    #[inline]
    pub fn scaled_sum(number: Number, scale: [u8; 16]) -> Result<Accumulate> {
        let sum = Accumulate::new(number, Op::Sum)?;
        Ok(Accumulate { operand: (scale != one(number)).then_some(scale), ..sum })
    }

    /// Describes a compare-swap: an element is replaced if it equals `expected`, one element in its
    /// memory representation, padded with zeros. For integers.
    pub const fn compare_swap(number: Number, expected: [u8; 16]) -> Result<Accumulate> {
        if number.is_integer() {
            Ok(Accumulate { number, op: Op::Replace, operand: Some(expected) })
        } else {
            Err(Error::UndefinedOperation { op: Op::Replace, number })
        }
    }

    /// Returns the kind of its elements.
    #[inline]
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Returns its operation.
    #[inline]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Returns the factor of a sum, unless it is one, or the value that a compare-swap expects.
    #[inline]
    pub const fn operand(&self) -> Option<[u8; 16]> {
        self.operand
    }

    /// Returns whether it may change its target.
    #[inline]
    pub const fn writes(&self) -> bool {
        !matches!(self.op, Op::NoOp)
    }

    /// Returns how long the message is for so many bytes of a target: a no-op needs none.
    #[inline]
    pub const fn message_bytes(&self, target_bytes: u64) -> u64 {
        if self.writes() { target_bytes } else { 0 }
    }

    /// Checks that every run of a region is made of whole, aligned elements, and that the message
    /// has as many bytes as they need.
    pub fn check(&self, region: &Region<'_>, message_bytes: usize) -> Result<()> {
        let (left, right) = (self.message_bytes(region.shape.bytes()?), message_bytes as u64);
        if left != right {
            let what = "bytes of a region and of the message";
            return Err(Error::Mismatch { what, left, right });
        }
        self.check_shape(&region.shape)
    }

    fn check_shape(&self, shape: &Shape<'_>) -> Result<()> {
        let (size, align) = (self.number.bytes(), self.number.align());
        let mut result = Ok(());
        shape.for_each(|piece| {
            let fault = if !piece.offset.is_multiple_of(align) {
                Error::Misaligned { offset: piece.offset, align }
            } else if !piece.bytes.is_multiple_of(size) {
                let what = "bytes of a piece and the size of a number";
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

    /// The reference meaning, for one element: what `y` holds after `x` has come to it. Which of
    /// its NaNs a floating-point sum or product yields is not defined.
    pub fn apply(&self, y: &mut [u8], x: &[u8]) {
        element::apply(self, y, x);
    }

    /// [`Accumulate::apply`] for runs of elements, of which both have as many.
    pub fn apply_all(&self, y: &mut [u8], x: &[u8]) {
        match self.op {
            Op::NoOp => {}
            Op::Replace if self.operand.is_none() => y.copy_from_slice(x),
            _ => element::apply_all(self, y, x),
        }
    }
}

/// One, as an element of a kind that has sums.
#[inline]
fn one(number: Number) -> [u8; 16] {
    let mut bytes = [0; 16];
    match number {
        Number::F32 | Number::C32 => bytes[..4].copy_from_slice(&1f32.to_le_bytes()),
        Number::F64 | Number::C64 => bytes[..8].copy_from_slice(&1f64.to_le_bytes()),
        _ => bytes[0] = 1,
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Rank, SegmentId};

    #[test]
    fn a_combination_that_does_not_exist_is_named() {
        let refused = |number, op| Accumulate::new(number, op).unwrap_err().to_string();
        assert!(refused(Number::F64, Op::Xor).contains("xor of f64"));
        assert!(refused(Number::C32, Op::Min).contains("min of complex of f32"));
        assert!(refused(Number::I32, Op::MinLoc).contains("minloc of i32"));
        assert!(refused(Number::F32Index, Op::Sum).contains("sum of f32 with an index"));
        let defined = |op: &Op| Number::ALL.into_iter().filter(|&it| op.is_defined_for(it)).count();
        let counts: Vec<usize> = Op::ALL.iter().map(defined).collect();
        assert_eq!(counts, [12, 12, 10, 10, 8, 8, 8, 8, 8, 8, 5, 5, 17, 17]);
    }

    #[test]
    fn accumulates_take_whole_aligned_elements() {
        let check = |number, offset, bytes, message| {
            let sum = Accumulate::new(number, Op::Replace).unwrap();
            sum.check(&Region::block(Rank(0), SegmentId(9), offset, bytes), message)
        };
        assert_eq!(check(Number::F64, 16, 24, 24), Ok(()));
        assert_eq!(check(Number::C64, 8, 32, 32), Ok(()), "its parts are aligned");
        let misaligned = Error::Misaligned { offset: 4, align: 8 };
        assert_eq!(check(Number::F64, 4, 8, 8), Err(misaligned));
        assert!(matches!(check(Number::F64, 8, 12, 12), Err(Error::Mismatch { left: 12, .. })));
        assert!(matches!(check(Number::I8, 3, 12, 11), Err(Error::Mismatch { right: 11, .. })));
        let nothing = Accumulate::new(Number::I8, Op::NoOp).unwrap();
        let region = Region::block(Rank(0), SegmentId(9), 0, 3);
        assert_eq!(nothing.check(&region, 0), Ok(()), "a no-op needs no message");
    }

    #[test]
    fn runs_of_elements_combine_one_by_one() {
        for (number, op) in Number::ALL.into_iter().flat_map(|it| Op::ALL.map(|op| (it, op))) {
            let Ok(accumulate) = Accumulate::new(number, op) else { continue };
            let bytes = 3 * number.bytes() as usize;
            let (x, mut y): (Vec<u8>, Vec<u8>) = (0..bytes as u8).map(|at| (at, 60 - at)).unzip();
            let mut single = y.clone();
            let size = number.bytes() as usize;
            for (y, x) in single.chunks_mut(size).zip(x.chunks(size)) {
                accumulate.apply(y, x);
            }
            accumulate.apply_all(&mut y, &x);
            assert_eq!(y, single, "{op:?} of {number:?}");
        }
    }

    #[test]
    fn a_scale_of_one_is_none() {
        for number in Number::ALL.into_iter().filter(|&it| Op::Sum.is_defined_for(it)) {
            let sum = Accumulate::scaled_sum(number, one(number)).unwrap();
            assert_eq!(sum.operand(), None, "{number:?}");
            assert!(Accumulate::scaled_sum(number, [3; 16]).unwrap().operand().is_some());
        }
        assert!(Accumulate::scaled_sum(Number::I64Index, [0; 16]).is_err());
    }
}

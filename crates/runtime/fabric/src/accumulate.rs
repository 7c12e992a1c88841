//! Accumulates as plain data: the numbers, the operations, and the reference meaning of each.
//!
//! An accumulate combines every element `y` of the target with the element `x` of the message that
//! goes there. What a fabric must do, wherever it does it, is what [`Accumulate::apply`] says.

mod element;

use crate::address::{Region, Shape};
use crate::error::{Error, Result};

pub(crate) use element::{Element, Visit, visit};

/// Defines an enumeration whose values have codes and names.
macro_rules! coded {
    (
        $(#[$of_all:meta])*
        $type:ident { $($(#[$of_one:meta])* $one:ident = $name:literal,)* }
    ) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$of_one])* $one,)*
        }

        impl $type {
            /// All of them, each at its [code](Self::code).
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$one),*];

            /// Returns the number that stands for it in messages.
            #[inline]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// Returns the one with a code.
            pub fn from_code(code: u8) -> Option<$type> {
                $type::ALL.get(usize::from(code)).copied()
            }

            /// Returns its name, for messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$one => $name,)*
                }
            }
        }
    };
}

coded! {
    /// The kind of the elements of an accumulate.
    ///
    /// The last five are pairs of a value and an index, as `MPI_MINLOC` and `MPI_MAXLOC` compare
    /// them: what C makes of a structure of the value and an `int32_t`.
    Number {
        /// Signed integer of 8 bits.
        I8 = "i8",
        /// Signed integer of 16 bits.
        I16 = "i16",
        /// Signed integer of 32 bits.
        I32 = "i32",
        /// Signed integer of 64 bits.
        I64 = "i64",
        /// Unsigned integer of 8 bits.
        U8 = "u8",
        /// Unsigned integer of 16 bits.
        U16 = "u16",
        /// Unsigned integer of 32 bits.
        U32 = "u32",
        /// Unsigned integer of 64 bits.
        U64 = "u64",
        /// Floating point of 32 bits.
        F32 = "f32",
        /// Floating point of 64 bits.
        F64 = "f64",
        /// Complex of two [`Number::F32`], real part first.
        C32 = "complex of f32",
        /// Complex of two [`Number::F64`], real part first.
        C64 = "complex of f64",
        /// [`Number::I16`] and an index, in 8 bytes.
        I16Index = "i16 with an index",
        /// [`Number::I32`] and an index, in 8 bytes.
        I32Index = "i32 with an index",
        /// [`Number::I64`] and an index, in 16 bytes.
        I64Index = "i64 with an index",
        /// [`Number::F32`] and an index, in 8 bytes.
        F32Index = "f32 with an index",
        /// [`Number::F64`] and an index, in 16 bytes.
        F64Index = "f64 with an index",
    }
}

impl Number {
    /// Returns the size of one element.
    #[inline]
    pub const fn bytes(self) -> u64 {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 | Number::C32 => 8,
            Number::I16Index | Number::I32Index | Number::F32Index => 8,
            Number::C64 | Number::I64Index | Number::F64Index => 16,
        }
    }

    /// Returns what an element's offset must be a multiple of: the size of its largest part, as in
    /// C.
    #[inline]
    pub const fn align(self) -> u64 {
        match self {
            Number::C32 | Number::I16Index | Number::I32Index | Number::F32Index => 4,
            Number::C64 | Number::I64Index | Number::F64Index => 8,
            whole => whole.bytes(),
        }
    }

    const fn is_integer(self) -> bool {
        (self as u8) < Number::F32 as u8
    }

    const fn is_float(self) -> bool {
        matches!(self, Number::F32 | Number::F64)
    }

    const fn has_index(self) -> bool {
        self as u8 >= Number::I16Index as u8
    }
}

coded! {
    /// What an accumulate makes of an element `y` of the target and the `x` that comes to it.
    Op {
        /// `y + x`, or `y + scale * x`; integers wrap.
        Sum = "sum",
        /// `y * x`; integers wrap.
        Product = "product",
        /// The lesser one. Of a number and a NaN it is the number, of equal ones `y`.
        Min = "min",
        /// The greater one. Of a number and a NaN it is the number, of equal ones `y`.
        Max = "max",
        /// The bits that both have.
        And = "and",
        /// The bits that one of them has, or both.
        Or = "or",
        /// The bits that only one of them has.
        Xor = "xor",
        /// 1 if both are not zero, else 0.
        LogicalAnd = "logical and",
        /// 1 if one of them is not zero, else 0.
        LogicalOr = "logical or",
        /// 1 if only one of them is not zero, else 0.
        LogicalXor = "logical xor",
        /// The pair with the lesser value, of equal values that with the lesser index.
        MinLoc = "minloc",
        /// The pair with the greater value, of equal values that with the lesser index.
        MaxLoc = "maxloc",
        /// `x`; in a [compare-swap](Accumulate::compare_swap) only if `y` is what it expects, else `y`.
        Replace = "replace",
        /// `y`: nothing changes, and the message is empty. For fetching.
        NoOp = "no-op",
    }
}

impl Op {
    /// Returns whether there is such an operation of these elements.
    pub const fn is_defined_for(self, number: Number) -> bool {
        match self {
            Op::Sum | Op::Product => !number.has_index(),
            Op::Min | Op::Max => number.is_integer() || number.is_float(),
            Op::And | Op::Or | Op::Xor => number.is_integer(),
            Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor => number.is_integer(),
            Op::MinLoc | Op::MaxLoc => number.has_index(),
            Op::Replace | Op::NoOp => true,
        }
    }
}

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
            let what = "bytes of a region against bytes of the message";
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
    use crate::address::{Rank, SegmentId};

    #[test]
    fn codes_are_positions() {
        for (code, number) in Number::ALL.into_iter().enumerate() {
            assert_eq!(Number::from_code(code as u8), Some(number));
            assert_eq!(number.code(), code as u8);
            assert!(number.bytes().is_multiple_of(number.align()), "{number:?}");
        }
        for (code, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!((Op::from_code(code as u8), op.code()), (Some(op), code as u8));
        }
        assert_eq!((Number::from_code(17), Op::from_code(14)), (None, None));
    }

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

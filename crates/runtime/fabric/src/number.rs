//! The kinds of numbers that accumulates have for elements, and what they make of them.

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

    pub(crate) const fn is_integer(self) -> bool {
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
        /// `x`; in a [compare-swap](crate::Accumulate::compare_swap) only if `y` is what it
        /// expects, else `y`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

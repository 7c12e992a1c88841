//! Elements of accumulates as types, and the functions that combine them.
//!
//! [`Element::combine`] is the one definition of every operation. The reference calls it as it is;
//! loops over many elements get it from [`visit`] with the operation fixed, so that little is left
//! of it and the compiler makes vector instructions of the rest.

use super::{Accumulate, Number, Op};

/// A type whose values are the elements of one kind, or of several that an operation treats alike.
///
/// Any bytes are a value, and every byte of a value is initialized: loops copy them as vectors.
pub(crate) trait Element: Copy {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    /// Returns what `op` makes of `y` when `x` comes to it. An operation that these elements do not
    /// have leaves `y` as it is.
    fn combine(op: Op, scale: Option<Self>, y: Self, x: Self) -> Self;
}

/// What [`visit`] calls with the function of an accumulate.
pub(crate) trait Visit {
    /// Is called with elements of which `N` make 64 bytes.
    fn with<T: Element, const N: usize>(self, combine: impl Fn(T, T) -> T);
}

/// Combines one element. See [`Accumulate::apply`].
pub(super) fn apply(accumulate: &Accumulate, y: &mut [u8], x: &[u8]) {
    fn one<T: Element>(accumulate: &Accumulate, y: &mut [u8], x: &[u8]) {
        let scale = accumulate.operand.map(|operand| T::read(&operand));
        // A no-op has no message.
        let x = if accumulate.writes() { T::read(x) } else { T::read(y) };
        T::combine(accumulate.op, scale, T::read(y), x).write(y);
    }
    let run = match accumulate.number {
        Number::I8 => one::<i8>,
        Number::I16 => one::<i16>,
        Number::I32 => one::<i32>,
        Number::I64 => one::<i64>,
        Number::U8 => one::<u8>,
        Number::U16 => one::<u16>,
        Number::U32 => one::<u32>,
        Number::U64 => one::<u64>,
        Number::F32 => one::<f32>,
        Number::F64 => one::<f64>,
        Number::C32 => one::<[f32; 2]>,
        Number::C64 => one::<[f64; 2]>,
        Number::I16Index => one::<I16Index>,
        Number::I32Index => one::<I32Index>,
        Number::I64Index => one::<I64Index>,
        Number::F32Index => one::<F32Index>,
        Number::F64Index => one::<F64Index>,
    };
    run(accumulate, y, x);
}

/// Combines runs of elements of an accumulate that [`visit`] knows.
pub(super) fn apply_all(accumulate: &Accumulate, y: &mut [u8], x: &[u8]) {
    struct Runs<'a>(&'a mut [u8], &'a [u8]);
    impl Visit for Runs<'_> {
        #[inline(always)]
        fn with<T: Element, const N: usize>(self, combine: impl Fn(T, T) -> T) {
            let ys = self.0.chunks_exact_mut(size_of::<T>());
            for (y, x) in ys.zip(self.1.chunks_exact(size_of::<T>())) {
                combine(T::read(y), T::read(x)).write(y);
            }
        }
    }
    visit(accumulate, Runs(y, x));
}

/// Calls `visitor` with the function of an accumulate that is neither a plain replacement nor a
/// no-op.
///
/// Kinds that an operation treats alike share one function: sums and products wrap whether they are
/// signed or not, bits have no kind, and a complex sum is that of its parts.
#[inline(always)]
pub(crate) fn visit(accumulate: &Accumulate, visitor: impl Visit) {
    match accumulate.number {
        _ if is_bitwise(accumulate.op) => bits(accumulate, visitor),
        Number::I8 => integers::<i8, 64>(accumulate, visitor),
        Number::I16 => integers::<i16, 32>(accumulate, visitor),
        Number::I32 => integers::<i32, 16>(accumulate, visitor),
        Number::I64 => integers::<i64, 8>(accumulate, visitor),
        Number::U8 => unsigned::<u8, i8, 64>(accumulate, visitor),
        Number::U16 => unsigned::<u16, i16, 32>(accumulate, visitor),
        Number::U32 => unsigned::<u32, i32, 16>(accumulate, visitor),
        Number::U64 => unsigned::<u64, i64, 8>(accumulate, visitor),
        Number::F32 => floats::<f32, 16>(accumulate, visitor),
        Number::F64 => floats::<f64, 8>(accumulate, visitor),
        Number::C32 => complexes::<[f32; 2], f32, 8, 16>(accumulate, visitor),
        Number::C64 => complexes::<[f64; 2], f64, 4, 8>(accumulate, visitor),
        Number::I16Index => indexed::<I16Index, 8>(accumulate, visitor),
        Number::I32Index => indexed::<I32Index, 8>(accumulate, visitor),
        Number::I64Index => indexed::<I64Index, 4>(accumulate, visitor),
        Number::F32Index => indexed::<F32Index, 8>(accumulate, visitor),
        Number::F64Index => indexed::<F64Index, 4>(accumulate, visitor),
    }
}

fn is_bitwise(op: Op) -> bool {
    matches!(op, Op::And | Op::Or | Op::Xor)
}

/// Calls a visitor with `combine` for one of some operations.
macro_rules! with_one_of {
    ($visitor:ident, $type:ty, $count:expr, $op:expr, $($each:ident)*) => {
        match $op {
            $(Op::$each => $visitor.with::<$type, { $count }>(
                |y, x| <$type>::combine(Op::$each, None, y, x),
            ),)*
            // The others do not exist for these elements.
            _ => {}
        }
    };
}

#[inline(always)]
fn bits(accumulate: &Accumulate, visitor: impl Visit) {
    with_one_of!(visitor, u8, 64, accumulate.op, And Or Xor);
}

#[inline(always)]
fn sums<T: Element, const N: usize>(accumulate: &Accumulate, visitor: impl Visit) {
    match accumulate.operand.map(|scale| T::read(&scale)) {
        None => visitor.with::<T, N>(|y, x| T::combine(Op::Sum, None, y, x)),
        Some(scale) => visitor.with::<T, N>(move |y, x| T::combine(Op::Sum, Some(scale), y, x)),
    }
}

#[inline(always)]
fn integers<T: Element, const N: usize>(accumulate: &Accumulate, visitor: impl Visit) {
    match accumulate.op {
        Op::Sum => sums::<T, N>(accumulate, visitor),
        Op::Replace => {
            let expected = accumulate.operand.map(|expected| T::read(&expected));
            visitor.with::<T, N>(move |y, x| T::combine(Op::Replace, expected, y, x));
        }
        op => with_one_of!(
            visitor, T, N, op, Product Min Max LogicalAnd LogicalOr LogicalXor
        ),
    }
}

#[inline(always)]
fn unsigned<T: Element, S: Element, const N: usize>(accumulate: &Accumulate, visitor: impl Visit) {
    match accumulate.op {
        op @ (Op::Min | Op::Max) => with_one_of!(visitor, T, N, op, Min Max),
        _ => integers::<S, N>(accumulate, visitor),
    }
}

#[inline(always)]
fn floats<T: Element, const N: usize>(accumulate: &Accumulate, visitor: impl Visit) {
    match accumulate.op {
        Op::Sum => sums::<T, N>(accumulate, visitor),
        op => with_one_of!(visitor, T, N, op, Product Min Max),
    }
}

#[inline(always)]
fn complexes<T: Element, P: Element, const N: usize, const M: usize>(
    accumulate: &Accumulate,
    visitor: impl Visit,
) {
    match accumulate.op {
        Op::Sum if accumulate.operand.is_none() => sums::<P, M>(accumulate, visitor),
        Op::Sum => sums::<T, N>(accumulate, visitor),
        op => with_one_of!(visitor, T, N, op, Product),
    }
}

#[inline(always)]
fn indexed<T: Element, const N: usize>(accumulate: &Accumulate, visitor: impl Visit) {
    with_one_of!(visitor, T, N, accumulate.op, MinLoc MaxLoc);
}

/// The methods of an element that is read from and written to its memory representation.
macro_rules! by_bytes {
    ($type:ty) => {
        #[inline(always)]
        fn read(bytes: &[u8]) -> Self {
            <$type>::from_le_bytes(array(bytes))
        }
        #[inline(always)]
        fn write(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }
    };
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Element for $type {
            by_bytes!($type);
            #[inline(always)]
            fn combine(op: Op, scale: Option<Self>, y: Self, x: Self) -> Self {
                match (op, scale) {
                    (Op::Sum, None) => y.wrapping_add(x),
                    (Op::Sum, Some(scale)) => y.wrapping_add(scale.wrapping_mul(x)),
                    (Op::Product, _) => y.wrapping_mul(x),
                    (Op::Min, _) => y.min(x),
                    (Op::Max, _) => y.max(x),
                    (Op::And, _) => y & x,
                    (Op::Or, _) => y | x,
                    (Op::Xor, _) => y ^ x,
                    (Op::LogicalAnd, _) => ((y != 0) & (x != 0)).into(),
                    (Op::LogicalOr, _) => ((y | x) != 0).into(),
                    (Op::LogicalXor, _) => ((y != 0) != (x != 0)).into(),
                    (Op::Replace, None) => x,
                    (Op::Replace, Some(expected)) => if y == expected { x } else { y },
                    (Op::MinLoc | Op::MaxLoc | Op::NoOp, _) => y,
                }
            }
        }
    )*};
}
integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! float {
    ($($type:ty, $half:expr;)*) => {$(
        impl Element for $type {
            by_bytes!($type);
            #[inline(always)]
            fn combine(op: Op, scale: Option<Self>, y: Self, x: Self) -> Self {
                match (op, scale) {
                    (Op::Sum, None) => y + x,
                    (Op::Sum, Some(scale)) => y + scale * x,
                    (Op::Product, _) => y * x,
                    (Op::Min, _) => if (x < y) | y.is_nan() { x } else { y },
                    (Op::Max, _) => if (x > y) | y.is_nan() { x } else { y },
                    (Op::Replace, _) => x,
                    _ => y,
                }
            }
        }

        /// A complex number.
        impl Element for [$type; 2] {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                [Element::read(bytes), Element::read(&bytes[$half..])]
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes[..$half].copy_from_slice(&self[0].to_le_bytes());
                bytes[$half..].copy_from_slice(&self[1].to_le_bytes());
            }
            #[inline(always)]
            fn combine(op: Op, scale: Option<Self>, y: Self, x: Self) -> Self {
                let times = |[a, b]: Self, [c, d]: Self| [a * c - b * d, a * d + b * c];
                match (op, scale) {
                    (Op::Sum, None) => [y[0] + x[0], y[1] + x[1]],
                    (Op::Sum, Some(scale)) => {
                        let x = times(scale, x);
                        [y[0] + x[0], y[1] + x[1]]
                    }
                    (Op::Product, _) => times(y, x),
                    (Op::Replace, _) => x,
                    _ => y,
                }
            }
        }
    )*};
}
float! { f32, 4; f64, 8; }

/// Pairs of a value and an index, as words: what lies between them moves with them.
macro_rules! indexed {
    ($($name:ident: [u64; $count:expr], $words:ident => $value:expr, $index:expr;)*) => {$(
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        struct $name([u64; $count]);

        impl Element for $name {
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                $name(std::array::from_fn(|at| Element::read(&bytes[8 * at..])))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                for (into, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
                    *into = word.to_le_bytes();
                }
            }
            #[inline(always)]
            #[allow(clippy::eq_op, reason = "a NaN is what differs from itself")]
            fn combine(op: Op, _scale: Option<Self>, y: Self, x: Self) -> Self {
                let parts = |$words: [u64; $count]| ($value, $index);
                let ((old, old_index), (new, new_index)) = (parts(y.0), parts(x.0));
                let is_first = (new == old) & (new_index < old_index);
                // A NaN gives way to a number.
                let is_number = (old != old) & (new == new);
                let takes = match op {
                    Op::MinLoc => (new < old) | is_first | is_number,
                    Op::MaxLoc => (new > old) | is_first | is_number,
                    Op::Replace => true,
                    _ => false,
                };
                $name(std::array::from_fn(|at| if takes { x.0[at] } else { y.0[at] }))
            }
        }
    )*};
}
indexed! {
    I16Index: [u64; 1], words => words[0] as i16, (words[0] >> 32) as i32;
    I32Index: [u64; 1], words => words[0] as i32, (words[0] >> 32) as i32;
    I64Index: [u64; 2], words => words[0] as i64, words[1] as i32;
    F32Index: [u64; 1], words => f32::from_bits(words[0] as u32), (words[0] >> 32) as i32;
    F64Index: [u64; 2], words => f64::from_bits(words[0]), words[1] as i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an accumulate of one element makes of `y`.
    fn of<const N: usize>(number: Number, op: Op, y: [u8; N], x: [u8; N]) -> [u8; N] {
        let mut held = y;
        Accumulate::new(number, op).unwrap().apply(&mut held, &x);
        held
    }

    #[test]
    fn integers_combine_as_integers_do() {
        let i = |op, y: i16, x: i16| {
            i16::from_le_bytes(of(Number::I16, op, y.to_le_bytes(), x.to_le_bytes()))
        };
        let u = |op, y: u8, x: u8| of(Number::U8, op, [y], [x])[0];
        assert_eq!(i(Op::Sum, i16::MAX, 1), i16::MIN);
        assert_eq!(i(Op::Product, -3, 7), -21);
        assert_eq!((i(Op::Min, -1, 1), i(Op::Max, -1, 1)), (-1, 1));
        assert_eq!((u(Op::Min, 255, 1), u(Op::Max, 255, 1)), (1, 255));
        assert_eq!((u(Op::And, 6, 3), u(Op::Or, 6, 3), u(Op::Xor, 6, 3)), (2, 7, 5));
        assert_eq!((u(Op::LogicalAnd, 6, 9), u(Op::LogicalAnd, 6, 0)), (1, 0));
        assert_eq!((u(Op::LogicalOr, 0, 9), u(Op::LogicalOr, 0, 0)), (1, 0));
        assert_eq!((u(Op::LogicalXor, 6, 9), u(Op::LogicalXor, 6, 0)), (0, 1));
        assert_eq!((u(Op::Replace, 6, 9), u(Op::NoOp, 6, 9)), (9, 6));
    }

    #[test]
    fn the_lesser_of_a_number_and_a_nan_is_the_number() {
        let f = |op, y: f64, x: f64| {
            f64::from_le_bytes(of(Number::F64, op, y.to_le_bytes(), x.to_le_bytes()))
        };
        assert_eq!((f(Op::Min, 2.0, 1.0), f(Op::Max, 2.0, 1.0)), (1.0, 2.0));
        for op in [Op::Min, Op::Max] {
            assert_eq!((f(op, f64::NAN, 1.0), f(op, 1.0, f64::NAN)), (1.0, 1.0), "{op:?}");
            assert!(f(op, f64::NAN, f64::NAN).is_nan(), "{op:?}");
            assert!(f(op, -0.0, 0.0).is_sign_negative(), "{op:?}: of equal ones, what was there");
        }
    }

    #[test]
    fn complex_numbers_multiply_and_scale() {
        let bytes = |[re, im]: [f64; 2]| {
            let mut bytes = [0; 16];
            [re, im].write(&mut bytes);
            bytes
        };
        let i = bytes([0.0, 1.0]);
        assert_eq!(of(Number::C64, Op::Product, i, i), bytes([-1.0, 0.0]));
        let mut y = bytes([1.0, 1.0]);
        Accumulate::scaled_sum(Number::C64, i).unwrap().apply(&mut y, &bytes([3.0, 0.0]));
        assert_eq!(y, bytes([1.0, 4.0]));
    }

    #[test]
    fn pairs_compare_by_value_and_then_by_index() {
        let pair = |value: f64, index: i32| {
            let mut bytes = [0xEE; 16];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            bytes[8..12].copy_from_slice(&index.to_le_bytes());
            bytes
        };
        let of = |op, y, x| of(Number::F64Index, op, y, x);
        assert_eq!(of(Op::MinLoc, pair(2.0, 1), pair(1.0, 9)), pair(1.0, 9));
        assert_eq!(of(Op::MinLoc, pair(1.0, 9), pair(1.0, 2)), pair(1.0, 2));
        assert_eq!(of(Op::MaxLoc, pair(1.0, 2), pair(1.0, 9)), pair(1.0, 2));
        assert_eq!(of(Op::MaxLoc, pair(1.0, 2), pair(3.0, 9)), pair(3.0, 9));
        assert_eq!(of(Op::MaxLoc, pair(f64::NAN, 2), pair(3.0, 9)), pair(3.0, 9));
        assert_eq!(of(Op::MaxLoc, pair(3.0, 9), pair(f64::NAN, 2)), pair(3.0, 9));
    }
}

//! The operations of accumulates, by the numbers of `core.h`.

use std::ffi::c_void;

use farside::Op;
use farside::raw::{Accumulate, Number};

/// An operation on numbers of a kind, by the numbers of `core.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Combination {
    pub(crate) number: u32,
    pub(crate) op: u32,
    /// Combines `count` numbers of `from` with those of `into`.
    pub(crate) fold: unsafe extern "C" fn(
        number: u32,
        op: u32,
        into: *mut c_void,
        from: *const c_void,
        count: usize,
    ),
}

/// The accumulates of farside by the numbers of `core.h`, which has 0 for none; nothing where it
/// has none.
pub(crate) struct Accumulates([[Option<Accumulate>; Op::ALL.len()]; Number::ALL.len()]);

impl Accumulates {
    pub(crate) fn new() -> Accumulates {
        let of = |number: Number| Op::ALL.map(|op| Accumulate::new(number, op).ok());
        Accumulates(Number::ALL.map(of))
    }

    #[inline]
    pub(crate) fn get(&self, Combination { number, op, .. }: &Combination) -> Option<&Accumulate> {
        self.0
            .get((*number as usize).wrapping_sub(1))?
            .get((*op as usize).wrapping_sub(1))?
            .as_ref()
    }
}

impl Combination {
    pub(crate) fn op(&self) -> Option<Op> {
        Op::from_code(u8::try_from(self.op.checked_sub(1)?).ok()?)
    }

    pub(crate) fn is_no_op(&self) -> bool {
        self.op() == Some(Op::NoOp)
    }
}

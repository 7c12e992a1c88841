//! Operations as plain data: what starts one and what comes of it; and the atomics, each with its
//! reference meaning.
//!
//! A fabric may execute an operation with the processor's atomics, in a network interface or in a
//! simulation: what it must do is what [`Atomic::apply`] says.

use crate::error::{Error, Result};

/// Whether the caller of an atomic, or of an accumulate, wants what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldValue {
    /// The operation completes with [`Reply::Word`], an accumulate with [`Reply::Bytes`].
    Wanted,
    /// The operation is posted, as a put is.
    Ignored,
}

/// What the caller of a transfer does while it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The caller waits for it at once.
    Awaited,
    /// The caller computes: the fabric makes the transfer progress without it where it can, also
    /// where that makes each step slower.
    Overlapped,
}

/// Names an operation that was started and has not completed. Each fabric numbers its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The result of starting a fetching operation.
#[derive(Debug)]
#[must_use]
pub enum Started {
    /// It has completed already.
    Done(Reply),
    /// It is under way; ask with [`Connection::poll`](crate::Connection::poll), wait with
    /// [`Event::Done`](crate::Event::Done).
    Pending(Ticket),
}

/// The reply of a completed operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but the fact.
    None,
    /// The old value of the word.
    Word(u128),
    /// The answer of a handler, or the old elements of an accumulate.
    Bytes(Vec<u8>),
}

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
}

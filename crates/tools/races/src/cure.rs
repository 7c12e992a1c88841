//! What could be missing where a race is: tried by whoever runs the program again.

use std::fmt;

use farside_fabric::{Atomic, OldValue, Region, Shape, Word};

/// Something that a program could do to have no race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cure {
    /// The place of the operation that it follows, takes the place of, or comes ahead of.
    pub after: String,
    /// The place of the other operation that it concerns, if there is one: of the signal that is
    /// waited for, or of another one inside of the lock.
    pub with: Option<String>,
    /// What is done there.
    pub means: Means,
}

/// Means of order, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Means {
    /// A put with a signal, instead of a put and the signal that follows it: the data lands before
    /// its own signal, and nothing else is ordered.
    PutSignal,
    /// A fence: what is posted later lands later.
    Fence,
    /// A flush of the rank that the operation went to.
    Flush,
    /// A wait for a signal that the program has, ahead of the operation.
    Wait,
    /// A lock around each of the two operations, which are flushed ahead of its release.
    Lock,
    /// A lock that is held from a get to the put of the same bytes that follows it, with a flush
    /// ahead of its release.
    LockAcross,
}

impl Means {
    /// All of them, the weakest first.
    pub const ALL: [Means; 6] =
        [Means::PutSignal, Means::Fence, Means::Flush, Means::Wait, Means::Lock, Means::LockAcross];
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = &self.after;
        let with = self.with.as_deref().unwrap_or("the other side");
        match self.means {
            Means::PutSignal => {
                write!(f, "a put_signal instead of the put of {after} and the signal after it")
            }
            Means::Fence => write!(f, "a fence after the operation of {after}"),
            Means::Flush => write!(f, "a flush of its rank after the operation of {after}"),
            Means::Wait => {
                write!(f, "a wait for the signal of {with}, before the operation of {after}")
            }
            Means::Lock if self.with.is_none() => {
                write!(f, "a lock around the operation of {after}, with a flush before its release")
            }
            Means::Lock => write!(
                f,
                "a lock around the operation of {after} and around that of {with}, with a flush \
                 before its release"
            ),
            Means::LockAcross => write!(
                f,
                "a lock that is held from the get of {with} to the put of {after}, with a flush \
                 before its release; or an atomic, if one does what both do"
            ),
        }
    }
}

/// A put that is held back until its signal comes, or anything else.
pub(crate) struct HeldPut {
    to: Region<'static>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: Option<u32>,
}

impl HeldPut {
    /// Holds a put back, if it is one block.
    pub(crate) fn new(to: &Region<'_>, bytes: &[u8], place: Option<u32>) -> Option<HeldPut> {
        let Shape::Block(piece) = to.shape else { return None };
        let to = Region::block(to.rank, to.segment, piece.offset, piece.bytes);
        Some(HeldPut { to, bytes: bytes.to_vec(), place })
    }

    pub(crate) fn to(&self) -> &Region<'static> {
        &self.to
    }

    pub(crate) fn is_signalled_by(&self, at: Word, op: Atomic, old: OldValue) -> bool {
        let is_signal = matches!(op, Atomic::Store(_) | Atomic::Add(_));
        is_signal && old == OldValue::Ignored && at.rank == self.to.rank
    }
}

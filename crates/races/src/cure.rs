//! What could be missing where a race is: tried by whoever runs the program again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use farside_fabric::{Atomic, OldValue, Region, Shape, Word};

/// Something that a program could do to have no race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cure {
    /// The place of the operation that it follows, or takes the place of.
    pub after: String,
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
}

impl Means {
    /// All of them, the weakest first.
    pub const ALL: [Means; 3] = [Means::PutSignal, Means::Fence, Means::Flush];
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = &self.after;
        match self.means {
            Means::PutSignal => {
                write!(f, "a put_signal instead of the put of {after} and the signal behind it")
            }
            Means::Fence => write!(f, "a fence after the operation of {after}"),
            Means::Flush => write!(f, "a flush of its rank after the operation of {after}"),
        }
    }
}

/// The cure that is tried, as a number: the place, plus one, and below it the means.
#[derive(Default)]
pub(crate) struct Trial(AtomicU64);

impl Trial {
    pub(crate) fn set(&self, cure: Option<(&Cure, u32)>) {
        let number =
            cure.map_or(0, |(cure, place)| (u64::from(place) + 1) << 2 | cure.means as u64);
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns what is to be done after an operation of a place.
    pub(crate) fn after(&self, place: Option<u32>) -> Option<Means> {
        let number = self.0.load(Ordering::Relaxed);
        let is_meant =
            number != 0 && place.is_some_and(|place| u64::from(place) + 1 == number >> 2);
        is_meant.then(|| Means::ALL[(number & 3) as usize])
    }

    /// Whether puts may be held back until their signal comes.
    pub(crate) fn holds_puts(&self) -> bool {
        let number = self.0.load(Ordering::Relaxed);
        number != 0 && number & 3 == Means::PutSignal as u64
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

    /// Whether an atomic could be its signal.
    pub(crate) fn is_signalled_by(&self, at: Word, op: Atomic, old: OldValue) -> bool {
        let is_signal = matches!(op, Atomic::Store(_) | Atomic::Add(_));
        is_signal && old == OldValue::Ignored && at.rank == self.to.rank
    }
}

//! What could be missing where a race is: tried by whoever runs the program again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that a program could do to have no race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cure {
    /// The place of the operation that it follows.
    pub after: String,
    /// What is done there.
    pub means: Means,
}

/// Means of order, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Means {
    /// A fence: what is posted later lands later.
    Fence,
    /// A flush of the rank that the operation went to.
    Flush,
}

impl Means {
    /// All of them, the weakest first.
    pub const ALL: [Means; 2] = [Means::Fence, Means::Flush];
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let means = match self.means {
            Means::Fence => "a fence",
            Means::Flush => "a flush of its rank",
        };
        write!(f, "{means} after the operation of {}", self.after)
    }
}

/// The cure that is tried, as a number: the place, plus one, and below it the means.
#[derive(Default)]
pub(crate) struct Trial(AtomicU64);

impl Trial {
    pub(crate) fn set(&self, cure: Option<(&Cure, u32)>) {
        let number = cure.map_or(0, |(cure, place)| {
            (u64::from(place) + 1) << 1 | u64::from(cure.means == Means::Flush)
        });
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns what is to be done after an operation of a place.
    pub(crate) fn after(&self, place: Option<u32>) -> Option<Means> {
        let number = self.0.load(Ordering::Relaxed);
        let is_meant =
            number != 0 && place.is_some_and(|place| u64::from(place) + 1 == number >> 1);
        is_meant.then_some(if number & 1 != 0 { Means::Flush } else { Means::Fence })
    }
}

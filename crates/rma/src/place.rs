//! Places in a window: where a transfer goes to or comes from.

use std::fmt;
use std::marker::PhantomData;

use farside_fabric::{Error, Rank, Result, Word};

use crate::plain::Cell;
use crate::segment::Segment;

/// An element of a window on a given rank.
///
/// A place borrows its window, so it cannot outlive it:
///
/// ```compile_fail,E0505
/// # fn demo(world: farside_rma::World) -> farside_rma::Result<()> {
/// let window = world.window::<u64>(8)?;
/// let place = window.at(world.rank(), 0);
/// window.free(&world)?;
/// world.get_value(place)?; // error: `window` was moved while borrowed
/// # Ok(()) }
/// ```
pub struct Place<'w, T> {
    pub(crate) segment: &'w Segment,
    pub(crate) rank: Rank,
    /// The first byte.
    pub(crate) offset: u64,
    /// Nothing at or beyond this byte belongs to the allocation that the place is in.
    pub(crate) end: u64,
    pub(crate) element: PhantomData<fn() -> T>,
}

impl<T> Clone for Place<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<'_, T> {}

impl<T> fmt::Debug for Place<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}, byte {}", self.segment.id, self.rank, self.offset)
    }
}

impl<'w, T> Place<'w, T> {
    pub(crate) fn new(segment: &'w Segment, rank: Rank, offset: u64, end: u64) -> Place<'w, T> {
        Place { segment, rank, offset, end, element: PhantomData }
    }

    /// The place `elements` further on.
    #[must_use]
    #[inline]
    pub fn skip(self, elements: usize) -> Place<'w, T> {
        let offset = (elements as u64).saturating_mul(size_of::<T>() as u64).saturating_add(self.offset);
        Place { offset, ..self }
    }

    /// The same place, as the first of elements of another type. Whether it is aligned for atomics is checked when it is used so.
    #[must_use]
    #[inline]
    pub fn cast<U>(self) -> Place<'w, U> {
        Place::new(self.segment, self.rank, self.offset, self.end)
    }

    /// Whose memory it is in.
    #[inline]
    pub fn rank(self) -> Rank {
        self.rank
    }

    /// Whether `bytes` from here on stay inside the allocation.
    #[inline]
    pub(crate) fn check(self, bytes: u64) -> Result<()> {
        match self.offset.checked_add(bytes) {
            Some(end) if end <= self.end => Ok(()),
            _ => Err(self.out_of_range(bytes)),
        }
    }

    #[cold]
    pub(crate) fn out_of_range(self, bytes: u64) -> Error {
        let segment_bytes = self.segment.part(self.rank).map_or(0, |part| part.bytes.min(self.end));
        Error::OutOfRange { rank: self.rank, segment: self.segment.id, offset: self.offset, bytes, segment_bytes }
    }
}

impl<T: Cell> Place<'_, T> {
    /// The address of this word, for the layers that deal in addresses.
    #[inline]
    pub fn word(self) -> Word {
        Word { rank: self.rank, segment: self.segment.id, offset: self.offset, width: T::WIDTH }
    }
}

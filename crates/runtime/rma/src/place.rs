//! Places in a window: where a transfer goes to or comes from.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use farside_fabric::{Error, Rank, Result, Word};

use crate::plain::AtomicWord;
use crate::segment::Segment;

/// An element of a window on a given rank.
///
/// A place borrows its window, so it cannot outlive it:
///
/// ```compile_fail,E0505
/// # fn demo(world: farside_rma::World) -> farside_rma::Result<()> {
/// let window = world.window::<u64>(8)?;
/// let place = window.at(world.rank(), 0);
/// window.free(world)?;
/// world.get_value(place)?; // error: `window` was moved while borrowed
/// # Ok(()) }
/// ```
pub struct Place<'w, T> {
    pub(crate) segment: &'w Segment,
    pub(crate) rank: Rank,
    /// The byte at which the allocation that the place is in begins.
    start: u32,
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
    #[inline]
    pub(crate) fn first(segment: &'w Segment, rank: Rank) -> Place<'w, T> {
        Place { segment, rank, start: 0, offset: 0, end: u64::MAX, element: PhantomData }
    }

    #[inline]
    pub(crate) fn within(segment: &'w Segment, rank: Rank, start: u32, bytes: u64) -> Place<'w, T> {
        let offset = u64::from(start);
        Place { segment, rank, start, offset, end: offset + bytes, element: PhantomData }
    }

    /// Returns the place `elements` further on.
    #[must_use]
    #[inline]
    pub fn skip(self, elements: usize) -> Place<'w, T> {
        let offset =
            (elements as u64).saturating_mul(size_of::<T>() as u64).saturating_add(self.offset);
        Place { offset, ..self }
    }

    /// Returns the same place, as the first of elements of another type. Whether it is aligned for
    /// atomics is checked when it is used so.
    #[must_use]
    #[inline]
    pub fn cast<U>(self) -> Place<'w, U> {
        let Place { segment, rank, start, offset, end, .. } = self;
        Place { segment, rank, start, offset, end, element: PhantomData }
    }

    /// Returns the rank whose memory it is in.
    #[inline]
    pub fn rank(self) -> Rank {
        self.rank
    }

    /// Whether `bytes` from here on stay inside the allocation.
    #[inline]
    #[track_caller]
    pub(crate) fn check(self, bytes: u64) -> Result<()> {
        match self.offset.checked_add(bytes) {
            Some(end) if end <= self.end => Ok(()),
            _ => Err(self.out_of_range(bytes)),
        }
    }

    #[cold]
    #[track_caller]
    pub(crate) fn out_of_range(self, bytes: u64) -> Error {
        let segment_bytes = match self.segment.part(self.rank) {
            Ok(part) => part.bytes,
            Err(error) => return self.in_elements(error),
        };
        let (rank, segment, offset) = (self.rank, self.segment.id, self.offset);
        let error = Error::OutOfRange { rank, segment, offset, bytes, segment_bytes };
        self.in_elements(error)
    }

    /// Returns how an access to this place ended, an error in the caller's words.
    #[inline]
    #[track_caller]
    pub(crate) fn said<R>(self, result: Result<R>) -> Result<R> {
        match result {
            Ok(done) => Ok(done),
            Err(error) => Err(self.in_elements(error)),
        }
    }

    /// Returns an error of an access to this place in the caller's units, layers below count bytes
    /// of a segment, callers elements of a window; and notes where the call is that failed.
    #[cold]
    #[track_caller]
    pub(crate) fn in_elements(self, error: Error) -> Error {
        let error = match error {
            Error::OutOfRange { rank, segment, offset, bytes, segment_bytes }
                if (rank, segment) == (self.rank, self.segment.id)
                    && offset >= u64::from(self.start) =>
            {
                let (start, size) = (u64::from(self.start), size_of::<T>().max(1) as u64);
                Error::OutOfBounds {
                    rank,
                    first: (offset - start) / size,
                    end: offset.saturating_add(bytes).saturating_sub(start).div_ceil(size),
                    elements: segment_bytes.min(self.end).saturating_sub(start) / size,
                    element: short_name::<T>(),
                    of: if self.end == u64::MAX {
                        self.segment.said()
                    } else {
                        "these words".into()
                    },
                }
            }
            other => other,
        };
        self.segment.failed.note(&error, None, Location::caller());
        error
    }
}

/// The name of a type without the path to it.
pub(crate) fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let is_path =
        name.chars().all(|character| character.is_alphanumeric() || "_:".contains(character));
    if is_path { name.rsplit("::").next().unwrap_or(name) } else { name }
}

impl<T: AtomicWord> Place<'_, T> {
    /// Returns the address of this word, for the layers that deal in addresses.
    #[inline]
    pub fn word(self) -> Word {
        Word { rank: self.rank, segment: self.segment.id, offset: self.offset, width: T::WIDTH }
    }
}

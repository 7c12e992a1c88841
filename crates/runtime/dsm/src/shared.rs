//! Shared slices, and views of them: ordinary memory until the next synchronization.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::{Error, Result};
use farside_rma::Plain;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::accesses::AccessLog;
use crate::element;

/// A slice of plain data in shared memory: the same on every rank. A name, not a reference: it is
/// read and written through views, see [`Dsm::view`](crate::Dsm::view) and
/// [`Dsm::view_mut`](crate::Dsm::view_mut).
///
/// It is plain data itself: it can be sent to other ranks, and kept in shared memory, where all
/// zero is an empty slice.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Shared<T> {
    place: Place,
    element: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Place {
    /// The first byte.
    offset: u64,
    /// The number of elements.
    len: u64,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Plain> Shared<T> {
    pub(crate) fn new(offset: u64, len: usize) -> Shared<T> {
        Shared { place: Place { offset, len: len as u64 }, element: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.place.len as usize
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Its first byte in the shared memory.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The element that a byte of the shared memory belongs to, if it is one of these: says where a
    /// [`Race`](crate::Race) is.
    pub fn index_of(&self, offset: u64) -> Option<usize> {
        let at = offset.checked_sub(self.offset())? as usize / size_of::<T>();
        (at < self.len()).then_some(at)
    }

    pub(crate) fn bytes(&self, range: &Range<usize>) -> Result<Range<u64>> {
        if range.start > range.end || range.end > self.len() {
            return Err(Error::InvalidArgument(format!(
                "elements {} to {} are outside the {} elements of this shared slice",
                range.start,
                range.end,
                self.len()
            )));
        }
        // What was read from memory may be any bytes; no memory ends where these do.
        let byte = |element: usize| {
            let bytes = (element as u64).saturating_mul(size_of::<T>() as u64);
            self.offset().saturating_add(bytes)
        };
        Ok(byte(range.start)..byte(range.end))
    }
}

pub(crate) struct ViewMemory {
    base: NonNull<u8>,
    bytes: u64,
    /// Where accesses are noted, if races are looked for.
    log: Option<Arc<AccessLog>>,
}

impl ViewMemory {
    /// # Safety
    ///
    /// `base` must be valid for reads and writes of `bytes` bytes for as long as this is used, on
    /// all threads of this rank; faults must be resolved. There must be no other Rust references to
    /// it.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        bytes: u64,
        log: Option<Arc<AccessLog>>,
    ) -> ViewMemory {
        ViewMemory { base, bytes, log }
    }

    pub(crate) fn check(&self, bytes: &Range<u64>) -> Result<()> {
        match bytes.end > self.bytes {
            false => Ok(()),
            true => Err(Error::InvalidArgument(
                "a shared slice belongs to another shared memory".into(),
            )),
        }
    }

    fn cells<T: Plain>(&self, bytes: Range<u64>) -> Result<&[Cell<T>]> {
        self.check(&bytes)?;
        // SAFETY: inside of the memory, as was checked.
        let start = unsafe { self.base.add(bytes.start as usize) }.cast::<Cell<T>>();
        if !start.is_aligned() {
            return Err(Error::Misaligned { offset: bytes.start, align: align_of::<T>() as u64 });
        }
        let len = (bytes.end - bytes.start) as usize / size_of::<T>();
        // SAFETY: aligned, inside, and any bytes are a `T`. Cells may change at any time, also by
        // other threads: all accesses are those of `element`, unless the program promises more.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
    }

    pub(crate) fn view<T: Plain>(&self, bytes: Range<u64>) -> Result<View<'_, T>> {
        Ok(View { cells: self.cells(bytes)?, log: self.log.as_deref() })
    }

    pub(crate) fn view_mut<T: Plain>(&self, bytes: Range<u64>) -> Result<ViewMut<'_, T>> {
        Ok(ViewMut { cells: self.cells(bytes)?, log: self.log.as_deref() })
    }
}

/// Elements of a shared slice, to be read until the next synchronization.
#[derive(Clone, Copy)]
pub struct View<'d, T> {
    pub(crate) cells: &'d [Cell<T>],
    pub(crate) log: Option<&'d AccessLog>,
}

/// Elements of a shared slice, to be read and written until the next synchronization.
#[derive(Clone, Copy)]
pub struct ViewMut<'d, T> {
    pub(crate) cells: &'d [Cell<T>],
    pub(crate) log: Option<&'d AccessLog>,
}

/// What views, and parts that are lent to threads, have in common.
macro_rules! elements {
    ($type:ident) => {
        impl<T: Plain> $type<'_, T> {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.cells.len()
            }

            /// Returns whether there are none.
            pub fn is_empty(&self) -> bool {
                self.cells.is_empty()
            }

            /// Loads an element. Panics if there is none with this index, as slices do.
            #[inline]
            #[track_caller]
            pub fn get(&self, index: usize) -> T {
                let cell = &self.cells[index];
                if let Some(log) = self.log {
                    log.load(std::slice::from_ref(cell), Location::caller());
                }
                element::load(cell)
            }

            /// A copy of all elements.
            #[track_caller]
            pub fn to_vec(&self) -> Vec<T> {
                if let Some(log) = self.log {
                    log.load(self.cells, Location::caller());
                }
                let mut all = vec![T::new_zeroed(); self.cells.len()];
                element::load_all(self.cells, &mut all);
                all
            }
        }
    };
}
pub(crate) use elements;

macro_rules! reading {
    ($view:ident) => {
        elements!($view);

        impl<'d, T: Plain> $view<'d, T> {
            /// All elements, in order. Where races are looked for, all of them count as loaded.
            #[track_caller]
            pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + 'd {
                if let Some(log) = self.log {
                    log.load(self.cells, Location::caller());
                }
                self.cells.iter().map(element::load)
            }

            /// Copies as many elements as fit, from `index` on.
            #[track_caller]
            pub fn copy_to(&self, index: usize, into: &mut [T]) {
                let cells = &self.cells[index..];
                if let Some(log) = self.log {
                    log.load(&cells[..into.len().min(cells.len())], Location::caller());
                }
                element::load_all(cells, into);
            }

            /// Returns some of the elements. Panics if they are not all there, as slices do.
            #[must_use]
            pub fn slice(&self, range: Range<usize>) -> $view<'d, T> {
                $view { cells: &self.cells[range], log: self.log }
            }
        }
    };
}
reading!(View);
reading!(ViewMut);

impl<'d, T: Plain> View<'d, T> {
    /// The elements as cells: ordinary memory, in loops that the compiler makes vectors of. Where
    /// races are looked for, all of them count as loaded.
    ///
    /// # Safety
    ///
    /// No other rank that is a thread of this process may store to the elements before the next
    /// synchronization, and nothing may be stored through the cells.
    #[track_caller]
    pub unsafe fn cells(&self) -> &'d [Cell<T>] {
        if let Some(log) = self.log {
            log.load(self.cells, Location::caller());
        }
        self.cells
    }
}

impl<'d, T: Plain> ViewMut<'d, T> {
    /// Stores an element. Panics if there is none with this index, as slices do.
    #[inline]
    #[track_caller]
    pub fn set(&self, index: usize, value: T) {
        let cell = &self.cells[index];
        if let Some(log) = self.log {
            log.store(std::slice::from_ref(cell), Location::caller());
        }
        element::store(cell, value);
    }

    /// Stores the same value to all elements.
    #[track_caller]
    pub fn fill(&self, value: T) {
        if let Some(log) = self.log {
            log.store(self.cells, Location::caller());
        }
        self.cells.iter().for_each(|cell| element::store(cell, value));
    }

    /// The elements as cells: ordinary memory, in loops that the compiler makes vectors of. Where
    /// races are looked for, what is stored through them counts as stored here, and what is loaded
    /// through them is not seen.
    ///
    /// # Safety
    ///
    /// No other rank that is a thread of this process may store to the elements before the next
    /// synchronization, nor load them if this one stores to them.
    ///
    /// ```compile_fail,E0133
    /// # use farside::dsm::ViewMut;
    /// fn plain(view: ViewMut<'_, u32>) {
    ///     view.cells()[0].set(1); // error: needs an unsafe block
    /// }
    /// ```
    #[track_caller]
    pub unsafe fn cells(&self) -> &'d [Cell<T>] {
        if let Some(log) = self.log {
            log.store(self.cells, Location::caller());
        }
        self.cells
    }

    /// Copies elements in, from `index` on.
    #[track_caller]
    pub fn copy_from(&self, index: usize, from: &[T]) {
        let cells = &self.cells[index..][..from.len()];
        if let Some(log) = self.log {
            log.store(cells, Location::caller());
        }
        element::store_all(cells, from);
    }
}

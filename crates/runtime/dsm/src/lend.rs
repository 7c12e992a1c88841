//! Shared memory for several threads of a rank at the same time.
//!
//! The memory is borrowed as a whole, so that there are no views and no synchronizations meanwhile;
//! what one thread writes is lent once, and can be divided.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;

use farside_fabric::{Error, Result};
use farside_rma::Plain;

use crate::accesses::AccessLog;
use crate::dsm::Dsm;
use crate::element;
use crate::shared::{Shared, View, ViewMut, elements};

/// Shared memory that is lent to threads of this rank. See [`Dsm::lend`].
///
/// What it lends lives until the next synchronization at most, as views do:
///
/// ```compile_fail,E0502
/// # use farside::dsm::{Config, Dsm, Shared};
/// fn too_long(dsm: &mut Dsm<'_>, words: Shared<u32>) -> farside::Result<()> {
///     let mut part = dsm.lend().write(words, 0..2)?;
///     dsm.barrier()?;
///     part.set(0, 1);
///     Ok(())
/// }
/// ```
///
/// A view belongs to the rank's own thread, and a part to one thread at a time:
///
/// ```compile_fail,E0277
/// # use farside::dsm::ViewMut;
/// fn of_a_view(view: ViewMut<'_, u32>) {
///     std::thread::scope(|scope| _ = scope.spawn(move || view.set(0, 1)));
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use farside::dsm::PartMut;
/// fn twice(mut part: PartMut<'_, u32>) {
///     std::thread::scope(|scope| _ = scope.spawn(move || part.set(0, 1)));
///     part.set(0, 2);
/// }
/// ```
pub struct Lent<'d, 'w> {
    dsm: &'d Dsm<'w>,
    lent: RefCell<Ranges>,
}

impl<'w> Dsm<'w> {
    /// Lends shared memory to threads of this rank, until the next synchronization.
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm};
    /// # farside::local(2, |world| {
    /// # let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
    /// let squares = dsm.alloc::<u64>(1000)?;
    /// let mine = dsm.part_of(0..1000);
    /// let lent = dsm.lend();
    /// let part = lent.write(squares, mine.clone())?;
    /// std::thread::scope(|scope| {
    ///     for (mut part, first) in part.chunks(200).zip(mine.step_by(200)) {
    ///         scope.spawn(move || {
    ///             (0..part.len()).for_each(|at| part.set(at, ((first + at) as u64).pow(2)));
    ///         });
    ///     }
    /// });
    /// dsm.barrier()?;
    /// assert_eq!(dsm.get(squares, 999)?, 999 * 999);
    /// # dsm.close() }).unwrap();
    /// ```
    pub fn lend(&mut self) -> Lent<'_, 'w> {
        Lent { dsm: self, lent: RefCell::default() }
    }
}

impl<'d, 'w> Lent<'d, 'w> {
    /// Lends elements to be read, by any number of threads. Fails if some of them are lent to be
    /// written.
    #[track_caller]
    pub fn read<T: Plain>(&self, shared: Shared<T>, range: Range<usize>) -> Result<Part<'d, T>> {
        let View { cells, log } = self.dsm.view(shared, range.clone())?;
        let lent = shared.bytes(&range).and_then(|bytes| self.lent.borrow_mut().read(bytes));
        self.dsm.world().noted(lent)?;
        Ok(Part { cells, log })
    }

    /// Lends elements to be read and written, by one thread, or by several between which they are
    /// divided. Fails if some of them are lent already.
    #[track_caller]
    pub fn write<T: Plain>(
        &self,
        shared: Shared<T>,
        range: Range<usize>,
    ) -> Result<PartMut<'d, T>> {
        let ViewMut { cells, log } = self.dsm.view_mut(shared, range.clone())?;
        let lent = shared.bytes(&range).and_then(|bytes| self.lent.borrow_mut().write(bytes));
        self.dsm.world().noted(lent)?;
        Ok(PartMut { cells, log })
    }
}

#[derive(Default)]
struct Ranges {
    /// Where each begins, with where it ends; no two overlap.
    written: BTreeMap<u64, u64>,
    read: BTreeMap<u64, u64>,
}

impl Ranges {
    fn read(&mut self, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        refuse_overlap(&self.written, &bytes)?;
        let mut all = bytes;
        while let Some(known) = overlap(&self.read, &all) {
            self.read.remove(&known.start);
            all = all.start.min(known.start)..all.end.max(known.end);
        }
        self.read.insert(all.start, all.end);
        Ok(())
    }

    fn write(&mut self, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        refuse_overlap(&self.written, &bytes)?;
        refuse_overlap(&self.read, &bytes)?;
        self.written.insert(bytes.start, bytes.end);
        Ok(())
    }
}

/// Returns the last of the ranges that has bytes of another one.
fn overlap(ranges: &BTreeMap<u64, u64>, bytes: &Range<u64>) -> Option<Range<u64>> {
    let (&start, &end) = ranges.range(..bytes.end).next_back()?;
    (end > bytes.start).then_some(start..end)
}

fn refuse_overlap(ranges: &BTreeMap<u64, u64>, bytes: &Range<u64>) -> Result<()> {
    match overlap(ranges, bytes) {
        None => Ok(()),
        Some(known) => Err(Error::InvalidArgument(format!(
            "bytes {} to {} of shared memory cannot be lent: bytes {} to {} are lent already, and \
             bytes lent for writing can be lent only once",
            bytes.start, bytes.end, known.start, known.end
        ))),
    }
}

/// Elements of a shared slice that threads of this rank read. See [`Lent::read`].
#[derive(Clone, Copy)]
pub struct Part<'d, T> {
    cells: &'d [Cell<T>],
    log: Option<&'d AccessLog>,
}

/// Elements of a shared slice that one thread of this rank reads and writes. See [`Lent::write`].
pub struct PartMut<'d, T> {
    cells: &'d [Cell<T>],
    log: Option<&'d AccessLog>,
}

// SAFETY: the cells are lent to be read only, so that no thread of this rank changes them.
unsafe impl<T: Plain> Send for Part<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Part<'_, T> {}
// SAFETY: the cells are lent to this part alone, which can be divided and not copied.
unsafe impl<T: Plain> Send for PartMut<'_, T> {}
// SAFETY: as above; through a shared reference to the part they are only read.
unsafe impl<T: Plain> Sync for PartMut<'_, T> {}

macro_rules! reading {
    ($part:ident) => {
        elements!($part);

        impl<T: Plain> $part<'_, T> {
            /// All elements, in order. Where races are looked for, all of them count as loaded.
            #[track_caller]
            pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + '_ {
                if let Some(log) = self.log {
                    log.load(self.cells, Location::caller());
                }
                self.cells.iter().map(element::load)
            }
        }
    };
}
reading!(Part);
reading!(PartMut);

impl<'d, T: Plain> PartMut<'d, T> {
    /// Stores an element. Panics if there is none with this index, as slices do.
    #[inline]
    #[track_caller]
    pub fn set(&mut self, index: usize, value: T) {
        let cell = &self.cells[index];
        if let Some(log) = self.log {
            log.store(std::slice::from_ref(cell), Location::caller());
        }
        element::store(cell, value);
    }

    /// Stores the same value to all elements.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
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
    #[track_caller]
    pub unsafe fn cells(&mut self) -> &[Cell<T>] {
        if let Some(log) = self.log {
            log.store(self.cells, Location::caller());
        }
        self.cells
    }

    /// Copies elements in, from `index` on.
    #[track_caller]
    pub fn copy_from(&mut self, index: usize, from: &[T]) {
        let cells = &self.cells[index..][..from.len()];
        if let Some(log) = self.log {
            log.store(cells, Location::caller());
        }
        element::store_all(cells, from);
    }

    /// Divides it in two, the second one from `middle` on. Panics if there are fewer elements.
    #[must_use]
    pub fn split_at(self, middle: usize) -> (PartMut<'d, T>, PartMut<'d, T>) {
        let (first, second) = self.cells.split_at(middle);
        (PartMut { cells: first, log: self.log }, PartMut { cells: second, log: self.log })
    }

    /// Divides it into parts of `len` elements; the last one may have fewer. Panics if `len` is 0.
    pub fn chunks(self, len: usize) -> impl ExactSizeIterator<Item = PartMut<'d, T>> {
        let log = self.log;
        self.cells.chunks(len).map(move |cells| PartMut { cells, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_lent_once() {
        let mut ranges = Ranges::default();
        ranges.write(8..16).unwrap();
        ranges.write(16..24).unwrap();
        ranges.read(40..48).unwrap();
        ranges.read(56..64).unwrap();
        ranges.read(44..60).unwrap();
        assert_eq!(ranges.read, BTreeMap::from([(40, 64)]));
        for taken in [0..9, 15..17, 23..30, 0..100, 10..12, 39..41, 63..70, 50..51] {
            assert!(ranges.write(taken.clone()).is_err(), "{taken:?}");
        }
        for taken in [0..9, 20..21, 0..100] {
            assert!(ranges.read(taken.clone()).is_err(), "{taken:?}");
        }
        for free in [0..8, 24..40, 64..70, 10..10] {
            ranges.write(free).unwrap();
        }
    }
}

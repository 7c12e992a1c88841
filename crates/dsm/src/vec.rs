//! A vector in shared memory: any rank appends and takes, under a lock.

use farside_fabric::{Error, Result};
use farside_rma::Plain;

use crate::dsm::Dsm;
use crate::region::Placement;
use crate::shared::Shared;
use crate::variant::Variant;

/// A vector of plain data in shared memory, with a fixed capacity: a work queue, for instance.
///
/// A name, as [`Shared`] is: the same on every rank, and copied freely. Each of its methods holds
/// its lock, so that they exclude each other; a program that holds the lock itself must not call
/// them.
///
/// ```
/// use farside::dsm::{Config, Dsm, SharedVec};
///
/// farside::local(3, |world| {
///     let mut dsm = Dsm::new(&world, Config::new(1 << 16))?;
///     let tasks = SharedVec::<u32>::new(&mut dsm, 100, 7)?;
///     if world.rank().0 == 0 {
///         for task in 0..30 {
///             tasks.push(&mut dsm, task)?;
///         }
///     }
///     dsm.barrier()?;
///     let mut done = [0];
///     while tasks.pop(&mut dsm)?.is_some() {
///         done[0] += 1;
///     }
///     world.all_sum(&mut done)?;
///     assert_eq!(done, [30]);
///     dsm.close()
/// })
/// .unwrap();
/// ```
pub struct SharedVec<T> {
    lock: u32,
    len: Shared<u64>,
    elements: Shared<T>,
}

impl<T> Clone for SharedVec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedVec<T> {}

impl<T: Plain> SharedVec<T> {
    /// Allocates an empty vector whose methods hold this lock. Every rank does, in the same order
    /// with its other allocations; the memory must not have been used before.
    pub fn new<V: Variant>(
        dsm: &mut Dsm<'_, V>,
        capacity: usize,
        lock: u32,
    ) -> Result<SharedVec<T>> {
        // The length on a page with the first elements: most of what a rank needs comes at once.
        let len = dsm.alloc_at(1, Placement::Aligned(64))?;
        Ok(SharedVec { lock, len, elements: dsm.alloc(capacity)? })
    }

    /// Returns the number of elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.elements.len()
    }

    /// Returns the number of elements.
    pub fn len<V: Variant>(&self, dsm: &mut Dsm<'_, V>) -> Result<usize> {
        dsm.locked(self.lock, |dsm| self.length(dsm))
    }

    /// Returns whether there are no elements.
    pub fn is_empty<V: Variant>(&self, dsm: &mut Dsm<'_, V>) -> Result<bool> {
        Ok(self.len(dsm)? == 0)
    }

    /// Appends an element, and returns its index.
    pub fn push<V: Variant>(&self, dsm: &mut Dsm<'_, V>, value: T) -> Result<usize> {
        dsm.locked(self.lock, |dsm| {
            let len = self.length(dsm)?;
            if len >= self.capacity() {
                return Err(Error::Exhausted(format!(
                    "a shared vector has {} elements, and no room for another: make it with a \
                     larger capacity",
                    self.capacity()
                )));
            }
            dsm.set(self.elements, len, value)?;
            dsm.set(self.len, 0, len as u64 + 1)?;
            Ok(len)
        })
    }

    /// Takes the last element, if there is one.
    pub fn pop<V: Variant>(&self, dsm: &mut Dsm<'_, V>) -> Result<Option<T>> {
        dsm.locked(self.lock, |dsm| {
            let Some(last) = self.length(dsm)?.checked_sub(1) else { return Ok(None) };
            dsm.set(self.len, 0, last as u64)?;
            dsm.get(self.elements, last).map(Some)
        })
    }

    /// Returns a copy of all elements.
    pub fn to_vec<V: Variant>(&self, dsm: &mut Dsm<'_, V>) -> Result<Vec<T>> {
        dsm.locked(self.lock, |dsm| Ok(dsm.view(self.elements, 0..self.length(dsm)?)?.to_vec()))
    }

    fn length<V: Variant>(&self, dsm: &Dsm<'_, V>) -> Result<usize> {
        Ok(dsm.get(self.len, 0)? as usize)
    }
}

//! A vector in shared memory: any rank appends and takes, under a lock.

use farside_fabric::{Error, Result};
use farside_rma::Plain;

use crate::dsm::Dsm;
use crate::heap::SharedHeap;
use crate::region::Placement;
use crate::shared::Shared;

/// The room of a vector that grows, when it has got its first element.
const GROWN_FIRST: usize = 4;

/// The length, on a page with the first elements: most of what a rank needs comes at once.
const LENGTH: (usize, Placement) = (1, Placement::Aligned(64));

/// A vector of plain data in shared memory, with a fixed capacity or growing on a heap: a work
/// queue, for instance.
///
/// A name, as [`Shared`] is: the same on every rank, and copied freely. Each of its methods holds
/// its lock, so that they exclude each other; a program that holds the lock itself must not call
/// them. [`SharedVec::locked`] does several things at once.
///
/// ```
/// use farside::dsm::{Config, Dsm, SharedVec};
///
/// farside::local(3, |world| {
///     let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
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
    kind: VecKind<T>,
}

/// The place of a vector's elements.
enum VecKind<T> {
    Fixed(Shared<T>),
    /// On the heap; shared memory says where.
    Growing(SharedHeap, Shared<Shared<T>>),
}

impl<T> Clone for SharedVec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedVec<T> {}

impl<T> Clone for VecKind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for VecKind<T> {}

impl<T: Plain> SharedVec<T> {
    /// Allocates an empty vector whose methods hold this lock. Every rank does, in the same order
    /// with its other allocations; the memory must not have been used before.
    pub fn new(dsm: &mut Dsm<'_>, capacity: usize, lock: u32) -> Result<SharedVec<T>> {
        let (len, elements) = dsm.alloc_both(LENGTH, (capacity, Placement::Anywhere))?;
        Ok(SharedVec { lock, len, kind: VecKind::Fixed(elements) })
    }

    /// Makes an empty vector that grows on a heap, with another lock than the heap's. Every rank
    /// does, as for [`SharedVec::new`].
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm, SharedHeap, SharedVec};
    /// # farside::local(3, |world| {
    /// # let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
    /// let heap = SharedHeap::new(&mut dsm, 1 << 18, 0)?;
    /// let words = SharedVec::<u32>::growing(&mut dsm, heap, 1)?;
    /// for word in 0..1000 {
    ///     words.push(&mut dsm, word)?;
    /// }
    /// dsm.barrier()?;
    /// assert_eq!(words.len(&mut dsm)?, 3000);
    /// # dsm.barrier()?;
    /// # dsm.close() }).unwrap();
    /// ```
    pub fn growing(dsm: &mut Dsm<'_>, heap: SharedHeap, lock: u32) -> Result<SharedVec<T>> {
        if lock == heap.lock() {
            return Err(Error::InvalidArgument(format!(
                "a growing shared vector cannot use lock {lock}, which its heap uses: pass another"
            )));
        }
        let (len, place) = dsm.alloc_both(LENGTH, (1, Placement::Anywhere))?;
        Ok(SharedVec { lock, len, kind: VecKind::Growing(heap, place) })
    }

    /// Holds the lock of the vector while `body` works with it.
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm, SharedVec};
    /// # farside::local(3, |world| {
    /// # let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
    /// let tasks = SharedVec::<u32>::new(&mut dsm, 100, 7)?;
    /// tasks.locked(&mut dsm, |tasks| (0..10).try_for_each(|task| tasks.push(task).map(drop)))?;
    /// // A task is taken, and another one comes instead.
    /// tasks.locked(&mut dsm, |tasks| {
    ///     let task = tasks.pop()?.unwrap_or(0);
    ///     tasks.push(task + 1)
    /// })?;
    /// # dsm.barrier()?;
    /// # assert_eq!(tasks.len(&mut dsm)?, 30);
    /// # dsm.barrier()?;
    /// # dsm.close() }).unwrap();
    /// ```
    #[track_caller]
    pub fn locked<'w, R>(
        &self,
        dsm: &mut Dsm<'w>,
        body: impl FnOnce(&mut LockedVec<'_, 'w, T>) -> Result<R>,
    ) -> Result<R> {
        dsm.locked(self.lock, |dsm| body(&mut LockedVec { vec: *self, dsm }))
    }

    /// [`SharedVec::locked`] for what is the vector's own: errors are of the program's call.
    #[track_caller]
    fn locked_for<'w, R>(
        &self,
        dsm: &mut Dsm<'w>,
        body: impl FnOnce(&mut LockedVec<'_, 'w, T>) -> Result<R>,
    ) -> Result<R> {
        let world = dsm.world();
        world.noted(self.locked(dsm, body))
    }

    /// Returns the number of elements that there is room for, or `None` if it grows.
    pub fn capacity(&self) -> Option<usize> {
        match self.kind {
            VecKind::Fixed(elements) => Some(elements.len()),
            VecKind::Growing(..) => None,
        }
    }

    /// Returns the number of elements.
    #[track_caller]
    pub fn len(&self, dsm: &mut Dsm<'_>) -> Result<usize> {
        self.locked_for(dsm, |held| held.len())
    }

    /// Returns whether there are no elements.
    #[track_caller]
    pub fn is_empty(&self, dsm: &mut Dsm<'_>) -> Result<bool> {
        Ok(self.len(dsm)? == 0)
    }

    /// Appends an element, and returns its index.
    #[track_caller]
    pub fn push(&self, dsm: &mut Dsm<'_>, value: T) -> Result<usize> {
        self.locked_for(dsm, |held| held.push(value))
    }

    /// Takes the last element, if there is one.
    #[track_caller]
    pub fn pop(&self, dsm: &mut Dsm<'_>) -> Result<Option<T>> {
        self.locked_for(dsm, |held| held.pop())
    }

    /// Returns a copy of all elements.
    #[track_caller]
    pub fn to_vec(&self, dsm: &mut Dsm<'_>) -> Result<Vec<T>> {
        self.locked_for(dsm, |held| held.to_vec())
    }
}

/// A shared vector whose lock this rank holds. See [`SharedVec::locked`].
pub struct LockedVec<'a, 'w, T> {
    vec: SharedVec<T>,
    dsm: &'a mut Dsm<'w>,
}

impl<'w, T: Plain> LockedVec<'_, 'w, T> {
    /// Returns the shared memory, for what the same lock guards.
    pub fn dsm(&mut self) -> &mut Dsm<'w> {
        self.dsm
    }

    /// Returns the number of elements.
    #[track_caller]
    pub fn len(&self) -> Result<usize> {
        Ok(self.dsm.get(self.vec.len, 0)? as usize)
    }

    /// Returns whether there are no elements.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Appends an element, and returns its index.
    #[track_caller]
    pub fn push(&mut self, value: T) -> Result<usize> {
        let len = self.len()?;
        let elements = self.room_for_another(len)?;
        self.dsm.set(elements, len, value)?;
        self.dsm.set(self.vec.len, 0, len as u64 + 1)?;
        Ok(len)
    }

    /// Takes the last element, if there is one.
    #[track_caller]
    pub fn pop(&mut self) -> Result<Option<T>> {
        let Some(last) = self.len()?.checked_sub(1) else { return Ok(None) };
        self.dsm.set(self.vec.len, 0, last as u64)?;
        self.dsm.get(self.elements()?, last).map(Some)
    }

    /// Returns a copy of all elements.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        Ok(self.dsm.view(self.elements()?, 0..self.len()?)?.to_vec())
    }

    #[track_caller]
    fn elements(&self) -> Result<Shared<T>> {
        match self.vec.kind {
            VecKind::Fixed(elements) => Ok(elements),
            VecKind::Growing(_, place) => self.dsm.get(place, 0),
        }
    }

    /// Returns the elements, of which there are `len`, with room for one more.
    #[track_caller]
    fn room_for_another(&mut self, len: usize) -> Result<Shared<T>> {
        let elements = self.elements()?;
        if len < elements.len() {
            return Ok(elements);
        }
        let VecKind::Growing(heap, place) = self.vec.kind else {
            return Err(self.dsm.world().failed(Error::Exhausted(format!(
                "a shared vector has {len} elements, and no room for another: make it with a \
                 larger capacity, or let it grow"
            ))));
        };
        let larger = heap.alloc::<T>(self.dsm, (2 * len).max(GROWN_FIRST))?;
        let known = self.dsm.view(elements, 0..len)?.to_vec();
        self.dsm.view_mut(larger, 0..len)?.copy_from(0, &known);
        self.dsm.set(place, 0, larger)?;
        if !elements.is_empty() {
            heap.free(self.dsm, elements)?;
        }
        Ok(larger)
    }
}

//! Windows: memory with a part on every member, allocated and freed by all of them together.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use farside_fabric::{Error, ProbeEvent, Rank, Result, SegmentId};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::place::{Place, short_name};
use crate::plain::Plain;
use crate::segment::Segment;
use crate::unfreed::Allocation;

/// A collective allocation of plain data with a part on every member of a team.
///
/// Each member chooses the length of its own part. Fresh memory is zero. Freeing is collective,
/// too; a window that is dropped without being freed stays allocated until the job ends. If its
/// rank then enters another collective, a warning on standard error names the place of its
/// allocation. A window may live to the end of the program: its memory goes with the job's.
#[must_use = "a window that is dropped without `free` stays allocated until the job ends"]
pub struct Window<T> {
    memory: Allocation,
    element: PhantomData<fn() -> T>,
}

impl<T: Plain> Window<T> {
    pub(crate) fn of(memory: Allocation) -> Window<T> {
        Window { memory, element: PhantomData }
    }

    pub(crate) fn into_segment(mut self) -> Arc<Segment> {
        self.memory.forget();
        Arc::clone(&self.memory.segment)
    }

    /// Element `index` of `rank`'s part. Whether there is one is checked when the place is used.
    #[inline]
    pub fn at(&self, rank: Rank, index: usize) -> Place<'_, T> {
        Place::first(&self.memory.segment, rank).skip(index)
    }

    /// How many elements `rank`'s part has.
    pub fn len(&self, rank: Rank) -> Result<usize> {
        Ok(self.memory.segment.part(rank)?.bytes as usize / size_of::<T>())
    }

    /// Gives the window a name, which viewers show instead of a number. One member that does is
    /// enough.
    ///
    /// ```
    /// # farside::local(2, |world| {
    /// let window = world.window::<f64>(100)?.named(world, "halo");
    /// # window.free(world) }).unwrap();
    /// ```
    pub fn named(self, context: &Context, name: &str) -> Window<T> {
        context.note_name(self.segment(), 0, name);
        // The first name stays, as with viewers.
        let _ = self.memory.segment.name.set(name.to_owned());
        if let Some(probe) = context.probe() {
            probe.event(ProbeEvent::Name { segment: self.segment(), name });
        }
        self
    }

    /// Returns the ranks that have a part.
    pub fn members(&self) -> &[Rank] {
        &self.memory.segment.members
    }

    /// The name of the memory underneath, for the layers that deal in addresses.
    pub fn segment(&self) -> SegmentId {
        self.memory.segment.id
    }

    /// This rank's own part, as memory.
    pub fn own(&self) -> Own<'_, T> {
        Own { segment: &self.memory.segment, element: PhantomData }
    }

    /// The same memory, seen as another type. The sizes must divide: 8 bytes are one `u64`, or two
    /// `f32`, but no `[u8; 3]`.
    pub fn cast<U: Plain>(mut self) -> Result<Window<U>> {
        if let Err(error) = self.check_cast::<U>() {
            // Nobody has it any more, and the error says why.
            self.memory.forget();
            return Err(error);
        }
        Ok(Window::of(self.memory))
    }

    fn check_cast<U: Plain>(&self) -> Result<()> {
        check_type::<U>()?;
        let segment = &self.memory.segment;
        for &rank in segment.members.iter() {
            let bytes = segment.part(rank)?.bytes;
            if !bytes.is_multiple_of(size_of::<U>() as u64) {
                return Err(Error::Mismatch {
                    what: "bytes of a window's part and the size of the type it is cast to",
                    left: bytes,
                    right: size_of::<U>() as u64,
                });
            }
        }
        Ok(())
    }
}

/// A rank's own part of a window, as memory.
///
/// Other ranks may read and write it at any time, so Rust's references to it are a promise that
/// only the program as a whole can keep: [`Own::as_slice`] and [`Own::as_mut_slice`] are therefore
/// `unsafe`. Everything else here is safe: elements are copied in and out, and what races with
/// another rank's put yields old or new bytes.
pub struct Own<'w, T> {
    segment: &'w Segment,
    element: PhantomData<fn() -> T>,
}

impl<'w, T: Plain> Own<'w, T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.segment.own.bytes() as usize / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a pointer to the elements. What is read or written there obeys the rules of
    /// [`Own::as_slice`] and [`Own::as_mut_slice`].
    #[track_caller]
    pub fn as_ptr(&self) -> *mut T {
        self.tell_lent("as_ptr");
        self.segment.own.base().as_ptr().cast()
    }

    /// Copies elements out, from `index` on.
    #[track_caller]
    pub fn read(&self, index: usize, into: &mut [T]) -> Result<()> {
        let count = into.len();
        self.tell(index, count, false);
        self.check(index, count, |offset| self.segment.own.get(offset, into.as_mut_bytes()))
    }

    /// Copies elements in, from `index` on.
    #[track_caller]
    pub fn write(&self, index: usize, data: &[T]) -> Result<()> {
        self.tell(index, data.len(), true);
        self.check(index, data.len(), |offset| self.segment.own.put(offset, data.as_bytes()))
    }

    /// One element.
    #[track_caller]
    pub fn get(&self, index: usize) -> Result<T> {
        let mut value = T::new_zeroed();
        self.read(index, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Sets one element.
    #[track_caller]
    pub fn set(&self, index: usize, value: T) -> Result<()> {
        self.write(index, std::slice::from_ref(&value))
    }

    /// A copy of all elements.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut all = vec![T::new_zeroed(); self.len()];
        self.read(0, &mut all)?;
        Ok(all)
    }

    /// All elements as a slice, without a copy.
    ///
    /// # Safety
    ///
    /// For as long as the slice lives, no other rank, no other thread, and not this one through the
    /// window may write these elements. Barriers and locks are the usual way to make
    /// sure.
    #[track_caller]
    pub unsafe fn as_slice(&self) -> &'w [T] {
        self.tell_lent("as_slice");
        // SAFETY: the mapping is valid while the window is borrowed, page-aligned, and any bytes
        // are a `T`; the absence of writers is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.segment.own.base().as_ptr().cast(), self.len()) }
    }

    /// All elements as a slice that can be written, without a copy.
    ///
    /// # Safety
    ///
    /// For as long as the slice lives, no other rank, no other thread, and not this one through the
    /// window or through another such slice may read or write these elements.
    #[track_caller]
    pub unsafe fn as_mut_slice(&self) -> &'w mut [T] {
        self.tell_lent("as_mut_slice");
        // SAFETY: as in `as_slice`; exclusive access is the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.segment.own.base().as_ptr().cast(), self.len())
        }
    }

    /// Tells a checker, if there is one, of an access to these elements.
    #[inline]
    #[track_caller]
    fn tell(&self, index: usize, count: usize, writes: bool) {
        if index.checked_add(count).is_some_and(|end| end <= self.len()) {
            let size = size_of::<T>() as u64;
            self.segment.tell_own(index as u64 * size, count as u64 * size, writes);
        }
    }

    #[inline]
    #[track_caller]
    fn tell_lent(&self, what: &'static str) {
        self.segment.tell_lent(what);
    }

    #[track_caller]
    fn check(&self, index: usize, count: usize, copy: impl FnOnce(u64) -> bool) -> Result<()> {
        let offset = (index as u64).saturating_mul(size_of::<T>() as u64);
        if copy(offset) {
            return Ok(());
        }
        let error = Error::OutOfBounds {
            rank: self.segment.me,
            first: index as u64,
            end: index.saturating_add(count) as u64,
            elements: self.len() as u64,
            element: short_name::<T>(),
            of: self.segment.said(),
        };
        self.segment.failed.note(&error, None, Location::caller());
        Err(error)
    }
}

/// Which types a window can hold: those with a size, and aligned to no more than a page.
pub(crate) fn check_type<T>() -> Result<()> {
    if size_of::<T>() == 0 {
        return Err(Error::Unsupported { what: "a window of zero-sized elements".into() });
    }
    if align_of::<T>() > 4096 {
        return Err(Error::Unsupported {
            what: format!("a window of elements aligned to {} bytes", align_of::<T>()),
        });
    }
    Ok(())
}

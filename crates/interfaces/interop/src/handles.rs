//! Handles: numbers that programs in C hold in place of what they stand for.
//!
//! A handle names a slot of a table and the generation of what is in it, so that a handle of
//! something that was freed, or a number that never was one, is recognised and not followed.
//! Slots never move, so that looking one up takes two loads and no lock.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use farside_fabric::Error;

/// The slots of the first chunk; each chunk is twice as long as the one before.
const FIRST: usize = 64;
const CHUNKS: usize = 24;
/// No handle: no table has a slot of that index.
const EMPTY: u64 = u64::MAX;

/// A table of things of one kind.
pub struct Table<T> {
    /// What a handle of this table stands for, as errors call it.
    what: &'static str,
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    /// The slots of the first chunk, once there are any: most programs need no others.
    first: AtomicPtr<Slot<T>>,
    /// The slots that are free, and how many there are in all.
    free: Mutex<(Vec<u32>, u32)>,
}

struct Slot<T> {
    /// The handle of what is in the slot, or [`EMPTY`].
    handle: AtomicU64,
    /// Counts what was put into the slot.
    generation: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a slot's value is written and taken under the table's lock; the rest is the promise of
// whoever has made the table.
unsafe impl<T> Sync for Table<T> {}

impl<T: 'static> Table<T> {
    /// Makes an empty table of things that errors call `what`.
    ///
    /// ```compile_fail,E0133
    /// // Needs an unsafe block.
    /// use farside_interop::handles::Table;
    /// static NUMBERS: Table<u64> = Table::new("number");
    /// ```
    ///
    /// # Safety
    ///
    /// The table must be a static, and those who look into it keep to C's rules: nothing is removed
    /// while a reference to it is in use, and threads use a thing at the same time only if it is
    /// made for that.
    pub const unsafe fn new(what: &'static str) -> Table<T> {
        Table {
            what,
            chunks: [const { OnceLock::new() }; CHUNKS],
            first: AtomicPtr::new(std::ptr::null_mut()),
            free: Mutex::new((Vec::new(), 0)),
        }
    }

    /// Puts something into the table and returns its handle, which is never 0.
    pub fn insert(&self, value: T) -> Result<u64, Error> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match free.0.pop() {
            Some(index) => index,
            None => {
                let index = free.1;
                let (chunk, _) = place(index);
                let chunk = self.chunks.get(chunk).ok_or(Error::TooMuch {
                    what: "handles of one kind",
                    value: u64::from(index) + 1,
                    limit: u64::from(index),
                })?;
                let slots = chunk.get_or_init(|| {
                    (0..chunk_len(place(index).0)).map(|_| Slot::empty()).collect()
                });
                if index == 0 {
                    self.first.store(slots.as_ptr().cast_mut(), Ordering::Release);
                }
                free.1 += 1;
                index
            }
        };
        let slot = self.slot(index).ok_or(Error::Internal("a handle has no slot".into()))?;
        // SAFETY: the slot is free, and the lock is held: nothing else looks at the value.
        unsafe { (*slot.value.get()).write(value) };
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.generation.store(generation, Ordering::Relaxed);
        let handle = u64::from(generation) << 32 | u64::from(index);
        slot.handle.store(handle, Ordering::Release);
        Ok(handle)
    }

    /// Returns what a handle stands for.
    #[inline]
    pub fn get(&self, handle: u64) -> Result<&'static T, Error> {
        match self.slot(handle as u32) {
            Some(slot) if slot.holds(handle) => {
                // SAFETY: it is in the slot, which is never moved; by the promise made to `new`
                // nothing frees it while it is used.
                Ok(unsafe { (*slot.value.get()).assume_init_ref() })
            }
            _ => Err(self.unknown(handle)),
        }
    }

    /// Takes what a handle stands for out of the table.
    pub fn remove(&self, handle: u64) -> Result<T, Error> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        match self.slot(handle as u32) {
            Some(slot) if slot.holds(handle) => {
                slot.handle.store(EMPTY, Ordering::Release);
                // A slot whose generations are used up is not used again.
                if (handle >> 32) as u32 != u32::MAX {
                    free.0.push(handle as u32);
                }
                // SAFETY: it was in the slot, and the slot says that it is not any more.
                Ok(unsafe { (*slot.value.get()).assume_init_read() })
            }
            _ => Err(self.unknown(handle)),
        }
    }

    /// Returns the handles of all that is in the table.
    pub fn handles(&self) -> Vec<u64> {
        let count = self.free.lock().unwrap_or_else(PoisonError::into_inner).1;
        let held = |index| Some(self.slot(index)?.handle.load(Ordering::Acquire));
        (0..count).filter_map(held).filter(|&handle| handle != EMPTY).collect()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&'static Slot<T>> {
        let first = self.first.load(Ordering::Acquire);
        if index < FIRST as u32 && !first.is_null() {
            // SAFETY: the first chunk has so many slots, and chunks are never freed.
            return Some(unsafe { &*first.add(index as usize) });
        }
        self.slot_of_any_chunk(index)
    }

    #[inline(never)]
    fn slot_of_any_chunk(&self, index: u32) -> Option<&'static Slot<T>> {
        let (chunk, at) = place(index);
        let slot = self.chunks.get(chunk)?.get()?.get(at)?;
        // SAFETY: tables are statics, and chunks are never freed.
        Some(unsafe { &*std::ptr::from_ref(slot) })
    }

    #[cold]
    fn unknown(&self, handle: u64) -> Error {
        let what = self.what;
        Error::InvalidArgument(match handle {
            0 => format!("the handle of a {what} is 0: it was never given out"),
            _ => {
                format!("{handle:#x} is not a handle of a {what}: it was freed, or never given out")
            }
        })
    }
}

impl<T> Slot<T> {
    fn empty() -> Slot<T> {
        Slot {
            handle: AtomicU64::new(EMPTY),
            generation: AtomicU32::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline]
    fn holds(&self, handle: u64) -> bool {
        self.handle.load(Ordering::Acquire) == handle
    }
}

/// The chunk of a slot, and its place there.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let from_first = index as usize + FIRST;
    let chunk = (from_first / FIRST).ilog2() as usize;
    (chunk, from_first - (FIRST << chunk))
}

fn chunk_len(chunk: usize) -> usize {
    FIRST << chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: numbers, which the tests copy.
    static NUMBERS: Table<u64> = unsafe { Table::new("number") };

    #[test]
    fn a_handle_is_good_until_it_is_freed_and_never_again() {
        let handles: Vec<u64> = (0..10_000).map(|n| NUMBERS.insert(n).unwrap()).collect();
        for (n, &handle) in handles.iter().enumerate() {
            assert_eq!(NUMBERS.get(handle), Ok(&(n as u64)));
        }
        for (n, &handle) in handles.iter().enumerate() {
            assert_eq!(NUMBERS.remove(handle), Ok(n as u64));
            assert!(NUMBERS.get(handle).is_err() && NUMBERS.remove(handle).is_err());
        }
        let again = NUMBERS.insert(7).unwrap();
        assert!(!handles.contains(&again));
        for wild in [0, 1, u64::MAX, again ^ 1 << 40, again + (1 << 30)] {
            assert!(NUMBERS.get(wild).is_err(), "{wild:#x}");
        }
        assert!(NUMBERS.get(0).unwrap_err().to_string().contains("never given out"));
    }

    #[test]
    fn every_index_has_a_place() {
        let mut next = (0, 0);
        for index in 0..100_000 {
            assert_eq!(place(index), next);
            next = if next.1 + 1 == chunk_len(next.0) {
                (next.0 + 1, 0)
            } else {
                (next.0, next.1 + 1)
            };
        }
    }
}

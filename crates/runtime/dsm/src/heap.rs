//! A heap in shared memory: one rank allocates, and all use what it has allocated.
//!
//! Free blocks of one size form a list: the first word of each says where the next one is. The
//! sizes are 1 to 8 times 16 bytes, and then four for each power of two.

use farside_fabric::{Error, Result};
use farside_rma::Plain;

use crate::dsm::Dsm;
use crate::region::Placement;
use crate::shared::Shared;

/// The alignment of blocks, and the least size of one.
const UNIT: u64 = 16;
const SIZES: usize = 256;
/// The words of the heap's state: the bytes that were ever allocated, and for each size where the
/// first free block is, plus 1.
const USED: usize = 0;
const FREE: usize = 1;

/// A heap in shared memory. Any rank allocates and frees, alone, under the heap's lock; other ranks
/// need not know of it. What is allocated is a [`Shared`] slice, which is plain data: put it into
/// shared memory, or send it, for other ranks to use.
///
/// A name, as [`Shared`] is: the same on every rank, and copied freely. A program that holds the
/// lock itself must not call its methods.
///
/// ```
/// use farside::dsm::{Config, Dsm, Shared, SharedHeap};
///
/// farside::local(3, |world| {
///     let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
///     let heap = SharedHeap::new(&mut dsm, 1 << 16, 7)?;
///     let root = dsm.alloc::<Shared<f64>>(1)?;
///     if world.rank().0 == 1 {
///         let numbers = heap.alloc::<f64>(&mut dsm, 100)?;
///         dsm.set(numbers, 99, 0.5)?;
///         dsm.set(root, 0, numbers)?;
///     }
///     dsm.barrier()?;
///     let numbers = dsm.get(root, 0)?;
///     assert_eq!((numbers.len(), dsm.get(numbers, 99)?), (100, 0.5));
///     dsm.close()
/// })
/// .unwrap();
/// ```
#[derive(Clone, Copy)]
pub struct SharedHeap {
    lock: u32,
    state: Shared<u64>,
    room: Shared<u64>,
}

impl SharedHeap {
    /// Makes a heap of so many bytes, guarded by this lock. Every rank does, in the same order with
    /// its other allocations; the memory must not have been used before.
    pub fn new(dsm: &mut Dsm<'_>, bytes: u64, lock: u32) -> Result<SharedHeap> {
        let words = (bytes / UNIT * UNIT / 8) as usize;
        let (state, room) =
            dsm.alloc_both((FREE + SIZES, Placement::Pages), (words, Placement::Pages))?;
        Ok(SharedHeap { lock, state, room })
    }

    /// Returns the lock that guards it.
    pub fn lock(&self) -> u32 {
        self.lock
    }

    /// Allocates a shared slice, as one rank. It is zero where no block of its size was freed
    /// before, and otherwise holds what was written last.
    #[track_caller]
    pub fn alloc<T: Plain>(&self, dsm: &mut Dsm<'_>, len: usize) -> Result<Shared<T>> {
        if align_of::<T>() as u64 > UNIT {
            let error = Error::Misaligned { offset: UNIT, align: align_of::<T>() as u64 };
            return Err(dsm.world().failed(error));
        }
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let world = dsm.world();
        let offset = world.noted(dsm.locked(self.lock, |dsm| self.take(dsm, bytes)))?;
        Ok(Shared::new(self.room.offset() + offset, len))
    }

    /// Gives a slice back, as one rank; none may use it any more. Later allocations of about its
    /// size use the memory again.
    #[track_caller]
    pub fn free<T: Plain>(&self, dsm: &mut Dsm<'_>, shared: Shared<T>) -> Result<()> {
        let world = dsm.world();
        let freed = dsm.locked(self.lock, |dsm| {
            let bytes = (shared.len() as u64).saturating_mul(size_of::<T>() as u64);
            let used = dsm.get(self.state, USED)?;
            let inside = shared.offset().checked_sub(self.room.offset()).filter(|offset| {
                offset.is_multiple_of(UNIT) && offset.saturating_add(bytes) <= used
            });
            let (Some(offset), Some(size)) = (inside, size_of_block(bytes)) else {
                return Err(Error::InvalidArgument(format!(
                    "the {bytes} bytes at byte {} of shared memory do not belong to this heap",
                    shared.offset()
                )));
            };
            let first = dsm.get(self.state, FREE + size.number)?;
            dsm.set(self.room, (offset / 8) as usize, first)?;
            dsm.set(self.state, FREE + size.number, offset + 1)
        });
        world.noted(freed)
    }

    /// Takes a block; returns where it is in the room.
    fn take(&self, dsm: &Dsm<'_>, bytes: u64) -> Result<u64> {
        let room = self.room.len() as u64 * 8;
        let used = dsm.get(self.state, USED)?;
        let exhausted = || {
            Error::Exhausted(format!(
                "cannot allocate {bytes} bytes on a shared heap of {room}, of which {used} are \
                 taken: make it larger"
            ))
        };
        let size = size_of_block(bytes).ok_or_else(exhausted)?;
        let first = FREE + size.number;
        if let Some(offset) = dsm.get(self.state, first)?.checked_sub(1) {
            let next = dsm.get(self.room, (offset / 8) as usize)?;
            let is_block = |next: u64| next <= room && (next - 1).is_multiple_of(UNIT);
            if next != 0 && !is_block(next) {
                return Err(Error::InvalidState(format!(
                    "a shared heap is damaged: the freed block at byte {} was written to",
                    self.room.offset() + offset
                )));
            }
            dsm.set(self.state, first, next)?;
            return Ok(offset);
        }
        let end = used.saturating_add(size.bytes);
        if end > room {
            return Err(exhausted());
        }
        dsm.set(self.state, USED, end)?;
        Ok(used)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockSize {
    number: usize,
    bytes: u64,
}

fn size_of_block(bytes: u64) -> Option<BlockSize> {
    let units = bytes.div_ceil(UNIT).max(1);
    // Up to 8 units each number is a size, then every second, every fourth, …
    let shift = (units - 1).checked_ilog2().map_or(0, |log| log.saturating_sub(2));
    let step = 2u64.pow(shift);
    let steps = units.div_ceil(step);
    let number = (4 * shift + steps as u32 - 1) as usize;
    let bytes = steps.checked_mul(step)?.checked_mul(UNIT)?;
    (number < SIZES).then_some(BlockSize { number, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_room_and_waste_a_quarter_at_most() {
        let mut last = BlockSize { number: 0, bytes: UNIT };
        for units in 1..5000u64 {
            for bytes in [units * UNIT - 1, units * UNIT] {
                let size = size_of_block(bytes).unwrap();
                assert!(
                    size.bytes >= bytes && size.bytes <= units * UNIT * 5 / 4,
                    "{bytes} {size:?}"
                );
                assert!(size.bytes.is_multiple_of(UNIT));
                // Numbers follow each other, and each stands for one size.
                let is_next = size.number == last.number + 1 && size.bytes > last.bytes;
                assert!(size == last || is_next, "{last:?} {size:?}");
                last = size;
            }
        }
        assert_eq!(size_of_block(0), size_of_block(16));
        assert_eq!(size_of_block(u64::MAX), None);
    }
}

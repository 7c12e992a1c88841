//! Loads and stores of elements that other ranks may access at the same time.
//!
//! Ranks that are threads of one process share pages as threads share memory, so that accesses
//! which no synchronization orders must not be plain ones: relaxed atomics for numbers, and copies
//! as the fabrics make them for all else. What races yields old or new bytes.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use farside_fabric::memory::{copy_in, copy_out};
use farside_rma::Plain;

#[inline(always)]
pub(crate) fn load<T: Plain>(cell: &Cell<T>) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let (from, into) = (cell.as_ptr(), value.as_mut_ptr());
    macro_rules! by {
        ($atomic:ty, $bits:ty) => {
            // SAFETY: a cell is valid for loads, and aligned as the atomic is; both are of one
            // size.
            unsafe {
                let bits = <$atomic>::from_ptr(from.cast()).load(Ordering::Relaxed);
                into.cast::<$bits>().write(bits);
            }
        };
    }
    match (size_of::<T>(), align_of::<T>()) {
        (1, _) => by!(AtomicU8, u8),
        (2, 2) => by!(AtomicU16, u16),
        (4, 4) => by!(AtomicU32, u32),
        (8, 8) => by!(AtomicU64, u64),
        // SAFETY: one element at either side.
        (bytes, _) => unsafe { copy_out(into.cast(), from.cast(), bytes) },
    }
    // SAFETY: all bytes were written, and any bytes are a plain element.
    unsafe { value.assume_init() }
}

#[inline(always)]
pub(crate) fn store<T: Plain>(cell: &Cell<T>, value: T) {
    let (from, into) = (&raw const value, cell.as_ptr());
    macro_rules! by {
        ($atomic:ty, $bits:ty) => {
            // SAFETY: a cell is valid for stores, and aligned as the atomic is; both are of one
            // size.
            unsafe {
                let bits = from.cast::<$bits>().read();
                <$atomic>::from_ptr(into.cast()).store(bits, Ordering::Relaxed);
            }
        };
    }
    match (size_of::<T>(), align_of::<T>()) {
        (1, _) => by!(AtomicU8, u8),
        (2, 2) => by!(AtomicU16, u16),
        (4, 4) => by!(AtomicU32, u32),
        (8, 8) => by!(AtomicU64, u64),
        // SAFETY: one element at either side.
        (bytes, _) => unsafe { copy_in(into.cast(), from.cast(), bytes) },
    }
}

/// Loads as many elements as fit.
pub(crate) fn load_all<T: Plain>(cells: &[Cell<T>], into: &mut [T]) {
    let count = cells.len().min(into.len());
    // SAFETY: so many elements at either side, and any bytes are plain elements.
    unsafe {
        copy_out(into.as_mut_ptr().cast(), cells.as_ptr().cast(), count * size_of::<T>());
    }
}

/// Stores as many elements as there are cells for.
pub(crate) fn store_all<T: Plain>(cells: &[Cell<T>], from: &[T]) {
    let count = cells.len().min(from.len());
    let into = cells.as_ptr().cast_mut().cast();
    // SAFETY: so many elements at either side; what is in a cell may be changed.
    unsafe { copy_in(into, from.as_ptr().cast(), count * size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells that two threads use at the same time.
    struct Racy<T>(Vec<Cell<T>>);

    // SAFETY: all accesses go through the functions above.
    unsafe impl<T> Sync for Racy<T> {}

    fn race<T: Plain + PartialEq + std::fmt::Debug>(values: [T; 2]) {
        let cells = Racy(vec![Cell::new(values[0]); 5]);
        std::thread::scope(|scope| {
            for mine in values {
                let cells = &cells;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut all = [mine; 5];
                        store(&cells.0[1], mine);
                        load_all(&cells.0, &mut all);
                        store_all(&cells.0[..3], &[mine; 3]);
                        assert!(values.contains(&load(&cells.0[4])));
                        all.iter().for_each(|value| assert!(values.contains(value)));
                    }
                });
            }
        });
    }

    #[test]
    fn elements_of_every_size_may_race() {
        race([1u8, 2]);
        race([1u16, 2]);
        race([1i32, -2]);
        race([1.0f64, 2.0]);
        // Of these, a part may be old and another one new.
        race([[7u8; 3]; 2]);
        race([[7u32; 5]; 2]);
    }
}

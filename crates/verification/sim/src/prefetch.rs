//! Hints to the processor: with thousands of ranks, nothing that the next event needs is in its
//! caches, and most of a run would be waiting.

/// Asks for so many cache lines from `at` on. Any address will do: one that cannot be read is
/// ignored.
#[inline]
pub(crate) fn lines(at: *const u8, count: usize) {
    for line in 0..count {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing, and does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line * 64).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (at, line);
    }
}

#[inline]
pub(crate) fn value<T>(at: *const T) {
    lines(at.cast(), size_of::<T>().div_ceil(64));
}

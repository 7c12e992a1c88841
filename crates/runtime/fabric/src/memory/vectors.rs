//! Accumulates by vectors: blocks are loaded from shared memory, combined in registers and stored,
//! once each.

use std::arch::asm;
use std::arch::x86_64::{__m256i, __m512i};
use std::mem::transmute_copy;

use crate::accumulate::Element;

pub(super) const BLOCK_BYTES: usize = 64;

/// The number of blocks that are loaded before the first of them is stored. A load that follows
/// a store to an address with the same last 12 bits waits for it, and the three sides of an
/// accumulate are often at nearly the same place of their pages.
const AT_ONCE: usize = 4;

/// Defines a function that combines blocks by one kind of vectors.
macro_rules! combine_blocks {
    ($name:ident, $features:literal, $block:ty, $load:ident, $store:ident) => {
        /// Combines as many whole blocks as there are, and returns their bytes. Each is `N`
        /// elements. What was there is wanted if `FETCHES`.
        ///
        /// The loop has one counter, in a register: assembly may read any memory, so that what had
        /// its place in memory would be written there for every block.
        ///
        /// # Safety
        ///
        /// As `Pass::run` of these fields; and the processor must have the instructions.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<T: Element, const N: usize, const FETCHES: bool>(
            y: *mut u8,
            x: *const u8,
            old: Option<*mut u8>,
            bytes: usize,
            combine: &impl Fn(T, T) -> T,
        ) -> usize {
            /// Combines `B` blocks from byte `at` on.
            ///
            /// # Safety
            ///
            /// As the function around it; so many bytes must be left.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn combine_at<
                T: Element,
                const N: usize,
                const B: usize,
                const FETCHES: bool,
            >(
                (y, x, old): (*mut u8, *const u8, Option<*mut u8>),
                at: usize,
                combine: &impl Fn(T, T) -> T,
            ) {
                const { assert!(N * size_of::<T>() == BLOCK_BYTES) };
                // SAFETY: a block is `N` elements, of which any bytes are a value and none is
                // uninitialized; the rest by the caller's promise.
                unsafe {
                    let (y, x) = (y.add(at), x.add(at));
                    let mut held: [$block; B] = std::mem::zeroed();
                    for (block, held) in held.iter_mut().enumerate() {
                        *held = $load(y.add(block * BLOCK_BYTES));
                    }
                    if FETCHES && let Some(old) = old {
                        old.add(at).cast::<[$block; B]>().write_unaligned(held);
                    }
                    for (block, held) in held.iter().enumerate() {
                        let mut elements: [T; N] = transmute_copy(held);
                        let message = x.add(block * BLOCK_BYTES).cast::<[T; N]>().read_unaligned();
                        for at in 0..N {
                            elements[at] = combine(elements[at], message[at]);
                        }
                        $store(y.add(block * BLOCK_BYTES), transmute_copy(&elements));
                    }
                }
            }
            let mut at = 0;
            // SAFETY: so many bytes are left each time; the rest by the caller's promise.
            unsafe {
                while bytes - at >= AT_ONCE * BLOCK_BYTES {
                    combine_at::<T, N, AT_ONCE, FETCHES>((y, x, old), at, combine);
                    at += AT_ONCE * BLOCK_BYTES;
                }
                while bytes - at >= BLOCK_BYTES {
                    combine_at::<T, N, 1, FETCHES>((y, x, old), at, combine);
                    at += BLOCK_BYTES;
                }
            }
            at
        }
    };
}

combine_blocks!(combine_avx2, "avx2", [__m256i; 2], load_avx2, store_avx2);
combine_blocks!(combine_avx512, "avx512bw,avx512dq", __m512i, load_avx512, store_avx512);

/// Whether the processor has vectors of a whole block, for all kinds of elements.
#[inline(always)]
pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512dq")
}

/// Loads a block of shared memory. What assembly does compilers cannot reason about: for them
/// it may well be a loop of relaxed byte accesses, and so it may race.
///
/// # Safety
///
/// `from` must be mapped shared memory for a block.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_avx2(from: *const u8) -> [__m256i; 2] {
    let (low, high): (__m256i, __m256i);
    // SAFETY: reads the promised bytes, and nothing else happens.
    unsafe {
        asm!(
            "vmovdqu {low}, [{from}]",
            "vmovdqu {high}, [{from} + 32]",
            from = in(reg) from,
            low = lateout(ymm_reg) low,
            high = lateout(ymm_reg) high,
            options(nostack, preserves_flags, readonly)
        );
    }
    [low, high]
}

/// Stores a block to shared memory.
///
/// # Safety
///
/// `to` must be mapped shared memory for a block.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_avx2(to: *mut u8, block: [__m256i; 2]) {
    // SAFETY: writes the promised bytes, and nothing else happens.
    unsafe {
        asm!(
            "vmovdqu [{to}], {low}",
            "vmovdqu [{to} + 32], {high}",
            to = in(reg) to,
            low = in(ymm_reg) block[0],
            high = in(ymm_reg) block[1],
            options(nostack, preserves_flags)
        );
    }
}

/// As [`load_avx2`].
///
/// # Safety
///
/// `from` must be mapped shared memory for a block.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn load_avx512(from: *const u8) -> __m512i {
    let block: __m512i;
    // SAFETY: reads the promised bytes, and nothing else happens.
    unsafe {
        asm!(
            "vmovdqu64 {block}, [{from}]",
            from = in(reg) from,
            block = lateout(zmm_reg) block,
            options(nostack, preserves_flags, readonly)
        );
    }
    block
}

/// As [`store_avx2`].
///
/// # Safety
///
/// `to` must be mapped shared memory for a block.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store_avx512(to: *mut u8, block: __m512i) {
    // SAFETY: writes the promised bytes, and nothing else happens.
    unsafe {
        asm!(
            "vmovdqu64 [{to}], {block}",
            to = in(reg) to,
            block = in(zmm_reg) block,
            options(nostack, preserves_flags)
        );
    }
}

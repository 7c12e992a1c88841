//! Accumulates by vectors: blocks are loaded from shared memory, combined in registers and stored,
//! once each.

use std::arch::asm;
use std::arch::x86_64::{__m256i, _mm256_setzero_si256};
use std::mem::transmute_copy;

use super::accumulate::Pass;
use crate::accumulate::Element;

/// The length of a block.
pub(super) const BLOCK_BYTES: usize = 64;

/// What a block holds.
type Block = [__m256i; 2];

/// The number of blocks that are loaded before the first of them is stored. A load that follows
/// a store to an address with the same last 12 bits waits for it, and the three sides of an
/// accumulate are often at nearly the same place of their pages.
const AT_ONCE: usize = 4;

/// Combines as many whole blocks as there are, and returns their bytes. Each is `N` elements.
/// What was there is wanted if `FETCHES`.
///
/// The loop has one counter, in a register: assembly may read any memory, so that what had its
/// place in memory would be written there for every block.
///
/// # Safety
///
/// As [`Pass::run`]; and the processor must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn combine_blocks<T: Element, const N: usize, const FETCHES: bool>(
    pass: Pass,
    combine: &impl Fn(T, T) -> T,
) -> usize {
    let mut at = 0;
    // SAFETY: so many bytes are left each time; the rest by the caller's promise.
    unsafe {
        while pass.bytes - at >= AT_ONCE * BLOCK_BYTES {
            combine_at::<T, N, AT_ONCE, FETCHES>(&pass, at, combine);
            at += AT_ONCE * BLOCK_BYTES;
        }
        while pass.bytes - at >= BLOCK_BYTES {
            combine_at::<T, N, 1, FETCHES>(&pass, at, combine);
            at += BLOCK_BYTES;
        }
    }
    at
}

/// Combines `B` blocks from byte `at` on.
///
/// # Safety
///
/// As [`combine_blocks`]; so many bytes must be left.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn combine_at<T: Element, const N: usize, const B: usize, const FETCHES: bool>(
    &Pass { y, x, old, .. }: &Pass,
    at: usize,
    combine: &impl Fn(T, T) -> T,
) {
    const { assert!(N * size_of::<T>() == BLOCK_BYTES) };
    // SAFETY: a block is `N` elements, of which any bytes are a value and none is
    // uninitialized; the rest by the caller's promise.
    unsafe {
        let (y, x) = (y.add(at), x.add(at));
        let mut held: [Block; B] = [[_mm256_setzero_si256(); 2]; B];
        for (block, held) in held.iter_mut().enumerate() {
            *held = load(y.add(block * BLOCK_BYTES));
        }
        if FETCHES && let Some(old) = old {
            old.add(at).cast::<[Block; B]>().write_unaligned(held);
        }
        for (block, held) in held.iter().enumerate() {
            let mut elements: [T; N] = transmute_copy(held);
            let message = x.add(block * BLOCK_BYTES).cast::<[T; N]>().read_unaligned();
            for at in 0..N {
                elements[at] = combine(elements[at], message[at]);
            }
            store(y.add(block * BLOCK_BYTES), transmute_copy(&elements));
        }
    }
}

/// Loads a block of shared memory. What assembly does compilers cannot reason about: for them
/// it may well be a loop of relaxed byte accesses, and so it may race.
///
/// # Safety
///
/// `from` must be mapped shared memory for a block.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(from: *const u8) -> Block {
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
unsafe fn store(to: *mut u8, block: Block) {
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

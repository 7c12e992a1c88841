//! Atomics on words of 32, 64 and 128 bits.

use std::ffi::{c_int, c_void};

use farside::fabric::{Atomic, Width};
use farside::{Rank, Result};

use crate::job::{context, farside_context_t};
use crate::status::{Out, bad, bytes, bytes_mut, guarded};
use crate::window::{farside_window_t, window};

/// Reads the word.
pub const FARSIDE_ATOMIC_LOAD: c_int = 0;
/// Writes the operand.
pub const FARSIDE_ATOMIC_STORE: c_int = 1;
/// Adds the operand, wrapping.
pub const FARSIDE_ATOMIC_ADD: c_int = 2;
/// Writes the operand and gives what the word held.
pub const FARSIDE_ATOMIC_SWAP: c_int = 3;
/// Writes the operand if the word holds what it is compared with.
pub const FARSIDE_ATOMIC_COMPARE_SWAP: c_int = 4;
/// Keeps the bits that the operand has too.
pub const FARSIDE_ATOMIC_AND: c_int = 5;
/// Sets the operand's bits.
pub const FARSIDE_ATOMIC_OR: c_int = 6;
/// Flips the operand's bits.
pub const FARSIDE_ATOMIC_XOR: c_int = 7;

/// Reads the width of a word.
pub(crate) fn width(bits: c_int) -> Result<Width> {
    match bits {
        32 => Ok(Width::W32),
        64 => Ok(Width::W64),
        128 => Ok(Width::Pair),
        _ => Err(bad(format!("a word of {bits} bits: there are words of 32, 64 and 128"))),
    }
}

/// A word in memory of the caller.
///
/// # Safety
///
/// The pointer is null or valid for reads of a word of this width.
unsafe fn word(pointer: *const c_void, width: Width, name: &str) -> Result<u128> {
    // SAFETY: by the caller's promise.
    let word = unsafe { bytes(pointer, width.bytes() as usize, name)? };
    let mut all = [0; 16];
    all[..word.len()].copy_from_slice(word);
    Ok(u128::from_le_bytes(all))
}

/// Reads an operation with its operands.
///
/// # Safety
///
/// The pointers are null or valid for reads of a word of this width.
unsafe fn operation(
    code: c_int,
    width: Width,
    operand: *const c_void,
    compare: *const c_void,
) -> Result<Atomic> {
    // SAFETY: by the caller's promise.
    let operand = || unsafe { word(operand, width, "operand") };
    Ok(match code {
        FARSIDE_ATOMIC_LOAD => Atomic::Load,
        FARSIDE_ATOMIC_STORE => Atomic::Store(operand()?),
        FARSIDE_ATOMIC_ADD => Atomic::Add(operand()?),
        FARSIDE_ATOMIC_SWAP => Atomic::Swap(operand()?),
        FARSIDE_ATOMIC_COMPARE_SWAP => Atomic::CompareSwap {
            // SAFETY: by the caller's promise.
            expected: unsafe { word(compare, width, "compare")? },
            desired: operand()?,
        },
        FARSIDE_ATOMIC_AND => Atomic::And(operand()?),
        FARSIDE_ATOMIC_OR => Atomic::Or(operand()?),
        FARSIDE_ATOMIC_XOR => Atomic::Xor(operand()?),
        _ => return Err(bad(format!("{code} is not an operation; use FARSIDE_ATOMIC_..."))),
    })
}

/// Executes an atomic, one of FARSIDE_ATOMIC_..., on the word of `bits` bits at `offset` of a
/// rank's part of a window. Words of 32 and 64 bits have all operations; those of 128 bits, whose
/// low half comes first, are loaded, stored, swapped and compared only. `operand`, `compare` and
/// `result` point to words of that width: the operand of all but a load, what a compare-and-swap
/// compares with, and where to write what the word held before, which may be null. Ranks that wait
/// for the word are woken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_atomic(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    bits: c_int,
    operation: c_int,
    operand: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
) -> c_int {
    guarded(|| {
        let width = width(bits)?;
        // SAFETY: by the caller's promise.
        let op = unsafe { self::operation(operation, width, operand, compare)? };
        let memory = self::window(window)?;
        let held = memory.atomic(&self::context(context)?.told(), Rank(rank), offset, width, op)?;
        if !result.is_null() {
            // SAFETY: by the caller's promise.
            let result = unsafe { bytes_mut(result, width.bytes() as usize, "result")? };
            let held = held.to_le_bytes();
            result.copy_from_slice(&held[..result.len()]);
        }
        Ok(())
    })
}

/// An atomic on a word of 64 bits.
#[inline(always)]
fn atomic64(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    op: Atomic,
) -> Result<u64> {
    let (memory, entry) = (self::window(window)?, self::context(context)?);
    match memory.atomic_directly(entry.context(), Rank(rank), offset, Width::W64, op) {
        Some(held) => Ok(held as u64),
        None => Ok(memory.atomic(&entry.told(), Rank(rank), offset, Width::W64, op)? as u64),
    }
}

/// An atomic on a word of 64 bits whose old value is not wanted.
#[inline(always)]
fn post64(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    op: Atomic,
) -> Result<()> {
    let (memory, entry) = (self::window(window)?, self::context(context)?);
    match memory.atomic_directly(entry.context(), Rank(rank), offset, Width::W64, op) {
        Some(_) => Ok(()),
        None => memory.post(&entry.told(), Rank(rank), offset, Width::W64, op),
    }
}

/// Adds to a word of 64 bits, wrapping, and gives what it held before. `held` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_fetch_add(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
    held: *mut u64,
) -> c_int {
    guarded(|| {
        let before = atomic64(context, window, rank, offset, Atomic::Add(value.into()))?;
        if !held.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(held, "held")? }.set(before);
        }
        Ok(())
    })
}

/// Writes `desired` to a word of 64 bits if it holds `expected`, and gives what it held before,
/// which is `expected` if it was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_compare_swap(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    expected: u64,
    desired: u64,
    held: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let held = unsafe { Out::new(held, "held")? };
        let op = Atomic::CompareSwap { expected: expected.into(), desired: desired.into() };
        held.set(atomic64(context, window, rank, offset, op)?);
        Ok(())
    })
}

/// Writes a word of 64 bits, and gives what it held before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_swap(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
    held: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let held = unsafe { Out::new(held, "held")? };
        held.set(atomic64(context, window, rank, offset, Atomic::Swap(value.into()))?);
        Ok(())
    })
}

/// Reads a word of 64 bits atomically.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_load(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let value = unsafe { Out::new(value, "value")? };
        value.set(atomic64(context, window, rank, offset, Atomic::Load)?);
        Ok(())
    })
}

/// Writes a word of 64 bits atomically, and wakes a rank that waits for it. Returns when it has
/// landed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_store(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| atomic64(context, window, rank, offset, Atomic::Store(value.into())).map(drop))
}

/// Posts a farside_store: it lands later, in order with what was put before only if a fence stands
/// between.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_signal(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| post64(context, window, rank, offset, Atomic::Store(value.into())))
}

/// Posts an addition to a word of 64 bits: it has landed after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_post_add(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| post64(context, window, rank, offset, Atomic::Add(value.into())))
}

/// Posts that a word of 64 bits keeps the bits that `value` has too: it has landed after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_post_and(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| post64(context, window, rank, offset, Atomic::And(value.into())))
}

/// Posts that the bits of `value` are set in a word of 64 bits: it has landed after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_post_or(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| post64(context, window, rank, offset, Atomic::Or(value.into())))
}

/// Posts that the bits of `value` are flipped in a word of 64 bits: it has landed after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_post_xor(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    value: u64,
) -> c_int {
    guarded(|| post64(context, window, rank, offset, Atomic::Xor(value.into())))
}

//! Accumulates, fetching or not, and compare-and-swap.
//!
//! Elements are updated atomically with respect to all other accumulates. There are two ways, and
//! which of them is taken depends on nothing but the kind of number and where it lies, whatever
//! else the call updates, so that calls that must exclude each other take the same:
//!
//! - numbers that farside knows, aligned, in memory of the job: its own accumulates;
//! - all else, which is memory of a process, numbers that only C knows, and misaligned ones: read,
//!   combined here and written, under a lock of the memory's owner.

use std::ffi::{c_int, c_void};
use std::slice;

use farside::raw::{self, Accumulate, Number};
use farside::{Op, Place, Rank, Result};

use crate::combination::Combination;
use crate::layout::{Type, unpack};
use crate::part::{Packed, Part, Target};
use crate::runtime::Runtime;
use crate::status::OK;
use crate::transfer::{At, Buffer, NOT_NEAR};
use crate::window::{Window, on};

/// The offset of the lock in a rank's part of the control memory.
pub(crate) const LOCK: u64 = 0;

/// An operand of at most 16 bytes, with zeros behind it.
fn padded(bytes: &[u8]) -> [u8; 16] {
    let mut operand = [0; 16];
    operand[..bytes.len()].copy_from_slice(bytes);
    operand
}

fn by_farside(
    runtime: &Runtime,
    accumulate: &Accumulate,
    (owner, offset): (Rank, u64),
    data: &[u8],
    old: Option<&mut [u8]>,
) -> Result<()> {
    let place: Place<'_, u8> = runtime.heap().memory.at(owner, offset);
    match old {
        None => raw::accumulate(&runtime.world, accumulate, data, place),
        Some(old) => raw::get_accumulate(&runtime.world, accumulate, data, place, old),
    }
}

/// Reads, combines and writes under the lock of the memory's owner.
fn under_lock(
    runtime: &Runtime,
    target: &Target<'_>,
    combination: &Combination,
    data: &[u8],
    old: Option<&mut [u8]>,
) -> Result<()> {
    while_locked(runtime, target.part.owner(), || {
        let mut bytes = vec![0; target.layout.bytes() as usize];
        target.get_packed(runtime, &mut bytes)?;
        if let Some(old) = old {
            let length = old.len().min(bytes.len());
            old[..length].copy_from_slice(&bytes[..length]);
        }
        if combination.op() == Some(Op::Replace) {
            return target.put_packed(runtime, data);
        }
        if combination.is_no_op() {
            return Ok(());
        }
        let size = target.number_bytes();
        let count = bytes.len().min(data.len()) / size.max(1);
        // SAFETY: both are so many numbers long, and the border's function touches no more.
        unsafe {
            (combination.fold)(
                combination.number,
                combination.op,
                bytes.as_mut_ptr().cast(),
                data.as_ptr().cast(),
                count,
            );
        }
        target.put_packed(runtime, &bytes)
    })
}

/// Runs an update that one step cannot make, under the lock of the memory's owner: memory that is
/// not there fails one call, not all others.
fn while_locked(runtime: &Runtime, owner: Rank, update: impl FnOnce() -> Result<()>) -> Result<()> {
    let held = runtime.hold(owner, LOCK)?;
    let updated = update();
    updated.and(runtime.world.flush(owner)).and(held.release())
}

/// Combines numbers of `from` with those of the target, and writes what was there before to
/// `result`, unless that is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_accumulate(
    window: *mut c_void,
    from: *const Buffer,
    result: *const Buffer,
    at: *const At,
    combination: *const Combination,
) -> c_int {
    on(window, |runtime, window| {
        // SAFETY: the border passes its own, and what it says of the program's buffers is true.
        unsafe {
            let (from, combination) = (*from, *combination);
            let target = (*at).find(runtime, window)?;
            let packed = match combination.is_no_op() {
                true => Packed::There(&[]),
                false => Packed::new(from.base(), &from.layout()),
            };
            // As much is combined as was sent.
            let target = match combination.is_no_op() {
                true => target,
                false => target.first(packed.bytes().len()),
            };
            let mut old = (!result.is_null()).then(|| vec![0; target.layout.bytes() as usize]);
            run(runtime, &target, &combination, packed.bytes(), old.as_deref_mut())?;
            if let Some(old) = old {
                unpack((*result).base(), &(*result).layout(), &old);
            }
        }
        Ok(())
    })
}

fn run(
    runtime: &Runtime,
    target: &Target<'_>,
    combination: &Combination,
    mut data: &[u8],
    mut old: Option<&mut [u8]>,
) -> Result<()> {
    let Some(accumulate) = runtime.accumulates.get(combination).filter(|_| target.is_of_job())
    else {
        return under_lock(runtime, target, combination, data, old);
    };
    for run in target.layout.iter() {
        let bytes = run.bytes as usize;
        let (now, rest) = data.split_at(if data.is_empty() { 0 } else { bytes });
        data = rest;
        let held = match old.take() {
            None => None,
            Some(into) => {
                let (held, rest) = into.split_at_mut(bytes);
                old = Some(rest);
                Some(held)
            }
        };
        match target.aligned_in_heap(run, accumulate.number().align()) {
            Some(place) => by_farside(runtime, accumulate, place, now, held)?,
            None => {
                // SAFETY: the run outlives this turn, and the type does not.
                let only = unsafe { Type::of_run(&run, target.number_bytes()) };
                under_lock(runtime, &target.with(&only), combination, now, held)?;
            }
        }
    }
    Ok(())
}

/// Combines numbers of one piece with near memory of the job, in the way in which all others do it;
/// or returns [`NOT_NEAR`]. `result` is null if what was there before is not wanted.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_accumulate_near(
    window: *const c_void,
    combination: *const Combination,
    from: *const c_void,
    result: *mut c_void,
    bytes: u64,
    member: c_int,
    displacement: i64,
) -> c_int {
    // SAFETY: the border passes what `farside_mpi_window` gave and was not yet freed.
    let (window, combination) = unsafe { (&*window.cast::<Window>(), &*combination) };
    let Some((runtime, part)) = window.near(member) else { return NOT_NEAR };
    let Some(accumulate) = runtime.accumulates.get(combination) else { return NOT_NEAR };
    let length = if accumulate.writes() { bytes as usize } else { 0 };
    // SAFETY: what the border says of the program's buffers is true.
    let (data, old) = unsafe {
        let data = if length == 0 { &[] } else { slice::from_raw_parts(from.cast(), length) };
        let old = (!result.is_null())
            .then(|| slice::from_raw_parts_mut(result.cast::<u8>(), bytes as usize));
        (data, old)
    };
    combine_near(runtime, part, displacement, accumulate, data, old)
}

#[inline(always)]
fn combine_near(
    runtime: &Runtime,
    part: &Part,
    displacement: i64,
    accumulate: &Accumulate,
    data: &[u8],
    old: Option<&mut [u8]>,
) -> c_int {
    match part.near_at(displacement) {
        Some((near, at)) if near.accumulate(&runtime.world, accumulate, data, at, old) => OK,
        _ => NOT_NEAR,
    }
}

/// The unsigned integer of so many bytes.
fn integer(bytes: usize) -> Option<Number> {
    match bytes {
        1 => Some(Number::U8),
        2 => Some(Number::U16),
        4 => Some(Number::U32),
        8 => Some(Number::U64),
        _ => None,
    }
}

/// [`farside_mpi_compare_and_swap`] of near memory of the job, or [`NOT_NEAR`].
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_compare_and_swap_near(
    window: *const c_void,
    expected: *const c_void,
    desired: *const c_void,
    result: *mut c_void,
    bytes: u64,
    member: c_int,
    displacement: i64,
) -> c_int {
    // SAFETY: as above, or null after a free that has failed.
    let Some(window) = (unsafe { window.cast::<Window>().as_ref() }) else { return NOT_NEAR };
    let Some((runtime, part)) = window.enter_near(member) else { return NOT_NEAR };
    let Some(number) = integer(bytes as usize) else { return NOT_NEAR };
    // SAFETY: what the border says of the program's buffers is true.
    let (expected, desired, result) = unsafe { words(expected, desired, result, bytes as usize) };
    let Ok(swap) = Accumulate::compare_swap(number, expected) else { return NOT_NEAR };
    let desired = &desired[..result.len()];
    combine_near(runtime, part, displacement, &swap, desired, Some(result))
}

/// The operands of a compare-and-swap, which may be the same memory as the result.
///
/// # Safety
///
/// So many bytes, 16 at most, must be readable and writable.
#[inline(always)]
unsafe fn words<'a>(
    expected: *const c_void,
    desired: *const c_void,
    result: *mut c_void,
    bytes: usize,
) -> ([u8; 16], [u8; 16], &'a mut [u8]) {
    // SAFETY: by the caller's promise.
    unsafe {
        let read = |from: *const c_void| padded(slice::from_raw_parts(from.cast(), bytes));
        (read(expected), read(desired), slice::from_raw_parts_mut(result.cast(), bytes))
    }
}

/// Writes `desired` to one number of the target if it holds `expected`; what it held before is
/// written to `result`. All three are as long as the number.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_compare_and_swap(
    window: *mut c_void,
    expected: *const c_void,
    desired: *const c_void,
    result: *mut c_void,
    at: *const At,
) -> c_int {
    on(window, |runtime, window| {
        // SAFETY: the border passes its own, and what it says of the program's buffers is true.
        let (target, operand, desired, result) = unsafe {
            let target = (*at).find(runtime, window)?;
            let bytes = target.layout.bytes() as usize;
            let (expected, desired, result) = words(expected, desired, result, bytes);
            (target, expected, desired, result)
        };
        let (expected, desired) = (&operand[..result.len()], &desired[..result.len()]);
        if let Some(number) = integer(expected.len())
            && let Some(run) = target.layout.contiguous()
            && let Some(place) = target.aligned_in_heap(run, number.align())
        {
            let swap = Accumulate::compare_swap(number, operand)?;
            return by_farside(runtime, &swap, place, desired, Some(result));
        }
        while_locked(runtime, target.part.owner(), || {
            target.get_packed(runtime, result)?;
            if *result == *expected { target.put_packed(runtime, desired) } else { Ok(()) }
        })
    })
}

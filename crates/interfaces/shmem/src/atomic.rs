//! Atomics on words of four and eight bytes.

use std::ffi::{c_int, c_void};

use farside::fabric::{Atomic, Width};

use crate::context::CtxHandle;
use crate::exit::{self, Call, OrExit};
use crate::races::Told;
use crate::transfer::{Direct, Target, check_aligned};

/// The operations, as `core.h` numbers them.
#[inline]
fn operation(op: c_int, value: u64, compare: u64, call: Call) -> Atomic {
    let value = u128::from(value);
    match op {
        0 => Atomic::Load,
        1 => Atomic::Swap(value),
        2 => Atomic::CompareSwap { expected: compare.into(), desired: value },
        3 => Atomic::Add(value),
        4 => Atomic::And(value),
        5 => Atomic::Or(value),
        6 => Atomic::Xor(value),
        other => exit::end(call, &format!("there is no atomic {other}")),
    }
}

/// Returns the width of an aligned word; exits if it is none.
#[inline]
fn width(dest: *const c_void, bytes: usize, call: Call) -> Width {
    check_aligned(dest, bytes, call);
    if bytes == 4 { Width::W32 } else { Width::W64 }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_atomic(
    ctx: CtxHandle,
    dest: *const c_void,
    bytes: usize,
    op: c_int,
    value: u64,
    compare: u64,
    pe: c_int,
    call: Call,
) -> u64 {
    let op = operation(op, value, compare, call);
    match at_once(ctx, dest, bytes, pe, op) {
        Some(held) => held,
        None => {
            let target = Target::new(ctx, dest, bytes, pe, call);
            let width = width(dest, bytes, call);
            let held = target.with(|context, memory| {
                memory.atomic(context, target.rank, target.offset, width, op)
            });
            held.or_exit(call) as u64
        }
    }
}

/// Executes an atomic on near memory, if nothing is wrong with it.
#[inline(always)]
fn at_once(
    ctx: CtxHandle,
    dest: *const c_void,
    bytes: usize,
    pe: c_int,
    op: Atomic,
) -> Option<u64> {
    let direct = Direct::find(ctx, dest, bytes, pe)?;
    match bytes {
        8 => direct.atomic(Width::W64, op),
        4 => direct.atomic(Width::W32, op),
        _ => None,
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_atomic_post(
    ctx: CtxHandle,
    dest: *mut c_void,
    bytes: usize,
    op: c_int,
    value: u64,
    pe: c_int,
    call: Call,
) {
    let op = operation(op, value, 0, call);
    if at_once(ctx, dest, bytes, pe, op).is_none() {
        let target = Target::new(ctx, dest, bytes, pe, call);
        let width = width(dest, bytes, call);
        let posted = target
            .with(|context, memory| memory.post(context, target.rank, target.offset, width, op));
        posted.or_exit(call);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_atomic_nbi(
    ctx: CtxHandle,
    fetch: *mut c_void,
    dest: *const c_void,
    bytes: usize,
    op: c_int,
    value: u64,
    compare: u64,
    pe: c_int,
    call: Call,
) {
    let op = operation(op, value, compare, call);
    let held = at_once(ctx, dest, bytes, pe, op).unwrap_or_else(|| {
        let target = Target::new(ctx, dest, bytes, pe, call);
        let width = width(dest, bytes, call);
        target.uses(fetch, bytes, true, false);
        let held = target.told(Told::Nonblocking, |context, memory| {
            memory.atomic(context, target.rank, target.offset, width, op)
        });
        held.or_exit(call) as u64
    });
    // SAFETY: by the specification there is room for the word.
    unsafe { fetch.cast::<u8>().copy_from(held.to_ne_bytes().as_ptr(), bytes) };
}

//! Atomics on words of four and eight bytes.

use std::ffi::{c_int, c_void};

use farside::fabric::{Atomic, Width};

use crate::context::CtxHandle;
use crate::exit::{self, Call, OrExit};
use crate::transfer::Target;

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
    if !dest.addr().is_multiple_of(bytes) {
        exit::end(call, &format!("the word at {dest:p} is not aligned to its {bytes} bytes"));
    }
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
    let target = Target::new(ctx, dest, bytes, pe, call);
    let (width, op) = (width(dest, bytes, call), operation(op, value, compare, call));
    let held = target
        .with(|context, memory| memory.atomic(context, target.rank, target.offset, width, op));
    held.or_exit(call) as u64
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
    let target = Target::new(ctx, dest, bytes, pe, call);
    let (width, op) = (width(dest, bytes, call), operation(op, value, 0, call));
    let posted =
        target.with(|context, memory| memory.post(context, target.rank, target.offset, width, op));
    posted.or_exit(call);
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
    let held = farside_shmem_atomic(ctx, dest, bytes, op, value, compare, pe, call).to_ne_bytes();
    // SAFETY: by the specification there is room for the word.
    unsafe { fetch.cast::<u8>().copy_from(held.as_ptr(), bytes) };
}

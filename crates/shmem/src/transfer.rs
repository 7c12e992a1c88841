//! Puts and gets: contiguous ones, single values, and puts with a signal.

use std::ffi::{c_int, c_void};
use std::slice;

use farside::fabric::{Atomic, Width};
use farside::raw::Request;
use farside::{Context, Rank, Result};

use crate::context::{Ctx, CtxHandle, context};
use crate::exit::{self, Call, OrExit};
use crate::region::Region;
use crate::runtime::{Runtime, runtime};

/// A symmetric object on a PE, and the context of an operation on it.
pub(crate) struct Target {
    pub(crate) runtime: &'static Runtime,
    pub(crate) ctx: &'static Ctx,
    pub(crate) rank: Rank,
    region: &'static Region,
    pub(crate) offset: u64,
}

impl Target {
    /// Finds `bytes` bytes at an address on a PE of the context's team. Exits if they are not
    /// symmetric, or if there is no such PE.
    #[inline]
    pub(crate) fn new(
        ctx: CtxHandle,
        address: *const c_void,
        bytes: usize,
        pe: c_int,
        call: Call,
    ) -> Target {
        let runtime = runtime(call);
        let ctx = context(runtime, ctx, call);
        let rank = ctx.rank(runtime, pe, call);
        let (region, offset) = symmetric(runtime, address, bytes, call);
        Target { runtime, ctx, rank, region, offset }
    }

    /// Calls `act` with the context, the memory and the place in it.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&Context, &farside::raw::Memory) -> R) -> R {
        self.ctx.with(self.runtime, |context| act(context, &self.region.memory))
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        self.with(|context, memory| memory.put_and_wake(context, self.rank, self.offset, bytes))
    }
}

/// Returns the region of a symmetric object and its offset there; exits if it is none.
#[inline]
pub(crate) fn symmetric(
    runtime: &'static Runtime,
    address: *const c_void,
    bytes: usize,
    call: Call,
) -> (&'static Region, u64) {
    match runtime.regions.find(address.addr(), bytes) {
        Some(found) => found,
        None => exit::not_symmetric(call, address.addr(), bytes),
    }
}

/// Ends the job if there is no memory where the program says that it has some.
#[inline]
pub(crate) fn check_not_null(address: *const c_void, bytes: usize, call: Call) {
    if address.is_null() {
        exit::end(call, &format!("{bytes} bytes at a null pointer"));
    }
}

/// # Safety
///
/// `source` must be readable for `bytes` bytes, unless it is null.
#[inline]
unsafe fn readable<'a>(source: *const c_void, bytes: usize, call: Call) -> &'a [u8] {
    check_not_null(source, bytes, call);
    // SAFETY: by the caller's promise.
    unsafe { slice::from_raw_parts(source.cast(), bytes) }
}

/// Returns whether an operation has nothing to do, after its context and PE were checked.
#[inline]
fn is_nothing(ctx: CtxHandle, bytes: usize, pe: c_int, call: Call) -> bool {
    if bytes == 0 {
        let runtime = runtime(call);
        context(runtime, ctx, call).rank(runtime, pe, call);
    }
    bytes == 0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_put(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    pe: c_int,
    call: Call,
) {
    if is_nothing(ctx, bytes, pe, call) {
        return;
    }
    let target = Target::new(ctx, dest, bytes, pe, call);
    // SAFETY: by the specification it is readable, and nothing writes it meanwhile.
    let data = unsafe { readable(source, bytes, call) };
    target.put(data).or_exit(call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_get(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    pe: c_int,
    call: Call,
) {
    if is_nothing(ctx, bytes, pe, call) {
        return;
    }
    let target = Target::new(ctx, source, bytes, pe, call);
    check_not_null(dest, bytes, call);
    // SAFETY: by the specification it is writable, and nothing else uses it meanwhile.
    let into = unsafe { slice::from_raw_parts_mut(dest.cast::<u8>(), bytes) };
    target
        .with(|context, memory| context.get(memory.at(target.rank, target.offset), into))
        .or_exit(call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_put_nbi(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    pe: c_int,
    call: Call,
) {
    if is_nothing(ctx, bytes, pe, call) {
        return;
    }
    let target = Target::new(ctx, dest, bytes, pe, call);
    check_not_null(source, bytes, call);
    // What is short is copied faster than it is kept track of.
    if bytes <= 64 || target.region.memory.near(target.rank).is_some() {
        // SAFETY: by the specification it is readable until the next quiet.
        let data = unsafe { readable(source, bytes, call) };
        target.put(data).or_exit(call);
        return;
    }
    let started = target.with(|context, memory| {
        let to = memory.at(target.rank, target.offset);
        // SAFETY: by the specification nothing writes it until the next quiet, which waits.
        let request = unsafe { Request::put(context, source.cast(), bytes, to)? };
        target.ctx.add(context, request)
    });
    started.or_exit(call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_get_nbi(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    pe: c_int,
    call: Call,
) {
    if is_nothing(ctx, bytes, pe, call) {
        return;
    }
    let target = Target::new(ctx, source, bytes, pe, call);
    check_not_null(dest, bytes, call);
    let started = target.with(|context, memory| {
        let from = memory.at(target.rank, target.offset);
        // SAFETY: by the specification nothing uses it until the next quiet, which waits.
        let request = unsafe { Request::get(context, from, dest.cast(), bytes)? };
        target.ctx.add(context, request)
    });
    started.or_exit(call);
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_put_value(
    ctx: CtxHandle,
    dest: *mut c_void,
    value: u64,
    bytes: usize,
    pe: c_int,
    call: Call,
) {
    let value = value.to_ne_bytes();
    let Some(value) = value.get(..bytes) else {
        exit::end(call, &"a value of more than eight bytes");
    };
    Target::new(ctx, dest, bytes, pe, call).put(value).or_exit(call);
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_get_value(
    ctx: CtxHandle,
    source: *const c_void,
    bytes: usize,
    pe: c_int,
    call: Call,
) -> u64 {
    let mut value = [0; 8];
    let Some(into) = value.get_mut(..bytes) else {
        exit::end(call, &"a value of more than eight bytes");
    };
    let target = Target::new(ctx, source, bytes, pe, call);
    target
        .with(|context, memory| context.get(memory.at(target.rank, target.offset), into))
        .or_exit(call);
    u64::from_ne_bytes(value)
}

/// SHMEM_SIGNAL_SET and SHMEM_SIGNAL_ADD.
const SIGNAL_SET: c_int = 1;
const SIGNAL_ADD: c_int = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_put_signal(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    sig_addr: *mut u64,
    signal: u64,
    signal_op: c_int,
    pe: c_int,
    call: Call,
) {
    let op = match signal_op {
        SIGNAL_SET => Atomic::Store(signal.into()),
        SIGNAL_ADD => Atomic::Add(signal.into()),
        other => {
            exit::end(call, &format!("{other} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"))
        }
    };
    let flag = Target::new(ctx, sig_addr.cast(), size_of::<u64>(), pe, call);
    if !sig_addr.is_aligned() {
        exit::end(call, &format!("the signal at {sig_addr:p} is not aligned to 8 bytes"));
    }
    if bytes == 0 {
        flag.with(|context, memory| memory.post(context, flag.rank, flag.offset, Width::W64, op))
            .or_exit(call);
        return;
    }
    let target = Target::new(ctx, dest, bytes, pe, call);
    // SAFETY: by the specification it is readable, and nothing writes it meanwhile.
    let data = unsafe { readable(source, bytes, call) };
    let put = target.with(|context, memory| {
        let to = memory.at(target.rank, target.offset);
        let word = flag.region.memory.at(flag.rank, flag.offset).cast::<u64>();
        match op {
            Atomic::Add(_) => context.put_signal_add(data, to, signal, word),
            _ => context.put_signal(data, to, signal, word),
        }
    });
    put.or_exit(call);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_put_signal_nbi(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    sig_addr: *mut u64,
    signal: u64,
    signal_op: c_int,
    pe: c_int,
    call: Call,
) {
    // SAFETY: it promises less than this needs.
    unsafe {
        farside_shmem_put_signal(ctx, dest, source, bytes, sig_addr, signal, signal_op, pe, call);
    }
}

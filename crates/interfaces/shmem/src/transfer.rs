//! Puts and gets: contiguous ones, single values, and puts with a signal.

use std::ffi::{c_int, c_void};
use std::slice;

use farside::fabric::{Atomic, Width};
use farside::raw::{NearPart, Request};
use farside::{Context, Rank, Result};

use crate::context::{CtxHandle, context};
use crate::exit::{self, Call, OrExit};
use crate::races::{self, Told, Use};
use crate::region::Region;
use crate::runtime::{Ctx, Runtime, if_running, runtime};

pub(crate) struct Target {
    pub(crate) runtime: &'static Runtime,
    pub(crate) ctx: &'static Ctx,
    pub(crate) rank: Rank,
    region: &'static Region,
    pub(crate) offset: u64,
    call: Call,
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
        Target { runtime, ctx, rank, region, offset, call }
    }

    /// Calls `act` with the context, the memory and the place in it.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&Context, &farside::raw::Memory) -> R) -> R {
        self.told(Told::Other, act)
    }

    /// Likewise; the checker of races, if there is one, is told what it is.
    #[inline]
    pub(crate) fn told<R>(
        &self,
        told: Told,
        act: impl FnOnce(&Context, &farside::raw::Memory) -> R,
    ) -> R {
        self.ctx.with(self.runtime, |context| {
            let _mark = races::mark(self.runtime, self.ctx, context, self.call, told);
            act(context, &self.region.memory)
        })
    }

    /// Tells the checker of races, if there is one, which memory of this PE the operation uses.
    #[inline]
    pub(crate) fn uses(&self, address: *const c_void, bytes: usize, fills: bool, waits: bool) {
        let (until, is_signalled) = ((!waits).then_some(self.rank), false);
        let it = Use { address, bytes, fills, until, is_signalled };
        races::uses(self.runtime, self.ctx, self.call, it);
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        self.told(Told::Put, |context, memory| {
            memory.put_and_wake(context, self.rank, self.offset, bytes)
        })
    }

    /// Sets a signal that is aligned to four bytes alone, the low half last, behind all that was
    /// put before.
    fn set_halves(&self, signal: u64) -> Result<()> {
        self.with(|context, memory| {
            context.fence()?;
            for (skip, half) in [(4, signal >> 32), (0, signal & 0xFFFF_FFFF)] {
                let op = Atomic::Swap(half.into());
                memory.post(context, self.rank, self.offset + skip, Width::W32, op)?;
            }
            Ok(())
        })
    }
}

/// A symmetric object that this PE's processor reaches.
#[derive(Clone, Copy)]
pub(crate) struct Direct {
    world: &'static Context,
    near: &'static NearPart,
    offset: u64,
}

impl Direct {
    /// Finds an object, in the most common case: the default context, one thread, near, some bytes.
    /// Everything else, and everything that is wrong, is left to [`Target`].
    #[inline(always)]
    pub(crate) fn find(
        ctx: CtxHandle,
        address: *const c_void,
        bytes: usize,
        pe: c_int,
    ) -> Option<Direct> {
        let runtime = if_running()?;
        if !ctx.is_default() || runtime.has_threads() || bytes == 0 {
            return None;
        }
        let (region, offset) = runtime.regions.find(address.addr(), bytes)?;
        let near = region.near(usize::try_from(pe).ok()?)?;
        Some(Direct { world: &runtime.world, near, offset })
    }

    /// Writes bytes, which the object was found for; whether it has.
    ///
    /// # Safety
    ///
    /// `source` must be readable for `bytes` bytes.
    #[inline(always)]
    unsafe fn put(&self, source: *const u8, bytes: usize) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { self.near.put_and_wake(self.world, self.offset, source, bytes) }
    }

    /// Reads bytes, which the object was found for; whether it has.
    ///
    /// # Safety
    ///
    /// `dest` must be writable for `bytes` bytes.
    #[inline(always)]
    unsafe fn get(&self, dest: *mut u8, bytes: usize) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { self.near.get(self.world, self.offset, dest, bytes) }
    }

    /// Whether a signal can be set now: otherwise what comes before it goes the long way, too.
    #[inline(always)]
    fn can_signal(&self) -> bool {
        self.near.can_signal(self.world, self.offset)
    }

    /// Sets a signal, behind all that was put before; whether it has.
    #[inline(always)]
    fn signal(&self, value: u64) -> bool {
        self.near.signal(self.world, self.offset, value)
    }

    /// Executes an atomic on the word; `None`, and nothing done, if there is something in the way.
    #[inline(always)]
    pub(crate) fn atomic(&self, width: Width, op: Atomic) -> Option<u64> {
        self.near.atomic(self.world, self.offset, width, op).map(|held| held as u64)
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
        None => exit::not_symmetric(&runtime.regions, call, address.addr(), bytes),
    }
}

/// Ends the job if there is no memory where the program says that it has some.
#[inline]
pub(crate) fn check_not_null(address: *const c_void, bytes: usize, call: Call) {
    if address.is_null() {
        exit::end(call, &format!("{bytes} bytes at a null pointer"));
    }
}

/// Ends the job if a word is not aligned to its length.
#[inline]
pub(crate) fn check_aligned(word: *const c_void, bytes: usize, call: Call) {
    if !word.addr().is_multiple_of(bytes) {
        exit::end(call, &format!("the word at {word:p} is not aligned to its {bytes} bytes"));
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
    match Direct::find(ctx, dest, bytes, pe) {
        // SAFETY: by the specification it is readable, and nothing writes it meanwhile.
        Some(direct) if !source.is_null() && unsafe { direct.put(source.cast(), bytes) } => {}
        // SAFETY: as this function's.
        _ => unsafe { put_slowly(ctx, dest, source, bytes, pe, call) },
    }
}

/// A put that is not near, or in which something is wrong.
#[inline(never)]
unsafe extern "C" fn put_slowly(
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
    target.uses(source, bytes, false, true);
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
    match Direct::find(ctx, source, bytes, pe) {
        // SAFETY: by the specification it is writable, and nothing else uses it meanwhile.
        Some(direct) if !dest.is_null() && unsafe { direct.get(dest.cast(), bytes) } => {}
        // SAFETY: as this function's.
        _ => unsafe { get_slowly(ctx, dest, source, bytes, pe, call) },
    }
}

/// A get that is not near, or in which something is wrong.
#[inline(never)]
unsafe extern "C" fn get_slowly(
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
    target.uses(dest, bytes, true, true);
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
    if let Some(direct) = Direct::find(ctx, dest, bytes, pe)
        && !source.is_null()
        // SAFETY: by the specification it is readable until the next quiet.
        && unsafe { direct.put(source.cast(), bytes) }
    {
        return;
    }
    if is_nothing(ctx, bytes, pe, call) {
        return;
    }
    let target = Target::new(ctx, dest, bytes, pe, call);
    // SAFETY: as above.
    let data = unsafe { readable(source, bytes, call) };
    target.uses(source, bytes, false, false);
    // What is short is copied faster than it is kept track of.
    if bytes <= 64 || target.region.memory.near(target.rank).is_some() {
        target.put(data).or_exit(call);
        return;
    }
    let started = target.told(Told::Put, |context, memory| {
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
    target.uses(dest, bytes, true, false);
    let started = target.told(Told::Nonblocking, |context, memory| {
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
    match Direct::find(ctx, dest, bytes, pe) {
        // SAFETY: there are eight bytes.
        Some(direct) if bytes <= 8 && unsafe { direct.put(value.as_ptr(), bytes) } => {}
        // SAFETY: as above.
        _ if bytes <= 8 => unsafe {
            put_slowly(ctx, dest, value.as_ptr().cast(), bytes, pe, call);
        },
        _ => exit::end(call, &"a value of more than eight bytes"),
    }
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
    if bytes > value.len() {
        exit::end(call, &"a value of more than eight bytes");
    }
    match Direct::find(ctx, source, bytes, pe) {
        // SAFETY: there is room for eight bytes.
        Some(direct) if unsafe { direct.get(value.as_mut_ptr(), bytes) } => {}
        // SAFETY: as above.
        _ => unsafe {
            get_slowly(ctx, value.as_mut_ptr().cast(), source, bytes, pe, call);
        },
    }
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
    // SAFETY: as this function's.
    unsafe {
        put_signal(ctx, dest, source, bytes, sig_addr, signal, signal_op, pe, call, true);
    }
}

/// A put with a signal, whose source is free on return if it is waited for.
#[inline]
unsafe extern "C" fn put_signal(
    ctx: CtxHandle,
    dest: *mut c_void,
    source: *const c_void,
    bytes: usize,
    sig_addr: *mut u64,
    signal: u64,
    signal_op: c_int,
    pe: c_int,
    call: Call,
    is_waited_for: bool,
) {
    let op = match signal_op {
        SIGNAL_SET => Atomic::Store(signal.into()),
        SIGNAL_ADD => Atomic::Add(signal.into()),
        other => {
            exit::end(call, &format!("{other} is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"))
        }
    };
    if signal_op == SIGNAL_SET
        && !source.is_null()
        && let Some(target) = Direct::find(ctx, dest, bytes, pe)
        && let Some(flag) = Direct::find(ctx, sig_addr.cast(), size_of::<u64>(), pe)
        && flag.can_signal()
        // SAFETY: by the specification it is readable.
        && unsafe { target.put(source.cast(), bytes) }
        && flag.signal(signal)
    {
        return;
    }
    let flag = Target::new(ctx, sig_addr.cast(), size_of::<u64>(), pe, call);
    // Programs that give an int for a signal work where processors do not mind.
    let is_halved = !sig_addr.is_aligned();
    if is_halved && (signal_op != SIGNAL_SET || !sig_addr.cast::<u32>().is_aligned()) {
        exit::end(call, &format!("the signal at {sig_addr:p} is not aligned to 8 bytes"));
    }
    if bytes == 0 && !is_halved {
        flag.with(|context, memory| memory.post(context, flag.rank, flag.offset, Width::W64, op))
            .or_exit(call);
        return;
    }
    if bytes == 0 {
        return flag.set_halves(signal).or_exit(call);
    }
    let target = Target::new(ctx, dest, bytes, pe, call);
    // SAFETY: by the specification it is readable, and nothing writes it meanwhile.
    let data = unsafe { readable(source, bytes, call) };
    let until = (!is_waited_for).then_some(target.rank);
    let is_signalled = until.is_some() && !is_halved;
    let it = Use { address: source, bytes, fills: false, until, is_signalled };
    races::uses(target.runtime, target.ctx, call, it);
    if is_halved {
        return target.put(data).and_then(|()| flag.set_halves(signal)).or_exit(call);
    }
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
        put_signal(ctx, dest, source, bytes, sig_addr, signal, signal_op, pe, call, false);
    }
}

//! What the checker of races is told: where the program called, which memory of its own an
//! operation reads or fills, and what instrumented programs load and store.
//!
//! All of it is for jobs that `farside run --races` has started. In all others there is no probe,
//! and each function here returns at once.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use farside::fabric::{
    Atomicity, Foreign, OwnAccess, OwnPlace, Probe, ProbeEvent, Reuse, SegmentId, Width, Word,
    private_place,
};
use farside::{Context, Rank, World};
use farside_interop::caller;

use crate::exit::Call;
use crate::runtime::{Ctx, Runtime, if_running};
use crate::seen::{Lent, Place, Pointed, locked};
use crate::strands;

#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) address: *const c_void,
    pub(crate) bytes: usize,
    pub(crate) fills: bool,
    /// The PE whose completion ends the use, of a non-blocking operation.
    pub(crate) until: Option<Rank>,
    /// Whether it is the source of a put with a signal, which follows at once.
    pub(crate) is_signalled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Put,
    Other,
    /// It reads until the next quiet.
    Nonblocking,
}

/// Keeps the place of a call until dropped.
pub(crate) struct Mark<'c> {
    probe: Option<&'c dyn Probe>,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if let Some(probe) = self.probe {
            probe.event(ProbeEvent::Foreign(None));
        }
    }
}

/// Says where the program called the operations that follow, until the mark is dropped.
#[inline]
pub(crate) fn mark<'c>(
    runtime: &Runtime,
    ctx: &Ctx,
    context: &'c Context,
    call: Call,
    told: Told,
) -> Mark<'c> {
    let Some(probe) = context.probe() else { return Mark { probe: None } };
    let (is_put, is_nonblocking) = (told == Told::Put, told == Told::Nonblocking);
    let Place { number: place, is_float } = place(runtime, probe.as_ref(), call);
    // Atomics exclude each other on one type and in contexts of one domain.
    let atomicity = Atomicity { is_float, is_shared_team: ctx.is_shared };
    let foreign = Foreign { place, is_put, is_nonblocking, atomicity };
    probe.event(ProbeEvent::Foreign(Some(foreign)));
    Mark { probe: Some(probe.as_ref()) }
}

#[inline]
pub(crate) fn uses(runtime: &Runtime, ctx: &Ctx, call: Call, it: Use) {
    if runtime.world.probe().is_none() || it.bytes == 0 {
        return;
    }
    ctx.with(runtime, |context| {
        let Some(probe) = context.probe() else { return };
        let place = place(runtime, probe.as_ref(), call).number;
        tell(runtime, probe.as_ref(), it, place, false);
        if it.until.is_some() && runtime.regions.within(it.address.addr(), it.bytes).is_none() {
            let (start, bytes, fills) = (it.address.addr(), it.bytes, it.fills);
            let (ctx, is_signalled) = (std::ptr::from_ref(ctx).addr(), it.is_signalled);
            let lent = Lent { start, bytes, fills, place, ctx, is_signalled };
            locked(&runtime.seen.lent).push(lent);
        }
    });
}

/// Tells of a use of memory by the library on the program's behalf, in a collective.
#[inline]
pub(crate) fn touches(
    runtime: &Runtime,
    call: Call,
    address: *const c_void,
    bytes: usize,
    fills: bool,
) {
    let (until, is_signalled) = (None, false);
    uses(runtime, &runtime.default, call, Use { address, bytes, fills, until, is_signalled });
}

fn tell(runtime: &Runtime, probe: &dyn Probe, it: Use, place: u32, is_instruction: bool) {
    let (start, end) = (it.address.addr(), it.address.addr().wrapping_add(it.bytes));
    let mut is_judged = it.is_signalled;
    for lent in locked(&runtime.seen.lent).iter() {
        let overlaps = start < lent.start + lent.bytes && lent.start < end;
        if overlaps && lent.is_signalled {
            is_judged = true;
        } else if overlaps && (it.fills || lent.fills) {
            let (started, fills) = (lent.place, lent.fills);
            let reuse = Reuse { started, fills, used: place, writes: it.fills };
            probe.event(ProbeEvent::Reused(&reuse));
        }
    }
    let (segment, offset) = match runtime.regions.within(start, it.bytes) {
        Some((region, offset)) => (region.memory.segment(), offset),
        None if is_judged || strands::are_several() => private_place(start),
        None => return,
    };
    probe.event(ProbeEvent::Own(&OwnAccess {
        owner: None,
        segment,
        offset,
        bytes: it.bytes as u64,
        writes: it.fills,
        place: OwnPlace::Foreign(place),
        is_instruction,
        until: it.until,
        is_signalled: it.is_signalled,
    }));
}

/// Says whether the operations of a context that follow are the library's own.
pub(crate) fn aside(context: &Context, is_aside: bool) {
    context.tell(|| ProbeEvent::Aside(is_aside));
}

pub(crate) fn completed(runtime: &Runtime, ctx: &Ctx, context: &Context) {
    if let Some(probe) = context.probe() {
        probe.event(ProbeEvent::Completed);
        let ctx = std::ptr::from_ref(ctx).addr();
        locked(&runtime.seen.lent).retain(|lent| lent.ctx != ctx);
    }
}

/// Tells that the program goes on because of what a word of this PE holds.
pub(crate) fn acquired(runtime: &Runtime, ivar: *const c_void, bytes: usize, call: Call) {
    let Some(probe) = runtime.world.probe() else { return };
    let Some((region, offset)) = runtime.regions.within(ivar.addr(), bytes) else { return };
    let place = place(runtime, probe.as_ref(), call).number;
    let (rank, segment) = (runtime.world.rank(), region.memory.segment());
    let (offset, width) = if bytes == 8 { (offset, Width::W64) } else { (offset & !3, Width::W32) };
    // The place goes with it: another thread may be in an operation of the same connection.
    probe.event(ProbeEvent::Acquire { word: Word { rank, segment, offset, width }, place });
}

/// Returns where a near PE's part of a segment begins here, for `shmem_ptr` of a job whose memory
/// is reached by operations only.
pub(crate) fn pointer(runtime: &Runtime, rank: Rank, segment: SegmentId) -> Option<NonNull<u8>> {
    runtime.world.probe()?;
    let mut pointed = locked(&runtime.seen.pointed);
    let known = pointed.iter().find(|known| known.rank == rank && known.segment == segment);
    if let Some(known) = known {
        return Some(known.mapped.base());
    }
    let mapped = runtime.world.fabric().map(rank, segment).ok()??;
    let base = mapped.base();
    pointed.push(Pointed { mapped, segment, rank });
    Some(base)
}

#[cold]
fn place(runtime: &Runtime, probe: &dyn Probe, call: Call) -> Place {
    let address = call.address().or_else(caller::address).unwrap_or(0);
    runtime.seen.place(probe, (address, call.key()), || call.name())
}

static IS_INSTRUMENTED: AtomicBool = AtomicBool::new(false);

/// An instrumented part of the program is loaded.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_instrumented() {
    IS_INSTRUMENTED.store(true, Ordering::Relaxed);
}

pub(crate) fn note_unseen(world: &World) {
    if !IS_INSTRUMENTED.load(Ordering::Relaxed) {
        world.note_unseen(
            "loads and stores of the program itself: compile it with -fsanitize=thread",
        );
    }
}

/// A load or store of an instrumented program, which returns to `address`.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_plain(at: *const c_void, bytes: usize, writes: c_int, address: usize) {
    let _teller = strands::Teller::new();
    let Some(runtime) = if_running() else { return };
    let Some(probe) = runtime.world.probe() else { return };
    let is_symmetric = runtime.regions.within(at.addr(), bytes).is_some();
    let pointed = if is_symmetric { None } else { runtime.seen.pointed_at(at.addr(), bytes) };
    let is_shared = is_symmetric || pointed.is_some() || strands::are_several();
    if !is_shared && locked(&runtime.seen.lent).is_empty() {
        return;
    }
    let fills = writes != 0;
    let call = if fills { "store" } else { "load" };
    let place = runtime.seen.place(probe.as_ref(), (address, call.as_ptr().addr()), || call).number;
    if let Some((rank, segment, offset)) = pointed {
        probe.event(ProbeEvent::Own(&OwnAccess {
            owner: Some(rank),
            segment,
            offset,
            bytes: bytes as u64,
            writes: fills,
            place: OwnPlace::Foreign(place),
            is_instruction: true,
            until: None,
            is_signalled: false,
        }));
        return;
    }
    let it = Use { address: at, bytes, fills, until: None, is_signalled: false };
    tell(runtime, probe.as_ref(), it, place, true);
}

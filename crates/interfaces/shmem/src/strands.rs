//! Threads of an instrumented program, for the checker of races.
//!
//! The part of the wrapper that is linked into the program (`tsan/`) sees how threads begin, wait
//! for each other and end, and calls these functions. A strand is what a thread runs, or what it
//! knew at some time, for others to learn. Where nothing is checked, or before `shmem_init`, there
//! are none.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use farside::fabric::ProbeEvent;

use crate::runtime::if_running;

const NONE: u32 = u32::MAX;
const ALL: u32 = u32::MAX - 1;

/// How many strands there are besides the PE's own. Without any, private memory is not looked at.
static STRANDS: AtomicUsize = AtomicUsize::new(0);

/// Whether there was ever more than one: what threads that have ended did still counts.
static WERE_SEVERAL: AtomicBool = AtomicBool::new(false);

pub(crate) fn are_several() -> bool {
    STRANDS.load(Ordering::Relaxed) != 0
}

/// How many threads tell something right now.
static TELLERS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the library's state from being taken down: threads of a program load and store, and those
/// of OpenMP tell their ends, also while another one is in `shmem_finalize`.
pub(crate) struct Teller;

impl Teller {
    pub(crate) fn new() -> Teller {
        TELLERS.fetch_add(1, Ordering::Relaxed);
        // Either this thread finds the state gone, or `wait_for_tellers` finds this thread.
        fence(Ordering::SeqCst);
        Teller
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        TELLERS.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until nobody uses the library's state any more, which no new one can find.
pub(crate) fn wait_for_tellers() {
    fence(Ordering::SeqCst);
    while TELLERS.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
}

/// Tells the probe of an event, if the library runs and there is one.
fn tell(event: ProbeEvent<'_>) -> Option<Option<u64>> {
    let _teller = Teller::new();
    Some(if_running()?.world.probe()?.event(event))
}

/// Makes a strand that knows what `from` knows, if that is one.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_strand_new(from: u32) -> u32 {
    let from = (from != NONE).then_some(from);
    let made = tell(ProbeEvent::NewStrand { from });
    if made.is_some() {
        WERE_SEVERAL.store(true, Ordering::Relaxed);
        STRANDS.fetch_add(1, Ordering::Relaxed);
    }
    made.map_or(NONE, |number| number.unwrap_or(0) as u32)
}

/// The calling thread goes on with a strand.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_strand_enter(strand: u32) {
    tell(ProbeEvent::EnterStrand(if strand == NONE { 0 } else { strand }));
}

/// What `from` has done is before what `into` does from now on; either may be all strands.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_strand_join(into: u32, from: u32) {
    if into != NONE && from != NONE && into != from {
        let strand = |number: u32| (number != ALL).then_some(number);
        tell(ProbeEvent::JoinStrands { into: strand(into), from: strand(from) });
    }
}

/// A strand is over.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_strand_end(strand: u32) {
    if strand != NONE && tell(ProbeEvent::EndStrand(strand)).is_some() {
        STRANDS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The calling thread releases an object, such as a mutex, or has acquired it.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_object(object: *const c_void, releases: c_int) {
    if WERE_SEVERAL.load(Ordering::Relaxed) {
        tell(ProbeEvent::Object { object: object.addr() as u64, releases: releases != 0 });
    }
}

/// Memory was allocated or given back: it is other memory from now on.
#[unsafe(no_mangle)]
extern "C" fn shmemx_farside_forget(address: *const c_void, bytes: usize) {
    if WERE_SEVERAL.load(Ordering::Relaxed) && bytes != 0 {
        tell(ProbeEvent::Forget { address: address.addr(), bytes });
    }
}

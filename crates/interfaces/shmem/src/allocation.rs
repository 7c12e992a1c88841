//! The calls that allocate and free blocks of the symmetric heap.

use std::ffi::c_void;
use std::ptr;

use farside_interop::give_pages_back;

use crate::context;
use crate::exit::{self, Call, OrExit};
use crate::heap::{ALIGN_MAX, Heap};
use crate::runtime::{Runtime, runtime};
use crate::team;

/// What any type is aligned to, and more.
const ALIGN: usize = 64;

/// Completes what this PE has put, and meets all others.
fn barrier_all(runtime: &Runtime, call: Call) {
    context::quiet_default(runtime, call);
    team::barrier(runtime, &runtime.world_team, call).or_exit(call);
}

fn with_heap<R>(runtime: &Runtime, act: impl FnOnce(&mut Heap) -> R) -> R {
    act(&mut runtime.heap.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn allocate(runtime: &Runtime, bytes: usize, align: usize, call: Call) -> *mut c_void {
    if runtime.environment.debug {
        check_alike(runtime, bytes, call);
    }
    let grow = |heap: &mut Heap, bytes| {
        runtime.world_team.with(runtime, |all| heap.grow(all, &runtime.regions, bytes))
    };
    let found = with_heap(runtime, |heap| heap.take_or_grow(bytes, align, grow));
    if let Some(start) = found {
        runtime.regions.set_block(start, bytes);
    }
    found.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
}

/// Ends the job if PEs ask for different amounts.
fn check_alike(runtime: &Runtime, bytes: usize, call: Call) {
    let mut ends = [[bytes as u64, bytes as u64]];
    let widen = |a: [u64; 2], b: [u64; 2]| [a[0].min(b[0]), a[1].max(b[1])];
    runtime.world_team.with(runtime, |team| team.all_reduce(&mut ends, widen)).or_exit(call);
    if ends[0][0] != ends[0][1] {
        exit::end(
            call,
            &format!("this PE asks for {bytes} bytes, others for {} to {}", ends[0][0], ends[0][1]),
        );
    }
}

fn release(runtime: &Runtime, address: usize, call: Call) {
    let Some(bytes) = with_heap(runtime, |heap| heap.give(address)) else {
        exit::end(call, &format!("no block of the symmetric heap begins at address {address:#x}"));
    };
    runtime.regions.remove_block(address);
    // SAFETY: the block is free, so nothing uses its pages.
    unsafe { give_pages_back(ptr::with_exposed_provenance_mut(address), bytes) };
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_malloc(size: usize, call: Call) -> *mut c_void {
    farside_shmem_align(ALIGN, size, call)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_align(alignment: usize, size: usize, call: Call) -> *mut c_void {
    let runtime = runtime(call);
    if size == 0 || !alignment.is_power_of_two() || alignment as u64 > ALIGN_MAX {
        return ptr::null_mut();
    }
    let block = allocate(runtime, size, alignment, call);
    barrier_all(runtime, call);
    block
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_calloc(count: usize, size: usize, call: Call) -> *mut c_void {
    let runtime = runtime(call);
    let Some(bytes @ 1..) = count.checked_mul(size) else {
        return ptr::null_mut();
    };
    let block = allocate(runtime, bytes, ALIGN, call);
    if !block.is_null() {
        // SAFETY: the block is this long, and nothing uses it yet.
        unsafe { block.cast::<u8>().write_bytes(0, bytes) };
    }
    barrier_all(runtime, call);
    block
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_realloc(
    block: *mut c_void,
    size: usize,
    call: Call,
) -> *mut c_void {
    let runtime = runtime(call);
    if block.is_null() {
        return farside_shmem_malloc(size, call);
    }
    if size == 0 {
        farside_shmem_free(block, call);
        return ptr::null_mut();
    }
    barrier_all(runtime, call);
    let Some(old) = with_heap(runtime, |heap| heap.length(block.addr())) else {
        exit::end(call, &format!("no block of the symmetric heap begins at address {block:p}"));
    };
    if size as u64 <= old && old <= (size as u64).saturating_mul(2) {
        runtime.regions.set_block(block.addr(), size);
        barrier_all(runtime, call);
        return block;
    }
    let new = allocate(runtime, size, ALIGN, call);
    if !new.is_null() {
        // SAFETY: both blocks are at least this long, and are different blocks.
        unsafe {
            ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), size.min(old as usize));
        }
        release(runtime, block.addr(), call);
    }
    barrier_all(runtime, call);
    new
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_free(block: *mut c_void, call: Call) {
    let runtime = runtime(call);
    if block.is_null() {
        return;
    }
    barrier_all(runtime, call);
    release(runtime, block.addr(), call);
}

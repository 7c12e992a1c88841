//! The calls that give out memory of the heap, and find it.

use std::ffi::{c_int, c_void};
use std::ptr;

use farside::{Error, Rank};

use crate::runtime::with;

/// Takes `bytes` bytes of the job's memory, aligned to `align`, a power of two.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_take(bytes: u64, align: u64, block: *mut *mut c_void) -> c_int {
    with(|runtime| {
        let found = runtime.heap().take(bytes.max(1), align.max(1));
        let (first, _) = found.ok_or_else(|| {
            Error::Exhausted(format!(
                "cannot allocate {bytes} bytes for a window or MPI_Alloc_mem: too few of this \
                 rank's {} bytes are free in one piece",
                runtime.heap().bytes
            ))
        })?;
        // SAFETY: the border passes a pointer of its own.
        unsafe { block.write(first.as_ptr().cast()) };
        Ok(())
    })
}

/// Gives a block back. Returns 1 if it was one, 0 if the address is none of this library's.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_give(block: *const c_void) -> c_int {
    let mut given = false;
    with(|runtime| {
        given = runtime.heap().give(block);
        Ok(())
    });
    c_int::from(given)
}

/// Says where this rank's part of the heap lies in its process, also once the library has ended; no
/// bytes if there is none.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_heap(first: *mut *const c_void, bytes: *mut u64) {
    with(|runtime| {
        let heap = runtime.heap();
        // SAFETY: the border passes pointers of its own.
        unsafe {
            first.write(heap.base.as_ptr().cast());
            bytes.write(heap.bytes);
        }
        Ok(())
    });
}

/// Returns 1 and the offset if `bytes` bytes from an address on are memory of the job.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_offset(
    address: *const c_void,
    bytes: u64,
    offset: *mut u64,
) -> c_int {
    let mut found = None;
    with(|runtime| {
        found = runtime.heap().offset_of(address, bytes);
        Ok(())
    });
    match found {
        Some(at) => {
            // SAFETY: the border passes a pointer of its own.
            unsafe { offset.write(at) };
            1
        }
        None => 0,
    }
}

/// Returns where a byte of a rank's part of the heap lies in this process; null if it does not.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_address(rank: c_int, offset: u64) -> *mut c_void {
    let mut address = ptr::null_mut();
    with(|runtime| {
        if let Some(base) = runtime.heap().near(&runtime.world, Rank(rank as u32)) {
            address = base.as_ptr().wrapping_add(offset as usize).cast();
        }
        Ok(())
    });
    address
}

//! Static data as symmetric objects: the pages of `.data` and `.bss` of the executable and of the
//! shared libraries that were loaded with it are replaced by pages of the job's memory.
//!
//! The contents are copied to the new pages first. Pages that are all zero are not touched, so
//! that large arrays take memory only when they are used. What the linker protects after
//! relocation (RELRO) stays as it is, and so do the C library and this library: their threads and
//! this very code write to their data meanwhile.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::{self, NonNull};

use farside::fabric::ProbeEvent;
use farside::raw::Memory;
use farside::{Error, Result, World};

use crate::region::{Holds, REGIONS, Regions};

/// Libraries of the system, whose data no program takes for its own.
const SYSTEM: [&str; 22] = [
    "linux-vdso",
    "ld-linux",
    "ld-musl",
    "libc.",
    "libm.",
    "libpthread.",
    "libdl.",
    "librt.",
    "libgcc_s.",
    "libstdc++.",
    "libfarside",
    "liboshmem",
    "libmpi",
    "libopen-",
    "libpmix",
    "libpmi",
    "libfabric",
    "libevent",
    "libhwloc",
    "libucp",
    "libasan",
    "libtsan",
];

/// Makes static data symmetric. Collective: all PEs run the same program.
pub(crate) fn share(world: &World, regions: &Regions) -> Result<()> {
    for range in writable_ranges() {
        let bytes = range.len();
        let memory = Memory::allocate(&world.team(), bytes as u64)?;
        let segment = memory.segment();
        world.tell(|| ProbeEvent::Name { segment, name: "static data" });
        let start = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(range.start));
        let Some(start) = start else { continue };
        // SAFETY: the pages belong to a loaded object, and are writable; no thread of the program
        // runs yet that would write them, and this library's data is elsewhere.
        unsafe { farside_interop::lay_over(&memory, world.rank(), start)? };
        if !regions.add(world, range.start, bytes, memory, Holds::Statics) {
            let limit = REGIONS as u64;
            return Err(Error::TooMuch {
                what: "shared libraries with data of their own",
                value: limit + 1,
                limit,
            });
        }
    }
    Ok(())
}

/// The pages of writable data of the program's objects, in the order of loading, which is that of
/// all PEs.
fn writable_ranges() -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    // SAFETY: the callback gets the pointer to the list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add_object), (&raw mut ranges).cast()) };
    ranges
}

unsafe extern "C" fn add_object(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    ranges: *mut c_void,
) -> c_int {
    // SAFETY: by `dl_iterate_phdr`, and by `writable_ranges`.
    let (info, ranges) = unsafe { (&*info, &mut *ranges.cast::<Vec<Range<usize>>>()) };
    let name = match info.dlpi_name.is_null() {
        true => "",
        // SAFETY: a string of the loader.
        false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_str().unwrap_or(""),
    };
    // SAFETY: the headers of a loaded object.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let headers: Vec<Header> = headers
        .iter()
        .map(|header| Header {
            kind: header.p_type,
            writable: header.p_flags & libc::PF_W != 0,
            start: info.dlpi_addr as usize + header.p_vaddr as usize,
            bytes: header.p_memsz as usize,
        })
        .collect();
    let this = add_object as *const () as usize;
    let is_this = headers.iter().any(|header| header.holds(this)) && !name.is_empty();
    let file = name.rsplit('/').next().unwrap_or("");
    if !is_this && !SYSTEM.iter().any(|system| file.starts_with(system)) {
        ranges.extend(pages_of(&headers));
    }
    0
}

/// A part of an object, as it was loaded.
#[derive(Debug, Clone, Copy)]
struct Header {
    kind: u32,
    writable: bool,
    start: usize,
    bytes: usize,
}

impl Header {
    fn holds(&self, address: usize) -> bool {
        self.kind == libc::PT_LOAD && address.wrapping_sub(self.start) < self.bytes
    }
}

/// The pages of an object's writable parts, without what is protected after relocation.
fn pages_of(headers: &[Header]) -> Vec<Range<usize>> {
    let page = farside_interop::page_bytes();
    let down = |address: usize| address / page * page;
    let protected = headers.iter().find(|header| header.kind == libc::PT_GNU_RELRO);
    let parts = headers.iter().filter(|header| header.kind == libc::PT_LOAD && header.writable);
    parts
        .map(|part| {
            let end = (part.start + part.bytes).next_multiple_of(page);
            let start = match protected {
                Some(relro) if part.holds(relro.start) => down(relro.start + relro.bytes),
                _ => down(part.start),
            };
            start.min(end)..end
        })
        .filter(|pages| !pages.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u32, start: usize, bytes: usize) -> Header {
        Header { kind, writable: true, start, bytes }
    }

    #[test]
    fn what_is_protected_is_left_out() {
        let load = header(libc::PT_LOAD, 0x3d90, 0x5000);
        assert_eq!(pages_of(&[load]), vec![0x3000..0x9000]);
        let relro = header(libc::PT_GNU_RELRO, 0x3d90, 0x1270);
        assert_eq!(pages_of(&[load, relro]), vec![0x5000..0x9000]);
        let read_only = Header { writable: false, ..load };
        assert!(pages_of(&[read_only]).is_empty());
        let all = header(libc::PT_GNU_RELRO, 0x3d90, 0x5270);
        assert!(pages_of(&[load, all]).is_empty());
    }
}

//! Where a program in C has called the library that this is linked into.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

use farside::fabric::Place;

/// Returns the name of a place: what was called there, and the address in the file of the program,
/// if it is known.
pub fn name(address: usize, call: &str) -> String {
    match module_of(address.wrapping_sub(1)) {
        Some((module, offset)) => format!("{call} in {module}+{offset:#x}"),
        None => call.to_owned(),
    }
}

/// Returns the place where the program has called this library, for viewers.
pub fn place() -> Option<Place> {
    let (module, offset) = module_of(address()?.wrapping_sub(1))?;
    Some(Place { file: format!("{module}+{offset:#x}").into(), line: 0 })
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Search {
    /// Where the object of this library is loaded.
    own: Range<usize>,
    found: Option<usize>,
}

/// Returns the address in the program to which the call of this library returns; `None` if the
/// library is part of the program's own file.
pub fn address() -> Option<usize> {
    // It does not move, and a checker of races asks with every call.
    static OWN: OnceLock<Option<Range<usize>>> = OnceLock::new();
    let own = OWN.get_or_init(|| extent_around((address as fn() -> Option<usize>) as usize));
    let mut search = Search { own: own.clone()?, found: None };
    // SAFETY: the callback gets the search, which outlives the call.
    unsafe { _Unwind_Backtrace(look_at, (&raw mut search).cast()) };
    search.found
}

/// Looks at one frame of the stack.
///
/// # Safety
///
/// `context` is what `_Unwind_Backtrace` passes, and `search` the search of [`address`].
unsafe extern "C" fn look_at(context: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: by `_Unwind_Backtrace`, and by `address`.
    let (address, search) = unsafe { (_Unwind_GetIP(context), &mut *search.cast::<Search>()) };
    if search.own.contains(&address) {
        return 0;
    }
    search.found = Some(address);
    // Anything but zero ends the walk.
    5
}

fn dl_info(address: usize) -> Option<libc::Dl_info> {
    // SAFETY: all zeros are a `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let found = unsafe { libc::dladdr(std::ptr::without_provenance(address), &raw mut info) };
    (found != 0).then_some(info)
}

/// A search for the object that an address is in.
struct Object {
    address: usize,
    /// How many objects were looked at.
    seen: usize,
    found: Option<Range<usize>>,
}

/// Returns from where to where the library is loaded that an address is in; `None` if it is in the
/// program itself.
fn extent_around(address: usize) -> Option<Range<usize>> {
    let mut search = Object { address, seen: 0, found: None };
    // SAFETY: the callback gets the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look_at_object), (&raw mut search).cast()) };
    search.found
}

/// Looks at one loaded object.
///
/// # Safety
///
/// `info` is what `dl_iterate_phdr` passes, and `search` the search of [`extent_around`].
unsafe extern "C" fn look_at_object(
    info: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: by `dl_iterate_phdr`, and by `extent_around`.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Object>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's headers, of that number, live as long as the object.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        start..start + header.p_memsz as usize
    });
    let whole = loaded.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    let found = whole.filter(|whole| whole.contains(&search.address));
    let is_found = found.is_some();
    // The program is the first.
    search.found = found.filter(|_| search.seen > 0);
    search.seen += 1;
    // Anything but zero ends the walk.
    is_found.into()
}

/// Returns the file of the object that an address is in, and the address as the file numbers it.
fn module_of(address: usize) -> Option<(String, usize)> {
    let info = dl_info(address)?;
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's strings live as long as the object.
    let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().ok()?;
    // The program itself may be named as it was called.
    let path =
        std::fs::canonicalize(name).or_else(|_| std::fs::read_link("/proc/self/exe")).ok()?;
    let base = info.dli_fbase.addr();
    // A program that is not position-independent has its addresses in its file.
    let offset = if base == 0x40_0000 { address } else { address - base };
    Some((path.to_str()?.to_owned(), offset))
}

//! A second mapping by way of the file that the pages are of, where `mremap` makes none.

use std::ffi::c_void;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::ptr::NonNull;

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Maps the pages from `base` on, of a file that this process has open, a second time.
///
/// # Safety
///
/// Whatever was mapped at `at`, for `bytes` bytes, is gone afterwards: nothing may use it.
pub(crate) unsafe fn map_at(
    base: *mut c_void,
    bytes: usize,
    at: NonNull<u8>,
) -> Result<*mut c_void, Errno> {
    let (file, offset) = file_at(base.addr()).ok_or(Errno::INVAL)?;
    let (protection, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: by the caller's promise.
    unsafe { rustix::mm::mmap(at.as_ptr().cast(), bytes, protection, flags, file, offset) }
}

/// Finds the file that is mapped at an address, if this process has it open, and the offset of the
/// address in it.
fn file_at(address: usize) -> Option<(File, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    // A line has the ends, permissions, offset, device, inode, and path; ends and offset are
    // hexadecimal.
    let (offset, device, inode) = maps.lines().find_map(|line| {
        let parts: Vec<&str> = line.split_whitespace().take(5).collect();
        let [ends, _, offset, device, inode] = parts[..] else { return None };
        let (start, end) = ends.split_once('-')?;
        let inside = (address as u64).checked_sub(hex(start)?)?;
        let is_here = (address as u64) < hex(end)?;
        is_here.then_some((hex(offset)? + inside, device.to_owned(), inode.parse::<u64>().ok()?))
    })?;
    fs::read_dir("/proc/self/fd").ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        let about = fs::metadata(&path).ok()?;
        let its_device = format!("{:02x}:{:02x}", major(about.dev()), minor(about.dev()));
        let is_it = about.is_file() && about.ino() == inode && its_device == device;
        let open = || File::options().read(true).write(true).open(&path).ok();
        is_it.then(open)?.map(|file| (file, offset))
    })
}

/// Returns the path of what is mapped to be shared in a range of addresses, or its kind, if
/// something is; nothing where the system does not tell.
pub(crate) fn shared_within(range: &Range<usize>) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut parts = line.split_whitespace();
        let (start, end) = parts.next()?.split_once('-')?;
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        let is_inside = hex(start)? < range.end && range.start < hex(end)?;
        let is_shared = parts.next()?.ends_with('s');
        let path = || parts.nth(3).unwrap_or("no file").to_owned();
        (is_inside && is_shared).then(path)
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::MemfdFlags;

    use super::*;
    use crate::page_bytes;

    #[test]
    fn the_file_of_mapped_pages_is_found() {
        let file = rustix::fs::memfd_create("overlay", MemfdFlags::empty()).unwrap();
        let page = page_bytes();
        rustix::fs::ftruncate(&file, 3 * page as u64).unwrap();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let map = |offset: usize| {
            // SAFETY: a mapping at an address of the system's choice.
            let mapped = unsafe {
                rustix::mm::mmap(
                    std::ptr::null_mut(),
                    page,
                    protection,
                    flags,
                    &file,
                    offset as u64,
                )
            };
            mapped.unwrap().addr()
        };
        let (first, second) = (map(0), map(2 * page));
        assert_eq!(file_at(first + 5).unwrap().1, 5);
        let (found, offset) = file_at(second + 7).unwrap();
        assert_eq!(offset, 2 * page as u64 + 7);
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        assert_eq!(found.metadata().unwrap().ino(), inode);
        drop((found, file));
        assert!(file_at(first).is_none(), "no file is open");
        assert!(file_at(0).is_none());
    }
}

//! A provider opened, and memory that it lets others reach.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farside_fabric::{Error, Mapped, Result};

use crate::ffi;
use crate::provider::{Provider, failed};
use crate::queue::Queue;

/// An opened provider.
pub(crate) struct Device {
    pub(crate) provider: Provider,
    fabric: *mut ffi::Fabric,
    domain: *mut ffi::Domain,
    next_key: AtomicU64,
}

// SAFETY: the domain is used under FI_THREAD_SAFE.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(crate) fn open(provider: Provider) -> Result<Device> {
        let library = provider.library.clone();
        let check = |call, status: i32| {
            if status == 0 { Ok(()) } else { Err(failed(&library, call, -status)) }
        };
        let (mut fabric, mut domain) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the info is alive and complete; what is opened is closed once, in `drop`, or
        // here.
        unsafe {
            let info = provider.info;
            check(
                "fi_fabric",
                (library.fabric)((*info).fabric_attr, &mut fabric, ptr::null_mut()),
            )?;
            let opened = ((*(*fabric).ops).domain)(fabric, info, &mut domain, ptr::null_mut());
            check("fi_domain", opened).inspect_err(|_| close(fabric.cast()))?;
        }
        // No two jobs of a host count from the same number.
        let mut seed = [0; 4];
        let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
        let next_key = AtomicU64::new(u64::from(u32::from_le_bytes(seed)) >> 1);
        Ok(Device { provider, fabric, domain, next_key })
    }

    pub(crate) fn wants(&self, mode: i32) -> bool {
        self.provider.domain().mr_mode & mode != 0
    }

    pub(crate) fn failed(&self, call: &'static str, status: i32) -> Error {
        failed(&self.provider.library, call, -status)
    }

    pub(crate) fn fabric(&self) -> *mut ffi::Fabric {
        self.fabric
    }

    pub(crate) fn domain(&self) -> *mut ffi::Domain {
        self.domain
    }

    /// Lets the provider use memory of this process, which must stay where it is for as long as the
    /// registration is kept.
    pub(crate) fn register_own(
        self: &Arc<Device>,
        base: *mut u8,
        bytes: usize,
    ) -> Result<Registered> {
        let mr =
            self.register_memory(base, bytes, ffi::SEND | ffi::RECV | ffi::READ | ffi::WRITE)?;
        Ok(Registered { mr, base: base as u64, memory: None, device: self.clone() })
    }

    /// Lets others reach some memory. The endpoint is the one that serves it.
    pub(crate) fn register(
        self: &Arc<Device>,
        memory: Mapped,
        served_by: &Queue,
    ) -> Result<Registered> {
        let access = ffi::REMOTE_READ | ffi::REMOTE_WRITE | ffi::READ | ffi::WRITE;
        let (base, bytes) = (memory.base().as_ptr(), memory.bytes());
        let mr = self.register_memory(base, bytes as usize, access)?;
        let registered =
            Registered { mr, base: base as u64, memory: Some(memory), device: self.clone() };
        if self.wants(ffi::MR_ENDPOINT) {
            // SAFETY: both are open.
            unsafe {
                let fid = ptr::addr_of_mut!((*mr).fid);
                let bound = ((*(*fid).ops).bind)(fid, ptr::addr_of_mut!((*served_by.raw()).fid), 0);
                let enabled = if bound == 0 {
                    ((*(*fid).ops).control)(fid, ffi::ENABLE, ptr::null_mut())
                } else {
                    bound
                };
                if enabled != 0 {
                    return Err(self.failed("fi_mr_enable", enabled));
                }
            }
        }
        Ok(registered)
    }

    fn register_memory(&self, base: *mut u8, bytes: usize, access: u64) -> Result<*mut ffi::Mr> {
        let mut mr = ptr::null_mut();
        let bits = 8 * self.provider.domain().mr_key_size.clamp(1, 8) as u32;
        let key = self.next_key.fetch_add(1, Ordering::Relaxed) & (u64::MAX >> (64 - bits));
        // SAFETY: the memory is mapped, and stays so for as long as whoever asked keeps the
        // registration.
        let status = unsafe {
            let domain = ptr::addr_of_mut!((*self.domain).fid);
            ((*(*self.domain).mr).reg)(
                domain,
                base.cast(),
                bytes,
                access,
                0,
                key,
                0,
                &mut mr,
                ptr::null_mut(),
            )
        };
        if status == 0 { Ok(mr) } else { Err(self.failed("fi_mr_reg", status)) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        close(self.domain.cast());
        close(self.fabric.cast());
    }
}

/// Closes an object of the library. What it refuses to close stays until the process ends.
pub(crate) fn close(fid: *mut ffi::Fid) {
    if !fid.is_null() {
        // SAFETY: every object begins with its `fid`; whoever calls this does so once for each.
        let _ = unsafe { ((*(*fid).ops).close)(fid) };
    }
}

/// Memory that others can reach, until this is dropped.
pub(crate) struct Registered {
    mr: *mut ffi::Mr,
    base: u64,
    memory: Option<Mapped>,
    device: Arc<Device>,
}

// SAFETY: the registration is used under FI_THREAD_SAFE.
unsafe impl Send for Registered {}

impl Registered {
    /// How others name it: the address of its first byte, its key and its length.
    pub(crate) fn place(&self) -> Place {
        // SAFETY: it is open.
        let key = unsafe { (*self.mr).key };
        let base = if self.device.wants(ffi::MR_VIRT_ADDR) { self.base } else { 0 };
        Place { base, key, bytes: self.memory.as_ref().map_or(0, Mapped::bytes) }
    }

    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: it is open.
        unsafe { (*self.mr).mem_desc }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        close(self.mr.cast());
    }
}

/// How far memory is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) base: u64,
    pub(crate) key: u64,
    pub(crate) bytes: u64,
}

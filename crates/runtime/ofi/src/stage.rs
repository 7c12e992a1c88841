//! Staging buffers: the memory of operations under way. It belongs to the endpoint, so that the
//! caller of an operation may abandon it.
//!
//! Providers that require local memory to be registered get the stages registered, once. The memory
//! of a rank never is: it may be unmapped while an interface still reads it.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use farside_fabric::Result;

use crate::device::{Device, Registered};
use crate::ffi::{self, abi};

/// The memory of one operation: a part of a slab.
pub(crate) struct Stage {
    slab: Arc<Slab>,
    at: usize,
    bytes: usize,
}

/// The memory of several stages. It is not touched before it is used.
struct Slab {
    base: *mut u8,
    bytes: usize,
    registered: Option<Registered>,
}

// SAFETY: it is memory of its own, and each stage of it has one owner.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Drop for Slab {
    fn drop(&mut self) {
        self.registered = None;
        // SAFETY: it was made from such a box, and no stage of it exists any more.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.base, self.bytes)) });
    }
}

impl Stage {
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: inside the slab.
        unsafe { self.slab.base.add(self.at) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: inside the slab, and of this stage alone, which nothing else touches while no
        // operation has it.
        unsafe { std::slice::from_raw_parts(self.start(), self.bytes) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.bytes) }
    }

    pub(crate) fn desc(&self) -> *mut c_void {
        self.slab.registered.as_ref().map_or(ptr::null_mut(), Registered::desc)
    }
}

/// Makes so many stages of so many bytes each, which an endpoint uses.
pub(crate) fn new(
    device: &Arc<Device>,
    endpoint: &ffi::Endpoint,
    count: usize,
    each: usize,
) -> Result<impl Iterator<Item = Stage> + use<>> {
    let bytes = count * each;
    let base = Box::into_raw(vec![0u8; bytes].into_boxed_slice()).cast::<u8>();
    let mut slab = Slab { base, bytes, registered: None };
    if device.info().requires(abi::MR_LOCAL) {
        // SAFETY: the slab drops the registration before it frees the memory.
        slab.registered = Some(unsafe { device.register_own(base, bytes, endpoint)? });
    }
    let slab = Arc::new(slab);
    Ok((0..count).map(move |at| Stage { slab: slab.clone(), at: at * each, bytes: each }))
}

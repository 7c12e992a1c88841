//! A provider opened, and memory that it lets peers reach.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use farside_fabric::{Error, Mapped, Result};
use farside_nic::RemoteKey;
use rustc_hash::FxHashSet;

use crate::ffi::{self, abi};
use farside_fabric::lock::lock;

/// An opened provider.
pub(crate) struct Device {
    domain: Arc<ffi::Domain>,
    keys: Mutex<Keys>,
    /// Refuses to register segments, as interfaces do where little memory may be locked.
    #[cfg(test)]
    pub(crate) refuses: std::sync::atomic::AtomicBool,
}

impl Device {
    pub(crate) fn open(info: ffi::Info) -> Result<Device> {
        let bytes = info.key_bytes();
        let domain = Arc::new(ffi::Domain::open(info)?);
        Ok(Device {
            domain,
            keys: Mutex::new(Keys::new(bytes)),
            #[cfg(test)]
            refuses: std::sync::atomic::AtomicBool::new(false),
        })
    }

    pub(crate) fn info(&self) -> &ffi::Info {
        self.domain.info()
    }

    pub(crate) fn open_endpoint(&self) -> Result<ffi::Endpoint> {
        ffi::Endpoint::open(&self.domain)
    }

    /// Registers memory of this process for local operations of an endpoint.
    ///
    /// # Safety
    ///
    /// It must stay mapped until the registration is dropped.
    pub(crate) unsafe fn register_own(
        self: &Arc<Device>,
        base: *mut u8,
        bytes: usize,
        used_by: &ffi::Endpoint,
    ) -> Result<Registered> {
        let access = abi::SEND | abi::RECV | abi::READ | abi::WRITE;
        // SAFETY: by the caller's promise.
        unsafe { self.register_memory(base, bytes, access, None, used_by) }
    }

    /// Registers a segment for operations of peers, which an endpoint serves.
    pub(crate) fn register(
        self: &Arc<Device>,
        memory: Mapped,
        served_by: &ffi::Endpoint,
    ) -> Result<Registered> {
        #[cfg(test)]
        if self.refuses.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Error::System { call: "fi_mr_reg", errno: libc::ENOMEM });
        }
        let access = abi::REMOTE_READ | abi::REMOTE_WRITE | abi::READ | abi::WRITE;
        let (base, bytes) = (memory.base().as_ptr(), memory.bytes() as usize);
        // SAFETY: mapped as long as `memory` exists, which the registration keeps.
        unsafe { self.register_memory(base, bytes, access, Some(memory), served_by) }
    }

    /// # Safety
    ///
    /// The memory must stay mapped until the registration is dropped.
    unsafe fn register_memory(
        self: &Arc<Device>,
        base: *mut u8,
        bytes: usize,
        access: u64,
        memory: Option<Mapped>,
        endpoint: &ffi::Endpoint,
    ) -> Result<Registered> {
        let taken = TakenKey { key: lock(&self.keys).take()?, device: self.clone() };
        // SAFETY: by the caller's promise.
        let region = unsafe { self.domain.register(base, bytes, access, taken.key)? };
        let registered = Registered { region, taken, base: base as u64, memory };
        if self.info().requires(abi::MR_ENDPOINT) {
            registered.region.serve_by(endpoint)?;
        }
        Ok(registered)
    }
}

/// Memory that is registered until this is dropped.
pub(crate) struct Registered {
    /// The first field is dropped first: the memory is deregistered before its key is free.
    region: ffi::MemoryRegion,
    /// The key that was asked for. The provider may have given another.
    taken: TakenKey,
    base: u64,
    memory: Option<Mapped>,
}

impl Registered {
    pub(crate) fn remote_key(&self) -> RemoteKey {
        let is_virtual = self.taken.device.info().requires(abi::MR_VIRT_ADDR);
        let base = if is_virtual { self.base } else { 0 };
        let bytes = self.memory.as_ref().map_or(0, Mapped::bytes);
        RemoteKey { base, key: self.region.key(), bytes }
    }

    /// Returns the descriptor for local operations.
    pub(crate) fn desc(&self) -> *mut c_void {
        self.region.desc()
    }
}

/// Gives a key back when it is dropped.
struct TakenKey {
    key: u64,
    device: Arc<Device>,
}

impl Drop for TakenKey {
    fn drop(&mut self) {
        lock(&self.device.keys).give_back(self.key);
    }
}

/// The keys of registrations: no two that exist have the same, however short keys are, and who
/// knows one knows nothing of the others.
struct Keys {
    /// The greatest key.
    last: u64,
    taken: FxHashSet<u64>,
}

impl Keys {
    /// Makes keys of so many bytes.
    fn new(bytes: usize) -> Keys {
        let bits = 8 * bytes.clamp(1, 8) as u32;
        Keys { last: u64::MAX >> (64 - bits), taken: FxHashSet::default() }
    }

    /// Takes a random key that is free.
    fn take(&mut self) -> Result<u64> {
        if self.taken.len() as u64 > self.last {
            let (value, limit) = (self.taken.len() as u64 + 1, self.last.saturating_add(1));
            return Err(Error::TooMuch { what: "registrations of one provider", value, limit });
        }
        loop {
            let key = random()? & self.last;
            if self.taken.insert(key) {
                return Ok(key);
            }
        }
    }

    fn give_back(&mut self, key: u64) {
        self.taken.remove(&key);
    }
}

/// Returns a number that nobody can guess.
fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    // So few bytes come whole.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(
        |errno| Error::System { call: "getrandom, for a memory key", errno: errno.raw_os_error() },
    )?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_byte_do_not_collide_while_they_are_taken() {
        let mut keys = Keys::new(1);
        let all: FxHashSet<u64> = (0..256).map(|_| keys.take().unwrap()).collect();
        assert_eq!(all, (0..256).collect());
        assert!(matches!(keys.take(), Err(Error::TooMuch { value: 257, limit: 256, .. })));
        keys.give_back(7);
        assert_eq!(keys.take().unwrap(), 7, "the only free one");
        assert!(keys.take().is_err());
    }

    #[test]
    fn no_key_of_eight_bytes_tells_of_another() {
        let mut keys = Keys::new(8);
        let mut taken: Vec<u64> = (0..1000).map(|_| keys.take().unwrap()).collect();
        // All 64 bits differ between them, and none is near another.
        let (all, none) =
            taken.iter().fold((0, u64::MAX), |(all, none), key| (all | key, none & key));
        assert_eq!((all, none), (u64::MAX, 0));
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[1] - pair[0] > 1 << 20), "{taken:x?}");
    }
}

//! What providers offer: the lists that `fi_getinfo` returns, and copies of their entries.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::ptr;
use std::sync::Arc;

use farside_fabric::{Error, Result};

use super::abi;
use super::library::Library;
use crate::signals::keeping_handlers;

/// What a provider must offer.
pub(crate) struct Wanted<'a> {
    /// Its name, if only that one fits.
    pub(crate) provider: Option<&'a str>,
    /// The address of this host that it must be reached at.
    pub(crate) at: Option<IpAddr>,
    /// Capabilities beside messages and remote memory access.
    pub(crate) caps: u64,
}

pub(crate) struct InfoList {
    library: Arc<Library>,
    first: *mut abi::Info,
}

impl Drop for InfoList {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: it came from `fi_getinfo` or `fi_dupinfo` and is freed once.
            unsafe { (self.library.freeinfo)(self.first) };
        }
    }
}

impl InfoList {
    /// Asks for all offers of reliable datagrams with remote memory access that fit.
    pub(crate) fn find(library: &Arc<Library>, wanted: &Wanted<'_>) -> Result<InfoList> {
        let text = |text: &str| {
            CString::new(text)
                .map_err(|_| Error::InvalidSetting(format!("{text:?} is not a provider's name")))
        };
        let node = wanted.at.map(|at| text(&at.to_string())).transpose()?;
        let name = wanted.provider.map(text).transpose()?;
        // SAFETY: without an argument it makes a new one, with all its parts.
        let hints = unsafe { (library.dupinfo)(ptr::null()) };
        if hints.is_null() {
            return Err(Error::System { call: "fi_allocinfo", errno: libc::ENOMEM });
        }
        let hints = InfoList { library: library.clone(), first: hints };
        // SAFETY: a fresh entry, complete and not shared; the name is freed with it.
        unsafe {
            let hints = &mut *hints.first;
            hints.caps = abi::MSG | abi::RMA | wanted.caps;
            hints.mode = abi::MODE_CONTEXT | abi::MODE_CONTEXT2;
            (*hints.ep_attr).kind = abi::EP_RDM;
            // Completion means that the bytes have landed.
            (*hints.tx_attr).op_flags = abi::DELIVERY_COMPLETE;
            let domain = &mut *hints.domain_attr;
            domain.threading = abi::THREAD_SAFE;
            domain.mr_mode = abi::MR_LOCAL
                | abi::MR_VIRT_ADDR
                | abi::MR_ALLOCATED
                | abi::MR_PROV_KEY
                | abi::MR_ENDPOINT;
            if let Some(name) = name {
                (*hints.fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
        }
        let mut found = InfoList { library: library.clone(), first: ptr::null_mut() };
        let (node, flags) = match &node {
            Some(node) => (node.as_ptr(), abi::SOURCE | abi::NUMERIC_HOST),
            None => (ptr::null(), 0),
        };
        // SAFETY: all arguments are alive; the list that is found is ours to free.
        let status = keeping_handlers(|| unsafe {
            (library.getinfo)(
                abi::API_VERSION,
                node,
                ptr::null(),
                flags,
                hints.first,
                &mut found.first,
            )
        });
        match -status {
            // `FI_ENODATA` means that nothing fits.
            0 | abi::ENODATA => Ok(found),
            _ => Err(library.error("fi_getinfo", status)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = InfoEntry<'_>> {
        let first = (!self.first.is_null()).then_some(self.first);
        let raws = std::iter::successors(first, |&info| {
            // SAFETY: the list is valid as long as `self` is, and ends with null.
            Some(unsafe { (*info).next }).filter(|next| !next.is_null())
        });
        raws.map(|raw| InfoEntry { raw, list: PhantomData })
    }
}

pub(crate) struct InfoEntry<'a> {
    raw: *mut abi::Info,
    list: PhantomData<&'a InfoList>,
}

impl InfoEntry<'_> {
    /// Returns the name of the provider.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the list is alive.
        unsafe { name_of(self.raw) }
    }

    /// Returns whether its addresses are IP addresses.
    pub(crate) fn is_internet(&self) -> bool {
        // SAFETY: the list is alive.
        let format = unsafe { (*self.raw).addr_format };
        (abi::SOCKADDR..=abi::SOCKADDR_IN6).contains(&format)
    }

    /// Copies the entry, for endpoints that hold at most so many operations.
    pub(crate) fn copy(&self, library: &Arc<Library>, operations_max: usize) -> Result<Info> {
        // SAFETY: the list is alive; the entry is copied with all its parts.
        let raw = unsafe { (library.dupinfo)(self.raw) };
        if raw.is_null() {
            return Err(Error::System { call: "fi_dupinfo", errno: libc::ENOMEM });
        }
        // SAFETY: a fresh copy, complete and not shared.
        unsafe {
            (*(*raw).tx_attr).op_flags = 0;
            let (tx, rx) = (&mut (*(*raw).tx_attr).size, &mut (*(*raw).rx_attr).size);
            (*tx, *rx) = ((*tx).min(operations_max), (*rx).min(operations_max));
        }
        Ok(Info { library: library.clone(), raw })
    }
}

/// The offer of one provider, which objects are made from.
pub(crate) struct Info {
    library: Arc<Library>,
    raw: *mut abi::Info,
}

// SAFETY: it is not changed after it was made.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: it came from `fi_dupinfo` and is freed once.
        unsafe { (self.library.freeinfo)(self.raw) };
    }
}

impl Info {
    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Returns the structure for calls of the library, which do not change it.
    pub(super) fn as_ptr(&self) -> *mut abi::Info {
        self.raw
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: it is alive.
        unsafe { name_of(self.raw) }
    }

    pub(crate) fn has_atomics(&self) -> bool {
        // SAFETY: it is alive.
        unsafe { (*self.raw).caps & abi::ATOMIC != 0 }
    }

    /// Returns the length of the longest message that is copied when it is sent.
    pub(crate) fn inject_bytes(&self) -> usize {
        // SAFETY: it is alive, and copied with all its parts.
        unsafe { (*(*self.raw).tx_attr).inject_size }
    }

    fn domain(&self) -> &abi::DomainAttr {
        // SAFETY: as above.
        unsafe { &*(*self.raw).domain_attr }
    }

    pub(crate) fn requires(&self, mr_mode: i32) -> bool {
        self.domain().mr_mode & mr_mode != 0
    }

    pub(crate) fn key_bytes(&self) -> usize {
        self.domain().mr_key_size
    }

    /// Returns the type of address vectors, `FI_AV_MAP` if the provider has no preference.
    pub(super) fn av_type(&self) -> i32 {
        match self.domain().av_type {
            0 => abi::AV_MAP,
            kind => kind,
        }
    }
}

/// Returns the name of an entry's provider.
///
/// # Safety
///
/// The entry must be alive.
unsafe fn name_of(info: *mut abi::Info) -> String {
    // SAFETY: alive by the caller's promise; the name is a string.
    unsafe {
        let name = (*(*info).fabric_attr).prov_name;
        if name.is_null() {
            String::new()
        } else {
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

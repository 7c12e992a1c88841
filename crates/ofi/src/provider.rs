//! Which provider of libfabric carries a job: found by what it can do, or by its name.

use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::ptr;
use std::sync::Arc;

use farside_fabric::{Error, Result};

use crate::ffi::{self, Library};
use crate::signals::keeping_handlers;

/// Providers that execute everything with a processor of the target: there small operations are
/// better gathered in messages, and atomics of the processor and of the provider are the same
/// instructions.
const SOFTWARE: [&str; 6] = ["tcp", "net", "udp", "sockets", "shm", "tcp;ofi_rxm"];
/// Those that reach other hosts, the better first. Interfaces that execute operations themselves
/// come before all of these.
const RANKING: [&str; 5] = ["tcp;ofi_rxm", "net", "tcp", "udp;ofi_rxd", "sockets"];
/// How many operations an endpoint need hold: providers set memory aside for each.
const QUEUE: usize = 256;
/// Formats of addresses that are an address of the internet protocol.
const INTERNET: std::ops::RangeInclusive<u32> = 1..=3;

/// A provider that fits.
pub(crate) struct Provider {
    pub(crate) library: Arc<Library>,
    pub(crate) info: *mut ffi::Info,
}

// SAFETY: it is only read after it was made.
unsafe impl Send for Provider {}
// SAFETY: as above.
unsafe impl Sync for Provider {}

impl Drop for Provider {
    fn drop(&mut self) {
        // SAFETY: it came from `dupinfo` and is freed once.
        unsafe { (self.library.freeinfo)(self.info) };
    }
}

/// A list of what was found, as libfabric gives it.
struct Found<'a>(&'a Library, *mut ffi::Info);

impl Drop for Found<'_> {
    fn drop(&mut self) {
        if !self.1.is_null() {
            // SAFETY: it came from `getinfo` or `dupinfo` and is freed once.
            unsafe { (self.0.freeinfo)(self.1) };
        }
    }
}

impl Found<'_> {
    fn each(&self) -> impl Iterator<Item = *mut ffi::Info> {
        let first = (!self.1.is_null()).then_some(self.1);
        std::iter::successors(first, |&info| {
            // SAFETY: the list is valid as long as `self` is, and ends with null.
            Some(unsafe { (*info).next }).filter(|next| !next.is_null())
        })
    }
}

impl Provider {
    /// The provider of this name, or the best there is, at an address of this host.
    pub(crate) fn find(library: &Arc<Library>, name: Option<&str>, at: IpAddr) -> Result<Provider> {
        let fitting = |name: Option<&str>| ask(library, name, None);
        let found = fitting(name)?;
        let mut names: Vec<String> = found.each().map(name_of).collect();
        let chosen = match name {
            Some(name) if names.iter().any(|known| known == name) => name.to_owned(),
            Some(name) => {
                let others = fitting(None)?.each().map(name_of).collect();
                return Err(Error::Misuse(format!(
                    "libfabric has no provider {name:?} with reliable datagrams and remote memory \
                     access here; there are: {}",
                    listed(others)
                )));
            }
            None => {
                names.sort_by_key(|name| rank(name));
                let reaches_others = names.into_iter().find(|name| rank(name).is_some());
                reaches_others.ok_or_else(|| {
                    Error::Misuse(
                        "libfabric has no provider with reliable datagrams and remote \
                                   memory access here; `fi_info` lists what it has"
                            .into(),
                    )
                })?
            }
        };
        // At the host's address, where that is an address of the provider.
        let is_internet = found.each().any(|info| {
            // SAFETY: `info` is an entry of the list that `found` holds.
            name_of(info) == chosen && INTERNET.contains(unsafe { &(*info).addr_format })
        });
        drop(found);
        let found = ask(library, Some(&chosen), is_internet.then_some(at))?;
        let first = found.each().find(|&info| name_of(info) == chosen);
        let first = first.ok_or_else(|| {
            Error::Misuse(format!("libfabric's provider {chosen:?} has nothing at {at}"))
        })?;
        // SAFETY: an entry of the list, which is copied.
        let info = unsafe { (library.dupinfo)(first) };
        if info.is_null() {
            return Err(Error::System { call: "fi_dupinfo", errno: libc::ENOMEM });
        }
        // SAFETY: a fresh copy of our own, whose parts are all there.
        unsafe {
            (*(*info).tx_attr).op_flags = 0;
            let (tx, rx) = (&mut (*(*info).tx_attr).size, &mut (*(*info).rx_attr).size);
            (*tx, *rx) = ((*tx).min(QUEUE), (*rx).min(QUEUE));
        }
        Ok(Provider { library: library.clone(), info })
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        name_of(self.info)
    }

    /// Whether a processor of the target executes what is asked for.
    pub(crate) fn is_software(&self) -> bool {
        is_software(&self.name())
    }

    pub(crate) fn has_atomics(&self) -> bool {
        self.info().caps & ffi::ATOMIC != 0
    }

    pub(crate) fn info(&self) -> &ffi::Info {
        // SAFETY: it was made by `dupinfo`, and nobody writes it.
        unsafe { &*self.info }
    }

    pub(crate) fn tx(&self) -> &ffi::TxAttr {
        // SAFETY: `dupinfo` copies all parts, and `getinfo` gives all of them.
        unsafe { &*self.info().tx_attr }
    }

    pub(crate) fn domain(&self) -> &ffi::DomainAttr {
        // SAFETY: as above.
        unsafe { &*self.info().domain_attr }
    }
}

/// The names of all providers that fit, with what the library says of itself.
pub(crate) fn names(library: &Library) -> Result<Vec<String>> {
    let mut names: Vec<String> = ask(library, None, None)?.each().map(name_of).collect();
    names.sort_by_key(|name| (rank(name).is_none(), rank(name)));
    names.dedup();
    Ok(names)
}

fn is_software(name: &str) -> bool {
    let core = name.split(';').next().unwrap_or(name);
    SOFTWARE.contains(&core)
}

/// Where a provider stands in the choice; nowhere if it does not leave the host.
fn rank(name: &str) -> Option<usize> {
    match RANKING.iter().position(|known| *known == name) {
        Some(at) => Some(at + 1),
        None if is_software(name) => None,
        None => Some(0),
    }
}

fn listed(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn name_of(info: *mut ffi::Info) -> String {
    // SAFETY: an entry of a list that is alive; its name is a string.
    unsafe {
        let name = (*(*info).fabric_attr).prov_name;
        if name.is_null() {
            String::new()
        } else {
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

/// What fits: first with atomics, then, for those that have none, without.
fn ask<'a>(library: &'a Library, name: Option<&str>, at: Option<IpAddr>) -> Result<Found<'a>> {
    let with = ask_for(library, name, at, ffi::ATOMIC)?;
    let is_enough = name.is_some() && with.each().any(|info| Some(name_of(info).as_str()) == name);
    if is_enough || (name.is_none() && with.each().next().is_some()) {
        return Ok(with);
    }
    ask_for(library, name, at, 0)
}

fn ask_for<'a>(
    library: &'a Library,
    name: Option<&str>,
    at: Option<IpAddr>,
    caps: u64,
) -> Result<Found<'a>> {
    // SAFETY: without an argument it makes a new one, with all its parts.
    let hints = Found(library, unsafe { (library.dupinfo)(ptr::null()) });
    if hints.1.is_null() {
        return Err(Error::System { call: "fi_allocinfo", errno: libc::ENOMEM });
    }
    let text = |text: &str| {
        CString::new(text).map_err(|_| Error::Misuse(format!("{text:?} is no provider's name")))
    };
    let node = at.map(|at| text(&at.to_string())).transpose()?;
    // SAFETY: fresh and ours alone; the name is freed with it.
    unsafe {
        let hints = &mut *hints.1;
        hints.caps = ffi::MSG | ffi::RMA | caps;
        hints.mode = ffi::MODE_CONTEXT | ffi::MODE_CONTEXT2;
        (*hints.ep_attr).kind = ffi::EP_RDM;
        // What has completed has landed.
        (*hints.tx_attr).op_flags = ffi::DELIVERY_COMPLETE;
        let domain = &mut *hints.domain_attr;
        domain.threading = ffi::THREAD_SAFE;
        domain.mr_mode = ffi::MR_LOCAL
            | ffi::MR_VIRT_ADDR
            | ffi::MR_ALLOCATED
            | ffi::MR_PROV_KEY
            | ffi::MR_ENDPOINT;
        if let Some(name) = name {
            (*hints.fabric_attr).prov_name = libc::strdup(text(name)?.as_ptr());
        }
    }
    let mut found = Found(library, ptr::null_mut());
    let (node, flags) = match &node {
        Some(node) => (node.as_ptr(), ffi::SOURCE | ffi::NUMERIC_HOST),
        None => (ptr::null(), 0),
    };
    // SAFETY: all arguments are alive; what is found is ours.
    let status = keeping_handlers(|| unsafe {
        (library.getinfo)(ffi::API_VERSION, node, ptr::null(), flags, hints.1, &mut found.1)
    });
    match -status {
        0 => Ok(found),
        // Nothing fits.
        ffi::ENODATA => Ok(Found(library, ptr::null_mut())),
        errno => Err(failed(library, "fi_getinfo", errno)),
    }
}

/// What went wrong, in the library's words.
pub(crate) fn failed(library: &Library, call: &'static str, errno: i32) -> Error {
    // SAFETY: it gives a string that lives as long as the library.
    let words = unsafe { CStr::from_ptr((library.strerror)(errno)) }.to_string_lossy().into_owned();
    Error::Misuse(format!("libfabric: {call}: {words}"))
}

//! The library itself: opened at run time, so that a build needs no C library and a machine without
//! libfabric runs everything else. Symbols are asked for by the version that they have had since
//! version 1.17 of the interface.

use std::ffi::{CStr, c_char, c_int, c_void};

use farside_fabric::Error;

use super::abi::{Fabric, FabricAttr, Info};
use crate::signals::keeping_handlers;

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;

/// The library, opened at run time.
pub(crate) struct Library {
    pub(super) version: unsafe extern "C" fn() -> u32,
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: unsafe extern "C" fn(*mut Info),
    pub(super) dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(super) fabric:
        unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int,
    pub(super) strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// Opens the library, which stays open: providers start threads of their own. The error says
    /// why that failed.
    pub(crate) fn open() -> Result<Library, String> {
        const NAME: &CStr = c"libfabric.so.1";
        // SAFETY: the name is a string; what runs when the library is loaded is what libfabric does
        // then.
        let library = keeping_handlers(|| unsafe {
            libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL)
        });
        if library.is_null() {
            return Err(dl_error());
        }
        let symbol = |name: &CStr, version: &CStr| {
            // SAFETY: the library is open, and both are strings.
            let found = unsafe { libc::dlvsym(library, name.as_ptr(), version.as_ptr()) };
            if found.is_null() { Err(dl_error()) } else { Ok(found) }
        };
        // SAFETY: these are the functions of these names and versions, whose types are those of the
        // headers.
        unsafe {
            Ok(Library {
                version: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(symbol(
                    c"fi_version",
                    c"FABRIC_1.0",
                )?),
                getinfo: std::mem::transmute::<*mut c_void, GetInfo>(symbol(
                    c"fi_getinfo",
                    c"FABRIC_1.3",
                )?),
                freeinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Info)>(
                    symbol(c"fi_freeinfo", c"FABRIC_1.3")?,
                ),
                dupinfo: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const Info) -> *mut Info,
                >(symbol(c"fi_dupinfo", c"FABRIC_1.3")?),
                fabric: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int,
                >(symbol(c"fi_fabric", c"FABRIC_1.1")?),
                strerror: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(c_int) -> *const c_char,
                >(symbol(c"fi_strerror", c"FABRIC_1.0")?),
            })
        }
    }

    pub(crate) fn version_text(&self) -> String {
        // SAFETY: it takes nothing and returns a number.
        let version = unsafe { (self.version)() };
        format!("{}.{}", version >> 16, version & 0xFFFF)
    }

    /// Returns the error of a call that has failed with this negative status.
    pub(crate) fn error(&self, call: &'static str, status: i32) -> Error {
        // SAFETY: it returns a string that lives as long as the library.
        let text = unsafe { CStr::from_ptr((self.strerror)(-status)) }.to_string_lossy();
        Error::Network(format!("libfabric: {call}: {text}"))
    }

    /// Returns an error unless a status is zero.
    pub(crate) fn check(&self, call: &'static str, status: i32) -> farside_fabric::Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(call, status)) }
    }
}

fn dl_error() -> String {
    // SAFETY: what it returns is a string, or nothing, until this thread asks the loader again.
    unsafe {
        let said = libc::dlerror();
        if said.is_null() {
            "unknown".into()
        } else {
            CStr::from_ptr(said).to_string_lossy().into_owned()
        }
    }
}

//! The providers of libfabric. This is the one place to ask a fabric over it what it has found.

use std::ffi::c_void;

use serde_json::json;

use super::Section;

/// What is known of libfabric here: its version, and the providers that a job could use, the preferred one first.
fn providers() -> Result<(String, Vec<String>), String> {
    // SAFETY: the name is a string with an end; the library stays open, and only its version is asked for, by a function that takes nothing.
    unsafe {
        let handle = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return Err("libfabric.so.1 is not installed (Debian: libfabric1)".into());
        }
        let symbol = libc::dlsym(handle, c"fi_version".as_ptr());
        if symbol.is_null() {
            return Err("libfabric.so.1 has no fi_version".into());
        }
        let version = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(symbol)();
        Ok((format!("{}.{}", version >> 16, version & 0xffff), Vec::new()))
    }
}

pub(super) fn section() -> Section {
    let rows = match providers() {
        Err(why) => vec![vec![json!("libfabric"), json!(false), json!(why)]],
        Ok((version, providers)) => {
            let found = vec![json!("libfabric"), json!(true), json!(format!("version {version}"))];
            let each = providers
                .into_iter()
                .enumerate()
                .map(|(place, name)| vec![json!(name), json!(true), json!(if place == 0 { "preferred" } else { "" })]);
            std::iter::once(found).chain(each).collect()
        }
    };
    Section { name: "libfabric", columns: &["provider", "here", "note"], rows }
}

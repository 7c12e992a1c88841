//! Loading libfabric changes nothing in how this process takes signals. Alone in its file:
//! providers are loaded once.

use std::net::{IpAddr, Ipv4Addr};

use farside_ofi::{Ofi, Settings};

/// The signals that are caught, and those that are ignored, as masks.
fn caught() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process knows itself");
    let is_mask = |line: &&str| line.starts_with("SigCgt:") || line.starts_with("SigIgn:");
    status.lines().filter(is_mask).map(str::to_owned).collect()
}

#[test]
fn providers_catch_no_signals() {
    let before = caught();
    assert_eq!(before.len(), 2);
    let settings: Settings = "tcp;ofi_rxm".parse().expect("a provider's name");
    let opened = Ofi::open(&settings, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert!(opened.is_ok(), "{:?}", opened.err());
    assert_eq!(caught(), before);
}

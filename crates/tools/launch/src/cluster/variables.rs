//! The environment that hosts are given.

use std::ffi::OsString;

use farside_job::{ENTRY, FABRIC, FILE, MARK, RANK};

/// The variables of this process that the ranks get: those of farside, without what makes this
/// process a rank itself.
pub(super) fn own_variables() -> impl Iterator<Item = (OsString, OsString)> {
    let of_a_rank = [FABRIC, RANK, FILE, MARK, ENTRY];
    std::env::vars_os().filter(move |(name, _)| {
        name.as_encoded_bytes().starts_with(b"FARSIDE_") && of_a_rank.iter().all(|&own| name != own)
    })
}

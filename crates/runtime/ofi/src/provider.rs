//! Which provider of libfabric carries a job: chosen by what it can do, or by its name.

use std::net::IpAddr;
use std::sync::Arc;

use farside_fabric::{Error, Result};

use crate::ffi::{Info, InfoList, Library, Wanted, abi};

/// Providers that execute everything with a processor of the target: there small operations are
/// better gathered in messages, and atomics of the processor and of the provider are the same
/// instructions.
const SOFTWARE: [&str; 6] = ["tcp", "net", "udp", "sockets", "shm", "tcp;ofi_rxm"];
/// Software providers that reach other hosts, the better first. Interfaces that execute operations
/// themselves come before all of these.
const RANKING: [&str; 5] = ["tcp;ofi_rxm", "net", "tcp", "udp;ofi_rxd", "sockets"];
/// The number of operations that an endpoint holds: providers allocate memory for each.
const OPERATIONS: usize = 256;

/// Finds the provider of this name, or the best there is, at an address of this host.
pub(crate) fn find(library: &Arc<Library>, name: Option<&str>, at: IpAddr) -> Result<Info> {
    let found = ask(library, name, None)?;
    let mut names: Vec<String> = found.iter().map(|entry| entry.name()).collect();
    let chosen = match name {
        Some(name) if names.iter().any(|known| known == name) => name.to_owned(),
        Some(name) => {
            let others = ask(library, None, None)?.iter().map(|entry| entry.name()).collect();
            return Err(Error::Network(format!(
                "libfabric has no provider {name:?} with reliable datagrams and remote memory \
                 access here; there are: {}",
                listed(others)
            )));
        }
        None => {
            names.sort_by_key(|name| rank(name));
            let reaches_others = names.into_iter().find(|name| rank(name).is_some());
            reaches_others.ok_or_else(|| {
                Error::Network(
                    "libfabric has no provider with reliable datagrams and remote memory access \
                     here; `fi_info` lists what it has"
                        .into(),
                )
            })?
        }
    };
    // Where its addresses are IP addresses, it is opened at the one of this host.
    let is_internet = found.iter().any(|entry| entry.name() == chosen && entry.is_internet());
    drop(found);
    let found = ask(library, Some(&chosen), is_internet.then_some(at))?;
    let first = found.iter().find(|entry| entry.name() == chosen);
    let first = first.ok_or_else(|| {
        Error::Network(format!(
            "libfabric's provider {chosen:?} cannot use this host's address {at}: choose another \
             provider, or another address"
        ))
    })?;
    first.copy(library, OPERATIONS)
}

/// Returns the names of all providers that fit, the preferred one first.
pub(crate) fn names(library: &Arc<Library>) -> Result<Vec<String>> {
    let found = ask(library, None, None)?;
    let mut names: Vec<String> = found.iter().map(|entry| entry.name()).collect();
    names.sort_by_key(|name| (rank(name).is_none(), rank(name)));
    names.dedup();
    Ok(names)
}

/// Returns whether a processor of the target executes what a provider is asked for.
pub(crate) fn is_software(name: &str) -> bool {
    let core = name.split(';').next().unwrap_or(name);
    SOFTWARE.contains(&core)
}

/// Returns the rank of a provider in the choice; `None` if it does not leave the host.
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

/// Asks for one provider with atomics first, and without if it has none. Of all of them it is not
/// asked who has some: an interface without atomics comes before software that has them.
fn ask(library: &Arc<Library>, provider: Option<&str>, at: Option<IpAddr>) -> Result<InfoList> {
    if let Some(name) = provider {
        let with = InfoList::find(library, &Wanted { provider, at, caps: abi::ATOMIC })?;
        if with.iter().any(|entry| entry.name() == name) {
            return Ok(with);
        }
    }
    InfoList::find(library, &Wanted { provider, at, caps: 0 })
}

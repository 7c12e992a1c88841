//! The limits on a process that simulated ranks meet: each has a stack and memory of its own.

use rustix::process::{Resource, getrlimit};

use crate::fiber::STACK_BYTES;
use crate::stack::GuardedStack;

/// Where guards take mappings: a stack and the guard at its end.
const MAPS_OF_EACH: u64 = 2;
/// An upper bound on the other mappings of a process.
const MAPS_OF_OTHERS: u64 = 1000;
/// So few ranks have room everywhere.
const FEW: u32 = 4096;

/// Refuses more ranks than the system lets a process have stacks for, and a first segment of so
/// many bytes, before the first is made: at the limit, any allocation may be the one that fails,
/// and not all of them can say so.
pub(crate) fn check(ranks: u32, root_bytes: u64) -> Result<(), String> {
    check_addresses(ranks, STACK_BYTES as u64 + root_bytes, getrlimit(Resource::As).current)?;
    if ranks <= FEW || !GuardedStack::takes_mappings() {
        return Ok(());
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    check_against(ranks, limit.and_then(|limit| limit.trim().parse().ok()))
}

fn check_addresses(ranks: u32, bytes_of_each: u64, limit: Option<u64>) -> Result<(), String> {
    let needed = u64::from(ranks).saturating_mul(bytes_of_each);
    match limit {
        Some(limit) if limit < needed => Err(format!(
            "no memory for the stacks of {ranks} ranks: each may use {} KiB of addresses, and \
             `ulimit -v` allows {} KiB; raise it to more than {}, or simulate at most {} ranks",
            bytes_of_each / 1024,
            limit / 1024,
            needed / 1024,
            limit / bytes_of_each
        )),
        _ => Ok(()),
    }
}

fn check_against(ranks: u32, maps_max: Option<u64>) -> Result<(), String> {
    let needed = u64::from(ranks) * MAPS_OF_EACH + MAPS_OF_OTHERS;
    match maps_max {
        Some(limit) if limit < needed => Err(format!(
            "no memory for the stacks of {ranks} ranks: each takes {MAPS_OF_EACH} mappings of the \
             process, and vm.max_map_count \
             allows {limit}; raise it with `sysctl -w vm.max_map_count={needed}`, simulate at most \
             {} ranks, or use Linux 6.13 or later",
            limit.saturating_sub(MAPS_OF_OTHERS) / MAPS_OF_EACH
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_too_few_are_named() {
        let error = check_addresses(100, 2 << 20, Some(150 << 20)).unwrap_err();
        for part in ["2048 KiB", "allows 153600 KiB", "more than 204800", "at most 75 ranks"] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
        for limit in [None, Some(200 << 20)] {
            assert_eq!(check_addresses(100, 2 << 20, limit), Ok(()), "{limit:?}");
        }
    }

    #[test]
    fn the_limit_that_is_too_low_is_named() {
        let error = check_against(100_000, Some(65_530)).unwrap_err();
        for part in [
            "vm.max_map_count allows 65530",
            "sysctl -w vm.max_map_count=201000",
            "at most 32265 ranks",
        ] {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
        for (ranks, limit) in [(32_265, Some(65_530)), (100_000, Some(201_000)), (100_000, None)] {
            assert_eq!(check_against(ranks, limit), Ok(()), "{ranks} ranks, {limit:?}");
        }
    }
}

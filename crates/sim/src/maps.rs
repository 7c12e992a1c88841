//! The limit on mappings of a process: each simulated rank has a stack.

use crate::stack::GuardedStack;

/// Where guards take mappings: a stack and the guard at its end.
const MAPS_OF_EACH: u64 = 2;
/// An upper bound on the other mappings of a process.
const MAPS_OF_OTHERS: u64 = 1000;
/// So few ranks have room everywhere.
const FEW: u32 = 4096;

/// Refuses more ranks than the system lets a process have stacks for, before the first is made: at
/// the limit, any allocation may be the one that fails, and not all of them can say so.
pub(crate) fn check(ranks: u32) -> Result<(), String> {
    if ranks <= FEW || !GuardedStack::takes_mappings() {
        return Ok(());
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    check_against(ranks, limit.and_then(|limit| limit.trim().parse().ok()))
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

//! What the system allows a process to map, for who has no stack left for a simulated rank.

/// A stack and the guard at its end: two mappings for each rank.
const MAPS_OF_EACH: u64 = 2;
/// What else a process has mapped, generously.
const MAPS_OF_OTHERS: u64 = 1000;

/// Which limit keeps so many ranks from having a stack, and the way out.
pub(crate) fn advice(ranks: u32) -> String {
    let count = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    advice_for(ranks, count("/proc/sys/vm/max_map_count"))
}

fn advice_for(ranks: u32, maps_max: Option<u64>) -> String {
    let needed = u64::from(ranks) * MAPS_OF_EACH + MAPS_OF_OTHERS;
    match maps_max {
        Some(limit) if limit < needed => format!(
            "each simulated rank takes {MAPS_OF_EACH} mappings of the process, and vm.max_map_count allows {limit}: raise it with \
             `sysctl -w vm.max_map_count={needed}`, or simulate at most {} ranks",
            limit.saturating_sub(MAPS_OF_OTHERS) / MAPS_OF_EACH
        ),
        _ => "the process may not map more memory: raise the limit of its addresses with `ulimit -v unlimited`, give it more \
              memory, or simulate fewer ranks"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_was_met_is_named() {
        let maps = advice_for(100_000, Some(65_530));
        for part in ["vm.max_map_count allows 65530", "sysctl -w vm.max_map_count=201000", "at most 32265 ranks"] {
            assert!(maps.contains(part), "{part:?} is not in {maps:?}");
        }
        for (ranks, limit) in [(64, Some(65_530)), (100_000, None)] {
            assert!(advice_for(ranks, limit).contains("ulimit -v"), "{ranks} ranks, {limit:?}");
        }
    }
}

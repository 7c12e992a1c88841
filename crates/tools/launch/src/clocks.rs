//! The clocks of hosts, compared with the launcher's over the channel to each daemon.
//!
//! The launcher asks for the time again and again. The answer was given somewhere between question
//! and arrival; taken for the middle, it is wrong by half of the round trip at most, and the
//! shortest round trip counts. That is done before the ranks start and after they have ended, and
//! in between the difference of the clocks is taken to change evenly: clocks of different machines
//! run differently fast, by some microseconds in a second.

const ROUND_TRIPS: u32 = 16;

/// A question for the time, and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundTrip {
    /// When it was asked, by the clock here.
    pub(crate) sent_ns: u64,
    /// The answer.
    pub(crate) there_ns: u64,
    /// When that has arrived, by the clock here.
    pub(crate) here_ns: u64,
}

/// What the clocks of the launcher and of a host have shown at one moment.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    here_ns: u64,
    there_ns: u64,
    error_ns: u64,
}

impl Estimate {
    fn of(trip: RoundTrip) -> Estimate {
        let took_ns = trip.here_ns.saturating_sub(trip.sent_ns);
        let (here_ns, error_ns) = (trip.sent_ns + took_ns / 2, took_ns.div_ceil(2));
        Estimate { here_ns, there_ns: trip.there_ns, error_ns }
    }

    fn ahead_ns(&self) -> i128 {
        i128::from(self.there_ns) - i128::from(self.here_ns)
    }
}

/// A comparison that is not over.
struct Comparison {
    trips_left: u32,
    best: Option<Estimate>,
}

#[derive(Default)]
pub(crate) struct HostClock {
    /// The results of the comparisons, in the order of time.
    estimates: Vec<Estimate>,
    under_way: Option<Comparison>,
}

impl HostClock {
    /// Begins a comparison: the host is to be asked.
    pub(crate) fn begin(&mut self) {
        self.under_way = Some(Comparison { trips_left: ROUND_TRIPS, best: None });
    }

    /// Takes an answer; returns whether the host is to be asked again.
    pub(crate) fn note(&mut self, trip: RoundTrip) -> bool {
        let Some(Comparison { trips_left, best }) = &mut self.under_way else { return false };
        let found = Estimate::of(trip);
        let better = best.filter(|best| best.error_ns <= found.error_ns).unwrap_or(found);
        (*best, *trips_left) = (Some(better), *trips_left - 1);
        let goes_on = *trips_left > 0;
        if !goes_on {
            self.under_way = None;
            self.estimates.push(better);
        }
        goes_on
    }

    /// Returns whether no comparison is under way, and one has been made.
    pub(crate) fn is_compared(&self) -> bool {
        self.under_way.is_none() && !self.estimates.is_empty()
    }

    /// Returns what the launcher's clock showed when that of the host showed this.
    pub(crate) fn here_ns(&self, there_ns: u64) -> u64 {
        let (Some(first), Some(last)) = (self.estimates.first(), self.estimates.last()) else {
            return there_ns;
        };
        let (from, to) = (first.ahead_ns(), last.ahead_ns());
        let span = last.there_ns.saturating_sub(first.there_ns);
        let passed = there_ns.saturating_sub(first.there_ns).min(span);
        let change = match span {
            0 => 0,
            span => (to - from) * i128::from(passed) / i128::from(span),
        };
        u64::try_from(i128::from(there_ns) - from - change).unwrap_or(0)
    }

    /// Returns by how much [`HostClock::here_ns`] may be wrong, if the host's clock runs evenly.
    pub(crate) fn error_ns(&self) -> u64 {
        self.estimates.iter().map(|estimate| estimate.error_ns).max().unwrap_or(0)
    }
}

/// Returns how far apart the same moment may be in the times of two of these hosts.
pub(crate) fn error_ns(clocks: &[HostClock]) -> u64 {
    let mut errors: Vec<u64> = clocks.iter().map(HostClock::error_ns).collect();
    errors.sort_unstable();
    match errors.as_slice() {
        [.., second, first] => first + second,
        // One host has one clock.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison whose answers take these times on their way there and back, when it is `now_ns`
    /// here and the clock there is ahead by `ahead_ns`.
    fn compare(clock: &mut HostClock, now_ns: u64, ahead_ns: i64, ways: &[(u64, u64)]) {
        clock.begin();
        assert!(!clock.is_compared());
        for trip in 0..ROUND_TRIPS as usize {
            let (there, back) = ways[trip % ways.len()];
            let there_ns = (now_ns + there).checked_add_signed(ahead_ns).unwrap();
            let trip = RoundTrip { sent_ns: now_ns, there_ns, here_ns: now_ns + there + back };
            assert_eq!(clock.note(trip), !clock.is_compared());
        }
        assert!(clock.is_compared());
    }

    #[test]
    fn the_shortest_round_trip_counts_and_bounds_the_error() {
        // The long ones are lopsided.
        let ways = [(9_000, 100), (300, 500), (100, 7_000)];
        for ahead_ns in [1 << 50, -400_000, 0] {
            let mut clock = HostClock::default();
            compare(&mut clock, 1_000_000, ahead_ns, &ways);
            assert_eq!(clock.error_ns(), 400);
            let there_ns = 2_000_000u64.checked_add_signed(ahead_ns).unwrap();
            assert!(clock.here_ns(there_ns).abs_diff(2_000_000) <= 400);
        }
    }

    #[test]
    fn clocks_that_run_differently_fast_are_followed() {
        let (mut clock, second) = (HostClock::default(), 1_000_000_000);
        compare(&mut clock, second, 5_000, &[(50, 50)]);
        // In a hundred seconds the clock there has gained a millisecond.
        compare(&mut clock, 101 * second, 1_005_000, &[(80, 80)]);
        for (now_ns, ahead_ns) in
            [(second, 5_000), (51 * second, 505_000), (101 * second, 1_005_000)]
        {
            let found = clock.here_ns(now_ns + ahead_ns);
            assert!(found.abs_diff(now_ns) <= clock.error_ns(), "{found} for {now_ns}");
        }
        assert_eq!(clock.error_ns(), 80);
    }

    #[test]
    fn the_times_of_two_hosts_differ_by_what_both_may_be_wrong() {
        let clock = |way| {
            let mut clock = HostClock::default();
            compare(&mut clock, 0, 0, &[(way, way)]);
            clock
        };
        assert_eq!(error_ns(&[clock(30), clock(50), clock(10)]), 80);
        assert_eq!(error_ns(&[clock(30)]), 0);
    }

    #[test]
    fn a_host_that_was_not_compared_keeps_its_times() {
        let clock = HostClock::default();
        assert!(!clock.is_compared());
        assert_eq!(clock.here_ns(77), 77);
    }
}

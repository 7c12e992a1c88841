//! The clock of time-outs, the longest sleep, and turns between long packets.

use std::time::Duration;

/// The longest that a thread sleeps before it checks again whether anything has changed.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// The length from which on a packet is so long that others run before the next one.
pub(crate) const TURN_BYTES: usize = 8192;
/// A thread that yields and gets its processor back only after so long shares it with one that
/// computes.
pub(crate) const CROWDED_NS: u64 = 200_000;
/// The number of long packets after such a yield for which a thread keeps its processor: at first,
/// and at most, after several such yields. A computation takes the processor for milliseconds, in
/// which hundreds of packets would go.
const KEPT_FIRST: u32 = 64;
const KEPT_MAX: u32 = 4096;
/// After so many short turns of others that number is halved: beside a computation some turns are
/// short, too, where a processor happens to be free.
const FORGIVEN_AFTER: u32 = 2048;

/// Returns the monotonic time in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The turns of a thread that moves long packets. Between two of them it lets others run, so that
/// a thread of this processor that has a short one to send or to read waits for one long packet and
/// not for all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    /// The number of packets for which it does not.
    kept: u32,
    /// That number the last time, unless it is forgiven.
    last: u32,
    /// The number of short turns since then, or since it was halved.
    short_turns: u32,
}

impl Turns {
    /// Lets other threads run, unless one of them computes.
    pub(crate) fn pass(&mut self) {
        if self.kept > 0 {
            self.kept -= 1;
            return;
        }
        let before_ns = now_ns();
        std::thread::yield_now();
        self.returned(now_ns().saturating_sub(before_ns));
    }

    /// Learns how long the others have run.
    fn returned(&mut self, after_ns: u64) {
        if after_ns > CROWDED_NS {
            self.last = (2 * self.last).clamp(KEPT_FIRST, KEPT_MAX);
            (self.kept, self.short_turns) = (self.last, 0);
            return;
        }
        self.short_turns += 1;
        if self.short_turns >= FORGIVEN_AFTER {
            (self.last, self.short_turns) = (self.last / 2, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_beside_a_computation_keeps_its_processor_ever_longer() {
        let mut turns = Turns::default();
        turns.returned(CROWDED_NS);
        assert_eq!(turns.kept, 0, "others have had a short turn");
        let long_turn = |turns: &mut Turns| {
            turns.returned(CROWDED_NS + 1);
            let kept = turns.kept;
            for left in (0..kept).rev() {
                turns.pass();
                assert_eq!(turns.kept, left);
            }
            kept
        };
        let mut kept = || {
            turns.returned(1);
            long_turn(&mut turns)
        };
        assert_eq!([kept(), kept(), kept()], [64, 128, 256], "one short turn is no sign");
        for _ in 0..10 {
            kept();
        }
        assert_eq!(kept(), KEPT_MAX);
        for _ in 0..10 * FORGIVEN_AFTER {
            turns.returned(CROWDED_NS);
        }
        assert_eq!(long_turn(&mut turns), KEPT_FIRST, "the computation has ended");
    }
}

//! The round-trip time of requests, and the time-outs that follow from it.
//!
//! Paper:   \[NIC02 section III-A\]: a packet that is not acknowledged in time is sent again.
//! Differs: the time-out follows the measured round trip and its deviation, as in TCP. The round
//!          trip of a request that was repeated cannot be measured; so a time-out that was too
//!          short is doubled for all requests to come, until one that was not repeated gives a
//!          sample (RFC 6298, 5.5 to 5.7).

/// The time-out before the first round trip has been measured.
pub(super) const TIMEOUT_FIRST_NS: u64 = 50_000_000;
/// The shortest time-out: an agent that is not scheduled for a moment is no loss.
const TIMEOUT_MIN_NS: u64 = 4_000_000;
pub(super) const TIMEOUT_MAX_NS: u64 = 500_000_000;
/// The shortest time-out of what a stream carries: the stream itself repeats what gets lost, so
/// only a reply that the server has dropped is missing.
pub(super) const STREAM_TIMEOUT_MIN_NS: u64 = 1_000_000_000;
pub(super) const STREAM_TIMEOUT_MAX_NS: u64 = 30_000_000_000;
/// How often a time-out is doubled at most: the shortest then exceeds the longest.
pub(super) const DOUBLINGS_MAX: u32 = 7;

/// The time-outs of requests, by what carries them.
#[derive(Clone, Copy)]
pub(super) struct Timeouts {
    pub(super) datagram_ns: u64,
    pub(super) stream_ns: u64,
}

/// The round-trip time: a moving average and its deviation, as TCP keeps them.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Timing {
    pub(super) smooth_ns: u64,
    deviation_ns: u64,
    /// How often the time-out was too short in a row.
    backoff: u32,
}

impl Timing {
    pub(super) fn measured(&mut self, sample_ns: u64) {
        let sample = sample_ns.max(1);
        self.backoff = 0;
        if self.smooth_ns == 0 {
            (self.smooth_ns, self.deviation_ns) = (sample, sample / 2);
            return;
        }
        let off = self.smooth_ns.abs_diff(sample);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + off / 4;
        self.smooth_ns = (self.smooth_ns - self.smooth_ns / 8 + sample / 8).max(1);
    }

    /// Learns that a request was not answered in time although none before it was missing.
    pub(super) fn timed_out(&mut self) {
        self.backoff = (self.backoff + 1).min(DOUBLINGS_MAX);
    }

    /// Returns how often the time-out of a request that is sent now is doubled.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the time-out of a datagram.
    pub(super) fn timeout_ns(&self) -> u64 {
        if self.smooth_ns == 0 {
            return TIMEOUT_FIRST_NS;
        }
        (self.smooth_ns + 4 * self.deviation_ns).clamp(TIMEOUT_MIN_NS, TIMEOUT_MAX_NS)
    }

    pub(super) fn stream_timeout_ns(&self) -> u64 {
        let follows = 4 * (self.smooth_ns + 4 * self.deviation_ns);
        follows.clamp(STREAM_TIMEOUT_MIN_NS, STREAM_TIMEOUT_MAX_NS)
    }
}

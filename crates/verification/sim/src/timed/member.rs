//! The ranks of a job in virtual time, as the event engine sees them.

use farside_fabric::{Rank, SegmentId};

use crate::event::EventId;
use crate::parked_wait::ParkedWait;

#[derive(Clone, Copy)]
pub(super) enum Doing {
    /// It will run when its entry of the queue comes.
    Scheduled,
    Waits(ParkedWait),
    Flushes(Rank),
    NeedsRoom,
    Prepared,
    Over,
}

/// A rank. The fields that every operation needs come first, in one line of the processor's caches.
#[repr(C, align(128))]
pub(super) struct Member {
    pub(super) doing: Doing,
    /// The reason why it will run, once that is scheduled.
    pub(super) go: Go,
    pub(super) clock_ns: u64,
    /// The words that it waits on, as far as there are no more.
    pub(super) watched: [Watched; 2],
    /// Posted operations that have not arrived, and fetching ones.
    pub(super) posted: u32,
    pub(super) fetching: u32,
    pub(super) node: u32,
    /// The number of operations that it has started.
    pub(super) serial: u32,
    pub(super) watches_more: bool,
    /// By when a timer will look at its wait, in ticks.
    pub(super) timer: Tick,
    /// The end of its wait; `u64::MAX` if it has no time limit.
    pub(super) deadline_ns: u64,
    /// While it works: how much of its host's time the agent had taken when it last looked;
    /// otherwise `u64::MAX`.
    pub(super) stolen_ns: u64,
    pub(super) hints: Hints,
}

/// The addresses that a rank needs when it is looked at, or goes on: for prefetching alone.
#[derive(Clone, Copy)]
pub(super) struct Hints {
    /// Its wait, which is on its stack.
    pub(super) wait: *const u8,
    /// The conditions of the wait, and what describes the memory that they are about.
    pub(super) conditions: *const u8,
    pub(super) memory: *const u8,
    /// The first of their words. The next wait is often for one nearby.
    pub(super) word: *const u8,
}

impl Hints {
    pub(super) const NONE: Hints = Hints {
        wait: std::ptr::null(),
        conditions: std::ptr::null(),
        memory: std::ptr::null(),
        word: std::ptr::null(),
    };
}

const _: () = assert!(size_of::<Member>() == 128);

/// A word that is waited on, as a number: the same for the same word, and seldom for another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched(u64);

impl Watched {
    pub(super) fn new(segment: SegmentId, offset: u64) -> Watched {
        /// The largest word: whatever overlaps lies in one block of this size.
        const BLOCK: u64 = 16;
        Watched(segment.0.rotate_left(32) ^ (offset / BLOCK))
    }
}

/// A time in few bits, 65 us exact. Two timers in one tick are one too many, which does no harm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u32);

impl Tick {
    pub(super) const NEVER: Tick = Tick(u32::MAX);

    pub(super) fn of(at_ns: u64) -> Tick {
        Tick(u32::try_from(at_ns >> 16).unwrap_or(u32::MAX - 1))
    }

    /// Returns when it is over. The last one lasts, so that no time is beyond it.
    pub(super) fn end_ns(self) -> u64 {
        if self.0 >= u32::MAX - 1 { u64::MAX } else { (u64::from(self.0) + 1) << 16 }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Go {
    Ready(u32, u64),
    Departure,
    TimedOut,
}

impl Member {
    pub(super) fn next_id(&mut self, rank: Rank) -> EventId {
        self.serial += 1;
        EventId { rank, serial: self.serial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_ends_after_every_time_in_it() {
        for at_ns in [0, 1, 1 << 16, (1 << 48) - 1, 1 << 48, 1 << 60, u64::MAX - 1] {
            assert!(at_ns < Tick::of(at_ns).end_ns(), "{at_ns}");
            assert!(at_ns < Tick::NEVER.end_ns(), "{at_ns}");
        }
    }
}

//! The parts of a rank's coherence state that several protocols share.

use std::collections::BTreeMap;

use farside_fabric::Rank;
use farside_rma::Context;

use crate::interval::Interval;
use crate::race::Race;
use crate::statistics::{BarrierTime, Statistics};
use crate::steps;
use crate::time::Time;

/// The intervals that a rank knows, since the last barrier of all ranks.
#[derive(Default)]
pub(crate) struct Intervals {
    pub(crate) known: BTreeMap<u32, Vec<Interval>>,
    /// The number of known intervals of each rank.
    pub(crate) seen: Time,
    /// The highest order that this rank has seen.
    pub(crate) order: u64,
    /// The number of barriers of all ranks so far.
    pub(crate) epoch: u32,
    /// The position up to which the log of each other rank was read, in bytes.
    pub(crate) cursors: BTreeMap<u32, usize>,
}

/// Returns the number before the first ticket and the first epoch, and that before the first order.
/// Two tickets in a row must differ, nothing else; a lock's word says in which epoch it was
/// released.
pub(crate) fn numbers_before(context: &Context) -> (u32, u64) {
    match context.omits(steps::COUNT_FROM_ZERO) {
        false => (0, 0),
        true => (u32::MAX, u32::MAX as u64 - 1),
    }
}

#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) diff_words: usize,
    pub(crate) pending_notices: usize,
    pub(crate) log_bytes: usize,
}

#[derive(Default)]
pub(crate) struct Records {
    pub(crate) statistics: Statistics,
    /// The number of messages that the fabric had sent again before this memory was made.
    pub(crate) repeats: u64,
    pub(crate) races: Vec<Race>,
    /// The times at which barriers of all ranks were entered and left, in nanoseconds.
    pub(crate) barrier_times: Vec<BarrierTime>,
}

pub(crate) struct LockState {
    /// The place, of two, that the last request used.
    pub(crate) turn: Vec<usize>,
    pub(crate) held: Vec<bool>,
    pub(crate) tickets: u32,
    /// True while what is heard comes with a lock.
    pub(crate) is_asking: bool,
}

impl LockState {
    pub(crate) fn new(locks: u32, tickets: u32) -> LockState {
        let (turn, held) = (vec![0; locks as usize], vec![false; locks as usize]);
        LockState { turn, held, tickets, is_asking: false }
    }
}

pub(crate) struct MessageCounts {
    pub(crate) sent: [Vec<u64>; 2],
    pub(crate) received: [Vec<u64>; 2],
    /// Longer messages, by receiver.
    pub(crate) long: BTreeMap<Rank, u64>,
    pub(crate) outbox_used: usize,
}

impl MessageCounts {
    pub(crate) fn new(ranks: u32) -> MessageCounts {
        let zero = || [vec![0; ranks as usize], vec![0; ranks as usize]];
        MessageCounts { sent: zero(), received: zero(), long: BTreeMap::new(), outbox_used: 0 }
    }
}

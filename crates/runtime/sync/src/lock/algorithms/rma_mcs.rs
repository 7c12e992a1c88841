//! Tree of queues (RMA-MCS): a queue for each element of the topology, so that the lock stays close
//! for a while before it goes far.
//!
//! Paper:     [RMALOCK16] sections 3.2.2, 3.2.3 and 3.5, listings 4 and 5.
//! Differs:   the rank that passes the lock says whose node stands in the level above: as printed,
//!            a rank releases that level with a node that never stood there. Levels that divide
//!            nothing are left out; waiters can give up at any level (`README.md`).
//! State:     for each level, 1 word (tail) at the first rank of the element (at the home for the
//!            widest), and 3 words on every rank.
//! Invariant: a node of each of the holder's elements stands in the queue around it; at most `t_l`
//!            ranks of an element have it in a row while another waits (lock/rma-mcs-without-t-l).
//! Ordering:  release flushes first (lock/rma-mcs-without-flush); the level above is released
//!            before the own element's next goes there (lock/rma-mcs-leaf-first).
//! Cost:      for each level entered that of a queue, above the first +1 store to itself; release:
//!            inside the element that of a queue and 1 load; each level above 2 loads more; at the
//!            widest 1 load less.
//! Checked:   `farside check 'lock/rma-mcs*'`: all schedules of small jobs with
//!            thresholds of 1, 2 and 32; T_L itself; 8 to 256 ranks, PCT depth 3.

mod descent;
mod lock;
mod tree;
mod waiting;

use std::cell::Cell;

use farside_fabric::{Link, Result};
use farside_rma::Context;

use super::d_mcs::Entry;
use crate::lock::frame::{LockWords, TimeLimit};
use crate::lock::steps;
use descent::Left;
use tree::{Known, Level};

pub(crate) use descent::Descent;
pub(super) use lock::{ENTRIES, make};
pub(crate) use tree::words;

/// Told to the next of an element when the level above was released.
const ACQUIRE_PARENT: u64 = 0;

pub(crate) struct RmaMcs {
    /// The narrowest, level N of the paper, first.
    levels: Vec<Level>,
    thresholds: Vec<u32>,
    /// How many may follow each other at the widest level, if what lies above it is given back
    /// then.
    widest: Option<u32>,
    descent: Cell<Descent>,
    /// What is known of this rank's node in the first level.
    leaf: Cell<Known>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It was passed the lock.
    All,
    /// It has the widest queue. If something lies above, that is its to get.
    Root,
    /// Not its turn within the time given.
    GaveUp,
}

/// Gives back what lies above the widest queue.
type GiveBack<'a> = &'a dyn Fn() -> Result<()>;

impl RmaMcs {
    /// Enters the queues from level `i` on, until the lock is passed or the widest is entered.
    /// [RMALOCK16 listing 4]
    fn writer_acquire(
        &self,
        lock: &LockWords,
        context: &Context,
        i: usize,
        limit: TimeLimit,
    ) -> Result<Reached> {
        let entry = self.enter(lock, context, i, limit)?;
        if entry == Entry::GaveUp {
            return Ok(Reached::GaveUp);
        }
        let node = self.levels[i].queue.link();
        if let (Some(below), Some(_)) = (i.checked_sub(1), node.target()) {
            self.note(lock, context, below, Known { count: 1, above: node })?;
        }
        match entry {
            Entry::Passed(status) if status != ACQUIRE_PARENT => {
                self.note(lock, context, i, Known::unpack(status)?)?;
                Ok(Reached::All)
            }
            _ if self.is_widest(i) => {
                self.note(lock, context, i, Known::NOTHING)?;
                Ok(Reached::Root)
            }
            _ => self.writer_acquire(lock, context, i + 1, limit),
        }
    }

    /// Releases level `i` with the node that stands there, and those above if the lock leaves the
    /// element. [RMALOCK16 listing 5]
    fn writer_release(
        &self,
        lock: &LockWords,
        context: &Context,
        i: usize,
        node: Link,
        give_back: GiveBack<'_>,
    ) -> Result<()> {
        let Level { queue, t_l, .. } = &self.levels[i];
        let Some((owner, _)) = node.target() else {
            return Ok(());
        };
        let known = self.known(lock, context, i, owner)?;
        let is_widest = self.is_widest(i);
        let has_parent = !is_widest || self.widest.is_some();
        // At the widest level the threshold is about readers: the product of all is T_W.
        let threshold = if is_widest { steps::KEEP_T_W } else { steps::KEEP_T_L };
        let may_stay = known.count < *t_l || context.omits(threshold);
        let stays = !has_parent || (may_stay && queue.has_next(lock, context, owner)?);
        let has_left = Cell::new(!stays);
        let release_parent = || match is_widest {
            true => give_back(),
            false => self.writer_release(lock, context, i + 1, known.above, give_back),
        };
        let climbs_last = !context.omits(steps::CLIMB_LAST);
        if !stays && climbs_last {
            release_parent()?;
        }
        let succ = queue.release_node(lock, context, node, |candidate| {
            // A successor has gone away, and there may be none.
            if candidate.is_none() && has_parent && !has_left.replace(true) {
                release_parent()?;
            }
            let passed = Known { count: known.count + 1, above: known.above };
            Ok(if has_left.get() { ACQUIRE_PARENT } else { passed.pack() })
        })?;
        if !stays && !climbs_last {
            release_parent()?;
        }
        self.note_left(lock, context, Left { i, owner, succ, has_left: has_left.get() });
        Ok(())
    }
}

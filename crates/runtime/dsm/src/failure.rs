//! Errors on the way through a synchronization: shared memory that failed on one rank stays an
//! error, of all ranks that synchronize with it.
//!
//! Paper:     none.
//! Differs:   not applicable.
//! State:     the words of barriers and locks; 1 word of a domain, which is written in the section
//!            that has failed.
//! Invariant: a rank that has failed passes nothing on: who waits for it, or comes to it later, is
//!            told, and fails, too. So no rank reads a page that lacks a write.
//! Ordering:  `a_failure_that_is_kept_is_caught`.
//! Cost:      2 signals and 1 add to each rank, once, and 1 swap for each lock that is held, by the
//!            rank that has failed and by each that hears of it: who waits looks at its partner's
//!            words alone.
//! Checked:   3 ranks that meet, and that pass a lock on, without room for their notices; on two
//!            nodes, whoever ends the interval of a domain that has none; 3 ranks, one of which
//!            dies, while the two others meet.

use farside_fabric::{Error, ExitCause, Loss, PeerState, Rank, Result};
use farside_rma::{WaitOptions, World};

use crate::coherence::Coherence;
use crate::memory::Way;
use crate::state::Local;
use crate::steps;

/// The count of messages of a rank that sends none any more; less the rank whose loss is the
/// reason, plus 1, if one is.
const SENDS_NONE: u64 = u64::MAX;
/// More long messages than a rank is ever sent: one that takes none any more is waited for by
/// nobody.
const TAKES_ALL: u64 = 1 << 62;

/// The error of a rank that has heard of another's.
pub(crate) fn has_failed(rank: Rank) -> Error {
    Error::InvalidState(format!("{rank} failed to use shared memory: its own error says why"))
}

/// Returns why a rank sends no messages any more, as [`Local::heard`] takes it, if that is what the
/// count of its messages says.
pub(crate) fn why_none_come(count: u64) -> Option<u32> {
    let reason = SENDS_NONE - count;
    (reason <= u64::from(u32::MAX)).then_some(reason as u32)
}

/// Returns this rank's error, or that another rank has one: all ranks go on, or none does.
pub(crate) fn agree<T>(world: &World, mine: Result<T>) -> Result<T> {
    let mut failed = [if mine.is_err() { u64::from(world.rank().0) + 1 } else { 0 }];
    world.all_reduce(&mut failed, u64::max)?;
    match (mine, failed[0].checked_sub(1)) {
        (Ok(_), Some(rank)) => Err(has_failed(Rank(rank as u32))),
        (mine, _) => mine,
    }
}

impl Local<'_> {
    /// Returns the error of a rank that has heard of another's: the loss that was the reason, if
    /// one was, plus 1. All ranks hear of that, some of them later.
    pub(crate) fn heard(&self, from: Rank, reason: u32) -> Error {
        let is_another = |&lost: &Rank| lost != self.me && lost.0 < self.ranks;
        let Some(lost) = reason.checked_sub(1).map(Rank).filter(is_another) else {
            return has_failed(from);
        };
        let job = self.context.job();
        let how = match job.peer_state(lost) {
            PeerState::Lost(how) => how,
            PeerState::Left => ExitCause::Left,
            PeerState::Starting | PeerState::Alive => {
                let (never, options) = (|_: u64| false, WaitOptions::default());
                let word = self.memory.granted(self.me);
                let waited = self.context.wait_among(&[lost], word, never, options);
                return waited.err().unwrap_or_else(|| has_failed(from));
            }
        };
        job.first_cause(Loss { rank: lost, how }).error()
    }
}

/// Returns the reason that [`Local::heard`] takes.
pub(crate) fn reason_of(error: &Error) -> u32 {
    error.lost_rank().map_or(0, |lost| lost.0 + 1)
}

impl Coherence<'_> {
    /// Fails if something has gone wrong for good, and tells the program so.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.is_unreported = false;
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Returns what has gone wrong, if the program was not told.
    pub(crate) fn unreported(&self) -> Result<()> {
        self.failure.clone().filter(|_| self.is_unreported).map_or(Ok(()), Err)
    }

    /// Remembers what has gone wrong: pages may be stale from now on. Tells all ranks, also of a
    /// loss: who waits for this rank need not look at the one that was lost.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if let Some(error) = &self.failure {
            return error.clone();
        }
        if !self.context.omits(steps::TELL_OF_FAILURE) {
            self.tell_of_failure(reason_of(&error));
        }
        self.failure.insert(error).clone()
    }

    /// Answers all that wait for this rank now or later. Whoever cannot be reached is lost, and
    /// that everybody hears.
    fn tell_of_failure(&mut self, reason: u32) {
        self.protocol.give_up(&self.here, reason);
        // The count must not be overtaken by one of before.
        let _ = self.context.fence();
        for rank in (0..self.ranks).map(Rank).filter(|&rank| rank != self.me) {
            for way in [Way::Up, Way::Down] {
                let bell = self.memory.bell(way, self.me, rank);
                let _ = self.here.context.signal(bell, SENDS_NONE - u64::from(reason));
            }
            let _ = self.context.add(self.memory.taken(rank, self.me), TAKES_ALL);
        }
        for lock in 0..self.lock_state.held.len() as u32 {
            if self.lock_state.held[lock as usize] {
                let _ = self.fail_lock(lock, reason);
            }
        }
    }
}

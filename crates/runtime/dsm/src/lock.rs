//! Locks that bring write notices: the manager knows which rank asked last, and that rank passes
//! the lock on, with the notices that the next one lacks.
//!
//! Paper:     TreadMarks, on which [BST97] builds: a manager for each lock, requests forwarded to
//!            the last holder, notices with the grant.
//! Differs:   a swap at the manager returns the last requester, and the request goes there
//!            directly. The notices of a free lock are read from the last holder's log.
//! State:     for each lock 1 word at the manager, and on every rank 2 words and 2 requests of 128
//!            bytes, used in turn; on every rank the slot of a grant and its word, and a log of
//!            intervals.
//! Invariant: one holder at a time; the holder of a lock knows all that its last holder knew when
//!            it released it.
//! Ordering:  `one_place_for_all_requests_is_caught`, `a_chain_that_is_cut_is_caught`,
//!            `a_barrier_of_some_that_is_not_passed_on_is_caught`; why: `README.md`.
//! Cost:      1 swap if this rank had it last; otherwise 2 swaps and 1 put, and 1 get if it is
//!            free, or 1 message of the last holder.
//! Checked:   chains of 3 ranks exhaustively, mutual exclusion and visibility.

use farside_fabric::{Error, Rank, Result};

use crate::coherence::Coherence;
use crate::failure::reason_of;
use crate::memory::{GRANT_BYTES, REQUEST_BYTES, STATES, TAIL};
use crate::message::{Reader, Writer};
use crate::protocol::{Log, Told};
use crate::steps;
use crate::time::Time;

/// The state of a request's place: its rank has the lock, or waits for it; the lock is free;
/// another rank waits for it.
const HELD: u64 = 0;
const FREE: u64 = 1;
const WANTED: u64 = 2;
/// Its rank had the lock, or waited for it, and passes it on to nobody. The upper half says why.
const FAILED: u64 = 3;
const KIND_BITS: u32 = 2;

/// The place of a grant's notices: here, or in the log of the last holder.
const HERE: u32 = 0;
const IN_THE_LOG: u32 = 1;
/// The holder has failed, and there is no lock to be had. The length says why.
const NOWHERE: u32 = 2;
const GRANT_HEADER: usize = 8;

impl Coherence<'_> {
    pub(crate) fn acquire(&mut self, lock: u32) -> Result<()> {
        self.protocol.begin_acquire(&mut self.here)?;
        let omits = self.context.omits(steps::ALTERNATE_PLACES);
        let turn = if omits { 0 } else { 1 - self.lock_state.turn[lock as usize] };
        self.lock_state.turn[lock as usize] = turn;
        self.records.statistics.locks += 1;
        self.context.store(self.memory.lock(self.me, lock, STATES + turn), HELD)?;
        let manager = Rank(lock % self.ranks);
        let mine = (u64::from(self.me.0) + 1) * 2 + turn as u64;
        // Also if the swap fails: it may have been carried out, and others ask this rank then.
        self.lock_state.held[lock as usize] = true;
        let before = self.context.swap(self.memory.lock(manager, lock, TAIL), mine)?;
        self.count(2, 8);
        let last = Rank(((before / 2) as u32).wrapping_sub(1));
        if before == 0 || last == self.me {
            return Ok(());
        }
        self.ask(lock, last, (before % 2) as usize)?;
        self.protocol.catch_up(&mut self.here)
    }

    /// Asks the one that asked before.
    fn ask(&mut self, lock: u32, last: Rank, turn: usize) -> Result<()> {
        // Zero is no ticket: a rank that was never granted a lock has that.
        self.lock_state.tickets = self.lock_state.tickets.checked_add(1).unwrap_or(1);
        let ticket = u64::from(self.lock_state.tickets);
        let mut writer = Writer::default();
        writer.time(&self.protocol.time(&self.here)?);
        if writer.bytes().len() > REQUEST_BYTES {
            // Too much to say: what comes then is more than needed.
            writer = Writer::default();
            writer.time(&Time::default());
        }
        self.context.put(writer.bytes(), self.memory.request(last, lock, turn))?;
        self.context.fence()?;
        let wanted = WANTED | (u64::from(self.me.0) << KIND_BITS) | (ticket << 32);
        let found = self.context.swap(self.memory.lock(last, lock, STATES + turn), wanted)?;
        self.count(2, 8 + writer.bytes().len());
        let length = match found & ((1 << KIND_BITS) - 1) {
            // A release before the last barrier of all ranks is known.
            FREE if (found as u32) >> KIND_BITS != self.epoch << KIND_BITS >> KIND_BITS => {
                return Ok(());
            }
            FREE => (found >> 32) as usize,
            FAILED => return Err(self.heard(last, (found >> 32) as u32)),
            _ => match self.await_grant(ticket, last)? {
                Some(length) => length,
                None => return Ok(()),
            },
        };
        self.read_log(last, length)
    }

    /// Waits for the lock. Returns how much of the log is to be read, if the notices did not come
    /// with it.
    fn await_grant(&mut self, ticket: u64, last: Rank) -> Result<Option<usize>> {
        self.here.context.wait(self.memory.granted(self.me), |granted| granted == ticket)?;
        let mut header = [0; GRANT_HEADER];
        let grant = self.memory.grant(self.me);
        self.context.get(grant, &mut header)?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let length = word(4) as usize;
        match word(0) {
            IN_THE_LOG => return Ok(Some(length)),
            NOWHERE => return Err(self.heard(last, word(4))),
            _ => {}
        }
        let mut message = vec![0; length.min(GRANT_BYTES)];
        self.context.get(grant.skip(GRANT_HEADER), &mut message)?;
        let intervals = self.read_intervals(Reader::new(&message))?;
        self.protocol.learn(&mut self.here, intervals, Told::WithLock)?;
        Ok(None)
    }

    fn read_log(&mut self, of: Rank, length: usize) -> Result<()> {
        let domain = self.domains.of(of);
        if domain == self.domains.of(self.me) {
            return Ok(());
        }
        let of = self.domains.home_of(of);
        let cursor = self.lock_state.cursors.get(&of.0).copied().unwrap_or(0);
        if cursor >= length {
            return Ok(());
        }
        let mut message = vec![0; length - cursor];
        self.context.get(self.memory.log.at(of, cursor), &mut message)?;
        self.count(2, message.len());
        self.lock_state.cursors.insert(of.0, length);
        let mut intervals = self.read_intervals(Reader::new(&message))?;
        if self.context.omits(steps::PASS_ON) {
            intervals.retain(|interval| interval.rank == domain);
        }
        self.protocol.learn(&mut self.here, intervals, Told::WithLock)
    }

    pub(crate) fn release_lock(&mut self, lock: u32) -> Result<()> {
        let log = self.protocol.end_interval(&mut self.here)?;
        let turn = self.lock_state.turn[lock as usize];
        let free = FREE | u64::from(self.epoch << KIND_BITS) | ((log.bytes as u64) << 32);
        let place = self.memory.lock(self.me, lock, STATES + turn);
        // Not a swap: who asks must stay in the word if the answer is lost.
        let found = self.context.compare_swap(place, HELD, free)?;
        self.lock_state.held[lock as usize] = false;
        let Some((next, ticket)) = who_wants(found) else { return Ok(()) };
        let granted = self.grant((lock, turn), (next, ticket), log);
        if let Err(error) = &granted
            && !self.context.omits(steps::TELL_OF_FAILURE)
        {
            // Who waits cannot be reached, or hears that it waits in vain. A grant that was posted
            // must not overtake that.
            let _ = self.context.fence();
            let _ = self.refuse(next, ticket, reason_of(error));
        }
        granted
    }

    /// Passes a lock on, with the notices that the next one lacks. The log is that of the moment at
    /// which the interval ended.
    fn grant(
        &mut self,
        (lock, turn): (u32, usize),
        (next, ticket): (Rank, u64),
        log: Log,
    ) -> Result<()> {
        let mut request = [0; REQUEST_BYTES];
        self.context.get(self.memory.request(self.me, lock, turn), &mut request)?;
        let knows = Reader::new(&request).time()?;
        let me = self.domains.of(self.me);
        // A rank of the same domain has been told.
        let is_told = self.domains.of(next) == me;
        let is_long = !is_told && log.is_long;
        let mut notices = Writer::default();
        if !is_told && !is_long {
            let keeps_to_itself = self.context.omits(steps::PASS_ON);
            let of = |domain| !keeps_to_itself || domain == me;
            self.protocol.write_lacking(&self.here, &knows, &of, &mut notices)?;
        }
        let here = !is_long && GRANT_HEADER + notices.bytes().len() <= GRANT_BYTES;
        let (kind, length) = match here {
            true => (HERE, notices.bytes().len()),
            false => (IN_THE_LOG, log.bytes),
        };
        let mut message = [kind.to_le_bytes(), (length as u32).to_le_bytes()].concat();
        if here {
            message.extend(notices.bytes());
        }
        self.context.put_signal(
            &message,
            self.memory.grant(next),
            ticket,
            self.memory.granted(next),
        )?;
        self.count(1, message.len());
        Ok(())
    }

    /// Lets nobody wait for a lock that this rank holds, or waits for, and will not pass on.
    pub(crate) fn fail_lock(&mut self, lock: u32, reason: u32) -> Result<()> {
        let turn = self.lock_state.turn[lock as usize];
        let failed = FAILED | (u64::from(reason) << 32);
        let place = self.memory.lock(self.me, lock, STATES + turn);
        let found = self.context.swap(place, failed)?;
        who_wants(found).map_or(Ok(()), |(next, ticket)| self.refuse(next, ticket, reason))
    }

    fn refuse(&self, next: Rank, ticket: u64, reason: u32) -> Result<()> {
        let message = [NOWHERE.to_le_bytes(), reason.to_le_bytes()].concat();
        let (grant, granted) = (self.memory.grant(next), self.memory.granted(next));
        self.context.put_signal(&message, grant, ticket, granted)
    }

    /// Fails if there is no such lock, or if it is held and should not be, or the other way round.
    pub(crate) fn check_lock(&self, lock: u32, held: bool) -> Result<()> {
        match self.lock_state.held.get(lock as usize) {
            None => Err(Error::InvalidArgument(format!(
                "there is no lock {lock}: there are {}, numbered from 0 (`Config::locks`)",
                self.config.locks
            ))),
            Some(&is) if is != held && held => {
                Err(Error::InvalidState(format!("lock {lock} is not held by this rank")))
            }
            Some(&is) if is != held => {
                Err(Error::InvalidState(format!("lock {lock} is held by this rank already")))
            }
            Some(_) => Ok(()),
        }
    }
}

fn who_wants(state: u64) -> Option<(Rank, u64)> {
    let is_wanted = state & ((1 << KIND_BITS) - 1) == WANTED;
    is_wanted.then_some((Rank((state as u32) >> KIND_BITS), state >> 32))
}

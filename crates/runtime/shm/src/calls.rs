//! The calls of a rank, as its threads see them: which slots are free, and which replies have come.
//!
//! State:     of each slot how often it was used, which tells its tickets apart; replies that were
//!            moved out of slots, by their tickets.
//! Invariant: a slot is taken only until the agent has answered, whether its caller has taken the
//!            reply or not. So a thread that waits for a slot waits for agents alone, and not for
//!            another thread of its rank, which may itself wait for a slot.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use farside_fabric::lock::lock;
use farside_fabric::{Error, HandlerId, Node, Rank, Reply, Result, Ticket};

use crate::agent::{FREE, ask, is_waiting, outcome, read_reply};
use crate::layout::{CALL_BYTES, CALL_SLOTS};
use crate::memory::Job;

/// How long a call waits for a slot before it looks for answers, and whether the agent still lives.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The calls of a rank. Shared by the contexts of the rank.
pub(crate) struct Calls {
    rank: Rank,
    slots: Mutex<Slots>,
    freed: Condvar,
}

#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    /// Slots of calls that were given up: free as soon as the agent has answered.
    abandoned: Vec<u32>,
    uses: [u32; CALL_SLOTS as usize],
    /// The replies of answered calls whose slots others needed.
    kept: HashMap<Ticket, Result<Reply>>,
}

impl Slots {
    fn ticket(&self, index: u32) -> Ticket {
        let uses = self.uses[(index % CALL_SLOTS) as usize];
        Ticket(u64::from(uses & USES_MASK) << 32 | u64::from(index))
    }

    /// Takes the reply out of a slot, which is free then; nothing if the agent is not done.
    fn take_reply(&mut self, job: &Arc<Job>, index: u32) -> Option<Result<Reply>> {
        let (slot, memory) = job.call_slot(index);
        let state = slot.state.load(Ordering::SeqCst);
        if state == FREE || is_waiting(state) {
            return None;
        }
        let node = Node(slot.node.load(Ordering::Relaxed));
        let handler = HandlerId(slot.handler.load(Ordering::Relaxed));
        let (bytes, reply) = read_reply(slot, &memory);
        slot.state.store(FREE, Ordering::SeqCst);
        self.free.push(index);
        Some(outcome(state, node, handler, bytes, reply))
    }

    /// Frees the slots of all calls that are answered, and keeps the replies that somebody may
    /// still take.
    fn free_answered(&mut self, job: &Arc<Job>, rank: Rank) {
        let first = rank.0 * CALL_SLOTS;
        for index in first..first + CALL_SLOTS {
            let ticket = self.ticket(index);
            let Some(reply) = self.take_reply(job, index) else { continue };
            match self.abandoned.iter().position(|&given_up| given_up == index) {
                Some(at) => drop(self.abandoned.swap_remove(at)),
                None => drop(self.kept.insert(ticket, reply)),
            }
        }
    }
}

/// Tickets of calls have none of the bits by which fabrics over this one mark theirs.
const USES_MASK: u32 = 0x0FFF_FFFF;

impl Calls {
    pub(crate) fn new(rank: Rank) -> Calls {
        let first = rank.0 * CALL_SLOTS;
        let slots = Slots { free: (first..first + CALL_SLOTS).collect(), ..Slots::default() };
        Calls { rank, slots: Mutex::new(slots), freed: Condvar::new() }
    }

    /// Takes a free slot. When all calls that the rank may have are unanswered, waits until one is.
    fn take(&self, job: &Arc<Job>, alive: &dyn Fn() -> Result<()>) -> Result<(u32, Ticket)> {
        let mut slots = lock(&self.slots);
        loop {
            if slots.free.is_empty() {
                slots.free_answered(job, self.rank);
            }
            if let Some(index) = slots.free.pop() {
                let uses = &mut slots.uses[(index % CALL_SLOTS) as usize];
                *uses = uses.wrapping_add(1);
                return Ok((index, slots.ticket(index)));
            }
            alive()?;
            let waited = self.freed.wait_timeout(slots, LOOK_AGAIN);
            slots = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Gives up on a call: its slot is used again once the agent has answered.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        let mut slots = lock(&self.slots);
        if slots.kept.remove(&ticket).is_none() {
            slots.abandoned.push(ticket.0 as u32);
        }
    }

    /// Fills a slot and wakes the agent. `alive` says whether there is still somebody to answer.
    pub(crate) fn begin(
        &self,
        job: &Arc<Job>,
        node: Node,
        handler: HandlerId,
        bytes: &[u8],
        alive: &dyn Fn() -> Result<()>,
    ) -> Result<Ticket> {
        if bytes.len() as u64 > CALL_BYTES {
            return Err(Error::TooMuch {
                what: "bytes of a call's argument",
                value: bytes.len() as u64,
                limit: CALL_BYTES,
            });
        }
        let (index, ticket) = self.take(job, alive)?;
        ask(job, index, node, handler, bytes);
        Ok(ticket)
    }

    pub(crate) fn is_done(&self, job: &Arc<Job>, ticket: Ticket) -> bool {
        !is_waiting(job.call_slot(ticket.0 as u32).0.state.load(Ordering::SeqCst))
            || lock(&self.slots).ticket(ticket.0 as u32) != ticket
    }

    /// The reply, if the agent is done; the slot is free then.
    pub(crate) fn finish(&self, job: &Arc<Job>, ticket: Ticket) -> Result<Option<Reply>> {
        let unknown = || {
            let rank = self.rank;
            Err(Error::Internal(format!("{ticket:?} does not name a call in flight from {rank}")))
        };
        let index = ticket.0 as u32;
        if index / CALL_SLOTS != self.rank.0 {
            return unknown();
        }
        let mut slots = lock(&self.slots);
        if let Some(reply) = slots.kept.remove(&ticket) {
            return reply.map(Some);
        }
        let state = job.call_slot(index).0.state.load(Ordering::SeqCst);
        if slots.ticket(index) != ticket || state == FREE {
            return unknown();
        }
        let reply = slots.take_reply(job, index);
        drop(slots);
        if reply.is_some() {
            self.freed.notify_one();
        }
        reply.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uses_of_a_slot_begin_again() {
        let mut slots = Slots { uses: [USES_MASK - 1; CALL_SLOTS as usize], ..Slots::default() };
        let mut tickets = Vec::new();
        for _ in 0..4 {
            tickets.push(slots.ticket(CALL_SLOTS + 3));
            slots.uses[3] = slots.uses[3].wrapping_add(1);
        }
        let last = u64::from(USES_MASK);
        let of = |uses: u64| Ticket(uses * 0x1_0000_0000 + u64::from(CALL_SLOTS) + 3);
        assert_eq!(tickets, [of(last - 1), of(last), of(0), of(1)]);
        assert!(tickets.iter().all(|ticket| ticket.0.leading_zeros() >= 4), "none has a mark");
    }
}

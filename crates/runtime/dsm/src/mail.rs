//! Messages of barriers: what fits comes with its signal; what does not is fetched from the sender.

use farside_fabric::{Rank, Result};

use crate::coherence::Coherence;
use crate::failure::why_none_come;
use crate::memory::{Way, check_room};
use crate::steps;

/// The length, and where the message is if it is not here.
const HEADER_BYTES: usize = 8;
const IS_HERE: u32 = u32::MAX;

impl Coherence<'_> {
    /// Sends a message to a partner of a barrier, which has got the last one of this way.
    pub(crate) fn send(
        &mut self,
        way: Way,
        to: Rank,
        members: &[Rank],
        message: &[u8],
    ) -> Result<()> {
        let count = &mut self.messages.sent[way as usize][to.index()];
        *count += 1;
        let count = *count;
        let mut whole = (message.len() as u32).to_le_bytes().to_vec();
        if HEADER_BYTES + message.len() <= self.memory.slot_bytes() {
            whole.extend(IS_HERE.to_le_bytes());
            whole.extend(message);
        } else {
            let at = self.put_into_outbox(members, message)?;
            *self.messages.long.entry(to).or_default() += 1;
            whole.extend((at as u32).to_le_bytes());
        }
        let (slot, bell) = (self.memory.slot(way, self.me, to), self.memory.bell(way, self.me, to));
        self.context.put_signal(&whole, slot, count, bell)?;
        self.count(1, whole.len());
        Ok(())
    }

    pub(crate) fn receive(&mut self, way: Way, from: Rank, members: &[Rank]) -> Result<Vec<u8>> {
        let count = &mut self.messages.received[way as usize][from.index()];
        *count += 1;
        let count = *count;
        let bell = self.memory.bell(way, from, self.me);
        let has_come = |rank: Rank| Ok(rank != from || self.context.load(bell)? >= count);
        let come = self.context.wait_for_all(members, &has_come, bell, |come| come >= count)?;
        if let Some(reason) = why_none_come(come) {
            return Err(self.heard(from, reason));
        }
        let mut header = [0; HEADER_BYTES];
        let slot = self.memory.slot(way, from, self.me);
        self.context.get(slot, &mut header)?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (length, at) = (word(0) as usize, word(4));
        check_room("a message", length, self.memory.outbox_bytes)?;
        let mut message = vec![0; length];
        if at == IS_HERE {
            self.context.get(slot.skip(HEADER_BYTES), &mut message)?;
        } else {
            self.context.get(self.memory.outbox.at(from, at as usize), &mut message)?;
            let taken = self.memory.taken(from, self.me);
            if self.context.omits(steps::ADD_TAKEN) {
                self.context.signal(taken, count)?;
            } else {
                self.context.add(taken, 1)?;
            }
            self.count(3, length);
        }
        Ok(message)
    }

    /// Puts a long message where its receiver gets it.
    fn put_into_outbox(&mut self, members: &[Rank], message: &[u8]) -> Result<usize> {
        check_room("write notices in one message", message.len(), self.memory.outbox_bytes)?;
        if self.messages.outbox_used + message.len() > self.memory.outbox_bytes {
            self.await_outbox(members)?;
        }
        let at = self.messages.outbox_used;
        self.put_own(self.memory.outbox.at(self.me, at), message)?;
        self.messages.outbox_used += message.len();
        Ok(at)
    }

    /// Waits until all long messages were taken, also those to ranks that are not in this barrier.
    fn await_outbox(&mut self, members: &[Rank]) -> Result<()> {
        for (&to, &number) in &self.messages.long {
            let taken = self.memory.taken(self.me, to);
            let has_taken = |rank: Rank| Ok(rank != to || self.context.load(taken)? >= number);
            let watched = [members, &[to]].concat();
            self.context.wait_for_all(&watched, &has_taken, taken, |taken| taken >= number)?;
        }
        self.messages.outbox_used = 0;
        Ok(())
    }
}

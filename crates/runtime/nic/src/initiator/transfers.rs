//! Fetching operations under way: a transfer is complete when all its parts have been answered.
//!
//! Paper:   \[NIC02 section III-B\]: the process provides a receive token for each value that is to
//!          come back, and a tag matches the value with its call.
//! Differs: the entry of the transfer, made before the request is sent, is the token; its ticket
//!          carries a generation, so that one used up is not taken for a later transfer.

use std::marker::PhantomData;

use farside_fabric::{Error, Reply, Result, Ticket};

use super::slots::Slots;
use crate::link::buffer::Buffer;
use crate::link::variant::Variant;
use crate::wire::ServerId;

/// A transfer of so many bytes takes long enough for its caller to compute meanwhile.
pub(crate) const LONG_BYTES: usize = 16 << 10;

/// A part of a transfer, which one answer completes.
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct Part {
    pub(crate) ticket: Ticket,
    pub(crate) server: ServerId,
    /// Where in the buffer its bytes go.
    pub(crate) packed: usize,
    pub(crate) bytes: usize,
}

/// A fetching operation.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Transfer {
    generation: u32,
    /// The number of parts that have not been answered.
    left: u32,
    /// The number of bytes that it moves; zero for a word.
    bytes: usize,
    into: Destination,
    /// Whether it is a put from lent memory.
    is_lent: bool,
    pub(crate) outcome: Result<Reply>,
}

#[cfg_attr(test, derive(Clone))]
pub(crate) enum Destination {
    Nowhere,
    Lent(Buffer),
    Reply(Vec<u8>),
}

impl Destination {
    /// Writes at `offset`. Returns false, and writes nothing, if the bytes do not fit.
    fn write(&mut self, offset: usize, from: &[u8]) -> bool {
        match self {
            Destination::Nowhere => false,
            Destination::Lent(buffer) => buffer.write(offset, from),
            Destination::Reply(bytes) => {
                let part =
                    offset.checked_add(from.len()).and_then(|end| bytes.get_mut(offset..end));
                part.is_some_and(|part| {
                    part.copy_from_slice(from);
                    true
                })
            }
        }
    }
}

impl Transfer {
    pub(crate) fn fill(&mut self, part: &Part, data: &[u8]) {
        if data.len() != part.bytes || !self.into.write(part.packed, data) {
            self.outcome = Err(Error::Internal("a far agent's answer has the wrong length".into()));
        }
    }

    fn into_outcome(self) -> Result<Reply> {
        match (self.outcome, self.into) {
            (Ok(_), Destination::Reply(bytes)) => Ok(Reply::Bytes(bytes)),
            (outcome, _) => outcome,
        }
    }
}

/// All transfers of a port.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Transfers<V> {
    /// The parts that have not been answered, by tag.
    parts: Slots<Part>,
    entries: Slots<Transfer>,
    generation: u32,
    variant: PhantomData<V>,
}

impl<V: Variant> Transfers<V> {
    pub(crate) fn new() -> Transfers<V> {
        Transfers {
            parts: Slots::new(),
            entries: Slots::new(),
            generation: 0,
            variant: PhantomData,
        }
    }

    pub(crate) fn begin(&mut self, bytes: usize, into: Destination) -> Ticket {
        self.insert(bytes, into, false)
    }

    pub(crate) fn begin_lent(&mut self, bytes: usize) -> Ticket {
        self.insert(bytes, Destination::Nowhere, true)
    }

    fn insert(&mut self, bytes: usize, into: Destination, is_lent: bool) -> Ticket {
        // The fabric marks its tickets with the two highest bits.
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 2);
        let generation = self.generation;
        let outcome = Ok(Reply::None);
        let at =
            self.entries.insert(Transfer { generation, left: 0, bytes, into, is_lent, outcome });
        Ticket((u64::from(generation) << 32) | u64::from(at))
    }

    /// Adds a part to its transfer and returns the tag of its answer.
    pub(crate) fn add_part(&mut self, part: Part) -> u32 {
        if let Some(transfer) = self.get_mut(part.ticket) {
            transfer.left += 1;
        }
        self.parts.insert(part)
    }

    /// Completes the part of a tag, which only its own server can. Returns whether that was the
    /// last part of its transfer.
    pub(crate) fn complete_part(
        &mut self,
        tag: u32,
        server: ServerId,
        with: impl FnOnce(&Part, &mut Transfer),
    ) -> bool {
        if self.parts.get_mut(tag).is_none_or(|part| part.server != server) {
            return false;
        }
        let Some(part) = self.parts.remove(tag) else { return false };
        let Some(transfer) = self.get_mut(part.ticket) else { return false };
        with(&part, transfer);
        transfer.left = transfer.left.saturating_sub(1);
        transfer.left == 0
    }

    /// Returns the transfer of a ticket, unless the ticket has been used up.
    fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Transfer> {
        let transfer = self.entries.get_mut(ticket.0 as u32)?;
        let is_it = u64::from(transfer.generation) == ticket.0 >> 32 || !V::CHECKS_GENERATIONS;
        is_it.then_some(transfer)
    }

    /// Returns the number of transfers whose outcome has not been taken.
    pub(crate) fn outstanding(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the outcome of a transfer waits to be taken.
    pub(crate) fn has_done(&self) -> bool {
        self.entries.any(|transfer| transfer.left == 0)
    }

    /// Returns whether a transfer is complete, or unknown.
    pub(crate) fn is_done(&mut self, ticket: Ticket) -> bool {
        self.get_mut(ticket).is_none_or(|transfer| transfer.left == 0)
    }

    /// Returns whether a transfer is under way and so long that its caller can compute meanwhile.
    pub(crate) fn is_long(&mut self, ticket: Ticket) -> bool {
        self.get_mut(ticket)
            .is_some_and(|transfer| transfer.left > 0 && transfer.bytes >= LONG_BYTES)
    }

    pub(crate) fn bytes(&mut self, ticket: Ticket) -> usize {
        self.get_mut(ticket).map_or(0, |transfer| transfer.bytes)
    }

    /// Takes the outcome of a transfer, if it is complete; that uses up the ticket.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Result<Option<Reply>> {
        match self.get_mut(ticket) {
            None => {
                Err(Error::Internal(format!("{ticket:?} does not name an operation in flight")))
            }
            Some(transfer) if transfer.left > 0 => Ok(None),
            Some(_) => {
                let transfer = self.entries.remove(ticket.0 as u32);
                transfer.map_or(Ok(None), |transfer| transfer.into_outcome().map(Some))
            }
        }
    }

    /// Returns whether a transfer, unless it is unknown, is a put from lent memory.
    pub(crate) fn is_lent(&mut self, ticket: Ticket) -> Option<bool> {
        self.get_mut(ticket).map(|transfer| transfer.is_lent)
    }

    /// Removes a transfer. Its tags stay taken until they are answered: an answer that is under way
    /// must not complete a part of another transfer.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        if self.get_mut(ticket).is_some() {
            self.entries.remove(ticket.0 as u32);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.remove_if(|_| true);
    }

    pub(crate) fn ticket_of(&mut self, tag: u32) -> Option<Ticket> {
        self.parts.get_mut(tag).map(|part| part.ticket)
    }

    /// Removes the parts of a server that never answers again.
    pub(crate) fn forget_parts_at(&mut self, server: ServerId) {
        self.parts.remove_if(|part| part.server == server);
    }

    /// Removes the parts of one transfer, to which no answer comes.
    pub(crate) fn forget_parts_of(&mut self, ticket: Ticket) {
        self.parts.remove_if(|part| part.ticket == ticket);
    }

    pub(crate) fn forget_lent_parts(&mut self) {
        let mut parts = std::mem::replace(&mut self.parts, Slots::new());
        parts.remove_if(|part| self.is_lent(part.ticket) == Some(true));
        self.parts = parts;
    }
}

#[cfg(test)]
impl<V: Variant> Transfers<V> {
    pub(crate) fn fingerprint(&self, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash as _;
        self.parts.fingerprint(into, |part, into| part.hash(into));
        self.entries
            .fingerprint(into, |transfer, into| (transfer.generation, transfer.left).hash(into));
        self.generation.hash(into);
    }

    /// Continues as if so many tickets had been drawn.
    pub(crate) fn start_generation(&mut self, generation: u32) {
        self.generation = generation;
    }
}

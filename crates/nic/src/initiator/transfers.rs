//! Fetching operations under way: a transfer is over when all its parts were answered.

use farside_fabric::{Reply, Result, Ticket};

use crate::initiator::slots::Slots;
use crate::link::buffer::Buffer;
use crate::link::variant::Variant;
use crate::wire::ServerId;

/// A part of a transfer, which one answer brings.
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
    pub(crate) generation: u32,
    /// How many parts have not been answered.
    pub(crate) left: u32,
    /// How many bytes it moves; zero for a word.
    pub(crate) bytes: usize,
    /// Where they go.
    pub(crate) buffer: Option<Buffer>,
    /// They come from memory that was lent.
    pub(crate) is_lent: bool,
    pub(crate) outcome: Result<Reply>,
}

/// A part was answered. Says whether that was the last of its transfer.
pub(crate) fn settle<V: Variant>(
    parts: &mut Slots<Part>,
    transfers: &mut Slots<Transfer>,
    tag: u32,
    server: ServerId,
    with: impl FnOnce(&Part, &mut Transfer),
) -> bool {
    if parts.get_mut(tag).is_none_or(|part| part.server != server) {
        return false;
    }
    let Some(part) = parts.remove(tag) else { return false };
    let Some(transfer) = named::<V>(transfers, part.ticket) else { return false };
    with(&part, transfer);
    transfer.left = transfer.left.saturating_sub(1);
    transfer.left == 0
}

/// The transfer that a ticket means, unless it is over.
pub(crate) fn named<V: Variant>(
    transfers: &mut Slots<Transfer>,
    ticket: Ticket,
) -> Option<&mut Transfer> {
    let transfer = transfers.get_mut(ticket.0 as u32)?;
    let is_it = u64::from(transfer.generation) == ticket.0 >> 32 || !V::HEEDS_GENERATIONS;
    is_it.then_some(transfer)
}

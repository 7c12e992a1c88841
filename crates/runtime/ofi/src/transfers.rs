//! The direct operations of one endpoint: what is under way, what has completed, and which notices
//! agents must be sent.
//!
//! An operation has one or several *parts*, each of which libfabric completes. Writes are counted
//! for their node, so that a flush knows when all have landed; an operation that changes a word, or
//! counts as a landing, leaves a notice for the agent there. Long transfers that are not waited for
//! are started part by part, as there is room.

use std::collections::VecDeque;

use farside_fabric::{Atomic, Error, Node, Rank, Reply, Result, Word};
use farside_nic::{Buffer, Loan, Notice, Owed, RemoteKey};
use rustc_hash::FxHashMap;

use crate::ffi::Posted;
use crate::queue::Remote;

/// A transfer of so many bytes takes long enough for its caller to compute meanwhile.
const LONG_BYTES: usize = 16 << 10;
/// The number of peers that are found busy in one look at the queue: a part is copied before the
/// provider says that its peer takes nothing.
const BUSY_MAX: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Far {
    pub(crate) rank: Rank,
    pub(crate) node: Node,
    /// The entry of the node's agent in the address vector.
    pub(crate) peer: u64,
    pub(crate) key: RemoteKey,
    pub(crate) offset: u64,
}

impl Far {
    pub(crate) fn remote(&self) -> Remote {
        Remote { peer: self.peer, key: self.key, offset: self.offset }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FarAtomic {
    pub(crate) node: Node,
    pub(crate) at: Word,
    pub(crate) op: Atomic,
    /// Whether it counts as a landing.
    pub(crate) counts: bool,
}

/// The operations of one endpoint.
#[derive(Default)]
pub(crate) struct Transfers {
    nodes: FxHashMap<Node, NodeTraffic>,
    /// The number of parts under way to nodes that are not lost.
    under_way: usize,
    /// The first failure of what was written to each rank.
    failures: FxHashMap<Rank, Error>,
    parts: FxHashMap<u64, Part>,
    writes: FxHashMap<u64, Write>,
    fetches: FxHashMap<u64, Fetch>,
    queued: VecDeque<Queued>,
    /// The words that have changed and the landings that agents have not been told of.
    changed: Vec<(Node, Word)>,
    landed: FxHashMap<Node, u32>,
    /// The last number that was given to a part or a transfer.
    last: u64,
    ends: u64,
}

#[derive(Default)]
struct NodeTraffic {
    /// The number of parts that the provider has and has not completed.
    under_way: usize,
    /// The number of operations without a ticket.
    posted: usize,
    /// The number of operations that may change a word.
    wakes: usize,
    /// The number of operations that count as landings.
    landings: usize,
    is_lost: bool,
}

struct Write {
    rank: Rank,
    node: Node,
    left: usize,
    /// More parts may follow.
    is_open: bool,
    counts: bool,
}

/// An operation with a ticket.
struct Fetch {
    left: usize,
    bytes: usize,
    buffer: Option<Buffer>,
    outcome: Result<Reply>,
}

/// The part of an operation that one completion is of.
pub(crate) enum Part {
    /// Bytes of a write have landed.
    Write(u64),
    /// An atomic without a ticket has been executed.
    Post(FarAtomic),
    /// Bytes of a fetch have been read from a node, from this offset on.
    Read(u64, Node, usize),
    /// An atomic has returned what its word held.
    Word(u64, FarAtomic),
}

/// The rest of a transfer that has not been started.
struct Queued {
    ticket: u64,
    to: Far,
    at: usize,
    bytes: usize,
    /// For a put: its write, and the bytes.
    lent: Option<(u64, Loan)>,
}

pub(crate) enum Start<'a> {
    Write(&'a [u8]),
    Read(usize),
}

impl Transfers {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Begins a write, whose parts follow until [`Transfers::end_write`].
    pub(crate) fn begin_write(&mut self, to: Far, counts: bool) -> u64 {
        let Far { rank, node, .. } = to;
        let toward = self.nodes.entry(node).or_default();
        toward.posted += 1;
        toward.landings += usize::from(counts);
        let number = self.number();
        self.writes.insert(number, Write { rank, node, left: 0, is_open: true, counts });
        number
    }

    /// Ends a write: no more parts follow. An incomplete one does not count as a landing: its
    /// caller gets an error.
    pub(crate) fn end_write(&mut self, number: u64, is_complete: bool) {
        let Some(write) = self.writes.get_mut(&number) else { return };
        write.is_open = false;
        if !is_complete && std::mem::take(&mut write.counts) {
            let toward = self.nodes.entry(write.node).or_default();
            toward.landings = toward.landings.saturating_sub(1);
        }
        self.close_write(number);
    }

    fn close_write(&mut self, number: u64) {
        let is_over = |write: &Write| write.left == 0 && !write.is_open;
        if !self.writes.get(&number).is_some_and(is_over) {
            return;
        }
        let Some(Write { node, counts, .. }) = self.writes.remove(&number) else { return };
        let toward = self.nodes.entry(node).or_default();
        toward.posted = toward.posted.saturating_sub(1);
        if counts {
            toward.landings = toward.landings.saturating_sub(1);
            *self.landed.entry(node).or_default() += 1;
        }
    }

    pub(crate) fn begin_fetch(&mut self) -> u64 {
        let number = self.number();
        self.fetches
            .insert(number, Fetch { left: 0, bytes: 0, buffer: None, outcome: Ok(Reply::None) });
        number
    }

    pub(crate) fn get(&mut self, from: Far, buffer: Buffer, bytes: usize) -> u64 {
        let ticket = self.number();
        self.fetches.insert(
            ticket,
            Fetch { left: 1, bytes, buffer: Some(buffer), outcome: Ok(Reply::None) },
        );
        self.queued.push_back(Queued { ticket, to: from, at: 0, bytes, lent: None });
        ticket
    }

    /// Begins a put of lent bytes, which are returned when all parts have been started.
    pub(crate) fn lend(&mut self, to: Far, loan: Loan, counts: bool) -> u64 {
        let write = self.begin_write(to, counts);
        let ticket = self.number();
        let bytes = loan.bytes().len();
        self.fetches
            .insert(ticket, Fetch { left: 1, bytes, buffer: None, outcome: Ok(Reply::None) });
        self.queued.push_back(Queued { ticket, to, at: 0, bytes, lent: Some((write, loan)) });
        ticket
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    pub(crate) fn fetching(&self) -> usize {
        self.fetches.values().filter(|fetch| fetch.left > 0).count()
    }

    /// Returns the target of a put that still needs the bytes it was lent.
    pub(crate) fn lent_to(&self, ticket: u64) -> Option<Rank> {
        let is_it = |queued: &&Queued| queued.ticket == ticket && queued.lent.is_some();
        self.queued.iter().find(is_it).map(|queued| queued.to.rank)
    }

    /// Starts the next queued part, of at most `part_bytes`: `start` hands it to the provider.
    /// Peers for which the provider takes nothing now are added to `busy`, and wait behind all
    /// others. Returns false if nothing was started.
    pub(crate) fn start_next(
        &mut self,
        part_bytes: usize,
        busy: &mut Vec<u64>,
        mut start: impl FnMut(Far, Start<'_>, u64) -> Posted,
    ) -> bool {
        loop {
            if busy.len() >= BUSY_MAX {
                return false;
            }
            let tag = self.number();
            let is_startable = |queued: &Queued| !busy.contains(&queued.to.peer);
            let Some(index) = self.queued.iter().position(is_startable) else { return false };
            let Queued { ticket, to, at, bytes, ref lent } = self.queued[index];
            let length = part_bytes.min(bytes - at);
            let far = Far { offset: to.offset + at as u64, ..to };
            let (posted, part) = match lent {
                Some((write, loan)) => {
                    let part = &loan.bytes()[at..at + length];
                    (start(far, Start::Write(part), tag), Part::Write(*write))
                }
                None => (start(far, Start::Read(length), tag), Part::Read(ticket, to.node, at)),
            };
            match self.started(tag, part, posted) {
                Ok(true) if at + length < bytes => self.queued[index].at += length,
                Ok(true) => self.dequeue(ticket),
                Ok(false) => {
                    busy.push(to.peer);
                    self.defer(to.peer);
                    continue;
                }
                Err(error) => self.fail_queued(index, error),
            }
            return true;
        }
    }

    /// Lets the transfers of a peer wait behind all others, in their order.
    fn defer(&mut self, peer: u64) {
        let queued = std::mem::take(&mut self.queued).into_iter();
        let (deferred, others): (VecDeque<Queued>, _) =
            queued.partition(|queued| queued.to.peer == peer);
        self.queued = others;
        self.queued.extend(deferred);
    }

    /// Ends a queued transfer of which the provider will never take the rest.
    fn fail_queued(&mut self, index: usize, error: Error) {
        let Queued { ticket, to, ref lent, .. } = self.queued[index];
        if lent.is_some() {
            self.failures.entry(to.rank).or_insert_with(|| error.clone());
        }
        if let Some(fetch) = self.fetches.get_mut(&ticket) {
            fetch.outcome = Err(error);
        }
        self.dequeue(ticket);
    }

    /// Removes a transfer from the queue: all its parts have been started, or it is abandoned. What
    /// it was lent is not needed any more.
    fn dequeue(&mut self, ticket: u64) {
        let Some(at) = self.queued.iter().position(|queued| queued.ticket == ticket) else {
            return;
        };
        let Some(queued) = self.queued.remove(at) else { return };
        if let Some((write, _)) = queued.lent {
            // It counts even if it failed: otherwise the waiting rank would wait for ever.
            self.end_write(write, true);
        }
        if let Some(fetch) = self.fetches.get_mut(&ticket) {
            fetch.left = fetch.left.saturating_sub(1);
        }
        self.ends += 1;
    }

    /// Returns a number for a part.
    pub(crate) fn tag(&mut self) -> u64 {
        self.number()
    }

    /// Records a part that the provider has taken. Returns false if it must be tried again, and an
    /// error if it never will be taken.
    pub(crate) fn started(&mut self, tag: u64, part: Part, posted: Posted) -> Result<bool> {
        match posted {
            Posted::Yes => {}
            Posted::Busy => return Ok(false),
            Posted::No(error) => return Err(error),
        }
        let toward = self.nodes.entry(self.node_of(&part)).or_default();
        toward.under_way += 1;
        self.under_way += usize::from(!toward.is_lost);
        match &part {
            Part::Write(write) => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.left += 1;
                }
            }
            Part::Read(ticket, ..) => self.expect(*ticket),
            Part::Post(atomic) => {
                let toward = self.nodes.entry(atomic.node).or_default();
                toward.posted += 1;
                toward.landings += usize::from(atomic.counts);
                toward.wakes += usize::from(atomic.op.writes());
            }
            Part::Word(ticket, atomic) => {
                self.nodes.entry(atomic.node).or_default().wakes += usize::from(atomic.op.writes());
                self.expect(*ticket);
            }
        }
        self.parts.insert(tag, part);
        Ok(true)
    }

    /// Returns the node that a part goes to. A write exists as long as its parts.
    fn node_of(&self, part: &Part) -> Node {
        match part {
            Part::Write(number) => self.writes.get(number).map_or(Node(0), |write| write.node),
            Part::Read(_, node, _) => *node,
            Part::Post(atomic) | Part::Word(_, atomic) => atomic.node,
        }
    }

    /// Returns the number of parts under way, to lost nodes aside: those may take a quarter of an
    /// hour to fail.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    fn expect(&mut self, ticket: u64) {
        if let Some(fetch) = self.fetches.get_mut(&ticket) {
            fetch.left += 1;
        }
    }

    pub(crate) fn settle(&mut self, tag: u64, outcome: Result<&[u8]>) {
        let Some(part) = self.parts.remove(&tag) else { return };
        self.ends += 1;
        let toward = self.nodes.entry(self.node_of(&part)).or_default();
        toward.under_way = toward.under_way.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(usize::from(!toward.is_lost));
        match part {
            Part::Write(number) => {
                let Some(write) = self.writes.get_mut(&number) else { return };
                write.left = write.left.saturating_sub(1);
                if let Err(error) = outcome {
                    self.failures.entry(write.rank).or_insert(error);
                }
                self.close_write(number);
            }
            Part::Post(atomic) => {
                self.note_change(&atomic, &outcome);
                let toward = self.nodes.entry(atomic.node).or_default();
                toward.posted = toward.posted.saturating_sub(1);
                if let Err(error) = outcome {
                    self.failures.entry(atomic.at.rank).or_insert(error);
                }
                if atomic.counts {
                    toward.landings = toward.landings.saturating_sub(1);
                    *self.landed.entry(atomic.node).or_default() += 1;
                }
            }
            Part::Read(ticket, _, at) => {
                let Some(fetch) = self.answered(ticket) else { return };
                let written = outcome.map(|bytes| {
                    fetch.buffer.as_mut().is_some_and(|buffer| buffer.write(at, bytes))
                });
                match written {
                    Ok(true) => {}
                    Ok(false) => {
                        fetch.outcome =
                            Err(Error::Internal("what was read has the wrong length".into()))
                    }
                    Err(error) => fetch.outcome = Err(error),
                }
            }
            Part::Word(ticket, atomic) => {
                // Even if the fetch was cancelled.
                self.note_change(&atomic, &outcome);
                let Some(fetch) = self.answered(ticket) else { return };
                fetch.outcome = outcome.map(|bytes| Reply::Word(word_of(bytes)));
            }
        }
    }

    fn answered(&mut self, ticket: u64) -> Option<&mut Fetch> {
        let fetch = self.fetches.get_mut(&ticket)?;
        fetch.left = fetch.left.saturating_sub(1);
        Some(fetch)
    }

    /// Records that an atomic has been executed. If its word has changed, a rank may wait for that;
    /// a compare that failed changes nothing.
    fn note_change(&mut self, atomic: &FarAtomic, outcome: &Result<&[u8]>) {
        let FarAtomic { node, at, op, .. } = *atomic;
        if !op.writes() {
            return;
        }
        let toward = self.nodes.entry(node).or_default();
        toward.wakes = toward.wakes.saturating_sub(1);
        let has_changed = outcome
            .as_ref()
            .is_ok_and(|bytes| op.apply(at.width, word_of(bytes)) != word_of(bytes));
        // An operation that failed may have been executed.
        if (has_changed || outcome.is_err()) && !self.changed.contains(&(node, at)) {
            self.changed.push((node, at));
        }
    }

    /// Returns whether everything that was written to a node has landed there.
    pub(crate) fn has_landed(&self, node: Node) -> bool {
        self.nodes.get(&node).is_none_or(|toward| toward.posted == 0 || toward.is_lost)
    }

    /// Returns whether nothing is under way to living nodes, and no notice is owed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.owed() == Owed::Nothing
            && self.nodes.values().all(|toward| toward.posted == 0 || toward.is_lost)
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.is_quiet() || self.fetches.values().any(|fetch| fetch.left > 0)
    }

    pub(crate) fn owed(&self) -> Owed {
        let any = |count: fn(&NodeTraffic) -> usize| {
            self.nodes.values().any(|toward| !toward.is_lost && count(toward) > 0)
        };
        if !self.changed.is_empty() || any(|toward| toward.wakes) {
            Owed::Wakes
        } else if !self.landed.is_empty() || any(|toward| toward.landings) {
            Owed::Landings
        } else {
            Owed::Nothing
        }
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.changed.is_empty() || !self.landed.is_empty()
    }

    pub(crate) fn take_notices(&mut self) -> Vec<(Node, Notice)> {
        let landed = self.landed.drain().map(|(node, count)| (node, Notice::Landed(count)));
        let changed = self.changed.drain(..).map(|(node, at)| (node, Notice::Changed(at)));
        landed.chain(changed).collect()
    }

    /// Returns a count that changes when something completes.
    pub(crate) fn ends(&self) -> u64 {
        self.ends
    }

    /// Takes the first failure of what was written to a rank.
    pub(crate) fn failure(&mut self, rank: Rank) -> Option<Error> {
        self.failures.remove(&rank)
    }

    /// Abandons what is under way to a node of which all ranks are lost, as the error says.
    pub(crate) fn abandon(&mut self, node: Node, error: &Error) {
        let toward = self.nodes.entry(node).or_default();
        if !std::mem::replace(&mut toward.is_lost, true) {
            self.under_way = self.under_way.saturating_sub(toward.under_way);
        }
        // What waits in the queue is not complete in any other way, and others wait for its room.
        while let Some(at) = self.queued.iter().position(|queued| queued.to.node == node) {
            self.fail_queued(at, error.clone());
        }
        self.changed.retain(|(to, _)| *to != node);
        self.landed.remove(&node);
    }

    /// Returns whether an operation is complete, or unknown.
    pub(crate) fn is_done(&self, ticket: u64) -> bool {
        self.fetches.get(&ticket).is_none_or(|fetch| fetch.left == 0)
    }

    /// Returns whether an operation is under way and so long that its caller can compute meanwhile.
    pub(crate) fn is_long(&self, ticket: u64) -> bool {
        self.fetches.get(&ticket).is_some_and(|fetch| fetch.left > 0 && fetch.bytes >= LONG_BYTES)
    }

    /// Takes the outcome of an operation, if it is complete; that uses up the ticket.
    pub(crate) fn take(&mut self, ticket: u64) -> Result<Option<Reply>> {
        match self.fetches.get(&ticket) {
            None => Err(Error::Internal(format!("{ticket} does not name an operation in flight"))),
            Some(found) if found.left > 0 => Ok(None),
            Some(_) => self.fetches.remove(&ticket).map(|found| found.outcome).transpose(),
        }
    }

    /// Cancels an operation: what still arrives is dropped, and what was not started never is.
    pub(crate) fn cancel(&mut self, ticket: u64) {
        self.dequeue(ticket);
        self.fetches.remove(&ticket);
    }
}

fn word_of(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    let length = bytes.len().min(16);
    word[..length].copy_from_slice(&bytes[..length]);
    u128::from_le_bytes(word)
}

#[cfg(test)]
mod tests;

//! The operations on far memory of one endpoint: what is under way, what it brings, and what agents
//! must be told of it.
//!
//! An operation is one or several *parts*, each of which libfabric completes. What writes is
//! counted for its node, so that a flush knows when all has landed; what changes a word, or counts
//! as a landing, leaves a notice behind for the agent there. Long transfers that nobody waits for
//! are started part by part, as there is room.

use std::collections::VecDeque;

use farside_fabric::{Atomic, Error, Node, Rank, Reply, Result, Word};
use farside_nic::{Buffer, Loan, Notice, Owed};
use rustc_hash::FxHashMap;

use crate::device::Place;
use crate::queue::Posted;

/// A transfer of so many bytes takes long enough for others to do something meanwhile.
const LONG_BYTES: usize = 16 << 10;

/// Where a transfer goes, or comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Far {
    pub(crate) rank: Rank,
    pub(crate) node: Node,
    /// The node's agent, as the line knows it.
    pub(crate) route: u64,
    pub(crate) place: Place,
    pub(crate) offset: u64,
}

/// An atomic on a far word.
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
    nodes: FxHashMap<Node, Toward>,
    parts: FxHashMap<u64, Part>,
    writes: FxHashMap<u64, Write>,
    fetches: FxHashMap<u64, Fetch>,
    queued: VecDeque<Queued>,
    /// Words that have changed, and how much has landed, of which the agents have not been told.
    changed: Vec<(Node, Word)>,
    landed: FxHashMap<Node, u32>,
    /// The last number that was given to anything.
    last: u64,
    ends: u64,
}

/// What is under way to a node.
#[derive(Default)]
struct Toward {
    /// Operations that nobody has a ticket for.
    posted: usize,
    /// Of all, those that may change a word.
    wakes: usize,
    /// Of all, those that count as landings.
    landings: usize,
    failure: Option<Error>,
    is_lost: bool,
}

/// An operation that writes.
struct Write {
    node: Node,
    left: usize,
    /// More parts may follow.
    is_open: bool,
    counts: bool,
}

/// An operation that somebody has a ticket for.
struct Fetch {
    left: usize,
    bytes: usize,
    buffer: Option<Buffer>,
    outcome: Result<Reply>,
}

/// What one completion tells of.
pub(crate) enum Part {
    /// Bytes of a write have landed.
    Write(u64),
    /// An atomic that nobody has a ticket for was executed.
    Post(FarAtomic),
    /// Bytes of a fetch have come, from there on.
    Read(u64, usize),
    /// An atomic has brought what its word held.
    Word(u64, FarAtomic),
}

/// What has not been started of a transfer.
struct Queued {
    ticket: u64,
    to: Far,
    at: usize,
    bytes: usize,
    /// For a put: the write that it is, and what is written.
    lent: Option<(u64, Loan)>,
}

/// A part that is about to be started.
pub(crate) enum Start<'a> {
    /// Writes these bytes.
    Write(&'a [u8]),
    /// Reads so many bytes.
    Read(usize),
}

impl Transfers {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Begins a write, whose parts follow until [`Transfers::end_write`].
    pub(crate) fn begin_write(&mut self, node: Node, counts: bool) -> u64 {
        let toward = self.nodes.entry(node).or_default();
        toward.posted += 1;
        toward.landings += usize::from(counts);
        let number = self.number();
        self.writes.insert(number, Write { node, left: 0, is_open: true, counts });
        number
    }

    /// No more parts of a write follow. One that was given up does not count: its caller is told
    /// that it failed.
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

    /// Begins an operation that somebody waits for.
    pub(crate) fn begin_fetch(&mut self) -> u64 {
        let number = self.number();
        self.fetches
            .insert(number, Fetch { left: 0, bytes: 0, buffer: None, outcome: Ok(Reply::None) });
        number
    }

    /// Begins to read `bytes` bytes.
    pub(crate) fn get(&mut self, from: Far, buffer: Buffer, bytes: usize) -> u64 {
        let ticket = self.number();
        self.fetches.insert(
            ticket,
            Fetch { left: 1, bytes, buffer: Some(buffer), outcome: Ok(Reply::None) },
        );
        self.queued.push_back(Queued { ticket, to: from, at: 0, bytes, lent: None });
        ticket
    }

    /// Begins to write what is lent until it is all on its way.
    pub(crate) fn lend(&mut self, to: Far, loan: Loan, counts: bool) -> u64 {
        let write = self.begin_write(to.node, counts);
        let ticket = self.number();
        let bytes = loan.bytes().len();
        self.fetches
            .insert(ticket, Fetch { left: 1, bytes, buffer: None, outcome: Ok(Reply::None) });
        self.queued.push_back(Queued { ticket, to, at: 0, bytes, lent: Some((write, loan)) });
        ticket
    }

    /// Whether something waits to be started.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// How many transfers are not over.
    pub(crate) fn fetching(&self) -> usize {
        self.fetches.values().filter(|fetch| fetch.left > 0).count()
    }

    /// To whom an operation writes that still needs the bytes it was lent.
    pub(crate) fn lent_to(&self, ticket: u64) -> Option<Rank> {
        let is_it = |queued: &&Queued| queued.ticket == ticket && queued.lent.is_some();
        self.queued.iter().find(is_it).map(|queued| queued.to.rank)
    }

    /// Starts the next part of what is queued, of at most `part_bytes`: `start` hands it to the
    /// provider. False if nothing was started.
    pub(crate) fn start_next(
        &mut self,
        part_bytes: usize,
        start: impl FnOnce(Far, Start<'_>, u64) -> Posted,
    ) -> bool {
        let tag = self.number();
        let Some(queued) = self.queued.front_mut() else { return false };
        let (at, length) = (queued.at, part_bytes.min(queued.bytes - queued.at));
        let to = Far { offset: queued.to.offset + at as u64, ..queued.to };
        let (posted, part) = match &queued.lent {
            Some((write, loan)) => {
                (start(to, Start::Write(&loan.bytes()[at..at + length]), tag), Part::Write(*write))
            }
            None => (start(to, Start::Read(length), tag), Part::Read(queued.ticket, at)),
        };
        let ticket = queued.ticket;
        queued.at += length;
        let is_last = queued.at >= queued.bytes;
        match self.started(tag, part, posted) {
            Ok(true) => {
                if is_last {
                    self.dequeue(ticket);
                }
                true
            }
            Ok(false) => {
                if let Some(queued) = self.queued.front_mut() {
                    queued.at = at;
                }
                false
            }
            Err(error) => {
                let failed = self
                    .queued
                    .front()
                    .and_then(|queued| queued.lent.as_ref().map(|_| queued.to.node));
                if let Some(node) = failed {
                    self.nodes.entry(node).or_default().failure.get_or_insert(error.clone());
                }
                if let Some(fetch) = self.fetches.get_mut(&ticket) {
                    fetch.outcome = Err(error);
                }
                self.dequeue(ticket);
                true
            }
        }
    }

    /// A transfer is all under way, or given up: what it was lent is not needed any more.
    fn dequeue(&mut self, ticket: u64) {
        let Some(at) = self.queued.iter().position(|queued| queued.ticket == ticket) else {
            return;
        };
        let Some(queued) = self.queued.remove(at) else { return };
        if let Some((write, _)) = queued.lent {
            // It counts even if it failed: whoever waits for it would wait for ever.
            self.end_write(write, true);
        }
        if let Some(fetch) = self.fetches.get_mut(&ticket) {
            fetch.left = fetch.left.saturating_sub(1);
        }
        self.ends += 1;
    }

    /// A number for a part.
    pub(crate) fn tag(&mut self) -> u64 {
        self.number()
    }

    /// Says whether a part is under way; an error if it never will be.
    pub(crate) fn started(&mut self, tag: u64, part: Part, posted: Posted) -> Result<bool> {
        match posted {
            Posted::Yes => {}
            Posted::Busy => return Ok(false),
            Posted::No(error) => return Err(error),
        }
        match &part {
            Part::Write(write) => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.left += 1;
                }
            }
            Part::Read(ticket, _) => self.expect(*ticket),
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

    fn expect(&mut self, ticket: u64) {
        if let Some(fetch) = self.fetches.get_mut(&ticket) {
            fetch.left += 1;
        }
    }

    /// A part is over.
    pub(crate) fn settle(&mut self, tag: u64, outcome: Result<&[u8]>) {
        let Some(part) = self.parts.remove(&tag) else { return };
        self.ends += 1;
        match part {
            Part::Write(number) => {
                let Some(write) = self.writes.get_mut(&number) else { return };
                write.left = write.left.saturating_sub(1);
                if let Err(error) = outcome {
                    self.nodes.entry(write.node).or_default().failure.get_or_insert(error);
                }
                self.close_write(number);
            }
            Part::Post(atomic) => {
                self.note_change(&atomic, &outcome);
                let toward = self.nodes.entry(atomic.node).or_default();
                toward.posted = toward.posted.saturating_sub(1);
                if let Err(error) = outcome {
                    toward.failure.get_or_insert(error);
                }
                if atomic.counts {
                    toward.landings = toward.landings.saturating_sub(1);
                    *self.landed.entry(atomic.node).or_default() += 1;
                }
            }
            Part::Read(ticket, at) => {
                let Some(fetch) = self.answered(ticket) else { return };
                let written = outcome.map(|bytes| {
                    fetch.buffer.as_mut().is_some_and(|buffer| buffer.write(at, bytes))
                });
                match written {
                    Ok(true) => {}
                    Ok(false) => {
                        fetch.outcome =
                            Err(Error::Misuse("what was read has the wrong length".into()))
                    }
                    Err(error) => fetch.outcome = Err(error),
                }
            }
            Part::Word(ticket, atomic) => {
                // Even if nobody waits for it any more.
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

    /// An atomic was executed. If it has changed its word somebody may sleep for that; a compare
    /// that failed wakes nobody.
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
        // Whether one that failed was executed nobody knows.
        if (has_changed || outcome.is_err()) && !self.changed.contains(&(node, at)) {
            self.changed.push((node, at));
        }
    }

    /// Whether everything that was written to a node has landed there.
    pub(crate) fn has_landed(&self, node: Node) -> bool {
        self.nodes.get(&node).is_none_or(|toward| toward.posted == 0 || toward.is_lost)
    }

    /// Whether nothing is on its way to anybody who is there, and nobody has to be told of
    /// anything.
    pub(crate) fn is_quiet(&self) -> bool {
        self.owed() == Owed::Nothing
            && self.nodes.values().all(|toward| toward.posted == 0 || toward.is_lost)
    }

    /// Whether anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.is_quiet() || self.fetches.values().any(|fetch| fetch.left > 0)
    }

    /// What agents have not been told.
    pub(crate) fn owed(&self) -> Owed {
        let any = |count: fn(&Toward) -> usize| {
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

    /// Whether [`Transfers::take_notices`] has anything.
    pub(crate) fn has_notices(&self) -> bool {
        !self.changed.is_empty() || !self.landed.is_empty()
    }

    /// What agents must be told now.
    pub(crate) fn take_notices(&mut self) -> Vec<(Node, Notice)> {
        let landed = self.landed.drain().map(|(node, count)| (node, Notice::Landed(count)));
        let changed = self.changed.drain(..).map(|(node, at)| (node, Notice::Changed(at)));
        landed.chain(changed).collect()
    }

    /// Changes when something has come to its end.
    pub(crate) fn ends(&self) -> u64 {
        self.ends
    }

    /// The first write to a node that failed since this was asked last.
    pub(crate) fn failure(&mut self, node: Node) -> Option<Error> {
        self.nodes.get_mut(&node)?.failure.take()
    }

    /// A node is lost: nobody waits any more for what was written there.
    pub(crate) fn abandon(&mut self, node: Node) {
        self.nodes.entry(node).or_default().is_lost = true;
        self.queued.retain(|queued| queued.to.node != node);
        self.changed.retain(|(to, _)| *to != node);
        self.landed.remove(&node);
    }

    /// Whether an operation is over, or unknown.
    pub(crate) fn is_done(&self, ticket: u64) -> bool {
        self.fetches.get(&ticket).is_none_or(|fetch| fetch.left == 0)
    }

    /// Whether an operation under way moves so many bytes that its caller can do something else
    /// meanwhile.
    pub(crate) fn is_long(&self, ticket: u64) -> bool {
        self.fetches.get(&ticket).is_some_and(|fetch| fetch.left > 0 && fetch.bytes >= LONG_BYTES)
    }

    /// The outcome of an operation, if it is over; that uses up the ticket.
    pub(crate) fn take(&mut self, ticket: u64) -> Result<Option<Reply>> {
        match self.fetches.get(&ticket) {
            None => Err(Error::Misuse(format!("{ticket} names no operation that is under way"))),
            Some(found) if found.left > 0 => Ok(None),
            Some(_) => self.fetches.remove(&ticket).map(|found| found.outcome).transpose(),
        }
    }

    /// Gives up on an operation: what still comes goes nowhere, and what was not started never is.
    pub(crate) fn cancel(&mut self, ticket: u64) {
        self.dequeue(ticket);
        self.fetches.remove(&ticket);
    }
}

/// The word that an atomic has brought.
fn word_of(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    let length = bytes.len().min(16);
    word[..length].copy_from_slice(&bytes[..length]);
    u128::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_fabric::{SegmentId, Width};

    const NODE: Node = Node(1);

    fn atomic(op: Atomic, counts: bool) -> FarAtomic {
        let at = Word { rank: Rank(1), segment: SegmentId::ROOT, offset: 8, width: Width::W64 };
        FarAtomic { node: NODE, at, op, counts }
    }

    fn far() -> Far {
        let place = Place { base: 0, key: 0, bytes: 1 << 20 };
        Far { rank: Rank(1), node: NODE, route: 0, place, offset: 0 }
    }

    #[test]
    fn a_change_is_told_once_it_is_there() {
        let mut transfers = Transfers::default();
        let swap = atomic(Atomic::Swap(5), false);
        let (ticket, tag) = (transfers.begin_fetch(), transfers.tag());
        assert_eq!(transfers.started(tag, Part::Word(ticket, swap), Posted::Yes), Ok(true));
        assert_eq!((transfers.owed(), transfers.has_notices()), (Owed::Wakes, false));
        // Nobody waits for the old value, but somebody may for the new one.
        transfers.cancel(ticket);
        transfers.settle(tag, Ok(&4u64.to_le_bytes()));
        assert_eq!(transfers.owed(), Owed::Wakes);
        assert_eq!(transfers.take_notices(), [(NODE, Notice::Changed(swap.at))]);
        assert_eq!(transfers.owed(), Owed::Nothing);
    }

    #[test]
    fn what_changes_nothing_wakes_nobody() {
        let mut transfers = Transfers::default();
        let same = [
            Atomic::Load,
            Atomic::Swap(4),
            Atomic::Add(0),
            Atomic::Or(4),
            Atomic::CompareSwap { expected: 3, desired: 9 },
        ];
        for op in same {
            let (ticket, tag) = (transfers.begin_fetch(), transfers.tag());
            assert_eq!(
                transfers.started(tag, Part::Word(ticket, atomic(op, false)), Posted::Yes),
                Ok(true)
            );
            transfers.settle(tag, Ok(&4u64.to_le_bytes()));
            assert_eq!(transfers.take(ticket), Ok(Some(Reply::Word(4))), "{op:?}");
            assert_eq!(
                (transfers.take_notices(), transfers.owed()),
                (vec![], Owed::Nothing),
                "{op:?}"
            );
        }
    }

    #[test]
    fn changes_of_one_word_are_told_together() {
        let mut transfers = Transfers::default();
        for old in 0..5u64 {
            let tag = transfers.tag();
            let add = atomic(Atomic::Add(1), true);
            assert_eq!(transfers.started(tag, Part::Post(add), Posted::Yes), Ok(true));
            assert!(!transfers.has_landed(NODE));
            transfers.settle(tag, Ok(&old.to_le_bytes()));
        }
        let at = atomic(Atomic::Load, false).at;
        assert_eq!(
            transfers.take_notices(),
            [(NODE, Notice::Landed(5)), (NODE, Notice::Changed(at))]
        );
    }

    #[test]
    fn a_put_of_several_parts_lands_once_with_its_last() {
        let mut transfers = Transfers::default();
        let write = transfers.begin_write(NODE, true);
        let tags = [transfers.tag(), transfers.tag()];
        for tag in tags {
            assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
        }
        transfers.settle(tags[1], Ok(&[]));
        transfers.end_write(write, true);
        assert_eq!((transfers.owed(), transfers.has_notices()), (Owed::Landings, false));
        transfers.settle(tags[0], Ok(&[]));
        assert!(transfers.has_landed(NODE));
        assert_eq!(transfers.take_notices(), [(NODE, Notice::Landed(1))]);
    }

    #[test]
    fn a_put_that_was_given_up_does_not_count() {
        let mut transfers = Transfers::default();
        let write = transfers.begin_write(NODE, true);
        let tag = transfers.tag();
        assert_eq!(transfers.started(tag, Part::Write(write), Posted::Yes), Ok(true));
        transfers.end_write(write, false);
        assert_eq!(transfers.owed(), Owed::Nothing);
        transfers.settle(tag, Ok(&[]));
        assert!(transfers.has_landed(NODE) && !transfers.has_notices());
    }

    #[test]
    fn what_is_lent_goes_part_by_part() {
        let mut transfers = Transfers::default();
        let ticket = transfers.lend(far(), Loan::from(&[1, 2, 3, 4, 5][..]), true);
        let mut wrote: Vec<(u64, Vec<u8>, u64)> = Vec::new();
        let mut answers = vec![Posted::Yes, Posted::Busy, Posted::Yes, Posted::Yes].into_iter();
        for expected in [true, false, true, true, false] {
            assert!(!transfers.has_landed(NODE));
            let started = transfers.start_next(2, |to, part, tag| {
                let Start::Write(bytes) = part else { panic!("a put reads") };
                let posted = answers.next().unwrap();
                if posted == Posted::Yes {
                    wrote.push((to.offset, bytes.to_vec(), tag));
                }
                posted
            });
            assert_eq!(started, expected);
        }
        // All of it is on its way: the lender has its bytes back, but nothing has landed.
        assert_eq!(
            (transfers.take(ticket), transfers.lent_to(ticket)),
            (Ok(Some(Reply::None)), None)
        );
        assert_eq!((transfers.has_landed(NODE), transfers.has_notices()), (false, false));
        let places: Vec<_> =
            wrote.iter().map(|(offset, bytes, _)| (*offset, bytes.clone())).collect();
        assert_eq!(places, [(0, vec![1, 2]), (2, vec![3, 4]), (4, vec![5])]);
        for (_, _, tag) in wrote {
            assert!(!transfers.has_landed(NODE));
            transfers.settle(tag, Ok(&[]));
        }
        assert!(transfers.has_landed(NODE));
        assert_eq!(transfers.take_notices(), [(NODE, Notice::Landed(1))]);
    }

    #[test]
    fn what_a_lost_node_was_to_get_is_forgotten() {
        let mut transfers = Transfers::default();
        let ticket = transfers.lend(far(), Loan::from(&[0; 8][..]), true);
        let tag = transfers.tag();
        let add = atomic(Atomic::Add(1), true);
        assert_eq!(transfers.started(tag, Part::Post(add), Posted::Yes), Ok(true));
        transfers.abandon(NODE);
        assert_eq!((transfers.owed(), transfers.is_quiet()), (Owed::Nothing, true));
        assert_eq!(transfers.lent_to(ticket), None);
        assert!(!transfers.start_next(8, |_, _, _| panic!("a lost node is written to")));
    }
}

//! The landing of operations: what changes, and which ranks learn of it.

use std::hash::{Hash, Hasher};

use farside_fabric::{Atomic, CarriedOut, Error, Rank, Reply, Result, Ticket};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::body::{Body, ticket, word_access};
use crate::event::Access;
use crate::execution::{Outcome, Posted};
use crate::flight::Flight;
use crate::machine::Machine;
use crate::member::{Untaken, wake};

impl Machine {
    /// Tells whether nothing in flight holds an operation back.
    pub(crate) fn may_land(&self, flight: &Flight) -> bool {
        if !self.news.is_empty() && self.is_in_vain(flight) {
            return false;
        }
        let may_be_held_back = flight.after.is_some() || (flight.fenced && flight.epoch > 0);
        !(may_be_held_back && self.flights.iter().any(|earlier| earlier.holds_back(flight)))
    }

    /// All that [`Machine::may_land`], in one pass: those in flight stand in the order of their
    /// age, so that the first of a rank's to a target has the smallest epoch.
    pub(crate) fn landable(&self) -> impl Iterator<Item = &Flight> {
        let is_fenced = |flight: &Flight| flight.fenced && !flight.by_agent && flight.epoch > 0;
        let has_fences = self.flights.iter().any(is_fenced);
        let has_order = self.flights.iter().any(|flight| flight.after.is_some());
        let (mut epochs, mut wholes) = (FxHashMap::default(), FxHashSet::default());
        self.flights.iter().filter(move |flight| {
            let between = (flight.id.rank, flight.target);
            let is_behind = |epoch: &u32| *epoch < flight.epoch;
            let is_held_back = flight.after.is_some_and(|after| wholes.contains(&after))
                || is_fenced(flight) && epochs.get(&between).is_some_and(is_behind);
            if has_fences && flight.is_posted_by(flight.id.rank) {
                epochs.entry(between).or_insert(flight.epoch);
            }
            if has_order {
                wholes.insert(flight.whole);
            }
            !is_held_back && (self.news.is_empty() || !self.is_in_vain(flight))
        })
    }

    /// Carries out an operation, as a step of that number if it counts.
    pub(crate) fn land(&mut self, flight: Flight, step: Option<usize>) {
        self.land_as(flight, step, None);
    }

    /// Likewise; who waits for its reply gets an error instead, if there is one.
    pub(crate) fn land_as(&mut self, flight: Flight, step: Option<usize>, error: Option<Error>) {
        let (origin, target) = (flight.id.rank, flight.target);
        let (runner, mut outcome) = match flight.body {
            Body::Call { node, .. } => match self.runner(node) {
                Ok(runner) => (runner, self.execute(origin, target, &flight.body)),
                Err(error) => (target, Outcome { reply: Err(error), posted: Vec::new() }),
            },
            _ => (target, self.execute(origin, target, &flight.body)),
        };
        if let Some(error) = error {
            outcome.reply = Err(error);
        }
        self.wake_by(target, &flight.body);
        // A torn operation has landed with its last part.
        if flight.is_posted_by(origin)
            && flight.is_whole
            && !self.flights.iter().any(|other| other.whole == flight.whole)
        {
            let counted = self.store.count_landing(origin, target, &flight.body);
            if let Some(count) = counted {
                wake(&self.members, &[word_access(count, true)]);
            }
        }
        self.note_accesses(origin, &flight, &outcome.reply);
        if let Some(step) = step {
            if flight.is_posted_by(origin) {
                self.member(origin).landed.push((target, flight.epoch, step));
            } else if !flight.by_agent {
                self.member(origin).replied.push((ticket(flight.whole), step));
            }
            for later in self.flights.iter_mut().filter(|later| later.after == Some(flight.whole)) {
                later.after_steps.push(step);
            }
        }
        self.launch_for_agent(runner, outcome.posted);
        let is_last = || self.flights.iter().all(|other| other.whole != flight.whole);
        match (flight.posted, outcome.reply) {
            (true, Err(error)) if !flight.by_agent => self.store.fail_later(origin, target, error),
            (true, _) => {}
            (false, reply) if reply.is_err() || is_last() => {
                self.store.answer(flight.whole, 0, reply)
            }
            (false, _) => {}
        }
    }

    fn execute(&mut self, origin: Rank, target: Rank, body: &Body) -> Outcome {
        self.store.execute(origin, target, body, &self.members)
    }

    /// Tells ranks that poll the bytes just written that there is something new to read.
    fn note_accesses(&mut self, origin: Rank, flight: &Flight, reply: &Result<Reply>) {
        let accesses = flight.event.accesses.as_deref();
        let mut changes =
            accesses.is_none_or(|accesses| accesses.iter().any(|access| access.writes));
        if let (Body::Atomic { at, op }, Ok(Reply::Word(held))) = (&flight.body, reply) {
            let wrote = match op {
                Atomic::CompareSwap { expected, .. } => *held == at.width.truncate(*expected),
                _ => true,
            };
            let (rank, operation) = (flight.whole.rank, flight.whole.serial.into());
            self.carried_out.borrow_mut().push(CarriedOut { rank, operation, wrote });
            self.held = u64::try_from(*held).ok();
            changes = op.apply(at.width, *held) != *held;
        }
        if changes {
            self.note_change(origin, accesses);
        }
        // A rank learns nothing from the operations that it posts.
        if flight.posted {
            return;
        }
        let digest = digest(&flight.body, reply);
        let ticket = ticket(flight.whole);
        let untaken = accesses.into_iter().flatten().map(|access| Untaken {
            ticket,
            read: (Access { writes: false, ..*access }, digest),
            stale: false,
        });
        self.member(origin).untaken.extend(untaken);
    }

    /// A rank has taken a reply: it knows that the operation has landed, and what it has read.
    pub(crate) fn note_taken(&mut self, rank: Rank, asked: Ticket) {
        let member = self.member(rank);
        let mine = member.replied.iter().filter(|(ticket, _)| *ticket == asked);
        member.learned.borrow_mut().extend(mine.map(|&(_, step)| step));
        member.replied.retain(|(ticket, _)| *ticket != asked);
        member.polled.retain(|polled| *polled != asked);
        for taken in member.untaken.extract_if(.., |untaken| untaken.ticket == asked) {
            member.stale |= taken.stale;
            member.reads.push(taken.read);
        }
    }

    /// A rank has changed these bytes, or any: what others have read of them is out of date.
    fn note_change(&mut self, origin: Rank, accesses: Option<&[Access]>) {
        self.version += 1;
        let others = self.members.iter_mut().enumerate();
        for (_, member) in others.filter(|(rank, _)| *rank != origin.index()) {
            let read = |(access, _): &(Access, u64)| {
                accesses.is_none_or(|all| all.iter().any(|other| other.conflicts(access)))
            };
            let mut known = member.reads.iter().chain(&member.reads_before);
            member.stale = member.stale || known.any(read);
            member.untaken.iter_mut().for_each(|untaken| untaken.stale |= read(&untaken.read));
        }
    }

    /// A rank reads or writes its own memory, as soon as it goes on.
    pub(crate) fn note_own(&mut self, rank: Rank, access: Access) {
        if access.writes {
            return self.note_change(rank, Some(&[access]));
        }
        let mut bytes = vec![0; (access.end - access.start) as usize];
        if let Ok(mapped) = self.store.memory(access.rank, access.segment) {
            // What is not there is refused, and nothing is read.
            let _ = mapped.get(access.start, &mut bytes);
        }
        let mut hasher = std::hash::DefaultHasher::new();
        bytes.hash(&mut hasher);
        self.member(rank).reads.push((access, hasher.finish()));
    }

    fn launch_for_agent(&mut self, runner: Rank, all: Vec<Posted>) {
        let mut previous = None;
        for Posted { target, body, after_previous } in all {
            let id = self.store.next_id(runner);
            let after = previous.filter(|_| after_previous);
            previous = Some(id);
            let flight = Flight { after, by_agent: true, ..Flight::new(id, target, body, true) };
            self.fly(flight);
        }
    }
}

/// Returns a digest of what a rank has learned by an operation: equal if it has learned the same.
fn digest(body: &Body, result: &Result<Reply>) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    match (body, result) {
        (_, Ok(Reply::Word(held))) => held.hash(&mut hasher),
        (_, Ok(Reply::Bytes(bytes))) => bytes.hash(&mut hasher),
        (Body::Get { pieces, into, .. }, Ok(Reply::None)) => {
            let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
            // SAFETY: the operation has just written that many bytes there.
            unsafe { std::slice::from_raw_parts(*into, bytes as usize) }.hash(&mut hasher);
        }
        _ => {}
    }
    hasher.finish()
}

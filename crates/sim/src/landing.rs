//! The landing of operations: what changes, and which ranks learn of it.

use std::hash::{Hash, Hasher};

use farside_fabric::{Rank, Reply, Result};

use crate::event::{Access, Event};
use crate::flight::Flight;
use crate::handler_agent::Posted;
use crate::machine::Machine;
use crate::store::{Body, Outcome};

impl Machine {
    /// Tells whether nothing in flight holds an operation back.
    pub(crate) fn may_land(&self, flight: &Flight) -> bool {
        let may_be_held_back = flight.after.is_some() || (flight.fenced && flight.epoch > 0);
        !(may_be_held_back && self.flights.iter().any(|earlier| earlier.holds_back(flight)))
    }

    /// Carries out an operation, as a step of that number if it counts.
    pub(crate) fn land(&mut self, flight: Flight, step: Option<usize>) {
        let (origin, target) = (flight.id.rank, flight.target);
        let (runner, outcome) = match flight.body {
            Body::Call { node, .. } => match self.runner(node) {
                Ok(runner) => (runner, self.store.execute(origin, target, &flight.body)),
                Err(error) => (target, Outcome { reply: Err(error), posted: Vec::new() }),
            },
            _ => (target, self.store.execute(origin, target, &flight.body)),
        };
        self.wake_by(target, &flight.body);
        // A torn operation has landed with its last part.
        if flight.is_posted_by(origin)
            && !self.flights.iter().any(|other| other.whole == flight.whole)
        {
            let counted = self.store.count_landing(origin, target, &flight.body);
            counted.into_iter().for_each(|rank| self.member(rank).asleep = false);
        }
        self.note_accesses(origin, &flight, &outcome.reply);
        if let Some(step) = step {
            if flight.is_posted_by(origin) {
                self.member(origin).landed.push((target, flight.epoch, step));
            } else if !flight.by_agent {
                self.member(origin).learned.borrow_mut().push(step);
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

    /// Tells ranks that poll the bytes just written that there is something new to read.
    fn note_accesses(&mut self, origin: Rank, flight: &Flight, reply: &Result<Reply>) {
        let accesses = flight.event.accesses.as_deref();
        let mut changes =
            accesses.is_none_or(|accesses| accesses.iter().any(|access| access.writes));
        if let (Body::Atomic { at, op }, Ok(Reply::Word(held))) = (&flight.body, reply) {
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
        let reads = accesses
            .into_iter()
            .flatten()
            .map(|access| (Access { writes: false, ..*access }, digest));
        self.member(origin).reads.extend(reads);
    }

    /// A rank has changed these bytes, or any: what others have read of them is out of date.
    fn note_change(&mut self, origin: Rank, accesses: Option<&[Access]>) {
        self.version += 1;
        let others = self.members.iter_mut().enumerate();
        for (_, member) in others.filter(|(rank, member)| *rank != origin.index() && !member.stale)
        {
            let read = |(access, _): &(Access, u64)| {
                accesses.is_none_or(|all| all.iter().any(|other| other.conflicts(access)))
            };
            let known = member.reads.iter().chain(&member.reads_before);
            member.stale = known.into_iter().any(read);
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

    /// Puts in flight the operations that a handler at `node` has posted to other nodes.
    fn launch_for_agent(&mut self, runner: Rank, all: Vec<Posted>) {
        let mut previous = None;
        for Posted { target, body, after_previous } in all {
            let id = self.store.next_id(runner);
            let after = previous.filter(|_| after_previous);
            previous = Some(id);
            let event = Event {
                id,
                accesses: body.accesses(target).map(Into::into),
                what: body.what(target),
            };
            let flight = Flight {
                id,
                whole: id,
                target,
                epoch: 0,
                fenced: false,
                after,
                after_steps: Vec::new(),
                posted: true,
                by_agent: true,
                runner_died: None,
                body,
                event,
                known: None,
            };
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

//! The simulated machine: memory, operations in flight, who waits for what.
//!
//! A rank that starts an operation puts it *in flight*, and goes on until it has to wait. What happens next, which operation lands or which
//! waiter looks at its word, is an [`Event`] that somebody else picks. Landing is a step of its own, so posted operations land
//! in any order that the memory model allows: fences and signals hold back what must come later, nothing else does.

use std::hash::{Hash, Hasher};

use farside_fabric::{Ended, Event as Awaited, Fate, Node, Rank, Reply, Result, Ticket, Topology, Wait, Word};

use crate::engine::Engine;
use crate::event::{Access, Event, EventId, What};
use crate::fiber::{Pause, Resume};
use crate::reach::Posted;
use crate::store::{Body, Store, ticket, word_access};

/// An operation in flight.
pub(crate) struct Flight {
    pub(crate) id: EventId,
    target: Rank,
    /// How many fences its rank had done when it was posted.
    epoch: u32,
    /// Whether a fence before it holds it back.
    fenced: bool,
    /// Another operation that must land first, and the step at which it did.
    after: Option<EventId>,
    after_step: Option<usize>,
    posted: bool,
    /// Whether a handler posted it: no flush or fence of its rank speaks of it.
    pub(crate) by_agent: bool,
    body: Body,
}

/// What a rank is doing.
pub(crate) enum Doing {
    /// It can run.
    Runs(Resume),
    /// It waits, since event number such and such of its own.
    Waits { wait: *const Wait<'static>, id: EventId },
    /// It waits until all that it posted to a rank has landed.
    Flushes(Rank),
    /// It waits until fewer of its posted operations are in flight.
    NeedsRoom,
    /// It polls, and goes on when something that it has read was changed, or somebody departs.
    Relaxes { departures: u32 },
    /// It is done with its preparations.
    Prepared,
    /// It has ended.
    Over,
}

pub(crate) struct Member {
    pub(crate) doing: Doing,
    epoch: u32,
    /// How often its waits have timed out since memory changed for the last time.
    time_outs: (u64, u32),
    /// What it has read since it last relaxed, and before that; and whether somebody has changed it since.
    reads: Vec<(Access, u64)>,
    reads_before: Vec<(Access, u64)>,
    stale: bool,
    /// How often it has relaxed in a row without reading anything.
    pauses: u32,
    /// Posted operations of this rank that have landed: to whom, after how many fences, at which step.
    landed: Vec<(Rank, u32, usize)>,
    /// Steps that it learned of through the last event.
    learned: Vec<usize>,
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) store: Store,
    pub(crate) members: Vec<Member>,
    pub(crate) flights: Vec<Flight>,
    /// Grows whenever memory changes.
    version: u64,
}

impl Engine for Machine {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn launch(&mut self, origin: Rank, target: Rank, body: Body, posted: bool, after: Option<EventId>) -> EventId {
        let id = self.store.next_id(origin);
        let epoch = self.member(origin).epoch;
        // A get is held back by nothing, everything else by the fences before it.
        let fenced = !matches!(body, Body::Get { .. });
        if !posted {
            self.store.expect(id);
        }
        self.flights.push(Flight { id, target, epoch, fenced, after, after_step: None, posted, by_agent: false, body });
        id
    }

    fn fence(&mut self, rank: Rank) {
        self.member(rank).epoch += 1;
    }

    fn has_room(&self, rank: Rank) -> bool {
        self.flights.iter().filter(|flight| flight.is_posted_by(rank)).count() < POSTED_MAX
    }

    fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        !self.flights.iter().any(|flight| flight.is_posted_by(origin) && flight.target == target)
    }

    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        self.store.poll(rank, asked, 0)
    }

    fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.store.forget(rank, given_up);
        self.flights.retain(|flight| flight.id.rank != rank || ticket(flight.id) != given_up);
    }

    /// Whoever leaves in order has left when all that it posted has landed.
    fn depart(&mut self, rank: Rank, lost: Option<Ended>) {
        self.member(rank).doing = Doing::Over;
        // Buffers of a fiber that is gone must not be written any more.
        self.flights.retain(|flight| flight.id.rank != rank || flight.posted);
        if lost.is_some() {
            self.store.set_gone(rank, lost);
        } else {
            self.leave_if_done(rank);
        }
    }

    fn count_landings(&mut self, _node: Node) -> Result<Option<Word>> {
        Ok(None)
    }

    /// Schedules have an order, and no time.
    fn now_ns(&self, _rank: Rank) -> u64 {
        0
    }
}

impl Flight {
    fn is_posted_by(&self, rank: Rank) -> bool {
        self.posted && !self.by_agent && self.id.rank == rank
    }
}

impl Machine {
    pub(crate) fn new(topology: Topology, root_bytes: u64) -> Machine {
        let member = |_| Member {
            doing: Doing::Runs(Resume::Go(0, 0)),
            epoch: 0,
            time_outs: (0, 0),
            reads: Vec::new(),
            reads_before: Vec::new(),
            stale: false,
            pauses: 0,
            landed: Vec::new(),
            learned: Vec::new(),
        };
        let members = (0..topology.ranks()).map(member).collect();
        Machine { store: Store::new(topology, root_bytes), members, flights: Vec::new(), version: 1 }
    }

    pub(crate) fn member(&mut self, rank: Rank) -> &mut Member {
        &mut self.members[rank.index()]
    }

    fn leave_if_done(&mut self, rank: Rank) {
        let is_leaving =
            matches!(self.members[rank.index()].doing, Doing::Over) && self.store.fate(rank) == Fate::Alive;
        if is_leaving && !self.flights.iter().any(|flight| flight.is_posted_by(rank)) {
            self.store.set_gone(rank, None);
        }
    }

    /// What a handler at `node` has posted to other nodes is in flight from now on.
    fn launch_for_agent(&mut self, leader: Rank, all: Vec<Posted>) {
        let mut previous = None;
        for Posted { target, body, after_previous } in all {
            let id = self.store.next_id(leader);
            let after = previous.filter(|_| after_previous);
            previous = Some(id);
            let flight = Flight {
                id,
                target,
                epoch: 0,
                fenced: false,
                after,
                after_step: None,
                posted: true,
                by_agent: true,
                body,
            };
            self.flights.push(flight);
        }
    }

    /// Notes why a rank paused.
    pub(crate) fn pause(&mut self, rank: Rank, pause: Pause) {
        let departures = self.store.departures();
        let doing = match pause {
            Pause::Wait(wait) => Doing::Waits { wait, id: self.store.next_id(rank) },
            Pause::Flush(target) => Doing::Flushes(Rank(target)),
            Pause::Relax => {
                let member = self.member(rank);
                let reads = std::mem::take(&mut member.reads);
                // Who has read nothing since it last relaxed does not poll: it lets time pass, and need not be held up for that.
                if reads.is_empty() && member.pauses < PAUSES_MAX {
                    member.pauses += 1;
                    member.doing = Doing::Runs(Resume::Go(0, 0));
                    return;
                }
                member.pauses = 0;
                // Who has read something new may do something else now. Who has not would only read the same again.
                let news = std::mem::replace(&mut member.stale, false) || reads != member.reads_before;
                member.reads_before = reads;
                if news { Doing::Runs(Resume::Go(0, 0)) } else { Doing::Relaxes { departures } }
            }
            // What a rank does for itself is no event, and takes no time that anybody could notice.
            Pause::Work(_) => Doing::Runs(Resume::Go(0, 0)),
            Pause::NeedsRoom => Doing::NeedsRoom,
            Pause::Prepared => Doing::Prepared,
        };
        self.member(rank).doing = doing;
    }

    /// Lets ranks go on whose reason to pause cannot be looked at too early: replies that have come, flushes that are done, departures.
    pub(crate) fn settle(&mut self) {
        for rank in (0..self.members.len() as u32).map(Rank) {
            let resume = match self.members[rank.index()].doing {
                Doing::Waits { wait, .. } => {
                    // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
                    let wait = unsafe { &*wait };
                    match wait.event {
                        Awaited::Done(asked) if self.store.reply_at(rank, asked).is_some() => Some(Resume::Go(0, 0)),
                        Awaited::Words(_) if holds(wait).is_some() => None,
                        _ if self.store.departures() != wait.known_departures => Some(Resume::Alarm),
                        _ => None,
                    }
                }
                Doing::Flushes(target) if self.is_flushed(rank, target) => {
                    let member = &mut self.members[rank.index()];
                    let landed = member.landed.iter().filter(|&&(to, ..)| to == target).map(|&(.., step)| step);
                    member.learned.extend(landed);
                    Some(Resume::Go(0, 0))
                }
                Doing::NeedsRoom if self.has_room(rank) => {
                    let member = &mut self.members[rank.index()];
                    let landed = member.landed.iter().map(|&(.., step)| step);
                    member.learned.extend(landed);
                    Some(Resume::Go(0, 0))
                }
                Doing::Relaxes { departures } => {
                    let departed = departures != self.store.departures();
                    let member = &mut self.members[rank.index()];
                    let news = std::mem::replace(&mut member.stale, false) || departed;
                    news.then_some(Resume::Go(0, 0))
                }
                _ => None,
            };
            if let Some(resume) = resume {
                self.member(rank).doing = Doing::Runs(resume);
            }
        }
    }

    /// The steps that had to come before an operation in flight because a fence or a signal demands it.
    pub(crate) fn held_back_by(&self, id: EventId) -> Vec<usize> {
        let Some(flight) = self.flights.iter().find(|flight| flight.id == id) else {
            return Vec::new();
        };
        let landed = &self.members[id.rank.index()].landed;
        let fenced =
            landed.iter().filter(|&&(to, epoch, _)| flight.fenced && to == flight.target && epoch < flight.epoch);
        fenced.map(|&(.., step)| step).chain(flight.after_step).collect()
    }

    /// The steps that a rank learned of through the last event.
    pub(crate) fn learned(&mut self, rank: usize) -> Vec<usize> {
        std::mem::take(&mut self.members[rank].learned)
    }

    /// Everything that can happen next, the oldest first for each rank.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.flights.iter().filter(|flight| self.may_land(flight)).map(|flight| self.landing(flight)).collect();
        for member in &self.members {
            let Doing::Waits { wait, id } = member.doing else {
                continue;
            };
            // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
            let wait = unsafe { &*wait };
            if let Awaited::Words(conditions) = wait.event
                && holds(wait).is_some()
            {
                let accesses = conditions.iter().map(|condition| word_access(condition.at, false)).collect();
                events.push(Event { id, accesses: Some(accesses), what: What::Wait });
            }
        }
        events
    }

    fn may_land(&self, flight: &Flight) -> bool {
        let held_back = |earlier: &Flight| {
            Some(earlier.id) == flight.after
                || (flight.fenced
                    && earlier.posted
                    && earlier.id.rank == flight.id.rank
                    && earlier.target == flight.target
                    && earlier.epoch < flight.epoch)
        };
        !self.flights.iter().any(held_back)
    }

    fn landing(&self, flight: &Flight) -> Event {
        Event { id: flight.id, accesses: flight.body.accesses(flight.target), what: flight.body.what(flight.target) }
    }

    /// Makes an event happen, as a step of that number if it counts.
    pub(crate) fn happen(&mut self, id: EventId, step: Option<usize>) {
        if let Some(at) = self.flights.iter().position(|flight| flight.id == id) {
            // The order of the rest is the order of age, and stays so.
            let flight = self.flights.remove(at);
            self.land(flight, step);
            return;
        }
        let seen = match self.members[id.rank.index()].doing {
            // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
            Doing::Waits { wait, .. } => holds(unsafe { &*wait }),
            _ => None,
        };
        let member = self.member(id.rank);
        if let Some((which, value)) = seen {
            member.doing = Doing::Runs(Resume::Go(which, value));
            member.learned.extend(step);
        }
    }

    fn land(&mut self, flight: Flight, step: Option<usize>) {
        let (origin, target) = (flight.id.rank, flight.target);
        let event = self.landing(&flight);
        let outcome = self.store.execute(origin, target, &flight.body);
        self.note_accesses(origin, &event, digest(&flight.body, &outcome.reply));
        if let Some(step) = step {
            if flight.is_posted_by(origin) {
                self.member(origin).landed.push((target, flight.epoch, step));
            } else if !flight.by_agent {
                self.member(origin).learned.push(step);
            }
            for later in self.flights.iter_mut().filter(|later| later.after == Some(flight.id)) {
                later.after_step = Some(step);
            }
        }
        self.leave_if_done(origin);
        self.launch_for_agent(target, outcome.posted);
        match (flight.posted, outcome.reply) {
            (true, Err(error)) if !flight.by_agent => self.store.fail_later(origin, target, error),
            (true, _) => {}
            (false, reply) => self.store.answer(flight.id, 0, reply),
        }
    }

    /// Who polls what was just written has something new to read.
    fn note_accesses(&mut self, origin: Rank, event: &Event, digest: u64) {
        let accesses = event.accesses.as_deref();
        if accesses.is_none_or(|accesses| accesses.iter().any(|access| access.writes)) {
            self.version += 1;
            for (rank, member) in self.members.iter_mut().enumerate() {
                let read = |(access, _): &(Access, u64)| {
                    accesses.is_none_or(|all| all.iter().any(|other| other.conflicts(access)))
                };
                let known = member.reads.iter().chain(&member.reads_before);
                member.stale |= rank != origin.index() && known.into_iter().any(read);
            }
        }
        let reads = accesses.into_iter().flatten().map(|access| (Access { writes: false, ..*access }, digest));
        self.member(origin).reads.extend(reads);
    }

    /// When nothing can happen: the time of some wait passes, or somebody polls once more, unless that was without effect too often.
    pub(crate) fn time_out(&mut self) -> bool {
        let version = self.version;
        for member in &mut self.members {
            let resume = match member.doing {
                // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
                Doing::Waits { wait, .. } if unsafe { &*wait }.timeout.is_some() => Resume::TimedOut,
                Doing::Relaxes { .. } => Resume::Go(0, 0),
                _ => continue,
            };
            let (seen, times) = &mut member.time_outs;
            if *seen != version {
                (*seen, *times) = (version, 0);
            }
            if *times < 2 {
                *times += 1;
                member.doing = Doing::Runs(resume);
                return true;
            }
        }
        false
    }
}

/// How many posted operations a rank may have in flight; the next one waits.
const POSTED_MAX: usize = 64;
/// How often in a row a rank may relax without having read anything.
const PAUSES_MAX: u32 = 10_000;

/// Which of a wait's conditions holds now, and by which value.
pub(crate) fn holds(wait: &Wait<'_>) -> Option<(usize, u64)> {
    let Awaited::Words(conditions) = wait.event else {
        return None;
    };
    conditions.iter().enumerate().find_map(|(which, condition)| {
        let value = condition.memory.look(condition.at.offset, condition.at.width)?.load();
        (condition.until)(value).then_some((which, value))
    })
}

/// What a rank has learned by an operation, as a number: the same if it has learned the same.
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

//! The simulated machine: memory, operations in flight, who waits for what.
//!
//! A rank that starts an operation puts it *in flight*, and goes on until it has to wait. What happens next, which operation lands or which
//! waiter looks at its word, is an [`Event`] that somebody else picks. Landing is a step of its own, so posted operations land
//! in any order that the memory model allows: fences and signals hold back what must come later, nothing else does.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use farside_fabric::{
    Alarm, Atomic, Ended, Error, Event as Awaited, Fate, Handler, HandlerId, Mapped, Node, Piece, Rank, Region, Reply,
    Result, SegmentId, Sum, Ticket, Topology, Wait, Word,
};

use crate::event::{Access, Event, EventId, What};
use crate::fiber::{Pause, Resume};
use crate::memory::Memory;
use crate::reach::Reach;

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
    body: Body,
}

pub(crate) enum Body {
    Put { segment: SegmentId, pieces: Vec<Piece>, bytes: Vec<u8> },
    Get { segment: SegmentId, pieces: Vec<Piece>, into: *mut u8 },
    Sum { segment: SegmentId, pieces: Vec<Piece>, sum: Sum, bytes: Vec<u8> },
    Atomic { at: Word, op: Atomic },
    Call { node: Node, handler: HandlerId, bytes: Vec<u8> },
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
    fate: Fate,
    segments: HashMap<SegmentId, Arc<Memory>>,
    serial: u32,
    epoch: u32,
    replies: HashMap<Ticket, Option<Result<Reply>>>,
    /// Errors of posted operations, to be told at the next flush.
    late_errors: BTreeMap<Rank, Error>,
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
    pub(crate) topology: Arc<Topology>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) members: Vec<Member>,
    pub(crate) flights: Vec<Flight>,
    handlers: HashMap<(Node, HandlerId), Handler>,
    /// Grows whenever memory changes.
    version: u64,
}

impl Machine {
    pub(crate) fn new(topology: Topology, root_bytes: u64) -> Machine {
        let alarm: Arc<Alarm> = Arc::default();
        let member = |_| Member {
            doing: Doing::Runs(Resume::Go(0, 0)),
            fate: Fate::Alive,
            segments: HashMap::from([(SegmentId::ROOT, Memory::new(root_bytes, &alarm))]),
            serial: 0,
            epoch: 0,
            replies: HashMap::new(),
            late_errors: BTreeMap::new(),
            time_outs: (0, 0),
            reads: Vec::new(),
            reads_before: Vec::new(),
            stale: false,
            pauses: 0,
            landed: Vec::new(),
            learned: Vec::new(),
        };
        let members = (0..topology.ranks()).map(member).collect();
        let topology = Arc::new(topology);
        Machine { topology, alarm, members, flights: Vec::new(), handlers: HashMap::new(), version: 1 }
    }

    pub(crate) fn member(&mut self, rank: Rank) -> &mut Member {
        &mut self.members[rank.index()]
    }

    pub(crate) fn fate(&self, rank: Rank) -> Fate {
        self.members[rank.index()].fate
    }

    pub(crate) fn expose(&mut self, rank: Rank, segment: SegmentId, bytes: u64) -> Result<()> {
        const LIMIT: u64 = 1 << 36;
        if bytes > LIMIT {
            return Err(Error::OutOfMemory { asked: bytes, free: LIMIT, limit: LIMIT });
        }
        let memory = Memory::new(bytes, &self.alarm);
        self.member(rank).segments.insert(segment, memory);
        Ok(())
    }

    pub(crate) fn withdraw(&mut self, rank: Rank, segment: SegmentId) -> Result<()> {
        let removed = self.member(rank).segments.remove(&segment);
        removed.map(|_| ()).ok_or(Error::NoSegment { rank, segment })
    }

    pub(crate) fn memory(&self, rank: Rank, segment: SegmentId) -> Result<&Arc<Memory>> {
        self.topology.check(rank)?;
        self.members[rank.index()].segments.get(&segment).ok_or(Error::NoSegment { rank, segment })
    }

    pub(crate) fn serve(&mut self, node: Node, id: HandlerId, handler: Handler) {
        self.handlers.insert((node, id), handler);
    }

    /// A name for the next event of a rank.
    pub(crate) fn next_id(&mut self, rank: Rank) -> EventId {
        let member = self.member(rank);
        member.serial += 1;
        EventId { rank, serial: member.serial }
    }

    pub(crate) fn fence(&mut self, rank: Rank) {
        self.member(rank).epoch += 1;
    }

    /// Whether a region is all there, and its pieces.
    pub(crate) fn pieces(&self, region: &Region<'_>) -> Result<Vec<Piece>> {
        self.check_alive(region.rank)?;
        region.check(self.memory(region.rank, region.segment)?.bytes())?;
        let mut pieces = Vec::new();
        region.shape.for_each(|piece| pieces.push(piece));
        Ok(pieces)
    }

    pub(crate) fn check_word(&self, at: Word, op: Atomic) -> Result<()> {
        self.check_alive(at.rank)?;
        op.check(at.width)?;
        at.check(self.memory(at.rank, at.segment)?.bytes())
    }

    fn check_alive(&self, rank: Rank) -> Result<()> {
        self.topology.check(rank)?;
        match self.fate(rank) {
            Fate::Lost(how) => Err(Error::RankLost { rank, how }),
            _ => Ok(()),
        }
    }

    /// Puts an operation in flight. Posted ones have no ticket.
    pub(crate) fn launch(
        &mut self,
        origin: Rank,
        target: Rank,
        body: Body,
        posted: bool,
        after: Option<EventId>,
    ) -> EventId {
        let id = self.next_id(origin);
        let epoch = self.member(origin).epoch;
        // A get is held back by nothing, everything else by the fences before it.
        let fenced = !matches!(body, Body::Get { .. });
        if !posted {
            self.member(origin).replies.insert(ticket(id), None);
        }
        self.flights.push(Flight { id, target, epoch, fenced, after, after_step: None, posted, body });
        id
    }

    /// Gives up on operations of a rank whose replies nobody will ask for, since their buffers are gone.
    pub(crate) fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.member(rank).replies.remove(&given_up);
        self.flights.retain(|flight| flight.id.rank != rank || ticket(flight.id) != given_up);
    }

    pub(crate) fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        let replies = &mut self.member(rank).replies;
        match replies.get(&asked) {
            None => Err(Error::Misuse(format!("{asked:?} names no operation that is under way from {rank}"))),
            Some(None) => Ok(None),
            Some(Some(_)) => replies.remove(&asked).flatten().transpose(),
        }
    }

    /// Whether a rank may post another operation.
    pub(crate) fn has_room(&self, rank: Rank) -> bool {
        self.flights.iter().filter(|flight| flight.posted && flight.id.rank == rank).count() < POSTED_MAX
    }

    /// Whether all that a rank posted to another has landed.
    pub(crate) fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        !self.flights.iter().any(|flight| flight.posted && flight.id.rank == origin && flight.target == target)
    }

    pub(crate) fn late_error(&mut self, origin: Rank, target: Rank) -> Option<Error> {
        self.member(origin).late_errors.remove(&target)
    }

    /// A rank has ended. Whoever leaves in order has left when all that it posted has landed.
    pub(crate) fn depart(&mut self, rank: Rank, lost: Option<Ended>) {
        self.member(rank).doing = Doing::Over;
        // Buffers of a fiber that is gone must not be written any more.
        self.flights.retain(|flight| flight.id.rank != rank || flight.posted);
        if let Some(how) = lost {
            self.member(rank).fate = Fate::Lost(how);
            self.alarm.losses.fetch_add(1, Ordering::SeqCst);
            self.alarm.departures.fetch_add(1, Ordering::SeqCst);
        } else {
            self.leave_if_done(rank);
        }
    }

    fn leave_if_done(&mut self, rank: Rank) {
        let member = &self.members[rank.index()];
        let is_leaving = matches!(member.doing, Doing::Over) && member.fate == Fate::Alive;
        if is_leaving && !self.flights.iter().any(|flight| flight.id.rank == rank) {
            self.member(rank).fate = Fate::Left;
            self.alarm.departures.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes why a rank paused.
    pub(crate) fn pause(&mut self, rank: Rank, pause: Pause) {
        let departures = self.alarm.departures.load(Ordering::SeqCst);
        let doing = match pause {
            Pause::Wait(wait) => Doing::Waits { wait, id: self.next_id(rank) },
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
                        Awaited::Done(asked) if self.has_reply(rank, asked) => Some(Resume::Go(0, 0)),
                        Awaited::Words(_) if self.holds(wait).is_some() => None,
                        _ if self.alarm.departures.load(Ordering::SeqCst) != wait.known_departures => {
                            Some(Resume::Alarm)
                        }
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
                    let departed = departures != self.alarm.departures.load(Ordering::SeqCst);
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

    fn has_reply(&self, rank: Rank, asked: Ticket) -> bool {
        !matches!(self.members[rank.index()].replies.get(&asked), Some(None))
    }

    /// Which of a wait's conditions holds now, and by which value.
    fn holds(&self, wait: &Wait<'_>) -> Option<(usize, u64)> {
        let Awaited::Words(conditions) = wait.event else {
            return None;
        };
        conditions.iter().enumerate().find_map(|(which, condition)| {
            let value = condition.memory.look(condition.at.offset, condition.at.width)?.load();
            (condition.until)(value).then_some((which, value))
        })
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
                && self.holds(wait).is_some()
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
        let pieces = |segment: SegmentId, pieces: &[Piece], writes: bool| {
            let access = |piece: &Piece| Access {
                rank: flight.target,
                segment,
                start: piece.offset,
                end: piece.offset + piece.bytes,
                writes,
            };
            Some(pieces.iter().map(access).collect())
        };
        let (accesses, what) = match &flight.body {
            Body::Put { segment, pieces: all, bytes } => {
                (pieces(*segment, all, true), What::Put(bytes.len() as u64, flight.target))
            }
            Body::Get { segment, pieces: all, .. } => (pieces(*segment, all, false), What::Get(flight.target)),
            // Sums commute, but who reads in between sees the difference.
            Body::Sum { segment, pieces: all, .. } => (pieces(*segment, all, true), What::Accumulate(flight.target)),
            Body::Atomic { at, op } => (Some(vec![word_access(*at, op.writes())]), What::Atomic(*op, *at)),
            Body::Call { handler, node, .. } => (None, What::Call(*handler, *node)),
        };
        Event { id: flight.id, accesses, what }
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
            Doing::Waits { wait, .. } => self.holds(unsafe { &*wait }),
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
        let result = self.execute(origin, target, &flight.body);
        self.note_accesses(origin, &event, digest(&flight.body, &result));
        if let Some(step) = step {
            if flight.posted {
                self.member(origin).landed.push((target, flight.epoch, step));
            } else {
                self.member(origin).learned.push(step);
            }
            for later in self.flights.iter_mut().filter(|later| later.after == Some(flight.id)) {
                later.after_step = Some(step);
            }
        }
        self.leave_if_done(origin);
        match (flight.posted, result) {
            (true, Err(error)) => drop(self.member(origin).late_errors.entry(target).or_insert(error)),
            (true, Ok(_)) => {}
            (false, result) => {
                // Unless it was given up meanwhile.
                if let Some(reply) = self.member(origin).replies.get_mut(&ticket(flight.id)) {
                    *reply = Some(result);
                }
            }
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

    fn execute(&mut self, origin: Rank, target: Rank, body: &Body) -> Result<Reply> {
        let done =
            |done: bool| if done { Ok(Reply::None) } else { Err(Error::Misuse("an operation was refused".into())) };
        match body {
            Body::Put { segment, pieces, bytes } => {
                let mapped = self.memory(target, *segment)?.mapped();
                done(packed(pieces, bytes, |piece, part| mapped.put(piece.offset, part)))
            }
            Body::Sum { segment, pieces, sum, bytes } => {
                let mapped = self.memory(target, *segment)?.mapped();
                let add =
                    |piece: &Piece, part: &[u8]| mapped.accumulate(piece.offset, sum, part, origin, &mut |_| false);
                done(packed(pieces, bytes, add))
            }
            Body::Get { segment, pieces, into } => {
                let mapped = self.memory(target, *segment)?.mapped();
                let mut at = 0;
                done(pieces.iter().all(|piece| {
                    // SAFETY: the caller of `get` promised room for all pieces until the operation has completed or was given up.
                    let read = unsafe { mapped.get_raw(piece.offset, into.add(at), piece.bytes as usize) };
                    at += piece.bytes as usize;
                    read
                }))
            }
            Body::Atomic { at, op } => atomic(&self.memory(at.rank, at.segment)?.mapped(), *at, *op).map(Reply::Word),
            Body::Call { node, handler, bytes } => {
                let no_handler = Error::NoHandler { node: *node, handler: handler.0 };
                let mut run = self.handlers.remove(&(*node, *handler)).ok_or(no_handler)?;
                let reply = run(&Reach::new(self, *node), origin, bytes);
                self.handlers.insert((*node, *handler), run);
                if reply.len() as u64 > CALL_BYTES {
                    let value = reply.len() as u64;
                    return Err(Error::TooMuch { what: "bytes of a call's reply", value, limit: CALL_BYTES });
                }
                Ok(Reply::Bytes(reply))
            }
        }
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
/// The longest argument and reply of a call.
pub(crate) const CALL_BYTES: u64 = 4096;

pub(crate) fn ticket(id: EventId) -> Ticket {
    Ticket(id.serial.into())
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

fn word_access(at: Word, writes: bool) -> Access {
    Access { rank: at.rank, segment: at.segment, start: at.offset, end: at.offset + at.width.bytes(), writes }
}

pub(crate) fn atomic(mapped: &Mapped, at: Word, op: Atomic) -> Result<u128> {
    let refused = || Error::Misaligned { offset: at.offset, align: at.width.bytes() };
    mapped.atomic(at.offset, at.width, op).ok_or_else(refused)
}

pub(crate) fn packed(pieces: &[Piece], mut bytes: &[u8], mut each: impl FnMut(&Piece, &[u8]) -> bool) -> bool {
    pieces.iter().all(|piece| {
        let (part, rest) = bytes.split_at(piece.bytes as usize);
        bytes = rest;
        each(piece, part)
    })
}

/// Keeps the compiler honest: fibers share the machine through `Rc`, on one thread.
pub(crate) type Shared = Rc<std::cell::RefCell<Machine>>;

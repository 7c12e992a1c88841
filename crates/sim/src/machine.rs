//! The simulated machine: memory, operations in flight, and waiting ranks.
//!
//! A rank that starts an operation puts it *in flight*, and goes on until it has to wait. The next
//! step, the landing of an operation or a waiter's look at its word, is an [`Event`] that the
//! oracle picks. Landing is a step of its own, so posted operations land in any order that the
//! memory model allows: fences and signals hold back what must come later, nothing else does.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;

use farside_fabric::{
    Event as Awaited, ExitCause, Node, PeerState, Rank, Reply, Result, SegmentId, Ticket, Topology,
    Wait,
};

use crate::bits::Bits;
use crate::engine::Engine;
use crate::event::{Access, Event, EventId, Unseen, What};
use crate::fiber::{Pause, Resume};
use crate::flight::Flight;
use crate::parked_wait::ParkedWait;
use crate::store::{Body, Store, ticket, word_access};
use crate::tearing::parts;

/// The activity of a rank.
pub(crate) enum Doing {
    /// It can run.
    Runs(Resume),
    /// It waits; its look at the word is an event of this name.
    Waits { wait: ParkedWait, id: EventId },
    /// It is about to read or write these bytes of its own memory, an event of this name.
    Accesses { access: Access, what: What, id: EventId },
    /// It is about to look whether an operation is complete, which is an event of this name, unless
    /// it has looked before: then it finds it complete.
    Polls { asked: Ticket, id: EventId, again: bool },
    /// It waits until all that it posted to a rank has landed.
    Flushes(Rank),
    /// It waits until fewer of its posted operations are in flight.
    NeedsRoom,
    /// It polls, and goes on when something that it has read was changed, or a rank departs.
    Relaxes { departures: u32 },
    /// It is done with its preparations.
    Prepared,
    /// It has ended.
    Over,
}

pub(crate) struct Member {
    pub(crate) doing: Doing,
    /// The number of successful looks at its words, and of waits that ended too early.
    pub(crate) looks: u32,
    /// True while it sleeps: a plain put has changed its word since it began to wait, and nothing
    /// has woken it.
    pub(crate) asleep: bool,
    /// The steps that it knew of when it began the wait that it is in.
    pub(crate) known: Bits,
    epoch: u32,
    /// The operation that it last found under way.
    polled: Option<Ticket>,
    /// The version of memory at its last time-out, and the number of time-outs since then.
    pub(crate) time_outs: (u64, u32),
    /// The accesses that it has read since it last relaxed, and before that; and whether another
    /// rank has changed them since.
    pub(crate) reads: Vec<(Access, u64)>,
    pub(crate) reads_before: Vec<(Access, u64)>,
    pub(crate) stale: bool,
    /// The number of times in a row that it has relaxed without reading anything.
    pauses: u32,
    /// Posted operations of this rank that have landed: the target, the number of fences before,
    /// and the step.
    pub(crate) landed: Vec<(Rank, u32, usize)>,
    /// Steps that it learned of through the last event.
    pub(crate) learned: RefCell<Vec<usize>>,
}

/// The failures that may happen beside what the ranks do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FaultModel {
    /// The number of ranks that may die.
    pub(crate) deaths: u32,
    /// The number of waits whose time limit may end while something else can happen.
    pub(crate) time_outs: u32,
    /// True if a rank that looks at an operation finds it complete, or not.
    pub(crate) looks: bool,
    /// True if long puts and gets are torn.
    pub(crate) torn: bool,
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) store: Store,
    pub(crate) members: Vec<Member>,
    pub(crate) flights: Vec<Flight>,
    /// The faults that may still happen.
    pub(crate) fault_model: FaultModel,
    /// Grows whenever memory changes.
    pub(crate) version: u64,
    /// The value that the last atomic found in its word.
    pub(crate) held: Option<u64>,
    /// The memory that ranks use in a way that cannot be followed.
    pub(crate) unseen: BTreeSet<Unseen>,
    /// True if stores of one rank to one word that may overtake each other are refused, and what
    /// was refused.
    pub(crate) refuses_unordered: bool,
    pub(crate) refusal: Option<String>,
    /// The memory that the program uses itself, and not a protocol below it: segments, and bytes
    /// of them.
    program: BTreeSet<(SegmentId, u64, u64)>,
}

impl Engine for Machine {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn launch(
        &mut self,
        origin: Rank,
        target: Rank,
        body: Body,
        posted: bool,
        after: Option<EventId>,
    ) -> EventId {
        let whole = self.store.next_id(origin);
        let epoch = self.member(origin).epoch;
        // A get is held back by nothing, everything else by the fences before it.
        let fenced = !matches!(body, Body::Get { .. });
        if !posted {
            self.store.expect(whole);
        }
        let count = if posted { self.store.landing_count(origin, target, &body) } else { None };
        let new = |id: EventId, body: Body| {
            let mut accesses = body.accesses(target);
            if let (Some(count), Some(all)) = (count, &mut accesses) {
                all.push(word_access(count, true));
            }
            let event = Event { id, accesses: accesses.map(Into::into), what: body.what(target) };
            let (after_steps, by_agent, runner_died, known) = (Vec::new(), false, None, None);
            Flight {
                id,
                whole,
                target,
                epoch,
                fenced,
                after,
                after_steps,
                posted,
                by_agent,
                runner_died,
                body,
                event,
                known,
            }
        };
        match self.fault_model.torn.then(|| parts(&body)).flatten() {
            None => {
                let flight = new(whole, body);
                self.fly(flight);
            }
            Some(parts) => {
                for part in parts {
                    let flight = new(self.store.next_id(origin), part);
                    self.fly(flight);
                }
            }
        }
        whole
    }

    fn fence(&mut self, rank: Rank) {
        self.member(rank).epoch += 1;
    }

    fn has_room(&self, rank: Rank) -> bool {
        self.flights.iter().filter(|flight| flight.is_posted_by(rank)).count() < POSTED_MAX
    }

    fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        let flushed = !self
            .flights
            .iter()
            .any(|flight| flight.is_posted_by(origin) && flight.target == target);
        if flushed {
            let member = &self.members[origin.index()];
            let landed =
                member.landed.iter().filter(|&&(to, ..)| to == target).map(|&(.., step)| step);
            member.learned.borrow_mut().extend(landed);
        }
        flushed
    }

    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        self.store.poll(rank, asked, 0)
    }

    /// Gives up an operation whose buffer is gone. A get is gone with it; everything else happens
    /// all the same.
    fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.store.forget(rank, given_up);
        self.flights.retain(|flight| {
            flight.whole.rank != rank || ticket(flight.whole) != given_up || !flight.is_get()
        });
    }

    /// A rank that leaves in order is seen to have left when nothing else can happen. To the others
    /// it would make no difference before: its memory can be used, and only ranks that wait for it
    /// in vain are told.
    fn depart(&mut self, rank: Rank, lost: Option<ExitCause>) {
        self.member(rank).doing = Doing::Over;
        // Buffers of a fiber that is gone must not be written any more.
        self.flights.retain(|flight| flight.id.rank != rank || flight.by_agent || !flight.is_get());
        if lost.is_some() {
            self.store.set_gone(rank, lost);
        }
    }

    fn explores(&self) -> bool {
        true
    }

    fn explores_looks(&self) -> bool {
        self.fault_model.looks
    }

    fn claim(&mut self, segment: SegmentId, start: u64, end: u64) {
        self.program.insert((segment, start, end));
    }

    fn lent(&mut self, what: &'static str, place: &'static Location<'static>) {
        self.unseen.insert(Unseen { what, place });
    }

    /// Schedules have an order, and no time.
    fn now_ns(&self, _rank: Rank) -> u64 {
        0
    }
}

impl Machine {
    pub(crate) fn new(topology: Topology, root_bytes: u64, fault_model: FaultModel) -> Machine {
        let member = |_| Member {
            doing: Doing::Runs(Resume::Go(0, 0)),
            looks: 0,
            asleep: false,
            known: Bits::default(),
            epoch: 0,
            polled: None,
            time_outs: (0, 0),
            reads: Vec::new(),
            reads_before: Vec::new(),
            stale: false,
            pauses: 0,
            landed: Vec::new(),
            learned: RefCell::default(),
        };
        let members = (0..topology.ranks()).map(member).collect();
        let store = Store::new(topology, root_bytes);
        let (flights, unseen, program) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Machine {
            store,
            members,
            flights,
            fault_model,
            version: 1,
            held: None,
            unseen,
            refuses_unordered: false,
            refusal: None,
            program,
        }
    }

    pub(crate) fn member(&mut self, rank: Rank) -> &mut Member {
        &mut self.members[rank.index()]
    }

    /// Returns whether an event has to do with memory that the program uses itself.
    pub(crate) fn is_program(&self, event: &Event) -> bool {
        let is_own = |access: &Access| {
            self.program.iter().any(|&(segment, start, end)| {
                access.segment == segment && access.start < end && start < access.end
            })
        };
        event.accesses.as_deref().is_none_or(|all| all.iter().any(is_own))
    }

    /// Makes all departures visible; returns whether there was a new one.
    pub(crate) fn publish_departures(&mut self) -> bool {
        let mut news = false;
        for rank in (0..self.members.len() as u32).map(Rank) {
            if matches!(self.members[rank.index()].doing, Doing::Over)
                && self.store.peer_state(rank) == PeerState::Alive
            {
                self.store.set_gone(rank, None);
                news = true;
            }
        }
        news
    }

    /// Notes why a rank paused.
    pub(crate) fn pause(&mut self, rank: Rank, pause: Pause) {
        let departures = self.store.departures();
        let doing = match pause {
            Pause::Wait(wait) => {
                let member = self.member(rank);
                member.asleep = false;
                Doing::Waits { wait, id: EventId::wait(rank, member.looks) }
            }
            Pause::Own(access, what) => {
                Doing::Accesses { access, what, id: self.store.next_id(rank) }
            }
            Pause::Poll(asked) => {
                let again = self.members[rank.index()].polled == Some(asked);
                Doing::Polls { asked, id: self.store.next_id(rank), again }
            }
            Pause::Flush(target) => Doing::Flushes(Rank(target)),
            Pause::Relax => {
                let member = self.member(rank);
                let reads = std::mem::take(&mut member.reads);
                // A rank that has read nothing since it last relaxed does not poll: it lets time
                // pass, and need not be held up for that.
                if reads.is_empty() && member.pauses < PAUSES_MAX {
                    member.pauses += 1;
                    member.doing = Doing::Runs(Resume::Go(0, 0));
                    return;
                }
                member.pauses = 0;
                // A rank that has read something new may do something else now. Otherwise it would
                // only read the same again.
                let news =
                    std::mem::replace(&mut member.stale, false) || reads != member.reads_before;
                member.reads_before = reads;
                if news { Doing::Runs(Resume::Go(0, 0)) } else { Doing::Relaxes { departures } }
            }
            // Local work is no event, and takes no time that another rank could notice.
            Pause::Work(_ns) => Doing::Runs(Resume::Go(0, 0)),
            Pause::NeedsRoom => Doing::NeedsRoom,
            Pause::Prepared => Doing::Prepared,
        };
        self.member(rank).doing = doing;
    }

    /// Lets ranks go on whose reason to pause cannot be looked at too early: replies that have
    /// come, flushes that are done, departures.
    pub(crate) fn settle(&mut self) {
        for rank in (0..self.members.len() as u32).map(Rank) {
            let resume = match self.members[rank.index()].doing {
                Doing::Waits { wait, .. } => {
                    let wait = wait.get();
                    match wait.event {
                        Awaited::Done(asked) if self.store.reply_at(rank, asked).is_some() => {
                            Some(Resume::Go(0, 0))
                        }
                        Awaited::Words(_) if self.members[rank.index()].sees(wait).is_some() => {
                            None
                        }
                        _ if self.store.departures() != wait.known_departures => {
                            Some(Resume::Departure)
                        }
                        _ => None,
                    }
                }
                // There is no other way than to find it complete.
                Doing::Polls { asked, .. } if self.store.reply_at(rank, asked).is_some() => {
                    Some(Resume::Go(0, 0))
                }
                Doing::Flushes(target) if self.is_flushed(rank, target) => Some(Resume::Go(0, 0)),
                Doing::NeedsRoom if self.has_room(rank) => {
                    let member = &self.members[rank.index()];
                    member
                        .learned
                        .borrow_mut()
                        .extend(member.landed.iter().map(|&(.., step)| step));
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

    /// Returns the steps that must come before an event that is about to happen: those that its
    /// rank knew of when it came about, and those that a fence or a signal demands.
    pub(crate) fn causes(&self, id: EventId, before: impl Fn(usize, &mut Bits)) -> Bits {
        let of = id.as_unnoticed().unwrap_or(id);
        let Some(flight) = self.flights.iter().find(|flight| flight.id == of) else {
            return match self.members[id.rank.index()].doing {
                Doing::Waits { id: own, .. }
                | Doing::Accesses { id: own, .. }
                | Doing::Polls { id: own, .. }
                    if own == id || id.is_time_out() =>
                {
                    self.members[id.rank.index()].known.clone()
                }
                _ => Bits::default(),
            };
        };
        let mut causes = flight.known.clone().unwrap_or_default();
        let landed = &self.members[id.rank.index()].landed;
        let fenced = landed.iter().filter(|&&(to, epoch, _)| {
            flight.fenced && !flight.by_agent && to == flight.target && epoch < flight.epoch
        });
        for step in fenced.map(|&(.., step)| step).chain(flight.after_steps.iter().copied()) {
            if !causes.contains(step) {
                causes.insert(step);
                before(step, &mut causes);
            }
        }
        causes
    }

    /// The steps that a rank learned of through the last event.
    pub(crate) fn learned(&mut self, rank: usize) -> Vec<usize> {
        self.members[rank].learned.take()
    }

    /// Everything that can happen next: operations, the oldest first; waits; faults.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self
            .flights
            .iter()
            .filter(|flight| self.may_land(flight))
            .map(|flight| flight.event.clone())
            .collect();
        for member in &self.members {
            match member.doing {
                Doing::Accesses { access, what, id } => {
                    events.push(Event { id, accesses: Some(Rc::from([access])), what });
                }
                Doing::Polls { asked, id, again: false } => {
                    events.push(Event {
                        id,
                        accesses: self.bytes_of(id.rank, asked),
                        what: What::Poll,
                    });
                }
                _ => {}
            }
            let Doing::Waits { wait, id } = member.doing else {
                continue;
            };
            let wait = wait.get();
            if let Awaited::Words(conditions) = wait.event
                && member.sees(wait).is_some()
            {
                let accesses =
                    conditions.iter().map(|condition| word_access(condition.at, false)).collect();
                events.push(Event { id, accesses: Some(accesses), what: What::Wait });
            }
        }
        self.add_unnoticed(&mut events);
        self.add_time_outs(&mut events);
        self.add_faults(&mut events);
        events
    }

    /// The wait that an event would end, if it is a look at a word.
    pub(crate) fn wait_of(&self, id: EventId) -> Option<ParkedWait> {
        match self.members[id.rank.index()].doing {
            Doing::Waits { wait, id: waits } if waits == id => Some(wait),
            _ => None,
        }
    }

    /// Returns whether an event is possible now.
    pub(crate) fn may_happen(&self, id: EventId) -> bool {
        let of = id.vanishes().or(id.as_unnoticed()).unwrap_or(id);
        if id.is_time_out() {
            return self.may_time_out_now(id);
        }
        if id.is_death() || self.flights.iter().any(|flight| flight.id == of) {
            return true;
        }
        match self.members[id.rank.index()].doing {
            Doing::Waits { wait, id: waits } => {
                waits == id && self.members[id.rank.index()].sees(wait.get()).is_some()
            }
            Doing::Accesses { id: own, .. } => own == id,
            Doing::Polls { id: own, again, .. } => own == id && !again,
            _ => false,
        }
    }

    /// Makes an event happen, as a step of that number if it counts. A death must be followed by
    /// the end of the rank's fiber.
    pub(crate) fn happen(&mut self, id: EventId, step: Option<usize>) {
        self.held = None;
        if id.is_death() {
            return self.die(id.rank);
        }
        if id.is_time_out() {
            return self.time_out_early(id.rank, step);
        }
        if let Some(of) = id.vanishes() {
            return self.vanish(of, step);
        }
        let of = id.as_unnoticed().unwrap_or(id);
        if let Some(at) = self.flights.iter().position(|flight| flight.id == of) {
            if of != id {
                self.put_to_sleep(at);
            }
            // The order of the rest is the order of age, and stays so.
            let flight = self.flights.remove(at);
            self.land(flight, step);
            return;
        }
        let seen = match self.members[id.rank.index()].doing {
            Doing::Waits { wait, .. } => holds(wait.get()),
            Doing::Accesses { .. } | Doing::Polls { .. } => {
                match self.members[id.rank.index()].doing {
                    Doing::Accesses { access, what: What::Own, .. } => {
                        self.note_own(id.rank, access)
                    }
                    Doing::Polls { asked, .. } => self.member(id.rank).polled = Some(asked),
                    _ => {}
                }
                let member = self.member(id.rank);
                member.doing = Doing::Runs(Resume::Go(0, 0));
                member.learned.borrow_mut().extend(step);
                None
            }
            _ => None,
        };
        let member = self.member(id.rank);
        if let Some((which, value)) = seen {
            member.looks += 1;
            member.doing = Doing::Runs(Resume::Go(which, value));
            member.learned.borrow_mut().extend(step);
        }
    }

    /// Returns the rank that runs the handlers of a node, or the reason why there is none.
    pub(crate) fn runner(&self, node: Node) -> Result<Rank> {
        self.store.topology.first_left(node, |rank| match self.store.peer_state(rank) {
            // The others have not seen it yet.
            PeerState::Alive if matches!(self.members[rank.index()].doing, Doing::Over) => {
                PeerState::Left
            }
            peer_state => peer_state,
        })
    }
}

/// The number of posted operations that a rank may have in flight; the next one waits.
const POSTED_MAX: usize = 64;
/// The number of times in a row that a rank may relax without having read anything.
const PAUSES_MAX: u32 = 10_000;

/// Returns the index of a wait's condition that holds now, and the value that satisfies it.
pub(crate) fn holds(wait: &Wait<'_>) -> Option<(usize, u64)> {
    let Awaited::Words(conditions) = wait.event else {
        return None;
    };
    conditions.iter().enumerate().find_map(|(which, condition)| {
        let value = condition.memory.look(condition.at.offset, condition.at.width)?.load();
        (condition.until)(value).then_some((which, value))
    })
}

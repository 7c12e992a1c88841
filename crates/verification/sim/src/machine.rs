//! The simulated machine: memory, operations in flight, and waiting ranks.
//!
//! A rank that starts an operation puts it *in flight*, and goes on until it has to wait. The next
//! step, the landing of an operation or a waiter's look at its word, is an [`Event`] that the
//! oracle picks. Landing is a step of its own, so posted operations land in any order that the
//! memory model allows: fences and signals hold back what must come later, nothing else does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;

use farside_fabric::{
    CarriedOut, Event as Awaited, ExitCause, Node, Rank, Reply, Result, SegmentId, Ticket,
};

use crate::bits::Bits;
use crate::engine::Engine;
use crate::event::{Access, Event, EventId, Unseen, What};
use crate::fiber::{Pause, Resume};
use crate::flight::Flight;
use crate::landing::Untaken;
use crate::parked_wait::ParkedWait;
use crate::sleep::{Sleep, holds, looks};
use crate::store::{Body, Store, ticket, word_access};
use crate::tearing::parts;

pub(crate) enum Doing {
    Runs(Resume),
    /// It waits; its look at the word is an event of this name.
    Waits {
        wait: ParkedWait,
        id: EventId,
    },
    /// It is about to read or write these bytes of its own memory, an event of this name.
    Accesses {
        access: Access,
        what: What,
        id: EventId,
    },
    /// It is about to look whether an operation is complete, which is an event of this name, unless
    /// it has looked before: then it finds it complete.
    Polls {
        asked: Ticket,
        id: EventId,
        again: bool,
    },
    Flushes(Rank),
    /// It polls, and goes on when something that it has read was changed, or a rank departs.
    Relaxes {
        departures: u32,
    },
    Prepared,
    Over,
}

pub(crate) struct Member {
    pub(crate) doing: Doing,
    waits: u32,
    /// True if the time limit of its wait has ended: it notices that at any moment from now on,
    /// unless it sees its word before.
    pub(crate) expired: bool,
    pub(crate) sleep: Cell<Sleep>,
    /// The steps that it knew of when it began the wait that it is in.
    pub(crate) known: Bits,
    /// Its operations that have landed, and whose replies it has not taken: the steps.
    pub(crate) replied: Vec<(Ticket, usize)>,
    epoch: u32,
    /// The operations that it has found under way.
    pub(crate) polled: Vec<Ticket>,
    /// The version of memory at its last time-out, and the number of time-outs since then.
    pub(crate) time_outs: (u64, u32),
    /// The accesses that it has read since it last relaxed, and before that; and whether another
    /// rank has changed them since.
    pub(crate) reads: Vec<(Access, u64)>,
    pub(crate) reads_before: Vec<(Access, u64)>,
    pub(crate) stale: bool,
    /// What operations have read that have landed, and whose replies it has not taken.
    pub(crate) untaken: Vec<Untaken>,
    /// The number of times in a row that it has relaxed without reading anything.
    pauses: u32,
    /// Posted operations of this rank that have landed: the target, the number of fences before,
    /// and the step.
    pub(crate) landed: Vec<(Rank, u32, usize)>,
    /// Steps that it learned of through the last event.
    pub(crate) learned: RefCell<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FaultModel {
    pub(crate) deaths: u32,
    /// True if each node hears of a death at a time of its own; otherwise all hear of it at once.
    pub(crate) slow_news: bool,
    /// The number of waits whose time limit may end while something else can happen.
    pub(crate) time_outs: u32,
    /// True if a rank that looks at an operation finds it complete, or not.
    pub(crate) looks: bool,
    /// True if long puts and gets are torn.
    pub(crate) torn: bool,
}

pub(crate) struct Machine {
    pub(crate) store: Store,
    pub(crate) members: Vec<Member>,
    pub(crate) flights: Vec<Flight>,
    /// The deaths that nodes have not heard of.
    pub(crate) news: Vec<(Rank, Node)>,
    /// The faults that may still happen.
    pub(crate) fault_model: FaultModel,
    /// The number of times that nothing else could happen.
    pub(crate) quiets: u32,
    /// Grows whenever memory changes.
    pub(crate) version: u64,
    /// The value that the last atomic found in its word.
    pub(crate) held: Option<u64>,
    /// The words that were not right when a departure ended a wait for them, since the last event.
    pub(crate) looked: Vec<Access>,
    pub(crate) unseen: BTreeSet<Unseen>,
    /// True if stores of one rank to one word that may overtake each other are refused, and what
    /// was refused.
    pub(crate) refuses_unordered: bool,
    pub(crate) refusal: Option<String>,
    /// The memory that the program uses itself, and not a protocol below it: segments, and bytes
    /// of them.
    program: BTreeSet<(SegmentId, u64, u64)>,
    /// True if a rank was lost since all ranks were last settled.
    pub(crate) lost: bool,
    /// The atomics that were carried out and that no checker of races has asked for yet.
    pub(crate) carried_out: Rc<RefCell<Vec<CarriedOut>>>,
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
        // Gets and calls are held back by nothing, everything else by the fences before it.
        let fenced = !matches!(body, Body::Get { .. } | Body::Call { .. });
        let learned = self.members[origin.index()].learned.borrow().len();
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
                is_whole: true,
                by_agent,
                runner_died,
                body,
                event,
                learned,
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

    /// A fabric has a limit to what a rank has posted. Here that would only leave out the schedules
    /// in which all of it is under way.
    fn has_room(&self, _rank: Rank) -> bool {
        true
    }

    fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        let is_meant = |it: &Flight| it.is_posted_by(origin) && it.target == target;
        let flushed = !self.flights.iter().any(is_meant);
        if flushed {
            let member = &self.members[origin.index()];
            let landed =
                member.landed.iter().filter(|&&(to, ..)| to == target).map(|&(.., step)| step);
            member.learned.borrow_mut().extend(landed);
        }
        flushed
    }

    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        let polled = self.store.poll(rank, asked, 0);
        if !matches!(polled, Ok(None)) {
            self.note_taken(rank, asked);
        }
        polled
    }

    /// Gives up an operation whose buffer is gone. A get is gone with it; everything else happens
    /// all the same.
    fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.store.forget(rank, given_up);
        let member = self.member(rank);
        member.untaken.retain(|untaken| untaken.ticket != given_up);
        member.polled.retain(|polled| *polled != given_up);
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
            self.lost = true;
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

    fn carried_out(&self) -> Option<Rc<RefCell<Vec<CarriedOut>>>> {
        Some(self.carried_out.clone())
    }

    /// Schedules have an order, and no time.
    fn now_ns(&self, _rank: Rank) -> u64 {
        0
    }
}

impl Machine {
    pub(crate) fn new(mut store: Store, fault_model: FaultModel) -> Machine {
        let member = |_| Member {
            doing: Doing::Runs(Resume::Go(0, 0)),
            waits: 0,
            expired: false,
            sleep: Cell::new(Sleep::Awake),
            known: Bits::default(),
            replied: Vec::new(),
            epoch: 0,
            polled: Vec::new(),
            time_outs: (0, 0),
            reads: Vec::new(),
            untaken: Vec::new(),
            reads_before: Vec::new(),
            stale: false,
            pauses: 0,
            landed: Vec::new(),
            learned: RefCell::default(),
        };
        let members = (0..store.topology.ranks()).map(member).collect();
        if fault_model.slow_news {
            store.slow_news();
        }
        let (flights, unseen, program) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Machine {
            store,
            members,
            flights,
            news: Vec::new(),
            fault_model,
            quiets: 0,
            version: 1,
            held: None,
            looked: Vec::new(),
            unseen,
            refuses_unordered: false,
            refusal: None,
            program,
            lost: false,
            carried_out: Rc::default(),
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

    pub(crate) fn pause(&mut self, rank: Rank, pause: Pause) {
        let departures = self.store.departures_known_to(rank);
        let doing = match pause {
            Pause::Wait(wait) => {
                let member = self.member(rank);
                (member.sleep, member.expired) = (Cell::new(Sleep::Awake), false);
                member.waits += 1;
                Doing::Waits { wait, id: EventId::wait(rank, member.waits) }
            }
            Pause::Own(access, what) => {
                Doing::Accesses { access, what, id: self.store.next_id(rank) }
            }
            Pause::Poll(asked) => {
                let again = self.members[rank.index()].polled.contains(&asked);
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
            // There always is.
            Pause::NeedsRoom => Doing::Runs(Resume::Go(0, 0)),
            Pause::Prepared => Doing::Prepared,
        };
        self.member(rank).doing = doing;
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
                    if own == id || id.is_time_out() || id.is_expiry() || id.is_sleep() =>
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

    pub(crate) fn learned(&mut self, rank: usize) -> Vec<usize> {
        self.members[rank].learned.take()
    }

    /// The oldest operation or access that can happen next. It is older than all other events.
    pub(crate) fn oldest(&self) -> Option<EventId> {
        let own = self.members.iter().filter_map(|member| match member.doing {
            Doing::Accesses { id, .. } | Doing::Polls { id, again: false, .. } => Some(id),
            _ => None,
        });
        let flights = self.landable().map(|flight| flight.id);
        flights.chain(own).min_by_key(|id| (id.serial, id.rank))
    }

    /// Everything that can happen next: operations, the oldest first; waits; faults. If that is
    /// nothing, what becomes of it, if anything does.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.landable().map(|flight| flight.event.clone()).collect();
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
                events.push(Event { id, accesses: Some(looks(conditions)), what: What::Wait });
            }
        }
        self.add_unnoticed(&mut events);
        self.add_sleeps(&mut events);
        self.add_expiries(&mut events);
        self.add_vanishings(&mut events);
        self.add_news(&mut events);
        if events.is_empty() {
            events.extend(self.quiet());
        }
        self.add_time_outs(&mut events);
        self.add_deaths(&mut events);
        events
    }

    /// The wait that an event would end, if it is a look at a word.
    pub(crate) fn wait_of(&self, id: EventId) -> Option<ParkedWait> {
        match self.members[id.rank.index()].doing {
            Doing::Waits { wait, id: waits } if waits == id => Some(wait),
            _ => None,
        }
    }

    /// Returns whether an event of an earlier run is possible now, too, as far as that can be told
    /// at little cost.
    pub(crate) fn may_happen(&self, event: &Event) -> bool {
        let id = event.id;
        if id.is_quiet() {
            return self.enabled().contains(event);
        }
        if let Some(node) = id.as_news() {
            return self.news.contains(&(id.rank, node));
        }
        let member = &self.members[id.rank.index()];
        if id.is_death() {
            return self.fault_model.deaths > 0 && !matches!(member.doing, Doing::Over);
        }
        let of = id.vanishes().or(id.as_executed()).or(id.as_unnoticed());
        if let Some(flight) = self.flights.iter().find(|flight| flight.id == of.unwrap_or(id)) {
            return of.is_some() || (flight.event == *event && self.may_land(flight));
        }
        match member.doing {
            Doing::Waits { wait, id: waits } => {
                let is_over = member.sees(wait.get()).is_some();
                let Awaited::Words(conditions) = wait.get().event else {
                    return false;
                };
                match waits == id {
                    _ if id.is_sleep() => id == EventId::sleep(waits) && member.may_sleep_on(),
                    true => is_over && event.accesses == Some(looks(conditions)),
                    false => !is_over && self.may_time_out_now(id),
                }
            }
            Doing::Accesses { id: own, access, what } => {
                own == id && what == event.what && event.accesses.as_deref() == Some(&[access])
            }
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
        if let Some(node) = id.as_news() {
            return self.tell(id.rank, node);
        }
        if id.is_quiet() {
            return self.be_quiet();
        }
        if id.is_time_out() || id.is_expiry() {
            return self.time_out(id, step);
        }
        if id.is_sleep() {
            return self.member(id.rank).sleep.set(Sleep::Asleep);
        }
        if let Some(of) = id.vanishes() {
            return self.vanish(of, step);
        }
        if let Some(of) = id.as_executed() {
            return self.execute_unanswered(of, step);
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
                    Doing::Polls { asked, .. } => self.member(id.rank).polled.push(asked),
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
            member.doing = Doing::Runs(Resume::Go(which, value));
            member.learned.borrow_mut().extend(step);
        }
    }
}

/// The number of times in a row that a rank may relax without having read anything.
const PAUSES_MAX: u32 = 10_000;

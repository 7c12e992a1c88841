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

use farside_fabric::{CarriedOut, ExitCause, Node, Rank, Reply, Result, SegmentId, Ticket};

use crate::body::{Body, ticket, word_access};
use crate::engine::Engine;
use crate::event::{Access, Event, EventId, Unseen};
use crate::fiber::{Pause, Resume};
use crate::flight::Flight;
use crate::member::{Doing, Member, Sleep};
use crate::store::Store;
use crate::tearing::parts;

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
            let mut flight = Flight::new(id, target, body, posted);
            if let (Some(count), Some(all)) = (count, &mut flight.event.accesses) {
                *all = all.iter().copied().chain([word_access(count, true)]).collect();
            }
            Flight { whole, epoch, fenced, after, learned, ..flight }
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
        let members = (0..store.topology.ranks()).map(|_| Member::default()).collect();
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

    pub(crate) fn learned(&mut self, rank: usize) -> Vec<usize> {
        self.members[rank].learned.take()
    }
}

/// The number of times in a row that a rank may relax without having read anything.
const PAUSES_MAX: u32 = 10_000;

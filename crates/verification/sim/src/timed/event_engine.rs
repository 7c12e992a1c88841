//! The machine that keeps time: every operation takes what the network model says, and things
//! happen in the order of their times.
//!
//! An operation takes effect at its target when it arrives there, in the order of arrival, and
//! counts as done when its carrier has worked it off: so an operation is one entry of the queue. To
//! one target, operations of a rank arrive in the order in which they were sent.

use farside_fabric::tracing::Slice;
use farside_fabric::{
    Atomic, Event as Awaited, ExitCause, Kind, Node, PeerState, Rank, Reply, Result, SegmentId,
    Ticket, Wait,
};

use super::contention::Contention;
use super::flight::{Entry, Flight, Role};
use super::links::Links;
use super::member::{Doing, Go, Hints, Member, Tick, Watched};
use super::network::{Arrival, Back, Network, Sent};
use super::prefetch::Prefetcher;
use super::queue::Queue;
use super::response::Responses;
use crate::body::{Body, ticket};
use crate::engine::Engine;
use crate::event::EventId;
use crate::execution::{Outcome, Posted};
use crate::fiber::{Pause, Resume};
use crate::fibers::Fibers;
use crate::parked_wait::holds;
use crate::store::Store;

/// The time until waiting ranks hear of a departure.
const DEPARTURE_NS: u64 = 1_000_000;
/// The time between two looks of a rank that polls.
const RELAX_NS: u64 = 20;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) waits: u64,
    pub(crate) bytes: u64,
    pub(crate) hash: u64,
}

pub(crate) struct EventEngine {
    pub(super) store: Store,
    pub(super) network: Network,
    pub(super) contention: Contention,
    pub(super) responses: Option<Responses>,
    pub(super) members: Vec<Member>,
    pub(super) links: Links,
    pub(super) flights: Vec<Option<Flight>>,
    pub(super) free_flights: Vec<u32>,
    pub(super) queue: Queue<Entry>,
    pub(super) now_ns: u64,
    pub(super) telling: bool,
    pub(crate) counted: Counted,
    pub(crate) slices: Option<Vec<Slice>>,
    /// Since when each rank waits, and in what, as far as a trace shows it.
    pub(super) paused: Vec<(u64, Option<Kind>)>,
}

pub(crate) enum Next {
    Run(usize, Resume),
    /// Nothing will ever happen again.
    Nothing,
}

impl EventEngine {
    pub(super) fn new(
        store: Store,
        network: Network,
        contention: Contention,
        responses: Option<Responses>,
        traced: bool,
    ) -> EventEngine {
        let member = |rank: u32| Member {
            doing: Doing::Scheduled,
            go: Go::Ready(0, 0),
            clock_ns: 0,
            watched: [Watched::new(SegmentId::ROOT, 0); 2],
            posted: 0,
            fetching: 0,
            node: store.topology.node_of(Rank(rank)).0,
            serial: 0,
            watches_more: false,
            timer: Tick::NEVER,
            deadline_ns: u64::MAX,
            stolen_ns: u64::MAX,
            hints: Hints::NONE,
        };
        let ranks = store.topology.ranks();
        let mut engine = EventEngine {
            members: (0..ranks).map(member).collect(),
            links: Links::new(),
            store,
            network,
            contention,
            responses,
            flights: Vec::new(),
            free_flights: Vec::new(),
            queue: Queue::new(),
            now_ns: 0,
            telling: false,
            counted: Counted::default(),
            slices: traced.then(Vec::new),
            paused: vec![(0, None); if traced { ranks as usize } else { 0 }],
        };
        for rank in 0..ranks {
            engine.push(0, Entry::Resumes(rank));
        }
        engine
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the time at which the last rank was done.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.members.iter().map(|member| member.clock_ns).max().unwrap_or(0)
    }

    /// Lets things happen until a rank has to run.
    pub(crate) fn next(&mut self, fibers: &Fibers) -> Next {
        loop {
            let prefetcher = Prefetcher {
                flights: &self.flights,
                members: &self.members,
                links: &self.links,
                fibers,
            };
            let Some((at_ns, entry)) = self.queue.pop(|entry, soon| prefetcher.fetch(entry, soon))
            else {
                return Next::Nothing;
            };
            self.now_ns = at_ns;
            match entry {
                Entry::Arrives(index) => self.arrives(index),
                Entry::Departures => self.tell_departures(),
                Entry::Timer(rank) => self.timer(rank),
                Entry::Rings(rank) => self.rings(rank),
                Entry::Repeated(index) => self.repeated(index),
                Entry::Resumes(rank) => {
                    let member = &mut self.members[rank as usize];
                    let node = member.node as usize;
                    let seen_ns = std::mem::replace(&mut member.stolen_ns, u64::MAX);
                    if seen_ns < u64::MAX {
                        // The agent took the processor while the rank was computing: that much is
                        // still to be done.
                        let stolen_ns = self.network.stolen_ns(node);
                        if stolen_ns > seen_ns {
                            member.stolen_ns = stolen_ns;
                            self.push(at_ns + (stolen_ns - seen_ns), entry);
                            continue;
                        }
                    }
                    member.clock_ns = at_ns;
                    let resume = match member.go {
                        Go::Ready(which, value) => Resume::Go(which as usize, value),
                        Go::Departure => Resume::Departure,
                        Go::TimedOut => Resume::TimedOut,
                    };
                    self.record_wait(rank, at_ns);
                    return Next::Run(rank as usize, resume);
                }
            }
        }
    }

    pub(crate) fn pause(&mut self, rank: usize, pause: Pause) {
        let member = &mut self.members[rank];
        let clock_ns = member.clock_ns;
        self.counted.waits += u64::from(matches!(pause, Pause::Wait(_) | Pause::Flush(_)));
        if let Some(paused) = self.paused.get_mut(rank) {
            let kind = match pause {
                Pause::Wait(wait) if matches!(wait.get().event, Awaited::Words(_)) => {
                    Some(Kind::Wait)
                }
                Pause::Flush(_) => Some(Kind::Flush),
                // The trace has the awaited operation already.
                _ => None,
            };
            *paused = (clock_ns, kind);
        }
        match pause {
            Pause::Wait(wait) => {
                if let Some(responses) = &mut self.responses
                    && let Some(rings_ns) =
                        responses.set_clock(rank, clock_ns, &mut self.contention)
                {
                    self.push(rings_ns, Entry::Rings(rank as u32));
                }
                self.wait(rank, wait);
            }
            Pause::Flush(target) => {
                member.doing = Doing::Flushes(Rank(target));
                self.go_on_if_flushed(rank, Rank(target));
            }
            Pause::Relax => self.schedule(rank, clock_ns + RELAX_NS, Go::Ready(0, 0)),
            Pause::Work(ns) => {
                member.stolen_ns = self.network.stolen_ns(member.node as usize);
                let ns = self.network.work_ns(ns);
                self.schedule(rank, clock_ns + ns, Go::Ready(0, 0));
            }
            // Own memory costs nothing.
            Pause::Own(..) | Pause::Poll(_) => self.schedule(rank, clock_ns, Go::Ready(0, 0)),
            Pause::NeedsRoom => member.doing = Doing::NeedsRoom,
            Pause::Prepared => member.doing = Doing::Prepared,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(|member| matches!(member.doing, Doing::Over))
    }

    /// If every rank is prepared: lets all go on together, starts counting, and returns the time.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if !self.members.iter().all(|member| matches!(member.doing, Doing::Prepared | Doing::Over))
        {
            return None;
        }
        let begin_ns = self.members.iter().map(|member| member.clock_ns).max().unwrap_or(0);
        for rank in 0..self.members.len() {
            if matches!(self.members[rank].doing, Doing::Prepared) {
                self.schedule(rank, begin_ns, Go::Ready(0, 0));
            }
        }
        self.counted = Counted::default();
        self.contention.forget();
        if let Some(slices) = &mut self.slices {
            slices.clear();
        }
        Some(begin_ns)
    }

    pub(super) fn push(&mut self, at_ns: u64, entry: Entry) {
        self.queue.push(at_ns, entry);
    }

    pub(super) fn schedule(&mut self, rank: usize, at_ns: u64, go: Go) {
        let member = &mut self.members[rank];
        member.doing = Doing::Scheduled;
        member.go = go;
        member.deadline_ns = u64::MAX;
        let at_ns = at_ns.max(member.clock_ns);
        self.push(at_ns, Entry::Resumes(rank as u32));
    }

    fn set_gone(&mut self, rank: Rank, lost: Option<ExitCause>) {
        self.store.set_gone(rank, lost);
        if !std::mem::replace(&mut self.telling, true) {
            self.push(self.now_ns + DEPARTURE_NS, Entry::Departures);
        }
    }

    fn add_flight(&mut self, flight: Flight, arrives_ns: u64) {
        let index = match self.free_flights.pop() {
            Some(index) => {
                self.flights[index as usize] = Some(flight);
                index
            }
            None => {
                self.flights.push(Some(flight));
                self.flights.len() as u32 - 1
            }
        };
        self.push(arrives_ns, Entry::Arrives(index));
    }

    /// A clock goes off: the message that it watches over may have to be sent again.
    fn rings(&mut self, rank: u32) {
        let Some(responses) = &mut self.responses else { return };
        let (members, network) = (&self.members, &mut self.network);
        let again = responses.rings(rank, members, self.now_ns, network, &mut self.contention);
        for (at_ns, entry) in again.into_iter().flatten() {
            self.push(at_ns, entry);
        }
    }

    fn repeated(&mut self, index: u32) {
        if let Some(responses) = &mut self.responses {
            let (members, network) = (&self.members, &mut self.network);
            responses.repeated(index, members, self.now_ns, network, &self.contention);
        }
    }

    /// An operation has arrived: it takes effect, and its origin hears of it when it is done.
    fn arrives(&mut self, index: u32) {
        if let Some(again_ns) = self.resend_ns(index) {
            return self.push(again_ns, Entry::Arrives(index));
        }
        self.free_flights.push(index);
        // It may have been given up meanwhile.
        let Some(flight) = self.flights[index as usize].take() else {
            return;
        };
        let (origin, target) = (flight.id.rank, flight.target);
        let node = self.members[target.index()].node as usize;
        let Outcome { reply, posted } = self.store.execute(origin, target, &flight.body, &[]);
        let arrival = Arrival {
            route: flight.route,
            node,
            target,
            body: &flight.body,
            at_ns: self.now_ns,
            missed: has_missed(&flight.body, &reply),
            by: flight.role.into(),
            is_message: self.network.ranks_take_messages && self.store.is_message(&flight.body),
        };
        let done_ns = match flight.piggybacked {
            true => self.network.carried_out(&arrival),
            false => self.network.carry_out(&arrival),
        };
        let bytes_back = match (&flight.body, &reply) {
            (Body::Get { pieces, .. }, Ok(_)) => pieces.iter().map(|piece| piece.bytes).sum(),
            (_, Ok(Reply::Bytes(bytes))) => bytes.len() as u64,
            _ => 0,
        };
        let (back_ns, lost) = self.network.back_ns(&Back {
            route: flight.route,
            from: node,
            to: self.members[origin.index()].node as usize,
            now_ns: self.now_ns,
            done_ns,
            bytes: bytes_back,
            is_answered: self.network.is_answered(&arrival),
        });
        self.contention.count(flight.flow(), lost);
        self.record(&flight, done_ns, back_ns, bytes_back);
        match flight.role {
            Role::Fetching => self.answer(&flight, back_ns, reply),
            Role::Posted => {
                if let Some(count) = self.store.count_landing(origin, target, &flight.body) {
                    self.look(count.rank.index(), done_ns);
                }
                self.acknowledge(&flight, back_ns, reply);
            }
            Role::ByAgent => {}
        }
        if matches!(flight.body, Body::Call { .. }) {
            self.launch_for_agent(node, posted, done_ns);
            for at in 0..self.store.topology.ranks_of(Node(node as u32)).len() {
                let rank = self.store.topology.ranks_of(Node(node as u32))[at];
                self.look(rank.index(), done_ns);
            }
        } else {
            // A rank that waits on one or two words is looked at only if one of them was touched.
            let member = &self.members[target.index()];
            match flight.body {
                Body::Atomic { at, .. } if !member.may_wait_on(at) => {}
                _ => self.look(target.index(), done_ns),
            }
        }
    }

    fn answer(&mut self, flight: &Flight, back_ns: u64, reply: Result<Reply>) {
        let origin = flight.id.rank.index();
        self.store.answer(flight.id, back_ns, reply);
        self.members[origin].fetching -= 1;
        if let Doing::Waits(wait) = self.members[origin].doing
            && matches!(wait.get().event, Awaited::Done(asked) if asked == ticket(flight.id))
        {
            self.schedule(origin, back_ns, Go::Ready(0, 0));
        }
    }

    fn acknowledge(&mut self, flight: &Flight, back_ns: u64, reply: Result<Reply>) {
        let (origin, target) = (flight.id.rank, flight.target);
        if let Err(error) = reply {
            self.store.fail_later(origin, target, error);
        }
        let member = &mut self.members[origin.index()];
        member.posted -= 1;
        let link = self.links.enter(origin, target, self.now_ns);
        link.posted -= 1;
        link.acknowledged_ns = link.acknowledged_ns.max(back_ns);
        match member.doing {
            Doing::Flushes(flushed) if flushed == target => {
                self.go_on_if_flushed(origin.index(), target)
            }
            Doing::NeedsRoom => self.schedule(origin.index(), back_ns, Go::Ready(0, 0)),
            Doing::Over => self.leave_if_done(origin),
            _ => {}
        }
    }

    fn go_on_if_flushed(&mut self, rank: usize, target: Rank) {
        let link = self.links.get(Rank(rank as u32), target);
        if link.posted == 0 {
            self.schedule(rank, link.acknowledged_ns, Go::Ready(0, 0));
        }
    }

    fn leave_if_done(&mut self, rank: Rank) {
        let member = &self.members[rank.index()];
        if matches!(member.doing, Doing::Over)
            && member.posted == 0
            && self.store.peer_state(rank) == PeerState::Alive
        {
            self.set_gone(rank, None);
        }
    }

    /// The operations that a handler has posted to other nodes leave when it is done.
    fn launch_for_agent(&mut self, node: usize, all: Vec<Posted>, done_ns: u64) {
        let mut last_ns = 0;
        for Posted { target, body, after_previous } in all {
            let Ok(leader) = self.store.topology.leader_of(Node(node as u32)) else {
                return;
            };
            let id = self.members[leader.index()].next_id(leader);
            let route = self.network.route(&self.store.topology, leader, target);
            let sent = self.network.send_by_interface(route, node, done_ns, body.bytes());
            let arrives_ns = sent.arrives_ns.max(if after_previous { last_ns } else { 0 });
            last_ns = arrives_ns;
            let word = self.store.hint(&body);
            let (role, piggybacked) = (Role::ByAgent, false);
            let flight =
                Flight { id, target, route, role, piggybacked, sent_ns: done_ns, word, body };
            self.contention.count(flight.flow(), sent.lost);
            self.add_flight(flight, arrives_ns);
        }
    }
}

/// Returns whether an atomic has left its word as it was: a load, or a compare-swap that found
/// another value.
fn has_missed(body: &Body, reply: &Result<Reply>) -> bool {
    match (body, reply) {
        (Body::Atomic { op: Atomic::Load, .. }, _) => true,
        (Body::Atomic { op: Atomic::CompareSwap { expected, .. }, .. }, Ok(Reply::Word(old))) => {
            old != expected
        }
        _ => false,
    }
}

impl Engine for EventEngine {
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
        let route = self.network.route(&self.store.topology, origin, target);
        let member = &mut self.members[origin.index()];
        let id = member.next_id(origin);
        let begin_ns = member.clock_ns;
        let piggybacked = after.is_some() && self.network.is_message(route);
        let sent = match piggybacked {
            true => Sent { free_ns: begin_ns, arrives_ns: begin_ns, lost: 0 },
            false => self.network.send(route, member.node as usize, begin_ns, body.bytes()),
        };
        member.clock_ns = sent.free_ns;
        let role = if posted { Role::Posted } else { Role::Fetching };
        let mut arrives_ns = sent.arrives_ns;
        // Operations to the same target arrive in the order of sending; a get may overtake.
        if posted || !matches!(body, Body::Get { .. }) {
            let link = self.links.enter(origin, target, self.now_ns);
            arrives_ns = arrives_ns.max(link.arrives_ns);
            link.arrives_ns = arrives_ns;
            link.posted += u32::from(posted);
        }
        if posted {
            member.posted += 1;
        } else {
            member.fetching += 1;
            self.store.expect(id);
        }
        let word = self.store.hint(&body);
        let flight = Flight { id, target, route, role, piggybacked, sent_ns: begin_ns, word, body };
        self.contention.count(flight.flow(), sent.lost);
        if let Some(responses) = &mut self.responses
            && posted
            && matches!(flight.body, Body::Put { .. })
            && self.network.is_message(route)
        {
            responses.watch_over(flight.flow(), route, flight.body.bytes(), sent.free_ns);
        }
        self.add_flight(flight, arrives_ns);
        id
    }

    /// To one target, everything arrives in order anyway.
    fn fence(&mut self, _rank: Rank) {}

    fn has_room(&self, rank: Rank) -> bool {
        self.members[rank.index()].posted < self.network.outstanding
    }

    fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        let link = self.links.get(origin, target);
        link.posted == 0 && link.acknowledged_ns <= self.members[origin.index()].clock_ns
    }

    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        let clock_ns = self.members[rank.index()].clock_ns;
        self.store.poll(rank, asked, clock_ns)
    }

    fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.store.forget(rank, given_up);
        self.drop_flights(rank, |flight| ticket(flight.id) == given_up);
    }

    fn depart(&mut self, rank: Rank, lost: Option<ExitCause>) {
        self.members[rank.index()].doing = Doing::Over;
        if self.members[rank.index()].fetching > 0 {
            // Buffers of a fiber that is gone must not be written any more.
            self.drop_flights(rank, |flight| flight.role == Role::Fetching);
        }
        match lost {
            Some(how) => self.set_gone(rank, Some(how)),
            None => self.leave_if_done(rank),
        }
    }

    /// A look at own memory sees what is there, and takes no time.
    fn holds_already(&self, wait: &Wait<'_>) -> Option<(usize, u64)> {
        holds(wait)
    }

    fn now_ns(&self, rank: Rank) -> u64 {
        self.members[rank.index()].clock_ns
    }

    fn repeats(&self, rank: Rank) -> u64 {
        self.contention.repeats(rank)
    }
}

impl EventEngine {
    /// Returns the time at which an operation that is lost on arrival comes again.
    fn resend_ns(&mut self, index: u32) -> Option<u64> {
        let flight = self.flights[index as usize].as_ref()?;
        let flow = flight.flow();
        let (node, route) = (self.members[flow.target.index()].node as usize, flight.route);
        let others =
            if flight.piggybacked { 0 } else { self.network.waiting(route, node, self.now_ns) };
        if flight.role == Role::ByAgent || !self.network.is_message(route) {
            return None;
        }
        self.contention.resend_ns(flow, others, self.now_ns)
    }

    fn drop_flights(&mut self, rank: Rank, which: impl Fn(&Flight) -> bool) {
        let mut dropped = 0;
        for slot in &mut self.flights {
            if slot.as_ref().is_some_and(|flight| flight.id.rank == rank && which(flight)) {
                *slot = None;
                dropped += 1;
            }
        }
        self.members[rank.index()].fetching -= dropped;
    }
}

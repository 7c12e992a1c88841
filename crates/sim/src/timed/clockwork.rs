//! The machine that keeps time: every operation takes what the network model says, and things happen in the order of their times.
//!
//! An operation takes effect at its target when it arrives there, in the order of arrival, and counts as done when its carrier has worked it off: so an
//! operation is one entry of the queue. To one target, operations of a rank arrive in the order in which they were sent.

use farside_fabric::tracing::Slice;
use farside_fabric::{
    Ended, Event as Awaited, Fate, Kind, Node, Operation, Rank, Reply, Result, SegmentId, Ticket, Wait,
};
use rustc_hash::FxHashMap;

use super::network::{Costs, Network};
use super::queue::Queue;
use crate::engine::Engine;
use crate::event::EventId;
use crate::fiber::{Pause, Resume};
use crate::machine::holds;
use crate::prefetch;
use crate::reach::Posted;
use crate::store::{Body, Outcome, Store, ticket};

/// How long it takes until ranks that wait hear of a departure.
const ALARM_NS: u64 = 1_000_000;
/// What a rank that polls does between two looks.
const RELAX_NS: u64 = 20;

/// The largest word: whatever overlaps lies in one block of this size.
const BLOCK: u64 = 16;

/// An operation in flight.
struct Flight {
    id: EventId,
    target: Rank,
    costs: Costs,
    sent_ns: u64,
    role: Role,
    /// Where its word is, as a hint.
    word: *const u8,
    body: Body,
}

/// Who cares for the end of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its rank waits for the reply.
    Fetching,
    /// Its rank posted it.
    Posted,
    /// A handler posted it.
    ByAgent,
}

/// What a rank is doing.
#[derive(Clone, Copy)]
enum Doing {
    /// It will run when its entry of the queue comes.
    Scheduled,
    Waits(*const Wait<'static>),
    Flushes(Rank),
    NeedsRoom,
    Prepared,
    Over,
}

struct Member {
    doing: Doing,
    /// The words that it waits on, as far as there are no more.
    watched: [(SegmentId, u64); 2],
    watches_more: bool,
    node: usize,
    /// Its own time.
    clock_ns: u64,
    /// When its wait is over, if it has a time limit; and whether a timer is set that will look at it.
    deadline_ns: Option<u64>,
    has_timer: bool,
    /// Posted operations that have not arrived, and fetching ones.
    posted: u32,
    fetching: u32,
    /// What it posted to each target.
    lanes: FxHashMap<Rank, Lane>,
    /// Until when it works, and how much of its host's time the agent had taken when it last looked.
    stolen_ns: Option<u64>,
    paused_ns: u64,
    /// Somewhere on its stack, near to where it waits.
    stack_hint: *const u8,
}

/// From one rank to another.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// When the last operation arrives.
    arrives_ns: u64,
    /// How many posted operations are under way.
    posted: u32,
    /// When the last acknowledgement is back, of those that have arrived.
    acknowledged_ns: u64,
}

/// Something in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Arrives(u32),
    Resumes(u32, Go),
    Timer(u32),
    Alarms,
}

/// Why a rank resumes, as an entry of the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Go {
    Ready(u32, u64),
    Alarm,
    TimedOut,
}

/// Fetches what an entry will need into the processor's caches: what it names first, and then what that leads to.
fn fetch(entry: Entry, soon: u32, flights: &[Option<Flight>], members: &[Member]) {
    /// What a rank has on its stack beside its wait, below it and above it.
    const FRAMES: (usize, usize) = (8, 16);
    match (entry, soon) {
        (Entry::Arrives(index), 2) => prefetch::value(&flights[index as usize]),
        (Entry::Arrives(index), 1) => {
            if let Some(flight) = &flights[index as usize] {
                prefetch::lines(flight.word, 1);
                prefetch::value(&members[flight.target.index()]);
            }
        }
        (Entry::Arrives(index), _) => {
            if let Some(flight) = &flights[index as usize]
                && let Doing::Waits(wait) = members[flight.target.index()].doing
            {
                prefetch::lines(wait.cast(), 2);
            }
        }
        (Entry::Resumes(rank, _), 2) => prefetch::value(&members[rank as usize]),
        (Entry::Resumes(rank, _), 1) => {
            let hint = members[rank as usize].stack_hint;
            prefetch::lines(hint.wrapping_sub(FRAMES.0 * 64), FRAMES.0 + FRAMES.1);
        }
        _ => {}
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) hash: u64,
}

/// The machine.
pub(crate) struct Clockwork {
    store: Store,
    network: Network,
    members: Vec<Member>,
    flights: Vec<Option<Flight>>,
    free_flights: Vec<u32>,
    queue: Queue<Entry>,
    now_ns: u64,
    alarming: bool,
    pub(crate) counted: Counted,
    pub(crate) slices: Option<Vec<Slice>>,
}

/// What the driver is to do next.
pub(crate) enum Next {
    /// Let a rank run.
    Run(usize, Resume),
    /// Nothing will ever happen again.
    Nothing,
}

impl Clockwork {
    pub(crate) fn new(store: Store, network: Network, traced: bool) -> Clockwork {
        let member = |rank: u32| Member {
            doing: Doing::Scheduled,
            watched: [(SegmentId::ROOT, 0); 2],
            watches_more: false,
            node: store.topology.node_of(Rank(rank)).0 as usize,
            clock_ns: 0,
            deadline_ns: None,
            has_timer: false,
            posted: 0,
            fetching: 0,
            lanes: FxHashMap::default(),
            stolen_ns: None,
            paused_ns: 0,
            stack_hint: std::ptr::null(),
        };
        let ranks = store.topology.ranks();
        let mut clockwork = Clockwork {
            members: (0..ranks).map(member).collect(),
            store,
            network,
            flights: Vec::new(),
            free_flights: Vec::new(),
            queue: Queue::new(),
            now_ns: 0,
            alarming: false,
            counted: Counted::default(),
            slices: traced.then(Vec::new),
        };
        for rank in 0..ranks {
            clockwork.push(0, Entry::Resumes(rank, Go::Ready(0, 0)));
        }
        clockwork
    }

    /// The time that has come.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When the last rank was done.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.members.iter().map(|member| member.clock_ns).max().unwrap_or(0)
    }

    /// Lets things happen until a rank has to run.
    pub(crate) fn next(&mut self) -> Next {
        while let Some((at_ns, entry)) = self.queue.pop(|entry, soon| fetch(entry, soon, &self.flights, &self.members))
        {
            self.now_ns = at_ns;
            match entry {
                Entry::Arrives(index) => self.arrives(index),
                Entry::Alarms => self.raise_alarm(),
                Entry::Timer(rank) => self.timer(rank),
                Entry::Resumes(rank, go) => {
                    let member = &mut self.members[rank as usize];
                    let node = member.node;
                    if let Some(seen_ns) = member.stolen_ns.take() {
                        // The agent took the processor while the rank was computing: that much is still to be done.
                        let stolen_ns = self.network.stolen_ns(node);
                        if stolen_ns > seen_ns {
                            member.stolen_ns = Some(stolen_ns);
                            self.push(at_ns + (stolen_ns - seen_ns), entry);
                            continue;
                        }
                    }
                    member.clock_ns = at_ns;
                    self.note_wait(rank, at_ns);
                    let resume = match go {
                        Go::Ready(which, value) => Resume::Go(which as usize, value),
                        Go::Alarm => Resume::Alarm,
                        Go::TimedOut => Resume::TimedOut,
                    };
                    return Next::Run(rank as usize, resume);
                }
            }
        }
        Next::Nothing
    }

    /// A rank has paused.
    pub(crate) fn pause(&mut self, rank: usize, pause: Pause) {
        let member = &mut self.members[rank];
        let clock_ns = member.clock_ns;
        member.paused_ns = clock_ns;
        match pause {
            Pause::Wait(wait) => self.wait(rank, wait),
            Pause::Flush(target) => {
                member.doing = Doing::Flushes(Rank(target));
                self.go_on_if_flushed(rank, Rank(target));
            }
            Pause::Relax => self.schedule(rank, clock_ns + RELAX_NS, Go::Ready(0, 0)),
            Pause::Work(ns) => {
                member.stolen_ns = Some(self.network.stolen_ns(member.node));
                self.schedule(rank, clock_ns + ns, Go::Ready(0, 0));
            }
            Pause::NeedsRoom => member.doing = Doing::NeedsRoom,
            Pause::Prepared => member.doing = Doing::Prepared,
        }
    }

    /// Whether every rank has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(|member| matches!(member.doing, Doing::Over))
    }

    /// If everybody is prepared: all go on together, and counting begins. Returns the time.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if !self.members.iter().all(|member| matches!(member.doing, Doing::Prepared | Doing::Over)) {
            return None;
        }
        let begin_ns = self.members.iter().map(|member| member.clock_ns).max().unwrap_or(0);
        for rank in 0..self.members.len() {
            if matches!(self.members[rank].doing, Doing::Prepared) {
                self.schedule(rank, begin_ns, Go::Ready(0, 0));
            }
        }
        self.counted = Counted::default();
        if let Some(slices) = &mut self.slices {
            slices.clear();
        }
        Some(begin_ns)
    }

    /// Who waits for what, when nothing can happen any more.
    pub(crate) fn stuck(&self) -> String {
        const SHOWN: usize = 8;
        let waiting = self.members.iter().enumerate().filter_map(|(rank, member)| match member.doing {
            Doing::Over => None,
            Doing::Prepared => Some(format!("rank {rank} is prepared")),
            Doing::Scheduled => Some(format!("rank {rank} runs")),
            Doing::Flushes(target) => Some(format!("rank {rank} waits for what it posted to {target}")),
            Doing::NeedsRoom => Some(format!("rank {rank} waits for one of its posted operations to land")),
            // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
            Doing::Waits(wait) => Some(crate::stuck::waiting(rank, unsafe { &*wait })),
        });
        let all: Vec<String> = waiting.collect();
        let more = all.len().saturating_sub(SHOWN);
        let shown = all[..all.len().min(SHOWN)].join("; ");
        if more > 0 { format!("{shown}; and {more} more") } else { shown }
    }

    fn push(&mut self, at_ns: u64, entry: Entry) {
        self.queue.push(at_ns, entry);
    }

    fn schedule(&mut self, rank: usize, at_ns: u64, go: Go) {
        let member = &mut self.members[rank];
        member.doing = Doing::Scheduled;
        member.deadline_ns = None;
        let at_ns = at_ns.max(member.clock_ns);
        self.push(at_ns, Entry::Resumes(rank as u32, go));
    }

    fn wait(&mut self, rank: usize, wait: *const Wait<'static>) {
        let clock_ns = self.members[rank].clock_ns;
        self.members[rank].doing = Doing::Waits(wait);
        self.members[rank].stack_hint = wait.cast();
        // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
        let wait = unsafe { &*wait };
        match wait.event {
            Awaited::Done(asked) => {
                if let Some(reply_ns) = self.store.reply_at(Rank(rank as u32), asked) {
                    return self.schedule(rank, reply_ns, Go::Ready(0, 0));
                }
            }
            Awaited::Words(conditions) => {
                if let Some((which, value)) = holds(wait) {
                    return self.schedule(rank, clock_ns, Go::Ready(which as u32, value));
                }
                let member = &mut self.members[rank];
                for (watched, word) in member.watched.iter_mut().zip(conditions) {
                    *watched = (word.at.segment, word.at.offset);
                }
                member.watches_more = conditions.len() > member.watched.len();
            }
        }
        if wait.known_departures != self.store.departures() {
            return self.schedule(rank, clock_ns, Go::Alarm);
        }
        if let Some(timeout) = wait.timeout {
            let deadline_ns = clock_ns.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
            let member = &mut self.members[rank];
            member.deadline_ns = Some(deadline_ns);
            if !std::mem::replace(&mut member.has_timer, true) {
                self.push(deadline_ns, Entry::Timer(rank as u32));
            }
        }
    }

    /// A rank has one timer at most: it looks whether the wait of that moment is over, and sets itself anew if not.
    fn timer(&mut self, rank: u32) {
        let member = &mut self.members[rank as usize];
        member.has_timer = false;
        match (member.doing, member.deadline_ns) {
            (Doing::Waits(_), Some(deadline_ns)) if deadline_ns > self.now_ns => {
                member.has_timer = true;
                self.push(deadline_ns, Entry::Timer(rank));
            }
            (Doing::Waits(_), Some(_)) => self.schedule(rank as usize, self.now_ns, Go::TimedOut),
            _ => {}
        }
    }

    /// Ranks that wait hear of departures that they do not know of.
    fn raise_alarm(&mut self) {
        self.alarming = false;
        let departures = self.store.departures();
        for rank in 0..self.members.len() {
            if let Doing::Waits(wait) = self.members[rank].doing {
                // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
                if unsafe { &*wait }.known_departures != departures {
                    self.schedule(rank, self.now_ns, Go::Alarm);
                }
            }
        }
    }

    fn set_gone(&mut self, rank: Rank, lost: Option<Ended>) {
        self.store.set_gone(rank, lost);
        if !std::mem::replace(&mut self.alarming, true) {
            self.push(self.now_ns + ALARM_NS, Entry::Alarms);
        }
    }

    fn take_off(&mut self, flight: Flight, arrives_ns: u64) {
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

    /// An operation has arrived: it takes effect, and whoever cares hears of it when it is done.
    fn arrives(&mut self, index: u32) {
        self.free_flights.push(index);
        // It may have been given up meanwhile.
        let Some(flight) = self.flights[index as usize].take() else {
            return;
        };
        let (origin, target) = (flight.id.rank, flight.target);
        let node = self.members[target.index()].node;
        let done_ns = self.network.carry_out(&flight.costs, node, target, &flight.body, self.now_ns);
        let Outcome { reply, posted } = self.store.execute(origin, target, &flight.body);
        let bytes_back = match (&flight.body, &reply) {
            (Body::Get { pieces, .. }, Ok(_)) => pieces.iter().map(|piece| piece.bytes).sum(),
            (_, Ok(Reply::Bytes(bytes))) => bytes.len() as u64,
            _ => 0,
        };
        let back_ns = self.network.back_ns(&flight.costs, done_ns, bytes_back);
        self.note(&flight, done_ns, back_ns, bytes_back);
        match flight.role {
            Role::Fetching => self.answer(&flight, back_ns, reply),
            Role::Posted => self.acknowledge(&flight, back_ns, reply),
            Role::ByAgent => {}
        }
        if matches!(flight.body, Body::Call { .. }) {
            self.launch_for_agent(node, posted, done_ns);
            for at in 0..self.store.topology.ranks_of(Node(node as u32)).len() {
                let rank = self.store.topology.ranks_of(Node(node as u32))[at];
                self.look(rank.index(), done_ns);
            }
        } else {
            // Who waits on one or two words need not be asked unless one of them was touched.
            let member = &self.members[target.index()];
            match flight.body {
                Body::Atomic { at, .. } if !member.may_wait_on(at.segment, at.offset) => {}
                _ => self.look(target.index(), done_ns),
            }
        }
    }

    /// A rank's memory may have changed: if it waits for that, it notices.
    fn look(&mut self, rank: usize, at_ns: u64) {
        let Doing::Waits(wait) = self.members[rank].doing else {
            return;
        };
        // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
        if let Some((which, value)) = holds(unsafe { &*wait }) {
            self.schedule(rank, at_ns + self.network.notice_ns, Go::Ready(which as u32, value));
        }
    }

    fn answer(&mut self, flight: &Flight, back_ns: u64, reply: Result<Reply>) {
        let origin = flight.id.rank.index();
        self.store.answer(flight.id, back_ns, reply);
        self.members[origin].fetching -= 1;
        if let Doing::Waits(wait) = self.members[origin].doing
            // SAFETY: the fiber that owns the wait is paused in the call that it passed it to.
            && matches!(unsafe { &*wait }.event, Awaited::Done(asked) if asked == ticket(flight.id))
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
        let lane = member.lanes.entry(target).or_default();
        lane.posted -= 1;
        lane.acknowledged_ns = lane.acknowledged_ns.max(back_ns);
        match member.doing {
            Doing::Flushes(flushed) if flushed == target => self.go_on_if_flushed(origin.index(), target),
            Doing::NeedsRoom => self.schedule(origin.index(), back_ns, Go::Ready(0, 0)),
            Doing::Over => self.leave_if_done(origin),
            _ => {}
        }
    }

    fn go_on_if_flushed(&mut self, rank: usize, target: Rank) {
        let lane = self.members[rank].lanes.get(&target).copied().unwrap_or_default();
        if lane.posted == 0 {
            self.schedule(rank, lane.acknowledged_ns, Go::Ready(0, 0));
        }
    }

    fn leave_if_done(&mut self, rank: Rank) {
        let member = &self.members[rank.index()];
        if matches!(member.doing, Doing::Over) && member.posted == 0 && self.store.fate(rank) == Fate::Alive {
            self.set_gone(rank, None);
        }
    }

    /// What a handler has posted to other nodes leaves when it is done.
    fn launch_for_agent(&mut self, node: usize, all: Vec<Posted>, done_ns: u64) {
        let mut last_ns = 0;
        for Posted { target, body, after_previous } in all {
            let Ok(leader) = self.store.topology.leader_of(Node(node as u32)) else {
                return;
            };
            let id = self.store.next_id(leader);
            let costs = self.network.costs(&self.store.topology, leader, target);
            let sent = self.network.send_by_interface(&costs, node, done_ns, body.bytes());
            let arrives_ns = sent.arrives_ns.max(if after_previous { last_ns } else { 0 });
            last_ns = arrives_ns;
            let word = self.store.hint(&body);
            let role = Role::ByAgent;
            self.take_off(Flight { id, target, costs, sent_ns: done_ns, role, word, body }, arrives_ns);
        }
    }

    /// Counts an operation that was carried out, and writes it down if that is wanted.
    fn note(&mut self, flight: &Flight, done_ns: u64, back_ns: u64, bytes_back: u64) {
        let bytes = flight.body.bytes() + bytes_back;
        let counted = &mut self.counted;
        counted.operations += 1;
        counted.bytes += bytes;
        let kind = flight.body.kind(flight.role == Role::Fetching);
        for value in [done_ns, flight.id.rank.0.into(), flight.target.0.into(), kind as u64, bytes] {
            counted.hash = (counted.hash.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
        }
        if let Some(slices) = &mut self.slices {
            let end_ns = if flight.role == Role::Fetching { back_ns } else { done_ns.min(flight.sent_ns + 1) };
            slices.push(Slice {
                rank: flight.id.rank,
                operation: Operation { kind, peer: Some(flight.target), bytes },
                begin_ns: flight.sent_ns,
                end_ns,
                landed_ns: Some(done_ns),
            });
        }
    }

    /// Writes down a wait that is over, if that is wanted.
    fn note_wait(&mut self, rank: u32, at_ns: u64) {
        let begin_ns = self.members[rank as usize].paused_ns;
        if let Some(slices) = &mut self.slices
            && at_ns > begin_ns
        {
            let operation = Operation { kind: Kind::Wait, peer: Some(Rank(rank)), bytes: 0 };
            slices.push(Slice { rank: Rank(rank), operation, begin_ns, end_ns: at_ns, landed_ns: None });
        }
    }
}

impl Member {
    /// Whether it may wait on this word.
    fn may_wait_on(&self, segment: SegmentId, offset: u64) -> bool {
        match self.doing {
            Doing::Waits(_) => {
                self.watches_more
                    || self.watched.iter().any(|&(other, start)| other == segment && start / BLOCK == offset / BLOCK)
            }
            _ => false,
        }
    }
}

impl Engine for Clockwork {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn launch(&mut self, origin: Rank, target: Rank, body: Body, posted: bool, _after: Option<EventId>) -> EventId {
        let id = self.store.next_id(origin);
        let costs = self.network.costs(&self.store.topology, origin, target);
        let member = &mut self.members[origin.index()];
        let begin_ns = member.clock_ns;
        let sent = self.network.send(&costs, member.node, begin_ns, body.bytes());
        member.clock_ns = sent.free_ns;
        let role = if posted { Role::Posted } else { Role::Fetching };
        let mut arrives_ns = sent.arrives_ns;
        // Whatever was sent before to the same target arrives before; a get may overtake.
        if posted || !matches!(body, Body::Get { .. }) {
            let lane = member.lanes.entry(target).or_default();
            arrives_ns = arrives_ns.max(lane.arrives_ns);
            lane.arrives_ns = arrives_ns;
            lane.posted += u32::from(posted);
        }
        if posted {
            member.posted += 1;
        } else {
            member.fetching += 1;
            self.store.expect(id);
        }
        let word = self.store.hint(&body);
        self.take_off(Flight { id, target, costs, sent_ns: begin_ns, role, word, body }, arrives_ns);
        id
    }

    /// To one target, everything arrives in order anyway.
    fn fence(&mut self, _rank: Rank) {}

    fn has_room(&self, rank: Rank) -> bool {
        self.members[rank.index()].posted < self.network.outstanding
    }

    fn is_flushed(&self, origin: Rank, target: Rank) -> bool {
        let member = &self.members[origin.index()];
        let lane = member.lanes.get(&target).copied().unwrap_or_default();
        lane.posted == 0 && lane.acknowledged_ns <= member.clock_ns
    }

    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>> {
        let clock_ns = self.members[rank.index()].clock_ns;
        self.store.poll(rank, asked, clock_ns)
    }

    fn cancel(&mut self, rank: Rank, given_up: Ticket) {
        self.store.forget(rank, given_up);
        self.drop_flights(rank, |flight| ticket(flight.id) == given_up);
    }

    fn depart(&mut self, rank: Rank, lost: Option<Ended>) {
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

    fn now_ns(&self, rank: Rank) -> u64 {
        self.members[rank.index()].clock_ns
    }
}

impl Clockwork {
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

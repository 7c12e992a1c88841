//! The fabric itself: one thread's connection to a job of several nodes.

pub(crate) mod far;
pub(crate) mod underlay;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use farside_fabric::record::Records;
use farside_fabric::{
    Accumulate, Atomic, Connection, Departure, Effort, Error, Event, HandlerId, Hint, JobState,
    JobView, Landings, Loss, Mapped, Node, OldValue, PeerState, Rank, Region, Reply, Result,
    SegmentId, Started, Ticket, Wait, Wake, Width, Word, forward,
};
use farside_shm::Job;

use self::far::{SLOT_PAUSE, Worked};
use crate::clock::Turns;
use crate::initiator::fragments::{FarSegment, Fragments};
use crate::initiator::origin::{Operands, Origin};
use crate::initiator::port::ticket::{self, Meaning};
use crate::initiator::port::{BackgroundTransfer, Port};
use crate::link::buffer::Buffer;
use crate::node::address_table::AddressTable;
use crate::node::rank_state::RankState;
use crate::target::memory::LANDINGS;
use crate::transport::udp::Udp;
use crate::transport::{Transport, TransportEndpoint};
use crate::wire::ServerId;
use crate::wire::request::{Request, Rows};
use farside_fabric::lock::lock;

/// A put of at least so many bytes is sent from where it is.
const STRAIGHT_BYTES: usize = 32 << 10;

/// One thread's connection to a job of several nodes.
pub struct Endpoint {
    port: Arc<Mutex<Port>>,
    /// Not zero while this thread waits for its port.
    waiters: Arc<AtomicU32>,
    /// The port's, to sleep at.
    pub(crate) transport: Arc<dyn TransportEndpoint>,
    /// Which of its rank's ports that is.
    pub(crate) index: u32,
    pub(crate) near: farside_shm::Endpoint,
    pub(crate) effort: Cell<Effort>,
    /// The number of waits for which this thread still sleeps at once, as its processor is shared.
    pub(crate) sleeps_first: Cell<u32>,
    /// Its turns between the packets of long puts.
    turns: Cell<Turns>,
    /// Last: a rank that leaves says so when everything else is done.
    pub(crate) state: Arc<RankState>,
}

impl Endpoint {
    /// Joins the job as a rank. Each rank joins once.
    pub fn join(job: Arc<Job>, rank: Rank) -> Result<Endpoint> {
        let ip = AddressTable::of(&job).ip()?;
        Endpoint::join_over(job, rank, Arc::new(Udp { ip, datagram_bytes: None }))
    }

    /// Likewise, over another network.
    pub fn join_over(job: Arc<Job>, rank: Rank, transport: Arc<dyn Transport>) -> Result<Endpoint> {
        let (state, near) = RankState::join(job, rank, transport)?;
        Endpoint::of(state, near)
    }

    /// Keeps something until the rank has left, and drops it then.
    pub fn keep(&self, companion: farside_shm::Companion) {
        self.near.keep(companion);
    }

    pub(crate) fn of(state: Arc<RankState>, near: farside_shm::Endpoint) -> Result<Endpoint> {
        let (index, port) = state.take_port()?;
        let (transport, waiters) = {
            let port = lock(&port);
            (port.endpoint().clone(), port.waiters.clone())
        };
        let (effort, sleeps_first, turns) = (Cell::default(), Cell::default(), Cell::default());
        Ok(Endpoint { port, waiters, transport, index, near, effort, sleeps_first, turns, state })
    }

    /// The port. The progress thread lets go of it when this thread wants it.
    #[inline]
    pub(crate) fn port(&self) -> MutexGuard<'_, Port> {
        if let Ok(port) = self.port.try_lock() {
            return port;
        }
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let port = lock(&self.port);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        port
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.drain();
        self.state.give_back_port(self.index, &self.port);
    }
}

impl JobState for Endpoint {
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.state.job.peer_state(peer)
    }

    fn departure(&self, peer: Rank) -> Departure {
        self.state.job.departure(peer)
    }

    fn note_cause(&self, cause: Option<Loss>) {
        self.state.job.note_cause(self.state.rank, cause);
    }

    fn leave(&self) {
        self.near.job().state.leave();
    }

    fn records(&self) -> Option<Records> {
        self.near.job().state.records()
    }

    fn effort(&self) -> Effort {
        let (near, far) = (self.near.job().state.effort(), self.effort.get());
        Effort {
            waits: near.waits + far.waits,
            yields: near.yields + far.yields,
            parks: near.parks + far.parks,
            repeats: self.port().origin.repeated(),
            naps: near.naps,
        }
    }
}

impl Landings for Endpoint {
    fn begin(&self) -> Result<Word> {
        let rank = self.state.topology.leader_of(self.state.node)?;
        Ok(Word { rank, segment: LANDINGS, offset: 0, width: Width::W64 })
    }

    fn exclude(&self, segment: SegmentId) -> Result<()> {
        self.state.job.exclude(self.state.rank, segment)
    }
}

impl Connection for Endpoint {
    forward! { to .near: register deregister serve relax wake clock probe }

    fn job(&self) -> JobView<'_> {
        let RankState { rank, topology, caps, failures, .. } = &*self.state;
        JobView { rank: *rank, topology, caps, failures, state: self }
    }

    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        if self.is_near(rank)? { self.near.map(rank, segment) } else { Ok(None) }
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        if self.is_near(to.rank)? {
            return self.near.put(to, bytes);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        let (place, counts) = (FarSegment::of(to), self.counts(to.segment));
        let mut fragments = Fragments::new(to.shape, 1);
        if fragments.is_done() {
            return if counts {
                self.post_far(to.rank, |origin, server| post_nothing(origin, server, place))
            } else {
                Ok(())
            };
        }
        if bytes.len() >= STRAIGHT_BYTES {
            return self.put_long(place, fragments, bytes, counts);
        }
        self.open_stream(self.server_of(to.rank)?, bytes.len());
        self.post_far(to.rank, |origin, server| {
            origin.put_some(server, place, &mut fragments, bytes, counts);
            fragments.is_done()
        })
    }

    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        let length = to.check(u64::MAX)? as usize;
        // SAFETY: readable by the caller's promise, until the operation has completed.
        let bytes = unsafe { std::slice::from_raw_parts(from, length) };
        if length < STRAIGHT_BYTES || self.is_near(to.rank)? {
            self.put(to, bytes)?;
            return Ok(Started::Done(Reply::None));
        }
        self.check_alive(to.rank)?;
        let server = self.server_of(to.rank)?;
        self.open_stream(server, length);
        if !self.port().origin.may_lend(server, length) {
            // It is cut as there is room, and waited for.
            self.put(to, bytes)?;
            return Ok(Started::Done(Reply::None));
        }
        let (place, counts) = (FarSegment::of(to), self.counts(to.segment));
        let started = self.begin_far(to.rank, |origin, server| {
            // SAFETY: by the caller's promise; a caller that gives up cancels the transfer.
            unsafe { origin.lend(server, place, Fragments::new(to.shape, 1), bytes, counts) }
        })?;
        self.follow_hint(&started, hint);
        Ok(started)
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started> {
        if self.is_near(from.rank)? {
            // SAFETY: by the caller's promise.
            return unsafe { self.near.get(from, into, hint) };
        }
        self.check_alive(from.rank)?;
        let bytes = from.check(u64::MAX)?;
        // SAFETY: valid and ours alone until the operation has completed, by the caller's promise;
        // after that it is not touched.
        let buffer = unsafe { Buffer::new(into, bytes as usize) };
        let mut fragments = Fragments::new(from.shape, 1);
        if fragments.is_done() {
            return Ok(Started::Done(Reply::None));
        }
        self.open_stream(self.server_of(from.rank)?, bytes as usize);
        let started = self.begin_fragments(
            from.rank,
            |origin| origin.begin_get(buffer),
            |origin, server, ticket| {
                origin.get_some(ticket, server, FarSegment::of(from), &mut fragments);
                fragments.is_done()
            },
        )?;
        self.follow_hint(&started, hint);
        Ok(started)
    }

    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        if self.is_near(to.rank)? {
            return self.near.accumulate(to, accumulate, bytes, old);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        accumulate.check(to, bytes.len())?;
        let (place, operands) = (FarSegment::of(to), Operands { accumulate, bytes });
        let mut fragments = Fragments::new(to.shape, accumulate.number().bytes());
        self.open_stream(self.server_of(to.rank)?, bytes.len());
        if old == OldValue::Wanted {
            if fragments.is_done() {
                return Ok(Started::Done(Reply::Bytes(Vec::new())));
            }
            let length = to.shape.bytes()? as usize;
            return self.begin_fragments(
                to.rank,
                |origin| origin.begin_get_accumulate(length),
                |origin, server, ticket| {
                    let fragments = &mut fragments;
                    origin.get_accumulate_some(ticket, server, place, fragments, operands);
                    fragments.is_done()
                },
            );
        }
        let counts = self.counts(to.segment);
        if !fragments.is_done() && accumulate.writes() {
            self.post_far(to.rank, |origin, server| {
                origin.accumulate_some(server, place, &mut fragments, operands, counts);
                fragments.is_done()
            })?;
        } else if counts {
            self.post_far(to.rank, |origin, server| post_nothing(origin, server, place))?;
        }
        Ok(Started::Done(Reply::None))
    }

    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        let is_near = self.is_near(at.rank)?;
        if is_near && self.is_by_processor(at) {
            return self.near.atomic(at, op, old);
        }
        self.check_alive(at.rank)?;
        check_word(at, op)?;
        if old == OldValue::Wanted {
            return self.begin_far(at.rank, |origin, server| origin.atomic(server, at, op));
        }
        let counts = !is_near && self.counts(at.segment);
        self.post_far(at.rank, |origin, server| {
            origin.post(server, &Request::Post { at, op, counts });
            true
        })?;
        Ok(Started::Done(Reply::None))
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        if at.rank != to.rank || self.is_near(to.rank)? {
            if self.is_by_processor(at) {
                return self.near.put_signal(to, bytes, at, op);
            }
            self.near.put(to, bytes)?;
            self.near.fence()?;
            return self.atomic(at, op, OldValue::Ignored).map(drop);
        }
        self.check_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        check_word(at, op)?;
        let (place, counts) = (FarSegment::of(to), self.counts(to.segment));
        let signal = Request::Post { at, op, counts: self.counts(at.segment) };
        let mut fragments = Fragments::new(to.shape, 1);
        // Both go together: what was posted to one peer is executed in that order.
        self.post_far(to.rank, |origin, server| {
            if fragments.is_done() {
                // There is nothing to put, but it lands, too.
                let _ = !counts || post_nothing(origin, server, place);
            } else {
                origin.put_some(server, place, &mut fragments, bytes, counts);
            }
            if fragments.is_done() {
                origin.post(server, &signal);
            }
            fragments.is_done()
        })
    }

    fn fence(&self) -> Result<()> {
        // What goes to one server is executed in the order in which it was posted. But near memory
        // is written without one.
        if !self.state.caps.cpu_coherent {
            self.await_landing(self.state.rank)?;
        }
        self.near.fence()
    }

    fn flush(&self, peer: Rank) -> Result<()> {
        if self.is_near(peer)? {
            self.near.flush(peer)?;
            if self.state.caps.cpu_coherent {
                return Ok(());
            }
        }
        self.check_alive(peer)?;
        let server = self.server_of(peer)?;
        // A rank that has served itself and has left may not have executed everything.
        let before = self.own_server_of(peer).filter(|&own| own != server);
        before.into_iter().chain([server]).try_for_each(|server| self.flush_server(peer, server))
    }

    fn landings(&self) -> Option<&dyn Landings> {
        (self.state.topology.nodes() > 1).then_some(self)
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        if node == self.state.node {
            return self.near.call(node, handler, bytes);
        }
        self.job().check_agent(node)?;
        if bytes.len() as u64 > Job::CALL_BYTES {
            let (value, limit) = (bytes.len() as u64, Job::CALL_BYTES);
            return Err(Error::TooMuch { what: "bytes of a call's argument", value, limit });
        }
        let server = ServerId(node.0);
        let slot = loop {
            if let Some(slot) = lock(&self.state.calls).take(node) {
                break slot;
            }
            // Calls of this rank have all of them, some of which may be answered.
            let known = self.departures();
            self.job().check_agent(node)?;
            self.free_answered_calls(node);
            let limit = self.port().sleep_limit().unwrap_or(SLOT_PAUSE);
            // Nobody tells when another thread gives a slot back.
            self.rest(&mut 0, known, Worked::NotYet(limit.min(SLOT_PAUSE)), SLOT_PAUSE);
        };
        let called = self.port().call(node, slot, handler, bytes);
        if let Err(error) = called {
            lock(&self.state.calls).give_back(node, slot);
            return Err(error);
        }
        self.state.progress.arm();
        Ok(Started::Pending(ticket::call(server, slot)))
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        match ticket::meaning(ticket) {
            Meaning::Near(ticket) => self.near.poll(ticket),
            Meaning::Transfer(ticket) => {
                let mut port = self.port();
                if !port.origin.is_done(ticket) && !port.has_background() {
                    port.drive();
                }
                port.origin.take(ticket)
            }
            Meaning::Call(server, slot) => {
                let mut port = self.port();
                if !port.call_is_done(server, slot) {
                    port.drive();
                }
                let has_slot = port.call_has_slot(server, slot);
                let taken = port.take_call(server, slot);
                if has_slot && !matches!(taken, Ok(None)) {
                    lock(&self.state.calls).give_back(Node(server.0), slot);
                }
                taken
            }
        }
    }

    fn cancel(&self, ticket: Ticket) {
        match ticket::meaning(ticket) {
            Meaning::Near(ticket) => self.near.cancel(ticket),
            Meaning::Transfer(ticket) => self.port().origin.cancel(ticket),
            Meaning::Call(server, slot) => {
                let (mut port, node) = (self.port(), Node(server.0));
                // While the handler may be at work in it, nobody else can have the slot.
                match (port.call_has_slot(server, slot), port.call_is_done(server, slot)) {
                    (true, true) => lock(&self.state.calls).give_back(node, slot),
                    (true, false) => lock(&self.state.calls).abandon(node, slot),
                    (false, _) => {}
                }
                port.forget_call(server, slot);
            }
        }
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let ticket = match wait.event {
            Event::Words(_) => return self.block_on_words(wait),
            Event::Done(ticket) => ticket,
        };
        let meaning = ticket::meaning(ticket);
        let mut done = |port: &mut Port| match meaning {
            Meaning::Near(_) => true,
            Meaning::Transfer(ticket) => port.origin.is_done(ticket),
            Meaning::Call(server, slot) => port.call_is_done(server, slot),
        };
        if let Meaning::Near(_) = meaning {
            return self.near.block(wait);
        }
        self.block_on_port(wait, &mut done)
    }

    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(self.another()?))
    }
}

impl Endpoint {
    /// Lets the progress thread drive a long transfer that the caller does not wait for at once.
    fn follow_hint(&self, started: &Started, hint: Hint) {
        let (Started::Pending(ticket), Hint::Overlapped) = (started, hint) else { return };
        let Meaning::Transfer(ticket) = ticket::meaning(*ticket) else { return };
        let is_long = self.port().origin.is_long(ticket);
        if is_long {
            self.add_background_transfer(BackgroundTransfer::Answered(ticket));
        }
    }

    /// Puts from where the bytes are, and returns when all of them have arrived: a copy of what has
    /// not would take as long. While the progress thread drives the port, and if the target is
    /// lost, what is under way is copied instead: the caller may use the bytes again.
    fn put_long(
        &self,
        place: FarSegment,
        mut fragments: Fragments<'_>,
        bytes: &[u8],
        counts: bool,
    ) -> Result<()> {
        struct Borrower<'a>(&'a Endpoint, ServerId);
        impl Drop for Borrower<'_> {
            fn drop(&mut self) {
                self.0.port().origin.take_over(self.1);
            }
        }
        let server = self.server_of(place.rank)?;
        self.open_stream(server, bytes.len());
        let _borrower = Borrower(self, server);
        while !fragments.is_done() {
            let may_go = |port: &mut Port| {
                // What was posted before goes first, and at once.
                port.origin.push();
                let is_queued = port.origin.must_queue(server) || port.has_background();
                port.origin.goes_straight(server) || (is_queued && !port.origin.is_full(server))
            };
            let mut port = self.port_with_room(place.rank, server, may_go)?;
            // Acknowledgements make room.
            port.look();
            // SAFETY: the bytes are borrowed until this function returns, and before that the
            // borrower lets everything be taken over.
            let went = unsafe { port.put_straight(server, place, &mut fragments, bytes, counts) };
            if !went && (port.origin.must_queue(server) || port.has_background()) {
                port.origin.put_some(server, place, &mut fragments, bytes, counts);
                port.send(server);
            }
            drop(port);
            let mut turns = self.turns.get();
            turns.pass();
            self.turns.set(turns);
        }
        let is_done = |port: &mut Port| port.has_background() || !port.origin.has_borrowed(server);
        self.drive_until(self.answers(place.rank, server), is_done)
    }
}

/// A transfer of nothing lands, too.
fn post_nothing(origin: &mut Origin, server: ServerId, place: FarSegment) -> bool {
    let FarSegment { rank, segment } = place;
    let to = Rows { rank, segment, offset: 0, unit: 0, count: 1, stride: 0 };
    origin.post(server, &Request::Put { to, data: &[], counts: true });
    true
}

/// What can be said of a word without knowing its segment.
fn check_word(at: Word, op: Atomic) -> Result<()> {
    op.check(at.width)?;
    at.check(u64::MAX)
}

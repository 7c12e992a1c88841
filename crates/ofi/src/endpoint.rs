//! The fabric itself: the nic fabric's endpoint, and what reaches far memory without an agent.
//!
//! Two ways lead to a node, messages and operations on its memory, and nothing orders one against the other. Within each, and in doubt between them, this is what makes `fence` and `flush` true:
//! an operation on memory counts as done when its bytes have landed (delivery, not transmission), and whoever goes one way after a fence waits for what went the other way before it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farside_fabric::{
    Alarm, Atomic, Caps, Departure, Effort, Error, Event, Fabric, Fate, Handler, HandlerId, Loss, Mapped, Node, Piece,
    Rank, Region, Reply, Result, SegmentId, Shape, Started, Sum, Ticket, Topology, Wait, Wake, Width, Word,
};
use farside_nic::{Buffer, Route};
use farside_shm::Job;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::Place;
use crate::line::{OfiLine, STAGE_BYTES};
use crate::network::{self, Ofi};
use crate::settings::{Atomics, Settings};

/// A put with a signal whose data is longer goes straight to memory, although the signal then waits for it to land.
const SIGNALLED_BYTES: usize = 256 << 10;
/// How long a rank sleeps at most that waits for a word which may change without anybody waking it.
const UNWOKEN: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(2)];
/// Marks the tickets of operations on memory.
const DIRECT: u64 = 1 << 61;

/// One thread's connection to a job over libfabric.
pub struct Endpoint {
    inner: farside_nic::Endpoint,
    line: Arc<OfiLine>,
    caps: Caps,
    atomics: Atomics,
    rma_from: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// How segments are named on the network.
    places: FxHashMap<(Rank, SegmentId), Place>,
    /// Nodes that something has gone to, since when it was last known that all of it had landed.
    touched: FxHashSet<Node>,
    /// Of those, the ones that a fence was made for.
    fenced: FxHashSet<Node>,
}

impl Endpoint {
    /// Takes a rank's place in the job. Each rank joins once.
    pub fn join(job: Arc<Job>, rank: Rank) -> Result<Endpoint> {
        let (name, ip) = farside_nic::network_of(&job)?;
        let network = Ofi::open(&name.parse()?, ip)?;
        let settings = network.settings().clone();
        Endpoint::of(farside_nic::Endpoint::join_over(job, rank, Arc::new(network))?, &settings)
    }

    /// Keeps something until the rank has left, and drops it then.
    pub fn keep(&self, companion: farside_shm::Companion) {
        self.inner.keep(companion);
    }

    fn of(inner: farside_nic::Endpoint, settings: &Settings) -> Result<Endpoint> {
        let line = network::of(inner.line()).ok_or_else(|| Error::Misuse("this is no line of libfabric".into()))?;
        let atomics = settings.atomics.unwrap_or(Atomics::Agent);
        let caps = Caps {
            name: "ofi",
            ordering: farside_fabric::Ordering::Unordered,
            cpu_coherent: atomics != Atomics::Apart,
            ..inner.caps().clone()
        };
        let rma_from = settings.rma_from.unwrap_or(u64::MAX);
        Ok(Endpoint { inner, line, caps, atomics, rma_from, state: RefCell::default() })
    }

    fn settings(&self) -> Settings {
        Settings { provider: None, atomics: Some(self.atomics), rma_from: Some(self.rma_from) }
    }

    fn node_of(&self, peer: Rank) -> Result<Node> {
        self.topology().check(peer)?;
        Ok(self.topology().node_of(peer))
    }

    fn is_near(&self, peer: Rank) -> Result<bool> {
        Ok(self.node_of(peer)? == self.inner.node())
    }

    fn route_to(&self, node: Node) -> Result<u64> {
        match self.inner.route_to(node)? {
            Route::Peer(peer) => Ok(peer),
            Route::Socket(_) => Err(Error::UnknownNode { node, nodes: self.topology().nodes() }),
        }
    }

    /// The one piece that a region is, if it is one that goes straight to memory.
    fn straight(&self, region: &Region<'_>) -> Result<Option<Piece>> {
        let Shape::Block(piece) = region.shape else { return Ok(None) };
        Ok((piece.bytes > 0 && piece.bytes >= self.rma_from && !self.is_near(region.rank)?).then_some(piece))
    }

    /// How a segment is named. Asked once for each, and only about memory that is there.
    fn place(&self, rank: Rank, segment: SegmentId) -> Result<Place> {
        if let Some(&place) = self.state.borrow().places.get(&(rank, segment)) {
            return Ok(place);
        }
        let (name, bytes) = self.inner.segment_name(rank, segment)?;
        let place = Place { base: name as u64, key: (name >> 64) as u64, bytes };
        self.state.borrow_mut().places.insert((rank, segment), place);
        Ok(place)
    }

    fn place_for(&self, region: &Region<'_>, piece: Piece) -> Result<Place> {
        let place = self.place(region.rank, region.segment)?;
        region.check(place.bytes)?;
        debug_assert!(piece.offset + piece.bytes <= place.bytes);
        Ok(place)
    }

    /// Tries until the provider takes an operation for `peer`, and not too many are under way.
    fn insist(&self, peer: Rank, mut start: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut failed = None;
        self.inner.work_until(peer, || {
            if !self.line.has_room() {
                return false;
            }
            match start() {
                Ok(started) => started,
                Err(error) => {
                    failed = Some(error);
                    true
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Before an operation on memory: what went as messages before the last fence has landed, and what went to memory, too.
    fn settle(&self, peer: Rank) -> Result<()> {
        let node = self.node_of(peer)?;
        if self.state.borrow_mut().fenced.remove(&node) {
            self.await_writes(peer, node)?;
            self.inner.await_landing(peer)?;
        }
        self.state.borrow_mut().touched.insert(node);
        Ok(())
    }

    /// Before a message: what went to memory before the last fence has landed. Messages are in order.
    fn settle_writes(&self, peer: Rank) -> Result<()> {
        let node = self.node_of(peer)?;
        if node == self.inner.node() && self.caps.cpu_coherent {
            return Ok(());
        }
        let is_fenced = self.state.borrow().fenced.contains(&node);
        if is_fenced {
            self.await_writes(peer, node)?;
        }
        self.state.borrow_mut().touched.insert(node);
        Ok(())
    }

    fn await_writes(&self, peer: Rank, node: Node) -> Result<()> {
        if self.line.has_landed(node) {
            return Ok(());
        }
        let done = self.inner.work_until(peer, || self.line.has_landed(node));
        if done.is_err() {
            self.abandon_the_lost();
        }
        done
    }

    /// Nobody waits for what was written to nodes of which nobody is left.
    fn abandon_the_lost(&self) {
        let topology = self.topology();
        for node in (0..topology.nodes()).map(Node) {
            if topology.ranks_of(node).iter().all(|&rank| matches!(self.fate(rank), Fate::Lost(_))) {
                self.line.abandon(node);
            }
        }
    }

    /// Whether an atomic on this word goes to the interface.
    fn is_native(&self, at: Word) -> Result<bool> {
        Ok(match self.atomics {
            Atomics::Agent => false,
            _ if at.width == Width::Pair => false,
            Atomics::Native => !self.is_near(at.rank)?,
            Atomics::Apart => true,
        })
    }

    fn check_word(&self, at: Word, op: Atomic) -> Result<Place> {
        self.inner.must_be_alive(at.rank)?;
        op.check(at.width)?;
        let place = self.place(at.rank, at.segment)?;
        at.check(place.bytes)?;
        Ok(place)
    }

    fn put_straight(&self, to: &Region<'_>, piece: Piece, bytes: &[u8]) -> Result<()> {
        self.inner.must_be_alive(to.rank)?;
        to.check(u64::MAX)?;
        to.check_length(bytes.len())?;
        let place = self.place_for(to, piece)?;
        self.settle(to.rank)?;
        let node = self.node_of(to.rank)?;
        let route = self.route_to(node)?;
        for (at, chunk) in bytes.chunks(STAGE_BYTES).enumerate() {
            let offset = piece.offset + (at * STAGE_BYTES) as u64;
            self.insist(to.rank, || self.line.write(node, route, (place, offset), chunk))?;
        }
        self.inner.look_after();
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What was posted still lands, as far as anybody is there. It ends: a node that does not answer is given up, sooner or later.
        let is_quiet = || {
            if self.alarm().losses.load(Ordering::Relaxed) != 0 {
                self.abandon_the_lost();
            }
            self.line.is_quiet()
        };
        let _ = self.inner.work_until(self.rank(), is_quiet);
    }
}

impl Fabric for Endpoint {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn topology(&self) -> &Topology {
        self.inner.topology()
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alarm(&self) -> &Alarm {
        self.inner.alarm()
    }

    fn fate(&self, peer: Rank) -> Fate {
        self.inner.fate(peer)
    }

    fn departure(&self, peer: Rank) -> Departure {
        self.inner.departure(peer)
    }

    fn note_cause(&self, cause: Option<Loss>) {
        self.inner.note_cause(cause);
    }

    fn expose(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        self.inner.expose(segment, bytes)
    }

    fn withdraw(&self, segment: SegmentId) -> Result<()> {
        self.inner.own(segment)?;
        self.inner.end_segment(segment)?;
        self.inner.withdraw(segment)
    }

    fn own(&self, segment: SegmentId) -> Result<Mapped> {
        self.inner.own(segment)
    }

    fn near(&self, peer: Rank, segment: SegmentId) -> Option<Mapped> {
        self.inner.near(peer, segment)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        match self.straight(to)? {
            Some(piece) => self.put_straight(to, piece, bytes),
            None => {
                self.settle_writes(to.rank)?;
                self.inner.put(to, bytes)
            }
        }
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8) -> Result<Started> {
        let Some(piece) = self.straight(from)? else {
            // SAFETY: by the caller's promise.
            return unsafe { self.inner.get(from, into) };
        };
        self.inner.must_be_alive(from.rank)?;
        let place = self.place_for(from, piece)?;
        let node = self.node_of(from.rank)?;
        let route = self.route_to(node)?;
        // SAFETY: valid and ours alone until the operation has completed, by the caller's promise; it is not touched after that, nor after it was cancelled.
        let buffer = unsafe { Buffer::new(into, piece.bytes as usize) };
        let transfer = self.line.begin(Some(buffer));
        let bytes = piece.bytes as usize;
        for at in (0..bytes).step_by(STAGE_BYTES) {
            let part = (at, STAGE_BYTES.min(bytes - at));
            let place = (place, piece.offset + at as u64);
            let started = self.insist(from.rank, || self.line.read(transfer, route, place, part));
            if let Err(error) = started {
                self.line.cancel(transfer);
                return Err(error);
            }
        }
        self.inner.look_after();
        Ok(Started::Pending(Ticket(DIRECT | transfer)))
    }

    fn accumulate(&self, to: &Region<'_>, sum: &Sum, bytes: &[u8]) -> Result<()> {
        self.settle_writes(to.rank)?;
        self.inner.accumulate(to, sum, bytes)
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<Started> {
        if !self.is_native(at)? {
            self.settle_writes(at.rank)?;
            return self.inner.atomic(at, op);
        }
        let place = self.check_word(at, op)?;
        self.settle(at.rank)?;
        let route = self.route_to(self.node_of(at.rank)?)?;
        let transfer = self.line.begin(None);
        let op = (at.width, op);
        let started = self.insist(at.rank, || self.line.atomic(transfer, route, (place, at.offset), op));
        if let Err(error) = started {
            self.line.cancel(transfer);
            return Err(error);
        }
        self.inner.look_after();
        Ok(Started::Pending(Ticket(DIRECT | transfer)))
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        // Where processors and interfaces exclude each other the agent is as good, and wakes who waits.
        if self.atomics != Atomics::Apart || !self.is_native(at)? {
            self.settle_writes(at.rank)?;
            return self.inner.post(at, op);
        }
        let place = self.check_word(at, op)?;
        self.settle(at.rank)?;
        let node = self.node_of(at.rank)?;
        let route = self.route_to(node)?;
        self.insist(at.rank, || self.line.post(node, route, (place, at.offset), (at.width, op)))?;
        self.inner.look_after();
        Ok(())
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        let is_apart = self.atomics == Atomics::Apart && self.is_native(at)?;
        if at.rank != to.rank || is_apart || (bytes.len() >= SIGNALLED_BYTES && self.straight(to)?.is_some()) {
            self.put(to, bytes)?;
            self.fence()?;
            return self.post(at, op);
        }
        self.settle_writes(to.rank)?;
        self.inner.put_signal(to, bytes, at, op)
    }

    fn fence(&self) -> Result<()> {
        // Whoever goes to one of these nodes next finds out whether anything must land first.
        let mut state = self.state.borrow_mut();
        let State { touched, fenced, .. } = &mut *state;
        fenced.extend(touched.drain());
        drop(state);
        self.inner.fence()
    }

    fn flush(&self, peer: Rank) -> Result<()> {
        let node = self.node_of(peer)?;
        self.inner.must_be_alive(peer)?;
        self.await_writes(peer, node)?;
        self.inner.flush(peer)?;
        {
            let mut state = self.state.borrow_mut();
            state.touched.remove(&node);
            state.fenced.remove(&node);
        }
        match self.line.failure(node) {
            None => Ok(()),
            Some(error) => {
                self.inner.must_be_alive(peer)?;
                Err(error)
            }
        }
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        self.inner.call(node, handler, bytes)
    }

    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.inner.serve(handler, run)
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        let Some(transfer) = direct(ticket) else { return self.inner.poll(ticket) };
        if !self.line.is_done(transfer) {
            self.inner.work_once();
        }
        self.line.take(transfer)
    }

    fn cancel(&self, ticket: Ticket) {
        match direct(ticket) {
            Some(transfer) => self.line.cancel(transfer),
            None => self.inner.cancel(ticket),
        }
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        match wait.event {
            Event::Words(_) if self.atomics != Atomics::Agent => self.block_unwoken(wait),
            Event::Done(ticket) => match direct(ticket) {
                Some(transfer) => self.inner.block_until(wait, &mut || self.line.is_done(transfer)),
                None => self.inner.block(wait),
            },
            Event::Words(_) => self.inner.block(wait),
        }
    }

    fn relax(&self) {
        self.inner.relax();
    }

    fn wake(&self, peer: Rank) {
        self.inner.wake(peer);
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn context(&self) -> Result<Box<dyn Fabric>> {
        Ok(Box::new(Endpoint::of(self.inner.another()?, &self.settings())?))
    }

    fn effort(&self) -> Effort {
        self.inner.effort()
    }
}

impl Endpoint {
    /// Waits for words that an interface may change, which wakes nobody: looks every now and then.
    fn block_unwoken(&self, wait: &Wait<'_>) -> Result<Wake> {
        let begin = Instant::now();
        let [mut nap, longest] = UNWOKEN;
        loop {
            let left = wait.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            let timeout = left.map_or(nap, |left| left.min(nap));
            match self.inner.block(&Wait { timeout: Some(timeout), ..*wait })? {
                Wake::TimedOut if left.is_none_or(|left| !left.is_zero()) => nap = (nap * 2).min(longest),
                other => return Ok(other),
            }
        }
    }
}

/// The transfer that a ticket names, if it is one of an operation on memory.
fn direct(ticket: Ticket) -> Option<u64> {
    // Tickets of messages and calls have a mark above this one.
    (ticket.0 >> 61 == 1).then_some(ticket.0 & !DIRECT)
}

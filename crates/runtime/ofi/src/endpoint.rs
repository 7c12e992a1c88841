//! The ofi fabric: the nic fabric's endpoint, and what reaches far memory without an agent.
//!
//! Two ways lead to a node, messages and operations on its memory, and nothing orders one against
//! the other. Within each, and in doubt between them, this is what makes `fence` and `flush` true:
//! an operation on memory counts as done when its bytes have landed (delivery, not transmission),
//! and whoever goes one way after a fence waits for what went the other way before it.

mod state;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use farside_fabric::{
    Accumulate, Atomic, Caps, Connection, Error, Event, Hint, JobState, JobView, Node, OldValue,
    PeerState, Piece, Rank, Region, Reply, Result, SegmentId, Shape, Started, Ticket, Topology,
    Wait, Wake, Width, Word, forward,
};
use farside_nic::{Buffer, Loan, Owed, PeerAddress, Registration, RemoteKey};
use farside_shm::Job;
use rustc_hash::FxHashSet;

use crate::remote_keys::RemoteKeys;
use crate::settings::Atomics;
use crate::transfers::{Far, FarAtomic, Transfers};
use crate::transport::Ofi;
use crate::transport_endpoint::{OfiTransportEndpoint, STAGE_BYTES};

/// A put with a signal whose data is longer goes straight to memory, although the signal then waits
/// for it to land.
const SIGNALLED_BYTES: usize = 256 << 10;
/// How many transfers a thread may have under way; further ones wait.
const FETCHES_MAX: usize = 1024;
/// How long a rank sleeps at most after a loss: whoever was lost may have changed a word and not
/// told its agent.
const AFTER_A_LOSS: Duration = Duration::from_millis(20);
/// Marks the tickets of operations on memory.
const DIRECT: u64 = 1 << 61;

/// One thread's connection to a job over libfabric.
pub struct Endpoint {
    inner: farside_nic::Endpoint,
    transport: Arc<Ofi>,
    endpoint: Arc<OfiTransportEndpoint>,
    caps: Caps,
    atomics: Atomics,
    rma_from: u64,
    /// How segments are named on the network, as far as any thread of the rank has asked.
    keys: Arc<RemoteKeys>,
    naps: Cell<u64>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Nodes that something has gone to, since when it was last known that all of it had landed.
    touched: FxHashSet<Node>,
    /// Of those, the ones that a fence was made for.
    fenced: FxHashSet<Node>,
}

impl Endpoint {
    /// Joins the job as a rank. Each rank joins once.
    pub fn join(job: Arc<Job>, rank: Rank) -> Result<Endpoint> {
        let (name, ip) = farside_nic::transport_of(&job)?;
        let transport = Arc::new(Ofi::open(&name.parse()?, ip)?);
        let inner = farside_nic::Endpoint::join_over(job, rank, transport.clone())?;
        Endpoint::of(inner, transport, Arc::default())
    }

    /// Keeps something until the rank has left, and drops it then.
    pub fn keep(&self, companion: farside_shm::Companion) {
        self.inner.keep(companion);
    }

    /// Returns the number of far segments whose remote key the rank knows. Those of a segment are
    /// dropped when it is freed.
    pub fn remote_keys(&self) -> usize {
        self.keys.count()
    }

    fn of(
        inner: farside_nic::Endpoint,
        transport: Arc<Ofi>,
        keys: Arc<RemoteKeys>,
    ) -> Result<Endpoint> {
        let endpoint = transport
            .own(inner.transport_endpoint())
            .ok_or_else(|| Error::Internal("this is not a libfabric endpoint".into()))?;
        let settings = transport.settings();
        let atomics = settings.atomics.unwrap_or(Atomics::Agent);
        let caps = Caps {
            name: "ofi",
            ordering: farside_fabric::Ordering::Unordered,
            cpu_coherent: atomics != Atomics::Apart,
            ..inner.job().caps.clone()
        };
        let rma_from = settings.rma_from.unwrap_or(u64::MAX);
        let (naps, state) = (Cell::default(), RefCell::default());
        Ok(Endpoint { inner, transport, endpoint, caps, atomics, rma_from, keys, naps, state })
    }

    fn topology(&self) -> &Topology {
        self.inner.job().topology
    }

    fn any_lost(&self) -> bool {
        self.inner.job().failures.any_lost()
    }

    /// Whether what this rank posts to a segment counts as landings at its target.
    fn counts(&self, segment: SegmentId) -> bool {
        self.inner.is_counted(segment)
    }

    fn node_of(&self, peer: Rank) -> Result<Node> {
        self.topology().check(peer)?;
        Ok(self.topology().node_of(peer))
    }

    fn is_near(&self, peer: Rank) -> Result<bool> {
        Ok(self.node_of(peer)? == self.inner.node())
    }

    fn peer_of(&self, node: Node) -> Result<u64> {
        match self.inner.agent_address(node)? {
            PeerAddress::Entry(peer) => Ok(peer),
            PeerAddress::Socket(_) => {
                Err(Error::UnknownNode { node, nodes: self.topology().nodes() })
            }
        }
    }

    /// The one piece that a region is, if it is one that goes straight to memory.
    fn straight(&self, region: &Region<'_>) -> Result<Option<Piece>> {
        let Shape::Block(piece) = region.shape else { return Ok(None) };
        Ok((piece.bytes > 0 && piece.bytes >= self.rma_from && !self.is_near(region.rank)?)
            .then_some(piece))
    }

    /// How a segment is named, if the interface there has registered it. Asked once for each, and
    /// only about memory that is there.
    fn key(&self, rank: Rank, segment: SegmentId) -> Result<Option<RemoteKey>> {
        let known = match self.keys.get(rank, segment) {
            Some(known) => known,
            None => {
                let asked = self.inner.remote_key(rank, segment)?;
                self.keys.insert(rank, segment, asked);
                asked
            }
        };
        Ok(match known {
            Registration::Key(key) => Some(key),
            Registration::Refused => None,
        })
    }

    /// Where a region is, if it goes straight to memory: it is one long piece, and the interface
    /// there reaches it.
    fn far(&self, region: &Region<'_>) -> Result<Option<Far>> {
        let Some(piece) = self.straight(region)? else { return Ok(None) };
        self.inner.must_be_alive(region.rank)?;
        region.check(u64::MAX)?;
        let Some(key) = self.key(region.rank, region.segment)? else { return Ok(None) };
        region.check(key.bytes)?;
        debug_assert!(piece.offset + piece.bytes <= key.bytes);
        self.far_at(region.rank, key, piece.offset).map(Some)
    }

    fn far_at(&self, rank: Rank, key: RemoteKey, offset: u64) -> Result<Far> {
        let node = self.node_of(rank)?;
        Ok(Far { rank, node, peer: self.peer_of(node)?, key, offset })
    }

    /// Tries until the provider takes an operation for `peer`, and not too many are under way.
    fn insist(&self, peer: Rank, mut start: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut failed = None;
        self.drive_until(peer, || {
            if !self.endpoint.has_room() {
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

    /// Waits until `done`, or fails if `peer` is lost. What is queued does not wait for other nodes
    /// that are.
    fn drive_until(&self, peer: Rank, mut done: impl FnMut() -> bool) -> Result<()> {
        self.inner.drive_until_done(peer, || {
            self.make_room();
            done()
        })
    }

    /// Lets what is under way to lost nodes take no room from other operations.
    fn make_room(&self) {
        if !self.endpoint.has_room() && self.any_lost() {
            self.abandon_the_lost();
        }
    }

    /// Before an operation on memory: what went as messages before the last fence has landed, and
    /// what went to memory, too.
    fn settle(&self, peer: Rank) -> Result<()> {
        let node = self.node_of(peer)?;
        if self.state.borrow_mut().fenced.remove(&node) {
            self.await_writes(peer, node)?;
            self.inner.await_landing(peer)?;
        }
        self.state.borrow_mut().touched.insert(node);
        Ok(())
    }

    /// Before a message: what went to memory before the last fence has landed. Messages are in
    /// order.
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
        let has_landed = || self.endpoint.with(|transfers| transfers.has_landed(node));
        if has_landed() {
            return Ok(());
        }
        let done = self.drive_until(peer, has_landed);
        if done.is_err() {
            self.abandon_the_lost();
        }
        done
    }

    /// Nobody waits for what was written to nodes of which nobody is left.
    fn abandon_the_lost(&self) {
        let topology = self.topology();
        for node in (0..topology.nodes()).map(Node) {
            let ranks = topology.ranks_of(node);
            let is_lost = |&rank: &Rank| matches!(self.peer_state(rank), PeerState::Lost(_));
            // The loss that the others follow from is the one to be named.
            if ranks.iter().all(is_lost)
                && let Some(first) = self.inner.job().first_loss(ranks.iter().copied())
            {
                self.endpoint.with(|transfers| transfers.abandon(node, &first.error()));
            }
        }
    }

    /// Whether an atomic on this word goes to the interface.
    fn is_native(&self, at: Word) -> Result<bool> {
        Ok(match self.atomics {
            Atomics::Agent => false,
            _ if at.width == Width::Pair => false,
            // If the interface does not reach it, the agent is as good.
            Atomics::Native => {
                !self.is_near(at.rank)? && {
                    self.inner.must_be_alive(at.rank)?;
                    self.key(at.rank, at.segment)?.is_some()
                }
            }
            Atomics::Apart => true,
        })
    }

    /// Where a word is, and what an atomic on it is to do. It lands if it is posted to another
    /// node.
    fn far_word(&self, at: Word, op: Atomic, is_posted: bool) -> Result<(Far, FarAtomic)> {
        self.inner.must_be_alive(at.rank)?;
        op.check(at.width)?;
        // The agent's atomics would not exclude those of the interface.
        let key = self.key(at.rank, at.segment)?.ok_or_else(|| Error::Unsupported {
            what: format!(
                "an atomic on memory of {} that its network interface refuses to register; try \
                 --provider '{}/atomics=agent', or a higher limit of locked memory",
                at.rank,
                self.transport.settings().provider.as_deref().unwrap_or_default()
            ),
        })?;
        at.check(key.bytes)?;
        let to = self.far_at(at.rank, key, at.offset)?;
        let counts = is_posted && to.node != self.inner.node() && self.counts(at.segment);
        Ok((to, FarAtomic { node: to.node, at, op, counts }))
    }

    fn put_straight(&self, to: &Region<'_>, far: Far, bytes: &[u8]) -> Result<()> {
        to.check_length(bytes.len())?;
        self.settle(to.rank)?;
        let counts = self.counts(to.segment);
        let write = self.endpoint.with(|transfers| transfers.begin_write(far, counts));
        let mut parts = bytes.chunks(STAGE_BYTES).enumerate();
        let started = parts.try_for_each(|(at, part)| {
            let far = Far { offset: far.offset + (at * STAGE_BYTES) as u64, ..far };
            self.insist(to.rank, || self.endpoint.write(write, far, part))
        });
        self.endpoint.with(|transfers| transfers.end_write(write, started.is_ok()));
        self.inner.start_progress();
        started
    }

    /// Begins a transfer that goes on without its caller; waits only if there are too many.
    fn begin(&self, peer: Rank, begin: impl FnOnce(&mut Transfers) -> u64) -> Result<u64> {
        let has_room = || self.endpoint.with(|transfers| transfers.fetching() < FETCHES_MAX);
        if !has_room() {
            self.drive_until(peer, || {
                if self.any_lost() {
                    self.abandon_the_lost();
                }
                has_room()
            })?;
        }
        let ticket = self.endpoint.begin(begin);
        self.inner.start_progress();
        Ok(ticket)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What was posted still lands, as far as anybody is there. It ends: a node that does not
        // answer is given up, sooner or later.
        let is_quiet = || {
            if self.any_lost() {
                self.abandon_the_lost();
            }
            self.endpoint.with(|transfers| transfers.is_quiet())
        };
        let _ = self.inner.drive_until_done(self.inner.job().rank, is_quiet);
    }
}

impl Connection for Endpoint {
    forward! { to .inner: register map call serve relax wake landings clock probe }

    fn job(&self) -> JobView<'_> {
        JobView { caps: &self.caps, state: self, ..self.inner.job() }
    }

    fn deregister(&self, segment: SegmentId) -> Result<()> {
        self.inner.map(self.inner.job().rank, segment)?;
        self.inner.end_direct_access(segment)?;
        self.keys.forget(segment);
        self.inner.deregister(segment)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        match self.far(to)? {
            Some(far) => self.put_straight(to, far, bytes),
            None => {
                self.settle_writes(to.rank)?;
                self.inner.put(to, bytes)
            }
        }
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started> {
        let Some(far) = self.far(from)? else {
            // SAFETY: by the caller's promise.
            return unsafe { self.inner.get(from, into, hint) };
        };
        let bytes = from.shape.bytes()? as usize;
        // SAFETY: valid and ours alone until the operation has completed, by the caller's promise;
        // it is not touched after that, nor after it was cancelled.
        let buffer = unsafe { Buffer::new(into, bytes) };
        let ticket = self.begin(from.rank, |transfers| transfers.get(far, buffer, bytes))?;
        self.follow_hint(ticket, hint);
        Ok(Started::Pending(Ticket(DIRECT | ticket)))
    }

    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        let Some(far) = self.far(to)? else {
            self.settle_writes(to.rank)?;
            // SAFETY: by the caller's promise.
            return unsafe { self.inner.put_nb(to, from, hint) };
        };
        let bytes = to.shape.bytes()? as usize;
        self.settle(to.rank)?;
        // SAFETY: readable and unchanged until the operation has completed, by the caller's
        // promise; it is not touched after that, nor after it was cancelled.
        let loan = unsafe { Loan::new(std::slice::from_raw_parts(from, bytes), None) };
        let counts = self.counts(to.segment);
        let ticket = self.begin(to.rank, |transfers| transfers.lend(far, loan, counts))?;
        // What is short is on its way already.
        match self.endpoint.with(|transfers| {
            if transfers.is_done(ticket) { transfers.take(ticket) } else { Ok(None) }
        })? {
            Some(reply) => Ok(Started::Done(reply)),
            None => {
                self.follow_hint(ticket, hint);
                Ok(Started::Pending(Ticket(DIRECT | ticket)))
            }
        }
    }

    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        self.settle_writes(to.rank)?;
        self.inner.accumulate(to, accumulate, bytes, old)
    }

    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        if old == OldValue::Ignored {
            self.post(at, op)?;
            return Ok(Started::Done(Reply::None));
        }
        if !self.is_native(at)? {
            self.settle_writes(at.rank)?;
            return self.inner.atomic(at, op, old);
        }
        let (to, atomic) = self.far_word(at, op, false)?;
        self.settle(at.rank)?;
        let ticket = self.endpoint.with(Transfers::begin_fetch);
        let started = self.insist(at.rank, || self.endpoint.atomic(Some(ticket), to, atomic));
        if let Err(error) = started {
            self.endpoint.with(|transfers| transfers.cancel(ticket));
            return Err(error);
        }
        self.inner.start_progress();
        Ok(Started::Pending(Ticket(DIRECT | ticket)))
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        let is_apart = self.atomics == Atomics::Apart && self.is_native(at)?;
        if at.rank != to.rank
            || is_apart
            || (bytes.len() >= SIGNALLED_BYTES && self.far(to)?.is_some())
        {
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
        if !self.caps.cpu_coherent {
            // Near memory is written without asking, so what the interface changes there lands
            // first.
            self.await_writes(self.inner.job().rank, self.inner.node())?;
        }
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
        match self.endpoint.with(|transfers| transfers.failure(peer)) {
            None => Ok(()),
            Some(error) => {
                self.inner.must_be_alive(peer)?;
                Err(error)
            }
        }
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        let Some(transfer) = direct(ticket) else { return self.inner.poll(ticket) };
        if !self.is_done(transfer) {
            self.make_room();
            self.inner.drive_once();
        }
        self.endpoint.with(|transfers| transfers.take(transfer))
    }

    fn cancel(&self, ticket: Ticket) {
        let Some(transfer) = direct(ticket) else { return self.inner.cancel(ticket) };
        // A put lands although nobody waits for it: the bytes are needed until all of it is on its
        // way.
        if let Some(peer) = self.endpoint.with(|transfers| transfers.lent_to(transfer)) {
            // If the peer is lost, so is the rest.
            let is_returned =
                || self.endpoint.with(|transfers| transfers.lent_to(transfer)).is_none();
            let _ = self.drive_until(peer, is_returned);
        }
        self.endpoint.with(|transfers| transfers.cancel(transfer));
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let losses = self.any_lost();
        match wait.event {
            Event::Words(_) if losses && self.atomics != Atomics::Agent => {
                self.block_after_a_loss(wait)
            }
            Event::Done(ticket) => match direct(ticket) {
                Some(transfer) => {
                    if losses {
                        // It may be queued behind them.
                        self.abandon_the_lost();
                    }
                    self.inner.block_until(wait, &mut || self.is_done(transfer))
                }
                None => self.inner.block(wait),
            },
            Event::Words(_) => self.inner.block(wait),
        }
    }

    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(self.another()?))
    }
}

impl Endpoint {
    /// A connection of the same rank for another thread.
    pub fn another(&self) -> Result<Endpoint> {
        Endpoint::of(self.inner.another()?, self.transport.clone(), self.keys.clone())
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        // Where processors and interfaces exclude each other the agent is as good, and wakes the
        // waiters of the word.
        if self.atomics != Atomics::Apart || !self.is_native(at)? {
            self.settle_writes(at.rank)?;
            return self.inner.atomic(at, op, OldValue::Ignored).map(drop);
        }
        let (to, atomic) = self.far_word(at, op, true)?;
        self.settle(at.rank)?;
        self.insist(at.rank, || self.endpoint.atomic(None, to, atomic))?;
        // A rank that sleeps for the word is woken when the agent hears of it, which this thread
        // may not wait for.
        self.inner.hurry_progress();
        Ok(())
    }

    /// Lets a transfer go on while the rank computes, if the caller does not wait for it at once.
    fn follow_hint(&self, transfer: u64, hint: Hint) {
        if hint == Hint::Awaited {
            return;
        }
        let (is_long, owed) =
            self.endpoint.with(|transfers| (transfers.is_long(transfer), transfers.owed()));
        if is_long {
            self.inner.add_background(transfer);
        } else if owed == Owed::Wakes {
            self.inner.hurry_progress();
        }
    }

    fn is_done(&self, transfer: u64) -> bool {
        self.endpoint.with(|transfers| transfers.is_done(transfer))
    }

    /// Waits for words that somebody who was lost may have changed without telling the agent, which
    /// wakes who sleeps.
    fn block_after_a_loss(&self, wait: &Wait<'_>) -> Result<Wake> {
        self.abandon_the_lost();
        let begin = Instant::now();
        loop {
            let left = wait.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            let timeout = left.map_or(AFTER_A_LOSS, |left| left.min(AFTER_A_LOSS));
            match self.inner.block(&Wait { timeout: Some(timeout), ..*wait })? {
                Wake::TimedOut if left.is_none_or(|left| !left.is_zero()) => {
                    self.naps.set(self.naps.get() + 1)
                }
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

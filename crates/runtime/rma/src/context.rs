//! A thread's access to the job: one-sided operations on places, ordering, calls.

use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use farside_fabric::memory::full_fence;
use farside_fabric::{
    Connection, Error, Failures, JobView, Loss, Mapped, Node, PeerState, Probe, ProbeEvent, Rank,
    Reply, Result, SegmentId, Step, Ticket, Topology, Word,
};

use crate::activity::Telling;
use crate::counters::{Counters, Tally};
use crate::failed_calls::FailedCalls;
use crate::marks::Marks;
use crate::meanwhile::Meanwhile;
use crate::polling::Polling;
use crate::prices::{Prices, Processing};
use crate::process::OwnConnection;
use crate::unfreed::Unfreed;

/// One thread's access to the job, with completions and an order of its own.
///
/// A [`World`](crate::World) is the context of the rank's first thread; further threads take theirs
/// with [`Context::context`]. All one-sided operations are methods of it.
pub struct Context {
    parts: Parts,
    alone: PhantomData<dyn EachThreadTakesAContextOfItsOwn + Send>,
}

/// What a context cannot be shared by: its name is what the compiler says when a thread borrows
/// one, instead of a list of all that a context is made of.
trait EachThreadTakesAContextOfItsOwn {}

struct Parts {
    fabric: OwnConnection,
    id: ContextId,
    rank: Rank,
    ranks: u32,
    direct_atomics: bool,
    failures: Failures,
    tally: Tally,
    telling: Telling,
    /// Whether near memory was written by plain instructions that nothing has made visible yet.
    unfenced: Cell<bool>,
    /// The ranks to which something was posted through the fabric since the last flush.
    posted: Marks,
    landings: Landings,
    /// This rank's own part of the first segment.
    root: Mapped,
    /// How many segments the contexts of this rank have named.
    segments: Arc<AtomicU32>,
    failed: Arc<FailedCalls>,
    /// How many departures the last [`Context::relax`] knew of.
    departures_polled: Cell<u32>,
    meanwhile: Meanwhile,
    prices: Cell<Prices>,
    polling: Polling,
    unfreed: Arc<Unfreed>,
    /// The posted calls that are not known to be answered, the oldest first.
    calls: RefCell<Vec<(Node, Ticket)>>,
    /// What is told of places and of own memory, if this job is checked for races.
    probe: Option<Arc<dyn Probe>>,
}

/// What a context counts of its own operations and of those that land, once that is wanted.
pub(crate) struct Landings {
    pub(crate) issued: OnceCell<Box<[Cell<u64>]>>,
    /// The word that counts here, on the first rank of the node.
    pub(crate) landed: OnceCell<(Word, Mapped)>,
    /// How many contexts this rank has made.
    pub(crate) contexts: Arc<AtomicU32>,
}

/// One context of all: as long as one of these is there, no other context has it.
#[derive(Debug, Clone)]
pub(crate) struct ContextId(Arc<()>);

impl PartialEq for ContextId {
    fn eq(&self, other: &ContextId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

// SAFETY: nobody has `Parts` but a `Context`, which is not `Sync`: no reference to them gets to
// another thread.
unsafe impl Sync for Parts {}

/// What the contexts of a rank have in common.
#[derive(Default)]
struct Shared {
    contexts: Arc<AtomicU32>,
    segments: Arc<AtomicU32>,
    failed: Arc<FailedCalls>,
}

/// Whether an atomic of the processor makes all writes before it visible ahead of all reads after
/// it.
pub(crate) const ATOMICS_ARE_FENCES: bool = cfg!(target_arch = "x86_64");

impl Context {
    pub(crate) fn new(fabric: Box<dyn Connection>) -> Result<Context> {
        Context::beside(fabric, Shared::default(), Prices::default())
    }

    fn beside(
        fabric: Box<dyn Connection>,
        Shared { contexts, segments, failed }: Shared,
        prices: Prices,
    ) -> Result<Context> {
        let job = fabric.job();
        let (rank, ranks) = (job.rank, job.topology.ranks());
        let (direct_atomics, failures) = (job.caps.cpu_coherent, job.failures.clone());
        let root = fabric.map(rank, SegmentId::ROOT)?;
        let unfreed = Arc::new(Unfreed::new(rank, failures.clone()));
        let telling = Telling::new(job.state.records());
        let polling = Polling::new(&job);
        let probe = fabric.probe();
        contexts.fetch_add(1, Ordering::Relaxed);
        let parts = Parts {
            id: ContextId(Arc::new(())),
            rank,
            ranks,
            direct_atomics,
            failures,
            tally: Tally::new(ranks, telling.record().clone()),
            telling,
            unfenced: Cell::new(false),
            posted: Marks::new(ranks),
            landings: Landings { issued: OnceCell::new(), landed: OnceCell::new(), contexts },
            root: root.ok_or(Error::NoSegment { rank, segment: SegmentId::ROOT })?,
            segments,
            failed,
            departures_polled: Cell::new(0),
            meanwhile: Meanwhile::default(),
            prices: Cell::new(prices),
            polling,
            unfreed,
            calls: RefCell::default(),
            probe,
            fabric: OwnConnection::new(fabric),
        };
        Ok(Context { parts, alone: PhantomData })
    }

    pub(crate) fn id(&self) -> ContextId {
        self.parts.id.clone()
    }

    /// Returns this rank's number.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.parts.rank
    }

    /// Returns the probe of this rank, if it is checked for races or explored.
    #[inline]
    pub fn probe(&self) -> Option<&Arc<dyn Probe>> {
        self.parts.probe.as_ref()
    }

    /// Tells the probe, if there is one, of an event. Returns the number that it asks for.
    #[inline]
    pub fn tell(&self, event: impl FnOnce() -> ProbeEvent<'static>) -> Option<u64> {
        self.probe()?.event(event())
    }

    /// Returns whether a step of a protocol is left out. A constant but where protocols are
    /// explored: there, known-wrong variants leave one out ([`Omitting`]).
    ///
    /// [`Omitting`]: farside_fabric::omitting::Omitting
    #[inline(always)]
    pub fn omits(&self, step: Step) -> bool {
        cfg!(feature = "explore") && self.tell(|| ProbeEvent::Omits(step)).is_some()
    }

    /// Looks whether an operation is complete, for a program that does not wait for it. What waits
    /// polls the fabric itself: it does the same whatever it finds.
    pub(crate) fn look(&self, ticket: Ticket) -> Result<Option<Reply>> {
        self.tell(|| ProbeEvent::Poll(ticket));
        self.fabric().poll(ticket)
    }

    /// Tells the checker of races, if there is one, that the program uses something which it does
    /// not look into, in words such as "shared pages".
    pub fn note_unseen(&self, what: &'static str) {
        self.tell(|| ProbeEvent::Unseen(what));
    }

    /// Says where the program called the operation that follows.
    #[inline]
    #[track_caller]
    pub(crate) fn note_place(&self) {
        let place = Location::caller();
        self.tell(|| ProbeEvent::At(place));
    }

    pub(crate) fn failed_calls(&self) -> &Arc<FailedCalls> {
        &self.parts.failed
    }

    /// Returns how many ranks the job has.
    #[inline]
    pub fn size(&self) -> u32 {
        self.parts.ranks
    }

    /// Returns all ranks, in order.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + use<> {
        (0..self.parts.ranks).map(Rank)
    }

    /// Returns the job's topology: which node, socket, … each rank is on.
    pub fn topology(&self) -> &Topology {
        self.parts.fabric.job().topology
    }

    /// Returns this rank's view of the job.
    pub fn job(&self) -> JobView<'_> {
        self.parts.fabric.job()
    }

    /// Returns the state of `peer`, which must be a rank of the job.
    pub fn peer_state(&self, peer: Rank) -> PeerState {
        self.job().peer_state(peer)
    }

    /// Returns whether `peer` was lost.
    pub fn is_lost(&self, peer: Rank) -> bool {
        self.job().is_lost(peer)
    }

    /// Returns whether those of `members` that are on this node outnumber its processors: then a
    /// rank that waits should let others run.
    pub fn is_crowded(&self, members: &[Rank]) -> bool {
        self.job().is_crowded(members.iter().copied())
    }

    /// Returns whether the calling process is the rank, and not a child that it has forked: a child
    /// has copies of everything, and takes no part in the job.
    pub fn is_own_process(&self) -> bool {
        self.parts.fabric.is_own()
    }

    /// Returns the fabric's connection underneath.
    pub fn fabric(&self) -> &dyn Connection {
        &*self.parts.fabric
    }

    /// Makes a context for another thread of this rank.
    ///
    /// ```
    /// # farside::local(2, |world| {
    /// let window = world.window::<u64>(1)?;
    /// let context = world.context()?;
    /// std::thread::scope(|threads| {
    ///     threads.spawn(|| {
    ///         let context = context;
    ///         context.fetch_add(window.at(farside::Rank(0), 0), 1)
    ///     });
    ///     world.fetch_add(window.at(farside::Rank(0), 0), 1)
    /// })?;
    /// world.sync()?;
    /// assert_eq!(world.load(window.at(farside::Rank(0), 0))?, 4);
    /// # window.free(world) }).unwrap();
    /// ```
    pub fn context(&self) -> Result<Context> {
        let shared = Shared {
            contexts: self.parts.landings.contexts.clone(),
            segments: self.parts.segments.clone(),
            failed: self.parts.failed.clone(),
        };
        let context =
            Context::beside(self.parts.fabric.context()?, shared, self.parts.prices.get())?;
        context.telling().places.set(self.telling().places.get());
        Ok(context)
    }

    /// Returns the time in nanoseconds, for measuring: on real fabrics since some moment that all
    /// ranks of a node share, in the simulator this rank's virtual time. Zero on a fabric without a
    /// clock.
    pub fn now_ns(&self) -> u64 {
        self.parts.fabric.clock().map_or(0, |clock| clock.now_ns())
    }

    /// Computes for so long: stands for a program's own work in measurements. Nothing on a fabric
    /// without a clock.
    pub fn work(&self, ns: u64) {
        if let Some(clock) = self.parts.fabric.clock() {
            clock.work(ns);
        }
    }

    /// Sets what processing costs this context, and the contexts that are made from it later.
    #[doc(hidden)]
    pub fn set_prices(&self, prices: Prices) {
        self.parts.prices.set(prices);
    }

    /// Spends the price of some processing. A protocol calls it where a real machine takes the time
    /// by itself.
    #[doc(hidden)]
    #[inline]
    pub fn charge(&self, what: Processing) {
        let ns = self.parts.prices.get().of(what);
        if ns > 0 {
            self.work(ns);
        }
    }

    /// Returns what this context has done so far.
    pub fn counters(&self) -> Counters {
        self.parts.tally.read(self.job().state.effort())
    }

    /// A name for a new segment; `None` when this rank has given all that it has.
    pub(crate) fn name_segment(&self) -> Option<SegmentId> {
        let next = |count: u32| count.checked_add(1);
        let before =
            self.parts.segments.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(SegmentId::named_by(self.parts.rank, before + 1))
    }

    /// Pretends that this rank has named so many segments: for tests of what happens when no name
    /// is left.
    #[doc(hidden)]
    pub fn have_named(&self, count: u32) {
        self.parts.segments.store(count, Ordering::Relaxed);
    }

    pub(crate) fn root(&self) -> &Mapped {
        &self.parts.root
    }

    pub(crate) fn departures_polled(&self) -> &Cell<u32> {
        &self.parts.departures_polled
    }

    #[inline]
    pub(crate) fn meanwhile(&self) -> &Meanwhile {
        &self.parts.meanwhile
    }

    pub(crate) fn posted_calls(&self) -> &RefCell<Vec<(Node, Ticket)>> {
        &self.parts.calls
    }

    #[inline]
    pub(crate) fn landings(&self) -> &Landings {
        &self.parts.landings
    }

    pub(crate) fn unfreed(&self) -> &Arc<Unfreed> {
        &self.parts.unfreed
    }

    #[inline]
    pub(crate) fn telling(&self) -> &Telling {
        &self.parts.telling
    }

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        &self.parts.tally
    }

    #[inline]
    pub(crate) fn polling(&self) -> &Polling {
        &self.parts.polling
    }

    /// Returns the counters of ranks that were lost or have left: cheap to read before every
    /// operation.
    #[inline]
    pub fn failures(&self) -> &Failures {
        &self.parts.failures
    }

    /// Whether the processor's atomics and sums may be used on near memory.
    #[inline]
    pub(crate) fn has_direct_atomics(&self) -> bool {
        self.parts.direct_atomics
    }

    /// Notes that something is about to be posted to a rank through the fabric.
    #[inline]
    pub(crate) fn post_to(&self, peer: Rank) {
        self.parts.posted.add(peer);
    }

    /// Notes that near memory is about to be written by plain instructions.
    #[inline]
    pub(crate) fn write_near(&self) {
        self.parts.unfenced.set(true);
    }

    /// Makes visible what was written to near memory by plain instructions, ahead of anything that
    /// this thread does or reads afterwards. What the program has stored by itself, of which
    /// nothing is known here, is ahead of whatever it writes afterwards.
    #[inline]
    pub(crate) fn fence_near(&self) {
        if self.parts.unfenced.replace(false) { full_fence() } else { fence(Ordering::Release) }
    }

    /// Notes that this thread may have written near memory by instructions of its own: the next
    /// flush makes that visible ahead of anything that it does or reads afterwards.
    #[inline]
    pub fn note_stores(&self) {
        self.write_near();
    }

    /// Notes that near memory was changed by what makes visible all that was written before.
    #[inline]
    pub(crate) fn changed_visibly(&self) {
        self.parts.unfenced.set(false);
    }

    #[inline]
    pub(crate) fn changed_atomically(&self) {
        self.parts.unfenced.set(!ATOMICS_ARE_FENCES);
    }

    #[inline]
    pub(crate) fn posted(&self) -> &Marks {
        &self.parts.posted
    }

    #[inline]
    pub(crate) fn has_posted_to(&self, peer: Rank) -> bool {
        self.parts.posted.contains(peer)
    }

    /// Fails if `peer` was lost. One load, as long as no rank was.
    #[inline]
    pub(crate) fn check_lost(&self, peer: Rank) -> Result<()> {
        if self.parts.failures.any_lost() { self.check_alive(peer) } else { Ok(()) }
    }

    #[cold]
    fn check_alive(&self, peer: Rank) -> Result<()> {
        self.loss_among([peer]).map_or(Ok(()), |loss| Err(loss.error()))
    }

    /// Returns the first loss among `ranks`, and leaves it behind as the cause in case this rank
    /// ends now.
    pub fn loss_among(&self, ranks: impl IntoIterator<Item = Rank>) -> Option<Loss> {
        self.job().first_loss(ranks).inspect(|&loss| self.note_reason(loss))
    }
}

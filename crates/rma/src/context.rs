//! A thread's way into the job: one-sided operations, ordering, waiting.

use std::cell::Cell;
use std::convert::identity;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use farside_fabric::memory::full_fence;
use farside_fabric::{
    Atomic, Error, Event, Fabric, HandlerId, Mapped, Node, Rank, Region, Reply, Result, SegmentId,
    Started, Ticket, Topology, Width, Word, first_loss,
};
use zerocopy::IntoBytes;

use crate::counters::{Counters, Tally};
use crate::landings::Landings;
use crate::marks::Marks;
use crate::place::Place;
use crate::plain::{Integer, Plain, Summand};
use crate::segment::Segment;
use crate::waiting::FailureScope;

/// One thread's way into the job, with completions and an order of its own.
///
/// A [`World`](crate::World) is the context of the rank's first thread; further threads take theirs
/// with [`Context::context`]. All one-sided operations are methods of it.
pub struct Context {
    fabric: Box<dyn Fabric>,
    rank: Rank,
    ranks: u32,
    /// Whether the processor's atomics may be used on near memory.
    direct_atomics: bool,
    tally: Tally,
    /// Whether near memory was written by plain instructions that nothing has made visible yet.
    unfenced: Cell<bool>,
    /// The ranks to which something was posted through the fabric since the last flush.
    posted: Marks,
    landings: Landings,
    /// My own first segment, for the words beside it.
    root: Mapped,
    /// How many segments this context has named.
    segments: Cell<u32>,
    /// How many departures the last [`Context::relax`] knew of.
    departures_polled: Cell<u32>,
}

/// Whether an atomic of the processor makes all writes before it visible ahead of all reads after
/// it.
const ATOMICS_ARE_FENCES: bool = cfg!(target_arch = "x86_64");

impl Context {
    pub(crate) fn new(fabric: Box<dyn Fabric>) -> Result<Context> {
        Context::beside(fabric, Arc::default())
    }

    /// One of the contexts of a rank, which share `contexts`.
    fn beside(fabric: Box<dyn Fabric>, contexts: Arc<AtomicU32>) -> Result<Context> {
        let (rank, ranks) = (fabric.rank(), fabric.topology().ranks());
        Ok(Context {
            rank,
            ranks,
            direct_atomics: fabric.caps().cpu_coherent,
            tally: Tally::new(ranks),
            unfenced: Cell::new(false),
            posted: Marks::new(ranks),
            landings: Landings::new(contexts),
            root: fabric.own(SegmentId::ROOT)?,
            segments: Cell::new(0),
            departures_polled: Cell::new(0),
            fabric,
        })
    }

    /// Who I am.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks the job has.
    #[inline]
    pub fn size(&self) -> u32 {
        self.ranks
    }

    /// All ranks, in order.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = Rank> + ExactSizeIterator + use<> {
        (0..self.ranks).map(Rank)
    }

    /// Who is where.
    pub fn topology(&self) -> &Topology {
        self.fabric.topology()
    }

    /// The fabric underneath.
    pub fn fabric(&self) -> &dyn Fabric {
        &*self.fabric
    }

    /// A way into the job for another thread of this rank.
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
    /// # window.free(&world) }).unwrap();
    /// ```
    pub fn context(&self) -> Result<Context> {
        Context::beside(self.fabric.context()?, self.landings.contexts())
    }

    /// The time in nanoseconds, for measuring: on real fabrics since some moment that all ranks of
    /// a node share, in the simulator this rank's virtual time.
    pub fn now_ns(&self) -> u64 {
        self.fabric.now_ns()
    }

    /// Computes for so long: stands for a program's own work where there is none, in measurements.
    pub fn work(&self, ns: u64) {
        self.fabric.work(ns);
    }

    /// What this context has done so far.
    pub fn counters(&self) -> Counters {
        self.tally.read(self.fabric.effort())
    }

    /// A name for a new segment; `None` when this rank has given all that it has. Only the context
    /// of a rank's first thread allocates, so no two names are alike.
    pub(crate) fn name_segment(&self, name: impl Fn(Rank, u32) -> SegmentId) -> Option<SegmentId> {
        let count = self.segments.get().checked_add(1)?;
        self.segments.set(count);
        Some(name(self.rank, count))
    }

    /// Pretends that this context has named so many segments: for tests of what happens when no
    /// name is left.
    #[doc(hidden)]
    pub fn have_named(&self, count: u32) {
        self.segments.set(count);
    }

    /// My own first segment.
    pub(crate) fn root(&self) -> &Mapped {
        &self.root
    }

    pub(crate) fn departures_polled(&self) -> &Cell<u32> {
        &self.departures_polled
    }

    pub(crate) fn landings(&self) -> &Landings {
        &self.landings
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Writes `data` to a place. Returns as soon as `data` may be reused; [`Context::flush`] tells
    /// when it has landed.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let window = world.window::<f64>(100)?;
    /// if world.rank() == Rank(0) {
    ///     world.put(&[1.0, 2.0, 3.0], window.at(Rank(1), 10))?;
    /// }
    /// world.sync()?;
    /// assert_eq!(world.get_value(window.at(Rank(1), 12))?, 3.0);
    /// # window.free(&world) }).unwrap();
    /// ```
    #[inline]
    pub fn put<T: Plain>(&self, data: &[T], to: Place<'_, T>) -> Result<()> {
        let bytes = data.as_bytes();
        to.check(bytes.len() as u64)?;
        self.put_said(to.segment, to.rank, to.offset, bytes, |error| to.in_elements(error))
    }

    /// Writes one element.
    #[inline]
    pub fn put_value<T: Plain>(&self, value: T, to: Place<'_, T>) -> Result<()> {
        self.put(std::slice::from_ref(&value), to)
    }

    /// Reads from a place into `into`.
    #[inline]
    pub fn get<T: Plain>(&self, from: Place<'_, T>, into: &mut [T]) -> Result<()> {
        let bytes = into.as_mut_bytes();
        from.check(bytes.len() as u64)?;
        self.get_said(from.segment, from.rank, from.offset, bytes, |error| from.in_elements(error))
    }

    /// Reads one element.
    #[inline]
    pub fn get_value<T: Plain>(&self, from: Place<'_, T>) -> Result<T> {
        let mut value = T::new_zeroed();
        self.get(from, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Adds `scale * data` to what is at a place, element by element; accumulates on the same
    /// elements do not disturb each other.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(4, |world| {
    /// let window = world.window::<f64>(2)?;
    /// world.accumulate(0.5, &[2.0, 4.0], window.at(Rank(0), 0))?;
    /// world.sync()?;
    /// assert_eq!(world.get_value(window.at(Rank(0), 1))?, 8.0);
    /// # window.free(&world) }).unwrap();
    /// ```
    pub fn accumulate<T: Summand>(&self, scale: T, data: &[T], to: Place<'_, T>) -> Result<()> {
        let bytes = data.as_bytes();
        to.check(bytes.len() as u64)?;
        self.tally.accumulate(to.rank, bytes.len() as u64);
        let part = to.segment.part(to.rank)?;
        match part.near {
            // Where atomics must not be done by the processor, sums must not be either.
            Some(mapped) if self.direct_atomics => {
                self.check_lost(mapped.somebody_lost(), to.rank)?;
                self.write_near();
                let mut held_up = |holder| self.fabric.held_up(holder);
                let done =
                    mapped.accumulate(to.offset, &scale.sum(), bytes, self.rank, &mut held_up);
                if done { Ok(()) } else { Err(to.out_of_range(bytes.len() as u64)) }
            }
            _ => {
                let region = Region::block(to.rank, to.segment.id, to.offset, bytes.len() as u64);
                // What is posted could complain only later.
                region.check(part.bytes).map_err(|error| to.in_elements(error))?;
                self.post_to(to.rank);
                self.fabric.accumulate(&region, &scale.sum(), bytes)?;
                self.landings.issue(self, to.rank, to.segment.id, 1);
                Ok(())
            }
        }
    }

    /// Writes `data` to a place and then, when it is there, `value` to a word of the same rank,
    /// waking who waits for it.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let (data, flag) = (world.window::<u8>(100)?, world.window::<u64>(1)?);
    /// if world.rank() == Rank(0) {
    ///     world.put_signal(b"news", data.at(Rank(1), 0), 1, flag.at(Rank(1), 0))?;
    /// } else {
    ///     world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
    ///     assert_eq!(world.get_value(data.at(Rank(1), 3))?, b's');
    /// }
    /// # data.free(&world)?; flag.free(&world) }).unwrap();
    /// ```
    pub fn put_signal<T: Plain, I: Integer>(
        &self,
        data: &[T],
        to: Place<'_, T>,
        value: I,
        signal: Place<'_, I>,
    ) -> Result<()> {
        if to.rank != signal.rank {
            let (data, signal) = (to.rank, signal.rank);
            return Err(Error::Misuse(format!(
                "put_signal of data to {data} with a signal to {signal}: both go to one rank; to \
                 signal another one, put, \
                 flush {data}, and signal"
            )));
        }
        signal.check(size_of::<I>() as u64)?;
        to.check(size_of_val(data) as u64)?;
        let at = (signal.segment, signal.offset, I::WIDTH);
        let signalled = self.put_signal_at(
            to.segment,
            to.rank,
            to.offset,
            data.as_bytes(),
            at,
            value.to_bits(),
        );
        signalled.map_err(|error| signal.in_elements(to.in_elements(error)))
    }

    /// Orders: what I put before comes ahead of what I put, signal, accumulate or do atomically at
    /// the same rank afterwards. It says nothing about gets: [`Context::flush`] does.
    #[inline]
    pub fn fence(&self) -> Result<()> {
        // Near, what is written later is seen later. That is all there is to do.
        std::sync::atomic::fence(Ordering::Release);
        if self.posted.is_empty() { Ok(()) } else { self.fabric.fence() }
    }

    /// Returns when all that I put to `peer` has landed there, ahead of anything that I do or read
    /// afterwards.
    #[inline]
    pub fn flush(&self, peer: Rank) -> Result<()> {
        if peer.0 >= self.ranks {
            return Err(Error::UnknownRank { rank: peer, ranks: self.ranks });
        }
        if self.unfenced.replace(false) {
            full_fence();
        }
        self.check_lost(self.root.somebody_lost(), peer)?;
        if self.posted.contains(peer) {
            self.fabric.flush(peer)?;
            self.posted.remove(peer);
        }
        Ok(())
    }

    /// Whether an atomic on a word of `peer`, done next, makes visible all that I put to it before:
    /// then a protocol need not flush ahead of it.
    #[inline]
    pub fn flushes_by_atomic(&self, peer: Rank) -> bool {
        ATOMICS_ARE_FENCES
            && self.direct_atomics
            && peer.0 < self.ranks
            && !self.posted.contains(peer)
    }

    /// Returns when all that I put to anybody has landed. Fails if a far rank that something was
    /// put to was lost.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        if self.unfenced.replace(false) {
            full_fence();
        }
        if self.posted.is_empty() { Ok(()) } else { self.flush_posted() }
    }

    fn flush_posted(&self) -> Result<()> {
        let mut first_error = Ok(());
        for rank in self.posted.iter() {
            let flushed = self.flush(rank);
            // What was posted to the lost is lost, and told once; the others are flushed all the
            // same.
            if matches!(flushed, Err(Error::RankLost { .. })) {
                self.posted.remove(rank);
            }
            first_error = first_error.and(flushed);
        }
        first_error
    }

    /// Notes that something is about to be posted to a rank through the fabric.
    #[inline]
    pub(crate) fn post_to(&self, peer: Rank) {
        self.posted.add(peer);
    }

    /// Notes that near memory is about to be written by plain instructions.
    #[inline]
    pub(crate) fn write_near(&self) {
        self.unfenced.set(true);
    }

    /// Asks the agent of a node to run a handler, and waits for its reply. See
    /// [`World::serve`](crate::World::serve).
    ///
    /// The call is executed exactly once, if any rank of the node is there to run it.
    /// [`Error::RankLost`] names the rank whose process was killed while it ran this call, or says
    /// that nobody of the node is left; the call may then have been executed, in part, or not at
    /// all.
    pub fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Vec<u8>> {
        let leader = self.topology().leader_of(node)?;
        self.tally.call(leader);
        let started = self.fabric.call(node, handler, bytes);
        let reply = started.and_then(|started| self.finish_as(started, &FailureScope::Agent(node)));
        match reply.map_err(|error| self.cause_of_failed_call(error, leader))? {
            Reply::Bytes(bytes) => Ok(bytes),
            other => Err(Error::Misuse(format!("a call brought back {other:?} instead of bytes"))),
        }
    }

    /// Waits for an operation on `peer` that was started.
    pub(crate) fn finish(&self, started: Started, peer: Rank) -> Result<Reply> {
        self.finish_as(started, &FailureScope::Peer(peer))
    }

    fn finish_as(&self, started: Started, concern: &FailureScope<'_>) -> Result<Reply> {
        match started {
            Started::Done(reply) => Ok(reply),
            Started::Pending(ticket) => self.complete_as(ticket, concern),
        }
    }

    /// Waits for an operation on `peer`; whatever happens, its buffer is free afterwards.
    pub(crate) fn complete(&self, ticket: Ticket, peer: Rank) -> Result<Reply> {
        self.complete_as(ticket, &FailureScope::Peer(peer))
    }

    fn complete_as(&self, ticket: Ticket, concern: &FailureScope<'_>) -> Result<Reply> {
        loop {
            if let Some(reply) = self.fabric.poll(ticket)? {
                return Ok(reply);
            }
            if let Err(error) = self.wait_event(Event::Done(ticket), concern, None) {
                self.fabric.cancel(ticket);
                return Err(error);
            }
        }
    }

    #[inline]
    pub(crate) fn check_lost(&self, somebody_lost: bool, peer: Rank) -> Result<()> {
        if somebody_lost { self.check_alive(peer) } else { Ok(()) }
    }

    #[cold]
    fn check_alive(&self, peer: Rank) -> Result<()> {
        match first_loss(&*self.fabric, [peer]) {
            Some(loss) => {
                self.note_reason(loss);
                Err(loss.error())
            }
            None => Ok(()),
        }
    }
}

/// The same operations by segment and byte offset, for the rest of this crate.
impl Context {
    #[inline]
    pub(crate) fn put_at(
        &self,
        segment: &Segment,
        to: Rank,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        self.put_said(segment, to, offset, bytes, identity)
    }

    #[inline]
    pub(crate) fn get_at(
        &self,
        segment: &Segment,
        from: Rank,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        self.get_said(segment, from, offset, into, identity)
    }

    #[inline(always)]
    pub(crate) fn atomic_at(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<u128> {
        self.atomic_said(segment, at, offset, width, op, identity)
    }

    #[inline]
    pub(crate) fn post_at(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<()> {
        self.post_said(segment, at, offset, width, op, identity)
    }
}

/// And the same with better words for what is out of range: `said` puts the error into them. Where
/// nothing is wrong, that costs nothing.
impl Context {
    #[inline]
    pub(crate) fn put_said(
        &self,
        segment: &Segment,
        to: Rank,
        offset: u64,
        bytes: &[u8],
        said: impl FnOnce(Error) -> Error,
    ) -> Result<()> {
        let part = segment.part(to)?;
        self.tally.put(to, bytes.len() as u64);
        let Some(mapped) = part.near else {
            let region = Region::block(to, segment.id, offset, bytes.len() as u64);
            // What is posted could complain only later.
            region.check(part.bytes).map_err(said)?;
            self.post_to(to);
            self.fabric.put(&region, bytes)?;
            self.landings.issue(self, to, segment.id, 1);
            return Ok(());
        };
        self.check_lost(mapped.somebody_lost(), to)?;
        self.write_near();
        if mapped.put(offset, bytes) {
            Ok(())
        } else {
            Err(said(segment.out_of_range(to, offset, bytes.len() as u64)))
        }
    }

    /// Writes to my own part, where others will read it after the next signal.
    pub(crate) fn put_own(&self, segment: &Segment, offset: u64, bytes: &[u8]) -> Result<()> {
        self.put_at(segment, self.rank, offset, bytes)?;
        // Through the fabric, it is under way until it is flushed. Near, the signal itself will
        // order it.
        if self.posted.contains(self.rank) { self.flush(self.rank) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn get_said(
        &self,
        segment: &Segment,
        from: Rank,
        offset: u64,
        into: &mut [u8],
        said: impl FnOnce(Error) -> Error,
    ) -> Result<()> {
        let part = segment.part(from)?;
        self.tally.get(from, into.len() as u64);
        let Some(mapped) = part.near else {
            return self.get_far(segment, from, offset, into).map_err(said);
        };
        self.check_lost(mapped.somebody_lost(), from)?;
        if mapped.get(offset, into) {
            Ok(())
        } else {
            Err(said(segment.out_of_range(from, offset, into.len() as u64)))
        }
    }

    fn get_far(&self, segment: &Segment, from: Rank, offset: u64, into: &mut [u8]) -> Result<()> {
        self.get_region(&Region::block(from, segment.id, offset, into.len() as u64), into)
    }

    /// Reads a region of any shape, packed, through the fabric.
    pub(crate) fn get_region(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        from.check_length(into.len())?;
        // SAFETY: `into` is exclusively borrowed and as long as the region, and `finish` returns
        // only when the operation is over.
        let started = unsafe { self.fabric.get(from, into.as_mut_ptr())? };
        self.finish(started, from.rank).map(|_| ())
    }

    // Inlined wherever it is called with a known operation, of which little is left then: locks
    // live on it.
    #[inline(always)]
    pub(crate) fn atomic_said(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
        said: impl FnOnce(Error) -> Error,
    ) -> Result<u128> {
        let part = segment.part(at)?;
        self.tally.atomic(at);
        if let Some(mapped) = part.near
            && self.direct_atomics
        {
            self.check_lost(mapped.somebody_lost(), at)?;
            let held = mapped.atomic(offset, width, op);
            // A load changes nothing that anybody could wait for.
            if op.writes() && held.is_some() {
                if ATOMICS_ARE_FENCES {
                    self.unfenced.set(false);
                } else {
                    self.write_near();
                }
                if mapped.is_watched(offset, width) {
                    self.fabric.wake(at);
                }
            }
            return held.ok_or_else(|| said(self.bad_word(segment, at, offset, width, op)));
        }
        self.atomic_far(Word { rank: at, segment: segment.id, offset, width }, op).map_err(said)
    }

    #[inline(never)]
    pub(crate) fn atomic_far(&self, at: Word, op: Atomic) -> Result<u128> {
        match self.finish(self.fabric.atomic(at, op)?, at.rank)? {
            Reply::Word(held) => Ok(held),
            other => {
                Err(Error::Misuse(format!("an atomic brought back {other:?} instead of a word")))
            }
        }
    }

    /// An atomic whose old value nobody wants: it need not be waited for.
    #[inline]
    pub(crate) fn post_said(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
        said: impl FnOnce(Error) -> Error,
    ) -> Result<()> {
        let part = segment.part(at)?;
        if part.near.is_some() && self.direct_atomics {
            return self.atomic_said(segment, at, offset, width, op, said).map(|_| ());
        }
        let word = Word { rank: at, segment: segment.id, offset, width };
        word.check(part.bytes).map_err(said)?;
        self.tally.atomic(at);
        self.post_to(at);
        self.fabric.post(word, op)?;
        self.landings.issue(self, at, segment.id, 1);
        Ok(())
    }

    pub(crate) fn put_signal_at(
        &self,
        segment: &Segment,
        to: Rank,
        offset: u64,
        bytes: &[u8],
        (flags, flag, width): (&Segment, u64, Width),
        value: u128,
    ) -> Result<()> {
        if segment.part(to)?.near.is_some() {
            self.put_at(segment, to, offset, bytes)?;
            // The atomic that follows orders the bytes before itself.
            return self.post_at(flags, to, flag, width, Atomic::Store(value));
        }
        self.tally.put(to, bytes.len() as u64);
        self.tally.atomic(to);
        let region = Region::block(to, segment.id, offset, bytes.len() as u64);
        let at = Word { rank: to, segment: flags.id, offset: flag, width };
        region.check(segment.part(to)?.bytes)?;
        at.check(flags.part(to)?.bytes)?;
        self.post_to(to);
        self.fabric.put_signal(&region, bytes, at, Atomic::Store(value))?;
        self.landings.issue(self, to, segment.id, 1);
        self.landings.issue(self, to, flags.id, 1);
        Ok(())
    }

    #[cold]
    fn bad_word(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Error {
        let word = Word { rank: at, segment: segment.id, offset, width };
        let segment_bytes = segment.part(at).map_or(0, |part| part.bytes);
        match op.check(width).and_then(|()| word.check(segment_bytes)) {
            Err(error) => error,
            Ok(()) => Error::Misuse(format!("{} on {word:?} was refused", op.name())),
        }
    }
}

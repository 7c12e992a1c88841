//! Near memory: what the processor's own instructions do to a part that this process maps.
//!
//! This is the one near path, for a context's own operations, the words of protocols, OpenSHMEM,
//! MPI, C and Python alike:
//!
//! - *Losses:* one load says that no rank was lost. Once one was, what is called `direct` and all
//!   of [`NearPart`] and [`NearWord`] refuse, and the caller goes the long way, on which the target
//!   is looked at ([`Context::target`]).
//! - *Ends:* so does what is asked for memory that was freed.
//! - *Order:* a put is relaxed stores, of which the next fence, flush or atomic of the context
//!   knows ([`Context::write_near`]). Atomics are sequentially consistent, and a signal is a
//!   release.
//! - *Counting:* every operation is counted to the owner of the memory, in the context's record.
//! - *Waking:* signals and atomics wake whoever waits for the word. So do puts by OpenSHMEM, whose
//!   programs wait for words that others put; no other put looks for sleepers. Nobody waits for a
//!   [`NearWord`].
//! - *Polling:* a fetch is noted, so that a loop of fetches lets others run.
//!
//! [`NearWord`]: crate::NearWord

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use farside_fabric::memory::{Contender, Rows, copy_in, copy_out};
use farside_fabric::record::PeerCount;
use farside_fabric::{Accumulate, Atomic, Mapped, Piece, Rank, Width};

use crate::context::Context;
use crate::counters::{PeerTally, count_accumulate, count_atomic, count_get, count_put};
use crate::segment::Segment;

/// A rank's part of a segment, for one operation.
#[derive(Clone, Copy)]
pub(crate) struct Near<'s> {
    pub(crate) mapped: &'s Mapped,
    pub(crate) rank: Rank,
    count: Option<&'s PeerCount>,
}

impl Context {
    /// Returns near memory on which the processor's atomics may be used, unless a rank was lost:
    /// then [`Context::atomic_target`] has to be asked.
    #[inline(always)]
    pub(crate) fn direct_target<'s>(
        &'s self,
        segment: &'s Segment,
        rank: Rank,
    ) -> Option<Near<'s>> {
        if !self.has_direct_atomics() || self.failures().any_lost() {
            return None;
        }
        segment.near(rank).map(|mapped| self.near(mapped, rank))
    }

    #[inline(always)]
    pub(crate) fn near<'s>(&'s self, mapped: &'s Mapped, rank: Rank) -> Near<'s> {
        Near { mapped, rank, count: self.tally().peer(rank) }
    }

    /// Writes bytes; false, and nothing done, if they do not fit.
    #[inline(always)]
    pub(crate) fn put_near(&self, to: Near<'_>, offset: u64, bytes: &[u8]) -> bool {
        let fits = to.mapped.put(offset, bytes);
        if fits {
            self.write_near();
            count_put(to.count, bytes.len() as u64);
        }
        fits
    }

    /// Likewise; wakes the owner if it waits for a word among the bytes. One that falls asleep at
    /// this moment may be missed.
    #[inline(always)]
    pub(crate) fn put_near_and_wake(&self, to: Near<'_>, offset: u64, bytes: &[u8]) -> bool {
        let fits = self.put_near(to, offset, bytes);
        if fits {
            self.wake_within(to.mapped, to.rank, offset, bytes.len() as u64);
        }
        fits
    }

    #[inline(always)]
    pub(crate) fn wake_within(&self, mapped: &Mapped, rank: Rank, offset: u64, bytes: u64) {
        if mapped.is_watched_within(offset, bytes) {
            self.wake(rank);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, rank: Rank) {
        self.fabric().wake(rank);
    }

    /// Reads bytes; false, and nothing done, if they are not all inside.
    #[inline(always)]
    pub(crate) fn get_near(&self, from: Near<'_>, offset: u64, into: &mut [u8]) -> bool {
        let fits = from.mapped.get(offset, into);
        if fits {
            count_get(from.count, into.len() as u64);
            self.note_fetched_bytes(from.mapped.address(offset), into);
        }
        fits
    }

    /// Writes rows of equal length; false, and nothing done, if they do not fit.
    #[inline]
    pub(crate) fn put_rows_near(&self, to: Near<'_>, offset: u64, data: &[u8], rows: Rows) -> bool {
        let fits = to.mapped.put_rows(offset, data, rows);
        if fits {
            self.write_near();
            count_put(to.count, (rows.count * rows.bytes) as u64);
        }
        fits
    }

    /// Reads rows of equal length; false, and nothing done, if they are not all inside. The first
    /// stands for all where loops of fetches are looked for, as with pieces.
    #[inline]
    pub(crate) fn get_rows_near(
        &self,
        from: Near<'_>,
        offset: u64,
        into: &mut [u8],
        rows: Rows,
    ) -> bool {
        let fits = from.mapped.get_rows(offset, into, rows);
        if fits {
            count_get(from.count, (rows.count * rows.bytes) as u64);
            self.note_fetched_bytes(from.mapped.address(offset), &into[..rows.bytes]);
        }
        fits
    }

    /// Writes pieces of `bytes` bytes together, each of which `put` gives to the mapping; false if
    /// one did not fit.
    #[inline]
    pub(crate) fn put_pieces_near(
        &self,
        to: Near<'_>,
        bytes: u64,
        put: impl FnOnce(&Mapped) -> bool,
    ) -> bool {
        self.write_near();
        let fits = put(to.mapped);
        if fits {
            count_put(to.count, bytes);
        }
        fits
    }

    /// Reads pieces of `bytes` bytes together, each of which `get` takes from the mapping, and says
    /// where the first was and is; false if one is not inside.
    #[inline]
    pub(crate) fn get_pieces_near<'i>(
        &self,
        from: Near<'_>,
        bytes: u64,
        get: impl FnOnce(&Mapped) -> (bool, Option<(u64, &'i [u8])>),
    ) -> bool {
        let (fits, first) = get(from.mapped);
        if fits {
            count_get(from.count, bytes);
        }
        if let Some((offset, piece)) = first {
            self.note_fetched_bytes(from.mapped.address(offset), piece);
        }
        fits
    }

    /// Combines elements of `bytes` bytes together, which `run` gives to the mapping; whether it
    /// has. An accumulate that fetches has made visible all that was written before, unless it had
    /// nothing to do.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn accumulate_near(
        &self,
        to: Near<'_>,
        bytes: u64,
        fetches: bool,
        run: impl FnOnce(&Mapped, &mut Contender<'_>) -> bool,
    ) -> bool {
        self.write_near();
        let is_done = self.contend(|contender| run(to.mapped, contender));
        if is_done {
            count_accumulate(to.count, bytes);
            if fetches && bytes > 0 {
                self.changed_visibly();
            }
        }
        is_done
    }

    /// Executes an atomic for a program that wants to know what the word held.
    #[inline(always)]
    pub(crate) fn fetch_near(
        &self,
        at: Near<'_>,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Option<u128> {
        let held = self.atomic_near(at, offset, width, op)?;
        self.note_fetch(at.mapped.address(offset), held as u64);
        Some(held)
    }

    /// Executes an atomic; `None`, and nothing done, if the word is outside or misaligned, or has
    /// no such operation.
    #[inline(always)]
    pub(crate) fn atomic_near(
        &self,
        at: Near<'_>,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Option<u128> {
        let held = at.mapped.atomic(offset, width, op)?;
        // A load changes nothing that a rank could wait for.
        if op.writes() {
            self.changed_atomically();
            if at.mapped.is_watched(offset, width) {
                self.wake(at.rank);
            }
        }
        count_atomic(at.count);
        Some(held)
    }

    /// Notes that the program has fetched a word of near memory without the fabric, from an address
    /// of this process: a loop that does so, and finds the word unchanged, lets others run where
    /// ranks outnumber processors. For interfaces that fetch by themselves; the context's own
    /// operations do it.
    #[inline(always)]
    pub fn note_fetch(&self, at: usize, held: u64) {
        if self.polling().is_crowded() {
            self.look_at(at, held);
        }
    }

    /// Likewise, of a few bytes.
    #[inline(always)]
    pub(crate) fn note_fetched_bytes(&self, at: usize, bytes: &[u8]) {
        if self.polling().is_crowded() && bytes.len() <= size_of::<u64>() {
            let mut held = [0; size_of::<u64>()];
            held[..bytes.len()].copy_from_slice(bytes);
            self.look_at(at, u64::from_ne_bytes(held));
        }
    }

    #[inline(never)]
    fn look_at(&self, at: usize, held: u64) {
        if self.polling().is_idle(at, held) {
            self.fabric().relax();
        }
    }
}

/// A part of a rank's memory that an interface looks up once and uses often, by one context: loads
/// and stores reach it. What it refuses has done nothing, and is left to the operations of
/// [`Context`], which say why.
pub struct NearPart {
    base: *mut u8,
    bytes: u64,
    /// The part of a segment that it is in, if it is memory of the job.
    whole: Option<Whole>,
    /// The offset there of its first byte.
    start: u64,
    rank: Rank,
    tally: PeerTally,
}

struct Whole {
    segment: Arc<Segment>,
    mapped: Mapped,
}

impl NearPart {
    pub(crate) fn new(context: &Context, segment: &Arc<Segment>, rank: Rank) -> Option<NearPart> {
        let mapped = segment.near(rank)?.clone();
        let (base, bytes) = (mapped.base().as_ptr(), mapped.bytes());
        let (whole, tally) = (Whole { segment: segment.clone(), mapped }, context.tally().of(rank));
        Some(NearPart { base, bytes, whole: Some(whole), start: 0, rank, tally })
    }

    /// Returns `bytes` bytes of it from `start` on; `None` if they are not all inside.
    #[must_use]
    pub fn narrowed(self, start: u64, bytes: u64) -> Option<NearPart> {
        let base = self.address(start);
        let is_inside = self.holds(start, bytes);
        is_inside.then_some(NearPart { base, bytes, start: self.start + start, ..self })
    }

    /// Returns a part of this process's own memory, which is not the job's: nobody waits for a word
    /// in it, and it has no atomics.
    ///
    /// # Safety
    ///
    /// Whatever the part is asked to read or write must be this process's memory then.
    pub unsafe fn of_process(context: &Context, base: *mut u8, bytes: u64) -> NearPart {
        let rank = context.rank();
        NearPart { base, bytes, whole: None, start: 0, rank, tally: context.tally().of(rank) }
    }

    /// Returns where it begins in this process.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    #[inline(always)]
    fn address(&self, offset: u64) -> *mut u8 {
        self.base.wrapping_add(offset as usize)
    }

    #[inline(always)]
    fn holds(&self, offset: u64, bytes: u64) -> bool {
        bytes <= self.bytes && offset <= self.bytes - bytes
    }

    /// Whether bytes may be used: after the segment was freed they may be another's.
    #[inline(always)]
    fn allows(&self, context: &Context, offset: u64, bytes: u64) -> bool {
        let has_ended = self.whole.as_ref().is_some_and(|whole| whole.segment.has_ended());
        !context.failures().any_lost() && !has_ended && self.holds(offset, bytes)
    }

    /// Returns the segment's memory as an operation uses it, if the processor's atomics may be used
    /// on it.
    #[inline(always)]
    fn direct<'s>(&'s self, context: &'s Context, offset: u64, bytes: u64) -> Option<Near<'s>> {
        let mapped = &self.whole.as_ref()?.mapped;
        let is_allowed = context.has_direct_atomics() && self.allows(context, offset, bytes);
        is_allowed.then(|| Near {
            mapped,
            rank: self.rank,
            count: self.tally.counts(context.tally()),
        })
    }

    /// Writes bytes, as [`Context::put`] does; whether it has.
    ///
    /// # Safety
    ///
    /// `from` must be readable for so many bytes.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put(
        &self,
        context: &Context,
        offset: u64,
        from: *const u8,
        bytes: usize,
    ) -> bool {
        let is_allowed = self.allows(context, offset, bytes as u64);
        if is_allowed {
            // SAFETY: inside, by the check above; `from` by the caller's promise.
            unsafe { copy_in(self.address(offset), from, bytes) };
            context.write_near();
            count_put(self.tally.counts(context.tally()), bytes as u64);
        }
        is_allowed
    }

    /// Likewise; wakes the owner if it waits for a word among the bytes
    /// ([`Memory::put_and_wake`](crate::raw::Memory::put_and_wake)).
    ///
    /// # Safety
    ///
    /// As [`NearPart::put`].
    #[inline(always)]
    #[must_use]
    pub unsafe fn put_and_wake(
        &self,
        context: &Context,
        offset: u64,
        from: *const u8,
        bytes: usize,
    ) -> bool {
        // SAFETY: by the caller's promise.
        let is_done = unsafe { self.put(context, offset, from, bytes) };
        if is_done && let Some(whole) = &self.whole {
            context.wake_within(&whole.mapped, self.rank, self.start + offset, bytes as u64);
        }
        is_done
    }

    /// Returns whether [`NearPart::signal`] does it now: for a caller that puts something before.
    #[inline(always)]
    #[must_use]
    pub fn can_signal(&self, context: &Context, offset: u64) -> bool {
        self.direct(context, offset, 8).is_some() && (self.start + offset).is_multiple_of(8)
    }

    /// Writes an aligned word behind all that this thread has put before, and wakes the owner as
    /// [`NearPart::put_and_wake`] does; whether it has.
    #[inline(always)]
    #[must_use]
    pub fn signal(&self, context: &Context, offset: u64, value: u64) -> bool {
        let Some(near) = self.direct(context, offset, 8) else { return false };
        let at = self.start + offset;
        fence(Ordering::Release);
        let is_done = at.is_multiple_of(8) && near.mapped.put(at, &value.to_ne_bytes());
        if is_done {
            context.write_near();
            count_atomic(near.count);
            context.wake_within(near.mapped, self.rank, at, 8);
        }
        is_done
    }

    /// Reads bytes, as [`Context::get`] does; whether it has.
    ///
    /// # Safety
    ///
    /// `into` must be writable for so many bytes.
    #[inline(always)]
    #[must_use]
    pub unsafe fn get(&self, context: &Context, offset: u64, into: *mut u8, bytes: usize) -> bool {
        let is_allowed = self.allows(context, offset, bytes as u64);
        if is_allowed {
            // SAFETY: inside, by the check above; `into` by the caller's promise.
            unsafe { fetch(context, self.address(offset), into, bytes) };
            count_get(self.tally.counts(context.tally()), bytes as u64);
        }
        is_allowed
    }

    /// Writes pieces, which are counted as one put; false, and nothing done, if a rank was lost.
    #[inline]
    #[must_use]
    pub fn put_pieces(&self, context: &Context, put: impl FnOnce(&mut Pieces<'_>)) -> bool {
        let moved = self.pieces(context, put);
        if let Some(bytes) = moved {
            context.write_near();
            count_put(self.tally.counts(context.tally()), bytes);
        }
        moved.is_some()
    }

    /// Reads pieces, which are counted as one get; false, and nothing done, if a rank was lost.
    #[inline]
    #[must_use]
    pub fn get_pieces(&self, context: &Context, get: impl FnOnce(&mut Pieces<'_>)) -> bool {
        let moved = self.pieces(context, get);
        if let Some(bytes) = moved {
            count_get(self.tally.counts(context.tally()), bytes);
        }
        moved.is_some()
    }

    #[inline(always)]
    fn pieces(&self, context: &Context, each: impl FnOnce(&mut Pieces<'_>)) -> Option<u64> {
        self.allows(context, 0, 0).then(|| {
            let mut pieces = Pieces { context, part: self, moved: 0 };
            each(&mut pieces);
            pieces.moved
        })
    }

    /// Executes an atomic, and returns what the word held before; `None`, and nothing done, if
    /// there is something in the way.
    #[inline(always)]
    pub fn atomic(&self, context: &Context, offset: u64, width: Width, op: Atomic) -> Option<u128> {
        let near = self.direct(context, offset, width.bytes())?;
        context.fetch_near(near, self.start + offset, width, op)
    }

    /// Combines elements of `data` with those of the memory, and writes what was there before to
    /// `old`, if that is wanted; whether it has.
    #[inline]
    #[must_use]
    pub fn accumulate(
        &self,
        context: &Context,
        accumulate: &Accumulate,
        data: &[u8],
        offset: u64,
        mut old: Option<&mut [u8]>,
    ) -> bool {
        let bytes = old.as_ref().map_or(data.len(), |old| old.len()) as u64;
        let Some(near) = self.direct(context, offset, bytes) else { return false };
        let at = Piece { offset: self.start + offset, bytes };
        let (fetches, into) = (old.is_some(), old.as_deref_mut());
        let is_done = context.accumulate_near(near, bytes, fetches, |mapped, contender| {
            mapped.accumulate(at, accumulate, data, into, contender)
        });
        if is_done && let Some(old) = old {
            context.note_fetched_bytes(self.address(offset).addr(), old);
        }
        is_done
    }
}

/// The pieces of one transfer to or from near memory.
pub struct Pieces<'c> {
    context: &'c Context,
    part: &'c NearPart,
    moved: u64,
}

impl Pieces<'_> {
    #[inline(always)]
    fn take(&mut self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let fits = self.part.holds(offset, bytes as u64);
        debug_assert!(fits, "{bytes} bytes at {offset} of {}", self.part.bytes);
        self.moved += bytes as u64;
        fits.then(|| self.part.address(offset))
    }

    /// Writes bytes, which must fit.
    ///
    /// # Safety
    ///
    /// `from` must be readable for so many bytes.
    #[inline(always)]
    pub unsafe fn put(&mut self, offset: u64, from: *const u8, bytes: usize) {
        if let Some(to) = self.take(offset, bytes) {
            // SAFETY: inside, by the check; `from` by the caller's promise.
            unsafe { copy_in(to, from, bytes) };
        }
    }

    /// Reads bytes, all of which must be inside.
    ///
    /// # Safety
    ///
    /// `into` must be writable for so many bytes.
    #[inline(always)]
    pub unsafe fn get(&mut self, offset: u64, into: *mut u8, bytes: usize) {
        if let Some(from) = self.take(offset, bytes) {
            // SAFETY: as above.
            unsafe { fetch(self.context, from, into, bytes) };
        }
    }
}

/// Reads near memory, and notes that.
///
/// # Safety
///
/// `from` must be near memory and `into` writable, both for so many bytes.
#[inline(always)]
unsafe fn fetch(context: &Context, from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { copy_out(into, from, bytes) };
    if context.polling().is_crowded() && (1..=size_of::<u64>()).contains(&bytes) {
        let mut got = [0; size_of::<u64>()];
        // SAFETY: as above, and there is room for so many. Others may write to `into` meanwhile, if
        // it is memory of the job.
        unsafe { copy_out(got.as_mut_ptr(), into, bytes) };
        context.note_fetched_bytes(from.addr(), &got);
    }
}

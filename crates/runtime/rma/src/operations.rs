//! The one-sided operations by segment and byte offset.
//!
//! Errors count bytes; `Place::said` puts them into the words of a caller who counts elements.

use farside_fabric::{Atomic, Error, Rank, Result, Width, Word};

use crate::context::Context;
use crate::segment::Segment;
use crate::target::{Signal, Target};

/// An atomic on a word of a rank, which follows a put to the same rank.
#[derive(Clone, Copy)]
pub(crate) struct SignalAt<'s> {
    pub(crate) segment: &'s Segment,
    pub(crate) offset: u64,
    pub(crate) width: Width,
    pub(crate) op: Atomic,
}

impl<'s> SignalAt<'s> {
    pub(crate) fn store(segment: &'s Segment, offset: u64, value: u64) -> SignalAt<'s> {
        SignalAt { segment, offset, width: Width::W64, op: Atomic::Store(value.into()) }
    }
}

impl Context {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn atomic_at(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<u128> {
        match self.fetch_direct(segment, at, offset, width, op) {
            Some(held) => Ok(held),
            None => self.atomic_anywhere(segment, at, offset, width, op),
        }
    }

    /// An atomic whose old value is not wanted: it need not be waited for.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn post_at(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<()> {
        match self.atomic_direct(segment, at, offset, width, op) {
            Some(_) => Ok(()),
            None => self.post_anywhere(segment, at, offset, width, op),
        }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn put_at(
        &self,
        segment: &Segment,
        to: Rank,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        match self.target(segment, to)? {
            Target::Near(mapped) => {
                if self.put_near(self.near(mapped, to), offset, bytes) {
                    Ok(())
                } else {
                    Err(segment.out_of_range(to, offset, bytes.len() as u64))
                }
            }
            Target::Far(far) => {
                let region = far.block(offset, bytes.len() as u64);
                far.post(self, &region, |fabric| fabric.put(&region, bytes))?;
                self.tally().put(to, bytes.len() as u64);
                Ok(())
            }
        }
    }

    /// Writes to this rank's own part, where others will read it after the next signal.
    #[track_caller]
    pub(crate) fn put_own(&self, segment: &Segment, offset: u64, bytes: &[u8]) -> Result<()> {
        self.put_own_parts(segment, std::iter::once((offset, bytes)))
    }

    /// Writes several parts as [`Context::put_own`] writes one: where each begins, and its bytes.
    #[track_caller]
    pub(crate) fn put_own_parts<'p>(
        &self,
        segment: &Segment,
        parts: impl Iterator<Item = (u64, &'p [u8])>,
    ) -> Result<()> {
        let me = self.rank();
        for (offset, bytes) in parts {
            self.put_at(segment, me, offset, bytes)?;
        }
        // Through the fabric, they are under way until they are flushed. Near, the signal itself
        // will order them.
        if self.has_posted_to(me) { self.flush(me) } else { Ok(()) }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn get_at(
        &self,
        segment: &Segment,
        from: Rank,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        match self.target(segment, from)? {
            Target::Near(mapped) => {
                if self.get_near(self.near(mapped, from), offset, into) {
                    Ok(())
                } else {
                    Err(segment.out_of_range(from, offset, into.len() as u64))
                }
            }
            Target::Far(far) => {
                far.get(self, &far.block(offset, into.len() as u64), into)?;
                self.tally().get(from, into.len() as u64);
                Ok(())
            }
        }
    }

    /// Executes an atomic on near memory if nothing stands in its way. `None`, and nothing done, in
    /// all other cases: those are left to [`Context::atomic_anywhere`] and
    /// [`Context::post_anywhere`].
    ///
    /// Inlined wherever it is called with a known operation, of which little is left then, all in
    /// registers: locks live on it.
    #[inline(always)]
    pub(crate) fn atomic_direct(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Option<u128> {
        self.atomic_near(self.direct_target(segment, at)?, offset, width, op)
    }

    /// Likewise, for a program that wants to know what the word held.
    #[inline(always)]
    pub(crate) fn fetch_direct(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Option<u128> {
        self.fetch_near(self.direct_target(segment, at)?, offset, width, op)
    }

    #[inline(never)]
    #[track_caller]
    pub(crate) fn atomic_anywhere(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<u128> {
        match self.atomic_target(segment, at)? {
            Target::Near(mapped) => {
                let held = self.atomic_near(self.near(mapped, at), offset, width, op);
                held.ok_or_else(|| self.bad_word(segment, at, offset, width, op))
            }
            Target::Far(far) => {
                let held = self.atomic_far(far.word(offset, width), op)?;
                self.tally().atomic(at);
                Ok(held)
            }
        }
    }

    /// Executes or posts an atomic whose old value is not wanted, wherever its word is.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn post_anywhere(
        &self,
        segment: &Segment,
        at: Rank,
        offset: u64,
        width: Width,
        op: Atomic,
    ) -> Result<()> {
        match self.atomic_target(segment, at)? {
            Target::Near(_) => self.atomic_anywhere(segment, at, offset, width, op).map(drop),
            Target::Far(far) => {
                far.post_word(self, far.word(offset, width), op)?;
                self.tally().atomic(at);
                Ok(())
            }
        }
    }

    #[track_caller]
    pub(crate) fn put_signal_at(
        &self,
        segment: &Segment,
        to: Rank,
        offset: u64,
        bytes: &[u8],
        signal: SignalAt<'_>,
    ) -> Result<()> {
        let SignalAt { segment: flags, offset: flag, width, op } = signal;
        let (Target::Far(far), Target::Far(flag_far)) =
            (self.target(segment, to)?, self.target(flags, to)?)
        else {
            self.put_at(segment, to, offset, bytes)?;
            // The atomic that follows orders the bytes before itself.
            return self.post_at(flags, to, flag, width, op);
        };
        let region = far.block(offset, bytes.len() as u64);
        let signal = Signal { flags: flag_far, at: flag_far.word(flag, width), op };
        far.post_signalled(self, &region, bytes, &signal)?;
        self.tally().put(to, bytes.len() as u64);
        self.tally().atomic(to);
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
            Ok(()) => Error::Internal(format!("{} on {word:?} was refused", op.name())),
        }
    }
}

//! The target of an operation: memory that this rank's processor reaches, or the fabric.
//!
//! The decision is made once for an operation, by [`Context::target`]; all that a far operation
//! needs besides the fabric's own call stands in [`Far`].

use farside_fabric::{
    Accumulate, Atomic, Connection, Error, Hint, Mapped, OldValue, Rank, Region, Reply, Result,
    Started, Width, Word,
};

use crate::context::Context;
use crate::segment::Segment;

pub(crate) enum Target<'s> {
    /// Loads and stores, and where the fabric allows it the processor's atomics, reach it.
    Near(&'s Mapped),
    /// The fabric carries it out.
    Far(Far<'s>),
}

/// One rank's part of a segment, as operations through the fabric use it.
#[derive(Clone, Copy)]
pub(crate) struct Far<'s> {
    segment: &'s Segment,
    rank: Rank,
    bytes: u64,
}

/// An accumulate with its message, which is empty if it is a no-op.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) accumulate: &'a Accumulate,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) fn new(accumulate: &'a Accumulate, data: &'a [u8]) -> Message<'a> {
        Message { accumulate, bytes: if accumulate.writes() { data } else { &[] } }
    }
}

/// An atomic that follows a transfer.
pub(crate) struct Signal<'s> {
    /// The part that its word is in.
    pub(crate) flags: Far<'s>,
    pub(crate) at: Word,
    pub(crate) op: Atomic,
}

impl Context {
    /// Decides where a transfer goes. Fails if the rank has no part of the segment, or if its
    /// memory is near and it was lost: of a far rank's loss the fabric tells.
    #[inline(always)]
    pub(crate) fn target<'s>(&self, segment: &'s Segment, rank: Rank) -> Result<Target<'s>> {
        let part = segment.part(rank)?;
        let Some(mapped) = part.near else {
            return Ok(Target::Far(Far { segment, rank, bytes: part.bytes }));
        };
        self.check_lost(rank)?;
        Ok(Target::Near(mapped))
    }

    /// Decides where an atomic or a sum goes: near only if those of the processor and of the
    /// fabric exclude each other.
    #[inline(always)]
    pub(crate) fn atomic_target<'s>(&self, segment: &'s Segment, rank: Rank) -> Result<Target<'s>> {
        if self.has_direct_atomics() {
            return self.target(segment, rank);
        }
        let bytes = segment.part(rank)?.bytes;
        Ok(Target::Far(Far { segment, rank, bytes }))
    }
}

impl<'s> Far<'s> {
    pub(crate) fn block(&self, offset: u64, bytes: u64) -> Region<'static> {
        Region::block(self.rank, self.segment.id, offset, bytes)
    }

    pub(crate) fn word(&self, offset: u64, width: Width) -> Word {
        Word { rank: self.rank, segment: self.segment.id, offset, width }
    }

    #[track_caller]
    pub(crate) fn post<R>(
        &self,
        context: &Context,
        to: &Region<'_>,
        start: impl FnOnce(&dyn Connection) -> Result<R>,
    ) -> Result<R> {
        // Once it is posted it could complain only later.
        to.check(self.bytes)?;
        self.issue(context, start)
    }

    #[track_caller]
    pub(crate) fn post_word(&self, context: &Context, at: Word, op: Atomic) -> Result<()> {
        at.check(self.bytes)?;
        self.issue(context, |fabric| fabric.atomic(at, op, OldValue::Ignored)).map(drop)
    }

    /// Posts a transfer to a region of the part, and behind it a signal to the same rank.
    #[track_caller]
    pub(crate) fn post_signalled(
        &self,
        context: &Context,
        to: &Region<'_>,
        bytes: &[u8],
        signal: &Signal<'_>,
    ) -> Result<()> {
        let Signal { flags, at, op } = *signal;
        to.check(self.bytes)?;
        at.check(flags.bytes)?;
        self.issue(context, |fabric| fabric.put_signal(to, bytes, at, op))?;
        context.note_issued(flags.rank, flags.segment, 1);
        Ok(())
    }

    /// Starts an atomic whose old value is wanted, so that a flush waits for it.
    #[track_caller]
    pub(crate) fn start_word(&self, context: &Context, at: Word, op: Atomic) -> Result<Started> {
        at.check(self.bytes)?;
        context.post_to(self.rank);
        context.note_place();
        context.fabric().atomic(at, op, OldValue::Wanted)
    }

    #[track_caller]
    pub(crate) fn post_accumulate(
        &self,
        context: &Context,
        to: &Region<'_>,
        message: Message<'_>,
    ) -> Result<()> {
        let Message { accumulate, bytes } = message;
        let post =
            |fabric: &dyn Connection| fabric.accumulate(to, accumulate, bytes, OldValue::Ignored);
        self.post(context, to, post).map(drop)
    }

    /// Starts an accumulate to a region of the part whose old elements are wanted, so that a flush
    /// waits for it.
    #[track_caller]
    pub(crate) fn start_accumulate(
        &self,
        context: &Context,
        to: &Region<'_>,
        message: Message<'_>,
    ) -> Result<Started> {
        to.check(self.bytes)?;
        context.post_to(self.rank);
        context.note_place();
        context.fabric().accumulate(to, message.accumulate, message.bytes, OldValue::Wanted)
    }

    /// Starts a read of a region of the part.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of the region's bytes, and nothing else may touch it, until
    /// the operation has completed.
    #[track_caller]
    pub(crate) unsafe fn start_get(
        &self,
        context: &Context,
        from: &Region<'_>,
        into: *mut u8,
        hint: Hint,
    ) -> Result<Started> {
        from.check(self.bytes)?;
        context.note_place();
        // SAFETY: by the caller's promise.
        unsafe { context.fabric().get(from, into, hint) }
    }

    /// Reads a region of the part, packed.
    #[track_caller]
    pub(crate) fn get(&self, context: &Context, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        from.check_length(into.len())?;
        // SAFETY: `into` is exclusively borrowed and as long as the region, and `finish` returns
        // only when the operation is over.
        let started = unsafe { self.start_get(context, from, into.as_mut_ptr(), Hint::Awaited)? };
        context.finish(started, self.rank).map(drop)
    }

    /// Runs a posted operation of the fabric, so that a flush waits for it and its landing is
    /// expected.
    #[track_caller]
    fn issue<R>(
        &self,
        context: &Context,
        start: impl FnOnce(&dyn Connection) -> Result<R>,
    ) -> Result<R> {
        context.post_to(self.rank);
        context.note_place();
        let started = start(context.fabric())?;
        context.note_issued(self.rank, self.segment, 1);
        Ok(started)
    }
}

impl Context {
    #[inline(never)]
    #[track_caller]
    pub(crate) fn atomic_far(&self, at: Word, op: Atomic) -> Result<u128> {
        self.note_place();
        let started = self.fabric().atomic(at, op, OldValue::Wanted)?;
        old_value(self.finish(started, at.rank)?)
    }
}

pub(crate) fn old_elements(reply: Reply, into: &mut [u8]) -> Result<()> {
    match reply {
        Reply::Bytes(bytes) if bytes.len() == into.len() => {
            into.copy_from_slice(&bytes);
            Ok(())
        }
        _ => Err(Error::Internal("an accumulate brought back too little or too much".into())),
    }
}

pub(crate) fn old_value(reply: Reply) -> Result<u128> {
    match reply {
        Reply::Word(held) => Ok(held),
        other => {
            Err(Error::Internal(format!("an atomic brought back {other:?} instead of a word")))
        }
    }
}

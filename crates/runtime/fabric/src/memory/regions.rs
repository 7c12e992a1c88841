//! Whole operations on mapped memory, with all checks: what a fabric does at the target.

use crate::accumulate::Accumulate;
use crate::address::{Piece, Region, Word};
use crate::error::{Error, Result};
use crate::memory::{Contender, Mapped};
use crate::operation::{Atomic, OldValue, Reply};

impl Mapped {
    /// Writes a packed message to a region of this part.
    pub fn write(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.check_message(to, bytes.len())?;
        for_each_packed(to, bytes, |piece, part| {
            let written = self.put(piece.offset, part);
            debug_assert!(written);
        });
        Ok(())
    }

    /// Reads a region of this part, packed.
    pub fn read(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        from.check_length(into.len())?;
        // SAFETY: `into` is writable, and as long as the region.
        unsafe { self.read_raw(from, into.as_mut_ptr()) }
    }

    /// Like [`Mapped::read`], into memory that need not be initialized.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of the region's bytes.
    pub unsafe fn read_raw(&self, from: &Region<'_>, into: *mut u8) -> Result<()> {
        from.check(self.bytes())?;
        let mut packed = 0;
        from.shape.for_each(|piece| {
            // SAFETY: `into` has room for all pieces together, by the caller's promise.
            let read =
                unsafe { self.get_raw(piece.offset, into.add(packed), piece.bytes as usize) };
            debug_assert!(read);
            packed += piece.bytes as usize;
        });
        Ok(())
    }

    /// Combines a packed message with the elements of a region of this part, and writes what was
    /// there before to `old`, packed, if that is wanted. See [`Mapped::accumulate`].
    pub fn combine(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        message: &[u8],
        mut old: Option<&mut [u8]>,
        contender: &mut Contender<'_>,
    ) -> Result<()> {
        to.check(self.bytes())?;
        accumulate.check(to, message.len())?;
        old.as_ref().map_or(Ok(()), |old| to.check_length(old.len()))?;
        let mut rest = message;
        to.shape.for_each(|piece| {
            let (part, later) = rest.split_at(accumulate.message_bytes(piece.bytes) as usize);
            rest = later;
            let held = old.take().map(|all| all.split_at_mut(piece.bytes as usize));
            let (held, later) = held.unzip();
            old = later;
            let done = self.accumulate(piece, accumulate, part, held, contender);
            debug_assert!(done);
        });
        Ok(())
    }

    /// Likewise, and returns the reply: the old elements, if they are wanted.
    pub fn combine_for(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        message: &[u8],
        old: OldValue,
        contender: &mut Contender<'_>,
    ) -> Result<Reply> {
        if old == OldValue::Ignored {
            return self.combine(to, accumulate, message, None, contender).map(|()| Reply::None);
        }
        let mut held = vec![0; to.check(self.bytes())? as usize];
        self.combine(to, accumulate, message, Some(&mut held), contender)?;
        Ok(Reply::Bytes(held))
    }

    /// Executes an atomic on a word of this part, and returns what it held before.
    pub fn execute(&self, at: Word, op: Atomic) -> Result<u128> {
        op.check(at.width)?;
        at.check(self.bytes())?;
        let refused = Error::Misaligned { offset: at.offset, align: at.width.bytes() };
        self.atomic(at.offset, at.width, op).ok_or(refused)
    }

    fn check_message(&self, region: &Region<'_>, message_bytes: usize) -> Result<()> {
        region.check(self.bytes())?;
        region.check_length(message_bytes)
    }
}

fn for_each_packed<'b>(
    to: &Region<'_>,
    mut bytes: &'b [u8],
    mut each: impl FnMut(Piece, &'b [u8]),
) {
    to.shape.for_each(|piece| {
        let (part, rest) = bytes.split_at(piece.bytes as usize);
        bytes = rest;
        each(piece, part);
    });
}

//! Whole operations on mapped memory, with all checks: what a fabric does at the target.

use crate::address::{Piece, Rank, Region, Word};
use crate::error::{Error, Result};
use crate::memory::Mapped;
use crate::operation::{Atomic, Sum};

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

    /// Accumulates a packed message to a region of this part, as `me`. See [`Mapped::accumulate`].
    pub fn sum(
        &self,
        to: &Region<'_>,
        sum: &Sum,
        bytes: &[u8],
        me: Rank,
        mut holder_is_lost: &mut dyn FnMut(Rank) -> bool,
    ) -> Result<()> {
        self.check_message(to, bytes.len())?;
        sum.check(&to.shape)?;
        for_each_packed(to, bytes, |piece, part| {
            let done = self.accumulate(piece.offset, sum, part, me, &mut holder_is_lost);
            debug_assert!(done);
        });
        Ok(())
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

//! A memory that remembers in which order operations changed it.

use farside_fabric::{Accumulate, Atomic, Error, Loss, PeerState, Rank, Result, SegmentId, Word};

use crate::target::service::{CallState, Memory};
use crate::wire::request::{About, Rows};

/// One word, which operation `n` swaps for `n`: each finds the number of the one before.
#[derive(Clone, Default)]
pub(super) struct Journal {
    pub(super) executed: Vec<u64>,
}

fn absent<T>() -> Result<T> {
    Err(Error::Unsupported { what: "anything but swaps, in a journal".into() })
}

impl Memory for Journal {
    fn atomic(&mut self, _: Word, op: Atomic) -> Result<u128> {
        let Atomic::Swap(value) = op else { return absent() };
        let found = self.executed.last().copied().unwrap_or(0);
        self.executed.push(value as u64);
        Ok(found.into())
    }

    fn put(&mut self, _: &Rows, _: &[u8]) -> Result<()> {
        absent()
    }

    fn get(&mut self, _: &Rows, _: &mut [u8]) -> Result<()> {
        absent()
    }

    fn accumulate(
        &mut self,
        _: &Rows,
        _: &Accumulate,
        _: &[u8],
        _: Option<&mut [u8]>,
    ) -> Result<()> {
        absent()
    }

    fn wake(&mut self, _: Word) {}

    fn count_landings(&mut self, _: u64) {}

    fn call(&mut self, _: Rank, _: u32, _: u32, _: &[u8]) {}

    fn answer(&mut self, _: Rank, _: u32) -> CallState {
        CallState::Forgotten
    }

    fn note_departure(&mut self, _: Rank, _: PeerState, _: Option<Loss>) {}

    fn locate(&mut self, _: Rank) -> Result<u16> {
        absent()
    }

    fn segment(&mut self, _: Rank, _: SegmentId, _: About, _: bool) -> Result<u128> {
        absent()
    }
}

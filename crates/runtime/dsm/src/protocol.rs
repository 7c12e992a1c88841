//! What locks, barriers and front ends ask of the protocol that keeps pages coherent.
//!
//! A protocol decides what a fault brings, what the end of an interval makes, and what a notice
//! invalidates. How notices travel is decided here below: `lock.rs` and `barrier/` carry intervals
//! from the ranks that made them to those that synchronize with them.

use farside_fabric::{Rank, Result};

use crate::guard::Allowed;
use crate::interval::Interval;
use crate::message::{Reader, Writer};
use crate::state::Local;
use crate::statistics::{ArrayStatistics, Statistics};
use crate::time::Time;

/// The way in which intervals were heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    WithLock,
    AmongSome,
    /// In a barrier of all ranks, each of which is told.
    AmongAll,
}

/// The log of known intervals, which ranks read that ask for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) bytes: usize,
    /// Whether it is not worth while to look for what another rank lacks: it reads the log.
    pub(crate) is_long: bool,
}

pub(crate) trait Protocol: Send {
    /// A page is about to be read: it is brought up to date, and may be read afterwards.
    fn read(&mut self, here: &mut Local<'_>, page: u32) -> Result<()>;

    /// A page is about to be written: it is brought up to date, and may be written afterwards.
    fn write(&mut self, here: &mut Local<'_>, page: u32) -> Result<()>;

    /// Returns the accesses that a page allows.
    fn allowed(&self, page: u32) -> Allowed;

    /// Ends the interval: what was written since the last one can be fetched from now on. Returns
    /// what the log of known intervals is then.
    fn end_interval(&mut self, here: &mut Local<'_>) -> Result<Log>;

    /// A lock is about to be asked for.
    fn begin_acquire(&mut self, _here: &mut Local<'_>) -> Result<()> {
        Ok(())
    }

    /// Records intervals of others, those that are new: the pages that they have written are
    /// invalid.
    fn learn(&mut self, here: &mut Local<'_>, intervals: Vec<Interval>, told: Told) -> Result<()>;

    /// Heeds what other ranks with the same copy have learned, after a synchronization.
    fn catch_up(&mut self, _here: &mut Local<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns the intervals that are known here.
    fn time(&self, here: &Local<'_>) -> Result<Time>;

    /// Writes the known intervals, of the domains that `of` names, that one who knows `time` lacks.
    fn write_lacking(
        &self,
        here: &Local<'_>,
        time: &Time,
        of: &dyn Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()>;

    /// Writes what another rank needs beside notices, in a message of a barrier of all ranks.
    fn write_pushed(&self, _here: &Local<'_>, _to: Rank, _into: &mut Writer) -> Result<()> {
        Ok(())
    }

    /// Reads what [`Protocol::write_pushed`] wrote, ahead of the notices in the same message.
    fn read_pushed(
        &mut self,
        _here: &Local<'_>,
        _from: Rank,
        _reader: &mut Reader<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// All domains have met, and know the same: intervals are counted from here on.
    fn begin_epoch(&mut self, here: &mut Local<'_>) -> Result<()>;

    /// Brings the pages up to date that others will fetch from here when all diffs are gone.
    fn update_kept(&mut self, here: &mut Local<'_>) -> Result<()>;

    /// Throws away all diffs and notices.
    fn forget_diffs(&mut self, here: &mut Local<'_>) -> Result<()>;

    /// Returns the number of bytes of diffs and notices that are kept.
    fn storage(&self) -> u64;

    /// Tells those who share the copy that this rank could not go on, and why, as [`Local::heard`]
    /// takes it.
    fn give_up(&self, _here: &Local<'_>, _reason: u32) {}

    /// Adds what is counted beside [`Local::records`], and what is known of the pages of
    /// allocations.
    fn add_counts(
        &self,
        _here: &Local<'_>,
        _statistics: &mut Statistics,
        _arrays: &mut [ArrayStatistics],
    ) {
    }

    /// No rank asks for diffs any more.
    fn retire(&self) {}
}

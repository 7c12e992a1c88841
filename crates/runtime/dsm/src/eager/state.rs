//! What a rank with a copy of its own knows: its pages, and the intervals since the last barrier of
//! all ranks; and what it stores for others: diffs, and the log of intervals, which they read that
//! ask for a lock.

use std::collections::BTreeMap;

use farside_fabric::{Error, HandlerId, Rank, Result};

use crate::interval::{Interval, Notice};
use crate::memory::check_room;
use crate::message::Writer;
use crate::state::Local;
use crate::time::Time;

#[derive(Default)]
pub(crate) struct Eager {
    pub(super) pages: Vec<Page>,
    /// The pages that were written in this interval.
    pub(super) dirty: Vec<u32>,
    /// The known intervals of each rank, since the last barrier of all ranks.
    pub(super) known: BTreeMap<u32, Vec<Interval>>,
    /// The number of known intervals of each rank.
    pub(super) seen: Time,
    /// The highest order that this rank has seen.
    pub(super) order: u64,
    pub(super) diff_words: usize,
    pub(super) pending_notices: usize,
    pub(super) log_bytes: usize,
    /// The handler that sends words of copies and diffs, if they are not read.
    pub(super) handler: Option<HandlerId>,
    pub(super) scratch: Vec<u32>,
}

/// A page, as one rank sees it.
#[derive(Default)]
pub(super) struct Page {
    /// The rank that has a copy, if this rank has none.
    pub(super) keeper: Option<Rank>,
    /// True of a zeroed page that is not valid before it was asked for.
    pub(super) is_unasked: bool,
    pub(super) pending: Vec<Pending>,
    /// The contents before the first write of this interval.
    pub(super) twin: Option<Box<[u32]>>,
    pub(super) is_dirty: bool,
    /// The last interval that wrote it, since storage was reclaimed: its order, and its rank.
    pub(super) last: Option<(u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) order: u64,
    pub(super) rank: u32,
    pub(super) notice: Notice,
}

impl Page {
    pub(super) fn is_valid(&self) -> bool {
        self.keeper.is_none() && self.pending.is_empty() && !self.is_unasked
    }
}

impl Eager {
    pub(super) fn keep(&mut self, interval: Interval) {
        self.order = self.order.max(interval.order);
        self.seen.set(interval.rank, interval.number);
        self.known.entry(interval.rank).or_default().push(interval);
    }

    /// Of intervals, those that are new, each of which must be the next one of its rank.
    pub(super) fn retain_new(&self, here: &Local<'_>, intervals: &mut Vec<Interval>) -> Result<()> {
        let (mut seen, mut wrong) = (self.seen.clone(), None);
        intervals.retain(|&Interval { rank, number, ref notices, .. }| {
            let next = seen.of(rank) + 1;
            if number > next || rank >= here.ranks {
                wrong =
                    Some(format!("interval {number} of rank {rank} came when {next} was expected"));
            }
            let pages = self.pages.len();
            if let Some(Notice { page, .. }) =
                notices.iter().find(|notice| notice.page as usize >= pages)
            {
                wrong = Some(format!("page {page} was written, and there are {pages}"));
            }
            seen.set(rank, number.max(next - 1));
            number == next
        });
        wrong.map_or(Ok(()), |wrong| Err(Error::Internal(wrong)))
    }

    pub(super) fn log(&mut self, here: &Local<'_>, intervals: &[Interval]) -> Result<()> {
        // A job of one rank, or without locks, has no readers of the log.
        if here.ranks == 1 || here.config.locks == 0 {
            return Ok(());
        }
        let (mut writer, form) = (Writer::default(), here.interval_form());
        intervals.iter().for_each(|interval| interval.write(form, &mut writer));
        let bytes = writer.bytes();
        check_room("write notices", self.log_bytes + bytes.len(), here.memory.log_bytes)?;
        here.put_own(here.memory.log.at(here.me, self.log_bytes), bytes)?;
        self.log_bytes += bytes.len();
        Ok(())
    }

    /// Stores diffs, or what else others need of an interval. Returns where.
    pub(super) fn store(&mut self, here: &Local<'_>, words: &[u32]) -> Result<usize> {
        let (at, end) = (self.diff_words, self.diff_words + words.len());
        check_room("diffs", end * 4, here.config.storage_max as usize)?;
        here.put_own(here.memory.diffs.at(here.me, at), words)?;
        self.diff_words = end;
        Ok(at)
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        (self.diff_words * 4 + self.pending_notices * size_of::<Pending>() + self.log_bytes) as u64
    }
}

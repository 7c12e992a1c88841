//! A copy for each rank, and diffs that are made when an interval ends: the protocol of [BST97].
//! `lrc.rs` has what the paper describes (`docs/listings.md`); what a rank knows is in `state.rs`,
//! what it gets from others in `fetch.rs`, and the search for races in `race_check.rs`.

mod fetch;
mod lrc;
mod race_check;
mod state;

use farside_fabric::{Rank, Result};
use farside_rma::{Processing, World};

use crate::config::{Config, Fetch, Start};
use crate::guard::Allowed;
use crate::interval::Interval;
use crate::message::Writer;
use crate::protocol::{Log, Protocol, Told};
use crate::state::{Local, numbers_before};
use crate::time::Time;
pub(crate) use state::Eager;
use state::Page;

impl Eager {
    pub(crate) fn new(world: &World, config: &Config) -> Result<Eager> {
        let is_first = world.rank() == Rank(0);
        let keeper = (config.start == Start::Original && !is_first).then_some(Rank(0));
        let is_unasked = config.start == Start::ZeroInvalid && !is_first;
        let page = || Page { keeper, is_unasked, ..Page::default() };
        let handler = match config.fetch {
            Fetch::Call => Some(world.serve(fetch::serve)?),
            Fetch::Get => None,
        };
        Ok(Eager {
            pages: (0..config.bytes as usize / config.page_bytes).map(|_| page()).collect(),
            order: numbers_before(world).1,
            handler,
            scratch: vec![0; config.page_bytes / 4],
            ..Eager::default()
        })
    }
}

impl Protocol for Eager {
    fn read(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        match self.pages[page as usize].is_valid() {
            true => Ok(()),
            false => self.read_fault(here, page),
        }
    }

    fn write(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        match self.pages[page as usize].is_dirty {
            true => Ok(()),
            false => self.write_fault(here, page),
        }
    }

    fn allowed(&self, page: u32) -> Allowed {
        let page = &self.pages[page as usize];
        match (page.is_dirty, page.is_valid()) {
            (true, _) => Allowed::Writing,
            (false, true) => Allowed::Reading,
            (false, false) => Allowed::Nothing,
        }
    }

    fn end_interval(&mut self, here: &mut Local<'_>) -> Result<Log> {
        if !self.dirty.is_empty() || here.access_log.is_some() {
            self.release(here)?;
        }
        Ok(Log { bytes: self.log_bytes, is_long: false })
    }

    fn begin_acquire(&mut self, here: &mut Local<'_>) -> Result<()> {
        self.end_interval(here).map(drop)
    }

    fn learn(&mut self, here: &mut Local<'_>, intervals: Vec<Interval>, told: Told) -> Result<()> {
        self.acquire(here, intervals, told)
    }

    fn time(&self, _here: &Local<'_>) -> Result<Time> {
        Ok(self.seen.clone())
    }

    fn write_lacking(
        &self,
        here: &Local<'_>,
        time: &Time,
        of: &dyn Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        let mut count = 0;
        for (&rank, intervals) in self.known.iter().filter(|&(&rank, _)| of(rank)) {
            let knows = time.of(rank);
            for interval in intervals.iter().filter(|interval| interval.number > knows) {
                interval.write(here.interval_form(), into);
                count += interval.notices.len();
            }
        }
        here.context.charge(Processing::Notices(count));
        Ok(())
    }

    fn begin_epoch(&mut self, here: &mut Local<'_>) -> Result<()> {
        if here.config.check_races {
            self.look_for_races(here)?;
        }
        self.known.clear();
        self.seen.clear();
        self.log_bytes = 0;
        Ok(())
    }

    fn update_kept(&mut self, here: &mut Local<'_>) -> Result<()> {
        for page in 0..self.pages.len() as u32 {
            let Page { last, .. } = self.pages[page as usize];
            if last.is_none_or(|(_, rank)| rank != here.me.0) {
                continue;
            }
            if !self.pages[page as usize].is_valid() {
                self.validate(here, page)?;
                here.guard.allow(page, 1, Allowed::Reading)?;
            }
            // Who fetches it meanwhile knows of all diffs that make the difference.
            self.keep_page(here, page)?;
        }
        Ok(())
    }

    fn forget_diffs(&mut self, _here: &mut Local<'_>) -> Result<()> {
        for page in &mut self.pages {
            let Some((_, keeper)) = page.last.take() else { continue };
            if !page.is_valid() {
                page.keeper = Some(Rank(keeper));
            }
            page.pending = Vec::new();
        }
        (self.diff_words, self.pending_notices) = (0, 0);
        Ok(())
    }

    fn storage(&self) -> u64 {
        self.stored_bytes()
    }
}

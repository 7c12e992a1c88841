//! The protocol of a job whose ranks all share one copy of the pages, which needs none: there is
//! nothing to be fetched, and nothing to be told.

use farside_fabric::{Mapped, Result};
use farside_rma::World;

use crate::copies::{Domains, map};
use crate::failure::agree;
use crate::guard::Allowed;
use crate::interval::Interval;
use crate::memory::Memory;
use crate::message::Writer;
use crate::protocol::{Log, Protocol, Told};
use crate::state::Local;
use crate::time::Time;

pub(crate) struct OneCopy {
    /// The pages.
    pub(crate) copy: Mapped,
}

impl OneCopy {
    /// Collective.
    pub(crate) fn new(world: &World, memory: &Memory, domains: &Domains) -> Result<OneCopy> {
        let copy = map(world, domains.home_of(world.rank()), memory.copy.segment());
        Ok(OneCopy { copy: agree(world, copy)? })
    }
}

impl Protocol for OneCopy {
    fn read(&mut self, _here: &mut Local<'_>, _page: u32) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, _here: &mut Local<'_>, _page: u32) -> Result<()> {
        Ok(())
    }

    fn allowed(&self, _page: u32) -> Allowed {
        Allowed::Writing
    }

    fn end_interval(&mut self, _here: &mut Local<'_>) -> Result<Log> {
        Ok(Log { bytes: 0, is_long: false })
    }

    fn learn(
        &mut self,
        _here: &mut Local<'_>,
        _intervals: Vec<Interval>,
        _told: Told,
    ) -> Result<()> {
        Ok(())
    }

    fn time(&self, _here: &Local<'_>) -> Result<Time> {
        Ok(Time::default())
    }

    fn write_lacking(
        &self,
        _here: &Local<'_>,
        _time: &Time,
        _of: &dyn Fn(u32) -> bool,
        _into: &mut Writer,
    ) -> Result<()> {
        Ok(())
    }

    fn begin_epoch(&mut self, _here: &mut Local<'_>) -> Result<()> {
        Ok(())
    }

    fn update_kept(&mut self, _here: &mut Local<'_>) -> Result<()> {
        Ok(())
    }

    fn forget_diffs(&mut self, _here: &mut Local<'_>) -> Result<()> {
        Ok(())
    }

    fn storage(&self) -> u64 {
        0
    }
}

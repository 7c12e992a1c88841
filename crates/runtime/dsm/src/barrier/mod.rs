//! Barriers that carry write notices: a member that goes on knows what all have written.

mod central;
mod meeting;
mod tree;

use farside_fabric::{Error, Rank, Result};

use crate::coherence::Coherence;
use crate::config::BarrierKind;
use crate::interval::Interval;
use crate::memory::Way;
use crate::message::{Reader, Writer};
use crate::protocol::Told;
use crate::steps;
use crate::time::Time;

/// The members of a barrier; their logical ids are places in the list.
pub(crate) struct BarrierMembers<'a> {
    ranks: &'a [Rank],
    /// This rank's logical id.
    me: usize,
    /// Whether these are all ranks of the job, or stand for them.
    is_whole_job: bool,
    /// The ranks whose end is an error for every member.
    watched: &'a [Rank],
}

impl<'a> BarrierMembers<'a> {
    pub(crate) fn new(ranks: &'a [Rank], me: Rank, size: u32) -> Result<BarrierMembers<'a>> {
        let ascend = ranks.is_sorted_by(|one, next| one < next)
            && ranks.last().is_none_or(|last| last.0 < size);
        if !ascend {
            return Err(Error::InvalidArgument(format!(
                "the members of a barrier must be ranks in ascending order, each named once, \
                 not {ranks:?}"
            )));
        }
        let at =
            ranks.binary_search(&me).map_err(|_| Error::NotAMember { rank: me, of: "barrier" })?;
        let is_whole_job = ranks.len() == size as usize;
        Ok(BarrierMembers { ranks, me: at, is_whole_job, watched: ranks })
    }

    /// Returns the members of the barrier between domains, of which `firsts` are the first ranks.
    fn of_domains<'b>(&'b self, firsts: &'b [Rank], me: Rank) -> BarrierMembers<'b> {
        let me = firsts.iter().position(|&first| first == me).unwrap_or(0);
        BarrierMembers { ranks: firsts, me, is_whole_job: self.is_whole_job, watched: self.watched }
    }

    /// What a member tells of the write notices that it knows: when all ranks of the job meet,
    /// their makers tell them.
    fn tells(&self, rank: u32, own: impl Fn(usize) -> bool) -> bool {
        !self.is_whole_job || own(rank as usize)
    }
}

/// What a member says of its subtree on the way up, beside the write notices.
struct Said<'a> {
    storage_kib: u32,
    common: &'a Time,
}

/// A message on the way up.
struct CheckIn {
    /// The most storage that a member of the subtree uses.
    storage_kib: u32,
    /// What all members of the subtree know.
    common: Time,
    intervals: Vec<Interval>,
}

impl Coherence<'_> {
    /// Meets the others; returns whether storage is to be reclaimed.
    pub(crate) fn meet(&mut self, members: &BarrierMembers<'_>) -> Result<bool> {
        if members.ranks.len() == 1 {
            return Ok(self.protocol.storage() > self.config.storage_limit);
        }
        match self.config.barrier {
            BarrierKind::Central => central::meet(self, members),
            BarrierKind::Tree => tree::meet(self, members),
        }
    }

    fn check_in(
        &mut self,
        members: &BarrierMembers<'_>,
        to: usize,
        said: Said<'_>,
        tells: impl Fn(u32) -> bool,
    ) -> Result<()> {
        let mut writer = Writer::default();
        writer.number(said.storage_kib);
        writer.number(self.allocations);
        writer.time(said.common);
        self.write_notices(members, to, &Time::default(), &tells, &mut writer)?;
        self.send(Way::Up, members.ranks[to], members.watched, writer.bytes())
    }

    fn await_check_in(&mut self, members: &BarrierMembers<'_>, from: usize) -> Result<CheckIn> {
        let message = self.receive(Way::Up, members.ranks[from], members.watched)?;
        let mut reader = Reader::new(&message);
        let (storage_kib, allocations, common) =
            (reader.number()?, reader.number()?, reader.time()?);
        let intervals = self.read_notices(members, from, reader)?;
        self.check_allocations(members, members.ranks[from], allocations)?;
        Ok(CheckIn { storage_kib, common, intervals })
    }

    /// Fails if all ranks meet and one has allocated something else than this rank.
    fn check_allocations(
        &self,
        members: &BarrierMembers<'_>,
        from: Rank,
        allocations: u32,
    ) -> Result<()> {
        if !members.is_whole_job || allocations == self.allocations {
            return Ok(());
        }
        Err(Error::Disagreement {
            what: "the ranks disagree on what was allocated in shared memory".into(),
            mine: format!("{:#x}", self.allocations),
            rank: from,
            theirs: format!("{allocations:#x}"),
        })
    }

    fn release(
        &mut self,
        members: &BarrierMembers<'_>,
        to: usize,
        reclaims: bool,
        knows: &Time,
    ) -> Result<()> {
        let mut writer = Writer::default();
        writer.number(u32::from(reclaims));
        self.write_notices(members, to, knows, &|_| true, &mut writer)?;
        self.send(Way::Down, members.ranks[to], members.watched, writer.bytes())
    }

    fn await_release(&mut self, members: &BarrierMembers<'_>, from: usize) -> Result<bool> {
        let message = self.receive(Way::Down, members.ranks[from], members.watched)?;
        let mut reader = Reader::new(&message);
        let reclaims = reader.number()? != 0;
        let intervals = self.read_notices(members, from, reader)?;
        self.hear(members, intervals)?;
        Ok(reclaims)
    }

    fn write_notices(
        &self,
        members: &BarrierMembers<'_>,
        to: usize,
        knows: &Time,
        of: &dyn Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        if members.is_whole_job {
            self.protocol.write_pushed(&self.here, members.ranks[to], into)?;
        }
        self.protocol.write_lacking(&self.here, knows, of, into)
    }

    fn read_notices(
        &mut self,
        members: &BarrierMembers<'_>,
        from: usize,
        mut reader: Reader<'_>,
    ) -> Result<Vec<Interval>> {
        if members.is_whole_job {
            self.protocol.read_pushed(&self.here, members.ranks[from], &mut reader)?;
        }
        self.read_intervals(reader)
    }

    fn hear(&mut self, members: &BarrierMembers<'_>, intervals: Vec<Interval>) -> Result<()> {
        let is_whole = members.is_whole_job || self.context.omits(steps::KEEP_WHAT_SOME_TELL);
        let told = if is_whole { Told::AmongAll } else { Told::AmongSome };
        self.protocol.learn(&mut self.here, intervals, told)
    }

    fn time(&self) -> Result<Time> {
        self.protocol.time(&self.here)
    }

    fn storage_kib(&self) -> u32 {
        u32::try_from(self.protocol.storage().div_ceil(1024)).unwrap_or(u32::MAX)
    }

    fn reclaims(&self, members: &BarrierMembers<'_>, storage_kib: u32) -> bool {
        members.is_whole_job && u64::from(storage_kib) * 1024 > self.config.storage_limit
    }
}

//! Shared memory, as a program sees it.

use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::{Error, ProbeEvent, Rank, Result, SegmentId};
use farside_pager::{Method, Watched};
use farside_rma::{Numeric, Plain, World};

use crate::accesses::AccessLog;
use crate::barrier::BarrierMembers;
use crate::coherence::Coherence;
use crate::config::{Access, Config, Copies, Diffs, Start};
use crate::copies::{Domains, is_near};
use crate::diff::PAGE_WORDS_MAX;
use crate::domain::{self, Domain};
use crate::eager::Eager;
use crate::failure::agree;
use crate::front::{FaultHandler, PagerGuard};
use crate::guard::{Allowed, Guard, NoGuard, ViewPages};
use crate::memory::Memory;
use crate::one_copy::OneCopy;
use crate::protocol::Protocol;
use crate::race::Race;
use crate::region::{Placement, Region};
use crate::shared::{Shared, View, ViewMemory, ViewMut};
use crate::state::{ContextHandle, Local, Records, numbers_before};
use crate::statistics::{ArrayStatistics, BarrierTime, Statistics};

/// Memory that all ranks share: ordinary loads and stores, kept coherent by locks and barriers.
///
/// ```
/// use farside::dsm::{Config, Dsm};
///
/// farside::local(4, |world| {
///     let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
///     let numbers = dsm.alloc::<u64>(4)?;
///     let me = world.rank().index();
///     dsm.view_mut(numbers, me..me + 1)?.set(0, 10 * me as u64);
///     dsm.barrier()?;
///     assert_eq!(dsm.view(numbers, 0..4)?.to_vec(), [0, 10, 20, 30]);
///     dsm.close()
/// })
/// .unwrap();
/// ```
///
/// A write of one rank is visible to another when that has synchronized with it: through a lock
/// that the first released and the second acquired afterwards, or through a barrier of both.
/// `docs/dsm.md` has the rules. A view borrows the memory, and synchronizations need all of it: so
/// no view lives longer than what it shows.
pub struct Dsm<'w> {
    world: &'w World,
    region: Region,
    view_memory: ViewMemory,
    /// The coherence state, at an address that a fault can find. Before `watched`, so that no fault
    /// comes when it is gone.
    coherence: Box<FaultHandler<'w>>,
    watched: Option<Arc<Watched>>,
    /// Whether accesses need nothing at all: all ranks share one copy.
    is_plain: bool,
    /// Bytes of a page, as a power of two.
    page_shift: u32,
    everybody: Arc<[Rank]>,
}

/// What a rank needs beside the memory that others reach.
struct Parts<'w> {
    protocol: Box<dyn Protocol>,
    context: ContextHandle<'w>,
    guard: Box<dyn Guard + 'w>,
    watched: Option<Arc<Watched>>,
    view_memory: ViewMemory,
    log: Option<Arc<AccessLog>>,
}

impl<'w> Parts<'w> {
    fn new(
        world: &'w World,
        config: &Config,
        memory: &Memory,
        domains: &Domains,
        method: Option<Method>,
    ) -> Result<Parts<'w>> {
        let (protocol, own): (Box<dyn Protocol>, _) = if config.is_eager() {
            let own = NonNull::new(memory.copy.own().as_ptr().cast::<u8>());
            (Box::new(Eager::new(world, config)?), own)
        } else {
            // Ranks of a node use it as memory, and so do the tables of its pages.
            let place = Location::caller();
            world.tell(|| ProbeEvent::Lent { what: "shared pages", place });
            match &memory.pages {
                None => {
                    let one = OneCopy::new(world, memory, domains)?;
                    let own = Some(one.copy.base());
                    (Box::new(one), own)
                }
                Some(windows) => {
                    let domain = Domain::new(world, config, memory, windows, domains)?;
                    let own = Some(domain.copy().base());
                    (Box::new(domain), own)
                }
            }
        };
        // Faults come at any moment, also in the middle of the program's own operations.
        let context = match method {
            Some(_) => ContextHandle::Owned(Box::new(world.context()?)),
            None => ContextHandle::Borrowed(world),
        };
        let own =
            own.ok_or_else(|| Error::Internal("this rank's shared memory is not mapped".into()))?;
        let (watched, guard, base): (_, Box<dyn Guard>, _) = match method {
            None => (None, Box::new(NoGuard), own),
            Some(method) => {
                let watched = crate::front::watch(own, config.bytes as usize, method)?;
                (Some(watched.clone()), Box::new(PagerGuard(watched.clone())), watched.base())
            }
        };
        let log = config.check_races.then(|| Arc::new(AccessLog::new(base, config.check_loads)));
        // SAFETY: the memory is this rank's own part of the window, or that of its domain's home,
        // which live as long as the coherence state, or the second mapping of it, which lives as
        // long as `watched`.
        let view_memory = unsafe { ViewMemory::new(base, config.bytes, log.clone()) };
        Ok(Parts { protocol, context, guard, watched, view_memory, log })
    }
}

impl<'w> Dsm<'w> {
    /// Makes shared memory. Collective: all ranks say the same.
    pub fn new(world: &'w World, mut config: Config) -> Result<Dsm<'w>> {
        world.note_unseen("accesses to shared pages");
        config.check_races |= config.check_loads;
        let mut method = method_of(config.access);
        if method.is_some() {
            config.page_bytes = farside_pager::page_bytes();
        }
        check_config(world, &mut config)?;
        let domains = domains_of(world, &mut config)?;
        let is_plain = !config.is_eager() && domains.count() == 1;
        if is_plain {
            method = None;
        }
        let table_words = match config.is_eager() {
            true => Some(0),
            false if domains.count() > 1 => Some(domain::table_words(&config, &domains)),
            false => None,
        };
        let memory = Memory::new(world, &config, table_words)?;
        let parts = Parts::new(world, &config, &memory, &domains, method);
        // No rank may send before every rank can receive.
        let parts = match agree(world, parts) {
            Ok(parts) => parts,
            Err(error) => {
                // Why there is none says more than why this cannot be freed.
                let _ = memory.free(world);
                return Err(error);
            }
        };
        let Parts { protocol, context, guard, watched, view_memory, log } = parts;
        let repeats = context.job().state.effort().repeats;
        let here = Local {
            me: context.rank(),
            ranks: context.size(),
            epoch: numbers_before(&context).0,
            context,
            config,
            domains,
            memory,
            guard,
            view: None,
            access_log: log,
            records: Records { repeats, ..Records::default() },
        };
        let coherence = Coherence::new(here, protocol);
        let page_shift = config.page_bytes.trailing_zeros();
        let region = Region::new(config.bytes, config.page_bytes as u64);
        let coherence = Box::new(FaultHandler::new(coherence));
        let everybody = world.ranks().collect();
        let dsm =
            Dsm { world, region, view_memory, coherence, watched, is_plain, page_shift, everybody };
        match agree(world, dsm.allow_all()) {
            Ok(()) => Ok(dsm),
            Err(error) => {
                let _ = dsm.close();
                Err(error)
            }
        }
    }

    /// Allows what may be done at first, and lets faults be dealt with.
    fn allow_all(&self) -> Result<()> {
        let mut coherence = self.coherence.lock();
        if !self.is_plain && coherence.protocol.allowed(0) != Allowed::Nothing {
            let count = coherence.pages() as u32;
            coherence.guard.allow(0, count, Allowed::Reading)?;
        }
        drop(coherence);
        self.watched.as_ref().map_or(Ok(()), |watched| self.coherence.arm(watched))
    }

    /// The world that shares it.
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// The choices that it was made with; the page size is the one that is used.
    pub fn config(&self) -> Config {
        self.coherence.lock().config
    }

    /// Returns the method of the pager, or `None` if accesses are explicit.
    pub fn method(&self) -> Option<Method> {
        self.watched.as_ref().map(|watched| watched.method())
    }

    /// Allocates a shared slice, zeroed unless it was used before. Every rank allocates the same,
    /// in the same order; that is all that they have to do together.
    #[track_caller]
    pub fn alloc<T: Plain>(&mut self, len: usize) -> Result<Shared<T>> {
        self.alloc_at(len, Placement::Anywhere)
    }

    /// Allocates a shared slice at a given place.
    #[track_caller]
    pub fn alloc_at<T: Plain>(&mut self, len: usize, placement: Placement) -> Result<Shared<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let align = align_of::<T>() as u64;
        let offset = self.world.noted(self.region.allocate(bytes, align, placement))?;
        self.coherence.lock().allocations = self.region.digest();
        Ok(Shared::new(offset, len))
    }

    /// Gives a shared slice back. Every rank does, and none may use it any more. Its contents stay
    /// there until they are overwritten.
    #[track_caller]
    pub fn free<T: Plain>(&mut self, shared: Shared<T>) -> Result<()> {
        self.world.noted(self.region.free(shared.offset()))?;
        self.coherence.lock().allocations = self.region.digest();
        Ok(())
    }

    /// Allocates two shared slices, or none.
    #[track_caller]
    pub(crate) fn alloc_both<T: Plain, U: Plain>(
        &mut self,
        (len, placement): (usize, Placement),
        (other_len, other_placement): (usize, Placement),
    ) -> Result<(Shared<T>, Shared<U>)> {
        let first = self.alloc_at(len, placement)?;
        match self.alloc_at(other_len, other_placement) {
            Ok(other) => Ok((first, other)),
            Err(error) => {
                // Why there is no room says more.
                let _ = self.free(first);
                Err(error)
            }
        }
    }

    /// Elements to be read, until the next synchronization.
    #[track_caller]
    pub fn view<T: Plain>(&self, shared: Shared<T>, range: Range<usize>) -> Result<View<'_, T>> {
        let bytes =
            shared.bytes(&range).and_then(|bytes| self.touch(&bytes, false).map(|()| bytes));
        self.world.noted(bytes.and_then(|bytes| self.view_memory.view(bytes)))
    }

    /// Elements to be read and written, until the next synchronization.
    #[track_caller]
    pub fn view_mut<T: Plain>(
        &self,
        shared: Shared<T>,
        range: Range<usize>,
    ) -> Result<ViewMut<'_, T>> {
        let bytes = shared.bytes(&range).and_then(|bytes| self.touch(&bytes, true).map(|()| bytes));
        self.world.noted(bytes.and_then(|bytes| self.view_memory.view_mut(bytes)))
    }

    /// Loads an element.
    #[track_caller]
    pub fn get<T: Plain>(&self, shared: Shared<T>, index: usize) -> Result<T> {
        Ok(self.view(shared, index..index.saturating_add(1))?.get(0))
    }

    /// Stores an element.
    #[track_caller]
    pub fn set<T: Plain>(&self, shared: Shared<T>, index: usize, value: T) -> Result<()> {
        self.view_mut(shared, index..index.saturating_add(1))?.set(0, value);
        Ok(())
    }

    /// Brings the pages of an explicit access up to date, or notes where faults may come.
    #[inline]
    fn touch(&self, bytes: &Range<u64>, is_mut: bool) -> Result<()> {
        if self.is_plain || bytes.is_empty() {
            return Ok(());
        }
        if self.watched.is_some() && (bytes.end - bytes.start) >> self.page_shift == 0 {
            return Ok(());
        }
        self.view_memory.check(bytes)?;
        let (first, last) = (bytes.start >> self.page_shift, (bytes.end - 1) >> self.page_shift);
        let view = ViewPages { first: first as u32, end: last as u32 + 1, is_mut };
        if self.watched.is_some() {
            self.coherence.note_view(view);
            return Ok(());
        }
        self.touch_all(view)
    }

    fn touch_all(&self, view: ViewPages) -> Result<()> {
        let mut coherence = self.coherence.lock();
        coherence.check()?;
        coherence.view = Some(view);
        let mut pages = view.first..view.end;
        let touched = pages.try_for_each(|page| match view.is_mut {
            true => coherence.write(page),
            false => coherence.read(page),
        });
        coherence.view = None;
        touched.map_err(|error| coherence.fail(error))
    }

    /// Acquires a lock: what was done before its last release is seen from now on.
    #[track_caller]
    pub fn lock(&mut self, lock: u32) -> Result<()> {
        self.synchronize(
            |coherence| coherence.check_lock(lock, false),
            |coherence, ()| coherence.acquire(lock),
        )
    }

    /// Releases it.
    #[track_caller]
    pub fn unlock(&mut self, lock: u32) -> Result<()> {
        self.synchronize(
            |coherence| coherence.check_lock(lock, true),
            |coherence, ()| coherence.release_lock(lock),
        )
    }

    /// Deals a range out among the ranks as evenly as can be, runs `body` on this rank's part, and
    /// returns when all ranks are done: what any of them has written is seen from now on. All ranks
    /// say the same.
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm};
    /// # farside::local(3, |world| {
    /// # let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
    /// let squares = dsm.alloc::<u64>(100)?;
    /// dsm.parallel_for(0..100, |dsm, part| {
    ///     let mine = dsm.view_mut(squares, part.clone())?;
    ///     part.enumerate().for_each(|(index, at)| mine.set(index, (at * at) as u64));
    ///     Ok(())
    /// })?;
    /// assert_eq!(dsm.get(squares, 99)?, 99 * 99);
    /// let sum: u64 =
    ///     dsm.parallel_sum(0..100, |dsm, part| Ok(dsm.view(squares, part)?.iter().sum()))?;
    /// assert_eq!(sum, (0..100).map(|at| at * at).sum::<u64>());
    /// # dsm.close() }).unwrap();
    /// ```
    #[track_caller]
    pub fn parallel_for(
        &mut self,
        range: Range<usize>,
        body: impl FnOnce(&mut Self, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let part = self.part_of(range);
        let done = body(self, part);
        self.meet_and_agree(done)
    }

    /// Like [`Dsm::parallel_for`], and returns the sum of what `body` has returned on all ranks.
    #[track_caller]
    pub fn parallel_sum<T: Numeric>(
        &mut self,
        range: Range<usize>,
        body: impl FnOnce(&mut Self, Range<usize>) -> Result<T>,
    ) -> Result<T> {
        let part = self.part_of(range);
        let done = body(self, part);
        let mut sum = [self.meet_and_agree(done)?];
        self.world.all_sum(&mut sum)?;
        Ok(sum[0])
    }

    /// Meets the others, and fails if any rank has failed. One for which the barrier alone failed
    /// comes to the second meeting, too: the others may wait there.
    fn meet_and_agree<T>(&mut self, done: Result<T>) -> Result<T> {
        let met = self.barrier();
        agree(self.world, done.and_then(|done| met.map(|()| done)))
    }

    /// Returns this rank's part of a range that is dealt out among all ranks.
    pub fn part_of(&self, range: Range<usize>) -> Range<usize> {
        let (me, ranks) = (self.world.rank().index(), self.world.size() as usize);
        let at = |rank: usize| range.start + range.len() * rank / ranks;
        at(me)..at(me + 1)
    }

    /// Returns when all ranks have come: what any of them has done before is seen from now on.
    #[track_caller]
    pub fn barrier(&mut self) -> Result<()> {
        let everybody = self.everybody.clone();
        self.barrier_of(&everybody)
    }

    /// Waits for some ranks, in ascending order, of which this is one.
    #[track_caller]
    pub fn barrier_of(&mut self, members: &[Rank]) -> Result<()> {
        let check =
            |coherence: &Coherence<'w>| BarrierMembers::new(members, coherence.me, coherence.ranks);
        self.synchronize(check, |coherence, group| {
            let begin_ns = coherence.context.now_ns();
            coherence.pass(&group)?;
            let Local { context, ranks, config, records, .. } = &mut coherence.here;
            records.statistics.barriers += 1;
            let end_ns = context.now_ns();
            records.statistics.barrier_ns += end_ns.saturating_sub(begin_ns);
            if config.time_barriers && members.len() == *ranks as usize {
                let time = BarrierTime { entered_ns: begin_ns, left_ns: end_ns };
                records.barrier_times.push(time);
            }
            Ok(())
        })
    }

    /// Checks the arguments of a synchronization, and makes it. A wrong argument does no harm; an
    /// error on the way leaves pages stale for good.
    #[track_caller]
    fn synchronize<A>(
        &mut self,
        check: impl FnOnce(&Coherence<'w>) -> Result<A>,
        body: impl FnOnce(&mut Coherence<'w>, A) -> Result<()>,
    ) -> Result<()> {
        self.coherence.forget_views();
        let mut coherence = self.coherence.lock();
        let arguments = self.world.noted(coherence.check().and_then(|()| check(&coherence)))?;
        self.world.noted(body(&mut coherence, arguments).map_err(|error| coherence.fail(error)))
    }

    /// Fails if a page could not be brought up to date since the last synchronization: what was
    /// read since may be stale. Synchronizations say so, too.
    #[track_caller]
    pub fn check(&self) -> Result<()> {
        self.coherence.lock().check()
    }

    /// Returns the statistics of this rank so far.
    pub fn statistics(&self) -> Statistics {
        self.coherence.lock().statistics()
    }

    /// Returns the statistics of this rank so far for each allocation, in the order of their
    /// places; all zero where each rank has a copy and diffs are eager. Pages that several
    /// allocations share count for each.
    pub fn array_statistics(&self) -> Vec<ArrayStatistics> {
        let coherence = self.coherence.lock();
        let of = |(offset, end)| {
            let bytes = end - offset;
            ArrayStatistics { offset, bytes, ..ArrayStatistics::default() }
        };
        let mut arrays: Vec<_> = self.region.allocations().map(of).collect();
        coherence.add_arrays(&mut arrays);
        arrays
    }

    /// Returns the times of this rank at each barrier of all ranks, if they are recorded: see
    /// [`Config::time_barriers`].
    pub fn barrier_times(&self) -> Vec<BarrierTime> {
        self.coherence.lock().records.barrier_times.clone()
    }

    /// The segment in which messages of barriers land, for measurements of a network.
    #[doc(hidden)]
    pub fn mail_segment(&self) -> SegmentId {
        self.coherence.lock().memory.mail_segment()
    }

    /// Returns the number of bytes of diffs and notices that this rank keeps.
    pub fn storage(&self) -> u64 {
        self.coherence.lock().protocol.storage()
    }

    /// The races that this rank has found, if they are looked for. Pages are dealt out: other ranks
    /// may have found others.
    pub fn races(&self) -> Vec<Race> {
        self.coherence.lock().records.races.clone()
    }

    /// Gives everything back. Collective. Fails if a page could not be brought up to date, and no
    /// call has said so yet: everything was given back then, too.
    #[track_caller]
    pub fn close(self) -> Result<()> {
        let Dsm { world, coherence, watched, .. } = self;
        let coherence = coherence.into_inner();
        let unreported = coherence.unreported();
        // Faults must be impossible before the memory goes.
        let (memory, protocol) = coherence.into_parts();
        drop(watched);
        let freed = memory.free(world);
        if freed.is_ok() {
            // Ranks that have not come may still ask for diffs.
            protocol.retire();
        }
        world.noted(unreported.and(freed))
    }
}

fn method_of(access: Access) -> Option<Method> {
    match access {
        Access::Explicit => None,
        Access::Protect => Some(Method::Protect),
        Access::Userfault => Some(Method::Userfault),
        Access::Pager if farside_pager::has_userfault() => Some(Method::Userfault),
        Access::Pager => Some(Method::Protect),
    }
}

/// Returns the coherence domains. Replaces in the configuration what cannot be had. Collective.
fn domains_of(world: &World, config: &mut Config) -> Result<Domains> {
    if config.check_races || config.start == Start::ZeroInvalid {
        (config.copies, config.diffs) = (Copies::Rank, Diffs::Eager);
    }
    if !config.is_eager() {
        let mut is_near = [u64::from(is_near(world, SegmentId::ROOT))];
        world.all_reduce(&mut is_near, u64::min)?;
        if is_near == [0] {
            (config.copies, config.diffs) = (Copies::Rank, Diffs::Eager);
        }
    }
    Ok(Domains::new(world.topology(), config.copies))
}

/// Checks that the configuration makes sense, and is the same on every rank.
fn check_config(world: &World, config: &mut Config) -> Result<()> {
    let page = config.page_bytes;
    if !page.is_power_of_two() || !(4..=PAGE_WORDS_MAX * 4).contains(&page) {
        return Err(Error::InvalidArgument(format!(
            "a page cannot have {page} bytes: its size must be a power of two from 4 to {}",
            PAGE_WORDS_MAX * 4
        )));
    }
    config.bytes = config.bytes.max(1).checked_next_multiple_of(page as u64).unwrap_or(u64::MAX);
    if config.bytes / page as u64 > 1 << 31 || config.storage_max > 8 << 30 {
        return Err(Error::InvalidArgument(format!(
            "{} bytes of shared memory and {} of storage are too much: at most 2^31 pages, and 8 \
             GiB of storage",
            config.bytes, config.storage_max
        )));
    }
    config.storage_max = config.storage_max.max(page as u64) & !3;
    let says = format!("{:?}", Config { access: Access::Explicit, ..*config });
    let digest = farside_fabric::digest::of(says.as_bytes());
    let mut ends = [digest, !digest];
    world.all_reduce(&mut ends, u64::min)?;
    if ends != [digest, !digest] {
        let all = world.all_gather(&[digest])?;
        let other = all.iter().position(|&theirs| theirs != digest).unwrap_or(0);
        return Err(Error::Disagreement {
            what: "the ranks disagree on how shared memory is set up".into(),
            mine: says,
            rank: Rank(other as u32),
            theirs: "something else".into(),
        });
    }
    Ok(())
}

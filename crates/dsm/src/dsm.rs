//! Shared memory, as a program sees it.

use std::cell::RefCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use farside_fabric::{Error, Rank, Region as Pieces, Result, SegmentId};
use farside_pager::{Method, Watched};
use farside_rma::{Plain, World};

use crate::barrier::BarrierMembers;
use crate::config::{Access, Config, Fetch, Start};
use crate::core::{Allowed, Core, Guard, NoGuard, Reach};
use crate::diff::PAGE_WORDS_MAX;
use crate::front::{Held, PagerGuard};
use crate::memory::Memory;
use crate::race::Race;
use crate::region::{Placement, Region};
use crate::shared::{Ground, Shared, View, ViewMut};
use crate::statistics::Statistics;
use crate::variant::{Right, Variant};

/// Memory that all ranks share: ordinary loads and stores, kept coherent by locks and barriers.
///
/// ```
/// use farside::dsm::{Config, Dsm};
///
/// farside::local(4, |world| {
///     let mut dsm = Dsm::new(&world, Config::new(1 << 20))?;
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
/// What one rank writes, another sees when it has synchronized with it: through a lock that the
/// first released and the second acquired afterwards, or through a barrier of both. `docs/dsm.md`
/// has the rules. A view borrows the memory, and synchronizations need all of it: so no view lives
/// longer than what it shows.
pub struct Dsm<'w, V: Variant = Right> {
    world: &'w World,
    region: Region,
    ground: Ground,
    /// Where the core can be found during a fault, too. Before `watched`, so that nobody faults
    /// when it is gone.
    core: Box<Held<'w, V>>,
    watched: Option<Arc<Watched>>,
    everybody: Arc<[Rank]>,
}

impl<'w> Dsm<'w> {
    /// Makes shared memory. Collective: all ranks say the same.
    pub fn new(world: &'w World, config: Config) -> Result<Dsm<'w>> {
        Dsm::variant(world, config)
    }
}

impl<'w, V: Variant> Dsm<'w, V> {
    #[doc(hidden)]
    pub fn variant(world: &'w World, mut config: Config) -> Result<Dsm<'w, V>> {
        let method = method_of(config.access);
        if method.is_some() {
            config.page_bytes = farside_pager::page_bytes();
        }
        check_config(world, &mut config)?;
        let memory = Memory::new(world, &config)?;
        let handler = match config.fetch {
            Fetch::Get => None,
            Fetch::Call => Some(world.serve(serve)?),
        };
        // Faults come at any moment, also in the middle of the program's own operations.
        let reach = match method {
            Some(_) => Reach::Owned(Box::new(world.context()?)),
            None => Reach::Borrowed(world),
        };
        let own = NonNull::new(memory.copy.own().as_ptr().cast::<u8>());
        let own =
            own.ok_or_else(|| Error::Misuse("this rank's shared memory is nowhere".into()))?;
        let (watched, guard, base): (_, Box<dyn Guard>, _) = match method {
            None => (None, Box::new(NoGuard), own),
            Some(method) => {
                let watched = crate::front::watch(own, config.bytes as usize, method)?;
                (Some(watched.clone()), Box::new(PagerGuard(watched.clone())), watched.base())
            }
        };
        // SAFETY: the memory is this rank's own part of the window, which lives as long as the
        // core, or the second mapping of it, which lives as long as `watched`.
        let ground = unsafe { Ground::new(base, config.bytes) };
        let mut core = Core::new(reach, config, memory, handler, guard);
        if config.start == Start::Zero || world.rank() == Rank(0) {
            core.guard.allow(0, core.pages.len() as u32, Allowed::Reading)?;
        }
        let region = Region::new(config.bytes, config.page_bytes as u64);
        let core = Box::new(Held(RefCell::new(core)));
        if let Some(watched) = &watched {
            core.arm(watched)?;
        }
        let everybody = world.ranks().collect();
        // Nobody sends before everybody can receive.
        world.barrier()?;
        Ok(Dsm { world, region, ground, core, watched, everybody })
    }

    /// The world that shares it.
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// The choices that it was made with; the page size is the one that is used.
    pub fn config(&self) -> Config {
        self.core.0.borrow().config
    }

    /// How accesses are noticed: the method of the pager, or `None` if they are explicit.
    pub fn method(&self) -> Option<Method> {
        self.watched.as_ref().map(|watched| watched.method())
    }

    /// Allocates a shared slice, zeroed unless it was used before. Every rank allocates the same,
    /// in the same order; that is all that they have to do together.
    pub fn alloc<T: Plain>(&mut self, len: usize) -> Result<Shared<T>> {
        self.alloc_at(len, Placement::Anywhere)
    }

    /// The same, where it is wanted.
    pub fn alloc_at<T: Plain>(&mut self, len: usize, placement: Placement) -> Result<Shared<T>> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let offset = self.region.allocate(bytes, align_of::<T>() as u64, placement)?;
        self.core.0.borrow_mut().allocations = self.region.digest();
        Ok(Shared::new(offset, len))
    }

    /// Gives a shared slice back. Every rank does, and none may use it any more. What it held stays
    /// there until it is written again.
    pub fn free<T: Plain>(&mut self, shared: Shared<T>) -> Result<()> {
        self.region.free(shared.offset())?;
        self.core.0.borrow_mut().allocations = self.region.digest();
        Ok(())
    }

    /// Elements to be read, until the next synchronization.
    pub fn view<T: Plain>(&self, shared: Shared<T>, range: Range<usize>) -> Result<View<'_, T>> {
        let bytes = shared.bytes(&range)?;
        self.touch(&bytes, |core, page| core.read(page))?;
        self.ground.view(bytes)
    }

    /// Elements to be read and written, until the next synchronization.
    pub fn view_mut<T: Plain>(
        &self,
        shared: Shared<T>,
        range: Range<usize>,
    ) -> Result<ViewMut<'_, T>> {
        let bytes = shared.bytes(&range)?;
        self.touch(&bytes, |core, page| core.write(page))?;
        self.ground.view_mut(bytes)
    }

    /// Loads an element.
    pub fn get<T: Plain>(&self, shared: Shared<T>, index: usize) -> Result<T> {
        Ok(self.view(shared, index..index.saturating_add(1))?.get(0))
    }

    /// Stores an element.
    pub fn set<T: Plain>(&self, shared: Shared<T>, index: usize, value: T) -> Result<()> {
        self.view_mut(shared, index..index.saturating_add(1))?.set(0, value);
        Ok(())
    }

    /// Where accesses are explicit, this is where they are noticed.
    fn touch(
        &self,
        bytes: &Range<u64>,
        touch: impl Fn(&mut Core<'w, V>, u32) -> Result<()>,
    ) -> Result<()> {
        if self.watched.is_some() || bytes.is_empty() {
            return Ok(());
        }
        let mut core = self.core.0.borrow_mut();
        core.check()?;
        let page_bytes = core.config.page_bytes as u64;
        for page in bytes.start / page_bytes..bytes.end.div_ceil(page_bytes) {
            touch(&mut core, page as u32).map_err(|error| core.fail(error))?;
        }
        Ok(())
    }

    /// Acquires a lock: what was done before its last release is seen from now on.
    pub fn lock(&mut self, lock: u32) -> Result<()> {
        self.synchronize(|core| core.acquire(lock))
    }

    /// Releases it.
    pub fn unlock(&mut self, lock: u32) -> Result<()> {
        self.synchronize(|core| core.release_lock(lock))
    }

    /// Does something with a lock.
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm};
    /// # farside::local(3, |world| {
    /// # let mut dsm = Dsm::new(&world, Config::new(1 << 16))?;
    /// let sum = dsm.alloc::<u64>(1)?;
    /// dsm.locked(7, |dsm| dsm.set(sum, 0, dsm.get(sum, 0)? + 1))?;
    /// dsm.barrier()?;
    /// assert_eq!(dsm.get(sum, 0)?, 3);
    /// # dsm.close() }).unwrap();
    /// ```
    pub fn locked<R>(&mut self, lock: u32, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.lock(lock)?;
        let result = body(self);
        self.unlock(lock)?;
        result
    }

    /// Returns when all ranks have come: what any of them has done before is seen from now on.
    pub fn barrier(&mut self) -> Result<()> {
        let everybody = self.everybody.clone();
        self.barrier_of(&everybody)
    }

    /// The same for some ranks, in ascending order, of which this is one.
    pub fn barrier_of(&mut self, members: &[Rank]) -> Result<()> {
        self.synchronize(|core| {
            let begin_ns = core.reach.now_ns();
            core.pass(&BarrierMembers::new(members, core.me, core.ranks)?)?;
            core.statistics.barriers += 1;
            let end_ns = core.reach.now_ns();
            core.statistics.barrier_ns += end_ns.saturating_sub(begin_ns);
            if core.config.time_barriers && members.len() == core.ranks as usize {
                core.times.push((begin_ns, end_ns));
            }
            Ok(())
        })
    }

    fn synchronize(&mut self, body: impl FnOnce(&mut Core<'w, V>) -> Result<()>) -> Result<()> {
        let core = self.core.0.get_mut();
        core.check()?;
        // A wrong argument does no harm; a failure on the way leaves pages stale for good.
        body(core)
            .map_err(|error| if error.lost_rank().is_some() { core.fail(error) } else { error })
    }

    /// Fails if a page could not be brought up to date since the last synchronization: what was
    /// read since may be stale. Synchronizations say so, too.
    pub fn check(&self) -> Result<()> {
        self.core.0.borrow().check()
    }

    /// What this rank has done so far.
    pub fn statistics(&self) -> Statistics {
        self.core.0.borrow().statistics()
    }

    /// When this rank has entered and left each barrier of all ranks, in nanoseconds, if that is
    /// remembered: see [`Config::time_barriers`].
    pub fn barrier_times(&self) -> Vec<(u64, u64)> {
        self.core.0.borrow().times.clone()
    }

    /// The segment that messages of barriers land in, for those who count what a network does with
    /// them.
    #[doc(hidden)]
    pub fn mail_segment(&self) -> SegmentId {
        self.core.0.borrow().memory.mail_segment()
    }

    /// How many bytes of diffs and notices this rank keeps.
    pub fn storage(&self) -> u64 {
        self.core.0.borrow().storage()
    }

    /// The races that this rank has found, if they are looked for. Pages are dealt out: other ranks
    /// may have found others.
    pub fn races(&self) -> Vec<Race> {
        self.core.0.borrow().races.clone()
    }

    /// Gives everything back. Collective.
    pub fn close(self) -> Result<()> {
        let Dsm { world, core, watched, .. } = self;
        // First nobody may fault any more, then the memory may go.
        let core = core.0.into_inner();
        let memory = core.into_memory();
        drop(watched);
        memory.free(world)
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

/// Whether the choices make sense, and are the same everywhere.
fn check_config(world: &World, config: &mut Config) -> Result<()> {
    let page = config.page_bytes;
    if !page.is_power_of_two() || !(4..=PAGE_WORDS_MAX * 4).contains(&page) {
        return Err(Error::Misuse(format!(
            "a page of {page} bytes cannot be: it is a power of two from 4 to {}",
            PAGE_WORDS_MAX * 4
        )));
    }
    config.bytes = config.bytes.max(1).checked_next_multiple_of(page as u64).unwrap_or(u64::MAX);
    if config.bytes / page as u64 > 1 << 31 || config.storage_max > 8 << 30 {
        return Err(Error::Misuse(format!(
            "{} bytes of shared memory and {} of storage are too much: at most 2^31 pages, and 8 \
             GiB of storage",
            config.bytes, config.storage_max
        )));
    }
    config.storage_max = config.storage_max.max(page as u64) & !3;
    let says = format!("{:?}", Config { access: Access::Explicit, ..*config });
    let digest = says.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
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

/// What the agent of a node does for those who ask for words of one of its ranks.
fn serve(agent: &dyn farside_rma::Agent, _from: Rank, asked: &[u8]) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = asked.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let (segment, rank, at, bytes) = (SegmentId(word(0)), Rank(word(1) as u32), word(2), word(3));
    let mut reply = vec![0; bytes.min(1 << 20) as usize];
    // Who asked wrongly gets a reply that is too short.
    match agent.get(&Pieces::block(rank, segment, at, reply.len() as u64), &mut reply) {
        Ok(()) => reply,
        Err(_) => Vec::new(),
    }
}

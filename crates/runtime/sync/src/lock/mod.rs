//! Exclusive locks: at most one rank at a time between `lock` and the end of its guard.
//!
//! ```
//! use farside::{Lock, Rank};
//!
//! farside::local(4, |world| {
//!     let lock = Lock::new(world, Rank(0))?;
//!     let sum = world.window::<u64>(1)?;
//!     for _ in 0..100 {
//!         let guard = lock.lock(world)?;
//!         let seen = world.get_value(sum.at(Rank(0), 0))?;
//!         world.put_value(seen + 1, sum.at(Rank(0), 0))?;
//!         guard.unlock()?;
//!     }
//!     world.sync()?;
//!     assert_eq!(world.get_value(sum.at(Rank(0), 0))?, 400);
//!     sum.free(world)?;
//!     lock.free(world)
//! })
//! .unwrap();
//! ```
//!
//! What the holder has put, accumulated or signalled, anywhere, has landed before the next holder
//! returns from [`Lock::lock`]. That holds for what was posted through the guard's own context;
//! another thread's context must flush by itself.
//!
//! One file of `algorithms` holds one lock; [`Kind`] chooses. Each can be given a time limit, and
//! none of them waits for a rank that is lost: the loss of a member poisons the lock
//! ([`Error::Poisoned`]), for the requests that wait at that moment and for all later ones, until
//! [`Lock::recover`].

mod agent;
mod algorithms;
#[doc(hidden)]
pub mod frame;
#[doc(hidden)]
pub mod registry;
mod server_queue;
#[doc(hidden)]
pub mod steps;

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use farside_fabric::record::ActivityKind;
use farside_fabric::{Error, Rank, Result, Word};
use farside_rma::{Context, Purpose, Team, World};

use frame::{Algorithm, Handle, LockWords, Observer, TimeLimit, guard};
use registry::{Entry, Made, Maker, Widths};

#[doc(hidden)]
pub use algorithms::entries;
pub use algorithms::{Kind, Permit, Semaphore, packed};
pub(crate) use algorithms::{d_mcs as queue, rma_mcs};
pub use frame::Statistics;

/// A lock that its members made together. Each rank has a handle of its own, which it uses with one
/// thread at a time.
#[must_use = "a lock that is dropped without `free` keeps its memory until the job ends"]
pub struct Lock {
    entry: &'static Entry,
    algorithm: Box<dyn Algorithm>,
    words: LockWords,
    handle: Handle,
    held: Cell<bool>,
}

impl Lock {
    /// Makes a lock of the default kind for all ranks. Collective. What they share of it lies in
    /// the memory of `home`, near whom it is fastest.
    pub fn new(world: &World, home: Rank) -> Result<Lock> {
        Lock::of_kind(world, home, &Kind::Default)
    }

    /// Makes a lock of a given kind for all ranks. Collective.
    ///
    /// ```
    /// # use farside::{lock::Kind, Lock, Rank};
    /// # farside::local(2, |world| {
    /// for kind in Kind::all() {
    ///     let lock = Lock::of_kind(world, Rank(1), &kind)?;
    ///     drop(lock.lock(world)?);
    ///     assert_eq!(lock.statistics().acquisitions, 1, "{}", lock.name());
    ///     lock.free(world)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn of_kind(world: &World, home: Rank, kind: &Kind) -> Result<Lock> {
        Lock::observed(world, home, kind, None)
    }

    /// Makes a lock for the members of a team, of any kind that needs no agent. Collective over the
    /// team.
    ///
    /// ```
    /// # use farside::{lock::Kind, Lock, Rank};
    /// # farside::local(4, |world| {
    /// let half = world.split(Some(u64::from(world.rank().0 / 2)), 0)?.unwrap();
    /// let lock = Lock::for_team(&half, half.members()[0], &Kind::Mcs)?;
    /// drop(lock.lock(world)?);
    /// lock.free(&half)?;
    /// # half.free() }).unwrap();
    /// ```
    pub fn for_team(team: &Team<'_>, home: Rank, kind: &Kind) -> Result<Lock> {
        Lock::make(kind, Maker::new(team, home))
    }

    /// Makes a lock of a given kind that tells a checker of requests that wait. Collective.
    #[doc(hidden)]
    pub fn observed(
        world: &World,
        home: Rank,
        kind: &Kind,
        observer: Option<Observer>,
    ) -> Result<Lock> {
        let team = world.team();
        Lock::make(kind, Maker { world: Some(world), observer, ..Maker::new(&team, home) })
    }

    /// Makes a lock of a given kind whose packed numbers are so narrow that they wrap in every run,
    /// for a checker. Collective.
    #[doc(hidden)]
    pub fn narrow(world: &World, home: Rank, kind: &Kind) -> Result<Lock> {
        let (team, widths) = (world.team(), Widths::Narrow);
        Lock::make(kind, Maker { world: Some(world), widths, ..Maker::new(&team, home) })
    }

    fn make(kind: &Kind, maker: Maker<'_>) -> Result<Lock> {
        let kind = kind.resolve(maker.team);
        let (handle, held) = (Handle::new(maker.context().rank()), Cell::new(false));
        let Made { words, algorithm } = kind.build(maker)?;
        Ok(Lock { entry: kind.entry(), algorithm, words, handle, held })
    }

    /// Returns the rank in whose memory the lock lies.
    pub fn home(&self) -> Rank {
        self.words.home()
    }

    /// Returns the ranks that may use the lock.
    pub fn members(&self) -> &[Rank] {
        self.words.members()
    }

    /// Returns the name of its algorithm.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// Returns its row of the registry.
    #[doc(hidden)]
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Returns what this rank has done with it so far.
    pub fn statistics(&self) -> Statistics {
        self.words.statistics.read()
    }

    /// Waits until this rank has the lock.
    ///
    /// A rank that asks for a lock that it has gets an error, and so do all members when one of
    /// them is lost.
    ///
    /// If one of the request's own operations fails for another reason, the request stops halfway:
    /// the rank may keep a place in the queue, or have the lock and not know it, and the others
    /// wait until it ends. It must not ask again, but end with the error, as `?` in the main
    /// function does: that is a loss, which poisons the lock. (A time limit is no such error: a
    /// request that reaches it gives its place up.)
    #[inline]
    #[track_caller]
    pub fn lock<'a>(&'a self, context: &'a Context) -> Result<Guard<'a>> {
        // A request without a limit does not give up.
        self.request(context, TimeLimit::Unlimited)?;
        Ok(Guard { lock: self, context })
    }

    /// Takes the lock if it is free.
    ///
    /// ```
    /// # use farside::{Lock, Rank};
    /// # farside::local(2, |world| {
    /// let lock = Lock::new(world, Rank(0))?;
    /// if world.rank() == Rank(0) {
    ///     let guard = lock.lock(world)?;
    ///     world.barrier()?;
    ///     world.barrier()?;
    ///     guard.unlock()?;
    /// } else {
    ///     world.barrier()?;
    ///     assert!(lock.try_lock(world)?.is_none());
    ///     world.barrier()?;
    /// }
    /// # lock.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn try_lock<'a>(&'a self, context: &'a Context) -> Result<Option<Guard<'a>>> {
        Ok(self.request(context, TimeLimit::DoNotWait)?.then_some(Guard { lock: self, context }))
    }

    /// Waits for the lock for at most `time`; then [`Error::TimedOut`].
    ///
    /// Kinds that wait several times for one request (`rma-mcs` at each level, the default at the
    /// queue and at its head) may take that long each time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use farside::{Error, Lock, Rank};
    /// # farside::local(2, |world| {
    /// let lock = Lock::new(world, Rank(0))?;
    /// if world.rank() == Rank(0) {
    ///     let guard = lock.lock(world)?;
    ///     world.barrier()?;
    ///     world.barrier()?;
    ///     guard.unlock()?;
    /// } else {
    ///     world.barrier()?;
    ///     let late = lock.lock_timeout(world, Duration::from_millis(1)).map(drop);
    ///     assert_eq!(late, Err(Error::TimedOut { after_ms: 1 }));
    ///     world.barrier()?;
    /// }
    /// # lock.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn lock_timeout<'a>(&'a self, context: &'a Context, time: Duration) -> Result<Guard<'a>> {
        match self.request(context, TimeLimit::AtMost(time))? {
            true => Ok(Guard { lock: self, context }),
            false => Err(TimeLimit::exceeded(time)),
        }
    }

    /// Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members
    /// that are all alive; they are the members from then on. If the home was lost, one of them
    /// becomes home.
    ///
    /// The data under the lock is the caller's to mend. Members of a job with losses cannot split
    /// the world any more, so the team must have been made before. The lock gets new words, which
    /// that team frees ([`Lock::free`]); the old ones, in which something of the lost may still
    /// land, are kept until the job ends.
    pub fn recover<'t>(&mut self, survivors: impl Into<Team<'t>>) -> Result<()> {
        let team = survivors.into();
        let context = team.context();
        let can_be_home = |rank| self.algorithm.can_be_home(context, rank);
        let home = self.handle.agree_on_home(&team, &self.words, can_be_home)?;
        self.held.set(false);
        let concerned = self.algorithm.concerned(context, home, team.members());
        self.words.renew(&team, home, &concerned)?;
        self.algorithm.reset(&self.words, context)?;
        // No survivor uses the lock before all have made it anew.
        team.barrier()
    }

    /// Gives its memory back. Collective over the members. It is an error if one of them still has
    /// the lock.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        self.handle.check_owner(team.context())?;
        // A release that is only posted needs the words.
        team.context().finish_calls()?;
        Handle::check_unheld(&team, self.held.get())?;
        self.words.into_words().free(&team)
    }

    /// Gives the lock a name, which viewers show instead of a number. Each rank names its own
    /// handle; one that does is enough.
    ///
    /// ```
    /// # use farside::{Lock, Rank};
    /// # farside::local(2, |world| {
    /// let lock = Lock::new(world, Rank(0))?.named(world, "table");
    /// # lock.free(world) }).unwrap();
    /// ```
    pub fn named(self, context: &Context, name: &str) -> Lock {
        let Word { segment, offset, .. } = self.words.first();
        context.note_name(segment, offset, name);
        self
    }

    #[inline]
    #[track_caller]
    fn request(&self, context: &Context, limit: TimeLimit) -> Result<bool> {
        let place = Location::caller();
        let Word { segment, offset, .. } = self.words.first();
        let purpose = Purpose::new(ActivityKind::Lock, self.entry.name).of(segment, offset);
        let doing = context.begin(purpose.limited(limit != TimeLimit::Unlimited));
        let got = self.request_quietly(context, limit).map_err(|error| context.failed(error))?;
        drop(doing);
        if got {
            context.note_held(segment, offset, place);
        }
        Ok(got)
    }

    #[inline]
    fn request_quietly(&self, context: &Context, limit: TimeLimit) -> Result<bool> {
        if self.held.get() || context.rank() != self.handle.rank() {
            return Err(self.misuse(context));
        }
        self.check_losses(context)?;
        let queued = self.words.statistics.read().queued;
        match self.algorithm.request(&self.words, context, limit) {
            Ok(true) => {
                let counts = self.words.statistics.read();
                // A rank that has waited may have got the lock after a loss, from the lost rank.
                if counts.queued != queued {
                    self.check_losses(context)
                        .inspect_err(|_| drop(self.algorithm.release(&self.words, context)))?;
                }
                self.held.set(true);
                self.words.statistics.note(|counts| counts.acquisitions += 1);
                Ok(true)
            }
            Ok(false) => {
                self.words.statistics.note(|counts| counts.given_up += 1);
                Ok(false)
            }
            Err(error) => Err(self.explain(context, error)),
        }
    }

    #[inline]
    fn release(&self, context: &Context) -> Result<()> {
        if !self.held.replace(false) {
            return Err(Handle::not_held(self.handle.rank()));
        }
        let Word { segment, offset, .. } = self.words.first();
        context.note_released(segment, offset);
        self.algorithm.release(&self.words, context).map_err(|error| self.explain(context, error))
    }

    #[cold]
    fn misuse(&self, context: &Context) -> Error {
        match self.handle.check_owner(context) {
            Err(error) => error,
            Ok(()) => Error::InvalidState(format!(
                "{} requests a lock it already holds",
                self.handle.rank()
            )),
        }
    }

    #[inline]
    fn check_losses(&self, context: &Context) -> Result<()> {
        self.handle.check_losses(context, || &self.words)
    }

    #[cold]
    fn explain(&self, context: &Context, error: Error) -> Error {
        Handle::explain(context, error, self.members())
    }
}

guard! {
    /// Holds the lock until dropped.
    Guard of Lock, Lock::release
}

//! Reader-writer locks: any number of readers at a time, or one writer.
//!
//! ```
//! use farside::{Rank, RwLock};
//!
//! farside::local(4, |world| {
//!     let lock = RwLock::new(world, Rank(0))?;
//!     let pair = world.window::<u64>(2)?;
//!     for round in 0..100 {
//!         if round % 10 == 0 {
//!             let guard = lock.write(world)?;
//!             let seen = world.get_value(pair.at(Rank(0), 0))?;
//!             world.put(&[seen + 1, seen + 1], pair.at(Rank(0), 0))?;
//!             guard.unlock()?;
//!         } else {
//!             let guard = lock.read(world)?;
//!             let mut seen = [0; 2];
//!             world.get(pair.at(Rank(0), 0), &mut seen)?;
//!             assert_eq!(seen[0], seen[1]);
//!             guard.unlock()?;
//!         }
//!     }
//!     world.sync()?;
//!     assert_eq!(world.get_value(pair.at(Rank(0), 1))?, 40);
//!     pair.free(world)?;
//!     lock.free(world)
//! })
//! .unwrap();
//! ```
//!
//! What a writer has put, accumulated or signalled, anywhere, has landed before the next reader or
//! writer gets the lock; and so has what a reader has. That holds for what was posted through the
//! guard's own context; another thread's context must flush by itself.
//!
//! One file of `algorithms` holds one lock; [`Kind`] chooses. Each can be given a time limit, and
//! none of them waits for a rank that is lost: the loss of a member poisons the lock
//! ([`Error::Poisoned`]), for the requests that wait at that moment and for all later ones, until
//! [`RwLock::recover`].

mod algorithms;
#[doc(hidden)]
pub mod frame;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod steps;

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use farside_fabric::record::ActivityKind;
use farside_fabric::{Error, Rank, Result, Word};
use farside_rma::{Context, Purpose, Team, World};

use crate::lock::frame::{Handle, Observer, TimeLimit, guard};
use crate::lock::registry::{Maker, Widths};
use frame::{Algorithm, RwWords};
use registry::Entry;

pub use algorithms::Kind;
#[doc(hidden)]
pub use algorithms::entries;
pub use frame::Statistics;

/// A reader-writer lock that its members made together. Each rank has a handle of its own, which it
/// uses with one thread at a time.
#[must_use = "a lock that is dropped without `free` keeps its memory until the job ends"]
pub struct RwLock {
    entry: &'static Entry,
    algorithm: Box<dyn Algorithm>,
    words: RwWords,
    handle: Handle,
    held: Cell<Held>,
    reads: Cell<u64>,
    writes: Cell<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Not,
    Read,
    Write,
}

impl RwLock {
    /// Makes a lock of the default kind for all ranks. Collective. What they share of it lies in
    /// the memory of `home`, near whom it is fastest.
    pub fn new(world: &World, home: Rank) -> Result<RwLock> {
        RwLock::of_kind(world, home, &Kind::Default)
    }

    /// Makes a lock of a given kind for all ranks. Collective.
    ///
    /// ```
    /// # use farside::{rw::Kind, Rank, RwLock};
    /// # farside::local(2, |world| {
    /// for kind in Kind::all() {
    ///     let lock = RwLock::of_kind(world, Rank(1), &kind)?;
    ///     drop(lock.read(world)?);
    ///     drop(lock.write(world)?);
    ///     let statistics = lock.statistics();
    ///     assert_eq!((statistics.reads, statistics.writes), (1, 1), "{}", lock.name());
    ///     lock.free(world)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn of_kind(world: &World, home: Rank, kind: &Kind) -> Result<RwLock> {
        RwLock::for_team(&world.team(), home, kind)
    }

    /// Makes a lock for the members of a team. Collective over the team.
    ///
    /// ```
    /// # use farside::{rw::Kind, Rank, RwLock};
    /// # farside::local(4, |world| {
    /// let half = world.split(Some(u64::from(world.rank().0 / 2)), 0)?.unwrap();
    /// let lock = RwLock::for_team(&half, half.members()[0], &Kind::Default)?;
    /// drop(lock.read(world)?);
    /// lock.free(&half)?;
    /// # half.free() }).unwrap();
    /// ```
    pub fn for_team(team: &Team<'_>, home: Rank, kind: &Kind) -> Result<RwLock> {
        RwLock::make(kind, Maker::new(team, home))
    }

    /// Makes a lock of a given kind that tells a checker of requests that wait. Collective.
    #[doc(hidden)]
    pub fn observed(
        world: &World,
        home: Rank,
        kind: &Kind,
        observer: Option<Observer>,
    ) -> Result<RwLock> {
        RwLock::make(kind, Maker { observer, ..Maker::new(&world.team(), home) })
    }

    /// Makes a lock of a given kind whose packed numbers are so narrow that they wrap in every run,
    /// for a checker. Collective.
    #[doc(hidden)]
    pub fn narrow(world: &World, home: Rank, kind: &Kind) -> Result<RwLock> {
        let widths = Widths::Narrow;
        RwLock::make(kind, Maker { widths, ..Maker::new(&world.team(), home) })
    }

    fn make(kind: &Kind, maker: Maker<'_>) -> Result<RwLock> {
        let handle = Handle::new(maker.context().rank());
        let made = kind.build(maker)?;
        Ok(RwLock {
            entry: kind.entry(),
            algorithm: made.algorithm,
            words: RwWords::new(made.words),
            handle,
            held: Cell::new(Held::Not),
            reads: Cell::new(0),
            writes: Cell::new(0),
        })
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

    /// Returns what this rank has done with it so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            reads: self.reads.get(),
            writes: self.writes.get(),
            ..self.words.statistics.read()
        }
    }

    /// Waits until this rank may read. Others may read at the same time; no rank writes.
    ///
    /// A rank that asks for a lock that it has gets an error, and so do all members when one of
    /// them is lost.
    #[inline]
    #[track_caller]
    pub fn read<'a>(&'a self, context: &'a Context) -> Result<ReadGuard<'a>> {
        self.ask_read(context, TimeLimit::Unlimited)?.ok_or_else(|| self.gave_up())
    }

    /// Waits until this rank may write: no other rank reads or writes.
    #[inline]
    #[track_caller]
    pub fn write<'a>(&'a self, context: &'a Context) -> Result<WriteGuard<'a>> {
        self.ask_write(context, TimeLimit::Unlimited)?.ok_or_else(|| self.gave_up())
    }

    /// Takes the lock to read if that is possible at once.
    ///
    /// ```
    /// # use farside::{Rank, RwLock};
    /// # farside::local(2, |world| {
    /// let lock = RwLock::new(world, Rank(0))?;
    /// if world.rank() == Rank(0) {
    ///     let guard = lock.write(world)?;
    ///     world.barrier()?;
    ///     world.barrier()?;
    ///     guard.unlock()?;
    /// } else {
    ///     world.barrier()?;
    ///     assert!(lock.try_read(world)?.is_none());
    ///     world.barrier()?;
    /// }
    /// # lock.free(world) }).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_read<'a>(&'a self, context: &'a Context) -> Result<Option<ReadGuard<'a>>> {
        self.ask_read(context, TimeLimit::DoNotWait)
    }

    /// Takes the lock to write if no rank has it.
    ///
    /// ```
    /// # use farside::{Rank, RwLock};
    /// # farside::local(2, |world| {
    /// let lock = RwLock::new(world, Rank(0))?;
    /// if world.rank() == Rank(0) {
    ///     let guard = lock.read(world)?;
    ///     world.barrier()?; // the other rank tries now
    ///     world.barrier()?;
    ///     guard.unlock()?;
    /// } else {
    ///     world.barrier()?;
    ///     assert!(lock.try_write(world)?.is_none(), "a reader has it");
    ///     world.barrier()?;
    /// }
    /// # lock.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn try_write<'a>(&'a self, context: &'a Context) -> Result<Option<WriteGuard<'a>>> {
        self.ask_write(context, TimeLimit::DoNotWait)
    }

    /// Waits for at most `time` until this rank may read; then [`Error::TimedOut`].
    #[track_caller]
    pub fn read_timeout<'a>(
        &'a self,
        context: &'a Context,
        time: Duration,
    ) -> Result<ReadGuard<'a>> {
        self.ask_read(context, TimeLimit::AtMost(time))?.ok_or_else(|| TimeLimit::exceeded(time))
    }

    /// Waits for at most `time` until this rank may write; then [`Error::TimedOut`].
    ///
    /// A writer waits for other writers and then for the readers that are inside, and may take that
    /// long each time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use farside::{Error, Rank, RwLock};
    /// # farside::local(2, |world| {
    /// let lock = RwLock::new(world, Rank(0))?;
    /// if world.rank() == Rank(0) {
    ///     let guard = lock.read(world)?;
    ///     world.barrier()?;
    ///     world.barrier()?;
    ///     guard.unlock()?;
    /// } else {
    ///     world.barrier()?;
    ///     let late = lock.write_timeout(world, Duration::from_millis(1)).map(drop);
    ///     assert_eq!(late, Err(Error::TimedOut { after_ms: 1 }));
    ///     world.barrier()?;
    /// }
    /// # lock.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn write_timeout<'a>(
        &'a self,
        context: &'a Context,
        time: Duration,
    ) -> Result<WriteGuard<'a>> {
        self.ask_write(context, TimeLimit::AtMost(time))?.ok_or_else(|| TimeLimit::exceeded(time))
    }

    /// Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members
    /// that are all alive; they are the members from then on. If the home was lost, one of them
    /// becomes home.
    ///
    /// The data under the lock is the caller's to mend. Members of a job with losses cannot split
    /// the world any more, so the team must have been made before. The lock gets new words, which
    /// that team frees ([`RwLock::free`]); the old ones, in which something of the lost may still
    /// land, are kept until the job ends.
    pub fn recover<'t>(&mut self, survivors: impl Into<Team<'t>>) -> Result<()> {
        let team = survivors.into();
        let context = team.context();
        let can_be_home = |rank| self.algorithm.can_be_home(context, rank);
        let home = self.handle.agree_on_home(&team, &self.words, can_be_home)?;
        self.held.set(Held::Not);
        self.words.renew(&team, home, team.members())?;
        if let Some(writers) = self.algorithm.writers() {
            writers.renew(&team, home, team.members())?;
        }
        self.algorithm.reset(&self.words, context)?;
        // No survivor uses the lock before all have made it anew.
        team.barrier()
    }

    /// Gives its memory back. Collective over the members. It is an error if one of them still has
    /// the lock.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        self.handle.check_owner(team.context())?;
        Handle::check_unheld(&team, self.held.get() != Held::Not)?;
        // One that has lost something of its own fails when all have come to both.
        self.words.into_words().into_words().free(&team).and(self.algorithm.free(&team))
    }

    /// Gives the lock a name, which viewers show instead of a number. Each rank names its own
    /// handle; one that does is enough.
    pub fn named(self, context: &Context, name: &str) -> RwLock {
        let Word { segment, offset, .. } = self.words.first();
        context.note_name(segment, offset, name);
        self
    }

    #[inline]
    #[track_caller]
    fn purpose(&self, limit: TimeLimit) -> Purpose {
        let Word { segment, offset, .. } = self.words.first();
        let purpose = Purpose::new(ActivityKind::Lock, self.entry.name).of(segment, offset);
        purpose.limited(limit != TimeLimit::Unlimited)
    }

    #[inline]
    #[track_caller]
    fn ask_read<'a>(
        &'a self,
        context: &'a Context,
        limit: TimeLimit,
    ) -> Result<Option<ReadGuard<'a>>> {
        self.check(context)?;
        let doing = context.begin(self.purpose(limit));
        let asked = self.algorithm.read(&self.words, context, limit);
        drop(doing);
        match asked {
            Ok(true) => {
                // A rank that has waited may have got the lock after a loss, from the lost rank.
                self.check_losses(context)
                    .inspect_err(|_| drop(self.algorithm.end_read(&self.words, context)))?;
                self.held.set(Held::Read);
                let Word { segment, offset, .. } = self.words.first();
                context.note_held(segment, offset, Location::caller());
                self.reads.set(self.reads.get() + 1);
                Ok(Some(ReadGuard { lock: self, context }))
            }
            other => self.none(context, other),
        }
    }

    #[inline]
    #[track_caller]
    fn ask_write<'a>(
        &'a self,
        context: &'a Context,
        limit: TimeLimit,
    ) -> Result<Option<WriteGuard<'a>>> {
        self.check(context)?;
        let doing = context.begin(self.purpose(limit));
        let asked = self.algorithm.write(&self.words, context, limit);
        drop(doing);
        match asked {
            Ok(true) => {
                // A rank that has waited may have got the lock after a loss, from the lost rank.
                self.check_losses(context)
                    .inspect_err(|_| drop(self.algorithm.end_write(&self.words, context)))?;
                self.held.set(Held::Write);
                let Word { segment, offset, .. } = self.words.first();
                context.note_held(segment, offset, Location::caller());
                self.writes.set(self.writes.get() + 1);
                Ok(Some(WriteGuard { lock: self, context }))
            }
            other => self.none(context, other),
        }
    }

    #[inline]
    #[track_caller]
    fn check(&self, context: &Context) -> Result<()> {
        if self.held.get() != Held::Not || context.rank() != self.handle.rank() {
            return Err(context.failed(self.misuse(context)));
        }
        self.check_losses(context)
    }

    #[inline]
    fn check_losses(&self, context: &Context) -> Result<()> {
        self.handle.check_losses(context, || &*self.words)
    }

    /// Ends a request that has not got the lock.
    #[cold]
    #[track_caller]
    fn none<G>(&self, context: &Context, asked: Result<bool>) -> Result<Option<G>> {
        match asked {
            Ok(_) => {
                self.words.statistics.note(|counts| &counts.given_up);
                Ok(None)
            }
            Err(error) => Err(context.failed(self.explain(context, error))),
        }
    }

    #[inline]
    fn release_read(&self, context: &Context) -> Result<()> {
        self.release(context, Held::Read)
    }

    #[inline]
    fn release_write(&self, context: &Context) -> Result<()> {
        self.release(context, Held::Write)
    }

    #[inline]
    fn release(&self, context: &Context, held: Held) -> Result<()> {
        if self.held.replace(Held::Not) != held {
            return Err(Handle::not_held(self.handle.rank()));
        }
        let Word { segment, offset, .. } = self.words.first();
        context.note_released(segment, offset);
        let released = match held {
            Held::Write => self.algorithm.end_write(&self.words, context),
            _ => self.algorithm.end_read(&self.words, context),
        };
        released.map_err(|error| self.explain(context, error))
    }

    #[cold]
    fn misuse(&self, context: &Context) -> Error {
        match (self.handle.check_owner(context), self.held.get()) {
            (Err(error), _) => error,
            (Ok(()), Held::Read) => Error::InvalidState(format!(
                "{} requests a lock that it already holds for reading",
                self.handle.rank()
            )),
            (Ok(()), _) => Error::InvalidState(format!(
                "{} requests a lock that it already holds for writing",
                self.handle.rank()
            )),
        }
    }

    #[cold]
    fn gave_up(&self) -> Error {
        Error::Internal(format!("a {} lock gave up a request that has no time limit", self.name()))
    }

    #[cold]
    fn explain(&self, context: &Context, error: Error) -> Error {
        Handle::explain(context, error, self.members())
    }
}

guard! {
    /// Holds the lock for reading until dropped.
    ReadGuard of RwLock, RwLock::release_read
}
guard! {
    /// Holds the lock for writing until dropped.
    WriteGuard of RwLock, RwLock::release_write
}

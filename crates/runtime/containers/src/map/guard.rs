//! How ranks that use the same volume keep out of each other's way.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Team, Window, or_free};
use farside_sync::RwLock;
use farside_sync::rw::Kind;

use crate::protocol::steps;

/// How ranks that use the same volume of a map keep out of each other's way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Synchronization {
    /// By atomics only, bucket by bucket (foMPI-A of \[RMALOCK16\]): readers do not wait for each
    /// other, and writers for those of the same bucket only.
    #[default]
    Atomics,
    /// By a reader-writer lock for each volume.
    Locked(Kind),
}

impl Synchronization {
    /// Those that \[RMALOCK16\] compares, and the default lock.
    pub fn all() -> Vec<Synchronization> {
        let locks = [Kind::FompiRw { backoff: false }, Kind::rma_rw(), Kind::Default];
        std::iter::once(Synchronization::Atomics)
            .chain(locks.map(Synchronization::Locked))
            .collect()
    }

    /// Its name, as benchmarks and tables spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Synchronization::Atomics => "atomics",
            Synchronization::Locked(kind) => kind.name(),
        }
    }

    /// The one of that name.
    ///
    /// ```
    /// use farside::map::Synchronization;
    ///
    /// for one in Synchronization::all() {
    ///     assert_eq!(Synchronization::named(one.name()), Some(one));
    /// }
    /// assert_eq!(Synchronization::named("luck"), None);
    /// ```
    pub fn named(name: &str) -> Option<Synchronization> {
        let lock = || Kind::named(name).map(Synchronization::Locked);
        Synchronization::all().into_iter().find(|one| one.name() == name).or_else(lock)
    }
}

/// What a map guards its volumes with: a lock for each, or nothing.
pub(crate) struct Guards {
    name: &'static str,
    /// In the order of the volumes.
    locks: Option<Box<[RwLock]>>,
    /// Whether the survivors of a loss have recovered them.
    are_recovered: bool,
}

impl Guards {
    /// Guards for the volumes of these ranks. Collective.
    pub(crate) fn new(
        team: &Team<'_>,
        volumes: &[Rank],
        synchronization: &Synchronization,
    ) -> Result<Guards> {
        team.context().note_unseen("accesses inside maps and sets");
        let Synchronization::Locked(kind) = synchronization else {
            return Ok(Guards { name: synchronization.name(), locks: None, are_recovered: false });
        };
        let mut locks = Vec::new();
        let made = volumes.iter().try_for_each(|&home| {
            locks.push(RwLock::for_team(team, home, kind)?);
            Ok(())
        });
        let (name, locks) = (synchronization.name(), Some(locks.into()));
        let guards = Guards { name, locks, are_recovered: false };
        or_free(guards, |guards| guards.free(team), |_| made).map(|(guards, ())| guards)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn are_locks(&self) -> bool {
        self.locks.is_some()
    }

    pub(crate) fn are_recovered(&self) -> bool {
        self.are_recovered
    }

    #[inline]
    pub(crate) fn read<T>(
        &self,
        context: &Context,
        at: usize,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(locks) = &self.locks else {
            return read();
        };
        let guard = locks[at].read(context)?;
        let result = read();
        guard.unlock()?;
        result
    }

    #[inline]
    pub(crate) fn write<T>(
        &self,
        context: &Context,
        at: usize,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(locks) = &self.locks else {
            return write();
        };
        let guard = locks[at].write(context)?;
        let result = write();
        guard.unlock()?;
        result
    }

    /// Makes the locks usable again for those who are left; those of lost volumes are not needed
    /// any more.
    pub(crate) fn recover(&mut self, survivors: &Team<'_>, volumes: &[Rank]) -> Result<()> {
        self.are_recovered = true;
        let Some(locks) = &mut self.locks else {
            return survivors.barrier();
        };
        let recovers = !survivors.context().omits(steps::RECOVER_LOCKS);
        for (lock, home) in locks.iter_mut().zip(volumes) {
            if recovers && survivors.members().contains(home) {
                lock.recover(survivors)?;
            }
        }
        Ok(())
    }

    /// Gives the locks back. Collective. Those of volumes that a recovery has left out stay.
    pub(crate) fn free(self, team: &Team<'_>) -> Result<()> {
        // What one of them leaves behind is no reason to keep the others.
        let locks = self.locks.into_iter().flatten();
        let locks = locks.filter(|lock| team.members().contains(&lock.home()));
        locks.map(|lock| lock.free(team)).fold(Ok(()), Result::and)
    }
}

/// Makes the guards of volumes in these words, which are freed if there are none; and meets all
/// members, so that nobody uses either too early. Collective.
pub(crate) fn guarded(
    team: &Team<'_>,
    words: Window<u64>,
    make: impl FnOnce() -> Result<Guards>,
) -> Result<(Window<u64>, Guards)> {
    or_free(
        words,
        |words| words.free(team),
        |_| or_free(make()?, |guards| guards.free(team), |_| team.barrier()),
    )
    .map(|(words, (guards, ()))| (words, guards))
}

pub(crate) fn check_volumes(team: &Team<'_>, volumes: &[Rank]) -> Result<()> {
    match volumes.iter().find(|&rank| !team.members().contains(rank)) {
        Some(&rank) => Err(Error::NotAMember { rank, of: "team" }),
        None if volumes.is_empty() => {
            Err(Error::InvalidArgument("a map needs at least one volume".into()))
        }
        None => Ok(()),
    }
}

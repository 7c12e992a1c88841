//! Locks, reader-writer locks and semaphores.

use std::sync::Arc;

use farside::{Error, Guard, Rank, ReadGuard, WriteGuard, lock, rw};
use pyo3::prelude::*;

use crate::atomic::limit;
use crate::error::{Raise, bad_argument};
use crate::made::Made;
use crate::team::{Team, TeamShared};

/// The error of a lock that was not free.
const TOO_LATE: Error = Error::TimedOut { after_ms: 0 };

#[pymethods]
impl Team {
    /// Makes an exclusive lock whose shared words are in the memory of `home`. Collective.
    #[pyo3(signature = (home=0, kind=None))]
    fn new_lock(&self, py: Python<'_>, home: u32, kind: Option<&str>) -> PyResult<Lock> {
        Lock::make(py, &self.shared, Rank(home), kind)
    }

    /// Makes a semaphore: a lock that as many ranks have at a time as it has permits. Collective.
    #[pyo3(signature = (permits, home=0))]
    fn new_semaphore(&self, py: Python<'_>, permits: u32, home: u32) -> PyResult<Lock> {
        Lock::of_kind(py, &self.shared, Rank(home), &lock::Kind::Semaphore { permits })
    }

    /// Makes a reader-writer lock whose shared words are in the memory of `home`. Collective.
    #[pyo3(signature = (home=0, kind=None))]
    fn new_rw_lock(&self, py: Python<'_>, home: u32, kind: Option<&str>) -> PyResult<RwLock> {
        let kind = match kind {
            None => rw::Kind::Default,
            Some(name) => rw::Kind::named(name).ok_or_else(|| {
                let names: Vec<&str> = rw::Kind::all().iter().map(rw::Kind::name).collect();
                let names = names.join(", ");
                let text =
                    format!("{name:?} is not a kind of reader-writer lock: there are {names}");
                bad_argument(py, text)
            })?,
        };
        let home = Rank(home);
        let made = self.shared.run(py, |team| farside::RwLock::for_team(team, home, &kind))?;
        Ok(RwLock { made: Made::new(&self.shared, "lock", made) })
    }
}

/// An exclusive lock, or a semaphore, that the members of a team made together. `with lock:` holds
/// it for a block.
#[pyclass(frozen, module = "farside")]
pub(crate) struct Lock {
    made: Made<farside::Lock, Guard<'static>>,
}

impl Lock {
    /// Makes a lock. Collective.
    pub(crate) fn make(
        py: Python<'_>,
        team: &Arc<TeamShared>,
        home: Rank,
        kind: Option<&str>,
    ) -> PyResult<Lock> {
        let kind = match kind {
            None => lock::Kind::Default,
            Some(name) => lock::Kind::named(name).ok_or_else(|| {
                let names: Vec<&str> = lock::Kind::all().iter().map(lock::Kind::name).collect();
                let names = names.join(", ");
                bad_argument(py, format!("{name:?} is not a kind of lock: there are {names}"))
            })?,
        };
        Lock::of_kind(py, team, home, &kind)
    }

    fn of_kind(
        py: Python<'_>,
        team: &Arc<TeamShared>,
        home: Rank,
        kind: &lock::Kind,
    ) -> PyResult<Lock> {
        let entered = team.access.enter(py)?;
        let members = team.team(py, &entered)?;
        let world = entered.world().filter(|_| team.is_world());
        let made = team.access.released(py, || match world {
            // Kinds that need agents are for all ranks.
            Some(world) => farside::Lock::of_kind(world, home, kind),
            None => farside::Lock::for_team(&members, home, kind),
        });
        drop((members, entered));
        Ok(Lock { made: Made::new(team, "lock", made.raise(py)?) })
    }
}

#[pymethods]
impl Lock {
    /// Waits until this rank has the lock, for `timeout` seconds at most; then `TimedOut`. With 0
    /// it takes the lock only if it is free.
    #[pyo3(signature = (timeout=None))]
    fn acquire(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = limit(py, timeout)?;
        self.made.acquire(py, |lock, context| match time {
            None => lock.lock(context),
            Some(time) if time.is_zero() => lock.try_lock(context)?.ok_or(TOO_LATE),
            Some(time) => lock.lock_timeout(context, time),
        })
    }

    /// Releases the lock: what was put under it has landed when the next rank has it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.made.release(py, Guard::unlock)
    }

    /// True while this rank has the lock.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        self.made.is_held(py)
    }

    /// Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members
    /// that are all alive and that was made before the loss.
    fn recover(&self, py: Python<'_>, survivors: &Bound<'_, Team>) -> PyResult<()> {
        self.made.recover(py, survivors.get(), |lock, team| lock.recover(team))
    }

    /// Frees the lock. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.made.free(py, |lock, team| lock.free(team))
    }

    fn __enter__(slf: &Bound<'_, Lock>) -> PyResult<()> {
        slf.get().acquire(slf.py(), None)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.release(py)?;
        Ok(false)
    }
}

/// The way in which a rank has a reader-writer lock.
enum RwGuard {
    Read(ReadGuard<'static>),
    Write(WriteGuard<'static>),
}

/// A reader-writer lock that the members of a team made together. `with lock.reading():` and
/// `with lock.writing():` hold it for a block.
#[pyclass(frozen, module = "farside")]
pub(crate) struct RwLock {
    made: Made<farside::RwLock, RwGuard>,
}

#[pymethods]
impl RwLock {
    /// Waits until this rank may read, beside other readers; for `timeout` seconds at most.
    #[pyo3(signature = (timeout=None))]
    fn acquire_read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = limit(py, timeout)?;
        self.made.acquire(py, |lock, context| {
            Ok(RwGuard::Read(match time {
                None => lock.read(context)?,
                Some(time) if time.is_zero() => lock.try_read(context)?.ok_or(TOO_LATE)?,
                Some(time) => lock.read_timeout(context, time)?,
            }))
        })
    }

    /// Waits until this rank may write, alone; for `timeout` seconds at most.
    #[pyo3(signature = (timeout=None))]
    fn acquire_write(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = limit(py, timeout)?;
        self.made.acquire(py, |lock, context| {
            Ok(RwGuard::Write(match time {
                None => lock.write(context)?,
                Some(time) if time.is_zero() => lock.try_write(context)?.ok_or(TOO_LATE)?,
                Some(time) => lock.write_timeout(context, time)?,
            }))
        })
    }

    /// Ends the reading or writing of this rank.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.made.release(py, |guard| match guard {
            RwGuard::Read(guard) => guard.unlock(),
            RwGuard::Write(guard) => guard.unlock(),
        })
    }

    /// True while this rank reads or writes.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        self.made.is_held(py)
    }

    /// Makes a poisoned lock free and usable again. See `Lock.recover`.
    fn recover(&self, py: Python<'_>, survivors: &Bound<'_, Team>) -> PyResult<()> {
        self.made.recover(py, survivors.get(), |lock, team| lock.recover(team))
    }

    /// Frees the lock. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.made.free(py, |lock, team| lock.free(team))
    }

    /// Returns a context manager that reads for a block.
    #[pyo3(signature = (timeout=None))]
    fn reading(slf: Py<RwLock>, timeout: Option<f64>) -> RwBlock {
        RwBlock { lock: slf, timeout, is_writing: false }
    }

    /// Returns a context manager that writes for a block.
    #[pyo3(signature = (timeout=None))]
    fn writing(slf: Py<RwLock>, timeout: Option<f64>) -> RwBlock {
        RwBlock { lock: slf, timeout, is_writing: true }
    }
}

/// A block in which a rank reads or writes under a reader-writer lock.
#[pyclass(frozen, module = "farside")]
pub(crate) struct RwBlock {
    lock: Py<RwLock>,
    timeout: Option<f64>,
    is_writing: bool,
}

#[pymethods]
impl RwBlock {
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        match self.is_writing {
            true => self.lock.get().acquire_write(py, self.timeout),
            false => self.lock.get().acquire_read(py, self.timeout),
        }
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.lock.get().release(py)?;
        Ok(false)
    }
}

//! Locks, reader-writer locks and semaphores.

use std::cell::UnsafeCell;
use std::sync::Arc;

use farside::{Context, Guard, Rank, ReadGuard, Result, WriteGuard, lock, rw};
use pyo3::prelude::*;

use crate::access::{Access, Entered};
use crate::atomic::{TOO_LATE, limit};
use crate::error::{Raise, bad_argument, bad_state};
use crate::team::{Team, TeamShared};

/// A lock, and its guard while this rank has it.
struct Slot<L, G> {
    team: Arc<TeamShared>,
    /// Those who have recovered the lock: its memory is theirs since.
    survivors: UnsafeCell<Option<Arc<TeamShared>>>,
    /// `None` once it was freed.
    lock: UnsafeCell<Option<L>>,
    /// It borrows the lock and the context: it is released or forgotten before they go.
    held: UnsafeCell<Option<G>>,
}

// SAFETY: the cells are used within `Access::enter` only, by one thread at a time.
unsafe impl<L, G> Send for Slot<L, G> {}
// SAFETY: as above.
unsafe impl<L, G> Sync for Slot<L, G> {}

impl<L, G> Slot<L, G> {
    fn new(team: &Arc<TeamShared>, lock: L) -> Slot<L, G> {
        Slot {
            team: team.for_user(),
            survivors: UnsafeCell::new(None),
            lock: UnsafeCell::new(Some(lock)),
            held: UnsafeCell::new(None),
        }
    }

    fn access(&self) -> &Access {
        &self.team.access
    }

    /// Takes the lock by `take`, which gets the lock and the context for as long as the guard is
    /// kept here.
    fn acquire(
        &self,
        py: Python<'_>,
        take: impl FnOnce(&'static L, &'static Context) -> Result<G>,
    ) -> PyResult<()>
    where
        L: 'static,
    {
        let entered = self.access().enter(py)?;
        self.check_free(py, &entered)?;
        // SAFETY: the lock does not move while a guard is kept: `recover` and `free` see to it; the
        // context stays until the job is left, when guards are forgotten.
        let (lock, context) = unsafe {
            let Some(lock) = &*self.lock.get() else { return Err(freed(py)) };
            (&*std::ptr::from_ref(lock), &*std::ptr::from_ref(entered.context()))
        };
        let taken = self.access().released(py, || take(lock, context));
        let guard = taken.raise(py)?;
        // SAFETY: within a use of the context.
        unsafe { *self.held.get() = Some(guard) };
        drop(entered);
        Ok(())
    }

    fn check_free(&self, py: Python<'_>, _entered: &Entered<'_>) -> PyResult<()> {
        // SAFETY: within a use of the context.
        match unsafe { &*self.held.get() } {
            None => Ok(()),
            Some(_) => Err(bad_state(py, "this rank has the lock already")),
        }
    }

    fn release(&self, py: Python<'_>, unlock: impl FnOnce(G) -> Result<()>) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        // SAFETY: within a use of the context.
        let Some(guard) = (unsafe { (*self.held.get()).take() }) else {
            return Err(bad_state(py, "this rank does not have the lock that it releases"));
        };
        let unlocked = match self.access().is_one_node {
            true => unlock(guard),
            false => self.access().released(py, || unlock(guard)),
        };
        drop(entered);
        unlocked.raise(py)
    }

    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        let _entered = self.access().enter(py)?;
        // SAFETY: within a use of the context.
        Ok(unsafe { (*self.held.get()).is_some() })
    }

    fn recover(
        &self,
        py: Python<'_>,
        survivors: &Team,
        recover: impl FnOnce(&mut L, &farside::Team<'_>) -> Result<()>,
    ) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        let team = survivors.shared.team(py, &entered)?;
        // SAFETY: within a use of the context. What was held before the loss is not held any more:
        // its guard is forgotten, so that nothing borrows the lock.
        let lock = unsafe {
            std::mem::forget((*self.held.get()).take());
            (*self.lock.get()).as_mut()
        };
        let Some(lock) = lock else { return Err(freed(py)) };
        let recovered = self.access().released(py, || recover(lock, &team));
        if recovered.is_ok() {
            // The team from before stays in use: it has lost a member, and cannot be freed.
            // SAFETY: within a use of the context.
            unsafe { *self.survivors.get() = Some(survivors.shared.for_user()) };
        }
        drop((team, entered));
        recovered.raise(py)
    }

    fn free(
        &self,
        py: Python<'_>,
        free: impl FnOnce(L, &farside::Team<'_>) -> Result<()>,
    ) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        self.check_free(py, &entered)?;
        // SAFETY: within a use of the context.
        let owner = unsafe { &*self.survivors.get() }.as_ref().unwrap_or(&self.team);
        let team = owner.team_of_user(py, &entered)?;
        // SAFETY: within a use of the context, and no guard borrows the lock.
        let Some(lock) = (unsafe { (*self.lock.get()).take() }) else { return Ok(()) };
        let freed = self.access().released(py, || free(lock, &team));
        drop(team);
        owner.end_use(py, entered, freed)
    }
}

impl<L, G> Drop for Slot<L, G> {
    fn drop(&mut self) {
        // A lock that was not freed stays until the job ends, and a guard borrows from it.
        std::mem::forget((self.held.get_mut().take(), self.lock.get_mut().take()));
    }
}

#[cold]
fn freed(py: Python<'_>) -> PyErr {
    bad_state(py, "the lock was freed")
}

/// An exclusive lock, or a semaphore, that the members of a team made together. `with lock:` holds
/// it for a block.
#[pyclass(frozen, module = "farside")]
pub(crate) struct Lock {
    slot: Slot<farside::Lock, Guard<'static>>,
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

    /// Makes a semaphore. Collective.
    pub(crate) fn semaphore(
        py: Python<'_>,
        team: &Arc<TeamShared>,
        home: Rank,
        permits: u32,
    ) -> PyResult<Lock> {
        Lock::of_kind(py, team, home, &lock::Kind::Semaphore { permits })
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
        Ok(Lock { slot: Slot::new(team, made.raise(py)?) })
    }
}

#[pymethods]
impl Lock {
    /// Waits until this rank has the lock, for `timeout` seconds at most; then `TimedOut`. With 0
    /// it takes the lock only if it is free.
    #[pyo3(signature = (timeout=None))]
    fn acquire(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = limit(py, timeout)?;
        self.slot.acquire(py, |lock, context| match time {
            None => lock.lock(context),
            Some(time) if time.is_zero() => lock.try_lock(context)?.ok_or(TOO_LATE),
            Some(time) => lock.lock_timeout(context, time),
        })
    }

    /// Releases the lock: what was put under it has landed when the next rank has it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.release(py, Guard::unlock)
    }

    /// True while this rank has the lock.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.is_held(py)
    }

    /// Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members
    /// that are all alive and that was made before the loss.
    fn recover(&self, py: Python<'_>, survivors: &Bound<'_, Team>) -> PyResult<()> {
        self.slot.recover(py, survivors.get(), |lock, team| lock.recover(team))
    }

    /// Frees the lock. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.free(py, |lock, team| lock.free(team))
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
    slot: Slot<farside::RwLock, RwGuard>,
}

impl RwLock {
    /// Makes a reader-writer lock. Collective.
    pub(crate) fn make(
        py: Python<'_>,
        team: &Arc<TeamShared>,
        home: Rank,
        kind: Option<&str>,
    ) -> PyResult<RwLock> {
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
        let made = team.run(py, |team| farside::RwLock::for_team(team, home, &kind))?;
        Ok(RwLock { slot: Slot::new(team, made) })
    }
}

#[pymethods]
impl RwLock {
    /// Waits until this rank may read, beside other readers; for `timeout` seconds at most.
    #[pyo3(signature = (timeout=None))]
    fn acquire_read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let time = limit(py, timeout)?;
        self.slot.acquire(py, |lock, context| {
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
        self.slot.acquire(py, |lock, context| {
            Ok(RwGuard::Write(match time {
                None => lock.write(context)?,
                Some(time) if time.is_zero() => lock.try_write(context)?.ok_or(TOO_LATE)?,
                Some(time) => lock.write_timeout(context, time)?,
            }))
        })
    }

    /// Ends the reading or writing of this rank.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.release(py, |guard| match guard {
            RwGuard::Read(guard) => guard.unlock(),
            RwGuard::Write(guard) => guard.unlock(),
        })
    }

    /// True while this rank reads or writes.
    #[getter]
    fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.is_held(py)
    }

    /// Makes a poisoned lock free and usable again. See `Lock.recover`.
    fn recover(&self, py: Python<'_>, survivors: &Bound<'_, Team>) -> PyResult<()> {
        self.slot.recover(py, survivors.get(), |lock, team| lock.recover(team))
    }

    /// Frees the lock. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.free(py, |lock, team| lock.free(team))
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

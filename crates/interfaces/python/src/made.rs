//! What the members of a team made together: in use until they free it, also after a loss.

use std::cell::UnsafeCell;
use std::sync::Arc;

use farside::{Context, Error, Result};
use pyo3::prelude::*;

use crate::access::{Access, Entered};
use crate::error::{Raise, bad_state};
use crate::team::{Team, TeamShared};

/// Something that a team made, and the guard of it that this rank holds, if it is a lock.
pub(crate) struct Made<T, G = ()> {
    pub(crate) team: Arc<TeamShared>,
    /// Those who have recovered it: its memory is theirs since.
    survivors: UnsafeCell<Option<Arc<TeamShared>>>,
    /// `None` once it was freed.
    object: UnsafeCell<Option<T>>,
    /// It borrows the object and the context: it is released or forgotten before they go.
    held: UnsafeCell<Option<G>>,
    /// What it is, for a message.
    what: &'static str,
}

// SAFETY: the cells are used within `Access::enter` only, by one thread at a time.
unsafe impl<T, G> Send for Made<T, G> {}
// SAFETY: as above.
unsafe impl<T, G> Sync for Made<T, G> {}

impl<T, G> Made<T, G> {
    pub(crate) fn new(team: &Arc<TeamShared>, what: &'static str, object: T) -> Made<T, G> {
        Made {
            team: team.for_user(),
            survivors: UnsafeCell::new(None),
            object: UnsafeCell::new(Some(object)),
            held: UnsafeCell::new(None),
            what,
        }
    }

    fn access(&self) -> &Access {
        &self.team.access
    }

    /// Returns the object, within a use of the context.
    pub(crate) fn get<'a>(&'a self, _entered: &'a Entered<'_>) -> Result<&'a T> {
        // SAFETY: within a use of the context.
        unsafe { &*self.object.get() }.as_ref().ok_or_else(|| self.freed())
    }

    #[cold]
    fn freed(&self) -> Error {
        Error::InvalidState(format!("the {} was freed", self.what))
    }

    /// Runs an operation; `is_long` says whether the interpreter's lock is released meanwhile.
    pub(crate) fn run<R>(
        &self,
        py: Python<'_>,
        is_long: bool,
        operation: impl FnOnce(&T, &Context) -> Result<R>,
    ) -> PyResult<R> {
        self.access().run(py, is_long, |context| {
            // SAFETY: within a use of the context.
            match unsafe { &*self.object.get() } {
                Some(object) => operation(object, context),
                None => Err(self.freed()),
            }
        })
    }

    /// Takes the lock by `take`, which gets the lock and the context for as long as the guard is
    /// kept here.
    pub(crate) fn acquire(
        &self,
        py: Python<'_>,
        take: impl FnOnce(&'static T, &'static Context) -> Result<G>,
    ) -> PyResult<()>
    where
        T: 'static,
    {
        let entered = self.access().enter(py)?;
        self.check_not_held(py, &entered)?;
        let (lock, context) = (self.get(&entered).raise(py)?, entered.context());
        // SAFETY: the lock does not move while a guard is kept: `recover` and `free` see to it; the
        // context stays until the job is left, when guards are forgotten.
        let (lock, context) =
            unsafe { (&*std::ptr::from_ref(lock), &*std::ptr::from_ref(context)) };
        let taken = self.access().released(py, || take(lock, context));
        let guard = taken.raise(py)?;
        // SAFETY: within a use of the context.
        unsafe { *self.held.get() = Some(guard) };
        drop(entered);
        Ok(())
    }

    fn check_not_held(&self, py: Python<'_>, _entered: &Entered<'_>) -> PyResult<()> {
        // SAFETY: within a use of the context.
        match unsafe { &*self.held.get() } {
            None => Ok(()),
            Some(_) => Err(bad_state(py, "this rank already holds the lock")),
        }
    }

    pub(crate) fn release(
        &self,
        py: Python<'_>,
        unlock: impl FnOnce(G) -> Result<()>,
    ) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        // SAFETY: within a use of the context.
        let Some(guard) = (unsafe { (*self.held.get()).take() }) else {
            return Err(bad_state(py, "this rank releases a lock that it does not hold"));
        };
        let unlocked = match self.access().is_one_node {
            true => unlock(guard),
            false => self.access().released(py, || unlock(guard)),
        };
        drop(entered);
        unlocked.raise(py)
    }

    pub(crate) fn is_held(&self, py: Python<'_>) -> PyResult<bool> {
        let _entered = self.access().enter(py)?;
        // SAFETY: within a use of the context.
        Ok(unsafe { (*self.held.get()).is_some() })
    }

    pub(crate) fn recover(
        &self,
        py: Python<'_>,
        survivors: &Team,
        recover: impl FnOnce(&mut T, &farside::Team<'_>) -> Result<()>,
    ) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        let team = survivors.shared.team(py, &entered)?;
        // SAFETY: within a use of the context. What was held before the loss is not held any more:
        // its guard is forgotten, so that nothing borrows the lock.
        let object = unsafe {
            std::mem::forget((*self.held.get()).take());
            (*self.object.get()).as_mut()
        };
        let object = object.ok_or_else(|| self.freed()).raise(py)?;
        let recovered = self.access().released(py, || recover(object, &team));
        if recovered.is_ok() {
            // The team from before stays in use: it has lost a member, and cannot be freed.
            // SAFETY: within a use of the context.
            unsafe { *self.survivors.get() = Some(survivors.shared.for_user()) };
        }
        drop((team, entered));
        recovered.raise(py)
    }

    pub(crate) fn free(
        &self,
        py: Python<'_>,
        free: impl FnOnce(T, &farside::Team<'_>) -> Result<()>,
    ) -> PyResult<()> {
        let entered = self.access().enter(py)?;
        self.check_not_held(py, &entered)?;
        // SAFETY: within a use of the context.
        let owner = unsafe { &*self.survivors.get() }.as_ref().unwrap_or(&self.team);
        if self.get(&entered).is_err() {
            return Ok(());
        }
        let team = owner.team_of_user(py, &entered)?;
        // SAFETY: within a use of the context, and no guard borrows the object.
        let Some(object) = (unsafe { (*self.object.get()).take() }) else { return Ok(()) };
        let freed = self.access().released(py, || free(object, &team));
        drop(team);
        owner.end_use(py, entered, freed)
    }
}

impl<T, G> Drop for Made<T, G> {
    fn drop(&mut self) {
        // What was not freed stays until the job ends, and a guard borrows from it.
        std::mem::forget((self.held.get_mut().take(), self.object.get_mut().take()));
    }
}

//! Teams: some or all ranks, in an order.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use farside::{Detached, Rank, Result};
use pyo3::prelude::*;

use crate::access::{Access, Entered, not_the_world};
use crate::error::{Raise, bad_state};

/// Some or all ranks, in an order, with collectives of their own. All members make the same
/// collective calls in the same order.
#[pyclass(frozen, subclass, module = "farside")]
pub(crate) struct Team {
    pub(crate) shared: Arc<TeamShared>,
}

/// What a team's handle, and the objects that it has made, have in common.
pub(crate) struct TeamShared {
    pub(crate) access: Arc<Access>,
    group: Group,
    pub(crate) members: Box<[Rank]>,
}

enum Group {
    World,
    Split(Split),
}

/// The group of a team that was made by a split. What was made with it uses it, also after the
/// program has freed the team: it goes with the last of them.
struct Split {
    /// `None` once it has gone.
    group: UnsafeCell<Option<Detached>>,
    /// How many windows, arrays, maps and locks of it are not freed yet. Those that the program
    /// drops without freeing them count for ever.
    users: AtomicU32,
    /// True once the program has freed the team.
    is_freed: AtomicBool,
}

// SAFETY: the group is used within `Access::enter` only, by one thread at a time.
unsafe impl Send for TeamShared {}
// SAFETY: as above.
unsafe impl Sync for TeamShared {}

impl TeamShared {
    pub(crate) fn of_world(access: Arc<Access>) -> TeamShared {
        let members = (0..access.size).map(Rank).collect();
        TeamShared { access, group: Group::World, members }
    }

    pub(crate) fn is_world(&self) -> bool {
        matches!(self.group, Group::World)
    }

    /// Returns the team for a call of the program, within a use of its context.
    pub(crate) fn team<'a>(
        &'a self,
        py: Python<'_>,
        entered: &Entered<'a>,
    ) -> PyResult<farside::Team<'a>> {
        match &self.group {
            Group::Split(split) if split.is_freed.load(Ordering::Relaxed) => Err(was_freed(py)),
            _ => self.team_of_user(py, entered),
        }
    }

    /// Returns the team for what was made with it, within a use of its context.
    pub(crate) fn team_of_user<'a>(
        &'a self,
        py: Python<'_>,
        entered: &Entered<'a>,
    ) -> PyResult<farside::Team<'a>> {
        match &self.group {
            Group::World => Ok(entered.world().ok_or_else(|| not_the_world(py))?.team()),
            // SAFETY: within a use of the context, which is one at a time.
            Group::Split(split) => match unsafe { &*split.group.get() } {
                Some(group) => Ok(group.attach(entered.context())),
                None => Err(was_freed(py)),
            },
        }
    }

    /// Returns the team for something that was made with it, and counts that as a user, until
    /// [`TeamShared::end_use`].
    pub(crate) fn for_user(self: &Arc<TeamShared>) -> Arc<TeamShared> {
        if let Group::Split(split) = &self.group {
            split.users.fetch_add(1, Ordering::Relaxed);
        }
        self.clone()
    }

    /// Ends the use of the team by something that the members have freed, with `freed` as the
    /// result. Collective if that was successful: the last one takes a freed team with it.
    pub(crate) fn end_use(
        &self,
        py: Python<'_>,
        entered: Entered<'_>,
        freed: Result<()>,
    ) -> PyResult<()> {
        if let Group::Split(split) = &self.group {
            split.users.fetch_sub(1, Ordering::Relaxed);
        }
        let freed = freed.and_then(|()| self.free_if_unused(py, &entered));
        drop(entered);
        freed.raise(py)
    }

    /// Frees the group of a freed team that nothing uses any more.
    fn free_if_unused(&self, py: Python<'_>, entered: &Entered<'_>) -> Result<()> {
        let Group::Split(split) = &self.group else { return Ok(()) };
        if !split.is_freed.load(Ordering::Relaxed) || split.users.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        // SAFETY: within a use of the context, which is one at a time; nothing borrows the group.
        let group = unsafe { (*split.group.get()).take() };
        let context = entered.context();
        group.map_or(Ok(()), |group| self.access.released(py, || group.free(context)))
    }

    /// Returns the team for as long as the job lasts.
    ///
    /// # Safety
    ///
    /// What is made from it is used only within `enter`, keeps what [`TeamShared::for_user`] gives,
    /// and is forgotten, not dropped, unless it is freed and ends its use.
    pub(crate) unsafe fn team_for_ever(
        &self,
        py: Python<'_>,
        entered: &Entered<'_>,
    ) -> PyResult<farside::Team<'static>> {
        let team = self.team(py, entered)?;
        // SAFETY: the world does not move before the job is left, nor the group while it has a
        // user; the rest is the caller's promise.
        Ok(unsafe { std::mem::transmute::<farside::Team<'_>, farside::Team<'static>>(team) })
    }

    /// Runs a collective without the interpreter's lock.
    pub(crate) fn run<R>(
        &self,
        py: Python<'_>,
        collective: impl FnOnce(&farside::Team<'_>) -> Result<R>,
    ) -> PyResult<R> {
        let entered = self.access.enter(py)?;
        let team = self.team(py, &entered)?;
        let result = self.access.released(py, || collective(&team));
        drop(team);
        drop(entered);
        result.raise(py)
    }

    /// Makes something that borrows the team for as long as the job lasts.
    ///
    /// # Safety
    ///
    /// As for [`TeamShared::team_for_ever`].
    pub(crate) unsafe fn make<R>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(farside::Team<'static>) -> Result<R>,
    ) -> PyResult<R> {
        let entered = self.access.enter(py)?;
        // SAFETY: by the caller's promise.
        let team = unsafe { self.team_for_ever(py, &entered)? };
        let made = self.access.released(py, || make(team));
        drop(entered);
        made.raise(py)
    }

    fn split(&self, py: Python<'_>, colour: Option<u64>, key: u64) -> PyResult<Option<TeamShared>> {
        let made = self.run(py, |team| {
            let Some(part) = team.split(colour, key)? else { return Ok(None) };
            let members: Box<[Rank]> = part.members().into();
            Ok(Some((part.detach()?, members)))
        })?;
        Ok(made.map(|(group, members)| TeamShared {
            access: self.access.clone(),
            group: Group::Split(Split {
                group: UnsafeCell::new(Some(group)),
                users: AtomicU32::new(0),
                is_freed: AtomicBool::new(false),
            }),
            members,
        }))
    }
}

#[cold]
fn was_freed(py: Python<'_>) -> PyErr {
    bad_state(py, "the team was freed")
}

impl Team {
    pub(crate) fn of(shared: TeamShared) -> Team {
        Team { shared: Arc::new(shared) }
    }
}

#[pymethods]
impl Team {
    /// The number of members.
    #[getter]
    fn size(&self) -> usize {
        self.shared.members.len()
    }

    /// The place of this rank among the members, from 0.
    #[getter]
    fn index(&self) -> Option<usize> {
        self.shared.members.iter().position(|&rank| rank == self.shared.access.rank)
    }

    /// The ranks of the members, in the order of the team.
    #[getter]
    fn members(&self) -> Vec<u32> {
        self.shared.members.iter().map(|rank| rank.0).collect()
    }

    /// Splits the team: members with the same colour form a new team, ordered by `key`, then by
    /// rank. A member without a colour gets none. Collective.
    #[pyo3(signature = (colour, key=0))]
    fn split(&self, py: Python<'_>, colour: Option<u64>, key: u64) -> PyResult<Option<Team>> {
        Ok(self.shared.split(py, colour, key)?.map(Team::of))
    }

    /// Splits the team into those of its members that share a node. Collective.
    fn split_by_node(&self, py: Python<'_>) -> PyResult<Team> {
        let access = &self.shared.access;
        let node =
            access.run(py, false, |context| Ok(context.topology().node_of(access.rank).0))?;
        let part = self.shared.split(py, Some(node.into()), 0)?;
        part.map(Team::of).ok_or_else(|| bad_state(py, "a team of this node has no members"))
    }

    /// Ends a team that was made by a split. Collective. What the members made with it can still be
    /// used; when the last of that is freed, the team's memory is given back.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let Group::Split(split) = &self.shared.group else {
            return Err(bad_state(py, "the team of all ranks lasts as long as the job"));
        };
        let entered = self.shared.access.enter(py)?;
        split.is_freed.store(true, Ordering::Relaxed);
        let freed = self.shared.free_if_unused(py, &entered);
        drop(entered);
        freed.raise(py)
    }

    /// Returns when every member has called it. It says nothing about puts: see `sync`.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |team| team.barrier())
    }

    /// Returns when every member has called it and all that any member has put before, to any rank,
    /// has landed.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |team| team.sync())
    }

    fn __len__(&self) -> usize {
        self.size()
    }

    fn __repr__(&self) -> String {
        format!("<farside.Team of ranks {:?}>", self.members())
    }
}

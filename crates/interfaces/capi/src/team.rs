//! Teams: subsets of the ranks, their barriers.

use std::cell::Cell;
use std::ffi::c_int;

use farside::{Context, Detached, Error, Result, Team};

use crate::job::{ContextEntry, context, farside_context_t};
use crate::status::{Out, guarded, output};
use farside_interop::handles::Table;

/// A subset of the ranks, with collectives of their own. Every member makes the same collective
/// calls in the same order, with the thread that has joined.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_team_t {
    /// The number of the team; 0 is none.
    pub id: u64,
}

/// In place of a colour: this member gets no team.
pub const FARSIDE_NO_COLOUR: u64 = u64::MAX;

/// What a team's handle stands for.
pub(crate) struct TeamEntry {
    pub(crate) context: farside_context_t,
    /// `None` is the team of all ranks.
    group: Option<Detached>,
    /// How many things borrow the group: windows with epochs, started collectives.
    pub(crate) users: Cell<u32>,
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static TEAMS: Table<TeamEntry> = unsafe { Table::new("team") };

/// A team, and what it was made from.
pub(crate) struct Found {
    pub(crate) team: Team<'static>,
    pub(crate) entry: &'static TeamEntry,
    pub(crate) context: &'static ContextEntry,
}

impl Found {
    pub(crate) fn context(&self) -> &'static Context {
        self.context.context()
    }

    /// Returns whether this is the team of all ranks.
    pub(crate) fn is_world(&self) -> bool {
        self.entry.group.is_none()
    }
}

/// Looks a team up.
pub(crate) fn team(handle: farside_team_t) -> Result<Found> {
    let entry = TEAMS.get(handle.id)?;
    let context = context(entry.context)?;
    let team = match &entry.group {
        None => context.world()?.team(),
        Some(group) => group.attach(context.context()),
    };
    Ok(Found { team, entry, context })
}

fn insert(context: farside_context_t, group: Option<Detached>) -> Result<farside_team_t> {
    Ok(farside_team_t { id: TEAMS.insert(TeamEntry { context, group, users: Cell::new(0) })? })
}

/// Gives the team of all ranks of the job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_world(
    world: farside_context_t,
    team: *mut farside_team_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let team = unsafe { Out::new(team, "team")? };
        context(world)?.world()?;
        team.set(insert(world, None)?);
        Ok(())
    })
}

/// Splits a team: members with the same `colour` form a new team, ordered by `key`, then by rank. A
/// member whose colour is FARSIDE_NO_COLOUR gets the team 0, which is none. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_split(
    team: farside_team_t,
    colour: u64,
    key: u64,
    part: *mut farside_team_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let part = unsafe { Out::new(part, "part")? };
        let found = self::team(team)?;
        let made = found.team.split((colour != FARSIDE_NO_COLOUR).then_some(colour), key)?;
        part.set(match made {
            Some(made) => insert(found.entry.context, Some(made.detach()?))?,
            None => farside_team_t { id: 0 },
        });
        Ok(())
    })
}

/// Splits a team into those of its members that share a node. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_split_by_node(
    team: farside_team_t,
    part: *mut farside_team_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let part = unsafe { Out::new(part, "part")? };
        let found = self::team(team)?;
        let made = found.team.split_by_node()?;
        part.set(insert(found.entry.context, Some(made.detach()?))?);
        Ok(())
    })
}

/// Gives the number of members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_size(team: farside_team_t, size: *mut u32) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(size, "size")? }.set(self::team(team)?.team.size() as u32);
        Ok(())
    })
}

/// Gives which of the members this rank is, from 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_index(team: farside_team_t, index: *mut u32) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        unsafe { Out::new(index, "index")? }.set(self::team(team)?.team.index() as u32);
        Ok(())
    })
}

/// Gives the number of members, and writes as many of their ranks to `ranks` as there is `room`
/// for, in the order of the team. `ranks` may be null if `room` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_members(
    team: farside_team_t,
    ranks: *mut u32,
    room: usize,
    count: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (ranks, count) = unsafe { (output(ranks, room, "ranks")?, Out::new(count, "count")?) };
        let found = self::team(team)?;
        let members = found.team.members();
        ranks.iter_mut().zip(members).for_each(|(rank, member)| *rank = member.0);
        count.set(members.len());
        Ok(())
    })
}

/// Frees a team. Of one that was made by a split that is collective, and its windows, locks and
/// started collectives must be freed before. Whatever it returns, except FARSIDE_ERROR_STATE, the
/// handle is not valid any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_team_free(team: farside_team_t) -> c_int {
    guarded(|| {
        let entry = TEAMS.get(team.id)?;
        if entry.users.get() > 0 {
            return Err(Error::InvalidState(format!(
                "{} windows with epochs or started collectives still use this team: free or wait \
                 for them first",
                entry.users.get()
            )));
        }
        let context = context(entry.context);
        match TEAMS.remove(team.id)?.group {
            Some(group) => group.free(context?.context()),
            None => Ok(()),
        }
    })
}

/// Returns when every member has called it. It says nothing about puts: see farside_sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_barrier(team: farside_team_t) -> c_int {
    guarded(|| self::team(team)?.team.barrier())
}

/// Returns when every member has called it and all that any member has put before, to any rank, has
/// landed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_sync(team: farside_team_t) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        // All meet, also when a transfer has failed: that is said afterwards.
        let completed = found.context.complete_implicit(None);
        found.team.sync().and(completed)
    })
}

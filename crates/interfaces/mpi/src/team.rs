//! Communicators, as teams: made once for each, and kept until the job is over.

use std::ffi::{c_int, c_void};
use std::ptr;

use farside::raw::{self, Rendezvous};
use farside::{Detached, Error, Rank, Result, Team};

use crate::runtime::{Runtime, with};

/// What the border gives for a communicator.
#[repr(C)]
pub(crate) struct Meeting {
    comm: *mut c_void,
    /// Gives all members the first one's word.
    share: unsafe extern "C" fn(comm: *mut c_void, word: *mut u64) -> c_int,
    /// Gives all members the least of their words.
    least: unsafe extern "C" fn(comm: *mut c_void, word: *mut u64) -> c_int,
}

pub(crate) struct CommTeam {
    pub(crate) members: Box<[Rank]>,
    group: Detached,
}

impl CommTeam {
    pub(crate) fn team(&'static self, runtime: &'static Runtime) -> Team<'static> {
        self.group.attach(&runtime.world)
    }
}

struct ByMpi<'a> {
    runtime: &'a Runtime,
    meeting: &'a Meeting,
}

fn check(code: c_int, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::Join(format!("MPI's {what} failed with error {code}"))),
    }
}

impl Rendezvous for ByMpi<'_> {
    fn share(&mut self, mut word: u64) -> Result<u64> {
        let Meeting { comm, share, .. } = *self.meeting;
        // SAFETY: the border's function and its argument.
        check(self.runtime.meanwhile(|| unsafe { share(comm, &mut word) }), "broadcast")?;
        Ok(word)
    }

    fn agree(&mut self, failed: Option<&Error>) -> Result<bool> {
        let Meeting { comm, least, .. } = *self.meeting;
        let mut word = u64::from(failed.is_none());
        // SAFETY: as above.
        check(self.runtime.meanwhile(|| unsafe { least(comm, &mut word) }), "reduction")?;
        Ok(word != 0)
    }
}

/// Makes the team of a communicator, whose members have these ranks in the world. Collective over
/// it.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_team(
    ranks: *const c_int,
    count: usize,
    meeting: *const Meeting,
    team: *mut *mut c_void,
) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes so many, and its own pointers.
        let (ranks, meeting) = unsafe { (std::slice::from_raw_parts(ranks, count), &*meeting) };
        let members: Box<[Rank]> = ranks.iter().map(|&rank| Rank(rank as u32)).collect();
        let group = raw::team_among(&runtime.world, &members, &mut ByMpi { runtime, meeting })?;
        let made = Box::leak(Box::new(CommTeam { members, group }));
        // SAFETY: as above.
        unsafe { team.write(ptr::from_mut(made).cast()) };
        Ok(())
    })
}

/// Frees a team, of which there are no windows any more. Collective over it.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_team_free(team: *mut c_void) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes what `farside_mpi_team` gave, and forgets it.
        let team = unsafe { Box::from_raw(team.cast::<CommTeam>()) };
        team.group.free(&runtime.world)
    })
}

/// Gives `bytes` bytes to all members of a team, and those of all to this one. Collective.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_gather(
    team: *mut c_void,
    mine: *const c_void,
    bytes: usize,
    all: *mut c_void,
) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes a team, so many bytes of its own, and room for as many of each
        // member.
        unsafe {
            let team: &'static CommTeam = &*team.cast::<CommTeam>();
            let mine = std::slice::from_raw_parts(mine.cast::<u8>(), bytes);
            let gathered = team.team(runtime).all_gather(mine)?;
            all.cast::<u8>().copy_from_nonoverlapping(gathered.as_ptr(), gathered.len());
        }
        Ok(())
    })
}

//! Windows: a part on every member of a communicator, and the epochs in which parts are used.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use farside::epoch::{self, Options};
use farside::{Error, Rank, Result};

use crate::part::{Part, PartInfo};
use crate::runtime::{Runtime, with};
use crate::team::CommTeam;

/// What the border holds.
pub(crate) struct Window {
    pub(crate) members: &'static [Rank],
    pub(crate) parts: Box<[Part]>,
    /// It has no memory of its own: it is there for the synchronization.
    pub(crate) epochs: epoch::Window<'static>,
    /// True while a thread enters a target. It may have to wait for the target's lock, and then
    /// another thread must not ask for the same.
    is_entered: Cell<bool>,
}

impl Window {
    /// Returns a member's part.
    #[inline]
    pub(crate) fn part(&self, target: c_int) -> Result<&Part> {
        match usize::try_from(target).ok().and_then(|target| self.parts.get(target)) {
            Some(part) => Ok(part),
            None => Err(no_member(target, self.parts.len())),
        }
    }

    /// Begins an operation on a target.
    #[inline]
    pub(crate) fn enter(&self, runtime: &Runtime, target: Rank) -> Result<()> {
        while self.is_entered.get() {
            runtime.meanwhile(std::thread::yield_now);
        }
        self.is_entered.set(true);
        let entered = self.epochs.enter_target(target);
        self.is_entered.set(false);
        entered
    }

    /// Returns the rank in the world of a member.
    #[inline]
    pub(crate) fn rank(&self, target: c_int) -> Result<Rank> {
        match usize::try_from(target).ok().and_then(|target| self.members.get(target)) {
            Some(&rank) => Ok(rank),
            None => Err(no_member(target, self.members.len())),
        }
    }
}

#[cold]
fn no_member(target: c_int, members: usize) -> Error {
    NoMember { target, members }.into()
}

#[derive(Debug)]
struct NoMember {
    target: c_int,
    members: usize,
}

impl std::fmt::Display for NoMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NoMember { target, members } = self;
        write!(
            f,
            "target {target} of a window with {members} members: they are 0 to {}",
            members - 1
        )
    }
}

impl std::error::Error for NoMember {}

impl farside::fabric::Fault for NoMember {
    fn class(&self) -> farside::ErrorClass {
        farside::ErrorClass::Rank
    }
}

/// Runs a call on a window.
#[inline]
pub(crate) fn on(
    window: *mut c_void,
    call: impl FnOnce(&'static Runtime, &'static Window) -> Result<()>,
) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes what `farside_mpi_window` gave and was not yet freed.
        call(runtime, unsafe { &*window.cast::<Window>() })
    })
}

/// Makes a window of a team, each of whose members has a part. Collective over the team.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_window(
    team: *mut c_void,
    parts: *const PartInfo,
    window: *mut *mut c_void,
) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes a team of `farside_mpi_team`, which is never freed, and as many
        // parts as it has members.
        let (team, parts) = unsafe {
            let team: &'static CommTeam = &*team.cast::<CommTeam>();
            (team, slice::from_raw_parts(parts, team.members.len()))
        };
        let parts = parts.iter().map(|info| Part::new(runtime, info)).collect::<Result<_>>()?;
        let options = Options::new().checking(false);
        let epochs = epoch::Window::allocate(team.team(runtime), 0, options)?;
        let is_entered = Cell::new(false);
        let made = Window { members: &team.members, parts, epochs, is_entered };
        // SAFETY: the border passes a pointer of its own.
        unsafe { window.write(ptr::from_mut(Box::leak(Box::new(made))).cast()) };
        Ok(())
    })
}

/// Frees a window. Collective over its team.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_window_free(window: *mut c_void) -> c_int {
    with(|_| {
        // SAFETY: the border passes what `farside_mpi_window` gave, and forgets it.
        let window = unsafe { Box::from_raw(window.cast::<Window>()) };
        window.epochs.free()
    })
}

/// Returns 0 if the window may be freed: all its epochs are over.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_window_is_idle(window: *mut c_void) -> c_int {
    on(window, |_, window| window.epochs.check_over("MPI_Win_free"))
}

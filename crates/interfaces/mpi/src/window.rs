//! Windows: a part on every member of a communicator, and the epochs in which parts are used.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use farside::epoch::{self, Options};
use farside::raw::NearPart;
use farside::{Error, Rank, Result};

use crate::gets::Gets;
use crate::part::{Part, PartInfo};
use crate::runtime::{Runtime, if_running, with};
use crate::team::CommTeam;

/// What the border holds.
pub(crate) struct Window {
    pub(crate) members: &'static [Rank],
    pub(crate) parts: Box<[Part]>,
    /// Whether there is a part in another rank's memory than that of the member which has it.
    is_elsewhere: bool,
    /// It has no memory of its own: it is there for the synchronization.
    pub(crate) epochs: epoch::Window<'static>,
    /// The targets that threads enter. One may have to wait for a target's lock, and then another
    /// thread must not ask for the same.
    entering: RefCell<Vec<Rank>>,
    /// Gets from far ranks that are under way. What completes operations waits for them.
    pub(crate) gets: Gets,
}

impl Window {
    #[inline]
    pub(crate) fn part(&self, target: c_int) -> Result<&Part> {
        match usize::try_from(target).ok().and_then(|target| self.parts.get(target)) {
            Some(part) => Ok(part),
            None => Err(no_member(target, self.parts.len())),
        }
    }

    /// Returns a member's part; the border has looked at its flags.
    #[inline(always)]
    pub(crate) fn near(&self, member: c_int) -> Option<(&'static Runtime, &Part)> {
        Some((if_running()?, self.parts.get(member as usize)?))
    }

    /// Begins an operation on a member if nothing is to be done first and only one thread calls.
    #[inline(always)]
    pub(crate) fn enter_near(&self, member: c_int) -> Option<(&'static Runtime, &Part)> {
        let runtime = if_running()?;
        let part = self.parts.get(usize::try_from(member).ok()?)?;
        (!runtime.has_threads() && self.epochs.is_entered(part.rank)).then_some((runtime, part))
    }

    #[inline]
    pub(crate) fn enter(&self, runtime: &Runtime, target: Rank) -> Result<()> {
        if self.epochs.is_entered(target) {
            return Ok(());
        }
        while self.entering.borrow().contains(&target) {
            runtime.meanwhile(std::thread::yield_now);
        }
        self.entering.borrow_mut().push(target);
        let _entering = Entering { window: self, target };
        self.epochs.enter_target(target)
    }

    /// Completes what was put to a member, or to all, in memory of another rank: contiguous parts
    /// of a shared window are the first member's. All else is in the memory of the members.
    pub(crate) fn complete_elsewhere(&self, runtime: &Runtime, member: Option<Rank>) -> Result<()> {
        if !self.is_elsewhere {
            return Ok(());
        }
        let is_meant = |part: &&Part| {
            part.owner() != part.rank && member.is_none_or(|member| member == part.rank)
        };
        self.parts
            .iter()
            .filter(is_meant)
            .map(|part| runtime.world.flush(part.owner()))
            .fold(Ok(()), Result::and)
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

struct Entering<'a> {
    window: &'a Window,
    target: Rank,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.window.entering.borrow_mut().retain(|&target| target != self.target);
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
            "there is no target {target}: the window has {members} members, 0 to {}",
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

/// Runs a call on a window; null is one that could not be freed.
#[inline]
pub(crate) fn on(
    window: *mut c_void,
    call: impl FnOnce(&'static Runtime, &'static Window) -> Result<()>,
) -> c_int {
    with(|runtime| {
        // SAFETY: the border passes what `farside_mpi_window` gave and was not yet freed, or null.
        match unsafe { window.cast::<Window>().as_ref() } {
            Some(window) => call(runtime, window),
            None => Err(Error::InvalidState("the window is gone: freeing it has failed".into())),
        }
    })
}

/// The call that ends a window, as errors name it.
const FREE: &str = "MPI_Win_free";

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
        let parts =
            parts.iter().map(|info| Part::new(runtime, info)).collect::<Result<Box<[Part]>>>()?;
        let is_elsewhere = parts.iter().any(|part| part.owner() != part.rank);
        let options = Options::new().checking(false);
        let epochs = epoch::Window::allocate(team.team(runtime), 0, options)?;
        let (entering, gets) = (RefCell::default(), Gets::default());
        let made = Window { members: &team.members, parts, is_elsewhere, epochs, entering, gets };
        // SAFETY: the border passes a pointer of its own.
        unsafe { window.write(ptr::from_mut(Box::leak(Box::new(made))).cast()) };
        Ok(())
    })
}

/// A member's part as the border needs it for the shortest way to memory.
#[repr(C)]
struct Near {
    /// Its memory, if loads and stores reach it, or null.
    part: *const NearPart,
    unit: i64,
    /// Not zero while operations on it may begin at once.
    open: *const u8,
}

/// Writes the members' parts, unless several threads may call; returns whether it has.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_window_near(window: *const c_void, near: *mut c_void) -> c_int {
    // SAFETY: the border passes what `farside_mpi_window` gave and was not yet freed.
    let window = unsafe { &*window.cast::<Window>() };
    if if_running().is_none_or(Runtime::has_threads) {
        return 0;
    }
    for (at, part) in window.parts.iter().enumerate() {
        let Ok(flags) = window.epochs.flags(part.rank) else { return 0 };
        let open = flags.as_ptr().cast_const();
        let entry =
            Near { part: part.near().map_or(ptr::null(), ptr::from_ref), unit: part.unit(), open };
        // SAFETY: the border passes room for as many as there are members; parts and flags stay
        // where they are until the window is freed.
        unsafe { near.cast::<Near>().add(at).write(entry) };
    }
    1
}

/// Completes all that this rank has put, through any window.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_window_complete(window: *mut c_void) -> c_int {
    on(window, |runtime, _| runtime.world.flush_all())
}

/// Meets the other members, who all want to free the window. Collective over its team. A member
/// one of whose epochs has failed half-way tells the others instead.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_window_meet(window: *mut c_void) -> c_int {
    on(window, |_, window| window.epochs.meet_at_end(FREE))
}

/// Frees a window. Collective over its team. Nothing is left of it, also after an error.
#[unsafe(no_mangle)]
unsafe extern "C" fn farside_mpi_window_free(window: *mut c_void) -> c_int {
    with(|_| {
        // SAFETY: the border passes what `farside_mpi_window` gave, and forgets it.
        let window = unsafe { Box::from_raw(window.cast::<Window>()) };
        window.epochs.free()
    })
}

/// Returns 0 if the window may be freed: the program has ended all its epochs.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_window_is_idle(window: *mut c_void) -> c_int {
    on(window, |_, window| window.epochs.check_over(FREE))
}

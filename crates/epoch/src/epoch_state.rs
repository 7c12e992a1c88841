//! Which epochs are open, and what was done in them: so that a program that breaks the rules is
//! told, by name.

use std::cell::{Cell, RefCell};

use farside_fabric::{Error, Rank};

use crate::window::Mode;

/// A rule that was broken. Every call that finds one returns it as [`Error::Misuse`], with this
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An operation on a target to which no access epoch is open.
    OutsideEpoch {
        /// The target.
        target: Rank,
    },
    /// An unlock of a target that is not locked.
    NotLocked {
        /// The target.
        target: Rank,
    },
    /// A second lock of a target.
    LockedTwice {
        /// The target.
        target: Rank,
    },
    /// An end of an epoch that was not begun.
    NotOpen {
        /// Which call came.
        call: &'static str,
        /// Which one is missing before it.
        begin: &'static str,
    },
    /// A begin of an epoch while another one is open that excludes it.
    StillOpen {
        /// Which call came.
        call: &'static str,
        /// What is open.
        open: &'static str,
    },
    /// A group that names a rank twice, or one that has no part in the window.
    BadGroup {
        /// The rank.
        rank: Rank,
        /// Whether it is named twice.
        twice: bool,
    },
    /// An epoch that waits for another rank, which has gone on without it.
    Groups {
        /// Who waits.
        me: Rank,
        /// What it has done.
        did: &'static str,
        /// For whom.
        other: Rank,
        /// What that one should have done.
        instead: &'static str,
    },
    /// Two operations of one epoch on the same bytes that may come in either order.
    Overlap {
        /// The target.
        target: Rank,
        /// The first byte that both touch.
        offset: u64,
        /// The operation that came.
        what: &'static str,
        /// The one before it.
        before: &'static str,
    },
    /// A local access to memory that is open to others.
    LocalAccess {
        /// What was to be done.
        what: &'static str,
        /// Why it must not be.
        why: &'static str,
    },
    /// The answer of an operation that is not complete.
    NotComplete {
        /// The target.
        target: Rank,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::OutsideEpoch { target } => {
                write!(
                    f,
                    "an operation on {target} outside of any access epoch: lock it, start one, or \
                     fence first"
                )
            }
            Fault::NotLocked { target } => {
                write!(f, "{target} is unlocked without having been locked")
            }
            Fault::LockedTwice { target } => {
                write!(f, "{target} is locked a second time: unlock it first")
            }
            Fault::NotOpen { call, begin } => write!(f, "{call} without {begin}"),
            Fault::StillOpen { call, open } => write!(f, "{call} while {open}"),
            Fault::BadGroup { rank, twice: true } => write!(f, "{rank} is named twice in a group"),
            Fault::BadGroup { rank, twice: false } => {
                write!(f, "{rank} is in a group, and has no part in the window")
            }
            Fault::Groups { me, did, other, instead } => write!(
                f,
                "the groups do not match: {me} has {did} {other}, which has come to a fence or to \
                 the end of the window instead of {instead}"
            ),
            Fault::Overlap { target, offset, what, before } => write!(
                f,
                "{what} overlaps {before} of the same epoch at byte {offset} of {target}, and \
                 nothing orders them: flush between them"
            ),
            Fault::LocalAccess { what, why } => {
                write!(f, "a local {what} of this rank's own part while {why}")
            }
            Fault::NotComplete { target } => write!(
                f,
                "the answer of an operation on {target} that is not complete: wait for it, flush, \
                 or end the epoch first"
            ),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Misuse(fault.to_string())
    }
}

/// What an operation does to the bytes it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Put,
    Get,
    Accumulate,
    Atomic,
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Effect::Put => "a put",
            Effect::Get => "a get",
            Effect::Accumulate => "an accumulate",
            Effect::Atomic => "an atomic",
        }
    }

    /// Whether the order of two such operations on the same bytes does not matter, or is kept by
    /// the operations themselves.
    fn goes_with(self, other: Effect) -> bool {
        self == other && self != Effect::Put
    }
}

/// How many operations of an epoch are remembered for each target: the latest.
const REMEMBERED: usize = 16;

/// An operation that is not complete.
#[derive(Clone, Copy)]
struct Access {
    start: u64,
    end: u64,
    effect: Effect,
}

/// What one rank knows of a target.
struct TargetState {
    lock: Cell<Option<Mode>>,
    is_started: Cell<bool>,
    /// The latest operations, and how many there were.
    accesses: [Cell<Access>; REMEMBERED],
    count: Cell<usize>,
}

impl TargetState {
    fn new() -> TargetState {
        let nothing = Access { start: 0, end: 0, effect: Effect::Get };
        TargetState {
            lock: Cell::new(None),
            is_started: Cell::new(false),
            accesses: std::array::from_fn(|_| Cell::new(nothing)),
            count: Cell::new(0),
        }
    }

    #[inline]
    fn accesses(&self) -> &[Cell<Access>] {
        &self.accesses[..self.count.get().min(REMEMBERED)]
    }

    #[inline]
    fn remember(&self, access: Access) {
        let count = self.count.get();
        self.accesses[count % REMEMBERED].set(access);
        self.count.set(count + 1);
    }
}

/// Which epochs this rank has open.
pub(crate) struct EpochState {
    targets: Box<[TargetState]>,
    checks: bool,
    locks: Cell<usize>,
    pub(crate) all_locked: Cell<bool>,
    /// Whether a fence has opened an epoch, and whether something was done in it.
    pub(crate) fenced: Cell<bool>,
    used: Cell<bool>,
    pub(crate) started: RefCell<Option<Vec<usize>>>,
    pub(crate) posted: RefCell<Option<Vec<usize>>>,
}

impl EpochState {
    pub(crate) fn new(members: usize, checks: bool) -> EpochState {
        EpochState {
            targets: (0..members).map(|_| TargetState::new()).collect(),
            checks,
            locks: Cell::new(0),
            all_locked: Cell::new(false),
            fenced: Cell::new(false),
            used: Cell::new(false),
            started: RefCell::default(),
            posted: RefCell::default(),
        }
    }

    pub(crate) fn checks(&self) -> bool {
        self.checks
    }

    /// How this rank has locked a member.
    #[inline]
    pub(crate) fn lock_of(&self, member: usize) -> Option<Mode> {
        self.targets[member].lock.get()
    }

    /// Those that are locked.
    pub(crate) fn locked(&self) -> Vec<usize> {
        (0..self.targets.len()).filter(|&member| self.lock_of(member).is_some()).collect()
    }

    /// Whether a member may be locked now.
    #[inline]
    pub(crate) fn check_lock(
        &self,
        member: usize,
        target: Rank,
        call: &'static str,
    ) -> Result<(), Fault> {
        if self.targets[member].lock.get().is_some() {
            return Err(Fault::LockedTwice { target });
        }
        self.end_idle_fence();
        let open = match () {
            () if self.all_locked.get() => "all targets are locked",
            () if self.fenced.get() => "a fence epoch is open",
            () if self.started.borrow().is_some() => "an access epoch that was started is open",
            () => return Ok(()),
        };
        Err(Fault::StillOpen { call, open })
    }

    /// Whether an epoch of another kind may begin now: no lock is held.
    pub(crate) fn check_unlocked(&self, call: &'static str) -> Result<(), Fault> {
        match () {
            () if self.all_locked.get() => {
                Err(Fault::StillOpen { call, open: "all targets are locked" })
            }
            () if self.locks.get() > 0 => {
                Err(Fault::StillOpen { call, open: "a target is locked" })
            }
            () if self.started.borrow().is_some() => {
                Err(Fault::StillOpen { call, open: "an access epoch that was started is open" })
            }
            () => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn set_lock(&self, member: usize, mode: Option<Mode>) {
        let before = self.targets[member].lock.replace(mode);
        self.locks
            .set(self.locks.get() + usize::from(mode.is_some()) - usize::from(before.is_some()));
        self.forget(member);
    }

    pub(crate) fn set_started(&self, targets: Option<Vec<usize>>) -> Option<Vec<usize>> {
        let before = self.started.replace(targets);
        for &member in before.iter().flatten() {
            self.targets[member].is_started.set(false);
            self.forget(member);
        }
        for &member in self.started.borrow().iter().flatten() {
            self.targets[member].is_started.set(true);
        }
        before
    }

    /// A fence epoch in which nothing was done is none: other epochs may follow.
    pub(crate) fn end_idle_fence(&self) {
        if !self.used.get() {
            self.fenced.set(false);
        }
    }

    /// A fence: a new epoch, or the end of the last one.
    pub(crate) fn set_fenced(&self, is_open: bool) {
        self.fenced.set(is_open);
        self.used.set(false);
        (0..self.targets.len()).for_each(|member| self.forget(member));
    }

    /// What was done to a member is complete.
    #[inline]
    pub(crate) fn forget(&self, member: usize) {
        self.targets[member].count.set(0);
    }

    /// Whether an operation may be done now; remembers it.
    #[inline]
    pub(crate) fn enter(
        &self,
        member: usize,
        target: Rank,
        at: (u64, u64),
        effect: Effect,
    ) -> Result<(), Fault> {
        if !self.checks {
            return Ok(());
        }
        let target_state = &self.targets[member];
        let is_locked = target_state.lock.get().is_some() || self.all_locked.get();
        if !is_locked && !target_state.is_started.get() {
            if !self.fenced.get() {
                return Err(Fault::OutsideEpoch { target });
            }
            self.used.set(true);
        }
        let (start, end) = (at.0, at.0.saturating_add(at.1));
        for access in target_state.accesses() {
            let access = access.get();
            if access.start < end && start < access.end && !effect.goes_with(access.effect) {
                return Err(overlap(target, &access, start, effect));
            }
        }
        target_state.remember(Access { start, end, effect });
        Ok(())
    }

    /// Whether this rank, which is `me` of the members, may touch its own part by itself now.
    pub(crate) fn enter_own(&self, me: usize, at: (u64, u64), writes: bool) -> Result<(), Fault> {
        if !self.checks {
            return Ok(());
        }
        let what = if writes { "write" } else { "read" };
        if self.posted.borrow().is_some() {
            return Err(Fault::LocalAccess { what, why: "it is exposed by a post: wait first" });
        }
        if writes && self.targets[me].lock.get() == Some(Mode::Shared) {
            return Err(Fault::LocalAccess { what, why: "it is locked in shared mode" });
        }
        let (start, end) = (at.0, at.0.saturating_add(at.1));
        let overlaps = |access: &Access| {
            access.start < end && start < access.end && (writes || access.effect != Effect::Get)
        };
        if self.targets[me].accesses().iter().map(Cell::get).any(|access| overlaps(&access)) {
            return Err(Fault::LocalAccess {
                what,
                why: "an operation of this epoch on the same bytes is not complete",
            });
        }
        Ok(())
    }
}

#[cold]
fn overlap(target: Rank, access: &Access, start: u64, effect: Effect) -> Fault {
    Fault::Overlap {
        target,
        offset: access.start.max(start),
        what: effect.name(),
        before: access.effect.name(),
    }
}

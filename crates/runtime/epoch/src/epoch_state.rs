//! The state of a rank's epochs: which are open, and which accesses they contain, so that a broken
//! rule is reported by name.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use farside_fabric::{Number, Op, Rank};

use crate::fault::Fault;
use crate::mode::Mode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Put,
    Get,
    Accumulate(Number, Op),
    Atomic,
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Effect::Put => "a put",
            Effect::Get => "a get",
            Effect::Accumulate(..) => "an accumulate",
            Effect::Atomic => "an atomic",
        }
    }

    /// Returns true if the order of two such operations on the same bytes does not matter, or is
    /// kept by the operations themselves.
    fn goes_with(self, other: Effect) -> bool {
        match (self, other) {
            (Effect::Accumulate(number, op), Effect::Accumulate(other_number, other_op)) => {
                number == other_number && (op == other_op || op == Op::NoOp || other_op == Op::NoOp)
            }
            _ => self == other && self != Effect::Put,
        }
    }
}

/// The number of operations of an epoch that are remembered for each target: the latest.
const REMEMBERED: usize = 16;

/// An operation that is not complete.
#[derive(Clone, Copy)]
struct Access {
    start: u64,
    end: u64,
    effect: Effect,
}

impl Access {
    #[inline]
    fn overlaps(&self, bytes: &Range<u64>) -> bool {
        self.start < bytes.end && bytes.start < self.end
    }
}

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

const BROKEN: &str = "an earlier epoch of this rank is still open because it failed: other ranks \
                      may wait for it until this rank ends";

/// The flag of a target that is locked.
pub const LOCKED: u8 = 1;
/// The flag of a target to which an access epoch was started.
pub const STARTED: u8 = 2;

pub(crate) struct EpochState {
    targets: Box<[TargetState]>,
    /// For each member, [`LOCKED`] and [`STARTED`]: what is looked at before every operation.
    open: Box<[Cell<u8>]>,
    checks: bool,
    locks: Cell<usize>,
    pub(crate) all_locked: Cell<bool>,
    /// True if an epoch could not be begun or ended as it should: others may wait for that.
    pub(crate) is_broken: Cell<bool>,
    /// True if a fence has opened an epoch, and if there was an operation in it.
    pub(crate) fenced: Cell<bool>,
    used: Cell<bool>,
    pub(crate) started: RefCell<Option<Vec<usize>>>,
    pub(crate) posted: RefCell<Option<Vec<usize>>>,
}

impl EpochState {
    pub(crate) fn new(members: usize, checks: bool) -> EpochState {
        EpochState {
            targets: (0..members).map(|_| TargetState::new()).collect(),
            open: vec![Cell::new(0); members].into(),
            checks,
            locks: Cell::new(0),
            all_locked: Cell::new(false),
            is_broken: Cell::new(false),
            fenced: Cell::new(false),
            used: Cell::new(false),
            started: RefCell::default(),
            posted: RefCell::default(),
        }
    }

    pub(crate) fn open(&self, member: usize) -> &Cell<u8> {
        &self.open[member]
    }

    pub(crate) fn checks(&self) -> bool {
        self.checks
    }

    #[inline]
    pub(crate) fn lock_of(&self, member: usize) -> Option<Mode> {
        self.targets[member].lock.get()
    }

    pub(crate) fn has_locks(&self) -> bool {
        self.locks.get() > 0
    }

    pub(crate) fn locked(&self) -> Vec<usize> {
        (0..self.targets.len()).filter(|&member| self.lock_of(member).is_some()).collect()
    }

    #[inline]
    pub(crate) fn check_lock(
        &self,
        member: usize,
        target: Rank,
        call: &'static str,
    ) -> Result<(), Fault> {
        if self.targets[member].lock.get().is_some() && !self.all_locked.get() {
            return Err(Fault::LockedTwice { target });
        }
        self.end_idle_fence();
        let open = match () {
            // It may have the lock that it asks for.
            () if self.is_broken.get() => BROKEN,
            () if self.all_locked.get() => "all targets are locked",
            () if self.fenced.get() => "a fence epoch is open",
            () if self.started.borrow().is_some() => "an access epoch that was started is open",
            () => return Ok(()),
        };
        Err(Fault::StillOpen { call, open })
    }

    /// Checks that no epoch could not be begun or ended as it should.
    pub(crate) fn check_whole(&self, call: &'static str) -> Result<(), Fault> {
        match self.is_broken.get() {
            true => Err(Fault::StillOpen { call, open: BROKEN }),
            false => Ok(()),
        }
    }

    /// Checks that the program has ended all epochs in which this rank accesses others.
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
        self.set_open(member);
        self.forget(member);
    }

    #[inline]
    fn set_open(&self, member: usize) {
        let TargetState { lock, is_started, .. } = &self.targets[member];
        let locked = if lock.get().is_some() { LOCKED } else { 0 };
        self.open[member].set(locked | if is_started.get() { STARTED } else { 0 });
    }

    pub(crate) fn set_started(&self, targets: Option<Vec<usize>>) -> Option<Vec<usize>> {
        let before = self.started.replace(targets);
        for &member in before.iter().flatten() {
            self.targets[member].is_started.set(false);
            self.set_open(member);
            self.forget(member);
        }
        for &member in self.started.borrow().iter().flatten() {
            self.targets[member].is_started.set(true);
            self.set_open(member);
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

    /// Forgets the accesses to a member, which are complete.
    #[inline]
    pub(crate) fn forget(&self, member: usize) {
        self.targets[member].count.set(0);
    }

    #[inline]
    pub(crate) fn check_open(&self, member: usize, target: Rank) -> Result<(), Fault> {
        let target_state = &self.targets[member];
        let is_locked = target_state.lock.get().is_some() || self.all_locked.get();
        if !is_locked && !target_state.is_started.get() {
            if !self.fenced.get() {
                return Err(Fault::OutsideEpoch { target });
            }
            self.used.set(true);
        }
        Ok(())
    }

    /// Returns whether an operation is allowed now, and the member needs no lock any more.
    #[inline]
    pub(crate) fn is_entered(&self, member: usize) -> bool {
        if self.open[member].get() != 0 {
            return true;
        }
        let is_fenced = self.fenced.get() && !self.all_locked.get();
        if is_fenced {
            self.used.set(true);
        }
        is_fenced
    }

    /// Checks that an operation is allowed now, and remembers it.
    #[inline]
    pub(crate) fn enter(
        &self,
        member: usize,
        target: Rank,
        bytes: Range<u64>,
        effect: Effect,
    ) -> Result<(), Fault> {
        if !self.checks {
            return Ok(());
        }
        self.check_open(member, target)?;
        let target_state = &self.targets[member];
        let new = Access { start: bytes.start, end: bytes.end, effect };
        for before in target_state.accesses() {
            let before = before.get();
            if before.overlaps(&bytes) && !effect.goes_with(before.effect) {
                return Err(overlap(target, &before, &new));
            }
        }
        target_state.remember(new);
        Ok(())
    }

    /// Checks that this rank, which is `me` of the members, may touch its own part by itself now.
    pub(crate) fn enter_own(
        &self,
        me: usize,
        bytes: &Range<u64>,
        writes: bool,
    ) -> Result<(), Fault> {
        if !self.checks {
            return Ok(());
        }
        let what = if writes { "write" } else { "read" };
        if self.posted.borrow().is_some() {
            return Err(Fault::LocalAccess { what, why: "it is exposed by a post: wait first" });
        }
        let is_shared = self.targets[me].lock.get() == Some(Mode::Shared);
        if writes && is_shared && !self.all_locked.get() {
            return Err(Fault::LocalAccess { what, why: "it is locked in shared mode" });
        }
        let conflicts =
            |access: Access| access.overlaps(bytes) && (writes || access.effect != Effect::Get);
        if self.targets[me].accesses().iter().map(Cell::get).any(conflicts) {
            return Err(Fault::LocalAccess {
                what,
                why: "an operation of this epoch on the same bytes is not complete",
            });
        }
        Ok(())
    }
}

#[cold]
fn overlap(target: Rank, before: &Access, new: &Access) -> Fault {
    Fault::Overlap {
        target,
        offset: before.start.max(new.start),
        what: new.effect.name(),
        before: before.effect.name(),
    }
}

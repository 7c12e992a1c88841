//! The rules of epochs that a program can break.

use farside_fabric::{ErrorClass, Rank};

/// A broken rule of epochs. A call that finds one returns it as an
/// [`Error`](farside_fabric::Error), from which [`fault`](farside_fabric::Error::fault) takes it:
///
/// ```
/// use farside::epoch::{Fault, Options, Window};
/// use farside::{ErrorClass, Rank};
///
/// farside::local(2, |world| {
///     let window = Window::allocate(world, 64, Options::new())?;
///     let error = window.unlock(Rank(1)).unwrap_err();
///     assert_eq!(error.fault(), Some(&Fault::NotLocked { target: Rank(1) }));
///     assert_eq!(error.class(), ErrorClass::Epoch);
///     window.free()
/// })
/// .unwrap();
/// ```
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
        /// The call that came.
        call: &'static str,
        /// The call that is missing before it.
        begin: &'static str,
    },
    /// A begin of an epoch while another one is open that excludes it.
    StillOpen {
        /// The call that came.
        call: &'static str,
        /// The epoch that is open.
        open: &'static str,
    },
    /// A group that names a rank twice, or one that has no part in the window.
    BadGroup {
        /// The rank.
        rank: Rank,
        /// True if it is named twice.
        twice: bool,
    },
    /// An epoch that waits for another rank, which has gone on without it.
    Groups {
        /// The rank that waits.
        me: Rank,
        /// The call that it has made.
        did: &'static str,
        /// The rank that it waits for.
        other: Rank,
        /// The call that the other should have made.
        instead: &'static str,
    },
    /// A post or a start that its other side has not answered, when all epochs are over.
    Unanswered {
        /// The rank that made the call.
        rank: Rank,
        /// The call that it has made.
        did: &'static str,
        /// The rank that it was for.
        me: Rank,
        /// The call that this rank has not made.
        missing: &'static str,
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
        /// The access.
        what: &'static str,
        /// The reason why it is not allowed.
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
                write!(f, "{target} cannot be unlocked: this rank has not locked it")
            }
            Fault::LockedTwice { target } => {
                write!(f, "{target} is locked a second time: unlock it first")
            }
            Fault::NotOpen { call, begin } => write!(f, "{call} without {begin}"),
            Fault::StillOpen { call, open } => write!(f, "{call} while {open}"),
            Fault::BadGroup { rank, twice: true } => write!(f, "{rank} is named twice in a group"),
            Fault::BadGroup { rank, twice: false } => {
                write!(f, "{rank} is in a group but has no part in the window")
            }
            Fault::Groups { me, did, other, instead } => write!(
                f,
                "the groups do not match: {me} has {did} {other}, but {other} has reached a fence \
                 or freed the window instead of {instead}"
            ),
            Fault::Unanswered { rank, did, me, missing } => write!(
                f,
                "the groups do not match: {rank} has {did} {me}, but {me} has not {missing} {rank}"
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
                "the result of an operation on {target} was taken before the operation was \
                 complete: wait for it, flush, or end the epoch first"
            ),
        }
    }
}

impl std::error::Error for Fault {}

impl farside_fabric::Fault for Fault {
    fn class(&self) -> ErrorClass {
        ErrorClass::Epoch
    }
}

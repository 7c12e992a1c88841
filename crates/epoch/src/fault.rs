//! The rules of epochs that a program can break.

use farside_fabric::{Error, Rank};

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

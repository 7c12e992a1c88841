//! Operations under way, and the entries of the queue.

use farside_fabric::Rank;

use super::contention::Flow;
use super::network::{LinkLevel, Sender};
use crate::body::Body;
use crate::event::EventId;

#[repr(align(64))]
pub(super) struct Flight {
    pub(super) id: EventId,
    pub(super) target: Rank,
    pub(super) route: LinkLevel,
    pub(super) role: Role,
    /// True if it comes with the one before it, in one message.
    pub(super) piggybacked: bool,
    pub(super) sent_ns: u64,
    /// The address of its word, as a hint.
    pub(super) word: *const u8,
    pub(super) body: Body,
}

impl Flight {
    pub(super) fn flow(&self) -> Flow {
        let kind = self.body.kind(self.role == Role::Fetching);
        Flow { origin: self.id.rank, target: self.target, kind, segment: self.body.segment() }
    }
}

const _: () = assert!(size_of::<Option<Flight>>() <= 192);

/// The party that learns of the end of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its rank waits for the reply.
    Fetching,
    Posted,
    ByAgent,
}

impl From<Role> for Sender {
    fn from(role: Role) -> Sender {
        match role {
            Role::Fetching => Sender::RankThatWaits,
            Role::Posted => Sender::RankThatPosts,
            Role::ByAgent => Sender::Agent,
        }
    }
}

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    Arrives(u32),
    Resumes(u32),
    Timer(u32),
    Departures,
    /// The clock of a rank goes off.
    Rings(u32),
    Repeated(u32),
}

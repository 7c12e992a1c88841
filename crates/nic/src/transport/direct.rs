//! Operations on far memory that go past its agent, as the port of the thread that begins them sees
//! them.
//!
//! An interface that reaches memory by itself wakes nobody there and counts nothing. The agent does
//! both when it is told: the origin sends it a [`Notice`] behind each operation that has come to
//! its end.

use farside_fabric::{Node, Word};

use crate::wire::request::Request;

/// What an agent must be told of an operation that has gone past it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A word of its node was changed: somebody may sleep for it.
    Changed(Word),
    /// So many operations have landed on its node that count (see
    /// [`farside_fabric::Fabric::landings`]).
    Landed(u32),
}

impl Notice {
    pub(crate) fn request(self) -> Request<'static> {
        match self {
            Notice::Changed(at) => Request::Changed { at },
            Notice::Landed(count) => Request::Landed { count },
        }
    }
}

/// What agents have not been told yet, because it is under way or because nobody has looked since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owed {
    /// Nothing.
    Nothing,
    /// That something has landed.
    Landings,
    /// That a word was changed: somebody may sleep until the agent hears of it.
    Wakes,
}

/// Operations that go past the agents. Whoever drives a port lets them go on by
/// [`crate::Line::receive`].
pub trait Direct {
    /// Whether something is under way that needs somebody to look.
    fn is_busy(&self) -> bool;
    /// What agents have not been told yet.
    fn owed(&self) -> Owed;
    /// Whether [`Direct::take_notices`] has anything.
    fn has_notices(&self) -> bool;
    /// What has come to its end since this was asked last, and must be told to the agents of these
    /// nodes.
    fn take_notices(&self) -> Vec<(Node, Notice)>;
    /// Changes when something has come to its end that somebody may wait for.
    fn ends(&self) -> u64;
    /// Whether an operation that has this number is over, or unknown.
    fn is_over(&self, transfer: u64) -> bool;
}

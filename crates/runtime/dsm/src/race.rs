//! Races: words that two ranks have accessed without being ordered, one of them by a store.

use std::fmt;

use farside_fabric::Rank;

/// Two ranks have accessed the same word, at least one of them has stored to it, and nothing orders
/// the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// The ranks. The first one has stored to the word.
    pub ranks: (Rank, Rank),
    /// What each of them has done with it.
    pub kinds: (AccessKind, AccessKind),
    /// The file and the line at which each of them has done so, if they are known.
    pub places: (Option<String>, Option<String>),
    /// The numbers of their intervals, since the last barrier of all ranks.
    pub intervals: (u32, u32),
    /// Before which meeting of all ranks, from 1 on.
    pub meeting: u32,
    /// The page.
    pub page: u32,
    /// The first word that both have accessed, as a byte of the shared memory: see
    /// [`Shared::index_of`](crate::Shared::index_of).
    pub offset: u64,
}

/// What was done with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    /// It was loaded.
    Load,
    /// It was stored to.
    Store,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { ranks, kinds, places, intervals, meeting, page, offset } = self;
        let verb = |kind| match kind {
            AccessKind::Load => "loads",
            AccessKind::Store => "stores to",
        };
        let place = |place: &Option<String>| match place {
            Some(place) => format!(" at {place}"),
            None => String::new(),
        };
        write!(
            f,
            "{} {} byte {offset} of shared memory, on page {page},{} (interval {}), and {} {} it{} \
             (interval {}), before meeting {meeting}, and nothing orders the two",
            ranks.0,
            verb(kinds.0),
            place(&places.0),
            intervals.0,
            ranks.1,
            verb(kinds.1),
            place(&places.1),
            intervals.1
        )
    }
}

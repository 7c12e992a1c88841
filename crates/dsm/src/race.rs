//! Races: words that two ranks have written without being ordered.

use std::fmt;

use farside_fabric::Rank;

/// Two ranks have written the same word, and nothing orders their writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Race {
    /// The ranks that have written it.
    pub ranks: (Rank, Rank),
    /// The numbers of their intervals, since the last barrier of all ranks.
    pub intervals: (u32, u32),
    /// Before which meeting of all ranks, from 1 on.
    pub meeting: u32,
    /// The page.
    pub page: u32,
    /// The first word that both have written, as a byte of the shared memory: see
    /// [`Shared::index_of`](crate::Shared::index_of).
    pub offset: u64,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { ranks, intervals, meeting, page, offset } = self;
        write!(
            f,
            "{} (interval {}) and {} (interval {}) have both written byte {offset} of shared \
             memory, on page {page}, before meeting {meeting}, and neither knew of the other",
            ranks.0, intervals.0, ranks.1, intervals.1
        )
    }
}

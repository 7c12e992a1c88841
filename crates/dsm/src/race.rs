//! Words that two ranks have written without being ordered: who, and where.

use std::collections::BTreeMap;
use std::fmt;

use farside_fabric::{Rank, Result};

use crate::coherence::Coherence;
use crate::diff;
use crate::interval::{Interval, Notice};
use crate::variant::Variant;

/// Two ranks have written the same word, and nothing orders their writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Race {
    /// Who has written it.
    pub ranks: (Rank, Rank),
    /// Which of their intervals these were, since all ranks had met before.
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

impl<V: Variant> Coherence<'_, V> {
    /// Looks at the intervals since the last meeting, which all ranks know now. The pages are dealt
    /// out among the ranks.
    pub(crate) fn look_for_races(&mut self) -> Result<()> {
        let mut writes: BTreeMap<u32, Vec<(&Interval, Notice)>> = BTreeMap::new();
        for interval in self.known.values().flatten() {
            for &notice in
                interval.notices.iter().filter(|notice| notice.page % self.ranks == self.me.0)
            {
                writes.entry(notice.page).or_default().push((interval, notice));
            }
        }
        let mut races = Vec::new();
        for (page, writes) in writes {
            for (at, &(one, first)) in writes.iter().enumerate() {
                for &(other, second) in &writes[..at] {
                    if one.is_before(other) || other.is_before(one) {
                        continue;
                    }
                    let (mine, theirs) =
                        (self.runs_of(one.rank, first)?, self.runs_of(other.rank, second)?);
                    if let Some(word) = diff::overlap(&mine, &theirs, self.page_words) {
                        let word = page as usize * self.page_words + word;
                        races.push(Race {
                            ranks: (Rank(other.rank), Rank(one.rank)),
                            intervals: (other.number, one.number),
                            meeting: self.epoch.wrapping_add(1),
                            page,
                            offset: word as u64 * 4,
                        });
                    }
                }
            }
        }
        self.races.extend(races);
        Ok(())
    }

    /// A diff, as runs in any case.
    fn runs_of(&self, rank: u32, notice: Notice) -> Result<Vec<u32>> {
        let mut words = vec![0; notice.stored_words(self.page_words)];
        self.reach.get(self.memory.diffs.at(Rank(rank), notice.at as usize), &mut words)?;
        if notice.is_whole() {
            words.insert(0, ((self.page_words - 1) as u32) << 16);
        }
        Ok(words)
    }
}

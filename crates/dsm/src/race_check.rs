//! The search for races, at each barrier of all ranks.

use std::collections::BTreeMap;

use farside_fabric::{Rank, Result};

use crate::coherence::Coherence;
use crate::diff;
use crate::interval::{Interval, Notice};
use crate::race::Race;
use crate::variant::Variant;

impl<V: Variant> Coherence<'_, V> {
    /// Looks at the intervals since the last meeting, which all ranks know now. The pages are dealt
    /// out among the ranks.
    pub(crate) fn look_for_races(&mut self) -> Result<()> {
        let mut writes: BTreeMap<u32, Vec<(&Interval, Notice)>> = BTreeMap::new();
        for interval in self.intervals.known.values().flatten() {
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
                            meeting: self.intervals.epoch.wrapping_add(1),
                            page,
                            offset: word as u64 * 4,
                        });
                    }
                }
            }
        }
        self.records.races.extend(races);
        Ok(())
    }

    /// A diff, as runs in any case.
    fn runs_of(&self, rank: u32, notice: Notice) -> Result<Vec<u32>> {
        let mut words = vec![0; notice.stored_words(self.page_words)];
        self.context.get(self.memory.diffs.at(Rank(rank), notice.at as usize), &mut words)?;
        if notice.is_whole() {
            words.insert(0, ((self.page_words - 1) as u32) << 16);
        }
        Ok(words)
    }
}

//! The search for races, at each barrier of all ranks.

use std::collections::BTreeMap;
use std::ops::Range;

use farside_fabric::{Rank, Result};

use super::state::Eager;
use crate::accesses::Accesses;
use crate::diff;
use crate::interval::{Interval, Notice, StoredAccesses};
use crate::race::{AccessKind, Race};
use crate::state::Local;

/// An interval that has accessed a page, and the words of the page that it did access.
struct Touching<'a> {
    interval: &'a Interval,
    accesses: &'a Accesses,
    kind: AccessKind,
    /// First words, and those after the last ones, in the page.
    spans: Vec<(usize, usize)>,
}

impl Touching<'_> {
    /// Returns the first word that both have accessed, if nothing orders them.
    fn races_with(&self, other: &Touching<'_>) -> Option<usize> {
        let (mine, theirs) = (self.interval, other.interval);
        let is_ordered = mine.is_before(theirs) || theirs.is_before(mine);
        if is_ordered || mine.rank == theirs.rank {
            return None;
        }
        diff::first_in_both(&self.spans, &other.spans)
    }
}

impl Eager {
    /// Looks at the intervals since the last meeting, which all ranks know now. The pages are dealt
    /// out among the ranks.
    pub(super) fn look_for_races(&self, here: &mut Local<'_>) -> Result<()> {
        let mut all = Vec::new();
        for interval in self.known.values().flatten() {
            all.push((interval, accesses_of(here, interval)?));
        }
        let words = here.page_words();
        let mut pages: BTreeMap<u32, Vec<Touching<'_>>> = BTreeMap::new();
        for (interval, accesses) in &all {
            let is_mine = |page: u32| page % here.ranks == here.me.0;
            for &notice in interval.notices.iter().filter(|notice| is_mine(notice.page)) {
                let runs = runs_of(here, interval.rank, notice)?;
                let (kind, spans) = (AccessKind::Store, diff::spans(&runs, words));
                let touching = Touching { interval, accesses, kind, spans: spans.collect() };
                pages.entry(notice.page).or_default().push(touching);
            }
            for (page, spans) in loads_of(accesses, words) {
                if is_mine(page) {
                    let touching = Touching { interval, accesses, kind: AccessKind::Load, spans };
                    pages.entry(page).or_default().push(touching);
                }
            }
        }
        let meeting = here.epoch.wrapping_add(1);
        let mut races = Vec::new();
        for (page, touching) in pages {
            let begin = u64::from(page) * words as u64 * 4;
            find(&touching, |one, other, word| {
                races.push(race(one, other, begin + word as u64 * 4, (page, meeting)));
            });
        }
        here.records.races.extend(races);
        Ok(())
    }

    /// Stores what was noted of the accesses of the interval that ends, if others need it: it has
    /// changed pages, or loads count.
    pub(super) fn store_accesses(
        &mut self,
        here: &Local<'_>,
        has_stores: bool,
    ) -> Result<Option<StoredAccesses>> {
        let Some(log) = &here.access_log else { return Ok(None) };
        let accesses = log.take();
        if !has_stores && !accesses.has_loads() {
            return Ok(None);
        }
        let words = accesses.to_words();
        let at = self.store(here, &words)?;
        Ok(Some(StoredAccesses { at: at as u32, words: words.len() as u32 }))
    }
}

/// A diff, as runs in any case.
fn runs_of(here: &Local<'_>, rank: u32, notice: Notice) -> Result<Vec<u32>> {
    let page_words = here.page_words();
    let mut words = vec![0; notice.stored_words(page_words)];
    here.context.get(here.memory.diffs.at(Rank(rank), notice.at as usize), &mut words)?;
    if notice.is_whole() {
        words.insert(0, ((page_words - 1) as u32) << 16);
    }
    Ok(words)
}

fn accesses_of(here: &Local<'_>, interval: &Interval) -> Result<Accesses> {
    let Some(stored) = interval.accesses else { return Ok(Accesses::default()) };
    let mut words = vec![0; stored.words as usize];
    let place = here.memory.diffs.at(Rank(interval.rank), stored.at as usize);
    here.context.get(place, &mut words)?;
    Accesses::from_words(&words)
}

/// Calls `found` for each two accesses that race: a store, another access, and the word. Where two
/// intervals have stored to the same word, their loads of the page tell nothing more.
fn find(all: &[Touching<'_>], mut found: impl FnMut(&Touching<'_>, &Touching<'_>, usize)) {
    let (stores, loads): (Vec<_>, Vec<_>) =
        all.iter().partition(|touching| touching.kind == AccessKind::Store);
    let mut both = Vec::new();
    let name = |touching: &Touching<'_>| (touching.interval.rank, touching.interval.number);
    for (at, one) in stores.iter().enumerate() {
        for other in &stores[..at] {
            if let Some(word) = one.races_with(other) {
                both.extend([(name(one), name(other)), (name(other), name(one))]);
                found(other, one, word);
            }
        }
    }
    for store in &stores {
        for load in &loads {
            if !both.contains(&(name(store), name(load)))
                && let Some(word) = store.races_with(load)
            {
                found(store, load, word);
            }
        }
    }
}

fn race(
    one: &Touching<'_>,
    other: &Touching<'_>,
    offset: u64,
    (page, meeting): (u32, u32),
) -> Race {
    let place = |touching: &Touching<'_>| {
        touching.accesses.place_of(touching.kind, offset).map(str::to_owned)
    };
    Race {
        ranks: (Rank(one.interval.rank), Rank(other.interval.rank)),
        kinds: (one.kind, other.kind),
        places: (place(one), place(other)),
        intervals: (one.interval.number, other.interval.number),
        meeting,
        page,
        offset,
    }
}

fn loads_of(accesses: &Accesses, page_words: usize) -> BTreeMap<u32, Vec<(usize, usize)>> {
    let mut pages: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    let mut spans: Vec<&Range<u64>> = accesses.loads().collect();
    spans.sort_unstable_by_key(|bytes| bytes.start);
    let mut done = 0;
    for bytes in spans {
        let (word, end) = (bytes.start as usize / 4, bytes.end.div_ceil(4) as usize);
        // Places overlap: what was there before is left out.
        let mut word = word.max(done);
        done = done.max(end);
        while word < end {
            let page = word / page_words;
            let stop = end.min((page + 1) * page_words);
            let span = (word - page * page_words, stop - page * page_words);
            pages.entry(page as u32).or_default().push(span);
            word = stop;
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::SiteAccesses;

    #[test]
    fn loads_are_divided_into_pages() {
        let site = |spans| SiteAccesses { place: "here".into(), kind: AccessKind::Load, spans };
        let sites = vec![site(vec![30..60, 66..70]), site(vec![4..8, 50..67])];
        let pages = loads_of(&Accesses { sites }, 8);
        let words = |page: u32| -> Vec<usize> {
            pages[&page].iter().flat_map(|&(start, end)| start..end).collect()
        };
        assert_eq!(words(0), [1, 7]);
        assert_eq!(words(1), (0..8).collect::<Vec<_>>());
        assert_eq!(words(2), [0, 1]);
        assert_eq!(pages.len(), 3);
    }
}

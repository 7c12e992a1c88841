//! Many keys of a volume at once: what is read and what is written travels in one request each, and
//! atomics travel together.
//!
//! Paper:     none; [RMALOCK16] section 5.3 has single operations only.
//! Differs:   the steps of a single operation, each for all keys before the next. A bucket that
//!            another rank holds is tried again in the next round, when this rank holds none:
//!            no rank waits for another bucket while it holds one, so that no two batches wait for
//!            each other.
//! State:     none beyond that of single operations.
//! Invariant: as for single operations; a batch holds several buckets at a time, of each key's
//!            bucket one.
//! Ordering:  as for single operations (`an_entry_without_order_is_caught`,
//!            `a_look_without_validation_is_caught`); keys of one bucket are led to the next one
//!            together (`a_bucket_that_is_looked_at_twice_is_caught`).
//! Cost:      find: 3 gets, and 1 get for each further cell of the longest chain; change: 1 get,
//!            the compare-swaps of all keys together, 1 get for each cell of the longest chain, 1
//!            put, the compare-swaps of all keys together twice, 2 fetch-adds. Each number is for
//!            all keys of a volume together.
//! Checked:   `farside check map/batches`: 2 ranks with batches of colliding keys, all schedules.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{Ordering, fence};

use farside_fabric::Result;
use farside_rma::Run;

use super::bucket::{Held, OnUnwind, Search, Seen, Verdict, Volume};
use super::layout::{COUNT, Meta, REMOVED, State, astray, entries};
use super::steps;

/// A key of a batch: where its words are, and what came of it.
pub(crate) struct Item {
    pub(crate) hash: u64,
    pub(crate) key: Vec<u64>,
    /// Which of the caller's keys it is.
    pub(crate) index: usize,
}

/// Decides about the entry of one of the caller's keys.
pub(crate) type ChangeOf<'f> = dyn FnMut(usize, Option<&[u64]>, &mut [u64]) -> Verdict + 'f;

/// One key whose bucket was looked at.
struct Walk<'i> {
    item: &'i Item,
    held: Held,
    chain: Vec<Seen>,
    is_over: bool,
}

struct Step {
    held: Held,
    turn: Option<(usize, Meta, Meta)>,
    /// What is added to the count of entries.
    more: u64,
}

impl Volume<'_> {
    /// Calls `found` with the number of each key, and its value if there is one.
    pub(crate) fn find_many(
        &self,
        items: &[Item],
        found: &mut dyn FnMut(usize, Option<&[u64]>),
    ) -> Result<()> {
        let mut pending: Vec<(&Item, u64)> = self.guesses(items);
        while !pending.is_empty() {
            let mut walks = self.look_at_all(&mut pending, |_, _| Ok(true))?;
            self.walk_all(&mut walks)?;
            // What was read before was read before this.
            fence(Ordering::Acquire);
            let still = if self.locked || self.context.omits(steps::VALIDATE) {
                None
            } else {
                Some(self.gather(walks.iter().map(|walk| self.layout.state(walk.held.bucket)), 1)?)
            };
            for (at, walk) in walks.iter().enumerate() {
                let is_still = still.as_ref().is_none_or(|states| states[at] == walk.held.state.0);
                match walk.chain.last().filter(|_| is_still && walk.is_over) {
                    Some(last) => found(
                        walk.item.index,
                        self.is_of(last, walk.item).then_some(&last.entry[self.layout.key_words..]),
                    ),
                    None if is_still => return Err(self.broken(walk.held.bucket)),
                    None => pending.push((walk.item, walk.held.bucket)),
                }
            }
        }
        Ok(())
    }

    /// Changes what each key stands for; `changed` is told its number and what it stood for before.
    pub(crate) fn change_many(
        &self,
        items: &[Item],
        change: &mut ChangeOf<'_>,
        changed: &mut dyn FnMut(usize, Option<&[u64]>),
    ) -> Result<()> {
        let mut pending: Vec<(&Item, u64)> = self.guesses(items);
        while !pending.is_empty() {
            if self.locked {
                // What was put in the last round is read again.
                self.context.flush(self.rank)?;
            }
            let mut taken = HashSet::new();
            // Keys of one bucket take turns, in the order of the caller.
            let walks = self.look_at_all(&mut pending, |bucket, _| Ok(taken.insert(bucket)))?;
            let mut walks = self.hold_all(walks, &mut pending)?;
            pending.sort_by_key(|(item, _)| item.index);
            let walked = self.walk_all(&mut walks);
            // The caller's functions may panic, and others want the buckets.
            let releases = OnUnwind(|| {
                drop(self.release_all(walks.iter().map(|walk| (walk.held, true))));
            });
            let steps = walked.and_then(|()| self.decide_all(&walks, change, changed));
            std::mem::forget(releases);
            let (more, released) = self.finish_all(&walks, steps)?;
            if more != 0 {
                let count = self.context.fetch_add(self.at(COUNT), more)?.wrapping_add(more);
                if entries(more) > 0 && released.is_ok() {
                    self.grow_by(entries(count), entries(more) as u64)?;
                }
            }
            released?;
        }
        Ok(())
    }

    fn guesses<'i>(&self, items: &'i [Item]) -> Vec<(&'i Item, u64)> {
        items.iter().map(|item| (item, self.layout.bucket(item.hash, self.shape.get()))).collect()
    }

    /// Looks at the states of the buckets of all that are pending; those whose bucket is free,
    /// their own and `wanted` are taken out.
    fn look_at_all<'i>(
        &self,
        pending: &mut Vec<(&'i Item, u64)>,
        mut wanted: impl FnMut(u64, State) -> Result<bool>,
    ) -> Result<Vec<Walk<'i>>> {
        let states =
            self.gather(pending.iter().map(|&(_, bucket)| self.layout.state(bucket)), 1)?;
        let mut walks = Vec::new();
        let mut is_stale = false;
        let mut busy = None;
        let (looks_once, looks_at_depth) =
            (!self.context.omits(steps::LOOK_ONCE), !self.context.omits(steps::LOOK_AT_DEPTH));
        let mut first_looks = HashMap::new();
        let mut left = Vec::new();
        for (&(item, bucket), &word) in pending.iter().zip(&states) {
            // Another rank may have changed the bucket since a key before this one was looked at.
            // What that one found counts for all: it goes first.
            let first_look = *first_looks.entry(bucket).or_insert(State(word));
            let state = if looks_once { first_look } else { State(word) };
            if let Some(holder) = state.holder().filter(|_| !self.locked) {
                busy.get_or_insert((bucket, state, holder));
                left.push((item, bucket));
                continue;
            }
            let depth = self.layout.depth(bucket, state).ok_or_else(|| self.broken(bucket))?;
            match astray(item.hash, bucket, depth).filter(|_| looks_at_depth) {
                Some(other) => {
                    is_stale = true;
                    left.push((item, other));
                }
                None if wanted(bucket, state)? => {
                    walks.push(Walk {
                        item,
                        held: Held { bucket, state },
                        chain: Vec::new(),
                        is_over: false,
                    });
                }
                None => left.push((item, bucket)),
            }
        }
        *pending = left;
        if is_stale {
            self.learn_shape()?;
        }
        match busy {
            // Nothing else to do than to wait.
            Some((bucket, state, holder)) if walks.is_empty() => {
                self.await_holder(bucket, state, holder)?
            }
            _ => {}
        }
        Ok(walks)
    }

    /// Takes the buckets; those that other ranks took first stay pending.
    fn hold_all<'i>(
        &self,
        walks: Vec<Walk<'i>>,
        pending: &mut Vec<(&'i Item, u64)>,
    ) -> Result<Vec<Walk<'i>>> {
        if self.locked {
            return Ok(walks);
        }
        let me = self.context.rank();
        let swaps = walks.iter().map(|walk| {
            let Held { bucket, state } = walk.held;
            self.context.compare_swap_nb(
                self.at(self.layout.state(bucket)),
                state.0,
                state.held_by(me).0,
            )
        });
        let swaps: Vec<_> = swaps.collect();
        let (mut held, mut failed) = (Vec::new(), None);
        for (mut walk, swap) in walks.into_iter().zip(swaps) {
            match swap.and_then(|swap| swap.wait()) {
                Ok(found) if found == walk.held.state.0 => {
                    walk.held.state = walk.held.state.held_by(me);
                    held.push(walk);
                }
                Ok(_) => pending.push((walk.item, walk.held.bucket)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let Some(error) = failed else { return Ok(held) };
        // What comes of this says no more.
        let _ = self.release_all(held.iter().map(|walk| (walk.held, false)));
        Err(error)
    }

    /// Follows all chains at once, each to its key or to its end.
    fn walk_all(&self, walks: &mut [Walk<'_>]) -> Result<()> {
        let words = self.layout.cell_words();
        let mut open: Vec<(usize, usize)> = walks
            .iter()
            .enumerate()
            .map(|(at, walk)| (at, self.layout.state(walk.held.bucket) + 1))
            .collect();
        while !open.is_empty() {
            let cells = self.gather(open.iter().map(|&(_, at)| at), words)?;
            let mut further = Vec::new();
            for (&(at, place), cell) in open.iter().zip(cells.chunks_exact(words)) {
                let (walk, meta) = (&mut walks[at], Meta(cell[0]));
                let start = self.layout.entry(meta, true);
                let entry = cell[start..start + self.layout.entry_words()].to_vec();
                let seen = Seen { at: place, meta, entry };
                let is_found = self.is_of(&seen, walk.item);
                walk.chain.push(seen);
                let is_cycle = walk.chain.len() as u64 > self.layout.cells_max + 1;
                match meta.next() {
                    _ if is_found => walk.is_over = true,
                    0 => walk.is_over = true,
                    // Somebody writes: it leads nowhere.
                    next if u64::from(next) > self.layout.cells_max || is_cycle => {}
                    next => further.push((at, self.layout.cell(next))),
                }
            }
            open = further;
        }
        Ok(())
    }

    fn is_of(&self, seen: &Seen, item: &Item) -> bool {
        seen.meta.is_occupied() && seen.entry[..self.layout.key_words] == item.key[..]
    }

    /// Decides about all entries, and puts those that are new.
    fn decide_all(
        &self,
        walks: &[Walk<'_>],
        change: &mut ChangeOf<'_>,
        changed: &mut dyn FnMut(usize, Option<&[u64]>),
    ) -> Result<Vec<Step>> {
        let (layout, mut puts, mut steps, mut fresh) =
            (self.layout, Puts::default(), Vec::new(), Vec::new());
        for walk in walks {
            let own = walk.chain.last().filter(|seen| self.is_of(seen, walk.item));
            if !walk.is_over {
                return Err(self.broken(walk.held.bucket));
            }
            let value = own.map(|seen| &seen.entry[layout.key_words..]);
            let mut entry = [&walk.item.key[..], &vec![0; layout.value_words]].concat();
            let verdict = change(walk.item.index, value, &mut entry[layout.key_words..]);
            let room =
                || walk.chain.iter().find(|seen| !seen.meta.is_occupied() && seen.meta.is_usable());
            let (turn, more) = match (verdict, own.or_else(room)) {
                (Verdict::Leave, _) => (None, 0),
                (Verdict::Remove, _) => (
                    own.map(|seen| (seen.at, seen.meta, seen.meta.emptied())),
                    if own.is_some() { REMOVED } else { 0 },
                ),
                (Verdict::Write, Some(seen)) => {
                    puts.add(seen.at + layout.entry(seen.meta, false), &entry);
                    (Some((seen.at, seen.meta, seen.meta.flipped())), u64::from(own.is_none()))
                }
                (Verdict::Write, None) => {
                    fresh.push((steps.len(), entry));
                    (Some((walk.chain[0].at, walk.chain[0].meta, walk.chain[0].meta)), 1)
                }
            };
            changed(walk.item.index, value);
            steps.push(Step { held: walk.held, turn, more });
        }
        if !fresh.is_empty() {
            let busy: Vec<u64> = walks.iter().map(|walk| walk.held.bucket).collect();
            let cells = self.take_cells(fresh.len(), &busy, Search::Everywhere)?;
            for (link, (step, entry)) in cells.into_iter().zip(fresh) {
                if let Some((_, before, after)) = &mut steps[step].turn {
                    puts.add(
                        layout.cell(link),
                        &[&[Meta::filled(before.next()).0], &entry[..]].concat(),
                    );
                    *after = before.with_next(link);
                }
            }
        }
        puts.send(self)?;
        Ok(steps)
    }

    /// Makes what was decided visible, and releases all buckets; says what that adds to the count
    /// of entries, and what has come of the release. After an error, only releases.
    fn finish_all(
        &self,
        walks: &[Walk<'_>],
        steps: Result<Vec<Step>>,
    ) -> Result<(u64, Result<()>)> {
        let made = steps.and_then(|steps| {
            self.order()?;
            let turns: Vec<_> = steps.iter().filter_map(|step| step.turn).collect();
            self.exchange_all(turns.iter().map(|&(at, from, to)| (at, from.0, to.0)))?;
            Ok(steps)
        });
        match made {
            Ok(steps) => {
                let all = steps.iter().map(|step| (step.held, step.turn.is_some()));
                let released = self.release_all(all);
                Ok((steps.iter().fold(0, |all, step| step.more.wrapping_add(all)), released))
            }
            Err(error) => {
                // What comes of this says no more.
                let _ = self.release_all(walks.iter().map(|walk| (walk.held, true)));
                Err(error)
            }
        }
    }

    fn release_all(&self, held: impl Iterator<Item = (Held, bool)>) -> Result<()> {
        if self.locked {
            return Ok(());
        }
        let changes: Vec<(usize, u64, u64)> = held
            .map(|(held, is_changed)| {
                let free = held.state.released(is_changed);
                (self.layout.state(held.bucket), held.state.0, free.0)
            })
            .collect();
        let released = self.exchange_all(changes.iter().copied());
        if released.is_err() {
            // Others want the buckets: those that are released already are not in this state.
            for (at, from, to) in changes {
                let _ = self.context.compare_swap(self.at(at), from, to);
            }
        }
        released
    }

    /// Changes words that no other rank changes, all together.
    fn exchange_all(&self, changes: impl Iterator<Item = (usize, u64, u64)>) -> Result<()> {
        let changes: Vec<(usize, u64, u64)> = changes.collect();
        if self.locked {
            return changes
                .iter()
                .try_for_each(|&(at, _, to)| self.context.put_value(to, self.at(at)));
        }
        let swaps = changes
            .iter()
            .map(|&(at, from, to)| self.context.compare_swap_nb(self.at(at), from, to));
        let swaps: Vec<_> = swaps.collect();
        let mut exchanged = Ok(());
        for (swap, (_, from, _)) in swaps.into_iter().zip(changes) {
            let found = swap.and_then(|swap| swap.wait());
            exchanged = exchanged.and(found.and_then(|found| match found == from {
                true => Ok(()),
                false => Err(self.taken_for_lost()),
            }));
        }
        exchanged
    }

    /// Reads so many words from each of these places, in one request.
    fn gather(&self, places: impl Iterator<Item = usize>, words: usize) -> Result<Vec<u64>> {
        let runs: Vec<Run> =
            places.enumerate().map(|(at, far)| Run { near: at * words, far, len: words }).collect();
        let mut into = vec![0; runs.len() * words];
        self.context.get_vector(self.at(0), &mut into, &runs)?;
        Ok(into)
    }
}

/// Puts to one volume, in one request.
#[derive(Default)]
struct Puts {
    words: Vec<u64>,
    runs: Vec<Run>,
}

impl Puts {
    fn add(&mut self, far: usize, words: &[u64]) {
        self.runs.push(Run { near: self.words.len(), far, len: words.len() });
        self.words.extend_from_slice(words);
    }

    fn send(&self, volume: &Volume<'_>) -> Result<()> {
        if self.runs.is_empty() {
            Ok(())
        } else {
            volume.context.put_vector(&self.words, volume.at(0), &self.runs)
        }
    }
}

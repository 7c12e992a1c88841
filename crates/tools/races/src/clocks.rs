//! The clocks of strands and of words.
//!
//! A clock has a column for each strand, and one for each lane and target that something was
//! posted to: how far its owner knows of them. Columns are given when they are first needed, so
//! that clocks are as short as the program is simple.

use crate::access::Actor;
use crate::adds::Added;
use crate::layout::{Block, CHANGED, CONTEXT_LANES, count};
use crate::state::State;

impl State<'_> {
    pub(crate) fn columns(&self) -> usize {
        self.layout.n() + self.numbers[count::COLUMNS] as usize
    }

    fn given(&self, at: usize) -> Option<usize> {
        (self.numbers[at] as usize).checked_sub(1)
    }

    /// Gives a column to what is numbered at `at`, if it has none and one is left.
    fn give(&mut self, at: usize) -> Option<usize> {
        let columns = self.columns();
        if self.numbers[at] == 0 && columns < self.layout.columns_max {
            self.numbers[count::COLUMNS] += 1;
            self.numbers[at] = columns as u32 + 1;
        }
        self.given(at)
    }

    pub(crate) fn strand_column(&self, rank: usize, strand: usize) -> Option<usize> {
        match strand {
            0 => Some(rank),
            _ => self.given(self.layout.column_of_strand(rank, strand)),
        }
    }

    pub(crate) fn give_strand_column(&mut self, rank: usize, strand: usize) -> Option<usize> {
        match strand {
            0 => Some(rank),
            _ => self.give(self.layout.column_of_strand(rank, strand)),
        }
    }

    pub(crate) fn posted_column(&self, rank: usize, lane: usize, target: usize) -> Option<usize> {
        self.given(self.layout.column_of_posted(rank, lane, target))
    }

    pub(crate) fn give_posted_column(
        &mut self,
        rank: usize,
        lane: usize,
        target: usize,
    ) -> Option<usize> {
        self.give(self.layout.column_of_posted(rank, lane, target))
    }

    /// Returns what a clock of a strand says of a column; one that was never given is unknown.
    pub(crate) fn known(&self, clock: usize, column: Option<usize>) -> u32 {
        column.map_or(0, |column| self.numbers[clock + column])
    }

    /// Notes in a strand's own clock that it knows what it has done so far.
    pub(crate) fn know_own(&mut self, rank: usize, strand: usize) {
        if let Some(column) = self.give_strand_column(rank, strand) {
            let clock = self.layout.clock_of(rank, strand);
            self.numbers[clock + column] = self.time(rank);
        }
    }

    pub(crate) fn flush(&mut self, actor: Actor, target: usize) {
        let (layout, time) = (*self.layout, self.time(actor.rank));
        let clock = layout.clock_of(actor.rank, actor.strand);
        let mut any = false;
        for lane in lanes_of(actor) {
            let last = self.numbers[layout.last_post_of(actor.rank, lane, target)];
            if let Some(column) = self.posted_column(actor.rank, lane, target)
                && last > self.numbers[clock + column]
            {
                self.numbers[clock + column] = time;
                any = true;
            }
        }
        if any {
            self.tick(actor.rank);
        }
    }

    /// Orders what a context has posted ahead of what it posts afterwards to the same ranks.
    /// A barrier, which orders nothing that was posted, may well signal the same ranks: of the
    /// program's own fences, only the program's own words tell.
    pub(crate) fn fence(&mut self, actor: Actor, is_program: bool) {
        let time = self.time(actor.rank);
        for lane in lanes_of(actor) {
            for target in 0..self.layout.n() {
                if self.numbers[self.layout.last_post_of(actor.rank, lane, target)] != 0 {
                    let fenced = self.layout.fenced_of(actor.rank, lane, target);
                    self.numbers[fenced] = time;
                    if !is_program {
                        let fenced = self.layout.fenced_by_protocol(actor.rank, lane, target);
                        self.numbers[fenced] = time;
                    }
                }
            }
        }
        self.tick(actor.rank);
    }

    /// Returns the lane of a signal that a context sends to a target now, and of what it puts with
    /// it: one of which all that was sent before comes ahead of this, as its rank knows. If there
    /// is none, the two that share one count as ordered, which may hide a race.
    pub(crate) fn signal_lane(&self, actor: Actor, target: usize) -> usize {
        let (layout, me, time) = (self.layout, actor.rank, self.time(actor.rank));
        let clock = layout.clock_of(me, actor.strand);
        let last = |lane: usize| self.numbers[layout.last_post_of(me, lane, target)];
        let is_free = |lane: usize| {
            let known = self.known(clock, self.posted_column(me, lane, target));
            last(lane) <= known.max(self.numbers[layout.fenced_of(me, lane, target)])
        };
        let lanes = || lanes_of(actor).skip(1);
        // A signal, and what is put with it, are posted at one time.
        let is_at_once = lanes().find(|&lane| last(lane) == time);
        let free = || lanes().find(|&lane| is_free(lane));
        let oldest = || lanes().min_by_key(|&lane| last(lane));
        is_at_once.or_else(free).or_else(oldest).unwrap_or(actor.lane)
    }

    /// An atomic of a context on memory of `owner` is complete: what the context had posted there
    /// ahead of its last fence has landed before. That fence may have come when the atomic was
    /// under way, which may hide a race.
    pub(crate) fn answered(&mut self, actor: Actor, owner: usize, is_program: bool) {
        let (layout, me) = (*self.layout, actor.rank);
        let clock = layout.clock_of(me, actor.strand);
        for lane in lanes_of(actor) {
            if let Some(column) = self.posted_column(me, lane, owner) {
                let fenced = self.numbers[layout.fenced(me, lane, owner, is_program)];
                self.numbers[clock + column] = self.numbers[clock + column].max(fenced);
            }
        }
    }

    /// Whether a fence of a context comes behind something that it has signalled to a target.
    pub(crate) fn is_fenced(&self, actor: Actor, target: usize, column: usize, time: u32) -> bool {
        let (layout, me) = (self.layout, actor.rank);
        lanes_of(actor).any(|lane| {
            self.posted_column(me, lane, target) == Some(column)
                && time <= self.numbers[layout.fenced_of(me, lane, target)]
        })
    }

    /// A rank is about to change a word by which others may learn of all that it has completed;
    /// and, if the change is a signal, of that, and of what was put with it.
    pub(crate) fn release(&mut self, actor: Actor, released: Released) {
        let Released { word, owner, value, added, attempt, .. } = released;
        let (layout, me, time) = (*self.layout, actor.rank, self.time(actor.rank));
        self.know_own(me, actor.strand);
        self.list(word);
        if added.is_none_or(|added| self.is_another(word, added.tag)) {
            self.tell_adds(word);
        }
        self.note_release(layout.clock_of(me, actor.strand), word);
        self.note_value(word, value, attempt);
        for lane in lanes_of(actor) {
            let Some((column, complete)) = self.told_of(actor, lane, &released) else { continue };
            if complete == time
                && let Some(added) = added
            {
                self.keep_add(actor, (word, owner), column, added);
                continue;
            }
            let known = layout.last_column_of_word(word, column);
            self.numbers[known] = self.numbers[known].max(complete);
        }
        self.tick(me);
    }

    /// Notes the value that the last release of a word has stored, and which attempt it was.
    pub(crate) fn note_value(&mut self, word: usize, value: Option<u64>, attempt: u32) {
        let stored = self.layout.last_value_of_word(word);
        let bits = value.unwrap_or(0);
        self.numbers[stored] = u32::from(value.is_some()) | attempt << 1;
        self.numbers[stored + 1] = bits as u32;
        self.numbers[stored + 2] = (bits >> 32) as u32;
    }

    /// What a release tells of a lane of its context: the column, and up to when what was posted to
    /// the word's rank lands ahead of it. Of its own signal, and what was put with it, that is now.
    pub(crate) fn told_of(
        &self,
        actor: Actor,
        lane: usize,
        released: &Released,
    ) -> Option<(usize, u32)> {
        let (layout, me, owner) = (self.layout, actor.rank, released.owner);
        if owner >= layout.n() {
            return None;
        }
        let column = self.posted_column(me, lane, owner)?;
        let fenced = layout.fenced(me, lane, owner, released.is_program);
        let (last, time) =
            (self.numbers[layout.last_post_of(me, lane, owner)], self.time(actor.rank));
        let is_own = lane != actor.lane && last == time;
        Some((column, if is_own { time } else { self.numbers[fenced] }))
    }

    /// Makes a strand's clock that of a word's last release. What was the last release is one of
    /// those before it now.
    fn note_release(&mut self, mine: usize, word: usize) {
        let columns = self.columns();
        for block in self.layout.blocks(columns) {
            let used = used(block, columns);
            // The clocks of strands stand below those of words.
            let (head, tail) =
                self.numbers.split_at_mut(self.layout.last_clock_of_word(block, word));
            let mine = &head[mine + block.start..][..used];
            let (lasts, alls) = tail.split_at_mut(block.columns);
            for ((last, all), mine) in lasts[..used].iter_mut().zip(&mut alls[..used]).zip(mine) {
                *all = (*all).max(*last);
                *last = *mine;
            }
        }
    }

    /// A strand has read a word: it knows what those knew that wrote it. If the last of them has
    /// stored another value than was seen, that one had not been there yet.
    pub(crate) fn acquire(&mut self, actor: Actor, word: usize, seen: Option<u64>) {
        let (layout, columns) = (*self.layout, self.columns());
        if self.numbers[layout.is_listed(word)] == 0 {
            return;
        }
        let stored = layout.last_value_of_word(word);
        let [low, high] = [self.numbers[stored + 1], self.numbers[stored + 2]];
        let value = u64::from(high) << 32 | u64::from(low);
        let is_later = self.numbers[stored] & 1 != 0 && seen.is_some_and(|seen| seen != value);
        let mine = layout.clock_of(actor.rank, actor.strand);
        for block in layout.blocks(columns) {
            let used = used(block, columns);
            let (head, tail) = self.numbers.split_at_mut(layout.last_clock_of_word(block, word));
            let mine = &mut head[mine + block.start..][..used];
            let (lasts, alls) = tail.split_at(block.columns);
            for (mine, all) in mine.iter_mut().zip(alls) {
                *mine = (*mine).max(*all);
            }
            if !is_later {
                for (mine, last) in mine.iter_mut().zip(lasts) {
                    *mine = (*mine).max(*last);
                }
            }
        }
    }

    /// An attempt to change a word has failed: it tells nobody anything. If another release has
    /// come behind it, it stays, which may hide a race.
    pub(crate) fn take_back(&mut self, word: usize, attempt: u32) {
        let (layout, columns) = (*self.layout, self.columns());
        let stored = layout.last_value_of_word(word);
        if self.numbers[stored] >> 1 != attempt {
            return;
        }
        self.numbers[stored] = 0;
        for block in layout.blocks(columns) {
            let last = layout.last_clock_of_word(block, word);
            self.numbers[last..last + used(block, columns)].fill(0);
        }
    }

    /// Lists a word whose clock is about to be changed.
    pub(crate) fn list(&mut self, word: usize) {
        let listed = self.layout.is_listed(word);
        if self.numbers[listed] == 0 {
            self.numbers[listed] = 1;
            let count = self.numbers[count::CHANGED] as usize;
            if count < CHANGED {
                self.numbers[self.layout.changed(count)] = word as u32;
            }
            self.numbers[count::CHANGED] += 1;
        }
    }

    pub(crate) fn forget_clocks(&mut self) {
        let (layout, columns) = (*self.layout, self.columns());
        let changed = self.numbers[count::CHANGED] as usize;
        for block in layout.blocks(columns) {
            if changed > CHANGED {
                self.numbers[layout.numbers_in_block(block)].fill(0);
            }
            for entry in 0..changed.min(CHANGED) {
                let word = self.numbers[layout.changed(entry)] as usize;
                self.numbers[layout.numbers_of_word(block, word)].fill(0);
            }
        }
        self.numbers[..layout.clock_of(layout.n(), 0)].fill(0);
    }

    /// Adds what the clock of one strand knows to that of another.
    pub(crate) fn join(&mut self, into: usize, from: usize) {
        let columns = self.columns();
        if into == from {
            return;
        }
        let (head, tail) = self.numbers.split_at_mut(into.max(from));
        let (low, high) = (&mut head[into.min(from)..][..columns], &mut tail[..columns]);
        let (into, from) = if into < from { (low, high) } else { (high, low) };
        for (into, from) in into.iter_mut().zip(from) {
            *into = (*into).max(*from);
        }
    }
}

/// A word that is about to be changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Released {
    /// The number of its clock.
    pub(crate) word: usize,
    /// Whose memory it is in; no rank's if it stands for an agent.
    pub(crate) owner: usize,
    pub(crate) is_program: bool,
    /// The value that it holds afterwards, if that is known.
    pub(crate) value: Option<u64>,
    pub(crate) added: Option<Added>,
    /// If it is not known yet whether it changes: a number of this attempt, in 31 bits.
    pub(crate) attempt: u32,
}

impl Released {
    pub(crate) fn nobodys(word: usize) -> Released {
        let (value, added, attempt) = (None, None, 0);
        Released { word, owner: usize::MAX, is_program: false, value, added, attempt }
    }
}

/// The lanes of a context: of its posted operations, and of its signals.
pub(crate) fn lanes_of(actor: Actor) -> std::ops::Range<usize> {
    let first = actor.lane - actor.lane % CONTEXT_LANES;
    first..first + CONTEXT_LANES
}

pub(crate) fn used(block: Block, columns: usize) -> usize {
    block.columns.min(columns - block.start)
}

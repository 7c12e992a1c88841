//! Puts whose signals add to a word: which of them a wait has heard of.
//!
//! The sum that contains what a signal has added tells of its data. But where a wait needs one of
//! two, either may have come. So the clock of a word does not tell of what was put with such a
//! signal: the latest of these puts are kept with what they have added, and a wait learns of those
//! without which it would not have ended.

use crate::access::Actor;
use crate::layout::{ADD_GROUPS, ADD_NUMBERS, ADDS, Block, count};
use crate::state::State;

/// What a put adds to a word as its signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) operand: u64,
    /// Tells the word apart from others that share its clock.
    pub(crate) tag: u32,
}

/// A put whose signal adds to a word. All that are kept of one clock are of one word.
#[derive(Clone, Copy)]
struct Add {
    word: usize,
    tag: u32,
    /// The column, and the time in it, that tell of the put.
    column: usize,
    time: u32,
    operand: u64,
    /// The entries of its group that come ahead of it, as bits.
    after: u32,
}

/// Values from here on are those of negative numbers.
const HALF: u64 = 1 << 63;

pub(crate) fn is_negative(value: u64, bytes: u64) -> bool {
    value >> (8 * bytes.min(8) - 1) & 1 == 1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Tells the word apart from others that share its clock.
    pub(crate) tag: u32,
    /// The value.
    pub(crate) seen: u64,
    /// How much less of it the wait would have ended with as well.
    pub(crate) slack: u64,
}

impl State<'_> {
    /// An entry of the group of a word; the word may be another one of that group.
    fn add(&self, group: usize, entry: usize) -> Option<Add> {
        let at = self.layout.add(group, entry);
        let [word, tag, column, time, low, high, after] = *self.numbers[at..].first_chunk()?;
        let operand = u64::from(high) << 32 | u64::from(low);
        let (word, column) = ((word as usize).checked_sub(1)?, column as usize);
        Some(Add { word, tag, column, time, operand, after })
    }

    /// Whether what is kept of the clock of a word belongs to another word.
    pub(crate) fn is_another(&self, word: usize, tag: u32) -> bool {
        self.adds_of(word).iter().any(|(_, add)| add.tag != tag)
    }

    /// The puts that are kept of a word, with their entries.
    fn adds_of(&self, word: usize) -> Vec<(usize, Add)> {
        if self.numbers[count::ADDS] == 0 {
            return Vec::new();
        }
        let adds = (0..ADDS).filter_map(|entry| Some((entry, self.add(word % ADD_GROUPS, entry)?)));
        adds.filter(|(_, add)| add.word == word).collect()
    }

    pub(crate) fn keep_add(
        &mut self,
        actor: Actor,
        (word, owner): (usize, usize),
        column: usize,
        Added { operand, tag }: Added,
    ) {
        let (layout, me, group) = (*self.layout, actor.rank, word % ADD_GROUPS);
        let clock = layout.clock_of(me, actor.strand);
        let mut after = 0;
        for (entry, add) in self.adds_of(word) {
            let is_fenced = self.is_fenced(actor, owner, add.column, add.time);
            if is_fenced || add.time <= self.numbers[clock + add.column] {
                after |= 1 << entry;
            }
        }
        // The oldest makes room.
        let next = layout.next_add(group);
        let entry = self.numbers[next] as usize;
        self.numbers[next] = (entry as u32 + 1) % ADDS as u32;
        self.tell_add(group, entry);
        let at = layout.add(group, entry);
        let (time, low, high) = (self.time(me), operand as u32, (operand >> 32) as u32);
        let after = after & !(1 << entry);
        let numbers = [word as u32 + 1, tag, column as u32, time, low, high, after];
        self.numbers[at..at + ADD_NUMBERS].copy_from_slice(&numbers);
        self.numbers[count::ADDS] = 1;
    }

    /// Keeps a put no longer: whoever looks at its word counts as knowing of it.
    fn tell_add(&mut self, group: usize, entry: usize) {
        let layout = *self.layout;
        if let Some(Add { word, column, time, .. }) = self.add(group, entry) {
            let before = layout.last_column_of_word(word, column) + Block::of(column).columns;
            self.numbers[before] = self.numbers[before].max(time);
        }
        self.numbers[layout.add(group, entry)..][..ADD_NUMBERS].fill(0);
        for other in 0..ADDS {
            let after = layout.add(group, other) + ADD_NUMBERS - 1;
            self.numbers[after] &= !(1 << entry);
        }
    }

    /// A word was given a value: what was added before tells nothing any more.
    pub(crate) fn tell_adds(&mut self, word: usize) {
        for (entry, _) in self.adds_of(word) {
            self.tell_add(word % ADD_GROUPS, entry);
        }
    }

    /// A strand has read a word: it learns of the puts that its value tells of. Without a wait it
    /// is not known which value it needed, and it learns of all; so it does when it has read
    /// another word with the same clock.
    pub(crate) fn learn_adds(&mut self, actor: Actor, word: usize, waited: Option<Waited>) {
        let clock = self.layout.clock_of(actor.rank, actor.strand);
        let waited = waited.filter(|waited| !self.is_another(word, waited.tag));
        let adds = self.adds_of(word);
        let sum = |which: &dyn Fn(&Add) -> bool| -> u64 {
            let operands = adds.iter().filter(|(_, add)| which(add)).map(|(_, add)| add.operand);
            operands.fold(0, u64::saturating_add)
        };
        // What is less than the sum of all that this strand has not heard of lacks some of it. A
        // word that holds nothing, or less, has begun below zero.
        let unheard = sum(&|add| self.numbers[clock + add.column] < add.time);
        let slack = waited.map_or(0, |Waited { seen, slack, .. }| match seen {
            1..HALF => slack.saturating_add(unheard.saturating_sub(seen)),
            _ => slack,
        });
        for &(entry, add) in &adds {
            let without = sum(&|other| other.after >> entry & 1 == 1).saturating_add(add.operand);
            if waited.is_none() || without > slack {
                let known = &mut self.numbers[clock + add.column];
                *known = (*known).max(add.time);
            }
        }
    }

    pub(crate) fn forget_adds(&mut self) {
        if self.numbers[count::ADDS] != 0 {
            let layout = *self.layout;
            self.numbers[layout.next_add(0)..layout.next_add(ADD_GROUPS)].fill(0);
        }
    }
}

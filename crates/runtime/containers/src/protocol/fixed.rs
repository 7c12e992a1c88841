//! A volume of a fixed size: a table, and a heap for what does not fit into it.
//!
//! Paper:     [RMALOCK16] section 5.3: an insert is a compare-swap on the table; who loses takes
//!            the next free cell of the heap by fetch-add, and moves the pointer to the last
//!            element by a second compare-swap.
//! Differs:   an element is a key with a value, changed together as a pair. An element of the heap
//!            leads to the one before it, so that the second compare-swap is all that makes it
//!            visible; and a key that is there is found first, since a map has each key once. Under
//!            a lock of the volume, plain puts and gets do the same.
//! State:     4 words for each slot of the table and each cell of the heap, 1 word for the volume.
//! Invariant: each key once; what is in the table stays there.
//! Ordering:  an element lands ahead of the compare-swap that leads to it
//!            (`an_element_without_order_is_caught`); who loses that compare-swap looks at what
//!            came meanwhile (`an_element_without_a_second_look_is_caught`).
//! Cost:      insert: 1 compare-swap; after a collision 1 load for the last element, 2 gets for
//!            each element of the heap, 1 fetch-add, 1 put, 1 compare-swap. Get: 1 load; after a
//!            collision 1 load, and 2 gets for each element of the heap. Under a lock of the
//!            volume: 1 get, and for an insert 1 put.
//! Checked:   `farside check map/fixed`: 3 ranks insert and get colliding keys, all schedules.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Pair, Place, Window};

use super::hash_of;
use super::steps;

/// Pairs in an element: key and value; the link, and nothing.
const ELEMENT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) slots: u64,
    pub(crate) cells: u64,
}

impl Size {
    /// All words of a volume: the pair that counts the cells in use comes first.
    pub(crate) fn words(self) -> usize {
        2 * (1 + (self.slots + self.cells) as usize * ELEMENT)
    }
}

/// A volume, as one rank uses it.
pub(crate) struct Volume<'a> {
    pub(crate) context: &'a Context,
    pub(crate) words: &'a Window<u64>,
    pub(crate) size: Size,
    pub(crate) rank: Rank,
    /// Whether a lock of the whole volume is held.
    pub(crate) locked: bool,
}

enum Found {
    At {
        element: u64,
        value: u64,
    },
    /// Nowhere; the link to the last element, which is zero if there is none.
    Nowhere {
        last: u64,
    },
}

impl Volume<'_> {
    /// The value of a key, which is stored as one more than itself: zero is an empty slot.
    pub(crate) fn get(&self, stored: u64) -> Result<Option<u64>> {
        let slot = self.slot(stored);
        Ok(match self.read(slot)? {
            Pair(0, _) => None,
            Pair(held, value) if held == stored => Some(value),
            _ => match self.search(slot, stored, 0)? {
                Found::At { value, .. } => Some(value),
                Found::Nowhere { .. } => None,
            },
        })
    }

    pub(crate) fn insert(&self, stored: u64, value: u64) -> Result<Option<u64>> {
        let slot = self.slot(stored);
        let mut seen = Pair(0, 0);
        loop {
            match self.exchange(slot, seen, Pair(stored, value))? {
                held if held == seen => return Ok((seen.0 == stored).then_some(seen.1)),
                Pair(held, old) if held == stored => seen = Pair(stored, old),
                _ => return self.insert_behind(slot, stored, value),
            }
        }
    }

    /// The slot is another key's.
    fn insert_behind(&self, slot: u64, stored: u64, value: u64) -> Result<Option<u64>> {
        let (mut cell, mut known) = (None, 0);
        loop {
            match self.search(slot, stored, known)? {
                Found::At { element, value: old } => {
                    match self.exchange(element, Pair(stored, old), Pair(stored, value))? {
                        held if held == Pair(stored, old) => return Ok(Some(old)),
                        _ => continue,
                    }
                }
                Found::Nowhere { last } => {
                    let element = match cell {
                        Some(element) => element,
                        None => self.allocate()?,
                    };
                    cell = Some(element);
                    let words = [stored, value, last, 0];
                    self.context.put(&words, self.word(element, 0))?;
                    if !self.context.omits(steps::ORDER) {
                        self.context.fence()?;
                    }
                    // Links begin with the first cell of the heap.
                    let link = element - self.size.slots + 1;
                    if self.lead_to(slot, last, link)? {
                        return Ok(None);
                    }
                    if self.context.omits(steps::LOOK_AGAIN) {
                        return self.push(slot, element, link);
                    }
                    known = last;
                }
            }
        }
    }

    /// Links an element without another look at what is there.
    fn push(&self, slot: u64, element: u64, link: u64) -> Result<Option<u64>> {
        loop {
            let last = self.last(slot)?;
            self.context.store(self.word(element, 2), last)?;
            if self.lead_to(slot, last, link)? {
                return Ok(None);
            }
        }
    }

    /// Looks for a key from the last element of a slot back to the one that is known.
    fn search(&self, slot: u64, stored: u64, known: u64) -> Result<Found> {
        let last = self.last(slot)?;
        let mut link = last;
        while link != known && link != 0 {
            let element = self.size.slots + link - 1;
            match self.read(element)? {
                Pair(held, value) if held == stored => return Ok(Found::At { element, value }),
                _ => link = self.context.get_value(self.word(element, 2))?,
            }
        }
        Ok(Found::Nowhere { last })
    }

    fn slot(&self, stored: u64) -> u64 {
        hash_of(&[stored]) % self.size.slots
    }

    /// The link to the last element of a slot.
    fn last(&self, slot: u64) -> Result<u64> {
        if self.locked {
            self.context.get_value(self.word(slot, 2))
        } else {
            self.context.load(self.word(slot, 2))
        }
    }

    /// Makes an element the last of a slot, unless another came first.
    fn lead_to(&self, slot: u64, last: u64, link: u64) -> Result<bool> {
        if self.locked {
            return self.context.put_value(link, self.word(slot, 2)).map(|()| true);
        }
        Ok(self.context.compare_swap(self.word(slot, 2), last, link)? == last)
    }

    fn allocate(&self) -> Result<u64> {
        let cell = self.context.fetch_add(self.words.at(self.rank, 0), 1)?;
        if cell < self.size.cells && !self.context.omits(steps::FIND_CELLS) {
            return Ok(self.size.slots + cell);
        }
        Err(Error::TooMuch {
            what: "cells of a volume of a fixed-size map (allocate it with more cells)",
            value: cell + 1,
            limit: self.size.cells,
        })
    }

    fn read(&self, element: u64) -> Result<Pair> {
        if !self.locked {
            return self.context.load(self.pair(element));
        }
        let mut words = [0; 2];
        self.context.get(self.word(element, 0), &mut words)?;
        Ok(Pair(words[0], words[1]))
    }

    fn exchange(&self, element: u64, seen: Pair, new: Pair) -> Result<Pair> {
        if !self.locked {
            return self.context.compare_swap(self.pair(element), seen, new);
        }
        let held = self.read(element)?;
        if held == seen {
            self.context.put(&[new.0, new.1], self.word(element, 0))?;
        }
        Ok(held)
    }

    fn pair(&self, element: u64) -> Place<'_, Pair> {
        self.word(element, 0).cast()
    }

    fn word(&self, element: u64, word: usize) -> Place<'_, u64> {
        self.words.at(self.rank, 2 * (1 + element as usize * ELEMENT) + word)
    }
}

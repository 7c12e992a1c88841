//! A volume of 64-bit integers of a fixed size: a table, and a heap for what does not fit into it.
//!
//! Paper:     [RMALOCK16] section 5.3 (foMPI-A): the elements are 64-bit integers, and every atomic
//!            is one on 64 bits. An insert is a compare-swap on the table; who loses takes the next
//!            free cell of the heap by fetch-add, and moves the pointer to the last element by a
//!            second compare-swap.
//! Differs:   an element of the heap leads to the one before it, so that the second compare-swap is
//!            all that makes it visible; and an integer that is there is found first, so that
//!            repeated inserts do not use the heap up. Under a lock of the volume, plain puts and
//!            gets do the same.
//! State:     2 words for each slot of the table and each cell of the heap, 1 word for the volume.
//! Invariant: each integer once; what is there stays there.
//! Ordering:  an element lands ahead of the compare-swap that leads to it
//!            (`an_integer_without_order_is_caught`); who loses that compare-swap looks at what
//!            came meanwhile (`an_integer_without_a_second_look_is_caught`).
//! Cost:      insert: 1 compare-swap; after a collision 1 load for the last element, 1 get for each
//!            element of the heap, 1 fetch-add, 1 put, 1 compare-swap. Look: 1 load; after a
//!            collision 1 load, and 1 get for each element of the heap
//!            (`integers_cost_what_their_file_says`). Under a lock of the volume: 1 get, and for an
//!            insert 1 put.
//! Checked:   `farside check map/integers`: 3 ranks insert and look for colliding integers, all
//!            schedules.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Place, Window};

use super::hash_of;
use super::steps;

/// Words of an element: the integer, and the link to the element before it. In a slot of the table
/// the second word leads to the last element of the heap.
const ELEMENT: usize = 2;
const INTEGER: usize = 0;
const LINK: usize = 1;

/// The words of a volume of so many slots and cells: that which counts the cells in use is first.
pub(crate) fn words(slots: u64, cells: u64) -> usize {
    1 + (slots + cells) as usize * ELEMENT
}

/// A volume, as one rank uses it.
pub(crate) struct Volume<'a> {
    pub(crate) context: &'a Context,
    pub(crate) words: &'a Window<u64>,
    pub(crate) slots: u64,
    pub(crate) cells: u64,
    pub(crate) rank: Rank,
    /// Whether a lock of the whole volume is held.
    pub(crate) locked: bool,
}

enum Found {
    Here,
    /// No; the link to the last element, which is zero if there is none.
    Nowhere {
        last: u64,
    },
}

impl Volume<'_> {
    /// Returns whether an integer is there, which is stored as one more than itself: zero is an
    /// empty slot.
    pub(crate) fn contains(&self, stored: u64) -> Result<bool> {
        let slot = self.slot(stored);
        let held = if self.locked {
            self.context.get_value(self.word(slot, INTEGER))?
        } else {
            self.context.load(self.word(slot, INTEGER))?
        };
        Ok(match held {
            0 => false,
            held if held == stored => true,
            _ => matches!(self.search(slot, stored, 0)?, Found::Here),
        })
    }

    pub(crate) fn insert(&self, stored: u64) -> Result<bool> {
        let slot = self.slot(stored);
        match self.exchange(self.word(slot, INTEGER), 0, stored)? {
            0 => Ok(true),
            held if held == stored => Ok(false),
            _ => self.insert_behind(slot, stored),
        }
    }

    /// The slot is another integer's.
    fn insert_behind(&self, slot: u64, stored: u64) -> Result<bool> {
        let (mut cell, mut known) = (None, 0);
        loop {
            let Found::Nowhere { last } = self.search(slot, stored, known)? else {
                return Ok(false);
            };
            let element = match cell {
                Some(element) => element,
                None => self.allocate()?,
            };
            cell = Some(element);
            self.context.put(&[stored, last], self.word(element, INTEGER))?;
            if !self.context.omits(steps::ORDER) {
                self.context.fence()?;
            }
            // Links begin with the first cell of the heap.
            let link = element - self.slots + 1;
            if self.exchange(self.word(slot, LINK), last, link)? == last {
                return Ok(true);
            }
            if self.context.omits(steps::LOOK_AGAIN) {
                return self.push(slot, element, link);
            }
            known = last;
        }
    }

    /// Links an element without another look at what is there.
    fn push(&self, slot: u64, element: u64, link: u64) -> Result<bool> {
        loop {
            let last = self.last(slot)?;
            self.context.store(self.word(element, LINK), last)?;
            if self.exchange(self.word(slot, LINK), last, link)? == last {
                return Ok(true);
            }
        }
    }

    /// Looks for an integer from the last element of a slot back to the one that is known.
    fn search(&self, slot: u64, stored: u64, known: u64) -> Result<Found> {
        let last = self.last(slot)?;
        let mut link = last;
        while link != known && link != 0 {
            let mut element = [0; ELEMENT];
            self.context.get(self.word(self.slots + link - 1, INTEGER), &mut element)?;
            if element[INTEGER] == stored {
                return Ok(Found::Here);
            }
            link = element[LINK];
        }
        Ok(Found::Nowhere { last })
    }

    fn slot(&self, stored: u64) -> u64 {
        hash_of(&[stored]) % self.slots
    }

    /// The link to the last element of a slot.
    fn last(&self, slot: u64) -> Result<u64> {
        if self.locked {
            self.context.get_value(self.word(slot, LINK))
        } else {
            self.context.load(self.word(slot, LINK))
        }
    }

    fn allocate(&self) -> Result<u64> {
        let cell = self.context.fetch_add(self.words.at(self.rank, 0), 1)?;
        if cell < self.cells && !self.context.omits(steps::FIND_CELLS) {
            return Ok(self.slots + cell);
        }
        Err(Error::TooMuch {
            what: "cells of a volume of a fixed-size set (allocate it with more cells)",
            value: cell + 1,
            limit: self.cells,
        })
    }

    /// Changes a word if it is as it was seen; returns what it was.
    fn exchange(&self, word: Place<'_, u64>, seen: u64, new: u64) -> Result<u64> {
        if !self.locked {
            return self.context.compare_swap(word, seen, new);
        }
        let held = self.context.get_value(word)?;
        if held == seen {
            self.context.put_value(new, word)?;
        }
        Ok(held)
    }

    fn word(&self, element: u64, word: usize) -> Place<'_, u64> {
        self.words.at(self.rank, 1 + element as usize * ELEMENT + word)
    }
}

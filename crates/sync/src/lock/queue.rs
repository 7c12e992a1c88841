//! A queue of waiting ranks in which each waits on a word of its own memory, and which a waiter can
//! leave before its turn.
//!
//! Paper:     \[ARMCI03\] section 3.2.2, figure 5; \[RMALOCK16\] listings 2 and 3 (D-MCS).
//! Differs:   a link is one packed word, so no pair atomics are needed. A node at rest is all zero,
//!            so nothing is prepared before the swap. Who may give up says so in its link, and is
//!            then passed the lock by a compare-swap instead of a signal. Giving up is one
//!            compare-swap on the own status; the place stays in the queue until its predecessor
//!            passes over it, and its owner may take it again until then. The status carries a
//!            value from the one who passes.
//! State:     1 word (tail) at one rank, 2 words (next, status) on every rank.
//! Invariant: at most one rank between `enter` and `leave`; entry in the order of the swaps on the
//!            tail.
//! Ordering:  what is passed must have landed before `leave` (`a_queue_without_flush_is_caught`); a
//!            successor that has swapped the tail and not yet linked itself is waited for
//!            (`a_queue_without_a_second_look_is_caught`); a place is given up by one compare-swap
//!            (`a_place_that_is_given_up_in_two_steps_is_caught`) and passed over
//!            (`a_place_that_nobody_passes_over_is_caught`).
//! Cost:      enter 1 atomic, +1 signal and 1 store to itself if queued; leave 1 load and 1 atomic
//!            alone, else 1 load, 1 store to itself and 1 signal.
//! Checked:   as part of the locks that use it.

use std::cell::Cell;

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use super::frame::{Patience, Site, Standing, Variant};

/// How many words of every rank a queue takes.
pub const WORDS: usize = 3;
const TAIL: usize = 0;
const NEXT: usize = 1;
const STATUS: usize = 2;

/// What a status says, in its lowest bits; the rest is the value that was passed.
const WAITING: u64 = 0;
const GRANTED: u64 = 1;
/// Its owner has given up, and may come back.
const ABANDONED: u64 = 2;
/// Its predecessor passes over it: the owner must not come back now.
const SKIPPING: u64 = 3;
/// It is out of the queue.
const SKIPPED: u64 = 4;
/// It waits, and only its predecessor is before it.
const NEARLY: u64 = 5;
const KIND_BITS: u32 = 3;

/// The offset part of a link says whether the node may be abandoned.
const PATIENT: u64 = 0;
const IMPATIENT: u64 = 1;

/// One queue, as one rank uses it.
pub struct Queue {
    /// Where its words begin.
    base: usize,
    /// Whose memory holds the tail.
    tail: Rank,
    /// Whether this rank's node was given up and may still stand in the queue.
    abandoned: Cell<bool>,
    /// The link with which this rank's node stands in the queue.
    link: Cell<Link>,
    /// Whether waiters sleep at once until they are roused or passed the lock.
    dozes: bool,
    /// The level of the topology that it belongs to, the narrowest being 0.
    level: usize,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nobody was before it.
    First,
    /// The predecessor has passed the lock, and this value.
    Passed(u64),
    /// Not its turn within the time given.
    GaveUp,
}

impl Queue {
    pub fn new(base: usize, tail: Rank) -> Queue {
        Queue {
            base,
            tail,
            abandoned: Cell::new(false),
            link: Cell::new(Link::NULL),
            dozes: false,
            level: 0,
        }
    }

    /// The queue of an element of this level of the topology.
    pub fn of_level(self, level: usize) -> Queue {
        Queue { level, ..self }
    }

    /// Whether waiters that nobody has roused sleep at once: for ranks that outnumber processors.
    pub fn dozing(self, dozes: bool) -> Queue {
        Queue { dozes, ..self }
    }

    /// Tells the next in the queue, if it is known and near, that only this rank is before it.
    pub fn rouse_next(&self, site: &Site, context: &Context) -> Result<()> {
        if !self.dozes {
            return Ok(());
        }
        let next = Link::from_bits(context.load(site.at(context.rank(), self.base + NEXT))?);
        if let Some((rank, _)) =
            next.target().filter(|&(rank, _)| context.topology().same_node(rank, context.rank()))
        {
            context.compare_swap(site.at(rank, self.base + STATUS), WAITING, NEARLY)?;
        }
        Ok(())
    }

    /// The link of this rank's node, for whoever is to leave in its stead.
    pub fn link(&self) -> Link {
        self.link.get()
    }

    /// Whether somebody is known to stand behind a rank's node.
    pub fn has_next(&self, site: &Site, context: &Context, node: Rank) -> Result<bool> {
        Ok(context.load(site.at(node, self.base + NEXT))? != 0)
    }

    /// Takes a place and waits for the turn.
    pub fn enter<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
    ) -> Result<Entry> {
        let me = context.rank();
        if self.abandoned.get() && !self.is_free(site, context, patience)? {
            return if patience == Patience::Never {
                Ok(Entry::GaveUp)
            } else {
                self.await_turn::<V>(site, context, patience)
            };
        }
        let mine = Link::new(me, if patience.may_give_up() { IMPATIENT } else { PATIENT })?;
        let tail = site.at(self.tail, self.base + TAIL);
        self.link.set(mine);
        if patience == Patience::Never {
            let before = context.compare_swap(tail, 0, mine.bits())?;
            return Ok(if before == 0 { Entry::First } else { Entry::GaveUp });
        }
        let before = Link::from_bits(context.swap(tail, mine.bits())?);
        V::waits(context, Standing::Queued(self.level))?;
        let Some((pred, _)) = before.target() else {
            return Ok(Entry::First);
        };
        context.signal(site.at(pred, self.base + NEXT), mine.bits())?;
        self.await_turn::<V>(site, context, patience)
    }

    fn await_turn<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
    ) -> Result<Entry> {
        let status = site.at(context.rank(), self.base + STATUS);
        let is_granted = |status: u64| kind(status) == GRANTED;
        let is_roused = |status: u64| status == NEARLY || is_granted(status);
        if self.dozes && patience == Patience::Forever {
            site.wait_patiently(context, self.base + STATUS, is_roused, (patience, false))?;
        }
        let granted =
            match site.wait_patiently(context, self.base + STATUS, is_granted, (patience, true))? {
                Some(granted) => granted,
                None => match self.give_up::<V>(site, context)? {
                    None => return Ok(Entry::GaveUp),
                    Some(granted) => granted,
                },
            };
        context.store(status, WAITING)?;
        Ok(Entry::Passed(granted >> KIND_BITS))
    }

    /// Gives up the place, unless the turn has come at that moment: then returns what was passed.
    fn give_up<V: Variant>(&self, site: &Site, context: &Context) -> Result<Option<u64>> {
        let status = site.at(context.rank(), self.base + STATUS);
        let mut held = WAITING;
        loop {
            let seen = if V::GIVES_UP_AT_ONCE {
                context.compare_swap(status, held, ABANDONED)?
            } else {
                let seen = context.load(status)?;
                context.store(status, ABANDONED)?;
                seen
            };
            if kind(seen) == GRANTED {
                return Ok(Some(seen));
            }
            if seen == held {
                self.abandoned.set(true);
                return Ok(None);
            }
            held = seen;
        }
    }

    /// Whether a node that was given up is out of the queue. If it is not, it waits again at its
    /// old place, unless there is no patience for that.
    fn is_free(&self, site: &Site, context: &Context, patience: Patience) -> Result<bool> {
        let status = site.at(context.rank(), self.base + STATUS);
        let mut held = if patience == Patience::Never {
            context.load(status)?
        } else {
            context.compare_swap(status, ABANDONED, WAITING)?
        };
        if held == SKIPPING {
            held = site.wait(context, self.base + STATUS, |status| status == SKIPPED)?;
        }
        let is_free = held == SKIPPED;
        if is_free {
            context.store(site.at(context.rank(), self.base + NEXT), 0)?;
            context.store(status, WAITING)?;
        }
        self.abandoned.set(!is_free && patience == Patience::Never);
        Ok(is_free)
    }

    /// Whether nobody stands in the queue.
    pub fn is_empty(&self, site: &Site, context: &Context) -> Result<bool> {
        Ok(context.load(site.at(self.tail, self.base + TAIL))? == 0)
    }

    /// Leaves with this rank's own node. See [`Queue::leave_as`].
    pub fn leave<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        value: u64,
    ) -> Result<Option<Rank>> {
        self.leave_as::<V>(site, context, self.link.get(), |_| Ok(value))
    }

    /// Leaves with this rank's own node. `value` may prepare for each rank that may be the next;
    /// `None` says that it was passed over.
    pub fn leave_with<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        value: impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<Rank>> {
        self.leave_as::<V>(site, context, self.link.get(), value)
    }

    /// Leaves with the node that `mine` names, and passes a value to the next in the queue; returns
    /// who that was.
    pub fn leave_as<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        mine: Link,
        mut value: impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<Rank>> {
        let Some((node, _)) = mine.target() else {
            return Ok(None);
        };
        let own_next = site.at(node, self.base + NEXT);
        let mut next = context.load(own_next)?;
        if next == 0 {
            next = self.next_or_none::<V>(site, context, node, mine.bits())?;
        }
        if next == 0 {
            return Ok(None);
        }
        context.store(own_next, 0)?;
        // Each turn passes over one place that was given up.
        while let Some((rank, mood)) = Link::from_bits(next).target() {
            let passed = (value(Some(rank))? << KIND_BITS) | GRANTED;
            let status = site.at(rank, self.base + STATUS);
            if mood == PATIENT || !V::SKIPS {
                context.signal(status, passed)?;
                return Ok(Some(rank));
            }
            let held = context.compare_swap(status, WAITING, passed)?;
            if held == WAITING
                || (held == NEARLY && context.compare_swap(status, NEARLY, passed)? == NEARLY)
            {
                return Ok(Some(rank));
            }
            // Its owner may come back at any moment: then it is passed the lock after all.
            if context.compare_swap(status, ABANDONED, SKIPPING)? == ABANDONED {
                value(None)?;
                let skipped = next;
                next = context.load(site.at(rank, self.base + NEXT))?;
                if next == 0 {
                    next = self.next_or_none::<V>(site, context, rank, skipped)?;
                }
                context.signal(status, SKIPPED)?;
            }
        }
        Ok(None)
    }

    /// The node behind `node`, which has none that is known; zero if there is none, and then the
    /// queue is empty.
    fn next_or_none<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        node: Rank,
        mine: u64,
    ) -> Result<u64> {
        let tail = site.at(self.tail, self.base + TAIL);
        if context.compare_swap(tail, mine, 0)? == mine {
            return Ok(0);
        }
        if V::LOOKS_AGAIN {
            site.watch(context, node, self.base + NEXT, |next| next != 0)
        } else {
            context.load(site.at(node, self.base + NEXT))
        }
    }
}

fn kind(status: u64) -> u64 {
    status & ((1 << KIND_BITS) - 1)
}

//! The distributed counter of readers: each reader counts itself in one of several words, and a writer closes all of them.
//!
//! Paper:     [RMALOCK16] sections 3.2.1 and 3.3.5, listings 6, 9 and 10.
//! Differs:   as printed, this is not correct. (1) The printed `set_counters_to_WRITE` does not wait for readers that are inside: here a writer waits,
//!            counter by counter, until as many have departed as had arrived when it closed the counter. (2) A printed reader that reaches T_R while a
//!            writer leaves waits for a reset that nobody will make: here it asks again whether writers are waiting, for as long as it is kept out. (3) The
//!            printed reset of a counter is several steps, and one of a reader can take away the mark of a writer that came in between: here arrivals,
//!            departures, mark and phase are one word, and a reader resets it by one compare-swap. Further: a reader that finds the counter
//!            closed leaves its arrival there and waits for the phase to change, so that the next opening lets it in for sure: printed readers withdraw,
//!            try again, and can be overtaken for ever. Who was kept out by T_R before is not kept out by it again after the next writers. Reaching
//!            T_R matters only while writers wait. Counters are closed and opened all at a time, not one after the other.
//! State:     1 word on every rank that keeps a counter, used by the `t_dc` ranks next to it in the topology; 1 word on every rank that nobody writes.
//! Invariant: arrivals - departures are the readers inside, those about to withdraw, and those waiting for the next phase. No reader goes in while
//!            the mark is set; who closed a counter goes on only when all have departed who had arrived before. Once a writer stands
//!            in the widest queue, at most T_R + `t_dc` readers of a counter go in before it; a reader waits for at most 2 T_W writers.
//! Ordering:  a writer waits for the readers inside (`printed_readers_and_writers_meet`); a reader asks again
//!            (`printed_readers_wait_for_a_writer_that_has_left`); it resets in one step (`printed_resets_take_a_mark_away`).
//! Cost:      read 1 atomic; +1 load and 1 atomic at T_R; +1 load for each look while it waits; end 1 atomic. Close 1 atomic for each counter, and 1 load for each
//!            look at one with readers inside; open 1 atomic for each counter, +1 load if another rank has closed it.
//! Checked:   as part of `rma_rw`.

use std::cell::RefCell;

use farside_fabric::{Rank, Result, Topology};
use farside_rma::{Context, Place};

use super::frame::Tally;
use crate::lock::frame::{Patience, Site, Variant};

/// How many words of every rank it takes.
pub(super) const WORDS: usize = 2;
const COUNTER: usize = 0;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 1;

/// The fields of a counter: arrivals, departures, whether it is closed, and a phase that grows with each opening.
const FIELD_BITS: u32 = 28;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const ARRIVAL: u64 = 1;
const DEPARTURE: u64 = 1 << FIELD_BITS;
const CLOSED: u64 = 1 << (2 * FIELD_BITS);
const PHASE: u64 = CLOSED << 1;
/// The largest T_R: fields must not run over.
const T_R_MAX: u32 = 1 << 24;

/// The counters, as one rank uses them.
pub(super) struct Counters {
    base: usize,
    /// Who keeps one.
    keepers: Box<[Rank]>,
    /// Whose this rank counts itself in.
    mine: Rank,
    t_r: u64,
    /// How many had arrived at each counter when this rank closed it, until it has opened it again or passed it on.
    arrived: RefCell<Vec<u64>>,
}

/// What a reader needs to know of the writers.
pub(super) trait Writers {
    /// Whether some are waiting or inside.
    fn are_there(&self) -> Result<bool>;
}

impl Counters {
    /// Counters over words from `base` on: one for every `t_dc` ranks, or one on each node.
    pub(super) fn new(base: usize, context: &Context, members: &[Rank], t_dc: Option<u32>, t_r: u32) -> Counters {
        let groups = groups(context.topology(), members, t_dc);
        let own = groups.iter().find(|group| group.contains(&context.rank()));
        Counters {
            base,
            mine: own.map_or(context.rank(), |group| group[0]),
            keepers: groups.iter().map(|group| group[0]).collect(),
            t_r: t_r.clamp(1, T_R_MAX).into(),
            arrived: RefCell::default(),
        }
    }

    fn word<'s>(&self, site: &'s Site, keeper: Rank) -> Place<'s, u64> {
        site.at(keeper, self.base + COUNTER)
    }

    /// Goes in as a reader.
    #[inline]
    pub(super) fn arrive<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
        (tally, writers): (&Tally, &impl Writers),
    ) -> Result<bool> {
        let word = self.word(site, self.mine);
        let mut kept_out_in = None;
        loop {
            let old = context.fetch_add(word, ARRIVAL)?;
            let is_open = old & CLOSED == 0;
            if is_open && (arrivals(old) < self.t_r || kept_out_in.is_some_and(|phase| phase != phase_of(old))) {
                return Ok(true);
            }
            if !is_open {
                tally.note(|tally| &tally.reads_queued);
                return self.await_opening(site, context, phase_of(old), patience);
            }
            tally.note(|tally| &tally.limit_reached);
            if !writers.are_there()? {
                tally.note(|tally| &tally.limit_lifted);
                self.reset::<V>(site, context, old.wrapping_add(ARRIVAL))?;
                return Ok(true);
            }
            // A writer that has closed the counter by now waits for this reader's departure.
            context.fetch_add(word, DEPARTURE)?;
            tally.note(|tally| &tally.limit_kept);
            if patience == Patience::Never {
                return Ok(false);
            }
            kept_out_in = Some(phase_of(old));
            let is_over = site.poll(context, self.base + PAUSE, patience, || {
                let now = context.load(word)?;
                let is_news = now & CLOSED != 0 || phase_of(now) != phase_of(old) || arrivals(now) < self.t_r;
                Ok(is_news || (V::ASKS_AGAIN && !writers.are_there()?))
            })?;
            if !is_over {
                return Ok(false);
            }
        }
    }

    /// Waits until the counter has been opened: then this rank is inside, whatever has happened since.
    fn await_opening(&self, site: &Site, context: &Context, phase: u64, patience: Patience) -> Result<bool> {
        let is_opened = |word: u64| phase_of(word) != phase;
        let word = self.word(site, self.mine);
        let is_inside = if self.mine == context.rank() {
            site.wait_patiently(context, self.base + COUNTER, is_opened, (patience, true))?.is_some()
        } else {
            let look = || Ok(is_opened(context.load(word)?));
            patience != Patience::Never && site.poll(context, self.base + PAUSE, patience, look)?
        };
        if is_inside {
            return Ok(true);
        }
        let mut seen = context.load(word)?;
        while !is_opened(seen) {
            let held = context.compare_swap(word, seen, seen - ARRIVAL)?;
            if held == seen {
                return Ok(false);
            }
            seen = held;
        }
        Ok(true)
    }

    /// Leaves as a reader.
    #[inline]
    pub(super) fn depart(&self, site: &Site, context: &Context) -> Result<()> {
        context.fetch_add(self.word(site, self.mine), DEPARTURE).map(drop)
    }

    /// As a reader: takes departures off both fields, so that the arrivals of this phase are counted from now on.
    fn reset<V: Variant>(&self, site: &Site, context: &Context, seen: u64) -> Result<()> {
        let word = self.word(site, self.mine);
        if V::RESETS_AT_ONCE {
            // If somebody comes in between, the next reader tries.
            return context.compare_swap(word, seen, seen.wrapping_sub(both(departures(seen)))).map(drop);
        }
        let seen = context.load(word)?;
        context.fetch_add(word, both(departures(seen)).wrapping_add(seen & CLOSED).wrapping_neg()).map(drop)
    }

    /// As a writer, alone: keeps readers out and waits until none is inside. If that takes too long, lets them in again.
    pub(super) fn close<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
        tally: &Tally,
    ) -> Result<bool> {
        let seen = self.add_to_all(site, context, |_| CLOSED)?;
        tally.note(|tally| &tally.closed);
        let mut is_drained = true;
        for (&keeper, &seen) in self.keepers.iter().zip(&seen) {
            let arrived = arrivals(seen);
            if arrived == departures(seen) || !V::DRAINS || !is_drained {
                continue;
            }
            tally.note(|tally| &tally.drained);
            let is_over = |word: u64| departures(word) == arrived;
            is_drained = if patience == Patience::Forever {
                site.watch(context, keeper, self.base + COUNTER, is_over).map(|_| true)?
            } else {
                let look = || Ok(is_over(context.load(self.word(site, keeper))?));
                site.poll(context, self.base + PAUSE, patience, look)?
            };
        }
        if is_drained {
            *self.arrived.borrow_mut() = seen.iter().map(|&seen| arrivals(seen)).collect();
        } else {
            self.add_to_all(site, context, |_| PHASE.wrapping_sub(CLOSED))?;
        }
        Ok(is_drained)
    }

    /// As a writer: lets readers in, those first who have waited.
    pub(super) fn open(&self, site: &Site, context: &Context, tally: &Tally) -> Result<()> {
        let mut arrived = std::mem::take(&mut *self.arrived.borrow_mut());
        if arrived.is_empty() {
            // Another rank has closed them. All that have arrived before that have departed.
            arrived = self.add_to_all(site, context, |_| 0)?.into_iter().map(departures).collect();
        }
        self.add_to_all(site, context, |at| PHASE.wrapping_sub(CLOSED).wrapping_sub(both(arrived[at])))?;
        tally.note(|tally| &tally.opened);
        Ok(())
    }

    /// As a writer: another one will open them.
    pub(super) fn pass_on(&self) {
        self.arrived.borrow_mut().clear();
    }

    /// Adds to all counters at the same time.
    fn add_to_all(&self, site: &Site, context: &Context, value: impl Fn(usize) -> u64) -> Result<Vec<u64>> {
        let start = |(at, &keeper): (usize, &Rank)| context.fetch_add_nb(self.word(site, keeper), value(at));
        let started = self.keepers.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|fetch| fetch.wait()).collect()
    }
}

#[inline]
fn arrivals(word: u64) -> u64 {
    word & FIELD_MASK
}

#[inline]
fn departures(word: u64) -> u64 {
    (word >> FIELD_BITS) & FIELD_MASK
}

#[inline]
fn phase_of(word: u64) -> u64 {
    word / PHASE
}

/// So many arrivals and as many departures.
fn both(count: u64) -> u64 {
    count * (ARRIVAL + DEPARTURE)
}

/// The members that share a counter: `t_dc` neighbours of a node, or as many whole nodes as have that many, or each node by itself.
fn groups(topology: &Topology, members: &[Rank], t_dc: Option<u32>) -> Vec<Vec<Rank>> {
    let mut by_node: Vec<Vec<Rank>> = Vec::new();
    let mut sorted = members.to_vec();
    let place =
        |rank: &Rank| -> Vec<u32> { topology.levels().iter().map(|level| level.element_of[rank.index()]).collect() };
    sorted.sort_by_cached_key(place);
    for rank in sorted {
        match by_node.last_mut() {
            Some(node) if topology.same_node(node[0], rank) => node.push(rank),
            _ => by_node.push(vec![rank]),
        }
    }
    let Some(t_dc) = t_dc.map(|t_dc| t_dc.max(1) as usize) else {
        return by_node;
    };
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    let mut has_room = false;
    for node in by_node {
        if node.len() > t_dc {
            groups.extend(node.chunks(t_dc).map(<[Rank]>::to_vec));
            has_room = false;
            continue;
        }
        match groups.last_mut() {
            Some(group) if has_room => group.extend(node),
            _ => groups.push(node),
        }
        has_room = groups.last().is_some_and(|group| group.len() < t_dc);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_placed_by_the_topology() {
        let keepers = |topology: &str, ranks: u32, t_dc: Option<u32>| -> Vec<u32> {
            let topology = Topology::parse(topology, ranks).unwrap();
            let groups = groups(&topology, topology.all(), t_dc);
            assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), ranks as usize);
            groups.iter().map(|group| group[0].0).collect()
        };
        assert_eq!(keepers("node:4", 16, None), [0, 4, 8, 12]);
        assert_eq!(keepers("node:4", 16, Some(2)), [0, 2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(keepers("node:4", 16, Some(8)), [0, 8]);
        assert_eq!(keepers("node:4", 16, Some(3)), [0, 3, 4, 7, 8, 11, 12, 15]);
        assert_eq!(keepers("node:1", 5, Some(1)), [0, 1, 2, 3, 4]);
    }
}

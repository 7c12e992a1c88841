//! The distributed counter of readers: each reader counts itself in one of several words, and a writer closes all of them.
//!
//! Paper:     [RMALOCK16] sections 3.2.1 and 3.3.5, listings 6, 9 and 10.
//! Differs:   as printed, this is not correct. (1) The printed `set_counters_to_WRITE` does not wait for readers that are inside: here a writer waits
//!            until as many have departed as were inside when it closed the counters. (2) A printed reader that reaches T_R while a writer
//!            leaves waits for a reset that nobody will make: here it asks again whether writers are waiting, for as long as it is kept out. (3) The
//!            printed reset of a counter is several steps, and one of a reader can take away the mark of a writer that came in between: here arrivals,
//!            departures, mark and phase are one word, and a reader resets it by one compare-swap. Further: a reader that finds the counter
//!            closed leaves its arrival there and waits for the phase to change, so that the next opening lets it in for sure: printed readers withdraw,
//!            try again, and can be overtaken for ever. Who was kept out by T_R before is not kept out by it again after the next writers. Reaching
//!            T_R matters only while writers wait. The mark is the writer's name, and who departs from a closed counter tells that writer, which
//!            sleeps until all have. Counters are closed and opened all at a time, not one after the other.
//!            Where ranks outnumber processors, a reader that is let in while it sleeps would hold up the next writer: there it first withdraws
//!            and tries again, and leaves its arrival only when `yields` openings have passed it.
//! State:     1 word on every rank that keeps a counter, used by the `t_dc` ranks next to it in the topology; on every rank 1 word for
//!            departures that it is told of, and 1 that nobody writes.
//! Invariant: arrivals - departures are the readers inside, those about to withdraw, and those waiting for the next phase. No reader goes in while
//!            the mark is set; who closed the counters goes on only when all have departed who had arrived before. Once a writer stands
//!            in the widest queue, at most T_R + `t_dc` readers of a counter go in before it; a reader is let in at the latest by the `yields` + 2nd opening.
//! Ordering:  a writer waits for the readers inside (`printed_readers_and_writers_meet`); a reader asks again
//!            (`printed_readers_wait_for_a_writer_that_has_left`); it resets in one step (`printed_resets_take_a_mark_away`); who departs
//!            tells the writer (`a_writer_that_nobody_tells_is_caught`).
//! Cost:      read 1 atomic; +1 load and 1 atomic at T_R; +1 load for each look while it waits; end 1 atomic, +1 if a writer waits. Close 1 atomic for each
//!            counter; open 1 atomic for each counter, +1 if another rank has closed it.
//! Checked:   as part of `rma_rw` and `slots`.

use std::cell::{Cell, RefCell};

use farside_fabric::{Rank, Result, Topology};
use farside_rma::{Context, Place};

use super::frame::Tally;
use crate::lock::frame::{Patience, Site, Standing, Variant};

/// How many words of every rank it takes.
pub(super) const WORDS: usize = 3;
const COUNTER: usize = 0;
/// A writer is told of departures here.
const DEPARTED: usize = 1;
/// Nobody writes it: a wait for it is a pause.
pub(super) const PAUSE: usize = 2;

/// The fields of a counter: arrivals, departures, one more than the rank that has closed it, and a phase that grows with each opening.
const FIELD_BITS: u32 = 18;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const ARRIVAL: u64 = 1;
const DEPARTURE: u64 = 1 << FIELD_BITS;
const CLOSER: u32 = 2 * FIELD_BITS;
const CLOSER_BITS: u32 = 24;
const CLOSER_MASK: u64 = ((1 << CLOSER_BITS) - 1) << CLOSER;
const PHASE: u64 = 1 << (CLOSER + CLOSER_BITS);
/// The largest T_R: fields must not run over.
pub(super) const T_R_MAX: u32 = 1 << 16;

/// The counters, as one rank uses them.
pub(super) struct Counters {
    base: usize,
    /// Who keeps one.
    keepers: Box<[Rank]>,
    /// Whose this rank counts itself in.
    mine: Rank,
    t_r: u64,
    /// How many openings may pass a reader before it leaves its arrival in a closed counter.
    yields: u32,
    /// Each counter as it was when this rank closed it, until it has opened it again or passed it on.
    closed: RefCell<Vec<u64>>,
    /// How many departures this rank has been told of, or will have been, up to the last opening.
    told: Cell<u64>,
}

/// What a reader needs to know of the writers.
pub(super) trait Writers {
    /// Whether some are waiting or inside.
    fn are_there(&self) -> Result<bool>;

    /// Tells them that a reader waits for the counters to be opened. False if nobody will: then it must go in by another way.
    fn will_open(&self) -> Result<bool> {
        Ok(true)
    }
}

/// How a reader's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is inside.
    Inside,
    /// Not its turn within the time given.
    GaveUp,
    /// The counters are closed, and nobody will open them.
    Shut,
}

impl Arrival {
    fn inside(is_inside: bool) -> Arrival {
        if is_inside { Arrival::Inside } else { Arrival::GaveUp }
    }
}

impl Counters {
    /// Counters over words from `base` on: one for every `t_dc` ranks, or one on each node. Readers withdraw from a closed counter
    /// `yields` times before they insist.
    pub(super) fn new(
        base: usize,
        context: &Context,
        members: &[Rank],
        t_dc: Option<u32>,
        (t_r, yields): (u32, u32),
    ) -> Counters {
        let groups = groups(context.topology(), members, t_dc);
        let own = groups.iter().find(|group| group.contains(&context.rank()));
        Counters {
            base,
            mine: own.map_or(context.rank(), |group| group[0]),
            keepers: groups.iter().map(|group| group[0]).collect(),
            t_r: t_r.clamp(1, T_R_MAX).into(),
            yields,
            closed: RefCell::default(),
            told: Cell::new(0),
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
        about: (&Tally, &impl Writers),
    ) -> Result<Arrival> {
        let old = context.fetch_add(self.word(site, self.mine), ARRIVAL)?;
        if is_open(old) && (arrivals(old) < self.t_r || !V::KEEPS_T_R) {
            return Ok(Arrival::Inside);
        }
        self.arrive_slowly::<V>(site, context, patience, about, old)
    }

    /// Goes on as a reader that has found the counter as `old` says.
    #[cold]
    fn arrive_slowly<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
        (tally, writers): (&Tally, &impl Writers),
        mut old: u64,
    ) -> Result<Arrival> {
        let word = self.word(site, self.mine);
        let (mut kept_out_in, mut passed) = (None, 0);
        loop {
            let phase = phase_of(old);
            if !is_open(old) {
                tally.note(|tally| &tally.reads_queued);
                let insists = passed >= self.yields;
                if !insists && self.withdraw(site, context, phase)? {
                    return Ok(Arrival::Inside);
                }
                if !writers.will_open()? {
                    let is_inside = insists && self.withdraw(site, context, phase)?;
                    return Ok(if is_inside { Arrival::Inside } else { Arrival::Shut });
                }
                V::waits(context, Standing::ShutOut)?;
                if insists {
                    tally.note(|tally| &tally.insisted);
                    return self.await_opening(site, context, phase, patience).map(Arrival::inside);
                }
                passed += 1;
                if !self.wait_on(site, context, patience, |now| is_open(now) || phase_of(now) != phase)? {
                    return Ok(Arrival::GaveUp);
                }
            } else if arrivals(old) < self.t_r || kept_out_in.is_some_and(|kept_out_in| kept_out_in != phase) {
                return Ok(Arrival::Inside);
            } else {
                tally.note(|tally| &tally.limit_reached);
                if !writers.are_there()? {
                    tally.note(|tally| &tally.limit_lifted);
                    self.reset::<V>(site, context, old.wrapping_add(ARRIVAL))?;
                    return Ok(Arrival::Inside);
                }
                // A writer that has closed the counter by now waits for this reader's departure.
                self.depart::<V>(site, context)?;
                tally.note(|tally| &tally.limit_kept);
                kept_out_in = Some(phase);
                if !self.await_writers::<V>(site, context, patience, (phase, writers))? {
                    return Ok(Arrival::GaveUp);
                }
            }
            old = context.fetch_add(word, ARRIVAL)?;
        }
    }

    /// Waits outside, as a reader that was kept out by T_R, until writers have come or gone.
    fn await_writers<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
        (phase, writers): (u64, &impl Writers),
    ) -> Result<bool> {
        let look = || {
            let now = context.load(self.word(site, self.mine))?;
            let is_news = !is_open(now) || phase_of(now) != phase || arrivals(now) < self.t_r;
            Ok(is_news || (V::ASKS_AGAIN && !writers.are_there()?))
        };
        Ok(patience != Patience::Never && site.poll(context, self.base + PAUSE, patience, look)?)
    }

    /// Waits until the counter has been opened: then this rank is inside, whatever has happened since.
    fn await_opening(&self, site: &Site, context: &Context, phase: u64, patience: Patience) -> Result<bool> {
        Ok(self.wait_on(site, context, patience, |now| phase_of(now) != phase)?
            || self.withdraw(site, context, phase)?)
    }

    /// Waits for a change of the counter.
    fn wait_on(&self, site: &Site, context: &Context, patience: Patience, until: impl Fn(u64) -> bool) -> Result<bool> {
        if self.mine == context.rank() {
            return Ok(site.wait_patiently(context, self.base + COUNTER, until, (patience, true))?.is_some());
        }
        let look = || Ok(until(context.load(self.word(site, self.mine))?));
        Ok(patience != Patience::Never && site.poll(context, self.base + PAUSE, patience, look)?)
    }

    /// Takes an arrival back that was made when the counter was closed. True if it has been opened since: then this rank is inside.
    fn withdraw(&self, site: &Site, context: &Context, phase: u64) -> Result<bool> {
        let word = self.word(site, self.mine);
        let mut seen = context.load(word)?;
        while phase_of(seen) == phase {
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
    pub(super) fn depart<V: Variant>(&self, site: &Site, context: &Context) -> Result<()> {
        let old = context.fetch_add(self.word(site, self.mine), DEPARTURE)?;
        if is_open(old) || !V::WAKES {
            return Ok(());
        }
        let closer = Rank(((old & CLOSER_MASK) >> CLOSER) as u32 - 1);
        context.fetch_add(site.at(closer, self.base + DEPARTED), 1).map(drop)
    }

    /// As a reader: takes departures off both fields, so that the arrivals of this phase are counted from now on.
    fn reset<V: Variant>(&self, site: &Site, context: &Context, seen: u64) -> Result<()> {
        let word = self.word(site, self.mine);
        if V::RESETS_AT_ONCE {
            // If somebody comes in between, the next reader tries.
            return context.compare_swap(word, seen, seen.wrapping_sub(both(departures(seen)))).map(drop);
        }
        let seen = context.load(word)?;
        context.fetch_add(word, both(departures(seen)).wrapping_add(seen & CLOSER_MASK).wrapping_neg()).map(drop)
    }

    /// As a writer, alone: keeps readers out and waits until none is inside. If that takes too long, lets them in again.
    pub(super) fn close<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        patience: Patience,
        tally: &Tally,
    ) -> Result<bool> {
        let mark = (u64::from(context.rank().0) + 1) << CLOSER;
        let closed = self.add_to_all(site, context, |_| mark)?;
        tally.note(|tally| &tally.closed);
        let inside: u64 = closed.iter().map(|&word| arrivals(word) - departures(word)).sum();
        if inside > 0 && V::DRAINS {
            tally.note(|tally| &tally.drained);
            let told = self.told.get().wrapping_add(inside);
            let is_told = |now: u64| now == told;
            if site.wait_patiently(context, self.base + DEPARTED, is_told, (patience, true))?.is_none() {
                let opened = self.add_to_all(site, context, |_| PHASE.wrapping_sub(mark))?;
                let departed = closed.iter().zip(&opened).map(|(&then, &now)| departures(now) - departures(then));
                self.told.set(self.told.get().wrapping_add(departed.sum()));
                return Ok(false);
            }
            self.told.set(told);
        }
        // As they are when all have departed.
        *self.closed.borrow_mut() = closed.iter().map(|&word| both(arrivals(word)) | mark).collect();
        Ok(true)
    }

    /// As a writer: lets readers in, those first who have waited.
    pub(super) fn open(&self, site: &Site, context: &Context, tally: &Tally) -> Result<()> {
        let mut closed = std::mem::take(&mut *self.closed.borrow_mut());
        if closed.is_empty() {
            // Another rank has closed them. All that had arrived before have departed.
            let seen = self.add_to_all(site, context, |_| 0)?;
            closed = seen.into_iter().map(|word| both(departures(word)) | (word & CLOSER_MASK)).collect();
        }
        self.add_to_all(site, context, |at| PHASE.wrapping_sub(closed[at]))?;
        tally.note(|tally| &tally.opened);
        Ok(())
    }

    /// As the writer that has closed them: how many had read since they were opened.
    pub(super) fn reads(&self) -> Option<u64> {
        let closed = self.closed.borrow();
        (!closed.is_empty()).then(|| closed.iter().map(|&word| arrivals(word)).sum())
    }

    /// How many counters there are.
    pub(super) fn len(&self) -> usize {
        self.keepers.len()
    }

    /// As a writer: another one will open them.
    pub(super) fn pass_on(&self) {
        self.closed.borrow_mut().clear();
    }

    /// Adds to all counters at the same time.
    fn add_to_all(&self, site: &Site, context: &Context, value: impl Fn(usize) -> u64) -> Result<Vec<u64>> {
        let start = |(at, &keeper): (usize, &Rank)| context.fetch_add_nb(self.word(site, keeper), value(at));
        let started = self.keepers.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|fetch| fetch.wait()).collect()
    }
}

#[inline]
fn is_open(word: u64) -> bool {
    word & CLOSER_MASK == 0
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

//! The distributed counter of readers: each reader counts itself in one of several words, and a
//! writer closes all of them. `counters/README.md` has the argument and what was tried.
//!
//! Paper:     [RMALOCK16] sections 3.2.1 and 3.3.5, listings 6, 9 and 10.
//! Differs:   as printed it is not correct (three errors, in `counters/README.md`): here a writer
//!            drains the readers inside, a reader at T_R asks again, and a count starts anew in one
//!            step. Readers wait inside a closed counter, and writers may give up.
//! State:     1 word on every rank that keeps a counter, used by the `t_dc` ranks next to it in the
//!            topology; on every rank 1 word for departures it is told of.
//! Invariant: a rank that is present when a counter is opened has arrived since it was closed, so
//!            one bit of the turn tells. Once a writer stands in the widest queue, at most T_R + 2
//!            `t_dc` readers of a counter go in before it.
//! Ordering:  rw/rma-rw-without-drain, -without-asking-again and -resets-in-steps are the printed
//!            errors; further rw/rma-rw-without-waking, -gives-up-on-readers and -runs-over.
//! Cost:      read 1 atomic; at T_R +2 loads, 1 atomic; +1 load for each look while it waits; end 1
//!            atomic, +1 if a writer waits. Close 1 atomic a counter; with a time limit 2; try 1
//!            load and 1 atomic. Open 1 atomic a counter, +1 if another rank has closed it.
//! Checked:   as part of `rma_rw` and `slots`, with fields of 1 and 2 bits too.

pub(super) mod fields;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::Duration;

use farside_fabric::{Error, Rank, Result, Topology};
use farside_rma::{Context, Place};

use crate::lock::frame::{LockWords, Standing, TimeLimit};
use crate::rw::frame::RwWords;
use crate::rw::steps;
use fields::Fields;

/// How many words of every rank it takes.
pub(super) const WORDS: usize = 2;
const COUNTER: usize = 0;
/// A writer is told of departures here.
const DEPARTED: usize = 1;

/// The largest T_R.
pub(super) const T_R_MAX: u32 = 1 << 16;
/// How long a reader holds back for a writer that has a time limit.
const HOLDS_BACK: Duration = Duration::from_millis(1);

/// The counters, as one rank uses them.
pub(super) struct Counters<F> {
    base: usize,
    /// The ranks that keep one.
    keepers: Box<[Rank]>,
    /// The keeper of the counter that this rank counts itself in.
    mine: Rank,
    limits: Limits,
    /// Each counter as it was when this rank closed it, until it has opened it or passed it on.
    closed: RefCell<Vec<u64>>,
    /// How many departures this rank has waited for, over all closings.
    told: Cell<u64>,
    fields: PhantomData<F>,
}

/// What bounds readers and writers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How many ranks share a counter; those of a node if it is not said.
    pub(super) t_dc: Option<u32>,
    /// How many readers go in at a counter before they ask for writers; they never ask without it.
    pub(super) t_r: Option<u32>,
    /// How many openings may pass a reader before it leaves its arrival in a closed counter.
    pub(super) yields: u32,
}

impl Limits {
    /// Refuses a T_R that the counters cannot count to.
    pub(super) fn check_t_r(t_r: u32) -> Result<()> {
        if (1..=T_R_MAX).contains(&t_r) {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "T_R of a reader-writer lock is 1 to {T_R_MAX}, not {t_r}"
        )))
    }
}

/// What a reader needs to know of the writers.
pub(super) trait Writers {
    /// Returns whether some are waiting or inside.
    fn are_there(&self) -> Result<bool>;

    /// Tells them that a reader waits for the counters to be opened. False if no rank will open
    /// them: then it must go in by another way.
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
    /// The counters are closed, and no rank will open them.
    Shut,
}

impl Arrival {
    fn inside(is_inside: bool) -> Arrival {
        if is_inside { Arrival::Inside } else { Arrival::GaveUp }
    }
}

/// Refuses more ranks than a counter has room for: before anything is allocated.
pub(super) fn check_ranks(context: &Context) -> Result<()> {
    fields::check_ranks(context.size())
}

impl<F: Fields> Counters<F> {
    /// Makes counters over the words from `base` on.
    pub(super) fn new(
        base: usize,
        context: &Context,
        members: &[Rank],
        limits: Limits,
    ) -> Result<Counters<F>> {
        check_ranks(context)?;
        let groups = groups(context.topology(), members, limits.t_dc);
        let own = groups.iter().find(|group| group.contains(&context.rank()));
        Ok(Counters {
            base,
            mine: own.map_or(context.rank(), |group| group[0]),
            keepers: groups.iter().map(|group| group[0]).collect(),
            limits,
            closed: RefCell::default(),
            told: Cell::new(0),
            fields: PhantomData,
        })
    }

    fn word<'s>(&self, lock: &'s LockWords, keeper: Rank) -> Place<'s, u64> {
        lock.at(keeper, self.base + COUNTER)
    }

    /// Whether so many may have arrived that a reader asks for writers.
    #[inline]
    fn at_limit(&self, context: &Context, word: u64) -> bool {
        self.limits.t_r.is_some_and(|t_r| F::arrivals(word) >= t_r.into())
            && !context.omits(steps::KEEP_T_R)
    }

    /// Goes in as a reader. [RMALOCK16 listing 9]
    #[inline]
    pub(super) fn arrive(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        writers: &impl Writers,
    ) -> Result<Arrival> {
        let old = context.fetch_add(self.word(lock, self.mine), F::ARRIVAL)?;
        if F::is_free(old) && !self.at_limit(context, old) {
            return Ok(Arrival::Inside);
        }
        self.arrive_slowly(lock, context, limit, writers, old)
    }

    /// Goes on as a reader that has found the counter as `old` says.
    #[cold]
    fn arrive_slowly(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        writers: &impl Writers,
        mut old: u64,
    ) -> Result<Arrival> {
        let word = self.word(lock, self.mine);
        let (mut kept_out_in, mut passed, mut has_held_back) = (None, 0, false);
        loop {
            let turn = F::turn(old);
            if !F::is_open(old) {
                lock.statistics.note(|counts| &counts.reads_queued);
                let insists = passed >= self.limits.yields;
                if !insists && self.withdraw(lock, context, turn)? {
                    return Ok(Arrival::Inside);
                }
                if !writers.will_open()? {
                    let is_inside = insists && self.withdraw(lock, context, turn)?;
                    return Ok(if is_inside { Arrival::Inside } else { Arrival::Shut });
                }
                lock.waits(context, Standing::ShutOut)?;
                if insists {
                    lock.statistics.note(|counts| &counts.insisted);
                    return self.await_opening(lock, context, turn, limit);
                }
                passed += 1;
                let is_over = |now| F::is_open(now) || F::turn(now) != turn;
                if !self.wait_on(lock, context, limit, is_over)? {
                    return Ok(Arrival::GaveUp);
                }
            } else if F::is_asked(old) && !has_held_back && limit != TimeLimit::DoNotWait {
                has_held_back = true;
                lock.statistics.note(|counts| &counts.held_back);
                self.hold_back(lock, context, limit)?;
            } else if !self.at_limit(context, old)
                || kept_out_in.is_some_and(|kept_out_in| kept_out_in != turn)
            {
                return Ok(Arrival::Inside);
            } else {
                lock.statistics.note(|counts| &counts.limit_reached);
                if !writers.are_there()? {
                    lock.statistics.note(|counts| &counts.limit_lifted);
                    self.count_anew(lock, context, turn)?;
                    return Ok(Arrival::Inside);
                }
                // A writer that has closed the counter by now waits for this reader's departure.
                self.depart(lock, context)?;
                lock.statistics.note(|counts| &counts.limit_kept);
                kept_out_in = Some(turn);
                if !self.await_writers(lock, context, limit, turn, writers)? {
                    return Ok(Arrival::GaveUp);
                }
            }
            old = context.fetch_add(word, F::ARRIVAL)?;
        }
    }

    /// Waits outside, as a reader that was kept out by T_R, until writers have come or gone.
    fn await_writers(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        turn: u64,
        writers: &impl Writers,
    ) -> Result<bool> {
        let look = || {
            let now = context.load(self.word(lock, self.mine))?;
            let is_the_same = F::is_open(now) && F::turn(now) == turn;
            let is_news = !is_the_same || !self.at_limit(context, now);
            Ok(is_news || (!context.omits(steps::ASK_AGAIN) && !writers.are_there()?))
        };
        Ok(limit != TimeLimit::DoNotWait && lock.poll(context, limit, look)?)
    }

    /// Waits until the counter has been opened: then this rank is inside, whatever happens since.
    fn await_opening(
        &self,
        lock: &RwWords,
        context: &Context,
        turn: u64,
        limit: TimeLimit,
    ) -> Result<Arrival> {
        let is_opened = |now| !F::is_closed_still(now, turn);
        Ok(Arrival::inside(
            self.wait_on(lock, context, limit, is_opened)? || self.withdraw(lock, context, turn)?,
        ))
    }

    /// Goes out again, and waits until the writer that asks for it has closed the counter or has
    /// given up, or for a while: no reader holds back for ever.
    fn hold_back(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<()> {
        self.depart(lock, context)?;
        let a_while = match limit {
            TimeLimit::AtMost(time) => TimeLimit::AtMost(time.min(HOLDS_BACK)),
            _ => TimeLimit::AtMost(HOLDS_BACK),
        };
        self.wait_on(lock, context, a_while, |now| !F::is_asked(now)).map(drop)
    }

    /// Waits for a change of the counter.
    fn wait_on(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        until: impl Fn(u64) -> bool,
    ) -> Result<bool> {
        if self.mine == context.rank() {
            let at = self.base + COUNTER;
            return Ok(lock.wait_within(context, limit, at, until)?.is_some());
        }
        let look = || Ok(until(context.load(self.word(lock, self.mine))?));
        Ok(limit != TimeLimit::DoNotWait && lock.poll(context, limit, look)?)
    }

    /// Takes an arrival back that was made when the counter was closed. True if it has been opened
    /// since: then this rank is inside.
    fn withdraw(&self, lock: &RwWords, context: &Context, turn: u64) -> Result<bool> {
        let word = self.word(lock, self.mine);
        let mut seen = context.load(word)?;
        while F::is_closed_still(seen, turn) {
            let held = context.compare_swap(word, seen, seen.wrapping_sub(F::ARRIVAL))?;
            if held == seen {
                return Ok(false);
            }
            seen = held;
        }
        Ok(true)
    }

    /// Leaves as a reader. [RMALOCK16 listing 10]
    #[inline]
    pub(super) fn depart(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let word = self.word(lock, self.mine);
        let old = context.fetch_add(word, F::PRESENT.wrapping_neg())?;
        match F::closer(old) {
            Some(closer) if !context.omits(steps::TELL) => {
                context.fetch_add(lock.at(closer, self.base + DEPARTED), 1).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// As a reader that has found no writers in `turn`: counts arrivals from zero, in another turn,
    /// so that of all that have asked in this one only the first does it. It is `reset_counter` of
    /// [RMALOCK16 listing 6] for readers.
    fn count_anew(&self, lock: &RwWords, context: &Context, turn: u64) -> Result<()> {
        let word = self.word(lock, self.mine);
        let mut seen = context.load(word)?;
        if context.omits(steps::RESET_AT_ONCE) {
            let taken = F::with_closer_and_arrivals(seen);
            return context.fetch_add(word, taken.wrapping_neg()).map(drop);
        }
        while F::is_free(seen) && F::turn(seen) == turn {
            let held = context.compare_swap(word, seen, F::counted_anew(seen))?;
            if held == seen {
                break;
            }
            seen = held;
        }
        Ok(())
    }

    /// As a writer, alone: keeps readers out and waits until none is inside. If that takes longer
    /// than the limit, lets them in again. It is `set_counters_to_WRITE` of [RMALOCK16 listing 6].
    pub(super) fn close(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<bool> {
        let closed = if limit == TimeLimit::Unlimited {
            Some(self.close_and_drain(lock, context)?)
        } else {
            self.close_when_empty(lock, context, limit)?
        };
        let is_closed = closed.is_some();
        if let Some(closed) = closed {
            lock.statistics.note(|counts| &counts.closed);
            *self.closed.borrow_mut() = closed;
        }
        Ok(is_closed)
    }

    /// Closes all counters, and waits for the readers inside without a limit. Returns what
    /// the counters were when they were closed.
    fn close_and_drain(&self, lock: &RwWords, context: &Context) -> Result<Vec<u64>> {
        let mark = F::closed_by(context.rank());
        let found = self.add_to_all(lock, context, |_| mark)?;
        let inside: u64 = found.iter().map(|&word| F::present(word)).sum();
        if inside > 0 && !context.omits(steps::DRAIN) {
            lock.statistics.note(|counts| &counts.drained);
            self.told.set(self.told.get().wrapping_add(inside));
            let is_told = |now: u64| now == self.told.get();
            lock.wait(context, self.base + DEPARTED, is_told)?;
        }
        Ok(found.into_iter().map(|word| word | mark).collect())
    }

    /// Closes counters that no reader is in, one by one, until all are closed or time is up;
    /// then it opens them again, and nothing is left of the attempt. Asks readers to hold back
    /// meanwhile: with a shared counter there may be no moment without one.
    fn close_when_empty(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Option<Vec<u64>>> {
        let is_empty = |&word: &u64| F::is_empty(word);
        let asks = if limit == TimeLimit::DoNotWait { 0 } else { F::ASKED };
        let mut found = self.add_to_all(lock, context, |_| asks)?;
        found.iter_mut().for_each(|word| *word |= asks);
        let mut closed = vec![None; self.keepers.len()];
        if limit == TimeLimit::DoNotWait
            && !found.iter().all(is_empty)
            && !context.omits(steps::CLOSE_EMPTY)
        {
            return Ok(None);
        }
        let mut looks = 0;
        let mut attempt = || {
            looks += 1;
            for (at, closed) in closed.iter_mut().enumerate() {
                if looks > 1 && closed.is_none() {
                    found[at] = context.load(self.word(lock, self.keepers[at]))?;
                }
                if closed.is_none() {
                    *closed = self.close_if_empty(lock, context, at, found[at])?;
                }
            }
            Ok(closed.iter().all(|closed| closed.as_ref().is_some_and(is_empty)))
        };
        let is_closed = match limit {
            TimeLimit::DoNotWait => attempt()?,
            _ => lock.poll(context, limit, &mut attempt)?,
        };
        if looks > 1 {
            lock.statistics.note(|counts| &counts.drained);
        }
        if is_closed {
            return Ok(Some(closed.into_iter().flatten().collect()));
        }
        self.add_to_all(lock, context, |at| match closed[at] {
            Some(word) => F::opening(word),
            None => asks.wrapping_neg(),
        })?;
        Ok(None)
    }

    /// Closes one counter, which was seen as given, unless a reader is in it. Returns the closed
    /// counter.
    fn close_if_empty(
        &self,
        lock: &RwWords,
        context: &Context,
        at: usize,
        mut seen: u64,
    ) -> Result<Option<u64>> {
        let word = self.word(lock, self.keepers[at]);
        while F::is_empty(seen) || context.omits(steps::CLOSE_EMPTY) {
            let closed = F::unasked(seen) | F::closed_by(context.rank());
            let held = context.compare_swap(word, seen, closed)?;
            if held == seen {
                return Ok(Some(closed));
            }
            seen = held;
        }
        Ok(None)
    }

    /// As a writer: lets readers in, those first that have waited. It is `reset_counters` of
    /// [RMALOCK16 listing 6].
    pub(super) fn open(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let mut closed = std::mem::take(&mut *self.closed.borrow_mut());
        if closed.is_empty() {
            // Another rank has closed them, and the readers inside have departed.
            let seen = self.add_to_all(lock, context, |_| 0)?;
            closed = seen.into_iter().map(F::when_closed).collect();
        }
        self.add_to_all(lock, context, |at| F::opening(closed[at]))?;
        lock.statistics.note(|counts| &counts.opened);
        Ok(())
    }

    /// As the writer that has closed them: returns how many had read since they were opened, as
    /// far as a counter can tell.
    pub(super) fn reads(&self) -> Option<u64> {
        let closed = self.closed.borrow();
        (!closed.is_empty()).then(|| closed.iter().map(|&word| F::arrivals(word)).sum())
    }

    /// Returns how many counters there are.
    pub(super) fn len(&self) -> usize {
        self.keepers.len()
    }

    /// As a writer: another one will open them.
    pub(super) fn pass_on(&self) {
        self.closed.borrow_mut().clear();
    }

    /// Adds to all counters at the same time, and returns what they were.
    fn add_to_all(
        &self,
        lock: &RwWords,
        context: &Context,
        value: impl Fn(usize) -> u64,
    ) -> Result<Vec<u64>> {
        let start = |(at, &keeper): (usize, &Rank)| {
            context.fetch_add_nb(self.word(lock, keeper), value(at))
        };
        let started = self.keepers.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|fetch| fetch.wait()).collect()
    }
}

/// The members that share a counter: `t_dc` neighbours of a node, or as many whole nodes as have
/// that many, or each node by itself.
fn groups(topology: &Topology, members: &[Rank], t_dc: Option<u32>) -> Vec<Vec<Rank>> {
    let mut by_node: Vec<Vec<Rank>> = Vec::new();
    let mut sorted = members.to_vec();
    let place = |rank: &Rank| -> Vec<u32> {
        topology.levels().iter().map(|level| level.element_of[rank.index()]).collect()
    };
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

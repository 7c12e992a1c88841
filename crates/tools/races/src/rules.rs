//! The rules: which accesses are remembered, and which two of them are a race.
//!
//! Paper:     [FASTTRACK09] sections 3 and 4: epochs instead of clocks for remembered accesses.
//! Differs:   a posted operation is under way until its origin has flushed its target, so clocks
//!            know for each lane (context) and target how far that is.
//! State:     for each rank a time, for each of its strands and for each of many words a clock; up
//!            to 4 accesses for each 8 bytes of memory.
//! Invariant: two remembered accesses with an order by `docs/memory-model.md` never are a race.
//! Ordering:  a release is noted before its atomic is executed, an acquire after it has read; in
//!            explored programs a release is noted when its atomic is carried out.
//! Cost:      an operation takes the lock once; a release or an acquire is one pass over the
//!            columns of a clock that are in use.
//! Checked:   `crates/tools/races/tests/corpus.rs`, half of whose programs have no race, and
//!            `generated.rs` beside it, against a verdict by brute force.

use farside_fabric::Piece;

use crate::access::{Access, Actor, Class, Missing, Site};
use crate::layout::{AGENT_LANE, CONTEXT_LANES, PAGE_BYTES, count};
use crate::shadow::{Slot, mask_of};
use crate::state::{Pair, Span, State};

impl State<'_> {
    /// Looks at an access, and remembers it. Returns how many new races it found.
    pub(crate) fn access(&mut self, access: &Access, pieces: &[Piece]) -> u32 {
        let mut actor = access.actor;
        if let Some(target) = access.until.filter(|_| !actor.lane.is_multiple_of(CONTEXT_LANES)) {
            actor.lane = self.signal_lane(actor, target);
        }
        // Without a column nobody could know of it. Strands that are made have one.
        if self.give_strand_column(actor.rank, actor.strand).is_none() {
            self.count(count::DROPPED);
            return 0;
        }
        // Without a column nothing could tell of its completion.
        let until = access
            .until
            .filter(|&target| self.give_posted_column(actor.rank, actor.lane, target).is_some());
        if access.until.is_some() && until.is_none() {
            self.count(count::COMPLETED);
        }
        let access = &Access { actor, until, ..*access };
        let site = access.site();
        let Some(number) = self.intern(site) else {
            self.count(count::DROPPED);
            return 0;
        };
        if let Some(target) = until {
            let time = self.time(actor.rank);
            self.numbers[self.layout.last_post_of(actor.rank, actor.lane, target)] = time;
        }
        let has_landed = !self.layout.is_exact || actor.lane >= AGENT_LANE;
        let mut found = 0;
        for piece in pieces {
            let (mut at, end) = (piece.offset, piece.offset + piece.bytes);
            while at < end {
                let page_end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
                let page = self.page(access.owner, access.segment, at / PAGE_BYTES);
                let until = page_end.min(end);
                while at < until {
                    let next = ((at & !7) + 8).min(until);
                    let mask = mask_of(at & 7, next - at);
                    let time = self.time(site.rank);
                    let new = Slot { time, site: number, mask, has_landed };
                    found += self.touch(page, access, site, new, at & !7);
                    at = next;
                }
            }
        }
        let low = &mut self.numbers[count::ACCESSES];
        *low = low.wrapping_add(1);
        if *low == 0 {
            self.numbers[count::ACCESSES + 1] += 1;
        }
        found
    }

    /// Looks at 8 bytes.
    fn touch(&mut self, page: usize, access: &Access, site: Site, new: Slot, offset: u64) -> u32 {
        let (slots, used) = self.slots(page, offset);
        let mut found = 0;
        let mut room = None;
        for &at in &slots[..used] {
            let old = self.slot(at);
            if old.mask == 0 {
                room = room.or(Some(at));
                continue;
            }
            let is_one_site = old.site == new.site;
            let is_same = is_one_site && old.mask == new.mask && old.time == new.time;
            if is_same && !(site.writes && site.until.is_some()) {
                return found;
            }
            if old.mask & new.mask == 0 {
                continue;
            }
            let other = if is_one_site { site } else { self.site(old.site) };
            let is_begun_before = self.is_begun_before(other, old.time, access.actor);
            let is_before = is_begun_before && self.is_complete(other, old.time, access);
            let may_change = is_begun_before && other.may_not_change_places(site);
            if !is_before && (may_change || other.conflicts(site, old.mask == new.mask)) {
                let missing = self.missing(other, old.time, site);
                found += self.race(
                    &Pair { first: other, second: site, missing },
                    access,
                    Span { offset, mask: old.mask & new.mask },
                );
            }
            let covers = old.mask & !new.mask == 0;
            let replaces = site.writes || !other.writes;
            let same_class = (site.class, site.kind) == (other.class, other.kind);
            let is_past = is_before && replaces && (same_class || site.class == Class::Plain);
            // Whatever is ordered behind an operation is so behind those of its kind before it.
            if covers && (is_past || is_one_site && is_begun_before) {
                room = Some(at);
                self.clear(at);
            }
        }
        let at = room.unwrap_or_else(|| match used == slots.len() {
            // With no room, one of them is forgotten, in turn.
            true => {
                self.count(count::DISPLACED);
                slots[new.time as usize % used]
            }
            false => {
                self.use_second_half(page);
                slots[used]
            }
        });
        self.set(at, new);
        found
    }

    /// Whether a remembered access that had begun is complete before a new one begins, as its rank
    /// knows.
    fn is_complete(&self, old: Site, time: u32, new: &Access) -> bool {
        let (layout, me) = (self.layout, new.actor);
        let Some(target) = old.completed_by(new.owner) else { return true };
        let clock = layout.clock_of(me.rank, me.strand);
        if time <= self.known(clock, self.posted_column(old.rank, old.lane, target)) {
            return true;
        }
        // A fence orders what one context puts, or does atomically, to one rank; no gets.
        let is_put = new.until.is_some() && new.writes;
        (is_put || new.class == Class::Atomic)
            && old.writes
            && old.rank == me.rank
            && old.lane / CONTEXT_LANES == me.lane / CONTEXT_LANES
            && new.owner == target
            && time <= self.numbers[layout.fenced_of(me.rank, old.lane, target)]
    }

    /// Whether a strand knows that a remembered access had begun.
    fn is_begun_before(&self, old: Site, time: u32, me: Actor) -> bool {
        let (layout, is_own) = (self.layout, (old.rank, old.strand) == (me.rank, me.strand));
        // An ended strand may have left its number to this one.
        if is_own && time >= self.numbers[layout.birth_of(me.rank, me.strand)] {
            return true;
        }
        let clock = layout.clock_of(me.rank, me.strand);
        time <= self.known(clock, self.strand_column(old.rank, old.strand))
    }

    /// Forgets all but the names of places and what accesses are told apart by, for the next of
    /// many short runs.
    pub(crate) fn begin_again(&mut self) {
        let (places, names) = (self.numbers[count::PLACES], self.numbers[count::NAMES] as usize);
        self.forget_adds();
        self.forget_clocks();
        self.numbers[count::PLACES] = places;
        self.numbers[self.layout.name(0)..self.layout.name(names)].fill(0);
        self.forget_pages();
    }

    fn missing(&self, old: Site, time: u32, new: Site) -> Missing {
        let me = Actor { rank: new.rank, strand: new.strand, lane: new.lane };
        let is_begun_before = self.is_begun_before(old, time, me);
        if is_begun_before && old.may_not_change_places(new) {
            return Missing::Order;
        }
        if old.class == Class::Atomic && new.class == Class::Atomic {
            return Missing::Domain;
        }
        if old.rank == new.rank && !is_begun_before {
            return Missing::Threads;
        }
        if old.rank == new.rank && old.is_by_nonblocking() {
            return Missing::Completion;
        }
        if old.rank == new.rank {
            return Missing::Fence;
        }
        // The second rank has heard from the first since, but not that this is complete.
        if old.until.is_some() && is_begun_before {
            return Missing::Flush;
        }
        let is_atomic = |class: Class| matches!(class, Class::Atomic | Class::Wait);
        if is_atomic(old.class) != is_atomic(new.class) {
            return Missing::Atomicity;
        }
        Missing::Synchronization
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::SegmentId;

    use super::*;
    use crate::Checker;
    use crate::calls::Call;
    use crate::layout::SITES;

    #[test]
    fn an_operation_that_goes_to_all_ranks_has_one_site_on_each() {
        let ranks = 200;
        let checker = Checker::new(ranks as u32).unwrap();
        let pieces = &[Piece { offset: 0, bytes: 8 }];
        for (rank, owner) in (0..ranks).flat_map(|rank| (0..ranks).map(move |to| (rank, to))) {
            for place in [1, 2] {
                let actor = Actor { rank, strand: 0, lane: 0 };
                let access = Access {
                    class: Class::Accumulate,
                    until: Some(owner),
                    ..Access::plain(actor, owner, SegmentId(7), true, "accumulate", place)
                };
                checker.run(&[Call::Access { access, pieces }]);
            }
        }
        let report = checker.report();
        assert_eq!((report.dropped, report.completed), (0, 0), "{report}");
        assert_eq!(report.accesses, 2 * (ranks * ranks) as u64);
        // Of the accesses to each 8 bytes four are remembered, which is said.
        assert!(report.displaced > 0 && report.to_string().contains("more than four"), "{report}");
    }

    #[test]
    fn accesses_for_which_there_is_no_room_are_counted_and_told() {
        let checker = Checker::new(2).unwrap();
        let pieces = &[Piece { offset: 0, bytes: 8 }];
        let accesses = SITES as u32 + 1000;
        for place in 0..accesses {
            let actor = Actor { rank: 0, strand: 0, lane: 0 };
            let access = Access::plain(actor, 1, SegmentId(7), false, "get", place);
            checker.run(&[Call::Access { access, pieces }]);
        }
        let report = checker.report();
        assert!(report.dropped >= 1000, "{report}");
        assert_eq!(report.accesses + u64::from(report.dropped), u64::from(accesses));
        let said = report.to_string();
        assert!(said.contains("accesses for which"), "{said}");
        assert!(said.contains("races: 0 races found in") && !said.contains("no race"), "{said}");
    }
}

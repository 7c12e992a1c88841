//! The rules: clocks, the shadow of memory, and what is a race.
//!
//! Paper:     [FASTTRACK09] sections 3 and 4: epochs instead of clocks for remembered accesses.
//! Differs:   a posted operation is under way until its origin has flushed its target, so clocks
//!            know for each lane (context) and target how far that is.
//! State:     for each rank a time, for each of its strands and for each of many words a clock; 4
//!            accesses for each 8 bytes of memory.
//! Invariant: two remembered accesses with an order by `docs/memory-model.md` never are a race.
//! Ordering:  a release is noted before its atomic is executed, an acquire after it has read.
//! Cost:      an access takes the lock once; a release or an acquire one pass over a clock.
//! Checked:   `crates/races/tests/corpus.rs`, half of whose programs have no race.

pub(crate) use farside_fabric::random::scatter as mix;
use farside_fabric::{Piece, SegmentId};

use crate::access::{Access, Actor, Class, Missing, Site};
use crate::layout::{CHANGED, Layout, PAGE_BYTES, PAGE_NUMBERS, SLOTS, count};

/// The state under the lock.
pub(crate) struct State<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) numbers: &'a mut [u32],
}

/// A remembered access: its time, its site and its bytes.
#[derive(Clone, Copy)]
struct Slot {
    time: u32,
    site: usize,
    mask: u32,
}

impl State<'_> {
    pub(crate) fn time(&self, rank: usize) -> u32 {
        // Time begins at 1: a clock that says 0 knows nothing.
        self.numbers[self.layout.time_of(rank)] + 1
    }

    pub(crate) fn tick(&mut self, rank: usize) {
        self.numbers[self.layout.time_of(rank)] += 1;
    }

    /// Looks at an access, and remembers it. Returns how many new races it found.
    pub(crate) fn access(&mut self, access: &Access, pieces: &[Piece]) -> u32 {
        let site = Site {
            rank: access.actor.rank,
            strand: access.actor.strand,
            lane: access.actor.lane,
            class: access.class,
            kind: access.kind,
            writes: access.writes,
            operation: access.operation,
            place: access.place,
            until: access.until,
        };
        let Some(number) = self.intern(site) else { return 0 };
        if let Some(target) = access.until {
            let (rank, time) = (access.actor.rank, self.time(access.actor.rank));
            self.numbers[self.layout.last_post_of(rank, access.actor.lane, target)] = time;
        }
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
                    let cell = page + ((at % PAGE_BYTES) / 8) as usize * SLOTS * 2;
                    found += self.touch(cell, access, site, number, mask, at & !7);
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
    fn touch(
        &mut self,
        cell: usize,
        access: &Access,
        site: Site,
        number: usize,
        mask: u32,
        offset: u64,
    ) -> u32 {
        let new = Slot { time: self.time(site.rank), site: number, mask };
        let mut found = 0;
        let mut room = None;
        for at in 0..SLOTS {
            let old = self.slot(cell, at);
            if old.mask == 0 {
                room = room.or(Some(at));
                continue;
            }
            let is_same = old.site == number && old.mask == mask && old.time == new.time;
            if is_same && !(site.writes && site.until.is_some()) {
                return found;
            }
            if old.mask & mask == 0 {
                continue;
            }
            let other = self.site(old.site);
            let is_before = self.is_before(other, old.time, access);
            if other.conflicts(site, old.mask == mask) && !is_before {
                let missing = self.missing(other, old.time, site);
                found += self.race(
                    &Pair { first: other, second: site, missing },
                    access,
                    Span { offset, mask: old.mask & mask },
                );
            }
            let covers = old.mask & !mask == 0;
            let replaces = site.writes || !other.writes;
            let same_class = (site.class, site.kind) == (other.class, other.kind);
            if covers && is_before && replaces && (same_class || site.class == Class::Plain) {
                room = Some(at);
                self.clear(cell, at);
            }
        }
        // With no room, the oldest of the four is forgotten, in turn.
        let at = room.unwrap_or(new.time as usize % SLOTS);
        self.set(cell, at, new);
        found
    }

    fn slot(&self, cell: usize, at: usize) -> Slot {
        let word = self.numbers[cell + 2 * at + 1];
        Slot { time: self.numbers[cell + 2 * at], site: (word >> 8) as usize, mask: word & 0xFF }
    }

    fn set(&mut self, cell: usize, at: usize, slot: Slot) {
        self.numbers[cell + 2 * at] = slot.time;
        self.numbers[cell + 2 * at + 1] = (slot.site as u32) << 8 | slot.mask;
    }

    fn clear(&mut self, cell: usize, at: usize) {
        self.numbers[cell + 2 * at] = 0;
        self.numbers[cell + 2 * at + 1] = 0;
    }

    /// Whether a remembered access is complete before a new one begins, as its rank knows.
    fn is_before(&self, old: Site, time: u32, new: &Access) -> bool {
        let (layout, me) = (self.layout, new.actor);
        let clock = layout.clock_of(me.rank, me.strand);
        if !self.is_begun_before(old, time, me) {
            return false;
        }
        let Some(target) = old.until else { return true };
        if time <= self.numbers[clock + layout.of_posted(old.rank, old.lane, target)] {
            return true;
        }
        // A fence orders what one context puts, or does atomically, to one rank; no gets.
        let is_put = new.until.is_some() && new.writes;
        (is_put || new.class == Class::Atomic)
            && old.writes
            && old.rank == me.rank
            && old.lane / 2 == me.lane / 2
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
        time <= self.numbers[clock + layout.of_strand(old.rank, old.strand)]
    }

    fn missing(&self, old: Site, time: u32, new: Site) -> Missing {
        if old.class == Class::Atomic && new.class == Class::Atomic {
            return Missing::Domain;
        }
        let me = Actor { rank: new.rank, strand: new.strand, lane: new.lane };
        let is_begun_before = self.is_begun_before(old, time, me);
        if old.rank == new.rank && !is_begun_before {
            return Missing::Threads;
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

    /// Completes what a lane has posted to a target.
    pub(crate) fn flush(&mut self, actor: Actor, target: usize) {
        let (layout, time) = (*self.layout, self.time(actor.rank));
        let clock = layout.clock_of(actor.rank, actor.strand);
        let mut any = false;
        for lane in [actor.lane, actor.lane + 1] {
            let last = self.numbers[layout.last_post_of(actor.rank, lane, target)];
            let known = &mut self.numbers[clock + layout.of_posted(actor.rank, lane, target)];
            if last > *known {
                *known = time;
                any = true;
            }
        }
        if any {
            self.tick(actor.rank);
        }
    }

    /// Orders what a lane has posted ahead of what it posts afterwards to the same ranks.
    /// A barrier, which orders nothing that was posted, may well signal the same ranks: of the
    /// program's own fences, only the program's own words tell.
    pub(crate) fn fence(&mut self, actor: Actor, is_program: bool) {
        let time = self.time(actor.rank);
        for lane in [actor.lane, actor.lane + 1] {
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

    /// A rank is about to change a word by which others may learn of all that it has completed;
    /// with `signalled`, also of what its puts with a signal have just put to the word's rank.
    pub(crate) fn release(&mut self, actor: Actor, released: Released) {
        let Released { word, owner, signalled, is_program, value } = released;
        let (layout, n, me) = (*self.layout, self.layout.n(), actor.rank);
        let (time, mine) = (self.time(me), layout.clock_of(me, actor.strand));
        self.numbers[mine + layout.of_strand(me, actor.strand)] = time;
        // What was the last release is one of those before it now.
        self.list(word);
        let theirs = layout.last_clock_of_word(word);
        self.join(layout.clock_of_word(word), theirs);
        self.numbers.copy_within(mine..mine + layout.clock(), theirs);
        let stored = layout.last_value_of_word(word);
        let bits = value.unwrap_or(0);
        self.numbers[stored] = u32::from(value.is_some());
        self.numbers[stored + 1] = bits as u32;
        self.numbers[stored + 2] = (bits >> 32) as u32;
        if owner < n {
            for lane in [actor.lane, actor.lane + 1] {
                let fenced = match is_program {
                    true => self.numbers[layout.fenced_of(me, lane, owner)],
                    false => self.numbers[layout.fenced_by_protocol(me, lane, owner)],
                };
                let known = theirs + layout.of_posted(me, lane, owner);
                self.numbers[known] = self.numbers[known].max(fenced);
            }
            if signalled {
                let known = theirs + layout.of_posted(me, actor.lane + 1, owner);
                self.numbers[known] = time;
            }
        }
        self.tick(me);
    }

    /// A strand has read a word: it knows what those knew that wrote it. If the last of them has
    /// stored another value than was seen, that one had not been there yet.
    pub(crate) fn acquire(&mut self, actor: Actor, word: usize, seen: Option<u64>) {
        let layout = *self.layout;
        let mine = layout.clock_of(actor.rank, actor.strand);
        self.join(mine, layout.clock_of_word(word));
        let stored = layout.last_value_of_word(word);
        let [low, high] = [self.numbers[stored + 1], self.numbers[stored + 2]];
        let value = u64::from(high) << 32 | u64::from(low);
        let is_later = self.numbers[stored] != 0 && seen.is_some_and(|seen| seen != value);
        if !is_later {
            self.join(mine, layout.last_clock_of_word(word));
        }
    }

    /// An agent has changed one word on behalf of those that it has heard from.
    pub(crate) fn pass_on(&mut self, from: usize, to: usize) {
        let layout = *self.layout;
        self.list(to);
        self.join(layout.clock_of_word(to), layout.clock_of_word(from));
        self.join(layout.clock_of_word(to), layout.last_clock_of_word(from));
    }

    /// Lists a word whose clock is about to be changed.
    fn list(&mut self, word: usize) {
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

    /// Forgets all but the names of places and what accesses are told apart by, for the next of
    /// many short runs.
    pub(crate) fn begin_again(&mut self) {
        let layout = *self.layout;
        let changed = self.numbers[count::CHANGED] as usize;
        if changed > CHANGED {
            self.numbers[layout.clock_of_word(0)..layout.site(0)].fill(0);
        }
        for entry in 0..changed.min(CHANGED) {
            let at = layout.clock_of_word(self.numbers[layout.changed(entry)] as usize);
            self.numbers[at..at + layout.word_numbers()].fill(0);
        }
        let (places, names) = (self.numbers[count::PLACES], self.numbers[count::NAMES] as usize);
        self.numbers[..layout.clock_of_word(0)].fill(0);
        self.numbers[count::PLACES] = places;
        self.numbers[layout.name(0)..layout.name(names)].fill(0);
        for page in 0..layout.pages() {
            let key = layout.key(page);
            if self.numbers[key + 2] != 0 {
                self.numbers[key..key + 4].fill(0);
                self.numbers[layout.page(page)..layout.page(page + 1)].fill(0);
            }
        }
    }

    pub(crate) fn join(&mut self, into: usize, from: usize) {
        let clock = self.layout.clock();
        let (low, high) = (into.min(from), into.max(from));
        if low == high {
            return;
        }
        let (head, tail) = self.numbers.split_at_mut(high);
        let (low, high) = (&mut head[low..low + clock], &mut tail[..clock]);
        let (into, from) = if into < from { (low, high) } else { (high, low) };
        for (into, from) in into.iter_mut().zip(from) {
            *into = (*into).max(*from);
        }
    }

    /// A rank has seen the value of a word: the posted atomics and short puts that wrote it have
    /// landed, and whoever has heard from their origin since knows it.
    pub(crate) fn see(&mut self, owner: usize, segment: SegmentId, offset: u64, bytes: u64) {
        let page = self.page(owner, segment, offset / PAGE_BYTES);
        let cell = page + ((offset % PAGE_BYTES) / 8) as usize * SLOTS * 2;
        let mask = mask_of(offset & 7, bytes.min(8));
        for at in 0..SLOTS {
            let old = self.slot(cell, at);
            if old.mask & mask != 0 {
                let site = self.site(old.site);
                let is_signal = matches!(site.class, Class::Atomic | Class::WaitablePut);
                let landed = Site { until: None, ..site };
                if is_signal
                    && site.until.is_some()
                    && let Some(number) = self.intern(landed)
                {
                    self.set(cell, at, Slot { site: number, ..old });
                }
            }
        }
    }

    /// Returns where the shadow of a page of memory stands, if it has one.
    pub(crate) fn known_page(&self, owner: usize, segment: SegmentId, page: u64) -> Option<usize> {
        let (layout, mask) = (*self.layout, self.layout.pages() - 1);
        let (key, hash) = key_of(owner, segment, page);
        let places = (0..16.min(layout.pages())).map(|step| (hash as usize + step) & mask);
        places
            .filter(|&at| self.numbers[layout.key(at)..layout.key(at) + 4] == key)
            .map(|at| layout.page(at))
            .next()
    }

    /// Returns where the shadow of a page of memory stands.
    pub(crate) fn page(&mut self, owner: usize, segment: SegmentId, page: u64) -> usize {
        let (layout, mask) = (*self.layout, self.layout.pages() - 1);
        let (key, hash) = key_of(owner, segment, page);
        let probes = 16.min(layout.pages());
        for step in 0..probes {
            let at = (hash as usize + step) & mask;
            let keys = layout.key(at);
            if self.numbers[keys..keys + 4] == key {
                return layout.page(at);
            }
            if self.numbers[keys + 2] == 0 {
                self.numbers[keys..keys + 4].copy_from_slice(&key);
                return layout.page(at);
            }
        }
        // No room: some other page is forgotten.
        let at = (hash as usize + (hash >> 40) as usize % probes) & mask;
        let keys = layout.key(at);
        self.numbers[keys..keys + 4].copy_from_slice(&key);
        let data = layout.page(at);
        self.numbers[data..data + PAGE_NUMBERS].fill(0);
        self.numbers[count::FORGOTTEN] += 1;
        data
    }
}

/// A word that is about to be changed.
pub(crate) struct Released {
    /// The number of its clock.
    pub(crate) word: usize,
    /// Whose memory it is in; no rank's if it stands for an agent.
    pub(crate) owner: usize,
    /// Whether the change is the signal of a put.
    pub(crate) signalled: bool,
    /// Whether the word is the program's own.
    pub(crate) is_program: bool,
    /// The value that it holds afterwards, if that is known.
    pub(crate) value: Option<u64>,
}

/// Two accesses without an order.
pub(crate) struct Pair {
    pub(crate) first: Site,
    pub(crate) second: Site,
    pub(crate) missing: Missing,
}

/// Some of 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) mask: u32,
}

/// The key of a page of memory, and its hash.
fn key_of(owner: usize, segment: SegmentId, page: u64) -> ([u32; 4], u64) {
    let key = [segment.0 as u32, (segment.0 >> 32) as u32, owner as u32 + 1, page as u32];
    (key, mix(segment.0 ^ (owner as u64) << 48 ^ page << 20))
}

/// The bits of `bytes` bytes from `first` on of 8.
fn mask_of(first: u64, bytes: u64) -> u32 {
    ((1u32 << bytes) - 1) << first
}

//! The rules: clocks, the shadow of memory, and what is a race.
//!
//! Paper:     [FASTTRACK09] sections 3 and 4: epochs instead of clocks for remembered accesses.
//! Differs:   a posted operation is under way until its origin has flushed its target, so clocks
//!            know for each lane (context) and target how far that is.
//! State:     for each rank a time and a clock; for each of many words a clock; 4 accesses for
//!            each 8 bytes of memory.
//! Invariant: two remembered accesses with an order by `docs/memory-model.md` never are a race.
//! Ordering:  a release is noted before its atomic is executed, an acquire after it has read.
//! Cost:      an access takes the lock once; a release or an acquire one pass over a clock.
//! Checked:   `crates/races/tests/corpus.rs`, half of whose programs have no race.

pub(crate) use farside_fabric::random::scatter as mix;
use farside_fabric::{Piece, SegmentId};

use crate::layout::{LANES, Layout, PAGE_BYTES, PAGE_NUMBERS, SLOTS, count};

/// How an access excludes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Not at all.
    Plain = 0,
    /// As atomics do.
    Atomic = 1,
    /// As accumulates do.
    Accumulate = 2,
    /// Not at all, but a wait may end on it: a short put of OpenSHMEM.
    WaitablePut = 3,
    /// A wait, or a test, of a word.
    Wait = 4,
}

impl Class {
    fn from_bits(bits: u32) -> Class {
        match bits {
            1 => Class::Atomic,
            2 => Class::Accumulate,
            3 => Class::WaitablePut,
            4 => Class::Wait,
            _ => Class::Plain,
        }
    }

    fn excludes(self, other: Class) -> bool {
        use Class::{Accumulate, Atomic, Wait, WaitablePut};
        matches!(
            (self, other),
            (Atomic | Wait, Atomic | Wait)
                | (Accumulate, Accumulate)
                | (WaitablePut, Wait)
                | (Wait, WaitablePut)
        )
    }
}

/// The names of operations in reports.
pub(crate) const OPERATIONS: &[&str] = &[
    "access",
    "put",
    "get",
    "read",
    "write",
    "wait",
    "signal",
    "accumulate",
    "put_signal",
    "load",
    "store",
    "fetch_add",
    "swap",
    "compare_swap",
    "fetch_and",
    "fetch_or",
    "fetch_xor",
    "read by a non-blocking operation",
    "write by a non-blocking operation",
    "start of a non-blocking operation",
];

/// Returns the number of an operation's name.
pub(crate) fn operation(name: &str) -> u8 {
    OPERATIONS.iter().position(|known| *known == name).unwrap_or(0) as u8
}

/// The one that makes an access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub(crate) rank: usize,
    /// Even: the lane of a context's posted operations.
    pub(crate) lane: usize,
}

/// An access to memory of a rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) actor: Actor,
    /// Whose memory.
    pub(crate) owner: usize,
    pub(crate) segment: SegmentId,
    pub(crate) class: Class,
    pub(crate) writes: bool,
    pub(crate) operation: u8,
    pub(crate) place: u32,
    /// The rank whose flush completes it; `None` if it is complete on return.
    pub(crate) until: Option<usize>,
}

/// What a remembered access was, but for its time and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) rank: usize,
    pub(crate) lane: usize,
    pub(crate) class: Class,
    pub(crate) writes: bool,
    pub(crate) operation: u8,
    pub(crate) place: u32,
    pub(crate) until: Option<usize>,
}

impl Site {
    pub(crate) fn pack(self) -> [u32; 3] {
        let until = self.until.map_or(0, |rank| rank as u32 + 1);
        let what = u32::from(self.operation) << 8 | (self.class as u32) << 1;
        [
            self.rank as u32 | (self.lane as u32) << 16,
            until << 16 | what | u32::from(self.writes),
            self.place,
        ]
    }

    pub(crate) fn unpack([who, what, place]: [u32; 3]) -> Site {
        Site {
            rank: (who & 0xFFFF) as usize,
            lane: (who >> 16) as usize,
            class: Class::from_bits(what >> 1 & 0x7F),
            writes: what & 1 == 1,
            operation: (what >> 8) as u8,
            place,
            until: (what >> 16).checked_sub(1).map(|rank| rank as usize),
        }
    }
}

/// Why two accesses race: what is missing between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Missing {
    /// Nothing leads from the first to the second.
    Synchronization = 0,
    /// The first was under way, and its origin had flushed nothing.
    Flush = 1,
    /// Both are of one rank, which had put neither a fence nor a flush between them.
    Fence = 2,
    /// One is atomic and the other is not.
    Atomicity = 3,
    /// A buffer was used before the operation that owns it was complete.
    Completion = 4,
}

impl Missing {
    pub(crate) fn from_bits(bits: u32) -> Missing {
        match bits {
            1 => Missing::Flush,
            2 => Missing::Fence,
            3 => Missing::Atomicity,
            4 => Missing::Completion,
            _ => Missing::Synchronization,
        }
    }
}

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
    fn time(&self, rank: usize) -> u32 {
        // Time begins at 1: a clock that says 0 knows nothing.
        self.numbers[self.layout.time_of(rank)] + 1
    }

    fn tick(&mut self, rank: usize) {
        self.numbers[self.layout.time_of(rank)] += 1;
    }

    /// Looks at an access, and remembers it. Returns how many new races it found.
    pub(crate) fn access(&mut self, access: &Access, pieces: &[Piece]) -> u32 {
        let site = Site {
            rank: access.actor.rank,
            lane: access.actor.lane,
            class: access.class,
            writes: access.writes,
            operation: access.operation,
            place: access.place,
            until: access.until,
        };
        let Some(number) = self.intern(site) else { return 0 };
        if let Some(target) = access.until {
            let (rank, time) = (access.actor.rank, self.time(access.actor.rank));
            let pending =
                &mut self.numbers[self.layout.pending_of(rank, access.actor.lane, target)];
            if *pending == 0 {
                *pending = time;
            }
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
            // Atomics exclude each other on words of one width.
            let is_mixed =
                other.class == Class::Atomic && site.class == Class::Atomic && old.mask != mask;
            let conflicts =
                (other.writes || site.writes) && (is_mixed || !other.class.excludes(site.class));
            if conflicts && !is_before {
                let missing = self.missing(other, old.time, site);
                found += self.race(
                    &Pair { first: other, second: site, missing },
                    access,
                    Span { offset, mask: old.mask & mask },
                );
            }
            let covers = old.mask & !mask == 0;
            let replaces = site.writes || !other.writes;
            let same_class = site.class == other.class;
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
        let (layout, me) = (self.layout, new.actor.rank);
        let Some(target) = old.until else {
            return old.rank == me || time <= self.numbers[layout.clock_of(me) + old.rank];
        };
        if old.rank != me {
            let known = layout.clock_of(me) + self.posted(old.rank, old.lane, target);
            return time <= self.numbers[known];
        }
        let pending = self.numbers[layout.pending_of(me, old.lane, target)];
        let heard = self.numbers[layout.clock_of(me) + self.posted(me, old.lane, target)];
        if pending == 0 || time < pending || time <= heard {
            return true;
        }
        // A fence orders what one context posts, or does atomically, to one rank.
        let is_ordered = new.until.is_some() || new.class == Class::Atomic;
        is_ordered
            && old.lane / 2 == new.actor.lane / 2
            && new.owner == target
            && time <= self.numbers[layout.fenced_of(me, old.lane, target)]
    }

    /// Where in a clock the posted operations of a lane to a target stand.
    fn posted(&self, rank: usize, lane: usize, target: usize) -> usize {
        let n = self.layout.n();
        n + (rank * LANES + lane) * n + target
    }

    fn missing(&self, old: Site, time: u32, new: Site) -> Missing {
        if old.rank == new.rank {
            return Missing::Fence;
        }
        // The second rank has heard from the first since, but not that this is complete.
        let heard = self.numbers[self.layout.clock_of(new.rank) + old.rank];
        if old.until.is_some() && time <= heard {
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
        let mut any = false;
        for lane in [actor.lane, actor.lane + 1] {
            let pending = &mut self.numbers[self.layout.pending_of(actor.rank, lane, target)];
            any |= std::mem::take(pending) != 0;
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
                if self.numbers[self.layout.pending_of(actor.rank, lane, target)] != 0 {
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
        let (time, mine) = (self.time(me), layout.clock_of(me));
        self.numbers[mine + me] = time;
        for lane in 0..LANES {
            for target in 0..n {
                let pending = self.numbers[layout.pending_of(me, lane, target)];
                let known = mine + self.posted(me, lane, target);
                // Others may have told this rank that more has landed.
                let done = pending.checked_sub(1).unwrap_or(time);
                self.numbers[known] = self.numbers[known].max(done);
            }
        }
        // What was the last release is one of those before it now.
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
                let known = theirs + self.posted(me, lane, owner);
                self.numbers[known] = self.numbers[known].max(fenced);
            }
            if signalled {
                let known = theirs + self.posted(me, actor.lane + 1, owner);
                self.numbers[known] = time;
            }
        }
        self.tick(me);
    }

    /// A rank has read a word: it knows what those knew that wrote it. If the last of them has
    /// stored another value than was seen, that one had not been there yet.
    pub(crate) fn acquire(&mut self, rank: usize, word: usize, seen: Option<u64>) {
        let layout = *self.layout;
        self.join(layout.clock_of(rank), layout.clock_of_word(word));
        let stored = layout.last_value_of_word(word);
        let [low, high] = [self.numbers[stored + 1], self.numbers[stored + 2]];
        let value = u64::from(high) << 32 | u64::from(low);
        let is_later = self.numbers[stored] != 0 && seen.is_some_and(|seen| seen != value);
        if !is_later {
            self.join(layout.clock_of(rank), layout.last_clock_of_word(word));
        }
    }

    /// An agent has changed one word on behalf of those that it has heard from.
    pub(crate) fn pass_on(&mut self, from: usize, to: usize) {
        let layout = *self.layout;
        self.join(layout.clock_of_word(to), layout.clock_of_word(from));
        self.join(layout.clock_of_word(to), layout.last_clock_of_word(from));
    }

    fn join(&mut self, into: usize, from: usize) {
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

    /// Returns where the shadow of a page of memory stands.
    fn page(&mut self, owner: usize, segment: SegmentId, page: u64) -> usize {
        let (layout, mask) = (*self.layout, self.layout.pages() - 1);
        let key = [segment.0 as u32, (segment.0 >> 32) as u32, owner as u32 + 1, page as u32];
        let hash = mix(segment.0 ^ (owner as u64) << 48 ^ page << 20);
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

/// The bits of `bytes` bytes from `first` on of 8.
fn mask_of(first: u64, bytes: u64) -> u32 {
    ((1u32 << bytes) - 1) << first
}

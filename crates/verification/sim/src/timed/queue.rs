//! The queue of future events, in the order of time.
//!
//! A wheel with a slot for every nanosecond of the near future, where an entry is put in and taken
//! out in a few steps however many there are. Later entries wait in a heap until the wheel has
//! turned that far.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The number of entries that are looked at before their time has come.
const AHEAD: usize = 24;
/// And how far ahead of the next one. Most of what is made later comes later than that, and need
/// not be sorted in among the upcoming.
const AHEAD_NS: u64 = 64;
/// The number of nanoseconds that the wheel shows: one bit of a word for each, and one of `filled`
/// for each word.
const SPAN: usize = 64 * u128::BITS as usize;
const NONE: u32 = u32::MAX;

/// Entries by time; those of one moment in the order in which they were made.
pub(crate) struct Queue<E> {
    /// The next ones, the earliest first.
    upcoming: VecDeque<(u64, E)>,
    /// The wheel shows this moment and those after it; nothing upcoming is later.
    from_ns: u64,
    /// The slots of the wheel: the first and the last entry of each.
    slots: Box<[(u32, u32)]>,
    /// A bit for each slot with entries, and a bit for each word of those that is not zero.
    occupied: [u64; SPAN / 64],
    filled: u128,
    /// The entries of the wheel, and which comes next in its slot; or in the list of places that
    /// are free, which begins at `free`.
    places: Vec<(E, u32)>,
    free: u32,
    /// The entries after all that the wheel shows.
    later: BinaryHeap<Reverse<(u64, u64, E)>>,
    made: u64,
}

impl<E: Copy + Ord> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue {
            upcoming: VecDeque::with_capacity(2 * AHEAD),
            from_ns: 0,
            slots: vec![(NONE, NONE); SPAN].into(),
            occupied: [0; SPAN / 64],
            filled: 0,
            places: Vec::new(),
            free: NONE,
            later: BinaryHeap::new(),
            made: 0,
        }
    }

    pub(crate) fn push(&mut self, at_ns: u64, entry: E) {
        if self.upcoming.is_empty() && self.filled == 0 {
            // Time may begin anew when nothing is left.
            self.from_ns = self.from_ns.min(at_ns);
        }
        if at_ns < self.from_ns {
            let place = self.upcoming.iter().rposition(|&(known_ns, _)| known_ns <= at_ns);
            self.upcoming.insert(place.map_or(0, |place| place + 1), (at_ns, entry));
        } else if at_ns - self.from_ns < SPAN as u64 {
            self.put_in(at_ns, entry);
        } else {
            self.made += 1;
            self.later.push(Reverse((at_ns, self.made, entry)));
        }
    }

    /// The next entry. `prepare` is shown entries before their time, with how soon they come: 2,
    /// then 1, then 0.
    #[inline]
    pub(crate) fn pop(&mut self, prepare: impl Fn(E, u32)) -> Option<(u64, E)> {
        while self.upcoming.len() < AHEAD
            && self.turn(
                self.upcoming
                    .front()
                    .map_or(u64::MAX, |&(next_ns, _)| next_ns.saturating_add(AHEAD_NS)),
            )
        {}
        for soon in [2, 1, 0] {
            if let Some(&(_, entry)) = self.upcoming.get((soon + 1) * AHEAD / 3 - 1) {
                prepare(entry, soon as u32);
            }
        }
        self.upcoming.pop_front()
    }

    /// Turns the wheel to its first entry, which is upcoming then; false if there is none until
    /// `limit_ns`.
    fn turn(&mut self, limit_ns: u64) -> bool {
        if self.filled == 0 {
            match self.later.peek() {
                Some(&Reverse((at_ns, ..))) if at_ns <= limit_ns => self.from_ns = at_ns,
                _ => return false,
            }
            self.catch_up();
        }
        let slot = self.next_slot();
        let at_ns =
            self.from_ns + (slot + SPAN - self.from_ns as usize % SPAN) as u64 % SPAN as u64;
        if at_ns > limit_ns {
            return false;
        }
        if at_ns > self.from_ns {
            self.from_ns = at_ns;
            self.catch_up();
        }
        let place = self.slots[slot].0;
        let (entry, after) = self.places[place as usize];
        self.upcoming.push_back((at_ns, entry));
        self.places[place as usize].1 = std::mem::replace(&mut self.free, place);
        self.slots[slot].0 = after;
        if after == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            if self.occupied[slot / 64] == 0 {
                self.filled &= !(1 << (slot / 64));
            }
        }
        true
    }

    /// The first slot with entries, from now on: in what is left of this word, in the words after
    /// it, or all around.
    fn next_slot(&self) -> usize {
        let now = self.from_ns as usize % SPAN;
        let rest = self.occupied[now / 64] & (u64::MAX << (now % 64));
        if rest != 0 {
            return now / 64 * 64 + rest.trailing_zeros() as usize;
        }
        // Turned so that the word after this one comes first, and this one last.
        let turned = self.filled.rotate_right(now as u32 / 64 + 1);
        let word = (now / 64 + 1 + turned.trailing_zeros() as usize) % (SPAN / 64);
        word * 64 + self.occupied[word].trailing_zeros() as usize
    }

    /// Puts what the wheel shows by now into its slots: ahead of all that will be made for the same
    /// moments.
    fn catch_up(&mut self) {
        while let Some(&Reverse((at_ns, _, entry))) = self.later.peek()
            && at_ns - self.from_ns < SPAN as u64
        {
            self.later.pop();
            self.put_in(at_ns, entry);
        }
    }

    fn put_in(&mut self, at_ns: u64, entry: E) {
        let place = match self.free {
            NONE => {
                self.places.push((entry, NONE));
                self.places.len() as u32 - 1
            }
            place => {
                self.free = std::mem::replace(&mut self.places[place as usize], (entry, NONE)).1;
                place
            }
        };
        let slot = at_ns as usize % SPAN;
        let (first, last) = &mut self.slots[slot];
        if *first == NONE {
            *first = place;
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.filled |= 1 << (slot / 64);
        } else {
            self.places[*last as usize].1 = place;
        }
        *last = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers that are the same for the same seed.
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        }
    }

    #[test]
    fn entries_come_in_the_order_of_time_and_of_making_whenever_they_are_made() {
        for (spread_ns, entries) in
            [(7, 100), (1000, 3), (3 * SPAN as u64, 10), (3 * SPAN as u64, 1000), (1, 50)]
        {
            let (mut queue, mut draw) = (Queue::new(), numbers(spread_ns));
            let mut expected = BinaryHeap::new();
            let mut now_ns = 0;
            for number in 0..20_000u64 {
                if number < entries || draw(2) == 0 {
                    let far = if draw(20) == 0 { 1_000_000 } else { 0 };
                    let at_ns = now_ns + draw(spread_ns) + far;
                    queue.push(at_ns, number);
                    expected.push(Reverse((at_ns, number)));
                } else {
                    let next = queue.pop(|_, _| {});
                    assert_eq!(next, expected.pop().map(|Reverse(next)| next));
                    now_ns = next.map_or(now_ns, |(at_ns, _)| at_ns);
                }
            }
            while let Some(next) = queue.pop(|_, _| {}) {
                assert_eq!(Some(next), expected.pop().map(|Reverse(next)| next));
            }
            assert!(expected.is_empty());
        }
    }

    #[test]
    fn time_may_begin_anew() {
        let mut queue = Queue::new();
        for round in 0..2 {
            for at_ns in [1_000_000, 5, 5 + SPAN as u64] {
                queue.push(at_ns, round);
            }
            for at_ns in [5, 5 + SPAN as u64, 1_000_000] {
                assert_eq!(queue.pop(|_, _| {}), Some((at_ns, round)));
            }
            assert_eq!(queue.pop(|_, _| {}), None);
        }
    }

    #[test]
    fn entries_of_one_moment_come_in_the_order_in_which_they_were_made() {
        let mut queue = Queue::new();
        (0..1000u64).for_each(|number| queue.push(5, number));
        let all: Vec<u64> =
            std::iter::from_fn(|| queue.pop(|_, _| {})).map(|(_, number)| number).collect();
        assert!(all.is_sorted() && all.len() == 1000);
    }
}

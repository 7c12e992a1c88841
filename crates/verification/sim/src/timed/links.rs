//! The operations under way from one rank to another.

use farside_fabric::Rank;

use crate::prefetch;

/// From one rank to another.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    /// The time at which the last operation arrives.
    pub(super) arrives_ns: u64,
    /// The time at which the last acknowledgement is back, of operations that have arrived.
    pub(super) acknowledged_ns: u64,
    /// The number of posted operations under way.
    pub(super) posted: u32,
}

/// The links on which something is under way. A link on which all is done is as good as one that
/// was never used, so the table holds no more than what happens at one time: one line of the
/// processor's caches for each question, and all lines soon in the caches.
pub(super) struct Links {
    /// As many as a power of two, each at the place that its ranks come to, or after it.
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy)]
#[repr(align(32))]
struct Slot {
    origin: u32,
    target: u32,
    link: Link,
}

const EMPTY: Slot = Slot {
    origin: u32::MAX,
    target: u32::MAX,
    link: Link { arrives_ns: 0, acknowledged_ns: 0, posted: 0 },
};
const SLOTS_MIN: usize = 64;

impl Links {
    pub(super) fn new() -> Links {
        Links { slots: vec![EMPTY; SLOTS_MIN], used: 0 }
    }

    pub(super) fn get(&self, origin: Rank, target: Rank) -> Link {
        self.slots[self.find(origin.0, target.0)].link
    }

    /// Returns the link from one rank to another, to be changed. May forget links that were done
    /// before `now_ns`.
    pub(super) fn enter(&mut self, origin: Rank, target: Rank, now_ns: u64) -> &mut Link {
        if self.used * 2 >= self.slots.len() {
            self.clear_up(now_ns);
        }
        let at = self.find(origin.0, target.0);
        if self.slots[at].is_empty() {
            self.used += 1;
            self.slots[at] = Slot { origin: origin.0, target: target.0, ..EMPTY };
        }
        &mut self.slots[at].link
    }

    /// Asks for a link that will be needed.
    pub(super) fn fetch(&self, origin: Rank, target: Rank) {
        prefetch::value(&self.slots[self.home(origin.0, target.0)]);
    }

    fn home(&self, origin: u32, target: u32) -> usize {
        let key = u64::from(origin) << 32 | u64::from(target);
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.slots.len().ilog2())) as usize
    }

    /// Returns the slot of a link, or the one that it would get.
    fn find(&self, origin: u32, target: u32) -> usize {
        let mut at = self.home(origin, target);
        while !self.slots[at].is_empty()
            && (self.slots[at].origin, self.slots[at].target) != (origin, target)
        {
            at = (at + 1) % self.slots.len();
        }
        at
    }

    /// Forgets links on which all is done, and makes room if most are still needed.
    fn clear_up(&mut self, now_ns: u64) {
        let is_needed = |slot: &Slot| !slot.is_empty() && !slot.link.is_done(now_ns);
        let needed: Vec<Slot> = self.slots.iter().copied().filter(is_needed).collect();
        let room = (needed.len() * 4).next_power_of_two().max(self.slots.len());
        self.slots.clear();
        self.slots.resize(room, EMPTY);
        self.used = needed.len();
        for slot in needed {
            let at = self.find(slot.origin, slot.target);
            self.slots[at] = slot;
        }
    }
}

impl Slot {
    fn is_empty(&self) -> bool {
        self.origin == u32::MAX
    }
}

impl Link {
    fn is_done(&self, now_ns: u64) -> bool {
        self.posted == 0 && self.arrives_ns <= now_ns && self.acknowledged_ns <= now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_kept_while_something_is_under_way() {
        let mut links = Links::new();
        for round in 0..100u32 {
            for target in 0..50 {
                let link = links.enter(Rank(round % 7), Rank(target), u64::from(round));
                link.arrives_ns = link.arrives_ns.max(u64::from(round + target));
                link.posted = target % 2;
            }
        }
        for target in 1..50 {
            let link = links.get(Rank(1), Rank(target));
            // The last round of this rank was the last of all, and what it sent has not arrived.
            assert_eq!(link.posted, target % 2);
            assert!(link.arrives_ns == u64::from(99 + target), "{}", link.arrives_ns);
        }
        assert_eq!(links.get(Rank(50), Rank(1)).arrives_ns, 0);
        assert!(links.slots.len() <= 2048, "{}", links.slots.len());
    }

    #[test]
    fn what_is_done_is_forgotten() {
        let mut links = Links::new();
        for now in 0..100_000u32 {
            links.enter(Rank(now), Rank(now / 2), now.into()).arrives_ns = u64::from(now) + 10;
        }
        assert_eq!(links.slots.len(), SLOTS_MIN);
    }
}

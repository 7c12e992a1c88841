//! The shadow of memory: which accesses to each 8 bytes are remembered.

use farside_fabric::SegmentId;

use crate::access::{Class, Site};
use crate::layout::{
    CONTEXT_LANES, GROUP, HALF_NUMBERS, HALF_SLOTS, Layout, PAGE_BYTES, SITES, count,
};
use crate::state::{State, mix};

/// A remembered access: its time, its site and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) time: u32,
    pub(crate) site: usize,
    pub(crate) mask: u32,
    /// Whether an atomic that reads the bytes may have seen it.
    pub(crate) has_landed: bool,
}

/// Which access of which rank an atomic is.
#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) owner: usize,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) rank: usize,
    pub(crate) time: u32,
}

/// Of a slot: the access has landed.
const HAS_LANDED: u32 = 1 << 31;
/// Of a page's key, in the number of the owner: the page's second half is in use.
const HAS_SECOND_HALF: u32 = 1 << 31;
/// How many groups of pages are looked at for a page.
const PROBES: usize = 16;

struct Key {
    numbers: [u32; 4],
    /// The hash of its group.
    group: u64,
    within: usize,
}

impl Key {
    fn new(owner: usize, segment: SegmentId, page: u64) -> Key {
        let memory = segment.0 ^ (owner as u64) << 48;
        // The pages of short windows, which are their first ones, are to be apart.
        let within = (page + mix(memory)) as usize % GROUP;
        Key {
            numbers: [segment.0 as u32, (segment.0 >> 32) as u32, owner as u32 + 1, page as u32],
            group: mix(memory ^ (page / GROUP as u64) << 20),
            within,
        }
    }

    /// The pages that it may have, in the order in which they are looked at.
    fn candidates(&self, layout: &Layout) -> impl Iterator<Item = usize> + use<> {
        let groups = layout.pages() / GROUP;
        let (first, within) = (self.group as usize, self.within);
        (0..PROBES.min(groups)).map(move |step| (first + step) % groups * GROUP + within)
    }
}

/// Where the shadow of a byte most probably stands: its key and its accesses.
pub(crate) fn probable(
    layout: &Layout,
    owner: usize,
    segment: SegmentId,
    offset: u64,
) -> Option<[usize; 2]> {
    let key = Key::new(owner, segment, offset / PAGE_BYTES);
    let page = key.candidates(layout).next()?;
    Some([layout.key(page), layout.page(page) + cell(offset)])
}

/// Where in a half of a page the accesses to the 8 bytes around an offset are remembered.
fn cell(offset: u64) -> usize {
    (offset % PAGE_BYTES) as usize / 8 * HALF_SLOTS * 2
}

impl State<'_> {
    fn has_key(&self, page: usize, key: &Key) -> bool {
        let at = self.layout.key(page);
        let [low, high, owner, number] = key.numbers;
        let held = &self.numbers[at..at + 4];
        held[3] == number
            && held[0] == low
            && held[1] == high
            && held[2] & !HAS_SECOND_HALF == owner
    }

    pub(crate) fn known_page(&self, owner: usize, segment: SegmentId, page: u64) -> Option<usize> {
        let key = Key::new(owner, segment, page);
        key.candidates(self.layout).find(|&page| self.has_key(page, &key))
    }

    pub(crate) fn page(&mut self, owner: usize, segment: SegmentId, page: u64) -> usize {
        let key = Key::new(owner, segment, page);
        let mut last = 0;
        for page in key.candidates(self.layout) {
            if self.has_key(page, &key) {
                return page;
            }
            let at = self.layout.key(page);
            if self.numbers[at + 2] == 0 {
                self.numbers[at..at + 4].copy_from_slice(&key.numbers);
                return page;
            }
            last = page;
        }
        // No room: some other page is forgotten.
        self.clear_page(last);
        let at = self.layout.key(last);
        self.numbers[at..at + 4].copy_from_slice(&key.numbers);
        self.numbers[count::FORGOTTEN] += (PAGE_BYTES / 1024) as u32;
        last
    }

    fn clear_page(&mut self, page: usize) {
        let layout = self.layout;
        self.numbers[layout.page(page)..][..HALF_NUMBERS].fill(0);
        if self.has_second_half(page) {
            self.numbers[layout.second_half(page)..][..HALF_NUMBERS].fill(0);
        }
        self.numbers[layout.key(page)..layout.key(page + 1)].fill(0);
    }

    pub(crate) fn forget_pages(&mut self) {
        for page in 0..self.layout.pages() {
            if self.numbers[self.layout.key(page) + 2] != 0 {
                self.clear_page(page);
            }
        }
    }

    fn has_second_half(&self, page: usize) -> bool {
        self.numbers[self.layout.key(page) + 2] & HAS_SECOND_HALF != 0
    }

    /// Returns where the accesses to the 8 bytes around an offset are remembered, and how many of
    /// these are in use, or would be next.
    pub(crate) fn slots(&self, page: usize, offset: u64) -> ([usize; 2 * HALF_SLOTS], usize) {
        let cell = cell(offset);
        let (first, second) = (self.layout.page(page) + cell, self.layout.second_half(page) + cell);
        let used = if self.has_second_half(page) { 2 * HALF_SLOTS } else { HALF_SLOTS };
        ([first, first + 2, second, second + 2], used)
    }

    pub(crate) fn use_second_half(&mut self, page: usize) {
        let at = self.layout.key(page) + 2;
        self.numbers[at] |= HAS_SECOND_HALF;
    }

    pub(crate) fn slot(&self, at: usize) -> Slot {
        let word = self.numbers[at + 1];
        Slot {
            time: self.numbers[at],
            site: (word >> 8) as usize % SITES,
            mask: word & 0xFF,
            has_landed: word & HAS_LANDED != 0,
        }
    }

    pub(crate) fn set(&mut self, at: usize, slot: Slot) {
        self.numbers[at] = slot.time;
        let has_landed = if slot.has_landed { HAS_LANDED } else { 0 };
        self.numbers[at + 1] = has_landed | (slot.site as u32) << 8 | slot.mask;
    }

    pub(crate) fn clear(&mut self, at: usize) {
        self.numbers[at..at + 2].fill(0);
    }

    /// A rank has seen the value of a word: the posted atomics and short puts that wrote it have
    /// landed, and whoever has heard from their origin since knows it. Of signals clocks tell it.
    pub(crate) fn see(&mut self, owner: usize, segment: SegmentId, offset: u64, bytes: u64) {
        let page = self.page(owner, segment, offset / PAGE_BYTES);
        let (slots, used) = self.slots(page, offset);
        let mask = mask_of(offset & 7, bytes.min(8));
        for &at in &slots[..used] {
            let old = self.slot(at);
            if old.mask & mask != 0 && old.has_landed {
                let site = self.site(old.site);
                let is_seen = matches!(site.class, Class::Atomic | Class::WaitablePut)
                    && site.lane.is_multiple_of(CONTEXT_LANES);
                let landed = Site { until: None, ..site };
                if is_seen
                    && site.until.is_some()
                    && let Some(number) = self.intern(landed)
                {
                    self.set(at, Slot { site: number, ..old });
                }
            }
        }
    }

    pub(crate) fn land(&mut self, posted: &Posted) {
        let Posted { owner, segment, offset, rank, time } = *posted;
        let Some(page) = self.known_page(owner, segment, offset / PAGE_BYTES) else { return };
        let (slots, used) = self.slots(page, offset);
        for &at in &slots[..used] {
            let old = self.slot(at);
            let site = self.site(old.site);
            if old.mask != 0 && (old.time, site.rank, site.class) == (time, rank, Class::Atomic) {
                self.set(at, Slot { has_landed: true, ..old });
            }
        }
    }

    /// Forgets the accesses to memory that has become other memory.
    pub(crate) fn forget(&mut self, owner: usize, segment: SegmentId, offset: u64, bytes: u64) {
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let next = ((at / PAGE_BYTES + 1) * PAGE_BYTES).min(end);
            if let Some(page) = self.known_page(owner, segment, at / PAGE_BYTES) {
                let (first, used) = self.slots(page, at);
                let (last, _) = self.slots(page, next - 1);
                for half in (0..used).step_by(HALF_SLOTS) {
                    self.numbers[first[half]..last[half + 1] + 2].fill(0);
                }
            }
            at = next;
        }
    }
}

/// The bits of `bytes` bytes from `first` on of 8.
pub(crate) fn mask_of(first: u64, bytes: u64) -> u32 {
    ((1u32 << bytes) - 1) << first
}

//! Where each part of the checker's state stands in its memory.

use farside_fabric::{Error, Result};

/// How many ranks a checked job may have: clocks grow with their square.
pub(crate) const RANKS_MAX: u32 = 128;
/// Two for each of four contexts of a rank: of its posted operations, and of its puts with a
/// signal. Further contexts share those of earlier ones.
pub(crate) const LANES: usize = 8;
/// Each page of the shadow stands for so many bytes of memory.
pub(crate) const PAGE_BYTES: u64 = 1024;
/// Accesses that are remembered for each 8 bytes.
pub(crate) const SLOTS: usize = 4;
/// The numbers of one page of the shadow.
pub(crate) const PAGE_NUMBERS: usize = (PAGE_BYTES / 8) as usize * SLOTS * 2;
pub(crate) const KEY_NUMBERS: usize = 4;
pub(crate) const SITES: usize = 1 << 16;
pub(crate) const SITE_NUMBERS: usize = 4;
pub(crate) const PLACES: usize = 4096;
pub(crate) const PLACE_NUMBERS: usize = 64;
pub(crate) const RACES: usize = 1024;
pub(crate) const RACE_NUMBERS: usize = 12;
pub(crate) const NAMES: usize = 256;
pub(crate) const NAME_NUMBERS: usize = 32;
pub(crate) const BLINDS: usize = 256;
pub(crate) const BLIND_NUMBERS: usize = 2;
/// How many changed clocks of words are listed, so that they can be cleared one by one.
pub(crate) const CHANGED: usize = 4096;

/// The logarithm of how many pages of the shadow a short run has.
const SHORT_PAGE_BITS: u32 = 8;

/// Single counters, from number 0 on.
pub(crate) mod count {
    /// Races in the table.
    pub(crate) const RACES: usize = 0;
    /// Pages of the shadow that were given to other memory.
    pub(crate) const FORGOTTEN: usize = 1;
    /// Places in the table.
    pub(crate) const PLACES: usize = 2;
    /// Named segments.
    pub(crate) const NAMES: usize = 3;
    /// Blind spots.
    pub(crate) const BLINDS: usize = 4;
    /// Whether a race is an error of the operation that finds it.
    pub(crate) const FAILS: usize = 5;
    /// Accesses that were looked at, in two numbers.
    pub(crate) const ACCESSES: usize = 6;
    /// Clocks of words that were changed.
    pub(crate) const CHANGED: usize = 8;
    /// Where the next part begins.
    pub(crate) const END: usize = 64;
}

/// The offsets of all parts, for a number of ranks and of pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) ranks: u32,
    /// The logarithm of the number of pages of the shadow.
    pub(crate) page_bits: u32,
    /// How many words have a clock of their own; the others share one.
    pub(crate) words: usize,
    /// How many strands of a rank are told apart.
    pub(crate) strands: usize,
}

impl Layout {
    pub(crate) fn new(ranks: u32, page_bits: u32) -> Result<Layout> {
        if ranks == 0 || ranks > RANKS_MAX {
            return Err(Error::TooMuch {
                what: "ranks of a job that is checked for races",
                value: ranks.into(),
                limit: RANKS_MAX.into(),
            });
        }
        let (words, strands) = if ranks <= 16 { (1 << 16, 64) } else { (1 << 12, 16) };
        Ok(Layout { ranks, page_bits: page_bits.clamp(4, 24), words, strands })
    }

    /// For short runs of ranks that have no threads.
    pub(crate) fn short(ranks: u32) -> Result<Layout> {
        Ok(Layout { strands: 1, ..Layout::new(ranks, SHORT_PAGE_BITS)? })
    }

    pub(crate) fn n(&self) -> usize {
        self.ranks as usize
    }

    pub(crate) fn pages(&self) -> usize {
        1 << self.page_bits
    }

    /// The numbers of a clock: one for each strand of each rank, and one for each lane and target.
    pub(crate) fn clock(&self) -> usize {
        (self.strands + LANES * self.n()) * self.n()
    }

    /// Where in a clock a strand stands.
    pub(crate) fn of_strand(&self, rank: usize, strand: usize) -> usize {
        rank * self.strands + strand
    }

    /// Where in a clock the posted operations of a lane to a target stand.
    pub(crate) fn of_posted(&self, rank: usize, lane: usize, target: usize) -> usize {
        (self.strands + rank * LANES + lane) * self.n() + target
    }

    /// The numbers of a rank's state: its time; for each lane and target when something was posted
    /// last, up to when it is fenced, and up to when by a protocol; which strand was made last;
    /// and for each strand how many use it, and when it was made.
    fn state(&self) -> usize {
        2 + 3 * LANES * self.n() + 2 * self.strands
    }

    pub(crate) fn time_of(&self, rank: usize) -> usize {
        count::END + rank * self.state()
    }

    pub(crate) fn last_post_of(&self, rank: usize, lane: usize, target: usize) -> usize {
        self.time_of(rank) + 1 + lane * self.n() + target
    }

    pub(crate) fn fenced_of(&self, rank: usize, lane: usize, target: usize) -> usize {
        self.last_post_of(rank, LANES + lane, target)
    }

    pub(crate) fn fenced_by_protocol(&self, rank: usize, lane: usize, target: usize) -> usize {
        self.last_post_of(rank, 2 * LANES + lane, target)
    }

    /// Which strand of a rank was made last.
    pub(crate) fn newest_strand_of(&self, rank: usize) -> usize {
        self.last_post_of(rank, 3 * LANES, 0)
    }

    /// How many use a strand.
    pub(crate) fn users_of(&self, rank: usize, strand: usize) -> usize {
        self.newest_strand_of(rank) + 1 + strand
    }

    /// When a strand was made.
    pub(crate) fn birth_of(&self, rank: usize, strand: usize) -> usize {
        self.users_of(rank, self.strands + strand)
    }

    pub(crate) fn clock_of(&self, rank: usize, strand: usize) -> usize {
        let strand = self.of_strand(rank, strand);
        count::END + self.n() * self.state() + strand * self.clock()
    }

    pub(crate) fn clock_of_word(&self, word: usize) -> usize {
        self.clock_of(self.n(), 0) + word * self.word_numbers()
    }

    /// The numbers of a word: its clock, that of its last release, the value that this has stored
    /// in three numbers, and whether it is listed as changed.
    pub(crate) fn word_numbers(&self) -> usize {
        2 * self.clock() + 4
    }

    pub(crate) fn is_listed(&self, word: usize) -> usize {
        self.last_value_of_word(word) + 3
    }

    /// The clock of the last release of a word; the one above has all before it.
    pub(crate) fn last_clock_of_word(&self, word: usize) -> usize {
        self.clock_of_word(word) + self.clock()
    }

    /// Whether the last release of a word has stored a value, and the value in two numbers.
    pub(crate) fn last_value_of_word(&self, word: usize) -> usize {
        self.clock_of_word(word) + 2 * self.clock()
    }

    pub(crate) fn site(&self, site: usize) -> usize {
        self.clock_of_word(self.words) + site * SITE_NUMBERS
    }

    pub(crate) fn place(&self, place: usize) -> usize {
        self.site(SITES) + place * PLACE_NUMBERS
    }

    pub(crate) fn race(&self, race: usize) -> usize {
        self.place(PLACES) + race * RACE_NUMBERS
    }

    pub(crate) fn name(&self, name: usize) -> usize {
        self.race(RACES) + name * NAME_NUMBERS
    }

    pub(crate) fn blind(&self, blind: usize) -> usize {
        self.name(NAMES) + blind * BLIND_NUMBERS
    }

    /// An entry of the list of changed words.
    pub(crate) fn changed(&self, entry: usize) -> usize {
        self.blind(BLINDS) + entry
    }

    pub(crate) fn key(&self, page: usize) -> usize {
        self.changed(CHANGED) + page * KEY_NUMBERS
    }

    pub(crate) fn page(&self, page: usize) -> usize {
        self.key(self.pages()) + page * PAGE_NUMBERS
    }

    /// All numbers.
    pub(crate) fn numbers(&self) -> usize {
        self.page(self.pages())
    }
}

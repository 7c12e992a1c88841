//! Where each part of the checker's state stands in its memory.

use farside_fabric::{Error, Result};

/// How many numbers stand ahead of the checker's own: the lock, and what it takes to map the rest.
pub(crate) const HEAD: usize = 16;
/// How many ranks a checked job may have: what is kept for pairs of them grows with their square.
pub(crate) const RANKS_MAX: u32 = 1024;
/// How many contexts of a rank are told apart. Further ones share the lanes of earlier ones.
pub(crate) const CONTEXTS: usize = 4;
/// The lanes of a context: one of its posted operations, and behind it those of its signals, with
/// what was put with them. Signals that are under way at once have a lane each, as far as there
/// are some, since each tells of itself alone.
pub(crate) const CONTEXT_LANES: usize = 4;
/// The first lane of what handlers post.
pub(crate) const AGENT_LANE: usize = CONTEXTS * CONTEXT_LANES;
/// The lanes of a rank.
pub(crate) const LANES: usize = AGENT_LANE + CONTEXT_LANES;
/// The most columns that clocks have. When all are given, what is posted further on counts as
/// complete at once, and is counted.
const COLUMNS_MAX: usize = 1 << 16;
/// The columns of the first block of a word's clocks: as many as two ranks need that post to each
/// other. With the word's other numbers they fill a line of the processor's cache.
const FIRST_COLUMNS: usize = 6;
/// The numbers of a word ahead of its clocks.
const WORD_HEAD: usize = 4;
/// Each page of the shadow stands for so many bytes of memory.
pub(crate) const PAGE_BYTES: u64 = 2048;
/// Accesses that are remembered for each 8 bytes, in each of the two halves of a page. The second
/// half has memory where the first did not do.
pub(crate) const HALF_SLOTS: usize = 2;
/// The numbers of a half of a page of the shadow.
pub(crate) const HALF_NUMBERS: usize = (PAGE_BYTES / 8) as usize * HALF_SLOTS * 2;
pub(crate) const KEY_NUMBERS: usize = 4;
/// Pages that follow one another have keys that do so, in groups of so many.
pub(crate) const GROUP: usize = 16;
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
/// The place of what is nowhere looked into.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// Puts whose signals add to words are kept in groups, of the words whose numbers have the same
/// remainder, so many in each.
pub(crate) const ADD_GROUPS: usize = 256;
pub(crate) const ADDS: usize = 8;
pub(crate) const ADD_NUMBERS: usize = 7;
/// How many changed clocks of words are listed, so that they can be cleared one by one.
pub(crate) const CHANGED: usize = 4096;

/// The logarithm of how many pages of the shadow a short run has.
const SHORT_PAGE_BITS: u32 = 8;

/// Single counters, from number 0 on.
pub(crate) mod count {
    pub(crate) const RACES: usize = 0;
    /// Pages of the shadow that were given to other memory.
    pub(crate) const FORGOTTEN: usize = 1;
    pub(crate) const PLACES: usize = 2;
    /// Named segments.
    pub(crate) const NAMES: usize = 3;
    pub(crate) const BLINDS: usize = 4;
    /// Whether a race is an error of the operation that finds it.
    pub(crate) const FAILS: usize = 5;
    /// Accesses that were looked at, in two numbers.
    pub(crate) const ACCESSES: usize = 6;
    /// Clocks of words that were changed.
    pub(crate) const CHANGED: usize = 8;
    /// Columns of clocks that are given, besides those of the ranks' first strands.
    pub(crate) const COLUMNS: usize = 9;
    /// Accesses that were not looked at because a table was full.
    pub(crate) const DROPPED: usize = 10;
    pub(crate) const JOINED: usize = 11;
    /// Whether puts whose signals add to words are kept.
    pub(crate) const ADDS: usize = 12;
    /// Accesses that were forgotten because others touched the same 8 bytes.
    pub(crate) const DISPLACED: usize = 13;
    /// Posted operations that counted as complete because no column was left.
    pub(crate) const COMPLETED: usize = 14;
    pub(crate) const END: usize = 64;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) ranks: u32,
    /// The logarithm of the number of pages of the shadow.
    pub(crate) page_bits: u32,
    /// How many words have a clock of their own; the others share one.
    pub(crate) words: usize,
    /// How many strands of a rank are told apart. The last one is that of the handlers that run in
    /// its process.
    pub(crate) strands: usize,
    /// The most columns that a clock can have: one for each strand of each rank, and one for each
    /// lane and target. They are given as they are needed, so most clocks are short.
    pub(crate) columns_max: usize,
    /// Whether it is known when each atomic is carried out: the program is explored.
    pub(crate) is_exact: bool,
    /// Where words, sites, keys and pages begin; every access asks.
    words_begin: usize,
    sites_begin: usize,
    keys_begin: usize,
    pages_begin: usize,
}

/// Some columns that follow one another, of all words' clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) start: usize,
    pub(crate) columns: usize,
    /// How many numbers of a word stand ahead of them.
    head: usize,
}

impl Block {
    /// The blocks: each is as long as all before it together, or nearly.
    fn number(block: u32) -> Block {
        match block.checked_sub(1) {
            None => Block { start: 0, columns: FIRST_COLUMNS, head: WORD_HEAD },
            Some(bits) => {
                Block { start: FIRST_COLUMNS + (16 << bits) - 16, columns: 16 << bits, head: 0 }
            }
        }
    }

    pub(crate) fn of(column: usize) -> Block {
        match column.checked_sub(FIRST_COLUMNS) {
            None => Block::number(0),
            Some(rest) => Block::number((rest / 16 + 1).ilog2() + 1),
        }
    }
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
        let (words, strands) = if ranks <= 16 { (1 << 16, 65) } else { (1 << 12, 17) };
        Ok(Layout::with(ranks, page_bits.clamp(4, 24), words, strands))
    }

    /// For short runs of ranks that have no threads.
    pub(crate) fn short(ranks: u32) -> Result<Layout> {
        let Layout { page_bits, words, .. } = Layout::new(ranks, SHORT_PAGE_BITS)?;
        Ok(Layout { is_exact: true, ..Layout::with(ranks, page_bits, words, 2) })
    }

    fn with(ranks: u32, page_bits: u32, words: usize, strands: usize) -> Layout {
        let n = ranks as usize;
        let columns_max = ((strands + LANES * n) * n).min(COLUMNS_MAX);
        let (words_begin, sites_begin, keys_begin, pages_begin) = (0, 0, 0, 0);
        let mut layout = Layout {
            ranks,
            page_bits,
            words,
            strands,
            columns_max,
            is_exact: false,
            words_begin,
            sites_begin,
            keys_begin,
            pages_begin,
        };
        // A word begins with a line of the processor's cache.
        layout.words_begin = (layout.clock_of(n, 0) + HEAD).next_multiple_of(16) - HEAD;
        layout.sites_begin = layout.in_block(Block::of(columns_max - 1), words);
        layout.keys_begin = layout.next_add(ADD_GROUPS);
        // A page begins with one of the system's, which then holds nothing else.
        let keys_end = layout.key(layout.pages());
        layout.pages_begin = (keys_end + HEAD).next_multiple_of(1024) - HEAD;
        layout
    }

    pub(crate) fn n(&self) -> usize {
        self.ranks as usize
    }

    pub(crate) fn pages(&self) -> usize {
        1 << self.page_bits
    }

    /// The strand of the handlers that run in a rank's process.
    pub(crate) fn agent_strand(&self) -> usize {
        self.strands - 1
    }

    /// The numbers of a rank's state: its time; for each lane and target when something was posted
    /// last, up to when it is fenced, up to when by a protocol, and which column is theirs; which
    /// strand was made last; and for each strand how many use it, when it was made, and its column.
    fn state(&self) -> usize {
        2 + 4 * LANES * self.n() + 3 * self.strands
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

    /// Up to when a lane is fenced, for those that learn of it through words of the program, or of
    /// a protocol.
    pub(crate) fn fenced(
        &self,
        rank: usize,
        lane: usize,
        target: usize,
        is_program: bool,
    ) -> usize {
        match is_program {
            true => self.fenced_of(rank, lane, target),
            false => self.fenced_by_protocol(rank, lane, target),
        }
    }

    /// Which column of a clock tells of posted operations of a lane to a target, plus one.
    pub(crate) fn column_of_posted(&self, rank: usize, lane: usize, target: usize) -> usize {
        self.last_post_of(rank, 3 * LANES + lane, target)
    }

    pub(crate) fn newest_strand_of(&self, rank: usize) -> usize {
        self.last_post_of(rank, 4 * LANES, 0)
    }

    pub(crate) fn users_of(&self, rank: usize, strand: usize) -> usize {
        self.newest_strand_of(rank) + 1 + strand
    }

    pub(crate) fn birth_of(&self, rank: usize, strand: usize) -> usize {
        self.users_of(rank, self.strands + strand)
    }

    /// Which column of a clock tells of a strand that is not the first of its rank, plus one.
    pub(crate) fn column_of_strand(&self, rank: usize, strand: usize) -> usize {
        self.users_of(rank, 2 * self.strands + strand)
    }

    pub(crate) fn clock_of(&self, rank: usize, strand: usize) -> usize {
        let strand = rank * self.strands + strand;
        count::END + self.n() * self.state() + strand * self.columns_max
    }

    pub(crate) fn blocks(&self, columns: usize) -> impl Iterator<Item = Block> + use<> {
        (0..).map(Block::number).take_while(move |block| block.start < columns)
    }

    /// Where the numbers of a word that a block has begin: in the first block whether its last
    /// release has stored a value, the value in two numbers, and whether the word is listed as
    /// changed; then the columns of the clock of its last release, and those of all before it.
    fn in_block(&self, block: Block, word: usize) -> usize {
        let head = if block.head == 0 { WORD_HEAD } else { 0 };
        let begin = self.words_begin + self.words * (head + 2 * block.start);
        begin + word * (block.head + 2 * block.columns)
    }

    pub(crate) fn numbers_in_block(&self, block: Block) -> std::ops::Range<usize> {
        self.in_block(block, 0)..self.in_block(block, self.words)
    }

    pub(crate) fn numbers_of_word(&self, block: Block, word: usize) -> std::ops::Range<usize> {
        self.in_block(block, word)..self.in_block(block, word + 1)
    }

    /// Whether the last release of a word has stored a value, above that the number of the attempt
    /// that it was, and the value in two numbers.
    pub(crate) fn last_value_of_word(&self, word: usize) -> usize {
        self.in_block(Block::number(0), word)
    }

    pub(crate) fn is_listed(&self, word: usize) -> usize {
        self.last_value_of_word(word) + 3
    }

    /// Where a block has the columns of the clock of a word's last release. Those of all before
    /// it follow.
    pub(crate) fn last_clock_of_word(&self, block: Block, word: usize) -> usize {
        self.in_block(block, word) + block.head
    }

    /// Where one column of the clock of a word's last release stands.
    pub(crate) fn last_column_of_word(&self, word: usize, column: usize) -> usize {
        let block = Block::of(column);
        self.last_clock_of_word(block, word) + column - block.start
    }

    pub(crate) fn site(&self, site: usize) -> usize {
        self.sites_begin + site * SITE_NUMBERS
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

    pub(crate) fn changed(&self, entry: usize) -> usize {
        self.blind(BLINDS) + entry
    }

    /// The entry of a group of kept puts that is given next. The entries follow.
    pub(crate) fn next_add(&self, group: usize) -> usize {
        self.changed(CHANGED) + group * (1 + ADDS * ADD_NUMBERS)
    }

    pub(crate) fn add(&self, group: usize, entry: usize) -> usize {
        self.next_add(group) + 1 + entry * ADD_NUMBERS
    }

    pub(crate) fn key(&self, page: usize) -> usize {
        self.keys_begin + page * KEY_NUMBERS
    }

    /// The first half of a page of the shadow.
    pub(crate) fn page(&self, page: usize) -> usize {
        self.pages_begin + page * HALF_NUMBERS
    }

    pub(crate) fn second_half(&self, page: usize) -> usize {
        self.page(self.pages() + page)
    }

    pub(crate) fn numbers(&self) -> usize {
        self.second_half(self.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_words_have_numbers_of_their_own() {
        let layout = Layout::with(2, 4, 3, 64);
        let columns = layout.columns_max;
        let end = |block: &Block| block.start + block.columns;
        let mut taken = std::collections::HashSet::new();
        for word in 0..layout.words {
            let head = layout.last_value_of_word(word);
            assert!((head..head + WORD_HEAD).all(|number| taken.insert(number)));
            for column in 0..columns {
                let (last, block) = (layout.last_column_of_word(word, column), Block::of(column));
                assert!((block.start..end(&block)).contains(&column), "{column} in {block:?}");
                assert!(taken.insert(last) && taken.insert(last + block.columns), "{column}");
                assert!(layout.numbers_of_word(block, word).contains(&(last + block.columns)));
            }
        }
        assert!(taken.iter().all(|&number| number >= layout.clock_of(2, 0)));
        assert!(taken.iter().all(|&number| number < layout.site(0)));
        let blocks: Vec<Block> = layout.blocks(columns).collect();
        assert!(blocks.windows(2).all(|two| end(&two[0]) == two[1].start), "{blocks:?}");
        assert_eq!(blocks.last().map(end).map(|end| end >= columns), Some(true));
        assert_eq!(layout.blocks(FIRST_COLUMNS).count(), 1);
        assert_eq!(layout.blocks(FIRST_COLUMNS + 1).count(), 2);
    }
}

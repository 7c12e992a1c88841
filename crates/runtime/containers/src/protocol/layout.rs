//! How a volume of a growing map lies in memory, and what its words mean.
//!
//! Paper:     [RMALOCK16] section 5.3: a table, and a heap of cells for what does not fit into it;
//!            linear hashing is Litwin's (VLDB 1980).
//! Differs:   the table's words are reserved and grow in use, bucket by bucket.
//! State:     4 lines of words; a bucket is a state and a cell; a cell is a word that says what it
//!            holds and two places for an entry.
//! Invariant: a bucket of depth d has the keys whose lowest d bits of the hash are its index.
//! Ordering:  none; this file computes.
//! Cost:      none.
//! Checked:   by those who use it.

use farside_fabric::Rank;

/// Words between those that different ranks change all the time.
const LINE: usize = 16;
/// How many entries there are; above them, how often one was removed or an empty cell taken, which
/// goes past its end.
pub(crate) const COUNT: usize = 0;
/// How many buckets are in use; zero stands for the first number.
pub(crate) const SHAPE: usize = LINE;
/// The rank that splits a bucket, plus one; zero if none does.
pub(crate) const CLAIM: usize = 2 * LINE;
/// How many cells of the heap were asked for one by one: the first `cells_max` were fresh.
pub(crate) const FREE: usize = 3 * LINE;
/// How many parts of the table were looked through for empty cells, since there are no fresh ones.
pub(crate) const SWEPT: usize = FREE + 1;
/// When all buckets were looked through in vain, by [`moment`]; zero if they never were.
pub(crate) const VAIN: usize = FREE + 2;
const TABLE: usize = 4 * LINE;

/// The entries in the word [`COUNT`], and what is added to it when an entry is removed, and when an
/// empty cell is taken from another bucket.
const COUNT_BITS: u32 = 40;
pub(crate) const REMOVED: u64 = TAKEN - 1;
pub(crate) const TAKEN: u64 = 1 << COUNT_BITS;

/// The number of entries. It may be less than none while a removal is counted before the insertion.
pub(crate) fn entries(count: u64) -> i64 {
    (count << (64 - COUNT_BITS)) as i64 >> (64 - COUNT_BITS)
}

/// A number that is another one as soon as a cell may have become empty since: in a removal, or
/// because its bucket was split. Not zero.
pub(crate) fn moment(count: u64, shape: u64) -> u64 {
    let changes = count.wrapping_sub(entries(count) as u64) >> COUNT_BITS;
    shape << (64 - COUNT_BITS) | changes
}

/// Where things are in a volume; all numbers are words.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) key_words: usize,
    pub(crate) value_words: usize,
    /// How many buckets there are at first, a power of two, and at most.
    pub(crate) first: u64,
    pub(crate) buckets_max: u64,
    pub(crate) cells_max: u64,
}

impl Layout {
    /// A volume of at least `slots` buckets at first, in at most `words` words.
    pub(crate) fn new(
        key_words: usize,
        value_words: usize,
        slots: u64,
        words: u64,
    ) -> Option<Layout> {
        let mut layout = Layout {
            key_words,
            value_words,
            first: slots.max(1).checked_next_power_of_two()?,
            buckets_max: 0,
            cells_max: 0,
        };
        let (bucket, cell) = (layout.bucket_words() as u64, layout.cell_words() as u64);
        // Where there is an entry for each bucket, a bit more than a third of them lie in the heap.
        let both = words.checked_sub(TABLE as u64)? / (bucket + cell);
        layout.buckets_max = both.min(1 << 31);
        layout.cells_max = both.min((1 << 32) - 2);
        (both >= layout.first).then_some(layout)
    }

    pub(crate) fn entry_words(&self) -> usize {
        self.key_words + self.value_words
    }

    pub(crate) fn cell_words(&self) -> usize {
        1 + 2 * self.entry_words()
    }

    pub(crate) fn bucket_words(&self) -> usize {
        1 + self.cell_words()
    }

    pub(crate) fn words(&self) -> usize {
        self.heap() + (self.cells_max as usize + 1) * self.cell_words()
    }

    fn heap(&self) -> usize {
        TABLE + self.buckets_max as usize * self.bucket_words()
    }

    /// The state of a bucket; its cell follows.
    pub(crate) fn state(&self, bucket: u64) -> usize {
        TABLE + bucket as usize * self.bucket_words()
    }

    pub(crate) fn cell(&self, link: u32) -> usize {
        self.heap() + (link as usize - 1) * self.cell_words()
    }

    pub(crate) fn entry(&self, meta: Meta, current: bool) -> usize {
        1 + if meta.is_second() == current { self.entry_words() } else { 0 }
    }

    pub(crate) fn bucket(&self, hash: u64, shape: u64) -> u64 {
        let bucket = hash & (shape.next_power_of_two() - 1);
        if bucket < shape { bucket } else { hash & ((1 << shape.ilog2()) - 1) }
    }

    /// How many bits of the hash a bucket stands for; `None` if it was never filled.
    pub(crate) fn depth(&self, bucket: u64, state: State) -> Option<u32> {
        match state.depth_word() {
            0 if bucket < self.first => Some(self.first.ilog2()),
            0 => None,
            depth => Some(depth - 1),
        }
    }

    pub(crate) fn shape(&self, word: u64) -> u64 {
        if word == 0 { self.first } else { word }
    }
}

/// Where to look for a hash instead, if a bucket of this depth is not its own.
pub(crate) fn astray(hash: u64, bucket: u64, depth: u32) -> Option<u64> {
    let differs = (hash ^ bucket) & ((1 << depth) - 1);
    (differs != 0).then(|| hash & ((2 << differs.trailing_zeros()) - 1))
}

/// The state of a bucket: version (32 bits), holder (24 bits: zero, or one more than the rank),
/// whether it is being split (1 bit), depth and one (7 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    const HOLDER: u64 = ((1 << 24) - 1) << 8;
    const SPLITTING: u64 = 1 << 7;
    const DEPTH: u64 = (1 << 7) - 1;

    pub(crate) fn holder(self) -> Option<Rank> {
        (((self.0 & State::HOLDER) >> 8) as u32).checked_sub(1).map(Rank)
    }

    pub(crate) fn held_by(self, rank: Rank) -> State {
        State((self.0 & !State::HOLDER) | ((u64::from(rank.0) + 1) << 8))
    }

    pub(crate) fn is_splitting(self) -> bool {
        self.0 & State::SPLITTING != 0
    }

    pub(crate) fn splitting(self) -> State {
        State(self.0 | State::SPLITTING)
    }

    fn depth_word(self) -> u32 {
        (self.0 & State::DEPTH) as u32
    }

    pub(crate) fn has_depth_of(self, other: State) -> bool {
        self.depth_word() == other.depth_word()
    }

    pub(crate) fn with_depth(self, depth: u32) -> State {
        State((self.0 & !(State::DEPTH | State::SPLITTING)) | u64::from(depth + 1))
    }

    /// Free again; of the next version if something was changed.
    pub(crate) fn released(self, changed: bool) -> State {
        let free = self.0 & !State::HOLDER;
        State(if changed { free.wrapping_add(1 << 32) } else { free })
    }
}

/// What a cell holds: a count of changes (24 bits), the link to the next cell (32 bits), and
/// whether the cell may not be used any more, which of its two places is the current one, and
/// whether there is an entry in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta(pub(crate) u64);

impl Meta {
    const OCCUPIED: u64 = 1;
    const SECOND: u64 = 2;
    const ABANDONED: u64 = 4;
    const NEXT: u64 = 0xFFFF_FFFF << 8;
    const CHANGE: u64 = 1 << 40;

    /// A cell with an entry in its first place.
    pub(crate) fn filled(next: u32) -> Meta {
        Meta(Meta::OCCUPIED | (u64::from(next) << 8))
    }

    pub(crate) fn is_occupied(self) -> bool {
        self.0 & Meta::OCCUPIED != 0
    }

    pub(crate) fn is_second(self) -> bool {
        self.0 & Meta::SECOND != 0
    }

    pub(crate) fn is_usable(self) -> bool {
        self.0 & Meta::ABANDONED == 0
    }

    pub(crate) fn next(self) -> u32 {
        ((self.0 & Meta::NEXT) >> 8) as u32
    }

    fn changed(self) -> Meta {
        Meta(self.0.wrapping_add(Meta::CHANGE))
    }

    /// With the entry that the other place holds.
    pub(crate) fn flipped(self) -> Meta {
        Meta((self.0 ^ Meta::SECOND) | Meta::OCCUPIED).changed()
    }

    pub(crate) fn emptied(self) -> Meta {
        Meta(self.0 & !Meta::OCCUPIED).changed()
    }

    pub(crate) fn with_next(self, next: u32) -> Meta {
        Meta((self.0 & !Meta::NEXT) | (u64::from(next) << 8)).changed()
    }

    pub(crate) fn abandoned(self) -> Meta {
        Meta(self.0 | Meta::ABANDONED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions and counts of changes are the topmost fields: running over, they disturb no other.
    #[test]
    fn versions_and_changes_go_past_their_end() {
        let held = State(0).with_depth(3).held_by(Rank(5));
        let last = State(held.0 | 0xFFFF_FFFF << 32);
        let next = last.released(true);
        assert_eq!((next.0 >> 32, next.holder(), next.depth_word()), (0, None, 4));
        let meta = Meta(Meta::filled(7).0 | 0xFF_FFFF << 40);
        let next = meta.flipped();
        assert!(next.is_occupied() && next.is_second() && next.is_usable());
        assert_eq!((next.next(), next.0 >> 40), (7, 0));
    }

    #[test]
    fn a_hash_finds_its_bucket_from_any_older_shape() {
        let layout = Layout::new(1, 1, 4, 1 << 16).unwrap();
        let depth = |bucket: u64, shape: u64| {
            let level = shape.ilog2();
            if bucket < shape - (1 << level) || bucket >= 1 << level { level + 1 } else { level }
        };
        for hash in (0..4000u64).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) {
            for now in 4..40 {
                let own = layout.bucket(hash, now);
                assert!(own < now);
                for then in 4..=now {
                    let mut bucket = layout.bucket(hash, then);
                    while let Some(next) = astray(hash, bucket, depth(bucket, now)) {
                        assert!(next > bucket);
                        bucket = next;
                    }
                    assert_eq!(bucket, own, "{hash:b} of {then} and {now}");
                }
            }
        }
    }

    #[test]
    fn removals_are_counted_beside_entries() {
        let counted = |words: &[u64]| words.iter().fold(0u64, |all, &word| all.wrapping_add(word));
        let all = [1, 1, REMOVED, 1, TAKEN, REMOVED, REMOVED];
        let held: Vec<i64> = (0..=all.len()).map(|end| entries(counted(&all[..end]))).collect();
        assert_eq!(held, [0, 1, 2, 1, 2, 2, 1, 0]);
        assert_eq!(entries(counted(&[REMOVED])), -1, "before its insertion");
        assert_eq!(entries(counted(&[REMOVED, 1])), 0);
        let (before, after) = (counted(&all[..2]), counted(&all[..4]));
        assert_eq!(entries(before), entries(after));
        assert!(moment(before, 7) != moment(after, 7) && moment(before, 7) != moment(before, 8));
        assert_eq!(moment(before, 7), moment(counted(&[1]), 7));
        assert_ne!(moment(0, 1), 0);
        // The last number of removals, and the one after it.
        let last = TAKEN.wrapping_neg() + 5;
        let next = last.wrapping_add(REMOVED);
        assert_eq!((entries(last), entries(next)), (5, 4));
        assert_ne!(moment(last, 7), moment(next, 7));
    }

    #[test]
    fn words_keep_what_they_are_told() {
        let state = State(0).with_depth(3).held_by(Rank(7));
        assert_eq!((state.holder(), state.is_splitting()), (Some(Rank(7)), false));
        assert!(
            state.splitting().is_splitting() && !state.splitting().with_depth(4).is_splitting()
        );
        let free = state.released(true);
        assert_eq!((free.holder(), free.0 >> 32, free.depth_word()), (None, 1, 4));
        let meta = Meta::filled(9).flipped().with_next(u32::MAX);
        assert_eq!((meta.next(), meta.is_occupied(), meta.is_second()), (u32::MAX, true, true));
        assert!(!meta.emptied().is_occupied() && !meta.abandoned().is_usable());
    }
}

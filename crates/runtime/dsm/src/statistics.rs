//! The statistics of shared memory.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The statistics of one rank's shared memory so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Statistics {
    /// Accesses that found their page invalid, and were reads as far as is known.
    pub read_faults: u64,
    /// Accesses that found their page not writable.
    pub write_faults: u64,
    /// Pages that were copied before they were written.
    pub twins: u64,
    /// Diffs that were made.
    pub diffs_made: u64,
    /// Diffs that were fetched and applied.
    pub diffs_applied: u64,
    /// The bytes of these diffs.
    pub diff_bytes: u64,
    /// Pages that were brought up to date ahead, together with one that was touched.
    pub prefetched: u64,
    /// Of these, the pages that were touched afterwards. One that is not mapped ahead tells for
    /// those that were mapped with it.
    pub prefetches_used: u64,
    /// Of these, the pages that others wrote again before they were touched.
    pub prefetches_wasted: u64,
    /// Pages that were brought up to date by diffs that came with a barrier.
    pub pushed: u64,
    /// Pages that were fetched as a whole, because this rank had no copy.
    pub cold_misses: u64,
    /// Messages sent and asked for.
    pub messages: u64,
    /// The bytes of these messages.
    pub bytes: u64,
    /// Messages of this rank's that the fabric had to send again, as far as it says.
    pub retransmitted: u64,
    /// Write notices that came from others.
    pub notices: u64,
    /// Locks acquired.
    pub locks: u64,
    /// Barriers passed.
    pub barriers: u64,
    /// The time that this rank has spent in barriers.
    pub barrier_ns: u64,
    /// The number of times that storage was reclaimed.
    pub reclaims: u64,
    /// The most bytes of diffs and notices that were kept at a time.
    pub storage_peak: u64,
}

impl Statistics {
    /// The sum over several ranks; of peaks, the highest.
    #[must_use]
    pub fn and(self, other: Statistics) -> Statistics {
        let (a, b) = (self, other);
        Statistics {
            read_faults: a.read_faults + b.read_faults,
            write_faults: a.write_faults + b.write_faults,
            twins: a.twins + b.twins,
            diffs_made: a.diffs_made + b.diffs_made,
            diffs_applied: a.diffs_applied + b.diffs_applied,
            diff_bytes: a.diff_bytes + b.diff_bytes,
            prefetched: a.prefetched + b.prefetched,
            prefetches_used: a.prefetches_used + b.prefetches_used,
            prefetches_wasted: a.prefetches_wasted + b.prefetches_wasted,
            pushed: a.pushed + b.pushed,
            cold_misses: a.cold_misses + b.cold_misses,
            messages: a.messages + b.messages,
            bytes: a.bytes + b.bytes,
            retransmitted: a.retransmitted + b.retransmitted,
            notices: a.notices + b.notices,
            locks: a.locks + b.locks,
            barriers: a.barriers + b.barriers,
            barrier_ns: a.barrier_ns + b.barrier_ns,
            reclaims: a.reclaims + b.reclaims,
            storage_peak: a.storage_peak.max(b.storage_peak),
        }
    }
}

/// The statistics of one allocation of shared memory, as one rank sees it, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct ArrayStatistics {
    /// The first byte of the allocation in the shared memory.
    pub offset: u64,
    /// The number of its bytes.
    pub bytes: u64,
    /// Accesses that found their page invalid, and were reads as far as is known.
    pub read_faults: u64,
    /// Accesses that found their page not writable.
    pub write_faults: u64,
    /// Pages that were copied before they were written.
    pub twins: u64,
    /// Diffs that were made.
    pub diffs_made: u64,
    /// Of these, the diffs that another node has asked for; the others were made for nothing so
    /// far.
    pub diffs_wanted: u64,
    /// Diffs that were fetched and applied.
    pub diffs_applied: u64,
    /// The number of times that a node heard of another's writes to a page that it was writing
    /// itself.
    pub moves: u64,
    /// The pages to which that has happened, counted on each node.
    pub moving_pages: u64,
    /// The nodes that have written these pages, one bit for each; the last one for all from 63 on.
    pub writers: u64,
    /// Of `moves`, those of pages whose nodes write different words: false sharing.
    pub false_moves: u64,
    /// The pages to which that has happened, counted on each node.
    pub false_pages: u64,
    /// The nodes that have written these pages.
    pub false_writers: u64,
    /// Of `moves`, those of pages whose nodes write the same words, and that came with a lock:
    /// migratory data.
    pub lock_moves: u64,
    /// The pages to which that has happened, counted on each node.
    pub lock_pages: u64,
    /// The nodes that have written these pages.
    pub lock_writers: u64,
}

impl ArrayStatistics {
    /// The sum over several ranks, for the same allocation.
    #[must_use]
    pub fn and(self, other: ArrayStatistics) -> ArrayStatistics {
        let (a, b) = (self, other);
        ArrayStatistics {
            read_faults: a.read_faults + b.read_faults,
            write_faults: a.write_faults + b.write_faults,
            twins: a.twins + b.twins,
            diffs_made: a.diffs_made + b.diffs_made,
            diffs_wanted: a.diffs_wanted + b.diffs_wanted,
            diffs_applied: a.diffs_applied + b.diffs_applied,
            moves: a.moves + b.moves,
            moving_pages: a.moving_pages + b.moving_pages,
            writers: a.writers | b.writers,
            false_moves: a.false_moves + b.false_moves,
            false_pages: a.false_pages + b.false_pages,
            false_writers: a.false_writers | b.false_writers,
            lock_moves: a.lock_moves + b.lock_moves,
            lock_pages: a.lock_pages + b.lock_pages,
            lock_writers: a.lock_writers | b.lock_writers,
            ..a
        }
    }

    /// Returns the nodes that have written the pages that move back and forth.
    pub fn moving_writers(&self) -> Vec<u32> {
        nodes_of(self.writers)
    }

    /// Returns what costs time with this array, and what could be done about it: one sentence for
    /// each kind of sharing that was seen.
    pub fn advice(&self) -> Vec<String> {
        let rest_pages = self.moving_pages - self.false_pages - self.lock_pages;
        let rest_moves = self.moves - self.false_moves - self.lock_moves;
        let mut advice = Vec::new();
        if self.false_pages > 0 {
            advice.push(format!(
                "{} pages were written by nodes {:?} in turn, {} times, at different words (false \
                 sharing): start each rank's part on a page boundary (multiples of 4096 bytes, \
                 `Placement::Pages`)",
                self.false_pages,
                nodes_of(self.false_writers),
                self.false_moves
            ));
        }
        if self.lock_pages > 0 {
            advice.push(format!(
                "{} pages moved with locks between nodes {:?}, {} times (migratory data): do more \
                 work per lock acquisition, keep a lock's data together on separate pages, or let \
                 each rank collect its part and add it once",
                self.lock_pages,
                nodes_of(self.lock_writers),
                self.lock_moves
            ));
        }
        if rest_pages > 0 {
            advice.push(format!(
                "{rest_pages} pages were written by nodes {:?} in turn, {rest_moves} times, at \
                 the same words: let one rank write them, or give each rank its own words",
                self.moving_writers()
            ));
        }
        advice
    }
}

fn nodes_of(writers: u64) -> Vec<u32> {
    (0..64).filter(|&domain| writers >> domain & 1 == 1).collect()
}

/// The times of one rank at one barrier, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierTime {
    /// When it has entered the barrier.
    pub entered_ns: u64,
    /// When it has left the barrier.
    pub left_ns: u64,
}

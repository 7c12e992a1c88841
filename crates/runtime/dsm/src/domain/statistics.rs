//! What a domain counts of its pages.

use super::state::Domain;
use super::table::Field;
use crate::state::Local;
use crate::statistics::ArrayStatistics;

impl Domain {
    /// Adds what is known of the pages of an allocation. What the domain knows is told by its first
    /// rank.
    pub(super) fn add_pages(&self, here: &Local<'_>, array: &mut ArrayStatistics) {
        let page_bytes = here.config.page_bytes as u64;
        let end = (array.offset + array.bytes).div_ceil(page_bytes);
        for page in (array.offset / page_bytes..end).map(|page| page as u32) {
            let counts = self.counts[page as usize];
            array.read_faults += u64::from(counts.read_faults);
            array.write_faults += u64::from(counts.write_faults);
            array.twins += u64::from(counts.twins);
            array.diffs_applied += u64::from(counts.diffs_applied);
            if here.is_home() {
                self.add_sharing(page, array);
            }
        }
    }

    fn add_sharing(&self, page: u32, array: &mut ArrayStatistics) {
        let field = |field| self.table.field(page, field);
        array.diffs_made += field(Field::DiffsMade);
        array.diffs_wanted += field(Field::DiffsWanted);
        let (moves, writers) = (field(Field::Moves), field(Field::Writers));
        if moves == 0 {
            return;
        }
        array.moves += moves;
        array.moving_pages += 1;
        array.writers |= writers;
        if field(Field::OtherWords) > field(Field::SameWords) {
            array.false_pages += 1;
            array.false_moves += moves;
            array.false_writers |= writers;
        } else if 2 * field(Field::LockMoves) > moves {
            array.lock_pages += 1;
            array.lock_moves += moves;
            array.lock_writers |= writers;
        }
    }
}

//! Which bytes of a rank's arena are free. Only the owner allocates, so this needs no shared
//! memory.

use std::collections::BTreeMap;

use farside_fabric::{Error, Result};

/// The free runs of an arena.
#[derive(Debug)]
pub(crate) struct Arena {
    free: BTreeMap<u64, u64>,
    limit: u64,
    page: u64,
}

impl Arena {
    /// An arena of `limit` bytes; pieces are whole pages.
    pub(crate) fn new(limit: u64, page: u64) -> Arena {
        Arena { free: BTreeMap::from([(0, limit)]), limit, page }
    }

    /// Takes the first run that is long enough.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64> {
        let out_of_memory = |arena: &Arena| Error::OutOfMemory {
            asked: bytes,
            free: arena.free.values().copied().max().unwrap_or(0),
            limit: arena.limit,
        };
        let Some(rounded) = bytes.max(1).checked_next_multiple_of(self.page) else {
            return Err(out_of_memory(self));
        };
        let Some((&offset, &run)) = self.free.iter().find(|&(_, &run)| run >= rounded) else {
            return Err(out_of_memory(self));
        };
        self.free.remove(&offset);
        if run > rounded {
            self.free.insert(offset + rounded, run - rounded);
        }
        Ok(offset)
    }

    /// Gives a run back and joins it with its neighbours.
    pub(crate) fn release(&mut self, mut offset: u64, bytes: u64) {
        let mut run = bytes.max(1).next_multiple_of(self.page);
        if let Some(after) = self.free.remove(&(offset + run)) {
            run += after;
        }
        if let Some((&before, &length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            self.free.remove(&before);
            offset = before;
            run += length;
        }
        self.free.insert(offset, run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_released_can_be_allocated_again_in_one_piece() {
        let mut arena = Arena::new(10 * 4096, 4096);
        let pieces: Vec<u64> = (0..10).map(|_| arena.allocate(4000).unwrap()).collect();
        assert_eq!(pieces[1], 4096);
        assert!(matches!(
            arena.allocate(1),
            Err(Error::OutOfMemory { asked: 1, free: 0, limit: 40960 })
        ));
        for &piece in [1, 3, 2, 0, 4, 8, 6, 9, 7, 5].map(|at: usize| &pieces[at]).iter() {
            arena.release(*piece, 4000);
        }
        assert_eq!(arena.allocate(10 * 4096), Ok(0));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut arena = Arena::new(10 * 4096, 4096);
        assert!(arena.allocate(u64::MAX).is_err());
        assert_eq!(arena.allocate(0), Ok(0), "an empty part has an address all the same");
    }
}

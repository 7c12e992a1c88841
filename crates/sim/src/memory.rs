//! The memory of simulated ranks.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use farside_fabric::memory::{Beside, Stripes};
use farside_fabric::{Alarm, Mapped};

/// What parts are aligned to.
const PAGE: usize = 4096;

/// One rank's part of a segment.
pub(crate) struct Memory {
    /// Allocated zeroed, which for long parts means: not at all until it is touched. A page more than needed, so that the part can begin
    /// with a page.
    words: Box<[u128]>,
    bytes: u64,
    watched: AtomicU64,
    sums: Stripes,
    alarm: Arc<Alarm>,
}

impl Memory {
    pub(crate) fn new(bytes: u64, alarm: &Arc<Alarm>) -> Arc<Memory> {
        let words = vec![0; (bytes as usize + PAGE).div_ceil(16)].into();
        Arc::new(Memory { words, bytes, watched: AtomicU64::new(0), sums: Stripes::default(), alarm: alarm.clone() })
    }

    pub(crate) fn mapped(self: &Arc<Memory>) -> Mapped {
        let start = NonNull::from(&*self.words).cast::<u8>();
        // SAFETY: less than a page beyond the start, and there is a page more than needed.
        let base = unsafe { start.add(start.align_offset(PAGE)) };
        let beside = Beside {
            watched: NonNull::from(&self.watched),
            losses: NonNull::from(&self.alarm.losses),
            sums: NonNull::from(&self.sums),
        };
        // SAFETY: the words live as long as `self`, which is held, are aligned to a page, and nobody else has references
        // to them.
        unsafe { Mapped::new(base, self.bytes, 0, beside, self.clone()) }
    }
}

//! The memory of simulated ranks.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use farside_fabric::memory::{Beside, Stripes};
use farside_fabric::{Alarm, Mapped};

/// One rank's part of a segment.
pub(crate) struct Memory {
    /// Allocated zeroed, which for long parts means: not at all until it is touched.
    words: Box<[u128]>,
    bytes: u64,
    watched: AtomicU64,
    sums: Stripes,
    alarm: Arc<Alarm>,
}

impl Memory {
    pub(crate) fn new(bytes: u64, alarm: &Arc<Alarm>) -> Arc<Memory> {
        let words = vec![0; (bytes as usize).div_ceil(16).max(1)].into();
        Arc::new(Memory { words, bytes, watched: AtomicU64::new(0), sums: Stripes::default(), alarm: alarm.clone() })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn mapped(self: &Arc<Memory>) -> Mapped {
        let base = NonNull::from(&*self.words).cast::<u8>();
        let beside = Beside {
            watched: NonNull::from(&self.watched),
            losses: NonNull::from(&self.alarm.losses),
            sums: NonNull::from(&self.sums),
        };
        // SAFETY: the words live as long as `self`, which is held, are aligned to 16 bytes, and nobody else has references
        // to them.
        unsafe { Mapped::new(base, self.bytes, 0, beside, self.clone()) }
    }
}

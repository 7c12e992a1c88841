//! Warnings of windows that were dropped without being freed.
//!
//! A window that lives to the end of the program leaks nothing: the memory of a job goes with its
//! processes. One that is dropped earlier stays allocated, out of everybody's reach, and no later
//! window can have its memory. So a drop is only noted, and told when the rank enters its next
//! collective: then the job goes on. Nothing is noted while a thread panics, nor once a rank was
//! lost, since all members would have to take part in freeing. One member tells for all of them.

use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use farside_fabric::text::say;
use farside_fabric::{Failures, Rank};

use crate::segment::Segment;

/// What a rank has to tell of windows that were dropped.
pub(crate) struct Unfreed {
    rank: Rank,
    failures: Failures,
    is_noted: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// Where windows were allocated that have been told of, or will be.
    places: BTreeSet<&'static Location<'static>>,
    warnings: Vec<String>,
}

impl Unfreed {
    pub(crate) fn new(rank: Rank, failures: Failures) -> Unfreed {
        Unfreed { rank, failures, is_noted: AtomicBool::new(false), notes: Mutex::default() }
    }

    /// Tells what was noted, each place of allocation once.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.is_noted.load(Ordering::Relaxed) {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&self) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_noted.store(false, Ordering::Relaxed);
        for warning in notes.warnings.drain(..) {
            say(warning);
        }
    }

    #[cold]
    fn note(&self, segment: &Segment, place: &'static Location<'static>) {
        let tells = segment.members.first() == Some(&self.rank);
        if !tells || self.failures.any_lost() {
            return;
        }
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.places.insert(place) {
            notes.warnings.push(format!(
                "farside: warning: memory allocated at {place} ({} bytes on {}) was dropped \
                 without `free`, and stays allocated until the job ends: call `free` on every \
                 member, or `std::mem::forget` to keep it on purpose",
                segment.own.bytes(),
                self.rank
            ));
            self.is_noted.store(true, Ordering::Relaxed);
        }
    }
}

/// The memory of a window. Dropped as it is, it is told of.
pub(crate) struct Allocation {
    pub(crate) segment: Arc<Segment>,
    /// Where it was allocated, and what is told if it is not freed; `None` once it is freed.
    watch: Option<Watch>,
}

struct Watch {
    place: &'static Location<'static>,
    /// Gone when its rank has left the job.
    unfreed: Weak<Unfreed>,
}

impl Allocation {
    /// Memory of a protocol, which looks after it itself.
    pub(crate) fn unwatched(segment: impl Into<Arc<Segment>>) -> Allocation {
        Allocation { segment: segment.into(), watch: None }
    }

    /// Memory that the program at `place` should free.
    pub(crate) fn watched(
        segment: Segment,
        place: &'static Location<'static>,
        unfreed: &Arc<Unfreed>,
    ) -> Allocation {
        let watch = Watch { place, unfreed: Arc::downgrade(unfreed) };
        Allocation { segment: Arc::new(segment), watch: Some(watch) }
    }

    /// Notes that it is being freed. Should that fail, its error tells why.
    pub(crate) fn forget(&mut self) {
        self.watch = None;
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take()
            && !std::thread::panicking()
            && let Some(unfreed) = watch.unfreed.upgrade()
        {
            unfreed.note(&self.segment, watch.place);
        }
    }
}

//! What is known of a PE's calls and buffers, for the checker of races.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use farside::Rank;
use farside::fabric::{Mapped, Probe, ProbeEvent, SegmentId};
use farside_interop::caller;

/// What is known of this PE's calls and buffers.
#[derive(Default)]
pub(crate) struct Seen {
    places: Mutex<Places>,
    pub(crate) pointed: Mutex<Vec<Pointed>>,
    /// Buffers that are not symmetric and belong to an operation under way.
    pub(crate) lent: Mutex<Vec<Lent>>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) number: u32,
    pub(crate) is_float: bool,
}

/// Places by return address and call: a pointer may call many functions.
#[derive(Default)]
struct Places {
    last: ((usize, usize), Place),
    all: HashMap<(usize, usize), Place>,
}

/// Memory of another PE that the program has a pointer to.
#[derive(Clone)]
pub(crate) struct Pointed {
    pub(crate) mapped: Mapped,
    pub(crate) segment: SegmentId,
    pub(crate) rank: Rank,
}

/// A buffer of a non-blocking operation.
#[derive(Clone, Copy)]
pub(crate) struct Lent {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) fills: bool,
    pub(crate) place: u32,
    /// The context whose quiet completes it.
    pub(crate) ctx: usize,
    /// Whether it is the source of a put with a signal, of whose end others may tell earlier: the
    /// checker knows.
    pub(crate) is_signalled: bool,
}

impl Seen {
    /// Returns the place of a call, which the probe is told when it is met first.
    pub(crate) fn place(
        &self,
        probe: &dyn Probe,
        key: (usize, usize),
        call: impl FnOnce() -> &'static str,
    ) -> Place {
        let mut places = locked(&self.places);
        if places.last.0 == key {
            return places.last.1;
        }
        let place = *places.all.entry(key).or_insert_with(|| {
            let call = call();
            let number =
                probe.event(ProbeEvent::NamePlace(&caller::name(key.0, call))).unwrap_or(0);
            Place { number: number as u32, is_float: is_float(call) }
        });
        places.last = (key, place);
        place
    }

    /// Returns the memory of another PE that the program has got at an address by `shmem_ptr`.
    pub(crate) fn pointed_at(&self, at: usize, bytes: usize) -> Option<(Rank, SegmentId, u64)> {
        locked(&self.pointed).iter().find_map(|known| {
            let offset = at.checked_sub(known.mapped.base().as_ptr().addr())? as u64;
            let is_inside = offset + bytes as u64 <= known.mapped.bytes();
            is_inside.then_some((known.rank, known.segment, offset))
        })
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether the name of a call has a type of floating-point numbers in it. Integers of one width
/// are taken for one type.
fn is_float(call: &str) -> bool {
    call.split('_').any(|part| part == "float" || part == "double")
}

//! What a context says of its waits: their purpose, and how they are recorded if they last.
//!
//! A purpose is what the program called: a lock, a collective, a get. The outermost purpose is the
//! one that is recorded: a lock that waits for a word, or pauses between two attempts, is recorded
//! as a wait for the lock, since its first sleep.

use std::cell::Cell;
use std::panic::Location;

use farside_fabric::SegmentId;
use farside_fabric::memory::Held;
use farside_fabric::record::{ActivityKind, ContextRecord, Place, RankRecord, Records};

/// Finds out where the program is that has called this library, if its language is not Rust.
#[derive(Debug, Clone, Copy)]
pub struct PlaceFinder {
    /// For viewers, who look lines up themselves: is called by waits that last.
    pub quickly: fn() -> Option<Place>,
    /// For errors, with the line.
    pub exactly: fn() -> Option<Place>,
}

/// What a wait is for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose {
    /// The kind of the call.
    pub kind: ActivityKind,
    /// The name of the call, or of a lock's algorithm.
    pub name: &'static str,
    /// The segment of a lock's words, of a team's area or of a window.
    pub segment: SegmentId,
    /// The first byte of a lock's words; the number of a collective.
    pub number: u64,
    /// A collective's length, mostly.
    pub size: u64,
    /// A collective's root, mostly.
    pub root: u64,
    /// Where the program called it.
    pub place: &'static Location<'static>,
    /// Whether it ends by itself after some time.
    pub has_limit: bool,
}

impl Purpose {
    /// Returns the purpose of a call without further details.
    #[track_caller]
    #[inline]
    pub fn new(kind: ActivityKind, name: &'static str) -> Purpose {
        Purpose::at(kind, name, Location::caller())
    }

    /// Returns the purpose of a call that the program made at `place`.
    #[inline]
    pub fn at(
        kind: ActivityKind,
        name: &'static str,
        place: &'static Location<'static>,
    ) -> Purpose {
        let (segment, number, size, root, has_limit) = (SegmentId(0), 0, 0, 0, false);
        Purpose { kind, name, segment, number, size, root, place, has_limit }
    }

    /// Returns what the program calls it: a lock's name is that of its algorithm, which the program
    /// need not know.
    pub(crate) fn call(&self) -> &'static str {
        if self.kind == ActivityKind::Lock { "lock" } else { self.name }
    }

    /// Returns it for a part of a segment.
    #[must_use]
    pub fn of(self, segment: SegmentId, number: u64) -> Purpose {
        Purpose { segment, number, ..self }
    }

    /// Returns it with or without a limit of time.
    #[must_use]
    pub fn limited(self, has_limit: bool) -> Purpose {
        Purpose { has_limit, ..self }
    }
}

/// What a context tells viewers.
pub(crate) struct Telling {
    pub(crate) record: Held<ContextRecord>,
    pub(crate) rank: Option<Held<RankRecord>>,
    pub(crate) purpose: Cell<Option<Purpose>>,
    /// Finds the places of a program in another language: those of Rust are in its library.
    pub(crate) places: Cell<Option<PlaceFinder>>,
    /// Since when the record says that the context waits; zero if it does not.
    pub(crate) since_ns: Cell<u64>,
    /// Changes with every entry of the record, so that a wait whose entry was replaced by that of
    /// a wait within it writes its own again.
    pub(crate) turn: Cell<u64>,
    pub(crate) polled_ns: Cell<u64>,
}

impl Telling {
    /// Without memory of the fabric's the record is one that only this context reads.
    pub(crate) fn new(records: Option<Records>) -> Telling {
        let (record, rank) = match records {
            Some(Records { rank, context }) => (context, Some(rank)),
            None => (std::sync::Arc::new(ContextRecord::default()).into(), None),
        };
        let (purpose, places) = (Cell::new(None), Cell::new(None));
        let (since_ns, turn, polled_ns) = (Cell::new(0), Cell::new(0), Cell::new(0));
        Telling { record, rank, purpose, places, since_ns, turn, polled_ns }
    }

    /// The outermost purpose, if there is one.
    pub(crate) fn purpose(&self) -> Option<Purpose> {
        self.purpose.get()
    }

    pub(crate) fn record(&self) -> &Held<ContextRecord> {
        &self.record
    }

    #[cold]
    pub(crate) fn end(&self, now_ns: u64) {
        self.since_ns.set(0);
        self.turn.set(self.turn.get() + 1);
        self.record.end(now_ns);
    }
}

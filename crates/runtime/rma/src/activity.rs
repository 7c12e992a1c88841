//! What a context says of its waits: their purpose, and how they are recorded if they last.
//!
//! A purpose is what the program called: a lock, a collective, a get. The outermost purpose is the
//! one that is recorded: a lock that waits for a word, or pauses between two attempts, is recorded
//! as a wait for the lock, since its first sleep.

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use farside_fabric::memory::Held;
use farside_fabric::record::{
    Activity, ActivityKind, AwaitedWord, ContextRecord, Lasting, Peers, Place, RankRecord, Records,
};
use farside_fabric::{Error, Event, SegmentId};

use crate::context::Context;
use crate::waiting::FailureScope;

/// Polls that are noted within this time are one.
const POLLS_ON_NS: u64 = 1_000_000_000;
/// After so long a wait asks where the program is, if only that is known; asking costs more than a
/// short wait.
const FIND_AFTER_NS: u64 = 20_000_000;

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
    record: Held<ContextRecord>,
    rank: Option<Held<RankRecord>>,
    purpose: Cell<Option<Purpose>>,
    /// Finds the places of a program in another language: those of Rust are in its library.
    places: Cell<Option<PlaceFinder>>,
    /// Since when the record says that the context waits; zero if it does not.
    since_ns: Cell<u64>,
    /// Changes with every entry of the record, so that a wait whose entry was replaced by that of
    /// a wait within it writes its own again.
    turn: Cell<u64>,
    polled_ns: Cell<u64>,
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
    fn end(&self, now_ns: u64) {
        self.since_ns.set(0);
        self.turn.set(self.turn.get() + 1);
        self.record.end(now_ns);
    }
}

/// Keeps the purpose of a context until dropped. See [`Context::begin`].
pub struct Doing<'c> {
    context: &'c Context,
    is_outermost: bool,
}

impl Drop for Doing<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_outermost {
            let telling = self.context.telling();
            telling.purpose.set(None);
            if telling.since_ns.get() != 0 {
                telling.end(self.context.now_ns());
            }
        }
    }
}

impl Context {
    /// Says what the waits of this context are for, until the guard is dropped: for protocols, so
    /// that viewers show a lock, for example, instead of a word. Within another purpose it says
    /// nothing.
    #[inline]
    #[must_use = "the purpose is forgotten when the guard is dropped"]
    pub fn begin(&self, purpose: Purpose) -> Doing<'_> {
        let is_outermost = self.telling().purpose.get().is_none();
        if is_outermost {
            self.telling().purpose.set(Some(purpose));
        }
        Doing { context: self, is_outermost }
    }

    /// Notes that this context holds a lock, for viewers.
    #[inline]
    pub fn note_held(&self, segment: SegmentId, offset: u64, place: &'static Location<'static>) {
        let telling = self.telling();
        let is_known = telling.places.get().is_none();
        telling.record.hold(segment, offset, is_known.then_some(place));
    }

    /// Sets how the places of a program are found whose language is not Rust: for the libraries of
    /// other languages. It is passed on to further contexts.
    pub fn find_places_by(&self, places: Option<PlaceFinder>) {
        self.telling().places.set(places);
    }

    pub(crate) fn place_finder(&self) -> Option<PlaceFinder> {
        self.telling().places.get()
    }

    /// Returns where the program made the call that this thread is in, for an error: `place`, if
    /// the program is in Rust.
    #[cold]
    pub fn place_of_call(&self, place: &'static Location<'static>) -> String {
        let foreign = self.place_finder().and_then(|places| (places.exactly)());
        foreign.map_or_else(|| place.to_string(), |place| place.to_string())
    }

    /// Notes that this context holds a lock no more.
    #[inline]
    pub fn note_released(&self, segment: SegmentId, offset: u64) {
        self.telling().record.unhold(segment, offset);
    }

    /// Gives memory of this rank, from byte `offset` of a segment on, a name that viewers show:
    /// what locks and windows call when they are given one.
    pub fn note_name(&self, segment: SegmentId, offset: u64, name: &str) {
        if let Some(rank) = &self.telling().rank {
            // There is room for a number of names; further ones are not shown.
            rank.name(segment, offset, name);
        }
    }

    pub(crate) fn has_purpose(&self) -> bool {
        self.telling().purpose().is_some()
    }

    fn purpose_or(&self, own: &dyn Fn() -> Purpose) -> Purpose {
        self.telling().purpose.get().unwrap_or_else(own)
    }

    #[cold]
    #[track_caller]
    pub(crate) fn note_poll(&self, scope: &FailureScope<'_>) {
        let place = Location::caller();
        let polls = || Purpose::at(ActivityKind::Poll, "relax", place);
        let waiting = Waiting::new(self, &polls, Event::Words(&[]), scope);
        let (telling, now_ns) = (self.telling(), self.now_ns());
        // Otherwise the context has done something else since it last polled.
        if now_ns.saturating_sub(telling.polled_ns.replace(now_ns)) < POLLS_ON_NS {
            waiting.since_ns.set(telling.since_ns.get());
        }
        waiting.lasts();
        // The next look, or the end of the purpose, tells how it goes on.
        std::mem::forget(waiting);
    }
}

/// A wait, and what is to be told of it if it lasts.
pub(crate) struct Waiting<'a> {
    context: &'a Context,
    /// Is asked only if the wait lasts.
    purpose: &'a dyn Fn() -> Purpose,
    pub(crate) event: Event<'a>,
    pub(crate) scope: &'a FailureScope<'a>,
    /// Since when it lasts, and the turn of its entry in the record; zero as long as it has none.
    since_ns: Cell<u64>,
    turn: Cell<u64>,
    /// Whether the program's place was looked for.
    is_placed: Cell<bool>,
}

impl<'a> Waiting<'a> {
    #[inline]
    pub(crate) fn new(
        context: &'a Context,
        purpose: &'a dyn Fn() -> Purpose,
        event: Event<'a>,
        scope: &'a FailureScope<'a>,
    ) -> Waiting<'a> {
        let (since_ns, turn, is_placed) = (Cell::new(0), Cell::new(0), Cell::new(false));
        Waiting { context, purpose, event, scope, since_ns, turn, is_placed }
    }

    /// Notes that the call that waits fails with `error`, and returns it.
    #[cold]
    pub(crate) fn failed(&self, error: Error) -> Error {
        let purpose = self.context.purpose_or(self.purpose);
        self.context.failed_calls().note(&error, Some(purpose.call()), purpose.place);
        error
    }

    /// Looks for the place of the program if the wait has lasted for long; returns how soon that
    /// will be the case.
    fn place(&self, telling: &Telling, now_ns: u64) -> Option<Duration> {
        let places = telling.places.get().filter(|_| !self.is_placed.get())?;
        let lasts_ns = now_ns.saturating_sub(telling.since_ns.get());
        if lasts_ns < FIND_AFTER_NS {
            return Some(Duration::from_nanos(FIND_AFTER_NS - lasts_ns));
        }
        self.is_placed.set(true);
        if let Some(place) = (places.quickly)() {
            telling.record.begin(&Activity { place, ..self.activity() }, telling.since_ns.get());
        }
        None
    }

    fn note(&self, telling: &Telling, now_ns: u64) {
        if self.since_ns.get() == 0 {
            self.since_ns.set(now_ns);
        }
        // The waits of a purpose last since its first one does.
        let is_first = telling.purpose.get().is_none() || telling.since_ns.get() == 0;
        let since_ns = if is_first { self.since_ns.get() } else { telling.since_ns.get() };
        let turn = telling.turn.get() + 1;
        telling.turn.set(turn);
        self.turn.set(turn);
        telling.since_ns.set(since_ns);
        self.is_placed.set(false);
        telling.record.begin(&self.activity(), since_ns);
        telling.record.note_effort(self.context.job().state.effort());
    }

    /// Writes what is seen of the word that is waited for into the record.
    fn look(&self, telling: &Telling, now_ns: u64) {
        let seen = match self.event {
            Event::Words([first, ..]) => first.memory.look(first.at.offset, first.at.width),
            _ => None,
        };
        telling.record.look(seen.map_or(0, |word| word.load()), now_ns);
    }

    #[cold]
    fn forget(&self) {
        let telling = self.context.telling();
        // A purpose outlives its waits: the record stays until it is dropped.
        if telling.purpose.get().is_none() {
            telling.end(self.context.now_ns());
        }
    }
}

impl Drop for Waiting<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.turn.get() != 0 {
            self.forget();
        }
    }
}

impl Lasting for Waiting<'_> {
    #[cold]
    #[inline(never)]
    fn lasts(&self) -> Option<Duration> {
        let telling = self.context.telling();
        telling.rank.as_ref()?;
        let now_ns = self.context.now_ns().max(1);
        if self.turn.get() == 0 || self.turn.get() != telling.turn.get() {
            self.note(telling, now_ns);
        }
        self.look(telling, now_ns);
        self.place(telling, now_ns)
    }

    #[cold]
    #[inline(never)]
    fn looks(&self) {
        let telling = self.context.telling();
        if telling.rank.is_some() {
            self.look(telling, self.context.now_ns().max(1));
        }
    }

    fn activity(&self) -> Activity {
        let Purpose { kind, name, segment, number, size, root, place, has_limit } =
            self.context.purpose_or(self.purpose);
        let word = match self.event {
            Event::Words([first, ..]) => Some(AwaitedWord {
                segment: first.at.segment,
                offset: first.at.offset,
                bytes: first.at.width.bytes() as u8,
            }),
            _ => None,
        };
        let peers = match self.scope {
            FailureScope::Everyone => Peers::All,
            FailureScope::Among(members) | FailureScope::Members { members, .. } => {
                if members.len() == self.context.size() as usize {
                    Peers::All
                } else {
                    Peers::Among(members.iter().copied().collect())
                }
            }
            FailureScope::Peer(rank) => Peers::One(*rank),
            FailureScope::Agent(node) => Peers::Agent(*node),
        };
        let is_known = self.context.place_finder().is_none();
        let place = if is_known { place.into() } else { Place::default() };
        let name = name.into();
        Activity { kind, name, segment, number, size, root, place, word, peers, has_limit }
    }
}

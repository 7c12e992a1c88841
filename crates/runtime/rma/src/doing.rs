//! What a context is doing: the purpose that the program's call gives to waits, the waits that
//! last, and the calls that fail.

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use farside_fabric::record::{Activity, ActivityKind, AwaitedWord, Lasting, Peers, Place};
use farside_fabric::{Error, Event, Node, Rank, Result, SegmentId};

use crate::activity::{PlaceFinder, Purpose, Telling};
use crate::context::Context;
use crate::failed_calls::FailedCall;

/// Polls that are noted within this time are one.
const POLLS_ON_NS: u64 = 1_000_000_000;
/// After so long a wait asks where the program is, if only that is known; asking costs more than a
/// short wait.
const FIND_AFTER_NS: u64 = 20_000_000;

/// The ranks whose end makes a wait fail.
pub(crate) enum FailureScope<'a> {
    /// The loss of any rank, and that all others have left.
    Everyone,
    /// The loss of one of these, and that all others of them have left.
    Among(&'a [Rank]),
    /// The loss of one rank. Its memory can be used after it has left.
    Peer(Rank),
    /// That no process is left to run the handlers of a node.
    Agent(Node),
    /// The loss of a member, or the leave of one that is waited for, unless it has done its part.
    Members {
        members: &'a [Rank],
        awaited: &'a [Rank],
        // A member that has done its part may leave.
        has_done: &'a dyn Fn(Rank) -> Result<bool>,
    },
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

impl Context {
    /// Returns which call of this rank's program failed with `error`, and where the program made
    /// it, if it was the last one that failed.
    ///
    /// ```
    /// # farside::local(1, |world| {
    /// let window = world.window::<u64>(10)?;
    /// if let Err(error) = world.get_value(window.at(world.rank(), 10)) {
    ///     let call = world.failed_call(&error).map(|call| call.to_string());
    ///     println!("{error}, {}", call.unwrap_or_default()); // …, at src/main.rs:9:31
    /// }
    /// # window.free(world) }).unwrap();
    /// ```
    pub fn failed_call(&self, error: &Error) -> Option<FailedCall> {
        self.failed_calls().with(error)
    }

    /// Notes that the call which the program is in fails with `error`, and returns it.
    #[cold]
    #[track_caller]
    pub fn failed(&self, error: Error) -> Error {
        let (name, place) = match self.telling().purpose() {
            Some(purpose) => (Some(purpose.call()), purpose.place),
            None => (None, Location::caller()),
        };
        self.failed_calls().note(&error, name, place);
        error
    }

    /// Returns the result of a call of the program; if it is an error, notes the call first.
    #[inline]
    #[track_caller]
    pub fn noted<T>(&self, result: Result<T, impl Into<Error>>) -> Result<T> {
        match result {
            Ok(done) => Ok(done),
            Err(error) => Err(self.failed(error.into())),
        }
    }
}

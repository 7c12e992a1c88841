//! What is tried against a race while a program is explored: where, and by which words.
//!
//! The lock that is tried is an MCS queue in memory that no program has: at rank 0 whoever came
//! last, and on each rank who comes next, and whether it may go on. It waits on words of its own,
//! so that the simulator knows what it waits for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use farside_fabric::{
    Atomic, Condition, Connection, Error, Event, OldValue, Rank, Region, Reply, Result, SegmentId,
    Shape, Started, Wait, Wake, Width, Word,
};

use crate::calls::{Call, clock_of};
use crate::clocks::Released;
use crate::cure::{Cure, Means};
use crate::report::{Race, Side};
use crate::state::locked;
use crate::told::Told;

/// The memory of the lock.
const LOCK: SegmentId = SegmentId(0xFD00_0000_0000_0000);
const LOCK_BYTES: u64 = 24;
/// Its words: the last of the queue, the next of it, and whether it may go on.
const TAIL: u64 = 0;
const NEXT: u64 = 8;
const GO: u64 = 16;
/// How many bits of a trial's number are its means.
const MEANS_BITS: u32 = 3;

#[derive(Default)]
pub(crate) struct Trial {
    /// The place that a cure names first, plus one, and below it the means.
    after: AtomicU64,
    /// The other place, plus one.
    with: AtomicU64,
    /// What was seen where nothing is tried, of checkers for many runs.
    notes: Option<Mutex<Notes>>,
}

/// What may become a cure.
#[derive(Default)]
struct Notes {
    signals: Vec<Signal>,
    /// The places of gets, and of puts of their rank to the same bytes.
    updates: Vec<[u32; 2]>,
    /// The places of each rank's last gets in this run.
    gets: HashMap<Target, u32>,
}

/// A word that one rank has written to tell another something.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Signal {
    from: usize,
    at: Word,
    place: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Target {
    from: usize,
    rank: Rank,
    segment: SegmentId,
    offset: u64,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Wait,
    Lock,
}

impl Trial {
    /// For many runs, in which places of signals and of updates are noted.
    pub(crate) fn for_runs() -> Trial {
        Trial { notes: Some(Mutex::default()), ..Trial::default() }
    }

    pub(crate) fn is_for_runs(&self) -> bool {
        self.notes.is_some()
    }

    pub(crate) fn begin_again(&self) {
        if let Some(mut notes) = self.notes() {
            notes.gets.clear();
        }
    }

    pub(crate) fn set(&self, cure: Option<(Means, u32, Option<u32>)>) {
        let after =
            cure.map_or(0, |(means, place, _)| (u64::from(place) + 1) << MEANS_BITS | means as u64);
        let with = cure.and_then(|(_, _, with)| with).map_or(0, |place| u64::from(place) + 1);
        self.after.store(after, Ordering::Relaxed);
        self.with.store(with, Ordering::Relaxed);
    }

    fn means(&self) -> Option<Means> {
        let number = self.after.load(Ordering::Relaxed);
        (number != 0).then(|| Means::ALL[(number & ((1 << MEANS_BITS) - 1)) as usize])
    }

    /// Whether a cure names a place first, and whether it is the other one.
    fn is_at(&self, place: Option<u32>) -> [bool; 2] {
        let named = [self.after.load(Ordering::Relaxed) >> MEANS_BITS, self.with_place()];
        named.map(|named| place.is_some_and(|place| u64::from(place) + 1 == named))
    }

    fn with_place(&self) -> u64 {
        self.with.load(Ordering::Relaxed)
    }

    fn before(&self, place: Option<u32>) -> Option<Before> {
        let [is_first, is_other] = self.is_at(place);
        match self.means()? {
            Means::Wait => is_first.then_some(Before::Wait),
            Means::Lock | Means::LockAcross => (is_first || is_other).then_some(Before::Lock),
            _ => None,
        }
    }

    pub(crate) fn after(&self, place: Option<u32>) -> Option<Means> {
        let means = self.means()?;
        let [is_first, is_other] = self.is_at(place);
        (is_first || is_other && means == Means::Lock).then_some(means)
    }

    pub(crate) fn holds_puts(&self) -> bool {
        self.means() == Some(Means::PutSignal)
    }

    /// Whether operations may be inside of a lock.
    pub(crate) fn locks(&self) -> bool {
        matches!(self.means(), Some(Means::Lock | Means::LockAcross))
    }

    /// Makes the memory of the lock, if one is tried.
    pub(crate) fn prepare(&self, connection: &dyn Connection) -> Result<()> {
        if self.locks() { connection.register(LOCK, LOCK_BYTES) } else { Ok(()) }
    }

    /// What is noted, in runs in which nothing is tried.
    fn notes(&self) -> Option<MutexGuard<'_, Notes>> {
        let is_idle = self.after.load(Ordering::Relaxed) == 0;
        self.notes.as_ref().filter(|_| is_idle).map(locked)
    }

    pub(crate) fn note_signal(&self, from: usize, at: Word, place: u32) {
        let signal = Signal { from, at, place };
        if let Some(mut notes) = self.notes()
            && at.rank.index() != from
            && at.width != Width::Pair
            && !notes.signals.contains(&signal)
        {
            notes.signals.push(signal);
        }
    }

    pub(crate) fn note_transfer(&self, from: usize, region: &Region<'_>, place: u32, puts: bool) {
        let Some(mut notes) = self.notes() else { return };
        let Shape::Block(piece) = region.shape else { return };
        let (rank, segment) = (region.rank, region.segment);
        let target = Target { from, rank, segment, offset: piece.offset, bytes: piece.bytes };
        if !puts {
            notes.gets.insert(target, place);
        } else if let Some(got) = notes.gets.remove(&target)
            && !notes.updates.contains(&[got, place])
        {
            notes.updates.push([got, place]);
        }
    }

    /// The words of a rank that are written at the place of the signal that is to be waited for.
    fn signals_to(&self, rank: usize) -> Vec<Word> {
        let place = self.with_place();
        let is_meant = |signal: &&Signal| {
            u64::from(signal.place) + 1 == place && signal.at.rank.index() == rank
        };
        self.notes
            .iter()
            .flat_map(|notes| {
                locked(notes)
                    .signals
                    .iter()
                    .filter(is_meant)
                    .map(|signal| signal.at)
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    pub(crate) fn cures(&self, race: &Race, name: impl Fn(u32) -> String) -> Vec<Cure> {
        let Some(notes) = self.notes.as_ref().map(locked) else { return Vec::new() };
        let mut cures: Vec<Cure> = Vec::new();
        let sides = [(&race.second, &race.first), (&race.first, &race.second)];
        for (waiter, other) in sides {
            for signal in &notes.signals {
                let is_told = signal.at.rank.0 == waiter.rank && signal.from == other.rank as usize;
                let (after, with) = (waiter.place.clone(), Some(name(signal.place)));
                let cure = Cure { after, with, means: Means::Wait };
                if is_told && !cures.contains(&cure) {
                    cures.push(cure);
                }
            }
        }
        let places = [&race.first.place, &race.second.place];
        let updates = notes.updates.iter().map(|update| update.map(&name));
        let mut updates = updates.filter(|update| update.iter().any(|one| places.contains(&one)));
        let is_transfer = |side: &Side| ["put", "get"].contains(&side.operation);
        if let Some([got, put]) = updates.next() {
            cures.push(Cure { after: put, with: Some(got), means: Means::LockAcross });
        } else if is_transfer(&race.first) && is_transfer(&race.second) {
            let (after, with) = (race.first.place.clone(), race.second.place.clone());
            let with = (with != after).then_some(with);
            cures.push(Cure { after, with, means: Means::Lock });
        }
        cures
    }
}

impl Told {
    pub(crate) fn before(&self, place: Option<u32>) -> Result<()> {
        let trial = &self.state.checker.trial;
        match trial.before(place) {
            None => {}
            Some(Before::Wait) => {
                for at in trial.signals_to(self.state.rank) {
                    let waited = self.hand.with(|hand| wait_for(hand, at)).transpose()?;
                    self.acquire_word(at, waited, None);
                }
            }
            Some(Before::Lock) => {
                let is_inside = self.state.holds_lock.swap(true, Ordering::Relaxed);
                if is_inside {
                    return Ok(());
                }
                self.hand.with(acquire).transpose()?;
                let (actor, word) = (self.actor(), self.clock_of_lock());
                self.run(&[Call::Acquire { actor, word, seen: None }]);
            }
        }
        Ok(())
    }

    pub(crate) fn unlock(&self) -> Result<()> {
        if self.state.holds_lock.swap(false, Ordering::Relaxed) {
            let (actor, released) = (self.actor(), Released::nobodys(self.clock_of_lock()));
            self.run(&[Call::Release { actor, released }]);
            self.hand.with(release).transpose()?;
        }
        Ok(())
    }

    fn clock_of_lock(&self) -> usize {
        clock_of(self.layout(), 0, LOCK, TAIL)
    }
}

fn word_of(rank: Rank, offset: u64) -> Word {
    Word { rank, segment: LOCK, offset, width: Width::W64 }
}

/// Ranks by numbers that are not zero.
fn named(rank: Rank) -> u128 {
    u128::from(rank.0) + 1
}

fn acquire(hand: &dyn Connection) -> Result<()> {
    let me = hand.job().rank;
    let pred = fetch(hand, word_of(Rank(0), TAIL), Atomic::Swap(named(me)))?;
    if pred != 0 {
        post(hand, word_of(Rank(pred as u32 - 1), NEXT), named(me))?;
        wait_for(hand, word_of(me, GO))?;
        fetch(hand, word_of(me, GO), Atomic::Swap(0))?;
    }
    Ok(())
}

fn release(hand: &dyn Connection) -> Result<()> {
    let me = hand.job().rank;
    let leave = Atomic::CompareSwap { expected: named(me), desired: 0 };
    if u128::from(fetch(hand, word_of(Rank(0), TAIL), leave)?) == named(me) {
        return Ok(());
    }
    wait_for(hand, word_of(me, NEXT))?;
    let next = fetch(hand, word_of(me, NEXT), Atomic::Swap(0))?;
    post(hand, word_of(Rank(next as u32 - 1), GO), 1)
}

fn post(hand: &dyn Connection, at: Word, value: u128) -> Result<()> {
    hand.atomic(at, Atomic::Store(value), OldValue::Ignored).map(drop)
}

fn fetch(hand: &dyn Connection, at: Word, op: Atomic) -> Result<u64> {
    let reply = match hand.atomic(at, op, OldValue::Wanted)? {
        Started::Done(reply) => Some(reply),
        Started::Pending(ticket) => {
            wait(hand, Event::Done(ticket))?;
            hand.poll(ticket)?
        }
    };
    match reply {
        Some(Reply::Word(held)) => Ok(held as u64),
        reply => Err(Error::Internal(format!("an atomic has the reply {reply:?}"))),
    }
}

/// Waits until a word of this rank is not zero, and returns what it holds.
fn wait_for(hand: &dyn Connection, at: Word) -> Result<u64> {
    let memory = hand.map(at.rank, at.segment)?;
    let memory = memory.ok_or(Error::NoSegment { rank: at.rank, segment: at.segment })?;
    let until = &|held: u64| held != 0;
    wait(hand, Event::Words(&[Condition { at, memory: &memory, until }]))
}

fn wait(hand: &dyn Connection, event: Event<'_>) -> Result<u64> {
    let mut known_departures = 0;
    loop {
        let wait = Wait { event, known_departures, timeout: None, soon: true, lasting: None };
        match hand.block(&wait)? {
            Wake::Ready { value, .. } => return Ok(value),
            // If nobody is left who could end it, the simulator finds that it does not end.
            Wake::Departure => known_departures = hand.job().failures.departures(),
            Wake::TimedOut => return Err(Error::TimedOut { after_ms: 0 }),
        }
    }
}

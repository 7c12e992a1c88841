//! How a rank waits on a real machine: spin while there is a processor for every rank, else yield a
//! bounded number of times, then sleep until the bell rings.
//!
//! A spinning rank answers fastest, but where ranks outnumber processors it keeps the very rank
//! from running that it waits for. A yield costs a fraction of a sleep and a wake-up as long as the
//! ranks share a scheduling group, so some yields come before the sleep. `farside bench ops`
//! measures both (`barrier` at 2 and at 16 ranks).

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farside_fabric::record::Lasting;
use farside_fabric::{Effort, PeerState, Rank};

use crate::bell::{ANYTHING, Bell};
use crate::memory::Job;

/// How often the condition is looked at before the first yield, when there is a processor for each
/// waiter.
const SPINS: u32 = 20_000;
/// How many yields come before the sleep, at most, and of all ranks together: where many wait, each
/// turn of one keeps the others' from coming.
const YIELDS: u32 = 200;
const YIELDS_OF_ALL: u32 = 3200;
/// How many yields come between two looks at the clock, which costs as much as a yield where
/// processes take turns: its memory is cold.
const YIELDS_PER_LOOK: u32 = 20;

/// How a wait ended.
pub(crate) enum Waited<R> {
    Ready(R),
    Departure,
    TimedOut,
}

/// Where, and how, a thread waits.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) job: &'a Job,
    /// The bell that rings when the event happens, if any of `bits` is announced there. Without
    /// bits there is no event, and the wait is for time alone.
    pub(crate) bell: &'a Bell,
    pub(crate) bits: u64,
    /// How many departures the waiter knows of.
    pub(crate) known_departures: u32,
    pub(crate) timeout: Option<Duration>,
    /// Whether the event is expected soon: then the waiter yields before it sleeps.
    pub(crate) soon: bool,
    /// Whether the waiter spins before that, where there is a processor for each.
    pub(crate) spins: bool,
    /// Is told before each sleep.
    pub(crate) lasting: Option<&'a dyn Lasting>,
}

/// Waits for `ready`, for a departure beyond the known ones, or for the time to pass.
///
/// Inlined, condition and all: a rank that has just got a processor pays for each page of code that
/// it touches.
#[inline]
pub(crate) fn wait<R>(
    site: Site<'_>,
    mut ready: impl FnMut() -> Option<R>,
    effort: &Cell<Effort>,
) -> Waited<R> {
    let Site { job, bell, bits, known_departures, timeout, soon, spins, lasting } = site;
    if let Some(result) = ready() {
        return Waited::Ready(result);
    }
    let departures = &job.failures().departures;
    let gone = || departures.load(Ordering::SeqCst) != known_departures;
    let mut spent = effort.get();
    spent.waits += 1;
    let mut clock = Clock::new(timeout);
    let endpoints = job.endpoints().load(Ordering::Relaxed);
    let is_for_time = bits == 0;
    let spins = if spins && endpoints <= job.cores() && !is_for_time { SPINS } else { 0 };
    let yields =
        if soon && !is_for_time { (YIELDS_OF_ALL / endpoints.max(1)).min(YIELDS) } else { 0 };
    let mut looks = 0;
    let wake = loop {
        if gone() {
            // What happened before the departure counts: the one who left may have done its part.
            break ready().map_or(Waited::Departure, Waited::Ready);
        }
        if looks < spins {
            std::hint::spin_loop();
        } else if looks < spins + yields {
            if (looks - spins) % YIELDS_PER_LOOK == YIELDS_PER_LOOK - 1
                && clock.left() == Some(Duration::ZERO)
            {
                break Waited::TimedOut;
            }
            std::thread::yield_now();
            spent.yields += 1;
        } else {
            let left = clock.left();
            if left == Some(Duration::ZERO) {
                break Waited::TimedOut;
            }
            let again = lasting.and_then(|lasting| lasting.lasts());
            let longest = left.into_iter().chain(again).min();
            bell.park(bits, || ready().is_some() || gone(), longest);
            spent.parks += 1;
        }
        looks = looks.saturating_add(1);
        if let Some(result) = ready() {
            break Waited::Ready(result);
        }
    };
    effort.set(spent);
    wake
}

impl<'a> Site<'a> {
    /// A wait without a limit for whatever a bell rings for, which is not expected soon.
    pub(crate) fn until_told(job: &'a Job, bell: &'a Bell, known_departures: u32) -> Site<'a> {
        let (bits, timeout) = (ANYTHING, None);
        let lasting = None;
        Site { job, bell, bits, known_departures, timeout, soon: false, spins: true, lasting }
    }
}

impl Job {
    /// Whether a rank has left or was lost.
    pub fn is_gone(&self, rank: Rank) -> bool {
        matches!(self.peer_state(rank), PeerState::Left | PeerState::Lost(_))
    }

    /// Waits at the bell of a rank that has left itself until all ranks have, or were lost.
    pub fn await_everybody(&self, at: Rank) {
        let effort = Cell::default();
        loop {
            let known = self.failures().departures.load(Ordering::SeqCst);
            let over =
                || self.topology().all().iter().all(|&rank| self.is_gone(rank)).then_some(());
            let site = Site::until_told(self, self.bell(at), known);
            if let Waited::Ready(()) = wait(site, over, &effort) {
                return;
            }
        }
    }
}

/// A timeout that starts to run when it is first looked at: most waits are over before.
struct Clock {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
}

impl Clock {
    fn new(timeout: Option<Duration>) -> Clock {
        Clock { timeout, deadline: None }
    }

    /// How long there is still to wait; `None` if there is no limit.
    fn left(&mut self) -> Option<Duration> {
        let timeout = self.timeout?;
        match self.deadline {
            Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
            None => {
                self.deadline = Instant::now().checked_add(timeout);
                if self.deadline.is_none() {
                    // A time out of the clock's range is no limit.
                    self.timeout = None;
                    return None;
                }
                Some(timeout)
            }
        }
    }
}

//! How a rank waits on a real machine: spin while there is a processor for every rank, else yield a
//! bounded number of times and for a bounded time, then sleep until the bell rings.
//!
//! A spinning rank answers fastest, but where ranks outnumber processors it keeps the very rank
//! from running that it waits for. A yield costs a fraction of a sleep and a wake-up as long as the
//! ranks share a scheduling group, so some yields come before the sleep. `farside bench ops`
//! measures both (`barrier` at 2 and at 16 ranks). Beside programs that compute, each yield may
//! take as long as all of their time slices, and what a rank waits for is written down when it
//! sleeps: so yields end after a millisecond.

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
/// The clock is looked at after so many yields, and whenever there have been twice as many as at
/// the last look: where processes take turns it costs as much as a yield, since its memory is cold.
const YIELDS_FIRST_LOOK: u32 = 4;
/// For how long a waiter yields after the first look. Yields that take longer than this are given
/// up after twice as many as come before that look.
const YIELDING: Duration = Duration::from_millis(1);

pub(crate) enum Waited<R> {
    Ready(R),
    Departure,
    TimedOut,
}

#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) job: &'a Job,
    /// The bell that rings when the event happens, if any of `bits` is announced there. Without
    /// bits there is no event, and the wait is for time alone.
    pub(crate) bell: &'a Bell,
    pub(crate) bits: u64,
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
            std::thread::yield_now();
            spent.yields += 1;
            let yielded = looks + 1 - spins;
            if yielded >= YIELDS_FIRST_LOOK && yielded.is_power_of_two() {
                if clock.left() == Some(Duration::ZERO) {
                    // What happened during the yield counts.
                    break ready().map_or(Waited::TimedOut, Waited::Ready);
                }
                if clock.runs_for() > YIELDING {
                    looks = spins + yields;
                }
            }
        } else {
            let left = clock.left();
            if left == Some(Duration::ZERO) {
                break Waited::TimedOut;
            }
            let again = lasting.and_then(|lasting| lasting.lasts());
            let longest = left.into_iter().chain(again).min();
            let is_over = || {
                // From now on whoever changes what is waited for rings the bell.
                if let Some(lasting) = lasting {
                    lasting.looks();
                }
                ready().is_some() || gone()
            };
            bell.park(bits, is_over, longest);
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

/// A clock that starts to run when it is first looked at: most waits are over before.
struct Clock {
    timeout: Option<Duration>,
    begin: Option<Instant>,
    now: Option<Instant>,
}

impl Clock {
    fn new(timeout: Option<Duration>) -> Clock {
        Clock { timeout, begin: None, now: None }
    }

    /// Looks at the clock: how long there is still to wait; `None` if there is no limit.
    fn left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.now = Some(now);
        let begin = *self.begin.get_or_insert(now);
        // A time out of the clock's range is no limit.
        let timeout = self.timeout.filter(|&timeout| begin.checked_add(timeout).is_some())?;
        Some(timeout.saturating_sub(now - begin))
    }

    /// How long the clock had run at the last look.
    fn runs_for(&self) -> Duration {
        self.now.zip(self.begin).map_or(Duration::ZERO, |(now, begin)| now - begin)
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::Topology;
    use farside_fabric::record::Activity;

    use super::*;
    use crate::Config;

    /// Notes after how many looks the wait was told to last.
    struct Noted<'a> {
        looks: &'a Cell<u32>,
        lasts: Cell<u32>,
    }

    impl Lasting for Noted<'_> {
        fn lasts(&self) -> Option<Duration> {
            self.lasts.set(self.looks.get());
            None
        }

        fn activity(&self) -> Activity {
            unreachable!("nobody asks")
        }
    }

    /// A word that is changed right after its waiter has noted that it waits, and what was noted
    /// last.
    struct Changed {
        word: Cell<u32>,
        seen: Cell<u32>,
    }

    impl Lasting for Changed {
        fn lasts(&self) -> Option<Duration> {
            self.looks();
            self.word.set(self.word.get() + 1);
            Some(Duration::from_millis(1))
        }

        fn looks(&self) {
            self.seen.set(self.word.get());
        }

        fn activity(&self) -> Activity {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn a_change_before_the_sleep_is_noted_as_seen() {
        let mut config = Config::new(Topology::flat(64), 4096);
        config.arena_bytes = 1 << 20;
        let job = Job::create(&config).unwrap();
        let changed = Changed { word: Cell::new(0), seen: Cell::new(0) };
        let told = Site::until_told(&job, job.bell(Rank(0)), 0);
        let site = Site { spins: false, lasting: Some(&changed), ..told };
        let asleep_with = Cell::new(None);
        let ready = || {
            let (word, seen) = (changed.word.get(), changed.seen.get());
            // The look in `park` is the first one after the change.
            if word == 1 && asleep_with.get().is_none() {
                asleep_with.set(Some((word, seen)));
            }
            (word > 1).then_some(())
        };
        assert!(matches!(wait(site, ready, &Cell::default()), Waited::Ready(())));
        assert_eq!(asleep_with.get(), Some((1, 1)), "the word, and what was noted of it");
    }

    #[test]
    fn a_waiter_whose_yields_take_long_sleeps_after_a_few() {
        let mut config = Config::new(Topology::flat(64), 4096);
        config.arena_bytes = 1 << 20;
        let job = Job::create(&config).unwrap();
        let looks = Cell::new(0);
        let noted = Noted { looks: &looks, lasts: Cell::new(0) };
        let told = Site::until_told(&job, job.bell(Rank(0)), 0);
        let site = Site { soon: true, spins: false, lasting: Some(&noted), ..told };
        // Each look stands for a yield beside programs that compute.
        let ready = || {
            looks.set(looks.get() + 1);
            // sleep: a processor that others have taken.
            std::thread::sleep(2 * YIELDING);
            (noted.lasts.get() != 0).then_some(())
        };
        let effort = Cell::new(Effort::default());
        assert!(matches!(wait(site, ready, &effort), Waited::Ready(())));
        assert!(
            noted.lasts.get() <= 2 * YIELDS_FIRST_LOOK + 1,
            "it was noted after {} looks, {:?}",
            noted.lasts.get(),
            effort.get()
        );
    }

    #[test]
    fn a_limit_ends_a_wait_that_yields() {
        let mut config = Config::new(Topology::flat(64), 4096);
        config.arena_bytes = 1 << 20;
        let job = Job::create(&config).unwrap();
        let site = Site {
            timeout: Some(Duration::from_micros(1)),
            soon: true,
            spins: false,
            ..Site::until_told(&job, job.bell(Rank(0)), 0)
        };
        let effort = Cell::new(Effort::default());
        let never = || {
            // sleep: a processor that others have taken.
            std::thread::sleep(Duration::from_millis(1));
            None::<()>
        };
        assert!(matches!(wait(site, never, &effort), Waited::TimedOut));
        assert!(effort.get().yields <= 2 * u64::from(YIELDS_FIRST_LOOK), "{:?}", effort.get());
    }
}

//! What each rank of `farside bench interference` runs.
//!
//! Rank 0 is the home of a lock and does something else; rank 1, and in the case `lock` all ranks
//! after it, take the lock; rank 2 is where rank 0 sends to.

use std::hint::black_box;
use std::time::Duration;

use farside::{Error, Lock, Rank, Result, Window, Words, World, lock};

use super::{BANDWIDTH, CPU, LOCK, Placement, Plan};
use crate::driver::sample;

/// The queuing lock of [NIC02] section IV.
const KIND: &str = "d-mcs";
const HOME: Rank = Rank(0);
/// Whose time counts in the case `lock`.
const TAKER: Rank = Rank(1);
/// Where the home sends to.
const THIRD: Rank = Rank(2);
/// How much it sends before it waits for the acknowledgement, in words.
const MESSAGE_WORDS: usize = (1 << 20) / 8;
/// How many steps of the counting loop come between two looks at the clock.
const STEPS: u64 = 1000;
/// In virtual time a message does not become packets by itself: how long one is, in words.
const VIRTUAL_PACKET_WORDS: usize = 4096 / 8;
const VIRTUAL_STEP_NS: u64 = 1000;

#[derive(Default)]
struct Done {
    count: u64,
    took_ns: u64,
}

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    if let Some(placement) = &plan.placement {
        let cores = if world.rank() == HOME { &placement.home } else { &placement.others };
        cores.pin().map_err(|error| Error::System {
            call: "choosing the processors of a rank",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
    }
    let kind = lock::Kind::named(KIND)
        .ok_or_else(|| Error::InvalidArgument(format!("there is no lock {KIND:?}")))?;
    let is_far = plan.cases.iter().any(|case| case == BANDWIDTH);
    let memory = world.window::<u64>(if is_far { MESSAGE_WORDS } else { 1 })?;
    let mut samples = Vec::new();
    for (case, load_per_s) in plan.cases() {
        let stage = Stage {
            world,
            lock: Lock::of_kind(world, HOME, &kind)?,
            over: world.words(1)?,
            memory: &memory,
        };
        let done = stage.play(plan, case, load_per_s)?;
        samples.extend(stage.sum_up(plan.placement.as_ref(), case, load_per_s, &done)?);
        let Stage { lock, over, .. } = stage;
        lock.free(world)?;
        over.free(world)?;
    }
    memory.free(world)?;
    Ok(samples)
}

struct Stage<'a> {
    world: &'a World,
    lock: Lock,
    over: Words,
    memory: &'a Window<u64>,
}

impl Stage<'_> {
    /// Does this rank's part, until the home says that it is over.
    fn play(&self, plan: &Plan, case: &str, load_per_s: Option<u64>) -> Result<Done> {
        let (world, me) = (self.world, self.world.rank());
        world.barrier()?;
        if me == HOME {
            let end_ns = world.now_ns() + plan.time.as_nanos() as u64;
            let done = match case {
                CPU if plan.placement.is_none() => self.count_virtually(end_ns),
                CPU => self.count(end_ns),
                BANDWIDTH if plan.placement.is_none() => self.send(end_ns, VIRTUAL_PACKET_WORDS)?,
                BANDWIDTH => self.send(end_ns, MESSAGE_WORDS)?,
                _ => self.idle(end_ns)?,
            };
            for peer in world.ranks().filter(|&peer| peer != HOME) {
                world.signal(self.over.at(peer, 0), 1)?;
            }
            world.flush_all()?;
            return Ok(done);
        }
        match (case, load_per_s) {
            (LOCK, _) => self.take_turns(None),
            (_, Some(load)) if me == TAKER && load > 0 => {
                self.take_turns(Some(1_000_000_000 / load))
            }
            _ => {
                world.wait(self.over.at(me, 0), |over| over != 0)?;
                Ok(Done::default())
            }
        }
    }

    /// Counts, without a call of the library.
    fn count(&self, end_ns: u64) -> Done {
        let begin_ns = self.world.now_ns();
        let (mut count, mut state) = (0, 1u64);
        loop {
            for _ in 0..STEPS {
                state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            count += STEPS;
            let now_ns = self.world.now_ns();
            if now_ns >= end_ns {
                return Done { count, took_ns: now_ns - begin_ns };
            }
        }
    }

    /// Likewise in virtual time, where only what is said to take time does.
    fn count_virtually(&self, end_ns: u64) -> Done {
        let begin_ns = self.world.now_ns();
        let mut count = 0;
        while self.world.now_ns() < end_ns {
            self.world.work(VIRTUAL_STEP_NS);
            count += 1;
        }
        Done { count, took_ns: self.world.now_ns() - begin_ns }
    }

    /// Sends to a third node; counts bytes.
    fn send(&self, end_ns: u64, words_at_once: usize) -> Result<Done> {
        let (world, begin_ns) = (self.world, self.world.now_ns());
        let message = vec![1u64; MESSAGE_WORDS];
        let mut count = 0;
        while world.now_ns() < end_ns {
            for at in (0..MESSAGE_WORDS).step_by(words_at_once) {
                world
                    .put(black_box(&message[at..at + words_at_once]), self.memory.at(THIRD, at))?;
            }
            world.flush(THIRD)?;
            count += 8 * MESSAGE_WORDS as u64;
        }
        Ok(Done { count, took_ns: world.now_ns() - begin_ns })
    }

    fn idle(&self, end_ns: u64) -> Result<Done> {
        while !self.is_over_by(end_ns)? {
            if self.world.now_ns() >= end_ns {
                break;
            }
        }
        Ok(Done::default())
    }

    /// Takes the lock and gives it back, one time after the other, at most every `period_ns`.
    fn take_turns(&self, period_ns: Option<u64>) -> Result<Done> {
        let world = self.world;
        let (begin_ns, mut done) = (world.now_ns(), Done::default());
        let mut due_ns = begin_ns;
        loop {
            let from_ns = world.now_ns();
            self.lock.lock(world)?.unlock()?;
            let now_ns = world.now_ns();
            done.count += 1;
            done.took_ns += now_ns - from_ns;
            due_ns = match period_ns {
                // Who is late does not catch up.
                Some(period_ns) => (due_ns + period_ns).max(now_ns),
                None => now_ns,
            };
            if self.is_over_by(due_ns)? {
                return Ok(done);
            }
        }
    }

    /// Waits until it is over, or until a time.
    fn is_over_by(&self, due_ns: u64) -> Result<bool> {
        let world = self.world;
        let left = Duration::from_nanos(due_ns.saturating_sub(world.now_ns()));
        match world.wait_timeout(self.over.at(world.rank(), 0), |over| over != 0, left) {
            Ok(_) => Ok(true),
            Err(Error::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The sample, at rank 0.
    fn sum_up(
        &self,
        placement: Option<&Placement>,
        case: &str,
        load_per_s: Option<u64>,
        done: &Done,
    ) -> Result<Option<String>> {
        let world = self.world;
        let all = world.all_gather(&[done.count, done.took_ns])?;
        let all: Vec<(f64, f64)> =
            all.chunks_exact(2).map(|pair| (pair[0] as f64, pair[1] as f64)).collect();
        if world.rank() != HOME {
            return Ok(None);
        }
        let (home, taker) = (all[HOME.index()], all[TAKER.index()]);
        let per_s = |(count, took_ns): (f64, f64)| (took_ns > 0.0).then(|| count * 1e9 / took_ns);
        // In the window of the home; where it was idle, the one who takes the lock knows how long
        // that was.
        let window_ns = if case == LOCK { taker.1 } else { home.1 };
        let taken: f64 = all[1..].iter().map(|(count, _)| count).sum();
        let mean_ns = (taker.0 > 0.0).then(|| taker.1 / taker.0);
        let figures = [
            mean_ns,
            per_s(home).filter(|_| case == CPU),
            per_s(home).filter(|_| case == BANDWIDTH),
            (window_ns > 0.0).then(|| taken * 1e9 / window_ns),
        ];
        let word = |text: Option<String>| text.unwrap_or("-".to_owned());
        let load = word(load_per_s.map(|load| load.to_string()));
        let contenders = word((case == LOCK).then(|| (all.len() - 1).to_string()));
        let sharing = word(placement.map(|placement| placement.sharing.name().to_owned()));
        let core = |of: fn(&Placement) -> String| word(placement.map(of));
        let home_core = core(|placement| placement.home.to_string());
        let server_core = core(|placement| placement.servers().to_string());
        let attributes: [&dyn std::fmt::Display; 5] =
            [&load, &contenders, &sharing, &home_core, &server_core];
        Ok(Some(sample(case, &attributes, &figures)))
    }
}

//! What each rank of `farside bench locks` runs.

use std::time::Duration;

use farside::{Error, Rank, Result, Window, World};

use super::lock_spec::AnyLock;
use super::singles::Singles;
use super::tally::{Summary, Tally};
use super::{LockSpec, Plan, TIMES, WHOLE, hand_over};
use crate::timing::Random;

/// How many operations without a look at the clock in between, at most, where nothing is done under
/// the lock: a look takes as long as half an operation. Fewer once so many took longer than that,
/// so that a batch is never what makes a wait look long. The rivals' programs do the same.
const BATCH: u64 = 16;
const BATCH_NS: u64 = 10_000;
/// What a rank does when it has the lock, or after that, in nanoseconds.
const WORK_NS: std::ops::Range<u64> = 1000..4000;
/// How far places that are not to disturb each other are apart, in words.
const APART: usize = 16;
/// The words of each rank that say since when and until when it counts; zero as long as that is
/// open.
const SINCE: usize = APART;
const UNTIL: usize = APART + 1;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let memory = Memory { window: world.window(2 * APART)? };
    let mut samples = Vec::new();
    for choice in &plan.locks {
        for case in plan.loops() {
            let summary = one(world, plan, &memory, (choice, case))?;
            samples.extend(lines(plan, choice, case, &summary));
        }
        if plan.hands_over() {
            samples.extend(hand_over::run(world, plan, choice)?);
        }
    }
    memory.window.free(world)?;
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

fn lines(plan: &Plan, choice: &LockSpec, case: &str, summary: &Summary) -> Vec<String> {
    let line = |case: &str| {
        let (ns, single) = match case {
            "acquire" => (summary.acquire_ns, summary.single.acquire),
            "release" => (summary.release_ns, summary.single.release),
            _ => (summary.acquire_ns + summary.release_ns, summary.single.both),
        };
        let all = [ns, summary.per_s, summary.share_min, summary.share_max, summary.wait_max_ns];
        let (p50_ns, p99_ns) = (single.map(|of| of.p50_ns), single.map(|of| of.p99_ns));
        let figures: Vec<_> = all.map(Some).into_iter().chain([p50_ns, p99_ns]).collect();
        plan.sample(choice, case, &figures)
    };
    if !TIMES.contains(&case) {
        return vec![line(case)];
    }
    let asked = plan.cases.iter().filter(|case| TIMES.contains(&case.as_str()));
    asked.map(|case| line(case)).collect()
}

/// A counter in the memory of rank 0, and words in that of every rank that say when it counts.
struct Memory {
    window: Window<u64>,
}

impl Memory {
    fn counter(&self) -> farside::Place<'_, u64> {
        self.window.at(Rank(0), 0)
    }

    /// Since when and until when it counts, as far as this rank was told.
    #[inline]
    fn times(&self) -> Result<(u64, u64)> {
        let mut times = [0; 2];
        self.window.own().read(SINCE, &mut times)?;
        Ok((times[0], times[1]))
    }

    /// Tells all ranks one of the times.
    fn tell(&self, world: &World, which: usize, ns: u64) -> Result<()> {
        world.ranks().try_for_each(|peer| world.signal(self.window.at(peer, which), ns.max(1)))
    }

    fn clear(&self, world: &World) -> Result<()> {
        world.sync()?;
        self.window.own().write(0, &[0; 2 * APART])?;
        world.sync()
    }

    /// Opens another time that counts. The counter goes on.
    fn clear_times(&self, world: &World) -> Result<()> {
        world.sync()?;
        self.window.own().write(SINCE, &[0; 2])?;
        world.sync()
    }
}

/// One loop with one lock.
fn one(
    world: &World,
    plan: &Plan,
    memory: &Memory,
    (choice, case): (&LockSpec, &str),
) -> Result<Summary> {
    memory.clear(world)?;
    let lock = choice.build(world)?;
    let mut worker = Worker {
        world,
        lock: &lock,
        memory,
        case,
        is_empty: case == "ecsb",
        writers: plan.writers(),
        random: Random::new(u64::from(world.rank().0)),
        increments: 0,
        singles: None,
    };
    world.barrier()?;
    let summary = if plan.operations > 0 {
        let is_idle = plan.last_only && world.rank().0 + 1 < world.size();
        let operations = if is_idle { 0 } else { plan.operations };
        Summary::of_operations(&counted(world, &mut worker, operations)?)
    } else {
        let tally = worker.for_time(plan.time)?;
        let tallies = gather(world, &tally)?;
        memory.clear_times(world)?;
        let single = worker.singles(plan.time / 4)?.of_all(world)?;
        Summary { single, ..Summary::of_time(&tallies) }
    };
    let mut increments = [worker.increments];
    world.all_reduce(&mut increments, |a, b| a + b)?;
    world.sync()?;
    let counted = world.get_value(memory.counter())?;
    if counted != increments[0] {
        let what = format!(
            "{} {case}: {} increments under the lock came to {counted}",
            choice.name(),
            increments[0]
        );
        return Err(Error::Program(what));
    }
    lock.free(world)?;
    Ok(summary)
}

fn gather(world: &World, tally: &Tally) -> Result<Vec<Tally>> {
    let words = tally.words();
    Ok(world.all_gather(&words)?.chunks_exact(words.len()).map(Tally::from_words).collect())
}

fn counted(world: &World, worker: &mut Worker<'_>, operations: u64) -> Result<Vec<Tally>> {
    let (mut tally, ends_ns) = worker.for_operations(operations)?;
    let mut first_ns = [tally.end_ns];
    world.all_reduce(&mut first_ns, u64::min)?;
    tally.early = ends_ns.iter().filter(|&&end_ns| end_ns <= first_ns[0]).count() as u64;
    gather(world, &tally)
}

struct Worker<'a> {
    world: &'a World,
    lock: &'a AnyLock,
    memory: &'a Memory,
    case: &'a str,
    /// Whether nothing at all is done under the lock.
    is_empty: bool,
    writers: u64,
    random: Random,
    increments: u64,
    /// The times of operations, while they are timed one by one.
    singles: Option<Singles>,
}

impl Worker<'_> {
    /// Works for a time, and times each operation by itself.
    fn singles(&mut self, time: Duration) -> Result<Singles> {
        self.singles = Some(Singles::new());
        self.for_time(time)?;
        Ok(self.singles.take().unwrap_or_else(Singles::new))
    }

    /// Works until rank 0 says that time is up. What is over between the two times that rank 0 says
    /// counts; before, it only warms up. Rank 0 has at least one that counts, and all ranks of a
    /// node have one clock.
    fn for_time(&mut self, time: Duration) -> Result<Tally> {
        let (world, start_ns) = (self.world, self.world.now_ns());
        let time_ns = time.as_nanos() as u64;
        let (mut tally, mut last_ns, mut batch) = (Tally::default(), start_ns, 1);
        loop {
            let mut some = Tally::default();
            let end_ns = if self.is_empty && self.singles.is_none() {
                let end_ns = self.empty_sections(batch)?;
                some.add(batch, end_ns - last_ns, 0);
                batch = if end_ns - last_ns < BATCH_NS {
                    (batch * 2).min(BATCH)
                } else {
                    (batch / 2).max(1)
                };
                end_ns
            } else {
                self.once(last_ns, &mut some)?
            };
            last_ns = end_ns;
            let (since_ns, until_ns) = self.memory.times()?;
            if since_ns > 0 && end_ns >= since_ns {
                tally.wait_max_ns = tally.wait_max_ns.max(some.wait_max_ns);
                if until_ns == 0 || end_ns <= until_ns {
                    tally.add(some.operations, some.acquire_ns, some.release_ns);
                    if let Some(singles) = &mut self.singles {
                        singles.record(some.acquire_ns, some.release_ns);
                    }
                }
            }
            if until_ns > 0 {
                (tally.begin_ns, tally.end_ns) = (since_ns, until_ns);
                return Ok(tally);
            }
            if world.rank() == Rank(0) {
                if since_ns == 0 && end_ns - start_ns >= time_ns / 10 {
                    self.memory.tell(world, SINCE, end_ns)?;
                } else if since_ns > 0 && end_ns - since_ns >= time_ns && tally.operations > 0 {
                    self.memory.tell(world, UNTIL, end_ns)?;
                }
            }
        }
    }

    /// Works so often; also says when each operation was over. Of the first tenth no times are
    /// kept.
    fn for_operations(&mut self, operations: u64) -> Result<(Tally, Vec<u64>)> {
        let begin_ns = self.world.now_ns();
        let mut ends_ns = Vec::with_capacity(operations as usize);
        let (mut tally, mut last_ns) = (Tally::default(), begin_ns);
        for number in 0..operations {
            if number == operations / 10 {
                tally = Tally::default();
            }
            last_ns = self.once(last_ns, &mut tally)?;
            ends_ns.push(last_ns);
        }
        // Throughput is that of all of them.
        let kept = tally.operations as f64 / operations as f64;
        let scale = |ns: u64| (ns as f64 / kept) as u64;
        let (acquire_ns, release_ns) = (scale(tally.acquire_ns), scale(tally.release_ns));
        Ok((
            Tally { operations, acquire_ns, release_ns, begin_ns, end_ns: last_ns, ..tally },
            ends_ns,
        ))
    }

    /// So many operations with nothing in them, not even a look at the clock; returns when they
    /// were over. All times together are all that is known.
    #[inline]
    fn empty_sections(&mut self, count: u64) -> Result<u64> {
        for _ in 0..count {
            let writes = self.random.below(WHOLE as u64) < self.writers;
            self.lock.hold(self.world, writes, || Ok(()))?;
        }
        Ok(self.world.now_ns())
    }

    /// One operation, which begins at `begin_ns`; returns when it was over.
    #[inline]
    fn once(&mut self, begin_ns: u64, tally: &mut Tally) -> Result<u64> {
        if self.is_empty {
            let end_ns = self.empty_sections(1)?;
            tally.add(1, end_ns - begin_ns, 0);
            return Ok(end_ns);
        }
        let (world, memory, case) = (self.world, self.memory, self.case);
        let writes = self.random.below(WHOLE as u64) < self.writers;
        let work_ns = WORK_NS.start + self.random.below(WORK_NS.end - WORK_NS.start);
        let (acquired_ns, leaves_ns) = self.lock.hold(world, writes, || {
            let acquired_ns = world.now_ns();
            match case {
                "sob" if writes => world.put_value(1, memory.window.at(Rank(0), 1))?,
                "sob" => drop(world.get_value(memory.window.at(Rank(0), 1))?),
                "wcsb" => {
                    let seen = world.get_value(memory.counter())?;
                    if writes {
                        world.put_value(seen + 1, memory.counter())?;
                    }
                    world.work(work_ns);
                    return Ok((acquired_ns, world.now_ns()));
                }
                _ => {}
            }
            Ok((acquired_ns, acquired_ns))
        })?;
        let end_ns = world.now_ns();
        self.increments += u64::from(case == "wcsb" && writes);
        tally.add(1, acquired_ns - begin_ns, end_ns - leaves_ns);
        if case != "warb" {
            return Ok(end_ns);
        }
        world.work(work_ns);
        Ok(world.now_ns())
    }
}

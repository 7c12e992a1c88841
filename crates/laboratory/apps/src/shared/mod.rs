//! Programs on shared memory: 3D-FFT, Barnes-Hut, SOR and Jacobi as in \[BST97\], and a work queue.
//!
//! Each is an ordinary shared-memory program: ranks read what they need, write what is theirs, and
//! meet. What comes out, and how long it takes, is compared with its base: the same method by one
//! rank in memory of its own.

mod barnes;
mod fft3d;
mod jacobi;
mod options;
mod picture;
mod sor;
mod timing;
mod tsp;

use std::cell::Cell;
use std::io::Write;
use std::ops::Range;

use farside::dsm::{Access, ArrayStatistics, Config, Copies, Diffs, Dsm, Shared, Statistics};
use farside::fabric::SegmentId;
use farside::{Error, Plain, Rank, Result, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::output::{check_target, say};

pub(crate) use options::help;
pub use options::{Options, Program, published_iterations, virtual_work};
pub use timing::Timed;
use timing::{median, timed};

pub(crate) struct Machine<'a, 'w> {
    pub(crate) dsm: &'a mut Dsm<'w>,
    flop_ns: f64,
    operations: Cell<usize>,
}

impl<'a, 'w> Machine<'a, 'w> {
    fn new(dsm: &'a mut Dsm<'w>, flop_ns: f64) -> Machine<'a, 'w> {
        Machine { dsm, flop_ns, operations: Cell::new(0) }
    }

    /// Counts so many operations on numbers, and stands for them where computing takes no time by
    /// itself: in virtual time.
    pub(crate) fn computes(&self, operations: usize) {
        self.operations.set(self.operations.get() + operations);
        let ns = (operations as f64 * self.flop_ns) as u64;
        if ns > 0 {
            self.dsm.world().work(ns);
        }
    }

    /// Returns how many operations there were since the last call.
    fn take_operations(&self) -> usize {
        self.operations.take()
    }

    /// Writes zeros, so that memory which nobody has used yet is there when the clock starts. In
    /// virtual time, where the whole program is timed, nothing is touched in advance.
    pub(crate) fn touch<T: Plain + Default>(
        &mut self,
        shared: Shared<T>,
        range: Range<usize>,
    ) -> Result<()> {
        if is_virtual(self.dsm.world()) {
            return Ok(());
        }
        let zeros = vec![T::default(); range.len()];
        self.dsm.view_mut(shared, range)?.copy_from(0, &zeros);
        Ok(())
    }

    pub(crate) fn part(&self, count: usize) -> Range<usize> {
        part(count, self.dsm.world().rank().index(), self.dsm.world().size() as usize)
    }
}

/// The part of a rank when things are dealt out as evenly as can be.
pub(crate) fn part(count: usize, rank: usize, ranks: usize) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// Returns whether time is virtual: computing takes as long as it is said to.
fn is_virtual(world: &World) -> bool {
    world.job().caps.name == "sim"
}

/// A program on shared memory, and its base.
pub(crate) trait Kernel {
    /// How much shared memory it needs.
    fn bytes(&self) -> u64;
    fn steps(&self) -> usize;
    /// Allocates shared memory and writes its first values, as one of the ranks.
    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>>;
    /// The same in memory of one rank, which has its first values, too.
    fn base(&self) -> Box<dyn Base>;
    /// A picture of what has come out, as SVG.
    fn picture(&self, result: &[f64]) -> String;
}

/// One rank's part of a program on shared memory.
pub(crate) trait SharedRun {
    /// Takes a step. After the last one, the last barrier has been passed.
    fn step(&mut self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()>;
    /// All that was computed by all ranks, read from shared memory.
    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>>;
}

/// The best program that one rank can run: the same method, without shared memory.
pub(crate) trait Base {
    /// Takes a step, and returns how many operations on numbers that were.
    fn step(&mut self, step: usize) -> usize;
    fn result(&self) -> Vec<f64>;
}

/// What a run came to: the one in the middle, if there were several.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The steps: the time of the slowest rank, and the operations of all.
    pub timed: Timed,
    /// From the first allocation to the end of the last step, by the slowest rank.
    pub whole_ns: u64,
    /// The steps of the base, if that was run; its time is 0 in virtual time.
    pub base: Option<Timed>,
    /// What all ranks did together, since they began to allocate.
    pub statistics: Statistics,
    /// How many ranks there were.
    pub ranks: u32,
    /// The greatest difference from the result of the base, if they were compared.
    pub difference: Option<f64>,
    /// How accesses were noticed.
    pub access: String,
    /// The ranks that shared one copy, and when diffs were made.
    pub kind: (Copies, Diffs),
    /// How long a barrier takes when the last rank has come, on average, until the last one has
    /// left; as far as the ranks' clocks are the same.
    pub completion_ns: f64,
    /// Words that two ranks have accessed without being ordered, if that was looked for.
    pub races: u64,
    /// Where messages of barriers land.
    pub mail: SegmentId,
    /// What all ranks did together with each array.
    pub arrays: Vec<ArrayStatistics>,
}

impl Outcome {
    /// How long a rank was in a barrier, on average.
    pub fn barrier_ns(&self) -> f64 {
        self.statistics.barrier_ns as f64 / self.statistics.barriers.max(1) as f64
    }

    /// How many times as long the steps of the base take, if both were timed.
    pub fn speedup(&self) -> Option<f64> {
        let base = self.base.filter(|base| base.ns > 0)?;
        Some(base.ns as f64 / self.timed.ns.max(1) as f64)
    }
}

/// Runs a program and its base, in turns. Collective; rank 0 compares the results, and everybody
/// fails if they differ.
pub fn run(world: &World, options: &Options) -> Result<Outcome> {
    let kernel = options.kernel()?;
    if let Some(path) = options.plot.as_ref().filter(|_| world.rank().0 == 0) {
        check_target(path.as_ref()).map_err(|error| unwritten(path, &error))?;
    }
    world.set_prices(options.prices);
    // In virtual time a run is the same each time.
    let turns = if is_virtual(world) { 1 } else { options.turns.max(1) };
    let (mut outcomes, mut bases) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        let outcome = turn(world, options, &*kernel)?;
        bases.extend(outcome.base);
        outcomes.push(outcome);
    }
    let base = median(bases, |base| base.ns);
    let outcome = median(outcomes, |outcome| outcome.timed.ns);
    outcome
        .map(|outcome| Outcome { base, ..outcome })
        .ok_or_else(|| Error::Program("nothing was run".into()))
}

/// Runs a program, and then its base.
fn turn(world: &World, options: &Options, kernel: &dyn Kernel) -> Result<Outcome> {
    let now_ns = || world.now_ns();
    let mut dsm = Dsm::new(world, options.config(world, kernel.bytes()))?;
    world.barrier()?;
    let begin_ns = now_ns();
    let mut machine = Machine::new(&mut dsm, options.flop_ns);
    let mut run = kernel.prepare(&mut machine)?;
    machine.take_operations();
    if !is_virtual(world) {
        // Nobody's time begins while others still prepare.
        world.barrier()?;
    }
    let shared = timed(&now_ns, kernel.steps(), |step| {
        run.step(&mut machine, step)?;
        Ok(machine.take_operations())
    })?;
    let mut outcome = gather(world, &dsm, now_ns() - begin_ns, shared)?;
    if options.verify {
        let mut says = [Compared::default()];
        if world.rank() == Rank(0) {
            let result = run.result(&dsm)?;
            dsm.check()?;
            says = [compare(options, kernel, &now_ns, &result)?];
        }
        world.broadcast(Rank(0), &mut says)?;
        let [Compared { off, base }] = says;
        if off != 0.0 {
            return Err(Error::Program(format!(
                "{} on {} ranks differs from the sequential run by {off:e}",
                options.program.name(),
                world.size(),
            )));
        }
        outcome.difference = Some(off);
        outcome.base = Some(base);
    }
    dsm.close()?;
    Ok(outcome)
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Compared {
    off: f64,
    base: Timed,
}

/// Runs the base, and compares a result with its own; draws the result, too.
fn compare(
    options: &Options,
    kernel: &dyn Kernel,
    now_ns: &dyn Fn() -> u64,
    result: &[f64],
) -> Result<Compared> {
    let mut base = kernel.base();
    let alone = timed(now_ns, kernel.steps(), |step| Ok(base.step(step)))?;
    if let Some(path) = &options.plot {
        std::fs::write(path, kernel.picture(result)).map_err(|error| unwritten(path, &error))?;
    }
    Ok(Compared { off: difference(result, &base.result()), base: alone })
}

fn unwritten(path: &str, error: &std::io::Error) -> Error {
    Error::File(format!("the picture {path} cannot be written: {error}"))
}

/// The greatest difference of two results; what is not a number differs from everything.
fn difference(one: &[f64], other: &[f64]) -> f64 {
    if one.len() != other.len() {
        return f64::INFINITY;
    }
    let apart = |(a, b): (&f64, &f64)| if a == b { 0.0 } else { (a - b).abs() };
    one.iter()
        .zip(other)
        .map(apart)
        .fold(0.0, |most, next| if next > most || next.is_nan() { next } else { most })
}

/// The times and the statistics of one rank, or of all.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Done {
    whole_ns: u64,
    timed: Timed,
    statistics: Statistics,
}

impl Done {
    fn and(self, other: Done) -> Done {
        Done {
            whole_ns: self.whole_ns.max(other.whole_ns),
            timed: Timed {
                ns: self.timed.ns.max(other.timed.ns),
                steps: self.timed.steps,
                operations: self.timed.operations + other.timed.operations,
            },
            statistics: self.statistics.and(other.statistics),
        }
    }
}

fn gather(world: &World, dsm: &Dsm<'_>, whole_ns: u64, timed: Timed) -> Result<Outcome> {
    let mut races = [dsm.races().len() as u64];
    world.all_reduce(&mut races, |a, b| a + b)?;
    for race in dsm.races() {
        // If standard error is closed, the number of races still tells.
        let _ = writeln!(std::io::stderr(), "race: {race}");
    }
    let mut all = [Done { whole_ns, timed, statistics: dsm.statistics() }];
    world.all_reduce(&mut all, Done::and)?;
    let [Done { whole_ns, timed, statistics }] = all;
    let mut arrays = dsm.array_statistics();
    world.all_reduce(&mut arrays, ArrayStatistics::and)?;
    let access = match (dsm.method(), dsm.config().access) {
        (Some(method), _) => method.to_string(),
        (None, Access::Explicit) => "explicit".to_owned(),
        // One copy for all ranks.
        (None, _) => "plain".to_owned(),
    };
    let kind = (dsm.config().copies, dsm.config().diffs);
    Ok(Outcome {
        timed,
        whole_ns,
        base: None,
        statistics,
        ranks: world.size(),
        difference: None,
        access,
        kind,
        completion_ns: completion_ns(world, dsm)?,
        races: races[0],
        mail: dsm.mail_segment(),
        arrays,
    })
}

/// From the last one's coming to the last one's leaving, on average over all barriers.
fn completion_ns(world: &World, dsm: &Dsm<'_>) -> Result<f64> {
    let times = dsm.barrier_times();
    let entered = times.iter().map(|time| time.entered_ns);
    let mut all: Vec<u64> = entered.chain(times.iter().map(|time| time.left_ns)).collect();
    world.all_reduce(&mut all, u64::max)?;
    let (entered, left) = all.split_at(all.len() / 2);
    let sum: u64 =
        entered.iter().zip(left).map(|(entered, left)| left.saturating_sub(*entered)).sum();
    Ok(sum as f64 / entered.len().max(1) as f64)
}

impl Options {
    /// Refuses a problem that the program does not have, without running it.
    pub fn check(&self) -> Result<()> {
        self.kernel().map(drop)
    }

    fn kernel(&self) -> Result<Box<dyn Kernel>> {
        let (size, iterations) = (&self.size[..], self.iterations);
        if iterations == 0 {
            return Err(Error::InvalidArgument("--iterations 0: at least 1 is needed".into()));
        }
        // A copy for each rank is what the paper measured, and so is its program.
        let is_published = self.copies == Copies::Rank;
        Ok(match self.program {
            Program::Fft3d => Box::new(fft3d::Fft3d::new(size, iterations)?),
            Program::Barnes | Program::BarnesZones => {
                let has_zones = self.program == Program::BarnesZones;
                Box::new(barnes::Barnes::new(size, iterations, has_zones, is_published)?)
            }
            Program::Sor => Box::new(sor::Sor::new(size, iterations)?),
            Program::Jacobi => Box::new(jacobi::Jacobi::new(size, iterations, is_published)?),
            Program::Tsp => Box::new(tsp::Tsp::new(size, iterations)?),
        })
    }

    fn config(&self, world: &World, bytes: u64) -> Config {
        let usual = Config::new(bytes);
        Config {
            barrier: self.barrier,
            start: self.start,
            // A fiber has no page faults of its own.
            access: self.access.unwrap_or(if is_virtual(world) {
                Access::Explicit
            } else {
                usual.access
            }),
            copies: self.copies,
            diffs: self.diffs,
            fetch: self.fetch,
            storage_limit: self.storage_limit.unwrap_or(usual.storage_limit),
            check_races: self.check_races,
            check_loads: self.check_loads,
            time_barriers: true,
            locks: 4,
            ..usual
        }
    }
}

pub(crate) fn app(world: &World, program: Program, arguments: &[String]) -> Result<()> {
    let options = Options::parse(program, arguments)?;
    let outcome = run(world, &options)?;
    if world.rank().0 == 0 {
        report(&options, &outcome)?;
    }
    Ok(())
}

pub(crate) fn check(program: Program, arguments: &[String]) -> Result<()> {
    Options::parse(program, arguments)?.check()
}

fn report(options: &Options, outcome: &Outcome) -> Result<()> {
    let done = &outcome.statistics;
    let size: Vec<String> = options.size.iter().map(usize::to_string).collect();
    say(format_args!(
        "{} {} x {} iterations, {} ranks, barrier {}, start {}, access {}, copies {}, diffs {}",
        options.program.name(),
        size.join("x"),
        options.iterations,
        outcome.ranks,
        options.barrier.name(),
        options.start.name(),
        outcome.access,
        outcome.kind.0.name(),
        outcome.kind.1.name()
    ))?;
    let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    let (time, whole) = (ms(outcome.timed.ns), ms(outcome.whole_ns));
    say(format_args!("  time         {time}, {whole} with allocation and first values"))?;
    if let (Some(times), Some(base)) = (outcome.speedup(), outcome.base) {
        say(format_args!(
            "  speed-up     {times:.2} ({} by one rank in its own memory, the iterations alone as \
             well; medians of {}, in turns)",
            ms(base.ns),
            options.turns.max(1)
        ))?;
    }
    if outcome.difference.is_some() {
        say(format_args!("  result       the same as that of the sequential run"))?;
        options.plot.iter().try_for_each(|path| say(format_args!("  picture      {path}")))?;
    }
    say(format_args!(
        "  barriers     {} of {:.3} ms, {:.3} ms of that after the last rank arrived",
        done.barriers / u64::from(outcome.ranks),
        outcome.barrier_ns() / 1e6,
        outcome.completion_ns / 1e6
    ))?;
    say(format_args!("  locks        {}", done.locks))?;
    say(format_args!("  faults       {} reads, {} writes", done.read_faults, done.write_faults))?;
    say(format_args!("  twins        {}", done.twins))?;
    say(format_args!(
        "  diffs        {} made, {} applied, {} bytes",
        done.diffs_made, done.diffs_applied, done.diff_bytes
    ))?;
    say(format_args!("  cold misses  {}", done.cold_misses))?;
    say(format_args!(
        "  messages     {} with {} bytes, {} sent again",
        done.messages, done.bytes, done.retransmitted
    ))?;
    say(format_args!(
        "  prefetched   {} pages, {} used, {} wasted; {} came with barriers",
        done.prefetched, done.prefetches_used, done.prefetches_wasted, done.pushed
    ))?;
    say(format_args!(
        "  storage      {} bytes at most, reclaimed {} times",
        done.storage_peak, done.reclaims
    ))?;
    if options.stats { outcome.arrays.iter().try_for_each(report_array) } else { Ok(()) }
}

/// Says what was done with an array, and what could be done about it.
fn report_array(array: &ArrayStatistics) -> Result<()> {
    say(format_args!(
        "  array        at byte {}, {} bytes: {} read faults, {} write faults, {} twins",
        array.offset, array.bytes, array.read_faults, array.write_faults, array.twins
    ))?;
    say(format_args!(
        "               {} diffs wanted and {} unwanted, {} applied",
        array.diffs_wanted,
        array.diffs_made.saturating_sub(array.diffs_wanted),
        array.diffs_applied
    ))?;
    array.advice().iter().try_for_each(|advice| say(format_args!("               {advice}")))
}

//! Programs on shared memory: 3D-FFT, Barnes-Hut, SOR and Jacobi as in \[BST97\], and a work queue.
//!
//! Each is an ordinary shared-memory program: ranks read what they need, write what is theirs, and
//! meet. What comes out is compared with a sequential run.

mod barnes;
mod fft3d;
mod jacobi;
mod options;
mod picture;
mod sor;
mod tsp;

use std::io::Write;
use std::ops::Range;

use farside::dsm::{Access, ArrayStatistics, Config, Copies, Diffs, Dsm, Statistics};
use farside::fabric::SegmentId;
use farside::{Error, Result, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::output::{check_target, say};

pub(crate) use options::help;
pub use options::{Options, Program};

/// What a program needs of the machine.
pub(crate) struct Machine<'a, 'w> {
    pub(crate) dsm: &'a mut Dsm<'w>,
    flop_ns: f64,
}

impl Machine<'_, '_> {
    /// Stands for so many operations on numbers where computing takes no time by itself: in virtual
    /// time.
    pub(crate) fn computes(&self, operations: usize) {
        let ns = (operations as f64 * self.flop_ns) as u64;
        if ns > 0 {
            self.dsm.world().work(ns);
        }
    }

    /// This rank's part of so many things.
    pub(crate) fn part(&self, count: usize) -> Range<usize> {
        part(count, self.dsm.world().rank().index(), self.dsm.world().size() as usize)
    }
}

/// The part of a rank when things are dealt out as evenly as can be.
pub(crate) fn part(count: usize, rank: usize, ranks: usize) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// A program on shared memory.
pub(crate) trait Kernel {
    /// How much shared memory it needs.
    fn bytes(&self) -> u64;
    /// Runs it, as one of the ranks. Afterwards the last barrier has been passed.
    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()>;
    /// All that it has computed, read from shared memory.
    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>>;
    /// The same, computed by one rank in its own memory.
    fn sequential(&self) -> Vec<f64>;
    /// A picture of what has come out, as SVG.
    fn picture(&self, result: &[f64]) -> String;
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How long the slowest rank took.
    pub ns: u64,
    /// How long one rank alone takes in its own memory, if that was measured.
    pub sequential_ns: Option<u64>,
    /// What all ranks did together.
    pub statistics: Statistics,
    /// How many ranks there were.
    pub ranks: u32,
    /// The greatest difference from the sequential result, if they were compared.
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
}

/// Runs a program. Collective; rank 0 compares the result with a sequential run, and everybody
/// fails if they differ.
pub fn run(world: &World, options: &Options) -> Result<Outcome> {
    let mut kernel = options.kernel()?;
    if let Some(path) = options.plot.as_ref().filter(|_| world.rank().0 == 0) {
        check_target(path.as_ref()).map_err(|error| unwritten(path, &error))?;
    }
    world.set_prices(options.prices);
    let mut dsm = Dsm::new(world, options.config(world, kernel.bytes()))?;
    world.barrier()?;
    let begin_ns = world.now_ns();
    kernel.run(&mut Machine { dsm: &mut dsm, flop_ns: options.flop_ns })?;
    let ns = world.now_ns() - begin_ns;
    let mut outcome = gather(world, &dsm, ns)?;
    let mut says = [0.0f64; 2];
    if world.rank().0 == 0 && options.verify {
        let result = kernel.result(&dsm)?;
        dsm.check()?;
        let begin_ns = world.now_ns();
        let expected = kernel.sequential();
        says = [difference(&result, &expected), (world.now_ns() - begin_ns) as f64];
        if let Some(path) = &options.plot {
            std::fs::write(path, kernel.picture(&result))
                .map_err(|error| unwritten(path, &error))?;
        }
    }
    if options.verify {
        world.broadcast(farside::Rank(0), &mut says)?;
        if says[0] != 0.0 {
            return Err(Error::Program(format!(
                "{} on {} ranks differs from the sequential run by {:e}",
                options.program.name(),
                world.size(),
                says[0]
            )));
        }
        outcome.difference = Some(says[0]);
        outcome.sequential_ns = Some(says[1] as u64).filter(|&ns| ns > 0);
    }
    dsm.close()?;
    Ok(outcome)
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

/// The time and the statistics of one rank, or of all.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Done {
    ns: u64,
    statistics: Statistics,
}

fn gather(world: &World, dsm: &Dsm<'_>, ns: u64) -> Result<Outcome> {
    let mut races = [dsm.races().len() as u64];
    world.all_reduce(&mut races, |a, b| a + b)?;
    for race in dsm.races() {
        // If standard error is closed, the number of races still tells.
        let _ = writeln!(std::io::stderr(), "race: {race}");
    }
    let mut all = [Done { ns, statistics: dsm.statistics() }];
    world.all_reduce(&mut all, |a, b| Done {
        ns: a.ns.max(b.ns),
        statistics: a.statistics.and(b.statistics),
    })?;
    let [Done { ns, statistics }] = all;
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
        ns,
        sequential_ns: None,
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
        let is_simulated = world.job().caps.name == "sim";
        Config {
            barrier: self.barrier,
            start: self.start,
            // A fiber has no page faults of its own.
            access: self.access.unwrap_or(if is_simulated {
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

/// Runs a program of `farside app`.
pub(crate) fn app(world: &World, program: Program, arguments: &[String]) -> Result<()> {
    let options = Options::parse(program, arguments)?;
    let outcome = run(world, &options)?;
    if world.rank().0 == 0 {
        report(&options, &outcome)?;
    }
    Ok(())
}

/// Refuses arguments that [`app`] would refuse.
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
    say(format_args!("  time         {:.3} ms", outcome.ns as f64 / 1e6))?;
    if let Some(sequential_ns) = outcome.sequential_ns {
        let times = sequential_ns as f64 / outcome.ns.max(1) as f64;
        say(format_args!(
            "  speed-up     {times:.2} ({:.3} ms by one rank in its own memory)",
            sequential_ns as f64 / 1e6
        ))?;
    }
    if outcome.difference.is_some() {
        say(format_args!("  result       the same as that of the sequential run"))?;
        options.plot.iter().try_for_each(|path| say(format_args!("  picture      {path}")))?;
    }
    say(format_args!(
        "  barriers     {} of {:.3} ms, {:.3} ms of them when the last rank has come",
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

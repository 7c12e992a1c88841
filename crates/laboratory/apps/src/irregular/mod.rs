//! Programs of many small operations on memory of other ranks: a histogram, a gather, the
//! transposition of a sparse matrix, and a topological sort, as in the suite bale. Each by an
//! aggregator and, where that is as short, one by one; each result is checked.

mod matrix;
mod tables;

use std::time::Instant;

use farside::{Error, Rank, Result, World};
use farside_fabric::random::SplitMix;

use crate::output::say;

/// How many operations each rank does, if it is not said.
pub const OPERATIONS: u64 = 1 << 20;
/// The fewest that make a matrix.
pub const OPERATIONS_MIN: u64 = 64;
/// One in so many operations is done where they are done one by one, which takes longer.
const FEWER: u64 = 16;
/// The names of the programs.
pub const PROGRAMS: [&str; 4] = ["histogram", "gather", "transpose", "sort"];

/// How many operations a second all ranks have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The program.
    pub program: &'static str,
    /// In which way: `aggregated` or `single`.
    pub way: &'static str,
    /// Operations a second.
    pub per_s: f64,
}

/// Runs one of the programs, with so many operations of each rank.
pub fn measure(world: &World, program: &str, operations: u64) -> Result<Vec<Rate>> {
    match program {
        "histogram" => tables::histogram(world, operations),
        "gather" => tables::gather(world, operations),
        "transpose" => matrix::transpose(world, operations),
        "sort" => matrix::sort(world, operations),
        other => Err(Error::InvalidArgument(format!(
            "there is no program {other:?}; there are: {}",
            PROGRAMS.join(", ")
        ))),
    }
}

pub(crate) fn run(world: &World, arguments: &[String]) -> Result<()> {
    let operations = parse(arguments)?;
    for program in PROGRAMS {
        for Rate { program, way, per_s } in measure(world, program, operations)? {
            if world.rank() == Rank(0) {
                let millions = per_s / 1e6;
                say(format_args!("{program:<10} {way:<12} {millions:>9.2} million a second"))?;
            }
        }
    }
    Ok(())
}

/// How many operations.
pub(crate) fn parse(arguments: &[String]) -> Result<u64> {
    let bad = |what: &str| {
        Error::InvalidArgument(format!(
            "{what:?} is not a number of operations: one number, {OPERATIONS_MIN} or more"
        ))
    };
    let number = |text: &String| {
        let parsed = text.parse().ok().filter(|&number| number >= OPERATIONS_MIN);
        parsed.ok_or_else(|| bad(text))
    };
    match arguments {
        [] => Ok(OPERATIONS),
        [text] => number(text),
        [first, second, ..] => Err(number(first).map_or_else(|error| error, |_| bad(second))),
    }
}

pub(crate) fn help() -> String {
    format!("  OPERATIONS               of each rank [default: {OPERATIONS}]\n")
}

/// Numbers that are the same in every run.
fn numbers(world: &World, purpose: u64) -> SplitMix {
    SplitMix::new(u64::from(world.rank().0) << 32 | purpose)
}

/// The rank and the place there of element `index` of a table.
fn home(world: &World, index: u64) -> (Rank, u64) {
    let ranks = u64::from(world.size());
    (Rank((index % ranks) as u32), index / ranks)
}

fn check(is_right: bool, what: &str) -> Result<()> {
    if is_right { Ok(()) } else { Err(Error::Program(format!("{what} is wrong"))) }
}

fn sum(world: &World, number: u64) -> Result<u64> {
    let mut sum = [number];
    world.all_sum(&mut sum)?;
    Ok(sum[0])
}

/// Runs a program between two barriers.
fn timed(
    world: &World,
    (program, way): (&'static str, &'static str),
    operations: u64,
    run: impl FnOnce() -> Result<()>,
) -> Result<Rate> {
    world.barrier()?;
    let begin = Instant::now();
    run()?;
    world.barrier()?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Rate { program, way, per_s: sum(world, operations)? as f64 / seconds })
}

//! Programs under a lock that the explorer can judge, and what to expect of them.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use farside::sim::{Program, Reduction, Report, Simulation, Verdict, exhaustive, program, random, replay, simulation};
use farside::{Error, Guard, Lock, Rank, Result, World};

/// Runs of an exploration that is expected to end.
pub(crate) const ENOUGH: u64 = 3_000_000;

/// Whether to take the time for the larger explorations.
pub(crate) fn long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// How a rank asks for the lock.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Style {
    /// All wait until they have it.
    Wait,
    /// All but rank 0 take their place, and give it up again unless they have the lock at once; then they wait.
    GiveUp,
    /// All but rank 0 take their place, and go away unless they have the lock at once.
    WalkAway,
    /// All but rank 0 ask once without waiting; then they wait.
    Try,
    /// All but rank 0 wait as long as anything else happens; then they wait without a limit.
    Patient,
}

/// Asks once, and again if that was in vain.
fn ask<'a>(lock: &'a Lock, world: &'a World, style: Style) -> Result<Option<Guard<'a>>> {
    let first = match style {
        _ if world.rank() == Rank(0) => None,
        Style::Wait => None,
        Style::GiveUp | Style::WalkAway => Some(lock.lock_timeout(world, Duration::ZERO)),
        Style::Patient => Some(lock.lock_timeout(world, Duration::from_secs(1))),
        Style::Try => lock.try_lock(world)?.map(Ok),
    };
    match first {
        Some(Err(Error::TimedOut { .. })) if style == Style::WalkAway => Ok(None),
        None | Some(Err(Error::TimedOut { .. })) => lock.lock(world).map(Some),
        Some(other) => other.map(Some),
    }
}

/// Every rank counts up a word under the lock, not atomically. Nobody may meet another inside, and no count may be lost.
pub(crate) fn counting(make: impl Fn(&World) -> Result<Lock> + 'static, rounds: u64, style: Style) -> Program {
    counting_in_order(make, rounds, style, 64)
}

/// The same; and nobody that waits may be bypassed more than `bound` times in a row.
pub(crate) fn counting_in_order(
    make: impl Fn(&World) -> Result<Lock> + 'static,
    rounds: u64,
    style: Style,
    bound: u64,
) -> Program {
    let inside = Rc::new(Cell::new(0));
    let at_start = inside.clone();
    let prepare = move |world: &World| {
        at_start.set(0);
        Ok((make(world)?, world.words(1)?))
    };
    program(prepare, move |world, (lock, words)| {
        // Not at the lock's home, where its own operations might order the counter's by accident.
        let count = words.at(Rank(world.size() - 1), 0);
        for _ in 0..rounds {
            let Some(guard) = ask(&lock, world, style)? else {
                continue;
            };
            inside.set(inside.get() + 1);
            let seen = world.get_value(count)?;
            if inside.get() != 1 {
                return Err(Error::Misuse(format!("{} ranks inside at a time", inside.get())));
            }
            world.put_value(seen + 1, count)?;
            inside.set(inside.get() - 1);
            guard.unlock()?;
            let ahead = lock.statistics().longest_bypass;
            if ahead > bound {
                return Err(Error::Misuse(format!("{ahead} ranks in a row were ahead of one that had waited longer")));
            }
            if world.get_value(count)? <= seen {
                return Err(Error::Misuse(format!("not counted: still {seen}")));
            }
        }
        // An agent goes with the rank it lives with.
        if ["server", "hybrid"].contains(&lock.name()) { world.barrier() } else { Ok(()) }
    })
}

fn simulated(ranks: u32, topology: &str) -> Simulation {
    simulation(ranks, Some(topology)).expect("a simulation")
}

/// Every schedule of the program passes.
pub(crate) fn passes(name: &str, ranks: u32, topology: &str, program: &Program) -> Report {
    let report = exhaustive(&simulated(ranks, topology), program, Reduction::Sources, ENOUGH);
    println!(
        "{name}, {ranks} ranks on {topology}: {} runs, {} pruned, {} steps",
        report.runs, report.pruned, report.steps
    );
    let failure = report.failure.as_ref().map(|failure| (&failure.problem, &failure.schedule));
    assert_eq!(failure, None, "{name}");
    assert!(report.complete, "{name}: does not end");
    report
}

/// So many random schedules of the program pass.
pub(crate) fn passes_at_random(name: &str, ranks: u32, topology: &str, program: &Program, runs: u64) {
    let report = random(&simulated(ranks, topology), program, 0x5eed, runs);
    println!("{name}, {ranks} ranks on {topology}: {} random runs, {} steps", report.runs, report.steps);
    let failure = report.failure.as_ref().map(|failure| (&failure.problem, &failure.schedule));
    assert_eq!(failure, None, "{name}");
}

/// A wrong program is caught, and its schedule shows the same problem again.
pub(crate) fn is_caught(ranks: u32, topology: &str, program: &Program, problem: &str) {
    let simulation = simulated(ranks, topology);
    let report = exhaustive(&simulation, program, Reduction::Sources, ENOUGH);
    let failure = report.failure.as_ref().expect("the mutant is caught");
    assert!(failure.problem.contains(problem), "{}", failure.problem);
    is_seen_again(&simulation, program, &report);
}

/// The same, where the schedules are too many to try them one after the other.
pub(crate) fn is_caught_at_random(ranks: u32, topology: &str, program: &Program, runs: u64) {
    let simulation = simulated(ranks, topology);
    is_seen_again(&simulation, program, &random(&simulation, program, 0x5eed, runs));
}

fn is_seen_again(simulation: &Simulation, program: &Program, report: &Report) {
    let failure = report.failure.clone().expect("the mutant is caught");
    println!("caught after {} runs: {}; schedule {}", report.runs, failure.problem, failure.schedule);
    let again = replay(simulation, program, &failure.schedule).expect("the schedule can be read");
    assert_eq!(again.verdict, Verdict::Failed(failure.problem));
}

//! Simulated jobs, on one thread: in virtual time, thousands of ranks; or every schedule of a few.
//!
//! [`run`] measures a program on a machine that is described by a [`Profile`]; the rest of this
//! page is about checking.
//!
//! The code that is explored is the code that runs: a program is the same function of a [`World`]
//! on every fabric. `docs/checking.md` tells how to check a protocol; with [`Simulation::deaths`]
//! ranks may die in it, and with [`Simulation::torn`] long transfers are torn.
//!
//! ```
//! use farside::sim::{Reduction, exhaustive, program, simulation};
//! use farside::Rank;
//!
//! // Two ranks count up a word that nobody protects.
//! let racy = program(|world| world.words(1), |world, words| {
//!     let count = words.at(Rank(0), 0);
//!     let seen = world.get_value(count)?;
//!     world.put_value(seen + 1, count)?;
//!     world.sync()?;
//!     let all = world.get_value(count)?;
//!     if all == 2 { Ok(()) } else { Err(farside::Error::Program(format!("{all} of 2 counted"))) }
//! });
//! let report = exhaustive(&simulation(2, None)?, &racy, Reduction::Sources, 10_000);
//! assert!(report.failure.unwrap().problem.contains("1 of 2 counted"));
//! # Ok::<(), farside::Error>(())
//! ```

mod timed;

use std::rc::Rc;

use farside_fabric::omitting::Omitting;
use farside_fabric::{Result, Topology, probe};
use farside_rma::{World, root_bytes};

pub use farside_sim::explore::{
    Failure, NOT_COVERED, Policy, Progress, Reduction, Report, every_run, exhaustive, explore,
    final_states, random, replay,
};
pub use farside_sim::{
    Event, Profile, Program, Resent, Run, Simulation, Start, Step, Timing, Unseen, Verdict, What,
    profile,
};
pub use timed::{Outcome, Virtual, run};

/// A simulated job of so many ranks, arranged as described (such as `node:2`), or all on one node.
pub fn simulation(ranks: u32, topology: Option<&str>) -> Result<Simulation> {
    let topology = match topology {
        Some(description) => Topology::parse(description, ranks)?,
        None => Topology::parse("node:1", ranks)?,
    };
    Ok(Simulation::new(topology, root_bytes(ranks)))
}

/// A program all of which is explored.
pub fn whole_program(run: impl Fn(&World) -> Result<()> + 'static) -> Program {
    Rc::new(move |fabric, start| {
        start.prepared();
        judged(World::new(fabric).and_then(|world| run(&world)), start)
    })
}

/// The same program with a step of the library's protocols left out, for tests of what explores
/// them: it must be caught.
pub fn omitting(step: probe::Step, program: Program) -> Program {
    Rc::new(move |fabric, start| program(Omitting::over(fabric, step), start))
}

/// Judges how a rank ended. Where ranks may die, survivors may end with errors of the loss, and
/// with no other.
pub(crate) fn judged(result: Result<()>, start: &Start) -> Result<(), String> {
    match result {
        Err(error) if start.losses() == 0 || !error.class().is_failure_of_others() => {
            Err(error.to_string())
        }
        _ => Ok(()),
    }
}

/// A program that says itself when its preparations, which are not explored, are over.
pub fn staged(run: impl Fn(&World, &dyn Fn()) -> Result<()> + 'static) -> Program {
    Rc::new(move |fabric, start| {
        judged(World::new(fabric).and_then(|world| run(&world, &|| start.prepared())), start)
    })
}

/// A program: `prepare` is not explored, `body` is.
pub fn program<S: 'static>(
    prepare: impl Fn(&World) -> Result<S> + 'static,
    body: impl Fn(&World, S) -> Result<()> + 'static,
) -> Program {
    Rc::new(move |fabric, start| {
        let run = || {
            let world = World::new(fabric)?;
            let state = prepare(&world)?;
            start.prepared();
            body(&world, state)
        };
        judged(run(), start)
    })
}

//! What the tests of this crate have in common: ranks of every kind, a deadline, numbers.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::{Arc, mpsc};
use std::time::Duration;

use farside::fabric::counting::Counts;
use farside::sim::{random, simulation, whole_program};
use farside::{Error, Local, Result, World};

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// An assertion that is an error of the rank instead of a panic, so that the other ranks hear of
/// it.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Program(format!("test failed: {}", what()))) }
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// Runs `job`, and ends the whole process if it hangs.
pub(crate) fn within_deadline<T: Send + 'static>(
    deadline: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        let result = job();
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(());
        result
    });
    if receiver.recv_timeout(deadline) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{}: hangs", std::thread::current().name().unwrap_or("a test"));
        std::process::abort();
    }
    runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Threads, threads on pretended nodes and on nodes that reach each other over UDP, threads that
/// reach nothing but through the fabric, and simulated ranks on one node and on two.
pub(crate) fn on_every_fabric(test: impl Fn(&World) -> Result<()> + Send + Sync + 'static) {
    let test = Arc::new(test);
    let local = |ranks| Local::new(ranks).expect("the environment is in order");
    let counts = Counts::new(4);
    let kinds: [(&str, Local); 5] = [
        ("one thread", local(1)),
        ("threads", local(4).cores(2)),
        ("threads on two nodes", local(5).topology("node:2")),
        ("threads on two nodes over UDP", local(4).nodes(2)),
        ("observed threads", local(4).decorate(move |fabric| counts.over(fabric))),
    ];
    for (kind, local) in kinds {
        let test = test.clone();
        within_deadline(DEADLINE, move || local.run(|world| test(world)))
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
    for (ranks, topology) in [(3, None), (4, Some("node:2"))] {
        let test = test.clone();
        within_deadline(DEADLINE, move || simulated(ranks, topology, move |world| test(world)));
    }
}

/// Simulated ranks, in one random schedule.
pub(crate) fn simulated(
    ranks: u32,
    topology: Option<&str>,
    test: impl Fn(&World) -> Result<()> + 'static,
) {
    let simulation =
        simulation(ranks, topology).expect("the topology is in order").steps_max(20_000_000);
    let report = random(&simulation, &whole_program(move |world| test(world)), 7, 1);
    assert_eq!(
        report.failure.map(|failure| failure.problem),
        None,
        "simulated, {ranks} ranks on {topology:?}"
    );
}

#[allow(unused_imports, reason = "each test file uses some of it")]
pub(crate) use farside_fabric::random::SplitMix as Numbers;

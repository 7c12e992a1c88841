//! Children that a rank forks: they are not the rank, and their end means nothing to the job.

use farside_conformance::DEADLINE;
use farside_fabric::{Rank, Result};
use farside_job::{Kind, Options};
use farside_launch::Launch;

/// Set for the processes that are the program.
const PROGRAM: &str = "FARSIDE_TEST_FORKS";
const NAME: &str = "a_child_that_returns_from_main_is_not_the_rank";

/// Each rank forks a child, which returns; the others wait in a barrier meanwhile.
fn program() -> Result<()> {
    let world = farside_job::join()?;
    let window = world.window::<u64>(2)?;
    let (me, other) = (world.rank(), Rank(1 - world.rank().0));
    for forker in [0, 1] {
        if me.0 == forker {
            // SAFETY: the child returns, as programs do, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                return Ok(());
            }
            let mut status = -1;
            // SAFETY: waits for a child of this process.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((ended, status), (child, 0), "the child ends in order");
            world.put_value(7, window.at(other, forker as usize))?;
        }
        world.sync()?;
        assert!(me.0 == forker || window.own().get(forker as usize)? == 7);
    }
    window.free(&world)
}

fn run(change: impl FnOnce(&mut Options)) {
    let test = std::env::current_exe().expect("a test knows its own program");
    let launch = Launch::new(test, 2).expect("the environment is in order").options(change);
    let launch = launch.arguments(["--exact", NAME, "--nocapture"]).variable(PROGRAM, "1");
    let report = launch.timeout(DEADLINE).run().expect("the job starts");
    assert!(!report.timed_out && report.status == 0, "{:?}", report.failures);
}

#[test]
fn a_child_that_returns_from_main_is_not_the_rank() {
    if std::env::var_os(PROGRAM).is_some() {
        let status = program().map_or_else(
            |error| {
                eprintln!("{error}");
                1
            },
            |()| 0,
        );
        std::process::exit(status);
    }
    run(|_| ());
    run(|options| (options.fabric, options.nodes) = (Kind::Nic, Some(2)));
}

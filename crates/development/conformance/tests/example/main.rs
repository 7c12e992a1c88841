//! The suite over the fabric of `docs/adding-a-fabric.md`, four threads as ranks.

mod fabric;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use fabric::Job;
use farside::{ExitCause, Rank, Result, World};
use farside_conformance::{DEADLINE, for_each_test, test};

const RANKS: u32 = 4;

/// Runs a test on all ranks, and ends the whole process if it hangs.
fn run(name: &'static str) {
    let program = test(name).expect("the test exists");
    let job = Job::new(RANKS, farside_rma::root_bytes(RANKS));
    let (over, finished) = mpsc::channel::<()>();
    let rank = |job: Arc<Job>, rank: Rank| {
        let over = over.clone();
        std::thread::spawn(move || -> Result<()> {
            let _over = over;
            let run = || program(&World::new(Box::new(job.join(rank)?))?);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(done) => done.inspect_err(|_| job.depart(rank, Some(ExitCause::Failed))),
                Err(panic) => {
                    job.depart(rank, Some(ExitCause::Panicked));
                    std::panic::resume_unwind(panic)
                }
            }
        })
    };
    let ranks: Vec<_> = (0..RANKS).map(|number| rank(job.clone(), Rank(number))).collect();
    drop(over);
    // Each rank holds a sender until it is over, and none ever sends.
    if finished.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: hangs");
        std::process::abort();
    }
    for (number, rank) in ranks.into_iter().enumerate() {
        match rank.join() {
            Ok(done) => done.unwrap_or_else(|error| panic!("{name}: rank {number}: {error}")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

macro_rules! cases {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)) })* };
}
for_each_test!(cases);

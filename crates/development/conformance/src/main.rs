//! Runs one test of the suite as a rank of a job: `farside run -n 4 farside-conformance NAME`.
//!
//! With `__node` it is the daemon of a host, so that the suite needs no other program there. With
//! `churn-KIND` it works until a rank dies; see [`farside_conformance::churn`]. With `heirs-KIND`
//! it goes on without the rank whose process ran handlers; see [`farside_conformance::heirs`].

use std::process::ExitCode;

use farside_conformance::test;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        eprintln!("usage: farside-conformance TEST");
        return ExitCode::FAILURE;
    };
    if name == "__node" {
        return farside_launch::node().map_or(ExitCode::FAILURE, ExitCode::from);
    }
    if name == "__keep" {
        return farside_launch::reap().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let Some(kind) = name.strip_prefix("churn-") {
        return farside_conformance::churn::run(kind);
    }
    if let Some(kind) = name.strip_prefix("heirs-") {
        return farside_conformance::heirs::run(kind);
    }
    let Some(run) = test(&name) else {
        eprintln!("there is no test {name:?}");
        return ExitCode::FAILURE;
    };
    match farside::join().and_then(|world| run(&world)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

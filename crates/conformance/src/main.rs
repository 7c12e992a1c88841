//! Runs one test of the suite as a rank of a job: `farside run -n 4 farside-conformance NAME`.

use std::process::ExitCode;

use farside_conformance::test;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        eprintln!("usage: farside-conformance TEST");
        return ExitCode::FAILURE;
    };
    let Some(run) = test(&name) else {
        eprintln!("there is no test {name:?}");
        return ExitCode::FAILURE;
    };
    match farside::join().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

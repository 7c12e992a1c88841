//! The suite with process ranks.

use farside_conformance::{DEADLINE, for_each_test};
use farside_launch::Launch;

fn run(name: &str) {
    let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), 4).expect("the environment is in order");
    let report = launch.argument(name).timeout(DEADLINE).run().expect("the job starts");
    assert!(!report.timed_out, "{name}: hangs");
    assert_eq!(report.status, 0, "{name}: {:?}", report.failures);
}

mod processes {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)) })* };
    }
    for_each_test!(cases);
}

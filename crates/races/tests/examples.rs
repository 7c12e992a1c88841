//! The examples of the facade have no races.

use std::path::PathBuf;
use std::time::Duration;

use farside_launch::Launch;
use farside_races::{Checker, VARIABLE};

/// Returns an example that cargo has built beside this test, if it has.
fn example(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().expect("a test knows its own program");
    let path = own.parent()?.parent()?.join("examples").join(name);
    path.exists().then_some(path)
}

#[test]
fn the_examples_have_no_races() {
    for name in ["ring", "halo"] {
        let Some(path) = example(name) else {
            println!("SKIPPED: {name} was not built: cargo build -p farside --examples");
            continue;
        };
        let checker = Checker::create(4, false).expect("there is memory");
        let memory = checker.path().expect("it has a file");
        let launch = Launch::new(path, 4).expect("the environment is in order");
        let launch = launch.variable(VARIABLE, memory).timeout(Duration::from_secs(60));
        let ended = launch.run().expect("the job starts");
        assert_eq!(ended.status, 0, "{name}: {:?}", ended.failures);
        let report = checker.report();
        assert!(report.races.is_empty(), "{name}: {report}");
    }
}

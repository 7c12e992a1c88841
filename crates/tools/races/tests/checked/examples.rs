//! The examples of the facade have no races.

use std::path::PathBuf;
use std::time::Duration;

use farside_launch::Launch;
use farside_races::{Checker, Report, VARIABLE};

const DEADLINE: Duration = Duration::from_secs(60);

/// Returns an example that cargo has built beside this test, if it has.
fn example(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().expect("a test knows its own program");
    let path = own.parent()?.parent()?.join("examples").join(name);
    path.exists().then_some(path)
}

/// The examples that are jobs and end: `sick` hangs by intent, and `scale` runs in virtual time.
const EXAMPLES: [&str; 3] = ["ring", "halo", "queue"];

fn checked(path: PathBuf, arguments: &[&str]) -> Report {
    let checker = Checker::create(4, false).expect("there is memory");
    let memory = checker.path().expect("it has a file");
    let launch = Launch::new(&path, 4).expect("the environment is in order");
    let launch = launch.arguments(arguments).variable(VARIABLE, memory).timeout(DEADLINE);
    let ended = launch.run().expect("the job starts");
    assert_eq!(ended.status, 0, "{}: {:?}", path.display(), ended.failures);
    checker.report()
}

#[test]
fn the_examples_have_no_races() {
    for name in EXAMPLES {
        let Some(path) = example(name) else {
            println!("SKIPPED: {name} was not built: cargo build -p farside --examples");
            continue;
        };
        let report = checked(path, &[]);
        assert!(report.races.is_empty(), "{name}: {report}");
    }
}

#[test]
fn an_example_that_is_hasty_has_one() {
    let Some(path) = example("queue") else {
        println!("SKIPPED: queue was not built: cargo build -p farside --examples");
        return;
    };
    let report = checked(path, &["hasty"]);
    assert!(!report.races.is_empty(), "{report}");
}

//! Every check, within a small budget.

use farside::sim::{Policy, Progress, Verdict};
use farside_check::{Check, Outcome, checks};

/// Runs of each check; all of them that are exhaustive end before that, except some of locks, maps and epochs.
const RUNS: u64 = 40_000;
/// Steps of each check of a lock, a map or an epoch. `farside check` takes the time for the rest, and so does a long run of the tests.
const STEPS: u64 = 40_000;

fn is_lock(check: &Check) -> bool {
    ["epoch/", "lock/", "map/", "rw/"].iter().any(|family| check.name.starts_with(family))
}

fn has_named_test(check: &Check) -> bool {
    is_lock(check) || check.name.starts_with("dsm/")
}

fn run(check: &Check) {
    let is_quick = is_lock(check) && std::env::var_os("FARSIDE_LONG").is_none();
    let (runs, steps) = match (is_lock(check), is_quick) {
        (false, _) => (RUNS, u64::MAX),
        (true, false) => (u64::MAX, u64::MAX),
        (true, true) => (u64::MAX, STEPS),
    };
    let mut go_on = |progress: &Progress| progress.runs < runs.min(check.runs_max) && progress.steps < steps;
    let finding = check.run(&check.setup, check.policy, 0, &mut go_on);
    let finding = finding.expect("the job can be simulated");
    let report = &finding.report;
    println!(
        "{}: {:?}, {} runs, {} pruned, {} steps",
        check.name, finding.outcome, report.runs, report.pruned, report.steps
    );
    let exhaustive = matches!(check.policy, Policy::Exhaustive(_)) && (!is_quick || report.complete);
    let expected = match (check.is_mutant(), exhaustive) {
        (true, _) => Outcome::Caught,
        (false, true) => Outcome::Passed,
        (false, false) => Outcome::NothingFound,
    };
    assert_eq!(finding.outcome, expected, "{}: {finding:?}", check.name);
    if let Some(failure) = &report.failure {
        let again = check.replay(&check.setup, &failure.schedule).expect("the schedule can be read");
        match again.verdict {
            Verdict::Failed(problem) => assert_eq!(problem, failure.problem, "{}", check.name),
            Verdict::TooLong => assert!(failure.problem.starts_with("no end")),
            other => panic!("{}: {other:?}", check.name),
        }
    }
}

/// Each family in a test of its own, so that they take turns on all processors.
macro_rules! families {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            let family = format!("{}/", stringify!($name));
            let all = checks();
            let of_family = all.iter().filter(|check| check.name.starts_with(&family));
            // These have tests of their own, which the headers of the protocols name.
            of_family.filter(|check| !(has_named_test(check) && check.is_mutant())).for_each(run);
        }
    )* };
}
families!(barrier collective death dsm epoch example litmus lock map object rw sync);

#[test]
fn every_check_belongs_to_a_family_and_has_a_name_of_its_own() {
    let names: Vec<&str> = checks().iter().map(|check| check.name).collect();
    let families = [
        "barrier/",
        "collective/",
        "death/",
        "dsm/",
        "epoch/",
        "example/",
        "litmus/",
        "lock/",
        "map/",
        "object/",
        "rw/",
        "sync/",
    ];
    for (at, name) in names.iter().enumerate() {
        assert!(families.iter().any(|family| name.starts_with(family)), "{name}");
        assert!(!names[..at].contains(name), "{name} comes twice");
    }
}

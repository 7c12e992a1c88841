//! Every check, within a small budget.

use farside::sim::{Policy, Verdict};
use farside_check::{Check, Outcome, checks};

/// Runs of each check; all of them that are exhaustive end before that.
const RUNS: u64 = 40_000;

fn run(check: &Check) {
    let finding = check.run(&check.setup, check.policy, 0, &mut |progress| progress.runs < RUNS.min(check.runs_max));
    let finding = finding.expect("the job can be simulated");
    let report = &finding.report;
    println!(
        "{}: {:?}, {} runs, {} pruned, {} steps",
        check.name, finding.outcome, report.runs, report.pruned, report.steps
    );
    let exhaustive = matches!(check.policy, Policy::Exhaustive(_));
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
            checks().iter().filter(|check| check.name.starts_with(&family)).for_each(run);
        }
    )* };
}
families!(barrier collective death litmus lock object sync);

#[test]
fn every_check_belongs_to_a_family_and_has_a_name_of_its_own() {
    let names: Vec<&str> = checks().iter().map(|check| check.name).collect();
    let families = ["barrier/", "collective/", "death/", "litmus/", "lock/", "object/", "sync/"];
    for (at, name) in names.iter().enumerate() {
        assert!(families.iter().any(|family| name.starts_with(family)), "{name}");
        assert!(!names[..at].contains(name), "{name} comes twice");
    }
}

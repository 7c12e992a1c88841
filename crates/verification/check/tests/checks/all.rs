//! Every check, with smaller budgets than `farside check` has.
//!
//! All limits are counts, of steps or of schedules: on a busy machine a test takes longer, and
//! tests the same.

use farside::sim::Verdict;
use farside_check::{Budget, Check, Outcome, checks};

/// Steps of an exhaustive check without `FARSIDE_LONG`. One in eight has more; they take longer
/// than all others together, so that only a beginning of them is tried. `farside check` and the
/// nightly run try all.
const BEGINNING_STEPS: u64 = 60_000;
/// The names of these. One that is not among them has grown, and needs a smaller job.
const LONG: &str = include_str!("long.txt");
/// Schedules of a check that tries random ones.
const SCHEDULES: u64 = 100;
/// Steps of a check that tries random ones: those of many ranks are long.
const SAMPLED_STEPS: u64 = 50_000;

fn has_named_test(check: &Check) -> bool {
    ["dsm/", "epoch/", "lock/", "map/", "rw/"].iter().any(|family| check.name.starts_with(family))
}

/// With `FARSIDE_LONG` set, as `farside check` does it.
fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

fn run(check: &Check) {
    let (is_long, may_fail) = (is_long(), check.expects_failure());
    let setup = check.small.as_ref().filter(|_| !is_long).unwrap_or(&check.setup);
    let budget = match (is_long || may_fail, check.is_exhaustive()) {
        (true, _) => check.budget(),
        (false, true) => Budget::steps(BEGINNING_STEPS),
        (false, false) => {
            let schedules = check.schedules.map(|schedules| schedules.min(SCHEDULES));
            Budget { schedules, steps: Some(SAMPLED_STEPS), time: None }
        }
    };
    let finding = check.run(setup, check.policy, 0, &budget, &mut |_| ());
    let finding = finding.expect("the job can be simulated");
    let report = &finding.report;
    println!(
        "{}: {}, {} runs, {} pruned, {} steps",
        check.name, finding.outcome, report.runs, report.pruned, report.steps
    );
    let is_expected = match finding.outcome {
        // Shared pages are used as memory, which cannot be followed.
        Outcome::Partial => check.name.starts_with("dsm/") && check.is_exhaustive(),
        Outcome::Exhaustive => check.is_exhaustive(),
        Outcome::Bounded if check.is_exhaustive() => {
            !is_long && LONG.lines().any(|name| name == check.name)
        }
        Outcome::Bounded => true,
        Outcome::Sampled => !check.is_exhaustive(),
        Outcome::Caught | Outcome::Shown => may_fail,
        Outcome::Failed | Outcome::Survived => false,
    };
    assert!(is_expected, "{}: {}: {:?}", check.name, finding.outcome, finding.problem);
    if let Some(failure) = &report.failure {
        let again = check.replay(setup, &failure.schedule).expect("the schedule can be read");
        match again.verdict {
            Verdict::Failed(problem) => assert_eq!(problem, failure.problem, "{}", check.name),
            Verdict::TooLong => assert!(failure.problem.starts_with("no end")),
            other => panic!("{}: {other:?}", check.name),
        }
    }
}

/// Each family in tests of its own, the large ones in several, so that they take turns on all
/// processors.
macro_rules! families {
    ($($name:ident: $family:literal $($part:literal of $parts:literal)?;)*) => {
        const FAMILIES: &[&str] = &[$($family),*];
        $(
            #[test]
            fn $name() {
                let (part, parts) = (0 $(+ $part)?, 1 $(* $parts)?);
                let all = checks();
                let of_family = all.iter().filter(|check| check.name.starts_with($family));
                // These have tests of their own, which the headers of the protocols name.
                let own = of_family.filter(|check| !(has_named_test(check) && check.is_mutant()));
                own.skip(part).step_by(parts).for_each(run);
            }
        )*
    };
}
families! {
    aggregator: "aggregator/";
    barrier: "barrier/";
    collective: "collective/";
    death: "death/";
    dsm: "dsm/";
    epoch: "epoch/" 0 of 2;
    epoch_more: "epoch/" 1 of 2;
    example: "example/";
    limit: "limit/";
    litmus: "litmus/";
    lock: "lock/" 0 of 3;
    lock_more: "lock/" 1 of 3;
    lock_most: "lock/" 2 of 3;
    map: "map/";
    memory: "memory/";
    object: "object/";
    published: "published/";
    recovery: "recovery/" 0 of 2;
    recovery_more: "recovery/" 1 of 2;
    rw: "rw/" 0 of 2;
    rw_more: "rw/" 1 of 2;
    sync: "sync/";
}

#[test]
fn every_check_belongs_to_a_family_and_has_a_name_of_its_own() {
    let names: Vec<&str> = checks().iter().map(|check| check.name).collect();
    for (at, name) in names.iter().enumerate() {
        assert!(FAMILIES.iter().any(|family| name.starts_with(family)), "{name}");
        assert!(!names[..at].contains(name), "{name} comes twice");
    }
    for name in LONG.lines() {
        assert!(names.contains(&name), "{name} is gone");
    }
}

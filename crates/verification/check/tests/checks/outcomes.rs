//! A schedule that was not tried does not count as passed.

use std::time::Duration;

use farside::sim::Policy;
use farside_check::property::Promise;
use farside_check::{Budget, Check, Finding, Outcome, checks};

fn find(name: &str) -> Check {
    checks().into_iter().find(|check| check.name == name).expect("a check of that name")
}

fn run(check: &Check, policy: Policy, budget: Budget) -> Finding {
    check.run(&check.setup, policy, 0, &budget, &mut |_| ()).expect("the job can be simulated")
}

#[test]
fn a_limit_that_ends_an_exhaustive_check_is_told() {
    let check = find("example/ticket");
    let budgets = [
        Budget { schedules: Some(3), ..Budget::default() },
        Budget::steps(10),
        Budget { time: Some(Duration::ZERO), ..Budget::default() },
    ];
    for budget in budgets {
        assert_eq!(run(&check, check.policy, budget).outcome, Outcome::Bounded, "{budget:?}");
    }
    assert_eq!(run(&check, check.policy, Budget::default()).outcome, Outcome::Exhaustive);
}

#[test]
fn random_schedules_are_sampled_if_there_were_as_many_as_wanted() {
    let check = find("example/ticket");
    let ten = Budget { schedules: Some(10), ..Budget::default() };
    assert_eq!(run(&check, Policy::Random, ten).outcome, Outcome::Sampled);
    let short = Budget { time: Some(Duration::ZERO), ..ten };
    assert_eq!(run(&check, Policy::Random, short).outcome, Outcome::Bounded);
    // Without a number, the time is what was wanted.
    let timed = Budget { time: Some(Duration::ZERO), ..Budget::default() };
    assert_eq!(run(&check, Policy::Random, timed).outcome, Outcome::Sampled);
}

#[test]
fn no_check_has_a_limit_of_time() {
    for check in checks() {
        assert_eq!(check.budget().time, None, "{}", check.name);
    }
}

#[test]
#[should_panic(expected = "must say something")]
fn any_failure_at_all_catches_nothing() {
    let _ = find("example/ticket").mutant(Promise::Exclusion, " ");
}

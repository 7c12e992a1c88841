//! Stores of one rank to one word that may overtake each other: a check that allows them has them.
//! All others are explored with such stores refused, in `all.rs` and in `farside check`.

use farside_check::{Check, checks};

#[test]
fn every_reason_for_unordered_stores_is_needed() {
    let allowed = checks().into_iter().filter(|check| check.unordered.is_some());
    let names = allowed.map(|check| {
        let check = Check { unordered: None, ..check };
        let finding = check.run(&check.setup, check.policy, 0, &check.budget(), &mut |_| ());
        let problem = finding.expect("the job can be simulated").problem.unwrap_or_default();
        assert!(problem.starts_with("unordered stores"), "{}: {problem}", check.name);
        check.name
    });
    assert!(names.count() > 0);
}

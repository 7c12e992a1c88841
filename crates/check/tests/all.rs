//! Every check, within a small budget.

use farside_check::{Outcome, checks};

#[test]
fn every_check_comes_out_as_expected() {
    for check in checks() {
        let finding =
            check.run(&check.setup, check.policy, 0, &mut |progress| progress.runs < 20_000.min(check.runs_max));
        let finding = finding.expect("the job can be simulated");
        println!("{}: {:?} {} runs", check.name, finding.outcome, finding.report.runs);
        assert!(finding.outcome.is_good(), "{}: {finding:?}", check.name);
        if let (Outcome::Caught, Some(failure)) = (finding.outcome, &finding.report.failure) {
            let again = check.replay(&check.setup, &failure.schedule).expect("the schedule can be read");
            assert_eq!(again.verdict, farside::sim::Verdict::Failed(failure.problem.clone()));
        }
    }
}

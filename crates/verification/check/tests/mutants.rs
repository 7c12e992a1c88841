//! Locks, maps and shared memory that are wrong on purpose: each is caught, and what was caught can
//! be seen again. The headers of the protocols name these tests; those of locks, all of which are
//! caught by one test, name the checks.

use std::collections::BTreeSet;

use farside::sim::Verdict;
use farside_check::{Check, Outcome, Setup, checks};

/// A check is wrong on purpose, is caught, and its schedule shows the same problem again.
fn is_caught(name: &str) {
    let check =
        checks().into_iter().find(|check| check.name == name).expect("a check of that name");
    assert!(check.is_mutant(), "{name}");
    let finding = check.run(&check.setup, check.policy, 0, &check.budget(), &mut |_| ());
    let finding = finding.expect("the job can be simulated");
    assert_eq!(finding.outcome, Outcome::Caught, "{name}: {:?}", finding.problem);
    let failure = finding.report.failure.expect("a failure");
    println!("{name}: caught after {} runs: {}", finding.report.runs, failure.problem);
    let again = check.replay(&check.setup, &failure.schedule).expect("the schedule can be read");
    assert_eq!(again.verdict, Verdict::Failed(failure.problem), "{name}");
}

/// A test for each, and a list of them all.
macro_rules! caught {
    ($(fn $test:ident: $($name:literal),+;)*) => {
        const NAMED: &[&str] = &[$($($name),+),*];
        $(
            #[test]
            fn $test() {
                [$($name),+].into_iter().for_each(is_caught);
            }
        )*
    };
}

caught! {
    fn a_notice_that_is_dropped_is_caught: "dsm/drops-a-notice";
    fn diffs_that_are_applied_backwards_are_caught: "dsm/applies-backwards";
    fn a_twin_that_is_kept_is_caught: "dsm/keeps-its-twin";
    fn a_page_that_is_fetched_while_it_is_written_is_caught:
        "dsm/takes-written-pages", "dsm/demand-takes-written-pages";
    fn a_twin_from_before_a_reclaim_is_caught: "dsm/takes-old-twins";
    fn a_reclaim_that_comes_too_early_is_caught: "dsm/reclaims-too-early";
    fn a_subtree_that_gets_its_siblings_notices_is_caught: "dsm/confuses-subtrees";
    fn a_chain_that_is_cut_is_caught: "dsm/keeps-to-itself";
    fn a_barrier_of_some_that_is_not_passed_on_is_caught: "dsm/forgets-what-some-told";
    fn one_place_for_all_requests_is_caught: "dsm/uses-one-place";
    fn an_acknowledgement_that_goes_back_is_caught: "dsm/stores-taken";
    fn a_failure_that_is_kept_is_caught: "dsm/keeps-its-failure", "dsm/keeps-its-lock";
    fn a_twin_that_is_renewed_too_early_is_caught: "dsm/renews-twins-early";
    fn words_after_a_diff_that_are_lost_are_caught: "dsm/forgets-after-diff";
    fn a_chain_that_goes_on_is_caught: "dsm/keeps-chains";
    fn a_merge_over_a_neighbours_store_is_caught: "dsm/merges-pages";
    fn a_merge_beside_the_twin_is_caught: "dsm/merges-beside-twins";
    fn a_closed_page_that_is_not_told_of_is_caught: "dsm/closes-silently";
    fn a_page_that_is_closed_under_a_writer_is_caught: "dsm/closes-under-writers";
    fn a_push_over_other_words_is_caught: "dsm/pushes-over-others";
    fn a_push_after_a_gap_is_caught: "dsm/pushes-over-gaps";
    fn a_page_that_is_opened_blindly_is_caught: "dsm/opens-blindly";
    fn a_diff_of_most_words_that_is_taken_for_all_is_caught: "dsm/takes-most-for-whole";
    fn a_word_after_all_words_that_is_left_out_is_caught: "dsm/fetches-whole-only";
    fn a_look_without_validation_is_caught: "map/without-validation";
    fn an_entry_without_order_is_caught: "map/without-order";
    fn a_look_into_a_split_bucket_is_caught: "map/without-depth";
    fn a_split_without_mark_is_caught: "map/without-mark", "map/without-mark-news";
    fn a_cell_of_the_lost_that_is_used_again_is_caught:
        "map/without-abandoning", "map/without-abandoning-news";
    fn a_split_that_takes_out_too_early_is_caught:
        "map/locked-without-mark", "map/locked-without-mark-news";
    fn a_lock_that_is_not_recovered_is_caught:
        "map/locked-without-recovery", "map/locked-without-recovery-news";
    fn a_bucket_that_is_looked_at_twice_is_caught: "map/batch-looks-twice";
    fn a_cell_that_is_taken_from_a_reader_is_caught: "map/sweeps-unseen";
    fn an_element_without_order_is_caught: "map/fixed-without-order";
    fn an_element_without_a_second_look_is_caught: "map/fixed-without-second-look";
    fn an_integer_without_order_is_caught: "map/integers-without-order";
    fn an_integer_without_a_second_look_is_caught: "map/integers-without-second-look";
    fn an_epoch_without_flush_is_caught:
        "epoch/direct-without-flush", "epoch/backoff-without-flush",
        "epoch/published-without-flush", "epoch/two-sided-without-flush";
    fn a_target_that_is_taken_in_two_steps_is_caught:
        "epoch/direct-in-two-steps", "epoch/backoff-in-two-steps",
        "epoch/published-in-two-steps";
    fn a_reader_that_stays_is_caught: "epoch/direct-without-withdrawing";
    fn a_queue_that_nobody_lets_in_is_caught:
        "epoch/direct-without-grant", "epoch/published-without-grant";
    fn an_agent_that_does_not_count_is_caught:
        "epoch/backoff-without-count", "epoch/published-without-count";
    fn a_target_that_grants_everything_is_caught: "epoch/two-sided-without-exclusion";
    fn a_target_that_is_deaf_is_caught: "epoch/two-sided-without-serving";
    fn a_barrier_that_writes_its_number_is_caught: "epoch/two-sided-stores-barriers";
    fn a_fence_without_flush_is_caught: "epoch/fence-without-flush";
    fn a_fence_without_meeting_is_caught: "epoch/fence-without-meeting";
    fn an_access_without_order_is_caught: "epoch/post-without-order";
    fn an_access_without_posts_is_caught: "epoch/post-without-posts";
    fn an_exposure_without_origins_is_caught: "epoch/post-without-origins";
    fn a_barrier_that_reuses_its_flags_is_caught:
        "sync/dissemination-one-set", "barrier/flags-one-set";
    fn a_barrier_that_does_not_gather_is_caught: "sync/binomial-without-gathering";
    fn a_barrier_that_does_not_wait_is_caught: "barrier/without-waiting";
    fn a_confirmation_that_overtakes_is_caught: "sync/fence-without-order";
    fn a_sync_that_does_not_wait_for_landings_is_caught: "sync/combined-without-waiting";
    fn a_sync_that_meets_once_is_caught: "sync/combined-without-meeting";
    fn a_sync_that_counts_strangers_is_caught: "sync/team-counting-strangers";
    fn a_place_that_is_used_too_early_is_caught: "collective/places-without-waiting";
}

fn all_are_caught(family: &str) {
    let all = checks();
    let wrong = all.iter().filter(|check| check.is_mutant() && check.name.starts_with(family));
    wrong.map(|check| check.name).for_each(is_caught);
}

#[test]
fn every_wrong_exclusive_lock_is_caught() {
    all_are_caught("lock/");
}

#[test]
fn every_wrong_reader_writer_lock_is_caught() {
    all_are_caught("rw/");
}

/// Other arrangements that a job can have: all ranks on one node, on two, and each on its own.
fn arrangements(setup: &Setup) -> Vec<Setup> {
    let on = |nodes: u32| setup.clone().topology(&format!("node:{nodes}"));
    let mut all = vec![Setup { topology: None, ..setup.clone() }, on(setup.ranks)];
    if setup.ranks > 2 {
        all.push(on(2));
    }
    all.into_iter().filter(|other| other != setup).collect()
}

/// Wrong variants that are right in other arrangements, by their names and what those are, and why.
const RIGHT_ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "the ranks of one node hear of a death together",
        &["death/hearsay-is-news on node:2", "death/hearsay-is-news on one node"],
    ),
    (
        "landings are not counted on one node, nor where few nodes have no strangers",
        &[
            "sync/team-counting-strangers on one node",
            "sync/team-counting-strangers on node:2",
            "sync/combined-without-waiting on one node",
            "sync/combined-without-meeting on one node",
        ],
    ),
    (
        "one node has one copy of a page, and sends no diffs",
        &[
            "dsm/renews-twins-early on one node",
            "dsm/forgets-after-diff on one node",
            "dsm/keeps-chains on one node",
            "dsm/pushes-over-others on one node",
            "dsm/pushes-over-gaps on one node",
            "dsm/fetches-whole-only on one node",
            "dsm/takes-most-for-whole on one node",
            "dsm/opens-blindly on one node",
            "dsm/demand-takes-written-pages on one node",
            "dsm/takes-old-twins on one node",
        ],
    ),
    (
        "it takes three copies of a page to show, and two nodes have two",
        &[
            "dsm/forgets-after-diff on node:2",
            "dsm/keeps-chains on node:2",
            "dsm/pushes-over-others on node:2",
            "dsm/pushes-over-gaps on node:2",
            "dsm/fetches-whole-only on node:2",
            "dsm/takes-most-for-whole on node:2",
        ],
    ),
    (
        "a parked head on another node is handed the lock at once",
        &["lock/default-bypass-without-bound on node:2"],
    ),
    (
        "far ranks ask an agent, which answers none from before a recovery",
        &["recovery/hybrid-keeps-its-words on node:2"],
    ),
    ("each node has a counter of its own, with fewer readers", &["rw/rma-rw-runs-over on node:2"]),
    (
        "neighbours share a copy of a page, and another node has one of its own",
        &[
            "dsm/merges-pages on one node",
            "dsm/merges-pages on node:3",
            "dsm/merges-beside-twins on one node",
            "dsm/merges-beside-twins on node:3",
            "dsm/closes-silently on one node",
            "dsm/closes-silently on node:3",
            "dsm/closes-under-writers on one node",
            "dsm/closes-under-writers on node:3",
        ],
    ),
    (
        "a queue of neighbours matters where a node has several ranks, and is not the only one",
        &[
            "lock/rma-mcs-without-t-l on one node",
            "lock/rma-mcs-without-t-l on node:3",
            "lock/rma-mcs-racks-without-t-l on one node",
            "lock/rma-mcs-racks-without-t-l on node:2",
            "lock/rma-mcs-racks-without-t-l on node:8",
            "lock/rma-mcs-leaf-first on one node",
            "lock/rma-mcs-leaf-first on node:3",
            "rw/rma-rw-climbs-too-early on one node",
            "rw/rma-rw-climbs-too-early on node:3",
        ],
    ),
    (
        "neighbours pass the lock on as often as T_L says, not T_W",
        &["rw/rma-rw-without-t-w on node:2"],
    ),
];

/// Returns the other arrangements in which nothing is found of a wrong variant. What is found there
/// may be told in other words.
fn not_caught(check: &Check) -> Vec<String> {
    let is_missed = |setup: &Setup| {
        let finding = check.run(setup, check.policy, 0, &check.budget(), &mut |_| ());
        finding.expect("the job can be simulated").problem.is_none()
    };
    let missed = arrangements(&check.setup).into_iter().filter(is_missed);
    let place = |setup: Setup| setup.topology.map_or("one node".to_owned(), |it| it.to_string());
    missed.map(|setup| format!("{} on {}", check.name, place(setup))).collect()
}

#[test]
fn wrong_variants_are_caught_in_every_arrangement() {
    let is_meant = |check: &&Check| {
        let is_of = |families: &[&str]| families.iter().any(|it| check.name.starts_with(it));
        let is_short = is_of(&["litmus/", "death/", "limit/", "memory/", "barrier/", "sync/"])
            || is_of(&["lock/", "rw/", "epoch/"]) && check.setup.ranks <= 2;
        check.is_mutant() && (is_short || std::env::var_os("FARSIDE_LONG").is_some())
    };
    let all = checks();
    let wrong: Vec<&Check> = all.iter().filter(is_meant).collect();
    for name in RIGHT_ELSEWHERE.iter().flat_map(|(_, names)| names.iter()) {
        let name = name.split(" on ").next();
        assert!(all.iter().any(|check| Some(check.name) == name), "{name:?} is no check");
    }
    let missed: BTreeSet<String> = wrong.iter().flat_map(|check| not_caught(check)).collect();
    let is_tried = |known: &&&str| {
        wrong.iter().any(|check| known.split_once(" on ").is_some_and(|it| it.0 == check.name))
    };
    let known = RIGHT_ELSEWHERE.iter().flat_map(|(_, names)| names.iter()).filter(is_tried);
    let known: BTreeSet<String> = known.map(|&known| known.to_owned()).collect();
    let (more, fewer) = (&missed - &known, &known - &missed);
    assert!(more.is_empty() && fewer.is_empty(), "missed: {more:#?}, caught: {fewer:#?}");
}

#[test]
fn every_wrong_protocol_has_a_test() {
    let is_meant = |name: &str| {
        let families = ["barrier/", "collective/", "dsm/", "epoch/", "map/", "sync/"];
        families.iter().any(|family| name.starts_with(family))
    };
    for check in checks().iter().filter(|check| check.is_mutant() && is_meant(check.name)) {
        assert!(NAMED.contains(&check.name), "{}", check.name);
    }
}

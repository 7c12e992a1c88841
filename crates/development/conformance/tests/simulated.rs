//! The suite with simulated ranks: fibers whose operations land in an order of the oracle's choice.

use farside::sim::{random, simulation, whole_program};
use farside_conformance::{record, test, test_each};

/// Schedules per test, ten times as many in the long run.
fn schedules() -> u64 {
    if std::env::var_os("FARSIDE_LONG").is_some() { 20 } else { 2 }
}

/// What a fiber cannot do.
const SKIPPED: [(&str, &str); 5] = [
    ("contexts_are_contenders", "a simulated rank has one thread"),
    ("many_threads_call", "a simulated rank has one thread"),
    ("contexts_end_with_posted_calls", "a simulated rank has one context"),
    ("calls_go_on_beside_answers_that_nobody_has_taken", "a simulated rank has one context"),
    ("threads_call_several_nodes_at_once", "a simulated rank has one thread"),
];

fn run(name: &'static str, ranks: u32, topology: Option<&str>) {
    if let Some((_, why)) = SKIPPED.iter().find(|(skipped, _)| *skipped == name) {
        println!("skipped: {name}: {why}");
        record("sim", name, "skipped");
        return;
    }
    let simulation =
        simulation(ranks, topology).expect("the topology is in order").steps_max(1_000_000);
    let simulation = simulation.refuse_unordered_stores(true);
    let program = whole_program(test(name).expect("the test exists"));
    let report = random(&simulation, &program, 7, schedules());
    assert_eq!(
        report.failure.map(|failure| (failure.problem, failure.schedule.len())),
        None,
        "{name}"
    );
    record("sim", name, "passed");
}

test_each!(simulated, |name| run(name, 4, None));
test_each!(simulated_on_two_nodes, |name| run(name, 5, Some("node:2")));

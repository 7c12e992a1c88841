//! One call of one rank fails, each in turn: the same works afterwards, or all ranks know.

use farside_job::Options;
use farside_launch::Launch;
use farside_testing::faults::{
    Outcome, VARIABLE, leave_nothing_behind, too_few_files_are_errors, with_few_files,
};
use farside_testing::{DEADLINE, one_node, two_nodes};

use super::compile_by;

const RANKS: u32 = 4;

fn ended(launch: Launch, change: fn(&mut Options)) -> Outcome {
    let report = launch.options(change).timeout(DEADLINE).run().expect("the job starts");
    let output = String::from_utf8_lossy(&report.stdout).into_owned();
    Outcome { status: report.status, output: format!("{output}{:?}", report.failures) }
}

fn nothing_is_left_behind(name: &str, change: fn(&mut Options)) {
    let program = compile_by("gcc", "faults.c");
    let kinds = ["allocation", "operation"];
    leave_nothing_behind(name, (RANKS, &kinds), |fault| {
        let launch = Launch::new(&program.path, RANKS).expect("the environment is in order");
        ended(launch.variable(VARIABLE, fault), change)
    });
}

#[test]
fn faults_on_one_node_leave_nothing_behind() {
    nothing_is_left_behind("one node", one_node);
}

#[test]
fn faults_on_two_nodes_leave_nothing_behind() {
    nothing_is_left_behind("two nodes", two_nodes);
}

#[test]
fn a_rank_that_may_open_few_files_says_so() {
    let program = compile_by("gcc", "faults.c");
    too_few_files_are_errors("two nodes", RANKS, |files| {
        let launch = Launch::new("sh", RANKS).expect("the environment is in order");
        let launch = launch.argument("-c").argument(with_few_files(RANKS, files));
        ended(launch.argument(&program.path), two_nodes)
    });
}

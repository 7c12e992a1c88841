//! One call of one rank fails, each in turn: the same works afterwards, or all ranks know.

use farside_testing::faults::{Outcome, VARIABLE, leave_nothing_behind, too_few_files_are_errors};

use super::{Mpi, ONE_NODE, TWO_NODES, compile, is_long, with_library};

fn nothing_is_left_behind(mpi: Mpi, kinds: &[&str], arguments: &[String]) {
    for variables in [ONE_NODE, TWO_NODES] {
        nothing_is_left_behind_on(variables, mpi, kinds, arguments);
    }
}

fn nothing_is_left_behind_on(
    variables: &'static [&'static str],
    mpi: Mpi,
    kinds: &[&str],
    arguments: &[String],
) {
    if mpi.is_here() {
        let program = compile(mpi, "faults.c");
        let setting = with_library(mpi, 3, variables);
        let name = format!("{}, {variables:?}, {arguments:?}", mpi.name());
        leave_nothing_behind(&name, (3, kinds), |fault| {
            let variable = format!("{VARIABLE}={fault}");
            let ran = setting.run_with(&program.path, arguments, &[&variable]);
            Outcome { status: ran.status.code().unwrap_or(128), output: ran.output }
        });
    }
}

const KINDS: [&str; 2] = ["allocation", "operation"];

#[test]
fn faults_in_open_mpi_leave_nothing_behind() {
    nothing_is_left_behind(Mpi::OpenMpi, &KINDS, &[]);
}

#[test]
fn faults_with_threads_leave_nothing_behind() {
    let threads = &["threads".into()];
    nothing_is_left_behind_on(ONE_NODE, Mpi::OpenMpi, &KINDS, threads);
    // Between nodes the service of a rank's memory ends when it cannot read its own mailbox, which
    // nothing but a test lets fail, and whoever asks it waits.
    nothing_is_left_behind_on(TWO_NODES, Mpi::OpenMpi, &["allocation"], threads);
}

#[test]
fn faults_in_mpich_leave_nothing_behind() {
    if is_long() {
        nothing_is_left_behind(Mpi::Mpich, &KINDS, &[]);
    }
}

/// MPI itself has all of its files by then: what is still to be opened is the windows'.
#[test]
fn a_rank_that_may_open_few_files_says_so() {
    let is_meant = |mpi: &Mpi| mpi.is_here() && (*mpi == Mpi::OpenMpi || is_long());
    for mpi in [Mpi::OpenMpi, Mpi::Mpich].into_iter().filter(is_meant) {
        let program = compile(mpi, "faults.c");
        too_few_files_are_errors(mpi.name(), 3, |files| {
            let arguments = ["files".into(), (files - 5).to_string()];
            let ran = with_library(mpi, 3, TWO_NODES).run(&program.path, &arguments);
            Outcome { status: ran.status.code().unwrap_or(128), output: ran.output }
        });
    }
}

//! Starts launchers, with a deadline, and leaves nothing of them behind.

use std::process::Command;

pub(crate) use farside_testing::{
    DEADLINE, Marked, Ran, run_leaving_nothing as run, shared_files, skip,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_farside-conformance");

/// A launcher that starts processes of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Launcher {
    Hydra,
    OpenMpi,
}

impl Launcher {
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Launcher::Hydra => &["mpiexec.hydra"],
            Launcher::OpenMpi => &["mpirun.openmpi"],
        }
    }

    pub(crate) fn command(self, ranks: u32, job: &[&str]) -> Command {
        let mut command = command(self.programs()[0]);
        match self {
            Launcher::Hydra => _ = command.args(["-n", &ranks.to_string()]),
            Launcher::OpenMpi => _ = command.args(["--oversubscribe", "-np", &ranks.to_string()]),
        }
        command.args(job);
        command
    }
}

/// A command without anything that this test program's own launcher may have set.
pub(crate) fn command(program: &str) -> Command {
    let mut command = farside_testing::command(program);
    // Of two `mpirun` that share a directory, one may find it half made, or removed by the other.
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let directory = format!("{}/{process}-{thread:?}", env!("CARGO_TARGET_TMPDIR"));
    command.env("OMPI_MCA_orte_tmpdir_base", directory.replace(['(', ')'], ""));
    command
}

/// Whether these programs are there.
pub(crate) fn wanted(programs: &[&str]) -> bool {
    programs.iter().all(|program| farside_testing::wanted(program))
}

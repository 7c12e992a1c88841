//! Starts launchers, with a deadline, and leaves nothing of them behind.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_farside-conformance");
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// How long processes that were told to end may take for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The variable that marks the processes of a test, wherever they move in the tree.
const MARK: &str = "FARSIDE_TEST_MARK";

/// Makes marks differ within the test program.
static COUNT: AtomicU32 = AtomicU32::new(0);

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
    let mut command = Command::new(program);
    let ours = ["FARSIDE_", "PMI_", "PMIX_", "SLURM_", "OMPI_", "PRTE_", "HYD"];
    for (name, _) in std::env::vars_os() {
        if ours.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    // Open MPI wants to be told twice before it starts anything for root.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // Of two `mpirun` that share a directory, one may find it half made, or removed by the other.
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let directory = format!("{}/{process}-{thread:?}", env!("CARGO_TARGET_TMPDIR"));
    command.env("OMPI_MCA_orte_tmpdir_base", directory.replace(['(', ')'], ""));
    command
}

/// Whether these programs are there. Where they are not, it is said aloud; where nobody reads what
/// tests say, that is with `CI=true`, it is a failure.
pub(crate) fn wanted(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons are where users do not look.
    let directories: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let is_there =
        |program: &&str| directories.iter().any(|directory| directory.join(program).exists());
    match programs.iter().find(|program| !is_there(program)) {
        None => true,
        Some(program) => {
            skip(&format!("there is no {program}; `cargo xtask test --only setup` installs it"))
        }
    }
}

pub(crate) fn skip(why: &str) -> bool {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!in_ci, "in CI nothing is skipped: {why}");
    // Written past the test harness, which keeps what tests that pass print to itself.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: a test of a launcher: {why}\n");
    false
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// What it wrote, to standard output first.
    pub(crate) output: String,
}

/// Processes that bear a mark, which end with this.
pub(crate) struct Marked(pub(crate) String);

impl Marked {
    pub(crate) fn new() -> Marked {
        Marked(format!(
            "launchers-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub(crate) fn put_on<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(MARK, &self.0)
    }

    fn pids(&self) -> Vec<Pid> {
        farside_testing::pids_with(MARK, &self.0)
    }

    /// Waits until all have ended by themselves.
    fn are_gone(&self) -> bool {
        let start = Instant::now();
        while !self.pids().is_empty() {
            if start.elapsed() > PATIENCE {
                return false;
            }
            // sleep: the system tells nobody but a parent when a process goes.
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let start = Instant::now();
        let mut pids = self.pids();
        while !pids.is_empty() && start.elapsed() < PATIENCE {
            for pid in pids {
                let _ = kill_process(pid, Signal::KILL);
            }
            pids = self.pids();
        }
    }
}

/// Runs a command to its end, which must come in time, and after which nothing may be left of it.
pub(crate) fn run(command: &mut Command) -> Ran {
    let marked = Marked::new();
    let shown = format!("{command:?}");
    marked
        .put_on(command)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the launcher starts");
    let (mut stdout, mut stderr) =
        (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            bytes
        });
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes.extend(errors.join().unwrap_or_default());
        let status = child.wait().expect("a child can be waited for");
        // Nobody listens any more only after a failure.
        let _ = sender.send(Ran { status, output: String::from_utf8_lossy(&bytes).into_owned() });
    });
    let ran = ended.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{shown}: hangs"));
    assert!(marked.are_gone(), "{shown}: processes are left: {ran:?}");
    ran
}

/// The files that ranks could have left.
pub(crate) fn shared_files() -> BTreeSet<std::ffi::OsString> {
    // Files of other programs may come and go; ours would bear our name.
    let entries = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    entries.filter(|name| name.to_string_lossy().contains("farside")).collect()
}

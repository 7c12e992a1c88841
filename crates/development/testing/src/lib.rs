//! What tests share: processes with a deadline, of which nothing is left; compilers and launchers
//! for programs in other languages; for pages a browser; network namespaces as hosts.

pub mod browser;
pub mod faults;
mod marked;
pub mod namespaces;
mod running;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use farside_job::{Kind, Options};
use farside_launch::{Launch, Report};

pub use self::marked::{MARK, Marked, pids_with};
pub use self::running::{Finished, Running, Start};

/// A job that takes longer hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Makes names differ within a test program.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns a name that no other test has.
pub fn unique() -> String {
    format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the seed that campaigns of random programs start from: `FARSIDE_TEST_SEED`, or 0.
pub fn seed() -> u64 {
    std::env::var("FARSIDE_TEST_SEED").map_or(0, |text| text.parse().expect("a number"))
}

/// Returns the directory in which cargo has left the libraries that C links.
pub fn libraries() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own program");
    own.parent().expect("it is in a directory").to_owned()
}

/// Returns whether a program is on the path, or where daemons are. Where it is not, the test is
/// skipped.
pub fn wanted(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.any(|directory| directory.join(program).exists())
        || skip(&format!("there is no {program}; `cargo xtask test --only setup` installs it"))
}

/// Says aloud why a test is skipped, and returns false; where nobody reads what tests say, that is
/// with `CI=true`, it is a failure.
pub fn skip(why: &str) -> bool {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!in_ci, "in CI nothing is skipped: {why}");
    // Written past the test harness, which keeps what tests that pass print to itself.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: a test: {why}\n");
    false
}

/// Returns the blocks of a page of the repository that are in a language, as they stand there.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let begin = format!("```{language}\n");
    let blocks = text.split(&begin).skip(1);
    blocks.filter_map(|rest| rest.split("```").next().map(str::to_owned)).collect()
}

/// A program that goes when the test does.
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        // What cannot be removed lies where cargo keeps its own files.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs a compiler, which leaves a program in a directory. The command has everything but the name
/// of the program.
pub fn compile(command: &mut Command, directory: &Path) -> Program {
    let path = directory.join(unique());
    command.arg("-o").arg(&path);
    let output = command.output().expect("the compiler starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Program { path }
}

/// Leaves a job on one node, over shared memory.
pub fn one_node(_: &mut Options) {}

/// Puts a job on two nodes, over UDP.
pub fn two_nodes(options: &mut Options) {
    options.fabric = Kind::Nic;
    options.nodes = Some(2);
}

/// Puts a job on two nodes whose network has atomics of its own, which do not heed those of the
/// processor.
pub fn two_nodes_apart(options: &mut Options) {
    two_nodes(options);
    options.server = Some("nic-apart".into());
}

/// Puts a job on two nodes, over libfabric.
pub fn two_nodes_over_ofi(options: &mut Options) {
    options.fabric = Kind::Ofi;
    options.nodes = Some(2);
    options.provider.get_or_insert("tcp;ofi_rxm".into());
}

/// Runs a program as some ranks and returns what came of it.
pub fn launch(
    program: &Program,
    ranks: u32,
    keep_going: bool,
    change: impl FnOnce(&mut Options),
) -> Report {
    let launch = Launch::new(&program.path, ranks).expect("the environment is in order");
    let report = launch.options(change).timeout(DEADLINE).keep_going(keep_going).run();
    let report = report.expect("the job starts");
    assert!(!report.timed_out, "{}: hangs", program.path.display());
    report
}

/// Runs a program as some ranks, which must succeed, and returns what they wrote.
pub fn succeed(program: &Program, ranks: u32, change: impl FnOnce(&mut Options)) -> String {
    let report = launch(program, ranks, false, change);
    let stdout = String::from_utf8_lossy(&report.stdout).into_owned();
    assert_eq!(report.status, 0, "{:?}: {stdout}", report.failures);
    stdout
}

/// What makes a compiler check memory and arithmetic; a fault ends the program.
pub const SANITIZERS: [&str; 4] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"];

/// Runs a program that was compiled with [`SANITIZERS`] as some ranks, which must succeed, and
/// returns what they wrote. What is still allocated at the end is no fault.
pub fn succeed_sanitized(program: &Program, ranks: u32) -> String {
    let launch = Launch::new(&program.path, ranks).expect("the environment is in order");
    without_a_fault(launch.variable("ASAN_OPTIONS", "detect_leaks=0"))
}

/// Runs a program as some ranks under valgrind, which must find no fault in memory, and returns
/// what they wrote.
pub fn succeed_under_valgrind(program: &Program, ranks: u32) -> String {
    let launch = Launch::new("valgrind", ranks).expect("the environment is in order");
    let arguments = ["--quiet", "--error-exitcode=9", "--leak-check=no"];
    without_a_fault(launch.arguments(arguments).argument(&program.path))
}

fn without_a_fault(launch: Launch) -> String {
    let report = launch.timeout(DEADLINE).run().expect("the job starts");
    let stdout = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(!report.timed_out, "hangs: {stdout}");
    assert_eq!(report.status, 0, "{:?}: {stdout}", report.failures);
    stdout
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote, to standard output first.
    pub output: String,
}

/// A command without anything that this test program's own launcher may have set.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let ours = ["FARSIDE_", "PMI_", "PMIX_", "SLURM_", "OMPI_", "PRTE_", "HYD"];
    for (name, _) in std::env::vars_os() {
        if ours.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    // Open MPI wants to be told twice before it starts anything for root.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// Runs a command to its end, which must come in time. It is used up.
pub fn run(command: &mut Command) -> Ran {
    Start::new(command).run().into()
}

/// Does the same, and waits until nothing is left of the command.
pub fn run_leaving_nothing(command: &mut Command) -> Ran {
    let mut running = Start::new(command).start();
    running.wait_for_end();
    running.wait_until_nothing_is_left();
    running.wait().into()
}

impl From<Finished> for Ran {
    fn from(finished: Finished) -> Ran {
        let output = [finished.stdout, finished.stderr].concat();
        Ran { status: finished.status, output: String::from_utf8_lossy(&output).into_owned() }
    }
}

/// Returns the files in shared memory that ranks could have left.
pub fn shared_files() -> BTreeSet<OsString> {
    // Files of other programs may come and go; ours would bear our name.
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().contains("farside")).collect()
}

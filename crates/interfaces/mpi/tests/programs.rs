//! MPI programs in C, C++ and Fortran, with the library that takes over their one-sided calls.
//!
//! Each program runs its cases under both MPIs, on one node, on two, and with the service for
//! memory that no rank can reach by itself. With `FARSIDE_LONG=1` more numbers of ranks are tried,
//! and the cases run without the library, too, so that they are known to be right themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use farside_testing::{Program, Ran, command, libraries, run, wanted};

#[path = "programs/deaths.rs"]
mod deaths;
#[path = "programs/faults.rs"]
mod faults;
#[path = "programs/generated.rs"]
mod generated;
#[path = "programs/known.rs"]
mod known;
#[path = "programs/sanitized.rs"]
mod sanitized;
#[path = "programs/standard.rs"]
mod standard;
#[path = "programs/viewers.rs"]
mod viewers;

use known::{FAILURES_OF_MPI, KNOWN_FAILURES, Known};

/// An MPI, by the names that Debian gives to its commands.
#[derive(Clone, Copy, PartialEq)]
enum Mpi {
    OpenMpi,
    Mpich,
}

use Mpi::{Mpich, OpenMpi};

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            OpenMpi => "openmpi",
            Mpich => "mpich",
        }
    }

    fn is_here(self) -> bool {
        wanted(&format!("mpicc.{}", self.name()))
    }

    fn library(self) -> PathBuf {
        self.library_in(prefix())
    }

    fn library_in(self, prefix: &Path) -> PathBuf {
        prefix.join("lib").join(format!("libfarside-mpi-{}.so", self.name()))
    }

    /// Returns the command that starts some ranks of what is appended to it.
    fn launcher(self, ranks: u32) -> Command {
        self.launcher_with(&[], ranks)
    }

    /// Returns the same, of a launcher that lets the others go on when one has died.
    fn patient_launcher(self, ranks: u32) -> Command {
        match self {
            OpenMpi => self.launcher_with(&["--enable-recovery"], ranks),
            // Hydra ends all others whatever its options say, unless every process ends well.
            Mpich => {
                let mut launcher = self.launcher(ranks);
                launcher.args(["sh", "-c", "\"$0\" \"$@\"; true"]);
                launcher
            }
        }
    }

    fn launcher_with(self, options: &[&str], ranks: u32) -> Command {
        let mut launcher = match self {
            OpenMpi => command("mpirun.openmpi"),
            Mpich => command("mpiexec.hydra"),
        };
        launcher.args(options);
        // Ranks outnumber processors.
        launcher.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        launcher.env("OMPI_MCA_mpi_yield_when_idle", "1");
        launcher.args([if self == OpenMpi { "-np" } else { "-n" }, &ranks.to_string()]);
        launcher
    }
}

/// The programs whose cases run everywhere.
const PROGRAMS: [&str; 17] = [
    "atomicity.c",
    "attributes.c",
    "cpp.cc",
    "datatypes.c",
    "errors.c",
    "fortran08.f90",
    "fortran77.f",
    "fortran90.f90",
    "fortran_attributes.f90",
    "operations.c",
    "progress.c",
    "requests.c",
    "shared.c",
    "standard.c",
    "synchronization.c",
    "transfer.c",
    "windows.c",
];

/// The program that asks for `MPI_THREAD_MULTIPLE`.
const THREADS: &str = "threads.c";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// The libraries as they are installed, under a prefix that the tests share.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| install("mpi", ""))
}

/// Installs the libraries under a prefix of their own, compiled with some more options.
fn install(name: &str, options: &str) -> PathBuf {
    let prefix = scratch().join(format!("{name}-{}", std::process::id()));
    let installed = Command::new("sh")
        .env("CFLAGS", options)
        .arg(here("install.sh"))
        .arg(libraries().join("libfarside_mpi.a"))
        .arg(&prefix)
        .output()
        .expect("there is a shell");
    assert!(installed.status.success(), "{installed:?}");
    prefix
}

/// Compiles a program by the wrapper of an MPI for its language.
fn compile(mpi: Mpi, source: &str) -> Program {
    compile_with(mpi, source, &[])
}

fn compile_with(mpi: Mpi, source: &str, more: &[&str]) -> Program {
    let (_, ending) = source.rsplit_once('.').expect("a source has an ending");
    let (wrapper, arguments): (_, &[&str]) = match ending {
        "c" => ("mpicc", &["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"]),
        "cc" => ("mpicxx", &["-std=c++11", "-Wall", "-Wextra", "-Werror"]),
        _ => ("mpif90", &["-Wall"]),
    };
    let mut compiler = Command::new(format!("{wrapper}.{}", mpi.name()));
    compiler.args(arguments).args(["-O1", "-g"]);
    if ending.starts_with('c') {
        // MPICH's header declares arrays of statuses that MPI_STATUSES_IGNORE is too short for, and
        // Open MPI's for C++ casts functions.
        compiler.args(["-Wno-stringop-overflow", "-Wno-cast-function-type"]);
    }
    compiler.arg(here("tests/programs").join(source)).args(more);
    farside_testing::compile(&mut compiler, scratch())
}

/// A program of the tests, compiled once for each MPI.
fn program(mpi: Mpi, source: &str) -> &'static Program {
    static COMPILED: [[OnceLock<Program>; PROGRAMS.len() + 1]; 2] =
        [const { [const { OnceLock::new() }; PROGRAMS.len() + 1] }; 2];
    let at = PROGRAMS.iter().position(|&name| name == source).unwrap_or(PROGRAMS.len());
    COMPILED[mpi as usize][at].get_or_init(|| compile(mpi, source))
}

#[derive(Clone, Copy)]
struct Setting {
    mpi: Mpi,
    ranks: u32,
    with_library: bool,
    variables: &'static [&'static str],
}

const ONE_NODE: &[&str] = &[];
const TWO_NODES: &[&str] = &["FARSIDE_NODES=2"];
const WITH_SERVICE: &[&str] = &["FARSIDE_MPI_SERVICE=1"];

/// Ranks wait for each other with their processors in use, so jobs take turns.
static TURN: Mutex<()> = Mutex::new(());

impl Setting {
    /// Runs a program to its end with some arguments.
    fn run(&self, path: &Path, arguments: &[String]) -> Ran {
        self.run_with(path, arguments, &[])
    }

    /// Does the same with more variables, which may name another library.
    fn run_with(&self, path: &Path, arguments: &[String], more: &[&str]) -> Ran {
        let mut launcher = self.mpi.launcher(self.ranks);
        launcher.arg("env").args(self.variables);
        if self.with_library {
            launcher.arg(format!("LD_PRELOAD={}", self.mpi.library().display()));
        }
        launcher.args(more);
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        run(launcher.arg(path).args(arguments))
    }

    /// Runs the cases of a program but for those that are known to fail. Each must say that all is
    /// well. Returns how many there were.
    fn is_well(&self, source: &str) -> usize {
        self.is_well_with(source, program(self.mpi, source), &[])
    }

    /// Does the same with a program that was compiled from that source, and with more variables.
    fn is_well_with(&self, source: &str, program: &Program, more: &[&str]) -> usize {
        let is_known = |known: &&Known| {
            known.program == source
                && known.under.is_none_or(|mpi| mpi == self.mpi)
                && known.variables.is_none_or(|variables| variables == self.variables)
        };
        let known: Vec<&Known> = match self.with_library {
            true => KNOWN_FAILURES.iter().filter(is_known).collect(),
            false => FAILURES_OF_MPI.iter().filter(is_known).collect(),
        };
        if known.iter().any(|known| known.cases.is_empty()) {
            return 0;
        }
        let cases = known.iter().flat_map(|known| known.cases);
        let without: Vec<String> = cases.map(|case| format!("-{case}")).collect();
        let ran = self.run_with(&program.path, &without, more);
        let named = format!(
            "{source}, {}, {} ranks, {:?}, without {:?}",
            self.mpi.name(),
            self.ranks,
            self.variables,
            known.iter().map(|known| (known.cases, known.why)).collect::<Vec<_>>()
        );
        assert!(ran.status.success(), "{named}: {}", ran.output);
        assert!(!ran.output.contains("FAILED"), "{named}: {}", ran.output);
        let verdicts = ran.output.lines().filter(|line| line.ends_with("checks, OK")).count();
        let last = format!("{verdicts} cases, OK");
        let is_whole = source.starts_with("fortran") || ran.output.lines().any(|line| line == last);
        assert!(verdicts > 0 && is_whole, "{named}: {}", ran.output);
        verdicts
    }
}

/// Runs all programs in a setting and returns how many cases there were.
fn all_are_well(setting: Setting) -> usize {
    if !setting.mpi.is_here() || !wanted("gfortran") {
        return 0;
    }
    PROGRAMS.iter().chain([&THREADS]).map(|source| setting.is_well(source)).sum()
}

fn with_library(mpi: Mpi, ranks: u32, variables: &'static [&'static str]) -> Setting {
    Setting { mpi, ranks, with_library: true, variables }
}

#[test]
fn open_mpi_on_one_node() {
    let cases = all_are_well(with_library(OpenMpi, 3, ONE_NODE));
    assert!(cases == 0 || cases >= 150, "{cases}");
    all_are_well(with_library(OpenMpi, 4, ONE_NODE));
    if is_long() {
        for ranks in [1, 2, 8] {
            all_are_well(with_library(OpenMpi, ranks, ONE_NODE));
        }
    }
}

#[test]
fn open_mpi_on_two_nodes() {
    all_are_well(with_library(OpenMpi, 4, TWO_NODES));
    if is_long() {
        for ranks in [2, 3] {
            all_are_well(with_library(OpenMpi, ranks, TWO_NODES));
        }
    }
}

#[test]
fn open_mpi_with_the_service() {
    all_are_well(with_library(OpenMpi, 2, WITH_SERVICE));
    if is_long() {
        all_are_well(with_library(OpenMpi, 4, WITH_SERVICE));
    }
}

/// Where somebody sees all operations, here a fault that never comes, no memory is near.
#[test]
fn open_mpi_in_seen_jobs() {
    const SEEN: &[&str] = &["FARSIDE_TEST_FAULT=operation:1000000000@0"];
    if OpenMpi.is_here() {
        for source in ["errors.c", "shared.c", "windows.c"] {
            with_library(OpenMpi, 3, SEEN).is_well(source);
        }
    }
}

/// MPICH's ranks never give up their processors, so there are but two of them.
#[test]
fn mpich_on_one_node() {
    all_are_well(with_library(Mpich, 2, ONE_NODE));
    if is_long() {
        for ranks in [1, 3, 4] {
            all_are_well(with_library(Mpich, ranks, ONE_NODE));
        }
    }
}

#[test]
fn mpich_on_two_nodes() {
    all_are_well(with_library(Mpich, 2, TWO_NODES));
    if is_long() {
        all_are_well(with_library(Mpich, 4, TWO_NODES));
    }
}

#[test]
fn mpich_with_the_service() {
    if is_long() {
        all_are_well(with_library(Mpich, 2, WITH_SERVICE));
    }
}

/// The cases themselves are right where the MPI is. Open MPI's own one-sided calls crash on memory
/// of `MPI_Win_create` without the variable.
#[test]
fn cases_hold_without_the_library() {
    let variables = &["OMPI_MCA_osc=sm,pt2pt"];
    for mpi in [OpenMpi, Mpich].into_iter().filter(|_| is_long()) {
        all_are_well(Setting { mpi, ranks: 2, with_library: false, variables });
    }
}

/// Hydra gives each rank a session of its own, and where the system schedules sessions as groups
/// (`sched_autogroup_enabled`), ranks of different ones cannot yield to each other.
#[test]
fn ranks_that_poll_on_one_processor_let_others_run() {
    if OpenMpi.is_here() {
        let program = compile(OpenMpi, "polling.c");
        // The program stays on one processor.
        let ran = with_library(OpenMpi, 4, &["FARSIDE_CORES=1"]).run(&program.path, &[]);
        assert!(ran.status.success() && ran.output.contains("5 cases, OK"), "{ran:?}");
        print!("{}", ran.output);
    }
}

/// Returns the names that `nm` prints with these options.
fn names(options: &[&str], path: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(options).arg(path).output().expect("there is nm");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect()
}

#[test]
fn every_function_taken_over_is_called() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let taken = names(&["-D", "--defined-only"], &mpi.library());
        let taken: BTreeSet<_> =
            taken.into_iter().filter(|name| name.starts_with("MPI_")).collect();
        assert!(taken.len() > 40, "{taken:?}");
        let in_c = PROGRAMS.iter().chain([&THREADS]).filter(|source| source.ends_with(".c"));
        let called: BTreeSet<String> = in_c
            .flat_map(|source| names(&["-D", "--undefined-only"], &program(mpi, source).path))
            .collect();
        let missing: Vec<&String> = taken.difference(&called).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", mpi.name());
    }
}

#[test]
fn library_of_the_other_mpi_names_the_right_one() {
    if !OpenMpi.is_here() || !Mpich.is_here() {
        return;
    }
    for (mpi, other) in [(OpenMpi, Mpich), (Mpich, OpenMpi)] {
        let path = &program(mpi, "transfer.c").path;
        let preload = format!("LD_PRELOAD={}", other.library().display());
        let ran = run(mpi.launcher(2).args(["env", &preload]).arg(path));
        let right = format!("libfarside-mpi-{}.so", mpi.name());
        let says_so = ran.output.lines().any(|line| {
            line.starts_with("farside: ") && line.contains("preload") && line.contains(&right)
        });
        assert!(!ran.status.success() && says_so, "{ran:?}");
    }
}

#[test]
fn program_without_mpi_runs_as_before() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let ran = run(command("echo").arg("hello").env("LD_PRELOAD", mpi.library()));
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.output, "hello\n");
    }
}

/// A library of the program may bring its own UCX, which nobody else sees.
#[test]
fn polls_of_a_hidden_ucx_reach_it() {
    if !Mpich.is_here() {
        return;
    }
    let place = scratch().join(format!("ucx-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("there is room");
    let build = |text: &str, output: &str, options: &[&str]| {
        let source = place.join("source.c");
        std::fs::write(&source, text).expect("there is room");
        let (source, place) = (source.display().to_string(), place.display().to_string());
        let mut compiler = Command::new("cc");
        compiler.current_dir(&place).args(["-o", output, &source]).args(options);
        let rpath = format!("-Wl,-rpath,{place}");
        let compiled = compiler.args(["-L.", &rpath]).output().expect("there is a compiler");
        assert!(compiled.status.success(), "{compiled:?}");
    };
    let poll = "unsigned ucp_worker_progress(void *worker)";
    let shared = ["-shared", "-fPIC"];
    let soname = ["-shared", "-fPIC", "-Wl,-soname,libucp.so.0"];
    build(&format!("{poll} {{ return worker == 0 ? 7 : 8; }}"), "libucp.so.0", &soname);
    let user = format!("{poll}; unsigned poll_it(void) {{ return ucp_worker_progress(0); }}");
    build(&user, "libuser.so", &[&shared[..], &["-l:libucp.so.0"]].concat());
    let main = "#include <dlfcn.h>
        int main(void)
        {
            void *library = dlopen(\"libuser.so\", RTLD_NOW | RTLD_LOCAL);
            unsigned (*poll)(void) = (unsigned (*)(void))dlsym(library, \"poll_it\");
            return poll() == 7 ? 0 : 1;
        }";
    build(main, "program", &["-ldl"]);
    let ran = run(command(place.join("program")).env("LD_PRELOAD", Mpich.library()));
    assert!(ran.status.success(), "{ran:?}");
    std::fs::remove_dir_all(&place).expect("it is there");
}

/// A tool that takes over MPI's calls, too, is preloaded in front, as `farside preload` does it.
#[test]
fn tools_in_front_see_the_calls_and_hand_them_on() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let tool = compile_with(mpi, "tool.c", &["-shared", "-fPIC"]);
        let path = &program(mpi, "transfer.c").path;
        let preload = format!("LD_PRELOAD={}:{}", tool.path.display(), mpi.library().display());
        let mut launcher = mpi.launcher(2);
        launcher.args(["env", "FARSIDE_MPI_VERBOSE=1", &preload]).arg(path).arg("many_small");
        let ran = run(&mut launcher);
        assert!(ran.status.success() && ran.output.contains("1 cases, OK"), "{ran:?}");
        assert!(ran.output.contains("taken over"), "{ran:?}");
        assert!(ran.output.contains("tool: MPI_Init, 1 window, MPI_Finalize"), "{ran:?}");
    }
}

#[test]
fn calls_before_init_are_left_to_mpi() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let program = compile(mpi, "before_init.c");
        let setting = with_library(mpi, 1, ONE_NODE);
        let ran = setting.run(&program.path, &[]);
        assert!(ran.status.success() && ran.output.contains("checks, OK"), "{ran:?}");
        let ran = setting.run(&program.path, &["too early".into()]);
        assert!(!ran.status.success() && ran.output.contains("now"), "{ran:?}");
        assert!(ran.output.contains("before"), "MPI says what is wrong: {ran:?}");
    }
}

#[test]
fn fatal_error_says_what_is_wrong() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let program = compile(mpi, "fatal.c");
        for variables in [ONE_NODE, TWO_NODES] {
            let ran = with_library(mpi, 2, variables).run(&program.path, &[]);
            assert!(!ran.status.success() && !ran.output.contains("accepted"), "{ran:?}");
            for word in ["MPI_Put", "4000", "64"] {
                assert!(ran.output.contains(word), "no {word:?}: {}", ran.output);
            }
        }
    }
}

/// Other processes of the user may trace a rank only when a window needs it.
#[test]
fn processes_are_traceable_only_for_windows_over_their_own_memory() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let program = compile_with(mpi, "traceable.c", &["-rdynamic", "-ldl"]);
        for (variables, times) in [(ONE_NODE, 1), (WITH_SERVICE, 0)] {
            let ran = with_library(mpi, 2, variables).run(&program.path, &[]);
            assert!(ran.status.success(), "{ran:?}");
            for (line, times) in [
                ("after MPI_Init", 0),
                ("after MPI_Win_allocate", 0),
                ("after MPI_Win_create of nothing", 0),
                ("after MPI_Win_create of memory", times),
            ] {
                let line = format!("{line}: {times}\n");
                assert!(ran.output.contains(&line), "{}, no {line:?}: {ran:?}", mpi.name());
            }
        }
    }
}

/// A launcher that is asked to leaves the other ranks alone when one has died.
#[test]
fn summary_says_what_each_rank_has_done() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let path = &program(mpi, "transfer.c").path;
        let setting = with_library(mpi, 2, &["FARSIDE_MPI_SUMMARY=1"]);
        let ran = setting.run(path, &["many_small".into()]);
        for rank in 0..2 {
            let begin = format!("farside: rank {rank}: ");
            let is_whole = |line: &str| {
                let words = ["window", "one-sided operation", "byte", "off the processor"];
                line.contains(&begin) && words.iter().all(|word| line.contains(word))
            };
            assert!(ran.output.lines().any(is_whole), "{ran:?}");
        }
        assert!(!ran.output.contains(": 0 windows, 0 one-sided"), "{ran:?}");
    }
}

#[test]
fn library_can_be_turned_off() {
    for mpi in [OpenMpi, Mpich].into_iter().filter(|mpi| mpi.is_here()) {
        let path = &program(mpi, "transfer.c").path;
        for (variables, is_on) in [
            (&["FARSIDE_MPI_VERBOSE=1"][..], true),
            (&["FARSIDE_MPI_VERBOSE=1", "FARSIDE_MPI=off"], false),
        ] {
            let ran = with_library(mpi, 2, variables).run(path, &["many_small".into()]);
            assert!(ran.status.success() && ran.output.contains("1 cases, OK"), "{ran:?}");
            assert_eq!(ran.output.contains("taken over"), is_on, "{ran:?}");
        }
    }
}

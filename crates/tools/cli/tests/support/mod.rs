//! Starts the command, and what tests that are programs of their own share.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test program uses a part of this"
)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use farside_testing::{Finished, Running, Start};
use farside_testing::{command, unique};

pub(crate) const FARSIDE: &str = env!("CARGO_BIN_EXE_farside");

pub(crate) fn farside<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Start {
    Start::new(listening(FARSIDE).args(arguments))
}

/// A program to which Ctrl-C means what it does at a terminal, although the tests may run in the
/// background of a shell, where it is ignored.
fn listening(program: &str) -> Command {
    // By its path: a test may leave the command without `PATH`.
    let mut command = command("/usr/bin/env");
    command.args(["--default-signal=INT,QUIT", program]);
    command
}

/// The path of the test program that is running, for tests that are a program of their own.
pub(crate) fn own() -> String {
    std::env::current_exe().unwrap().into_os_string().into_string().unwrap()
}

/// The command `farside run OPTIONS THIS program WORDS`, where THIS is [`own`].
pub(crate) fn run_own(options: &[&str], words: &[&str]) -> Start {
    let own = own();
    let command = ["run"].into_iter().chain(options.iter().copied());
    farside(command.chain([own.as_str(), "program"]).chain(words.iter().copied()))
}

/// Another launcher with these arguments, not yet started.
pub(crate) fn launcher<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Start {
    Start::new(command(program).args(arguments))
}

/// The command with these arguments, started by a shell that runs `shell` first: limits, traps,
/// redirections.
pub(crate) fn farside_after<S: AsRef<OsStr>>(
    shell: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Start {
    let script = format!("{shell}; exec \"$0\" \"$@\"");
    Start::new(listening("sh").args(["-c", &script, FARSIDE]).args(arguments))
}

/// The options of jobs with four ranks, on one host and on two.
pub(crate) const FOUR: [&[&str]; 2] =
    [&["-n", "4"], &["--hosts", "a=127.0.0.1:2,b=127.0.0.2:2", "--rsh", "env HOST={host}"]];

/// `farside run` with these options, each rank of which is a shell that runs `script`.
pub(crate) fn shells(options: &[&str], script: &str) -> Start {
    farside(["run"].iter().chain(options).chain(&["sh", "-c", script]))
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// A directory of a test's own that goes when the test does.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// One that other users can reach: the clone may be in a directory that only its owner enters.
    pub(crate) fn for_other_users() -> Scratch {
        Scratch::below(Path::new("/tmp"))
    }

    fn below(directory: &Path) -> Scratch {
        let path = directory.join(format!("farside-scratch-{}", unique()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Scratch { path }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("the path is text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies where cargo keeps its own files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The line of the launcher about ranks that this signal has ended.
pub(crate) fn ended(ranks: &str, signal: i32) -> String {
    let how = farside_fabric::ExitCause::Signal(signal).to_string();
    let how = if ranks.starts_with("ranks") { how.replacen("was", "were", 1) } else { how };
    format!("farside: {ranks} {how}\n")
}

pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Lists the tests of a program without a harness.
macro_rules! tests {
    ($($test:ident)*) => {
        const TESTS: &[(&str, fn())] = &[$((stringify!($test), $test)),*];
    };
}
pub(crate) use tests;

/// The arguments of this program.
pub(crate) fn words() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// Runs these tests, or the program of a rank if the arguments say so.
pub(crate) fn program_or_tests(program: fn() -> ExitCode, tests: &[(&str, fn())]) -> ExitCode {
    let words = words();
    match words.first().map(String::as_str) {
        Some("program") => program(),
        _ => run_tests(tests, &words),
    }
}

/// How many tests run at once where there is no harness: most of them wait.
const AT_ONCE: usize = 4;

/// Runs the tests that the arguments of a test program without a harness choose.
pub(crate) fn run_tests(tests: &[(&str, fn())], words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    let is_chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| is_chosen(name)).collect();
    let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, test)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_well = std::panic::catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if is_well { "ok" } else { "FAILED" });
                    failures.fetch_add(usize::from(!is_well), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failures.into_inner();
    println!("test result: {} passed; {failed} failed", chosen.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! What `cargo xtask test` runs, in which order, and how it reports.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, bail};
use clap::{Args, ValueEnum};

use crate::process::{Runner, Task};
use crate::setup::Install;
use crate::{STEP_MINUTES_MAX, deb, lanes, minutes, outside, process, python, setup, tidy, works};

/// The test that explores the doorbell under loom.
const LOOM_TEST: &str = "crates/runtime/shm/tests/loom_bell.rs";
/// The features of the crate that users add.
const FEATURES: &[&str] = &["containers", "dsm", "epoch", "ofi", "races", "sim"];
/// The targets of `fuzz/`.
const FUZZED: &[&str] = &["serve", "reply", "stream"];
/// What miri can run: it knows neither mappings nor sockets.
const MIRI: &[&str] = &[
    "-p farside-fabric --lib memory",
    "-p farside-shm --lib bell",
    "-p farside-dsm --lib element",
    "-p farside-interop --lib handles",
];
/// The crates whose tests run with an address sanitizer: the interface of Rust, and what interfaces
/// of other languages are made of.
const ASAN: &str = "-p farside-fabric -p farside-shm -p farside-rma -p farside-epoch -p \
                    farside-containers -p farside-dsm -p farside-interop";
/// The module of Python, whose tests run with it, too.
const ASAN_PYTHON: &str = "-p farside-python --lib";
/// What a job leaves behind goes with its process, and page faults are the pager's.
const ASAN_OPTIONS: &str =
    "detect_leaks=0:handle_segv=0:handle_sigbus=0:detect_stack_use_after_return=0";
/// What tests are built for where build scripts are built for something else.
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";
/// The crates that are not published: the tools and tests of this repository, and the interfaces of
/// other languages.
const UNPUBLISHED: [&str; 8] = [
    "farside-capi",
    "farside-conformance",
    "farside-interop",
    "farside-mpi",
    "farside-python",
    "farside-shmem",
    "farside-testing",
    "xtask",
];

/// One step of the checks. Their order here is the order in which they run: cheap ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Programs that the tests need from outside of Rust
    Setup,
    /// Formatting
    Fmt,
    /// Lints
    Clippy,
    /// Invariants of the workspace
    Tidy,
    /// The library compiles with no feature, and with each alone
    Features,
    /// Every target compiles
    Build,
    /// Unit, conformance and end-to-end tests
    Test,
    /// The Python package, as a wheel in an environment of its own
    Python,
    /// The README's table of what works is what the tests found
    Works,
    /// Examples in the documentation, and the documentation itself
    Doc,
    /// Every interleaving of the doorbell
    Loom,
    /// Undefined behaviour in mapped memory, the doorbell, shared elements and handles
    Miri,
    /// What strangers' bytes meet first, under a fuzzer, a minute for each target
    Fuzz,
    /// Use of freed memory in tests of the interfaces, where miri cannot go
    Asan,
    /// Documentation as docs.rs builds it
    DocsRs,
    /// The oldest supported compiler
    Oldest,
    /// Licenses, sources and known faults of dependencies
    Deny,
    /// Every crate can be packaged
    Package,
    /// No change of the interface that the version does not tell
    Semver,
    /// A project of its own that uses the packaged crates
    Outside,
    /// The Debian package, installed in a root of its own
    Deb,
}

impl Step {
    /// Whether the step belongs to a release: it takes long, or needs tools that few have.
    fn is_for_release(self) -> bool {
        matches!(
            self,
            Step::Miri
                | Step::Fuzz
                | Step::Asan
                | Step::DocsRs
                | Step::Oldest
                | Step::Deny
                | Step::Package
                | Step::Semver
                | Step::Python
                | Step::Outside
                | Step::Deb
        )
    }

    /// The name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What can be chosen about a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Give the tests larger budgets (sets FARSIDE_LONG=1)
    #[arg(long)]
    pub(crate) long: bool,
    /// Run only these steps, in their usual order
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    pub(crate) only: Vec<Step>,
    /// Run the steps of a release, too: packages, a project outside, miri, the oldest compiler, …
    #[arg(long)]
    pub(crate) release: bool,
    /// Run the remaining steps after one has failed
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Install what the tests need, as `cargo xtask setup` does; in CI that needs no asking
    #[arg(long)]
    pub(crate) install: bool,
    /// Kill a step that takes longer than this
    #[arg(long, value_name = "MINUTES", default_value_t = STEP_MINUTES_MAX)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=24 * 60))]
    pub(crate) deadline: u64,
}

/// How a step that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did all that it should.
    Passed,
    /// It passed, but something that the user should know is not as it should be.
    Warned(String),
    /// It did not run, for this reason.
    Skipped(String),
}

/// Runs the chosen steps and prints a summary; an error names the steps that failed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let runner = Runner::start(minutes(options.deadline))?;
    let steps = chosen(&options.only, options.release);
    let results = run_all(&steps, options.keep_going, |number, step| {
        println!("\n=== {} ({} of {})", step.name(), number + 1, steps.len());
        let result = run_step(step, root, options, &runner);
        if let Err(error) = &result {
            println!("\n--- {} failed: {error:#}", step.name());
        }
        result
    });
    print!("\n{}", summary(&results));
    let failed = failed(&results);
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// What became of one step.
struct StepResult {
    step: Step,
    /// `None` if an earlier failure kept it from running.
    outcome: Option<Result<Outcome>>,
    elapsed: Duration,
}

/// The steps to run, in their usual order whatever the order of the wish.
fn chosen(only: &[Step], release: bool) -> Vec<Step> {
    let all = Step::value_variants().iter().copied();
    let is_usual = |step: &Step| only.is_empty() && (release || !step.is_for_release());
    all.filter(|step| is_usual(step) || only.contains(step)).collect()
}

/// Runs `steps` with `run`, and after a failure only if told to keep going.
fn run_all(
    steps: &[Step],
    keep_going: bool,
    mut run: impl FnMut(usize, Step) -> Result<Outcome>,
) -> Vec<StepResult> {
    let mut stopped = false;
    let mut results = Vec::new();
    for (number, &step) in steps.iter().enumerate() {
        let started = Instant::now();
        let outcome = (!stopped).then(|| run(number, step));
        stopped |= !keep_going && matches!(outcome, Some(Err(_)));
        let elapsed = started.elapsed();
        results.push(StepResult { step, outcome, elapsed });
    }
    results
}

/// Runs one step; its deadline is shared by everything that it starts. An error says how to run
/// alone what failed.
fn run_step(step: Step, root: &Path, options: &Options, runner: &Runner) -> Result<Outcome> {
    let runner = runner.again(minutes(options.deadline));
    let alone =
        |command: String| move |error: Error| anyhow!("{error:#}\n    to run it alone: {command}");
    let own = match step {
        Step::Setup => {
            let install = if options.install { Install::Asked } else { Install::InCi };
            setup::run(root, &runner, install)
        }
        Step::Tidy => tidy::run(root).map(|()| Outcome::Passed),
        Step::Works => works::check(root).map(|()| Outcome::Passed),
        Step::Python => python::run(root, &runner, options.long),
        Step::Outside => outside::run(root, &runner),
        Step::Deb => deb::test(root, &runner),
        _ => {
            if step == Step::Test {
                works::forget(root)?;
            }
            if let Some(reason) = missing(step, root) {
                println!("not run: {reason}");
                return Ok(Outcome::Skipped(reason));
            }
            if step == Step::Test {
                let task = tasks(step, root, options.long).remove(0);
                let record = (works::RECORD, works::records(root).display().to_string());
                let long = options.long.then(|| ("FARSIDE_LONG", "1".to_owned()));
                let variables: Vec<_> = std::iter::once(record).chain(long).collect();
                lanes::run(root, &runner, task, &variables)?;
                return Ok(Outcome::Passed);
            }
            for task in tasks(step, root, options.long) {
                runner.run(&task).map_err(alone(task.to_string()))?;
            }
            if step != Step::Asan {
                return Ok(Outcome::Passed);
            }
            let build = sanitizing(nightly(root, &format!("build --target {HOST} {ASAN_PYTHON}")));
            python::sanitized(root, &runner, &build, ASAN_OPTIONS).map(|outcome| match outcome {
                Outcome::Skipped(reason) => Outcome::Warned(format!("without Python: {reason}")),
                outcome => outcome,
            })
        }
    };
    own.map_err(alone(format!("cargo xtask test --only {}", step.name())))
}

/// Why a step cannot run here, if it cannot, and how to change that.
fn missing(step: Step, root: &Path) -> Option<String> {
    let has = |program: &str, line: &str| {
        process::works(program, &line.split(' ').collect::<Vec<&str>>())
    };
    let (is_there, reason) = match step {
        Step::Loom => (root.join(LOOM_TEST).is_file(), format!("{LOOM_TEST} does not exist")),
        Step::Miri => (
            has("rustup", "run nightly cargo miri --version"),
            "no miri: rustup toolchain install nightly --component miri,rust-src".to_owned(),
        ),
        Step::Fuzz => (
            has("rustup", "run nightly cargo fuzz --version"),
            "no cargo-fuzz: rustup toolchain install nightly && cargo install cargo-fuzz"
                .to_owned(),
        ),
        Step::Asan | Step::DocsRs => (
            has("rustup", "run nightly rustdoc --version"),
            "no nightly compiler: rustup toolchain install nightly".to_owned(),
        ),
        Step::Oldest => {
            let version = oldest(root);
            (
                oldest_toolchain(root).is_some(),
                format!("no Rust {version}: rustup toolchain install {version} --profile minimal"),
            )
        }
        Step::Deny => (
            has("cargo", "deny --version"),
            "no cargo-deny: cargo install --locked cargo-deny".to_owned(),
        ),
        Step::Semver if last_tag(root).is_none() => {
            (false, "no tag to compare with: the first release is still to come".to_owned())
        }
        Step::Semver => (
            has("cargo", "semver-checks --version"),
            "no cargo-semver-checks: cargo install --locked cargo-semver-checks".to_owned(),
        ),
        _ => return None,
    };
    (!is_there).then_some(reason)
}

/// Chooses the crates that are published.
pub(crate) fn published() -> String {
    let without = UNPUBLISHED.map(|name| format!("--exclude {name}"));
    format!("--workspace {}", without.join(" "))
}

/// The last release, if there was one.
fn last_tag(root: &Path) -> Option<String> {
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v*"];
    let tag = process::output(Command::new("git").current_dir(root).args(words)).ok()?;
    Some(String::from_utf8_lossy(&tag).trim().to_owned())
}

/// The oldest supported compiler, as the workspace's manifest names it.
fn oldest(root: &Path) -> String {
    manifest_value(root, "rust-version").unwrap_or_else(|| "stable".to_owned())
}

/// The name that rustup knows that compiler by, if it is installed.
fn oldest_toolchain(root: &Path) -> Option<String> {
    let version = oldest(root);
    let names = [version.clone(), format!("{version}.0")];
    names.into_iter().find(|name| process::works("rustup", &["run", name, "rustc", "--version"]))
}

/// What the workspace's manifest says for all packages under this name.
pub(crate) fn manifest_value(root: &Path, name: &str) -> Option<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).ok()?;
    let value = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        (key == name).then(|| value.trim_matches('"').to_owned())
    };
    manifest.lines().find_map(value)
}

/// The programs of a step; none for the steps that this program does itself.
fn tasks(step: Step, root: &Path, long: bool) -> Vec<Task> {
    let cargo = |line: &str| built_once(Task::new(root, "cargo", line));
    let nightly = |line: &str| nightly(root, line);
    let tests = |line: &str| {
        let task = cargo(line);
        if long { task.variable("FARSIDE_LONG", "1") } else { task }
    };
    match step {
        Step::Setup | Step::Tidy | Step::Python | Step::Works | Step::Outside | Step::Deb => vec![],
        Step::Fmt => vec![Task::new(root, "cargo", "fmt --all --check")],
        Step::Clippy => vec![cargo("clippy --workspace --all-targets -- -D warnings")],
        Step::Features => std::iter::once(cargo("check -p farside --no-default-features"))
            .chain(FEATURES.iter().map(|feature| {
                cargo(&format!("check -p farside --no-default-features --features {feature}"))
            }))
            // What the fuzzer calls.
            .chain([cargo("rustc -p farside-nic --lib --profile check -- --cfg fuzzing")])
            .collect(),
        // What the tests build, with the same features.
        Step::Build => vec![cargo("build --workspace --exclude farside-python --all-targets")],
        Step::Test => vec![cargo(
            "test --workspace --exclude farside-python --all-targets --no-run \
             --message-format json-render-diagnostics",
        )],
        Step::Doc => vec![
            // With the features of the tests, so that nothing is built again.
            tests("test --workspace --exclude farside-python --doc"),
            cargo("doc --workspace --no-deps").variable("RUSTDOCFLAGS", "-D warnings"),
        ],
        Step::Loom => vec![
            tests("test -p farside-shm --release --test loom_bell")
                .variable("RUSTFLAGS", "--cfg loom")
                .variable("CARGO_TARGET_DIR", &target("loom")),
        ],
        Step::Miri | Step::Asan => sanitized(step, nightly),
        Step::Fuzz => FUZZED
            .iter()
            .map(|target| {
                nightly(&format!("fuzz run {target} -- -max_total_time=60 -max_len=4096"))
            })
            .collect(),
        Step::DocsRs => vec![
            nightly(&format!("doc {} --no-deps --all-features", published()))
                .variable("RUSTDOCFLAGS", "--cfg docsrs -D warnings")
                .variable("CARGO_TARGET_DIR", &target("docs-rs")),
        ],
        Step::Oldest => {
            let toolchain = oldest_toolchain(root).unwrap_or_else(|| oldest(root));
            let line = format!("run {toolchain} cargo check --workspace");
            vec![Task::new(root, "rustup", &line).variable("CARGO_TARGET_DIR", &target("oldest"))]
        }
        Step::Deny => vec![
            cargo("deny check"),
            cargo("deny --manifest-path fuzz/Cargo.toml check --config deny.toml"),
        ],
        Step::Package => vec![cargo(&format!("package --allow-dirty {} --no-verify", published()))],
        Step::Semver => vec![cargo(&format!(
            "semver-checks {} --baseline-rev {}",
            published(),
            last_tag(root).unwrap_or_default()
        ))],
    }
}

/// A line of nightly's `cargo`. A `cargo` that runs another one knows no `+nightly`; rustup does.
fn nightly(root: &Path, line: &str) -> Task {
    Task::new(root, "rustup", &format!("run nightly cargo {line}"))
}

/// The programs of the steps that look for undefined behaviour, given how nightly's `cargo` runs.
fn sanitized(step: Step, nightly: impl Fn(&str) -> Task) -> Vec<Task> {
    if step == Step::Miri {
        let miri = |line: &&str| {
            nightly(&format!("miri test {line}"))
                .variable("CARGO_TARGET_DIR", &target("miri"))
                // Time and files: a test reads both, and neither makes a run less telling.
                .variable("MIRIFLAGS", "-Zmiri-disable-isolation")
                .variable("PROPTEST_CASES", "8")
        };
        return MIRI.iter().map(miri).collect();
    }
    // Only what is built for the target has the sanitizer, and build scripts have not.
    let tests = nightly(&format!("test --target {HOST} --tests {ASAN}"));
    vec![sanitizing(tests).variable("ASAN_OPTIONS", ASAN_OPTIONS)]
}

/// A build with an address sanitizer, in a directory of its own.
fn sanitizing(task: Task) -> Task {
    task.variable("CARGO_TARGET_DIR", &target("asan")).variable("RUSTFLAGS", "-Zsanitizer=address")
}

/// In CI everything is built once: what helps to build again, or to debug, only costs time there.
fn built_once(task: Task) -> Task {
    match setup::in_ci() {
        true => task.variable("CARGO_INCREMENTAL", "0").variable("CARGO_PROFILE_DEV_DEBUG", "none"),
        false => task,
    }
}

/// Where the build of a step lives that has other flags or another compiler: in the same directory
/// it would rebuild everything, twice.
fn target(step: &str) -> String {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join(step).display().to_string()
}

/// The table of all steps.
fn summary(results: &[StepResult]) -> String {
    let mut table = format!("{:<8} {:<8} {:>8}\n", "step", "result", "seconds");
    for result in results {
        let (word, note) = match &result.outcome {
            None => ("not run", ""),
            Some(Err(_)) => ("FAILED", ""),
            Some(Ok(Outcome::Passed)) => ("passed", ""),
            Some(Ok(Outcome::Warned(note))) => ("warned", note.as_str()),
            Some(Ok(Outcome::Skipped(reason))) => ("skipped", reason.as_str()),
        };
        let seconds = result.elapsed.as_secs_f64();
        let line = format!("{:<8} {word:<8} {seconds:>8.1}  {note}", result.step.name());
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// The names of the steps that failed.
fn failed(results: &[StepResult]) -> Vec<String> {
    let failures = results.iter().filter(|result| matches!(result.outcome, Some(Err(_))));
    failures.map(|result| result.step.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs three steps of which the second fails.
    fn three(keep_going: bool) -> Vec<StepResult> {
        run_all(&[Step::Fmt, Step::Build, Step::Loom], keep_going, |_, step| match step {
            Step::Build => bail!("no"),
            Step::Loom => Ok(Outcome::Skipped("no such test".to_owned())),
            _ => Ok(Outcome::Passed),
        })
    }

    #[test]
    fn steps_run_in_their_usual_order() {
        assert_eq!(chosen(&[Step::Doc, Step::Fmt], false), [Step::Fmt, Step::Doc]);
        assert_eq!(chosen(&[], true), Step::value_variants());
        assert!(!chosen(&[], false).contains(&Step::Outside));
    }

    #[test]
    fn a_failure_stops_the_rest_unless_told_to_keep_going() {
        let stopped = three(false);
        assert!(stopped[2].outcome.is_none());
        assert_eq!(failed(&stopped), ["build"]);
        let went_on = three(true);
        assert!(went_on[2].outcome.is_some());
        assert_eq!(failed(&went_on), ["build"]);
    }

    #[test]
    fn the_summary_tells_every_result_apart() {
        let text = summary(&three(true));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("fmt      passed"), "{text}");
        assert!(lines[2].starts_with("build    FAILED"), "{text}");
        assert!(lines[3].starts_with("loom     skipped") && lines[3].ends_with("no such test"));
        assert!(summary(&three(false)).contains("loom     not run"));
    }

    #[test]
    fn long_budgets_reach_tests_and_nothing_else() {
        let root = Path::new("/");
        let line = |step| tasks(step, root, true)[0].to_string();
        assert!(line(Step::Doc).contains("FARSIDE_LONG=1"));
        assert_eq!(line(Step::Fmt), "cargo fmt --all --check");
        assert!(line(Step::Loom).contains("RUSTFLAGS='--cfg loom'"));
        assert!(!line(Step::Features).contains("FARSIDE_LONG"));
    }

    #[test]
    fn a_failed_step_says_how_to_run_it_alone() {
        let runner = Runner::start(Duration::from_secs(60)).unwrap();
        let options = Options {
            long: false,
            only: vec![],
            release: false,
            keep_going: false,
            deadline: 1,
            install: false,
        };
        let nowhere = Path::new("/directory-that-is-not-there");
        let error = run_step(Step::Fmt, nowhere, &options, &runner).unwrap_err();
        assert!(format!("{error:#}").contains("to run it alone: cargo fmt --all --check"));
        let skipped = run_step(Step::Loom, nowhere, &options, &runner).unwrap();
        assert_eq!(skipped, Outcome::Skipped(format!("{LOOM_TEST} does not exist")));
    }
}

//! The test programs of the workspace, two at a time: one that computes beside one that mostly
//! waits for the processes which it starts. `cargo test` runs one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::process::{Runner, Task};

/// The packages whose test programs only compute: threads and simulated ranks.
const COMPUTING: &[&str] = &[
    "farside-check",
    "farside-containers",
    "farside-epoch",
    "farside-fabric",
    "farside-figures",
    "farside-rma",
    "farside-sim",
    "farside-sync",
];
/// Programs of other packages that only compute, too.
const COMPUTING_ALONE: &[(&str, &str)] = &[
    ("farside", "reduction"),
    ("farside", "simulated"),
    ("farside-conformance", "example"),
    ("farside-conformance", "simulated"),
    ("farside-conformance", "threads"),
    ("farside-inspect", "trace"),
    ("farside-races", "generated"),
];
/// How many of the programs that took longest are listed.
const LISTED: usize = 12;

/// A test program as cargo has built it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    package: String,
    version: String,
    /// What cargo calls it: `lib`, `bin` or `test`.
    kind: String,
    name: String,
    path: PathBuf,
    directory: PathBuf,
}

impl Program {
    /// Reads a line of what cargo says of its work; `None` if it is about something else.
    fn of_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if !message["profile"]["test"].as_bool()? {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        // `path+file:///directory#name@version`, without the name where the directory has it.
        let (place, version) = message["package_id"].as_str()?.rsplit_once('#')?;
        let (package, version) =
            version.split_once('@').unwrap_or((place.rsplit('/').next()?, version));
        let kind = text(&message["target"]["kind"][0])?;
        Some(Self {
            package: package.to_owned(),
            version: version.to_owned(),
            kind: if matches!(kind.as_str(), "bin" | "test") { kind } else { "lib".to_owned() },
            name: text(&message["target"]["name"])?,
            path,
            directory,
        })
    }

    fn computes(&self) -> bool {
        COMPUTING.contains(&self.package.as_str())
            || COMPUTING_ALONE.contains(&(self.package.as_str(), self.name.as_str()))
    }

    /// What runs it alone.
    fn command(&self) -> String {
        let which = match self.kind.as_str() {
            "lib" => "--lib".to_owned(),
            kind => format!("--{kind} {}", self.name),
        };
        format!("cargo test -p {} {which}", self.package)
    }

    fn task(&self, variables: &[(&str, String)], printed: &Path) -> Task {
        let task = Task::new(&self.directory, &self.path.display().to_string(), "")
            .variable("CARGO_MANIFEST_DIR", &self.directory.display().to_string())
            .variable("CARGO_PKG_NAME", &self.package)
            .variable("CARGO_PKG_VERSION", &self.version)
            .printed_to(printed.join(format!("{}-{}-{}", self.package, self.kind, self.name)));
        variables.iter().fold(task, |task, (name, value)| task.variable(name, value))
    }
}

/// What became of one program.
struct Run {
    program: Program,
    elapsed: Duration,
    end: Result<()>,
}

/// Builds the tests by `build`, a `cargo test` with `--no-run`, and runs them with these variables.
/// What they print goes to `target/tests`, and is shown when they end.
pub(crate) fn run(
    root: &Path,
    runner: &Runner,
    build: Task,
    variables: &[(&str, String)],
) -> Result<()> {
    let printed = root.join("target/tests");
    fs::create_dir_all(&printed).context("cannot make target/tests")?;
    let messages = printed.join("messages");
    runner.run(&build.output_to(messages.clone()))?;
    let said = fs::read_to_string(&messages).context("cannot read what cargo said")?;
    let mut programs: Vec<Program> = said.lines().filter_map(Program::of_message).collect();
    programs.sort_by_key(Program::command);
    if programs.is_empty() {
        bail!("cargo has built no test program");
    }
    let (computing, others): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::computes);
    let runs = Mutex::new(Vec::new());
    let lane = |programs: Vec<Program>| {
        for program in programs {
            let started = Instant::now();
            let task = program.task(variables, &printed);
            let end = runner.run_quietly(&task);
            let run = Run { program, elapsed: started.elapsed(), end };
            let mut runs = runs.lock().expect("no lane panics while it has the lock");
            show(&run, &task);
            runs.push(run);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lane(computing));
        lane(others);
    });
    judge(runs.into_inner().expect("no lane panics while it has the lock"))
}

/// Prints what a program has printed, and how it ended.
fn show(run: &Run, task: &Task) {
    let said = task.printed().and_then(|file| fs::read(file).ok()).unwrap_or_default();
    let seconds = run.elapsed.as_secs_f64();
    let end = run.end.as_ref().map_or_else(|error| format!("{error:#}"), |()| "passed".to_owned());
    println!(
        "\n--- {} {}: {end}, {seconds:.1} s\n{}",
        run.program.package,
        run.program.name,
        String::from_utf8_lossy(&said).trim()
    );
}

/// Lists what took longest; an error names the programs that failed.
fn judge(mut runs: Vec<Run>) -> Result<()> {
    runs.sort_by_key(|run| std::cmp::Reverse(run.elapsed));
    println!("\nthe programs that took longest:");
    for run in runs.iter().take(LISTED) {
        println!("{:>8.1} s  {}", run.elapsed.as_secs_f64(), run.program.command());
    }
    let failed: Vec<String> =
        runs.iter().filter(|run| run.end.is_err()).map(|run| run.program.command()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "{} of {} test programs failed\n    to run them alone: {}",
        failed.len(),
        runs.len(),
        failed.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(test: bool, kind: &str, name: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///w/crates/rma#farside-rma@0.1.0",
            "manifest_path": "/w/crates/rma/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": test },
            "executable": format!("/w/target/debug/deps/{name}-1"),
        })
        .to_string()
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let program = Program::of_message(&message(true, "test", "teams")).unwrap();
        assert_eq!(program.command(), "cargo test -p farside-rma --test teams");
        assert_eq!((program.version.as_str(), program.computes()), ("0.1.0", true));
        assert_eq!(program.directory, Path::new("/w/crates/rma"));
        let library = Program::of_message(&message(true, "cdylib", "farside_rma")).unwrap();
        assert_eq!(library.command(), "cargo test -p farside-rma --lib");
        assert_eq!(Program::of_message(&message(false, "example", "ring")), None);
        assert_eq!(Program::of_message(r#"{"reason":"build-finished"}"#), None);
        let xtask = message(true, "bin", "xtask").replace("rma#farside-rma@", "xtask#");
        assert_eq!(Program::of_message(&xtask).unwrap().package, "xtask");
    }

    #[test]
    fn a_program_that_fails_is_named() {
        let run = |name: &str, end| Run {
            program: Program::of_message(&message(true, "test", name)).unwrap(),
            elapsed: Duration::ZERO,
            end,
        };
        judge(vec![run("teams", Ok(()))]).unwrap();
        let error = judge(vec![run("teams", Ok(())), run("words", Err(anyhow!("no")))]);
        let said = error.unwrap_err().to_string();
        assert!(said.contains("1 of 2") && said.contains("-p farside-rma --test words"), "{said}");
    }
}

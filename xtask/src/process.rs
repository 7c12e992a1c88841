//! Running a program under a deadline, with everything it starts.
//!
//! A test that hangs usually hangs in a process that the test started, so what is killed is the
//! whole process group. A group of its own does not receive the terminal's interrupt; the runner
//! therefore passes interruption on by killing the group before it dies itself.

use std::fmt;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    directory: PathBuf,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    printed: Printed,
}

/// Where what a task prints goes.
#[derive(Clone, Debug)]
enum Printed {
    /// Where this program's output goes.
    Here,
    /// Its standard output into a file.
    Output(PathBuf),
    /// Everything into a file.
    All(PathBuf),
}

impl Task {
    /// A run of `program` in `directory`, with the arguments that `line` separates by blanks.
    pub(crate) fn new(directory: impl Into<PathBuf>, program: &str, line: &str) -> Self {
        Self {
            directory: directory.into(),
            program: program.to_owned(),
            arguments: line.split_whitespace().map(str::to_owned).collect(),
            environment: Vec::new(),
            printed: Printed::Here,
        }
    }

    /// The same, with its standard output in a file.
    pub(crate) fn output_to(mut self, file: PathBuf) -> Self {
        self.printed = Printed::Output(file);
        self
    }

    /// The file that has all it prints, if there is one.
    pub(crate) fn printed(&self) -> Option<&Path> {
        match &self.printed {
            Printed::All(file) => Some(file),
            Printed::Here | Printed::Output(_) => None,
        }
    }

    /// The same, with all that it prints in a file.
    pub(crate) fn printed_to(mut self, file: PathBuf) -> Self {
        self.printed = Printed::All(file);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self) -> Result<Command> {
        // Under `cargo run` the variable names the very cargo that was asked for.
        let mut command = match (self.program.as_str(), std::env::var_os("CARGO")) {
            ("cargo", Some(cargo)) => Command::new(cargo),
            (program, _) => Command::new(program),
        };
        command
            .current_dir(&self.directory)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // A background group that reads the terminal is stopped, which would look like a hang.
            .stdin(Stdio::null())
            .process_group(0);
        let create =
            |file: &PathBuf| File::create(file).with_context(|| format!("cannot write {file:?}"));
        match &self.printed {
            Printed::Here => {}
            Printed::Output(file) => {
                command.stdout(create(file)?);
            }
            Printed::All(file) => {
                let file = create(file)?;
                command.stdout(file.try_clone()?).stderr(file);
            }
        }
        Ok(command)
    }
}

/// The task as a line for a shell.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

/// Runs tasks, until a moment.
pub(crate) struct Runner {
    /// The groups of the tasks that run now; the thread that receives signals reads them.
    groups: Arc<Mutex<Vec<Pid>>>,
    until: Instant,
}

impl Runner {
    /// Begins to receive the signals that ask this process to end. All that runs takes this time at
    /// the most.
    pub(crate) fn start(at_most: Duration) -> Result<Self> {
        let groups = Arc::new(Mutex::new(Vec::<Pid>::new()));
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot receive signals")?;
        thread::spawn({
            let groups = Arc::clone(&groups);
            move || {
                for signal in signals.forever() {
                    // The lock stays held: no task may start between this kill and our own end.
                    let groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
                    groups.iter().copied().for_each(kill);
                    if emulate_default_handler(signal).is_err() {
                        std::process::exit(1);
                    }
                }
            }
        });
        Ok(Self { groups, until: Instant::now() + at_most })
    }

    /// The same, from now on.
    pub(crate) fn again(&self, at_most: Duration) -> Self {
        Self { groups: Arc::clone(&self.groups), until: Instant::now() + at_most }
    }

    /// Prints `task` and runs it to its end, or kills it with its whole group when time is up. An
    /// error names the task and says what became of it.
    pub(crate) fn run(&self, task: &Task) -> Result<()> {
        println!("$ {task}");
        self.run_quietly(task).map_err(|error| anyhow!("`{task}` {error:#}"))
    }

    /// Runs `task` without printing it; an error says what became of it.
    pub(crate) fn run_quietly(&self, task: &Task) -> Result<()> {
        let started = Instant::now();
        let (mut child, group) = {
            let mut command = task.command()?;
            let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            let child = command.spawn().context("did not start")?;
            let group = Pid::from_child(&child);
            groups.push(group);
            (child, group)
        };
        let (sender, ended) = mpsc::channel();
        let waiter = thread::spawn(move || {
            // Nobody listens any more when the deadline has passed, and nothing is lost by that.
            let _ = sender.send(child.wait());
        });
        let left = self.until.saturating_duration_since(Instant::now());
        let result = match ended.recv_timeout(left) {
            Ok(status) => status.context("could not be waited for").and_then(explain),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                kill(group);
                Err(anyhow!(
                    "was killed with its process group after {} s, at the deadline of its step",
                    started.elapsed().as_secs()
                ))
            }
        };
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).retain(|&of| of != group);
        waiter.join().map_err(|_| anyhow!("the thread that waited for it panicked"))?;
        result
    }
}

fn kill(group: Pid) {
    // The only failure that can happen is that the group has already gone, which is what we want.
    let _ = kill_process_group(group, Signal::KILL);
}

/// An error that says how a process ended, unless it ended well.
fn explain(status: ExitStatus) -> Result<()> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(anyhow!("exited with status {code}")),
        (None, Some(signal)) => Err(anyhow!("was killed by signal {signal}")),
        (None, None) => Err(anyhow!("ended with {status}")),
    }
}

/// Runs a command that takes no time, and returns what it prints.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", complaint.trim());
    Ok(output.stdout)
}

/// Returns whether a program runs, with these arguments, to a good end.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `word` as a shell must see it to read exactly that word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Task {
        let mut task = Task::new("/", "sh", "-c");
        task.arguments.push(script.to_owned());
        task
    }

    #[test]
    fn the_end_of_a_task_is_reported() {
        let runner = Runner::start(LONG).unwrap();
        let flags = shell("test \"$FLAGS\" = '--cfg loom'").variable("FLAGS", "--cfg loom");
        runner.run(&flags).unwrap();
        for (task, end) in [
            (shell("exit 3"), "exited with status 3"),
            (shell("kill -TERM $$"), "was killed by signal 15"),
            (Task::new("/", "a-program-nobody-has", ""), "did not start"),
        ] {
            let said = runner.run(&task).unwrap_err().to_string();
            assert!(said.starts_with(&format!("`{task}` {end}")), "{said}");
        }
    }

    #[test]
    fn at_the_deadline_what_the_task_started_dies_too() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("grandchild");
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let runner = Runner::start(Duration::from_secs(2)).unwrap();
        let late = runner.run(&shell(&script)).unwrap_err();
        assert!(late.to_string().contains("deadline"), "{late}");

        let grandchild = fs::read_to_string(&file).unwrap();
        let limit = Instant::now() + LONG;
        while is_alive(grandchild.trim()) {
            assert!(Instant::now() < limit, "process {grandchild} survived");
            thread::yield_now();
        }
    }

    /// A zombie is dead: whether it is collected depends on the machine's first process.
    fn is_alive(process: &str) -> bool {
        fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_task_prints_as_a_line_for_a_shell() {
        let mut task =
            Task::new("/", "cargo", "test --workspace").variable("RUSTFLAGS", "--cfg loom");
        task.arguments.push("it's".to_owned());
        assert_eq!(task.to_string(), r"RUSTFLAGS='--cfg loom' cargo test --workspace 'it'\''s'");
    }
}

//! Programs that `farside check PROGRAM` explores, inside of the program that has them.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farside_fabric::{Error, Result};
use farside_job::{Entry, Explored, RunAs};
use farside_races::quoted;
use farside_rma::World;

use crate::entry::MainResult;
use crate::sim::{Progress, Run};

use super::describe::replayed;
use super::explore::{Check, Finding, Outcome};

/// A program to explore.
pub struct Registered {
    name: &'static str,
    check: Check,
    explore: Box<Explore>,
    replay: Box<Replay>,
}

type Replay = dyn Fn(&Check, &str) -> Result<Run>;
type Explore = dyn Fn(&Check, &mut dyn FnMut(&Progress)) -> Result<Finding>;

impl Registered {
    /// A program of so many ranks.
    pub fn new<R: MainResult + 'static>(
        name: &'static str,
        ranks: u32,
        program: impl Fn(&World) -> R + 'static,
    ) -> Registered {
        let program: Rc<dyn Fn(&World) -> R> = Rc::new(program);
        let again = program.clone();
        Registered {
            name,
            check: Check::new(ranks),
            explore: Box::new(move |check, watch| check.explore_watched(program.clone(), watch)),
            replay: Box::new(move |check, schedule| check.replay_shared(again.clone(), schedule)),
        }
    }
}

/// Explores programs as `farside check` asks, or all of them; returns the exit status.
pub fn run(programs: Vec<Registered>) -> ExitCode {
    let explored = match Entry::from_environment() {
        Ok(None) => explore_all(&programs, &Explored::default(), None),
        Ok(Some(entry)) => match &entry.run_as {
            RunAs::Explored(explored) => {
                entry.take().and_then(|()| explore_all(&programs, explored, Some(&entry)))
            }
            _ => Err(Error::InvalidSetting(
                "this program lists others to be explored: start it with `farside check`, or alone"
                    .into(),
            )),
        },
        Err(error) => Err(error),
    };
    explored.unwrap_or_else(|error| {
        // If standard error is closed, the status alone tells of the failure.
        let _ = writeln!(std::io::stderr(), "error: {error}");
        ExitCode::FAILURE
    })
}

/// Explores the one program that `#[farside::main]` has.
pub(crate) fn explore_entry(
    entry: &Entry,
    explored: &Explored,
    program: impl Fn(&World) -> Result<()> + 'static,
) -> Result<ExitCode> {
    explore_all(&[Registered::new("main", 2, program)], explored, Some(entry))
}

fn explore_all(
    programs: &[Registered],
    asked: &Explored,
    entry: Option<&Entry>,
) -> Result<ExitCode> {
    let is_meant = |program: &&Registered| {
        asked.names.is_empty() || asked.names.iter().any(|name| name == program.name)
    };
    let unknown = |name: &&String| programs.iter().all(|program| program.name != name.as_str());
    if let Some(name) = asked.names.iter().find(unknown) {
        let known: Vec<&str> = programs.iter().map(|program| program.name).collect();
        return Err(Error::InvalidArgument(format!(
            "there is no {name} in this program; it has {}",
            known.join(", ")
        )));
    }
    let chosen: Vec<&Registered> = programs.iter().filter(is_meant).collect();
    if let Some(schedule) = &asked.replay {
        let [program] = &chosen[..] else {
            return Err(Error::InvalidArgument(format!(
                "a schedule belongs to one program, and {} were chosen: name it",
                chosen.len()
            )));
        };
        let check = adjusted(&program.check, asked);
        let run = (program.replay)(&check, schedule)?;
        print(&format!("{}\n", replayed(check.ranks, &run)))?;
        let passed = run.verdict == crate::sim::Verdict::Passed;
        return Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut good = true;
    for program in chosen {
        let check = adjusted(&program.check, asked);
        let mut meter = Meter::new(program.name);
        let begin = Instant::now();
        let finding = (program.explore)(&check, &mut |progress| meter.show(progress))?;
        meter.clear();
        good &= match finding.outcome {
            Outcome::Failed => false,
            Outcome::Bounded => !asked.fails_on_bounded,
            Outcome::Exhaustive | Outcome::Sampled => true,
        };
        print(&format!("{}: {}", program.name, finding.describe(&|it| again(program, asked, it))))?;
        if let Some(entry) = entry {
            entry.summarize(&json(program.name, &finding, begin.elapsed()))?;
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(text: &str) -> Result<()> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Error::Program(format!("writing what was found: {error}")))
}

/// What a program asks for by itself, as far as nothing else is asked for.
fn adjusted(check: &Check, asked: &Explored) -> Check {
    let check = check.clone();
    Check {
        ranks: asked.ranks.unwrap_or(check.ranks),
        topology: asked.topology.clone().or(check.topology),
        policy: asked.policy.clone().unwrap_or(check.policy),
        seed: asked.seed.unwrap_or(check.seed),
        schedules: asked.schedules.or(check.schedules),
        deaths: asked.deaths.unwrap_or(check.deaths),
        torn: asked.torn || check.torn,
        races: check.races && !asked.ignores_races,
    }
}

/// The command that shows a schedule again.
fn again(program: &Registered, asked: &Explored, schedule: &str) -> String {
    let path = std::env::args().next().unwrap_or_default();
    let mut command = format!("farside check {path} {}", program.name);
    let check = adjusted(&program.check, asked);
    command += &format!(" --ranks {}", check.ranks);
    if let Some(topology) = &check.topology {
        command += &format!(" --topology {topology}");
    }
    if check.deaths > 0 {
        command += &format!(" --deaths {}", check.deaths);
    }
    if check.torn {
        command += " --torn";
    }
    command += &format!(" --replay '{schedule}'");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.is_empty() {
        true => command,
        false => format!("{command} -- {}", arguments.join(" ")),
    }
}

/// What was found, as one line of JSON.
fn json(name: &str, finding: &Finding, time: Duration) -> String {
    let (check, report) = (&finding.check, &finding.report);
    let text = |text: Option<String>| text.map_or("null".into(), |text| quoted(&text));
    let problem = report.failure.as_ref().map(|failure| failure.problem.clone());
    let problem = finding.race.as_ref().map(ToString::to_string).or(problem);
    format!(
        "{{\"check\":{},\"outcome\":\"{}\",\"good\":{},\"ranks\":{},\"topology\":{},\"deaths\":{},\
         \"policy\":{},\"seed\":{},\"schedules\":{},\"steps\":{},\"complete\":{},\"time_s\":{:.3},\
         \"race\":{},\"cure\":{},\"problem\":{},\"schedule\":{}}}",
        quoted(name),
        finding.outcome.to_string().to_lowercase(),
        finding.outcome != Outcome::Failed,
        check.ranks,
        text(check.topology.clone()),
        check.deaths,
        quoted(&check.policy),
        check.seed,
        report.runs,
        report.steps,
        report.complete,
        time.as_secs_f64(),
        finding.race.is_some(),
        text(finding.cure.as_ref().map(ToString::to_string)),
        text(problem),
        text(report.failure.as_ref().map(|failure| failure.schedule.clone())),
    )
}

/// Shows on a terminal how far an exploration is.
struct Meter {
    name: &'static str,
    begin: Instant,
    shown: Option<Instant>,
    is_on: bool,
}

impl Meter {
    fn new(name: &'static str) -> Meter {
        let is_on = std::io::stderr().is_terminal();
        Meter { name, begin: Instant::now(), shown: None, is_on }
    }

    fn show(&mut self, progress: &Progress) {
        let last = self.shown.unwrap_or(self.begin);
        if self.is_on && last.elapsed() > Duration::from_millis(200) {
            self.shown = Some(Instant::now());
            let (runs, depth) = (progress.runs, progress.depth);
            let rate = runs as f64 / self.begin.elapsed().as_secs_f64();
            let name = self.name;
            // What cannot be shown is not needed.
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[K{name}: {runs} schedules ({rate:.0}/s), depth {depth}"
            );
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

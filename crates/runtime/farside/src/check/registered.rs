//! Programs that `farside check PROGRAM` explores, inside of the program that has them.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farside_fabric::text::counted;
use farside_fabric::{Error, Result};
use farside_job::{Entry, Explored, RunAs};
use farside_races::{NOTHING_CHECKED, quoted};
use farside_rma::World;

use crate::entry::MainResult;
use crate::sim::{Progress, Run};

use super::explore::{Check, Finding, Outcome};
use super::quiet::{Quiet, copy};
use super::trace::replayed;

/// The random schedules that are tried before an exhaustive search, unless a number of schedules
/// is asked for.
const RANDOM_FIRST: u64 = 100;
/// How often it is said how far an exploration is.
const INTERVAL: Duration = Duration::from_millis(200);

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
    let (mut good, mut is_seen) = (true, true);
    for program in chosen {
        let check = adjusted(&program.check, asked);
        let begin = Instant::now();
        let finding = explore(program, &check, entry)?;
        if let Some(failure) = &finding.report.failure {
            // What the program writes in the schedule that failed, and in no other.
            (program.replay)(&check, &failure.schedule)?;
        }
        good &= match finding.outcome {
            Outcome::Failed => false,
            Outcome::Bounded => !asked.fails_on_bounded,
            Outcome::Exhaustive | Outcome::Partial | Outcome::Sampled => true,
        };
        is_seen &= finding.no_race_looked_for().is_none();
        print(&format!("{}: {}", program.name, finding.describe(&|it| again(program, asked, it))))?;
        if let Some(entry) = entry {
            entry.summarize(&json(program.name, &finding, begin.elapsed()))?;
        }
    }
    Ok(match entry {
        _ if !good => ExitCode::FAILURE,
        // A command that was to look for races must not end as if there were none.
        Some(_) if !is_seen => ExitCode::from(NOTHING_CHECKED),
        _ => ExitCode::SUCCESS,
    })
}

/// Explores a program, in silence, and says how far it is.
fn explore(program: &Registered, check: &Check, entry: Option<&Entry>) -> Result<Finding> {
    let mut meter = Meter::new(program.name, entry)?;
    let quiet = Quiet::new()?;
    let finding = (program.explore)(check, &mut |progress| meter.show(progress));
    drop(quiet);
    meter.clear();
    finding
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
        budget: asked.budget_ms.map(Duration::from_millis).or(check.budget),
        random_first: if asked.schedules.is_none() { RANDOM_FIRST } else { 0 },
        is_alone: true,
        deaths: asked.deaths.unwrap_or(check.deaths),
        slow_news: asked.slow_news || check.slow_news,
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
    if check.slow_news {
        command += " --slow-news";
    }
    if check.torn {
        command += " --torn";
    }
    if !check.races {
        command += " --no-races";
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
    let unseen: Vec<String> = report.unseen.iter().map(|it| quoted(&it.to_string())).collect();
    format!(
        "{{\"check\":{},\"outcome\":\"{}\",\"good\":{},\"ranks\":{},\"topology\":{},\"deaths\":{},\
         \"policy\":{},\"seed\":{},\"random_first\":{},\"schedules\":{},\"steps\":{},\
         \"complete\":{},\"unseen\":[{}],\"time_s\":{:.3},\"race\":{},\"accesses\":{},\
         \"races_not_seen\":{},\"cure\":{},\"problem\":{},\"schedule\":{}}}",
        quoted(name),
        finding.outcome.to_string().to_lowercase(),
        finding.outcome != Outcome::Failed,
        check.ranks,
        text(check.topology.clone()),
        check.deaths,
        quoted(&check.policy),
        check.seed,
        finding.random_first,
        report.runs,
        report.steps,
        report.complete && report.unseen.is_empty(),
        unseen.join(","),
        time.as_secs_f64(),
        finding.race.is_some(),
        finding.coverage.as_ref().map_or(0, |coverage| coverage.accesses),
        text(finding.coverage.as_ref().and_then(|coverage| coverage.not_seen())),
        text(finding.cure.as_ref().map(ToString::to_string)),
        text(problem),
        text(report.failure.as_ref().map(|failure| failure.schedule.clone())),
    )
}

/// Says how far an exploration is: on a terminal, and to the launcher.
struct Meter<'e> {
    name: &'static str,
    begin: Instant,
    said: Option<Instant>,
    /// The schedules of a search that is over: the random ones.
    earlier: u64,
    last: u64,
    terminal: Option<File>,
    entry: Option<&'e Entry>,
}

impl Meter<'_> {
    fn new<'e>(name: &'static str, entry: Option<&'e Entry>) -> Result<Meter<'e>> {
        let stderr = std::io::stderr();
        let terminal = match stderr.is_terminal() {
            true => Some(File::from(copy(stderr)?)),
            false => None,
        };
        let now = Instant::now();
        Ok(Meter { name, begin: now, said: None, earlier: 0, last: 0, terminal, entry })
    }

    fn show(&mut self, progress: &Progress) {
        if progress.runs < self.last {
            self.earlier += self.last;
        }
        self.last = progress.runs;
        if self.said.is_some_and(|said| said.elapsed() < INTERVAL) {
            return;
        }
        self.said = Some(Instant::now());
        let (name, runs, depth) = (self.name, self.earlier + progress.runs, progress.depth);
        let seconds = self.begin.elapsed().as_secs_f64();
        // What cannot be shown is not needed.
        if let Some(entry) = self.entry {
            let tried = counted(runs, "schedule");
            let _ = entry.progress(&format!("{name}: {tried} in {seconds:.1} s"));
        }
        if let Some(terminal) = &mut self.terminal {
            let rate = runs as f64 / seconds;
            let _ =
                write!(terminal, "\r\x1b[K{name}: {runs} schedules ({rate:.0}/s), depth {depth}");
        }
    }

    fn clear(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            let _ = write!(terminal, "\r\x1b[K");
        }
    }
}

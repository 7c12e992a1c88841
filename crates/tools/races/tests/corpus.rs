//! Labelled programs: the checker finds every race, and reports none where there is none.
//!
//! Each program runs on threads over shared memory and in random schedules, a part of them over a
//! network between nodes, and a part as processes.

#[path = "corpus/rust.rs"]
mod rust;

use std::process::ExitCode;
use std::time::Duration;

use farside::check::Check;
use farside::{Local, Result, World};
use farside_launch::Launch;
use farside_races::{Checker, Report, VARIABLE};
use rust::{CASES, Case, It};

const RANKS: u32 = 3;
const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name] = &arguments[..]
        && word == "rank"
    {
        return as_rank(name);
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut wrong = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        if wanted.is_some_and(|wanted| !case.name.contains(wanted.as_str())) {
            continue;
        }
        let mut judge = |how: &str, report: Result<Report>| match report {
            Ok(report) if report.races.is_empty() != case.is_racy && report.unseen.is_empty() => {}
            Ok(report) => wrong.push(format!("{} ({how}): {report}", case.name)),
            Err(error) => wrong.push(format!("{} ({how}) failed: {error}", case.name)),
        };
        // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
        let mut report = on_threads(case, None);
        for _ in 0..2 {
            if case.is_racy && report.as_ref().is_ok_and(|report| report.races.is_empty()) {
                report = on_threads(case, None);
            }
        }
        judge("threads", report);
        if number % 6 == 0 {
            judge("two nodes", on_threads(case, Some(3)));
        }
        if number % 6 == 3 {
            judge("processes", as_processes(case));
        }
        if let Some(found) = explored(case)
            && found != Ok(case.is_racy)
        {
            wrong.push(format!("{} (explored): {found:?}", case.name));
        }
    }
    println!("{} programs, {} judged wrongly", CASES.len(), wrong.len());
    wrong.iter().for_each(|line| println!("{line}"));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn on_threads(case: &Case, nodes: Option<u32>) -> Result<Report> {
    let checker = Checker::new(RANKS)?;
    let over = checker.clone();
    let local = Local::new(RANKS)?;
    let local = match nodes {
        Some(nodes) => local.nodes(nodes),
        None => local,
    };
    let over = move |fabric| over.over(fabric).expect("the job has as many ranks");
    local.decorate(over).run(|world| It::run(world, case))?;
    Ok(checker.report())
}

/// Whether a race is found in a few random schedules; `None` if the program cannot be explored.
fn explored(case: &'static Case) -> Option<std::result::Result<bool, String>> {
    // Some races show in few schedules.
    let schedules = if case.is_racy { 500 } else { 20 };
    let check = Check::new(RANKS).policy("random").schedules(schedules);
    let finding = check.explore(move |world: &World| It::run(world, case)).expect("it can be run");
    match (finding.report.failure, finding.race) {
        (Some(failure), None) if failure.problem.contains("a fiber has one") => None,
        (Some(failure), None) => Some(Err(failure.problem)),
        (_, race) => Some(Ok(race.is_some())),
    }
}

fn as_processes(case: &Case) -> Result<Report> {
    let checker = Checker::create(RANKS, false)?;
    let path = checker.path().expect("it has a file");
    let me = std::env::current_exe().expect("a test knows its own program");
    let launch = Launch::new(me, RANKS).expect("the environment is in order");
    let launch = launch.arguments(["rank", case.name]).variable(VARIABLE, path);
    let ended = launch.timeout(DEADLINE).run().expect("the job starts");
    assert_eq!(ended.status, 0, "{}: {:?}", case.name, ended.failures);
    Ok(checker.report())
}

fn as_rank(name: &str) -> ExitCode {
    let case = CASES.iter().find(|case| case.name == name).expect("the test names a case");
    match farside::join().and_then(|world| It::run(&world, case)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

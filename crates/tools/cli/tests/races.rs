//! `farside run --races` on every fabric, on several nodes and on several hosts. The programs are
//! the labelled ones of the checker's own tests, which are part of this file and started again as
//! the ranks.

mod support;

#[path = "../../races/tests/corpus/rust.rs"]
mod corpus;

use std::process::ExitCode;

use corpus::{CASES, Case, It};
use farside::dsm::{Config, Dsm};
use farside::{GlobalArray, HashMap, Rank, World};
use farside_testing::namespaces::{Namespaces, RSH};
use rustix::process::Signal;
use serde_json::Value;
use support::{Finished, Start, run_own, tests};

/// The exit status of a job that has races.
const RACES: i32 = 66;
/// The exit status of a job of which nothing was looked at.
const NOTHING_CHECKED: i32 = 67;

tests! {
    a_race_across_two_hosts_names_both_places what_is_not_looked_into_is_no_success
    what_is_looked_into_in_part_is_named a_program_that_makes_its_own_job_is_told
    two_signals_name_both_places_and_a_fence labelled_programs_on_two_hosts
    labelled_programs_on_two_nodes labelled_programs_over_ofi
    labelled_programs_on_two_nodes_over_ofi a_race_ends_a_job_of_two_hosts
    a_host_that_is_lost_ends_the_job a_host_that_is_cut_off_ends_the_job
}

fn main() -> ExitCode {
    let words = support::words();
    match &words[..] {
        [word, name] if word == "program" && name == "by_itself" => by_itself(),
        [word, name] if word == "program" => as_rank(name),
        _ => support::run_tests(TESTS, &words),
    }
}

fn as_rank(name: &str) -> ExitCode {
    let unseen = UNSEEN.iter().find(|(unseen, _)| *unseen == name);
    let run = |world: &World| match (CASES.iter().find(|case| case.name == name), unseen) {
        (Some(case), _) => It::run(world, case),
        (None, Some((_, program))) => program(world),
        (None, None) => for_ever(world, name == "loses_its_host"),
    };
    match farside::join().and_then(|world| run(&world)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Program = fn(&World) -> farside::Result<()>;

/// Programs that the checker does not look into, or in part.
const UNSEEN: &[(&str, Program)] = &[
    ("maps and sets", |world| {
        let map = HashMap::<u64, u64>::new(world)?;
        map.fetch_add(world, 7, 1)?;
        world.barrier()?;
        map.free(world)
    }),
    ("global arrays", |world| {
        let array = GlobalArray::<u64>::new(world, &[8])?;
        array.fill(1)?;
        array.sync()?;
        array.free()
    }),
    ("shared pages", |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        let one = dsm.alloc::<u64>(1)?;
        dsm.locked(1, |dsm| dsm.set(one, 0, 1))?;
        dsm.barrier()?;
        dsm.close()
    }),
    ("nothing at all", |world| world.barrier()),
    ("a map and a window", |world| {
        let map = HashMap::<u64, u64>::new(world)?;
        let window = world.window::<u64>(1)?;
        window.own().set(0, 1)?;
        window.free(world)?;
        map.free(world)
    }),
];

/// A program that does not join the job it was started for.
fn by_itself() -> ExitCode {
    match farside::local(2, |world| world.barrier()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Puts to the next rank and waits for the one before, until something fails; rank 1 may see to
/// that.
fn for_ever(world: &World, loses_host: bool) -> farside::Result<()> {
    let window = world.window::<u64>(2)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    for round in 1.. {
        world.put_signal(&[round], window.at(next, 0), round, window.at(next, 1))?;
        world.wait(window.at(world.rank(), 1), |held| held >= round)?;
        if round == 3 {
            println!("ready");
        }
        if loses_host && round == 100 && world.rank() == Rank(1) {
            let daemon = rustix::process::getppid().expect("a daemon has started this");
            rustix::process::kill_process(daemon, Signal::KILL).expect("the daemon is its user's");
        }
    }
    Ok(())
}

/// The options of three ranks on two hosts.
fn hosts(namespaces: &Namespaces) -> [String; 4] {
    let [a, b] = [0, 1].map(|at| format!("{}={}", namespaces.names()[at], namespaces.address(at)));
    ["--hosts".into(), format!("{a}:1,{b}:2"), "--rsh".into(), RSH.into()]
}

fn checked(options: &[impl AsRef<str>], how: &[&str], name: &str) -> Start {
    let options = options.iter().map(AsRef::as_ref);
    let options: Vec<&str> = options.chain(how.iter().copied()).collect();
    run_own(&options, &[name])
}

/// Runs every so-many-th program, beginning with one of them; all must be judged rightly.
fn judge(options: &[impl AsRef<str>], (first, step): (usize, usize)) {
    let is_right = |case: &Case, finished: &Finished| {
        let races = finished.stderr().matches("RACE on").count();
        match case.is_racy {
            true => finished.status.code() == Some(RACES) && races > 0,
            false => finished.status.code() == Some(0) && races == 0,
        }
    };
    let mut wrong = String::new();
    for case in CASES.iter().skip(first).step_by(step) {
        let mut finished = checked(options, &["--races"], case.name).run();
        // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
        if case.is_racy && !is_right(case, &finished) {
            finished = checked(options, &["--races"], case.name).run();
        }
        if !is_right(case, &finished) {
            let status = finished.status.code();
            wrong += &format!("{}, status {status:?}: {}\n", case.name, finished.stderr());
        }
    }
    assert!(wrong.is_empty(), "judged wrongly:\n{wrong}");
}

fn a_race_across_two_hosts_names_both_places() {
    let Some(namespaces) = Namespaces::wanted(2) else { return };
    let options = hosts(&namespaces);
    // Rank 0 is on one host, rank 1 on the other.
    let finished = checked(&options, &["--races", "--json"], "put_then_signal").run();
    let finished = finished.ends_with(RACES);
    let said = finished.stderr();
    let race = said.lines().find(|line| line.starts_with("{\"race\":")).expect(&said);
    let race: Value = serde_json::from_str(race).unwrap();
    let side = |at: usize| {
        let side = &race["race"][at];
        let place = side["place"].as_str().unwrap().to_owned();
        (side["rank"].as_u64(), side["operation"].as_str().unwrap().to_owned(), place)
    };
    let sides = [side(0), side(1)];
    let of = |rank: u64| sides.iter().find(|side| side.0 == Some(rank)).expect(&said);
    assert_eq!((of(0).1.as_str(), of(1).1.as_str()), ("put", "read"), "{said}");
    assert!(sides.iter().all(|side| side.2.contains("corpus/it.rs:")), "{said}");
    assert_ne!(sides[0].2, sides[1].2);
    assert_eq!(race["window"], "window \"data\"");
    let right = checked(&options, &["--races"], "put_fence_signal").run().ends_with(0);
    right.says(&["races: no race found in "]);
}

fn what_is_not_looked_into_is_no_success() {
    for (name, why) in [
        ("maps and sets", "accesses inside maps and sets cannot be seen"),
        ("global arrays", "accesses inside global arrays cannot be seen"),
        ("shared pages", "accesses to shared pages cannot be seen"),
        ("nothing at all", "the program used no shared memory"),
        ("by_itself", "no rank has joined the job"),
    ] {
        let finished = checked(&["-n", "2"], &["--races"], name).run().ends_with(NOTHING_CHECKED);
        let finished = finished.says(&[&format!("races: nothing was checked: {why}")]);
        assert!(!finished.stderr().contains("no race"), "{name}: {}", finished.stderr());
    }
    let finished = checked(&["-n", "2"], &["--races", "--json"], "maps and sets").run();
    let said = finished.ends_with(NOTHING_CHECKED).stderr();
    let whole: Value = serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap();
    assert_eq!(whole["accesses"], 0, "{said}");
    assert_eq!(whole["joined"], 2, "{said}");
    assert_eq!(whole["unseen"][0], "accesses inside maps and sets", "{said}");
}

fn what_is_looked_into_in_part_is_named() {
    let finished = checked(&["-n", "2"], &["--races"], "a map and a window").run().ends_with(0);
    finished.says(&[
        "races: not seen: accesses inside maps and sets",
        "races: no race found in 2 accesses",
    ]);
}

fn a_program_that_makes_its_own_job_is_told() {
    let finished = checked(&["-n", "3"], &[], "by_itself").run().ends_with(0);
    let finished = finished.says(&["no rank has joined the job", "`farside::local`", "3 times"]);
    assert_eq!(finished.stderr().matches("no rank has joined").count(), 1);
    let joined = checked(&["-n", "3"], &[], "put_fence_signal").run().ends_with(0);
    assert_eq!(joined.stderr(), "");
}

fn two_signals_name_both_places_and_a_fence() {
    let finished = checked(&["-n", "3"], &["--races"], "two_put_signals_to_one_word").run();
    let finished = finished.ends_with(RACES).says(&["the two may be reordered", "a fence"]);
    let said = finished.stderr();
    let sides = said.lines().filter(|line| line.contains("rank 0: signal at ")).count();
    assert!(sides >= 2, "{said}");
}

fn labelled_programs_on_two_hosts() {
    let Some(namespaces) = Namespaces::wanted(2) else { return };
    judge(&hosts(&namespaces), (0, 3));
}

fn labelled_programs_on_two_nodes() {
    judge(&["-n", "3", "--nodes", "2", "--fabric", "nic"], (0, 3));
}

fn labelled_programs_over_ofi() {
    judge(&["-n", "3", "--fabric", "ofi", "--provider", "tcp;ofi_rxm"], (1, 3));
}

fn labelled_programs_on_two_nodes_over_ofi() {
    judge(&["-n", "3", "--nodes", "2", "--fabric", "ofi", "--provider", "tcp;ofi_rxm"], (2, 3));
}

fn a_race_ends_a_job_of_two_hosts() {
    let Some(namespaces) = Namespaces::wanted(2) else { return };
    let finished = checked(&hosts(&namespaces), &["--races=fail"], "puts_to_one_element").run();
    finished.ends_with(1).says(&["a race was found, and --races=fail ends the job", "RACE on"]);
}

fn a_host_that_is_lost_ends_the_job() {
    let Some(namespaces) = Namespaces::wanted(2) else { return };
    let finished = checked(&hosts(&namespaces), &["--races"], "loses_its_host").run().ends_with(1);
    finished.says(&[&format!("host {} is lost: ", namespaces.names()[1]), "rank 1"]);
}

fn a_host_that_is_cut_off_ends_the_job() {
    let Some(namespaces) = Namespaces::wanted(2) else { return };
    let how = ["--races", "--peer-timeout", "2"];
    let mut running = checked(&hosts(&namespaces), &how, "for_ever").start();
    running.wait_for_lines("ready", 3);
    namespaces.cut(1).unwrap();
    let finished = running.wait();
    assert_ne!(finished.status.code(), Some(0));
    finished.says(&["no longer receive anything from each other", "it stopped answering"]);
}

//! Ranks of the built-in programs and of the benches are killed at random moments: every survivor
//! that fails must name the killed rank, and nobody whose end is a consequence.
//!
//! `FARSIDE_LONG=1 cargo test -p farside-cli --test command culprits -- --nocapture` kills 320 and
//! prints how many there were on each fabric; `FARSIDE_TEST_KILLS` is another number.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Finished, Scratch, farside};
use farside_fabric::random::SplitMix;

const RANKS: u64 = 4;
/// Three hosts that are this one.
const HOSTS: &str = "a=127.0.0.1:2,b=127.0.0.2,c=127.0.0.3";
/// The longest time that a job is left alone, after the victim's process has started.
const ALONE_MS: u64 = 600;
/// A job that has ended before its rank could be killed is run again, and left alone for a shorter
/// time.
const TRIES: u32 = 6;

fn kills() -> u64 {
    let asked = std::env::var("FARSIDE_TEST_KILLS").ok().and_then(|number| number.parse().ok());
    let long = std::env::var_os("FARSIDE_LONG").map(|_| 320);
    asked.or(long).unwrap_or(18)
}

/// The programs, each of which takes far longer than it is left alone; `file` is one with many
/// words.
fn programs(file: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let mut programs = vec![
        words("app lu JOB -- --size 2048 --block 64"),
        words("app sor JOB -- --iterations 5000"),
        words("app jacobi JOB -- --iterations 5000"),
        words("app fft3d JOB -- --iterations 500"),
        words("app barnes JOB -- --iterations 500"),
        words("app count JOB -- 100000000 default default-rw"),
        words("bench dht JOB --cases volume --time 20000 --rounds 1"),
        words("bench locks JOB --cases ecsb --time 20000 --rounds 1"),
    ];
    let mut count = words("app wordcount JOB --");
    count.extend(vec![file.to_owned(); 200]);
    programs.push(count);
    programs
}

/// The fabrics, and what a job on each is told.
fn fabric(name: &str, random: &mut SplitMix) -> Vec<String> {
    let nodes = match name {
        "shm" => return Vec::new(),
        "hosts" => {
            return ["--hosts", HOSTS, "--rsh", "sh -c 'exec \"$@\"' {host}"]
                .map(str::to_owned)
                .to_vec();
        }
        _ => 2 + random.below(2) * 2,
    };
    let mut options = vec!["--nodes".to_owned(), nodes.to_string()];
    if name == "ofi" {
        options.extend(["--fabric".to_owned(), "ofi".to_owned()]);
    }
    options
}

/// What a job is started with: a program, with the options of the job where it says so.
fn job(program: &[String], fabric: &[String]) -> Vec<String> {
    let ranks = if program[0] == "bench" { "--ranks" } else { "-n" };
    // Hosts say how many ranks each of them has.
    let says_ranks = fabric.first().is_none_or(|option| option != "--hosts");
    let mut options =
        if says_ranks { vec![ranks.to_owned(), RANKS.to_string()] } else { Vec::new() };
    options.extend_from_slice(fabric);
    program
        .iter()
        .flat_map(|word| if word == "JOB" { options.clone() } else { vec![word.clone()] })
        .collect()
}

/// Runs a job and kills one of its ranks; nothing if it had ended before.
fn kill(arguments: &[String], victim: u64, alone_ms: u64) -> Option<Finished> {
    let mut running = farside(arguments).start();
    running.wait_for_rank(victim);
    // sleep: the moment of death is meant to be any moment of the work that goes on meanwhile.
    std::thread::sleep(Duration::from_millis(alone_ms));
    let killed = running.kill_rank(victim);
    let finished = running.wait();
    (killed && !finished.status.success()).then_some(finished)
}

fn named(line: &str) -> Vec<u64> {
    let numbers = line
        .match_indices(" is lost")
        .filter_map(|(at, _)| line[..at].rsplit_once("rank ")?.1.parse().ok());
    numbers.collect()
}

/// The lines of survivors that name another rank than the victim, or nobody.
fn wrong(finished: &Finished, victim: u64) -> Vec<String> {
    let stderr = finished.stderr();
    let is_wrong = |line: &&str| {
        let said = line.trim_start_matches("farside: ");
        // What a rank says begins with its number and a colon; what the launcher says of it does
        // not.
        let is_a_rank_s = said
            .strip_prefix("rank ")
            .and_then(|rest| rest.split_once(' '))
            .is_some_and(|it| it.0.ends_with(':'));
        let named = named(line);
        named.iter().any(|&rank| rank != victim) || (is_a_rank_s && named.is_empty())
    };
    stderr.lines().filter(is_wrong).map(str::to_owned).collect()
}

#[test]
fn every_survivor_names_the_killed_rank() {
    let scratch = Scratch::new();
    let file = scratch.file("words");
    let text: String =
        (0..200_000).map(|number| format!("word{} ", number * 7919 % 50_021)).collect();
    std::fs::write(&file, text).expect("a file can be written");
    let programs = programs(&file);
    let fabrics = ["shm", "nic", "ofi", "hosts"];
    let mut counts: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    let mut blamed = Vec::new();
    for number in 0..kills() {
        let mut random = SplitMix::new(number);
        let program = &programs[number as usize % programs.len()];
        // Each program on each fabric in turn: the numbers of both have no divisor in common.
        // Benches know no hosts.
        let name = match fabrics[number as usize % fabrics.len()] {
            "hosts" if program[0] == "bench" => "nic",
            name => name,
        };
        let (victim, mut alone_ms) = (random.below(RANKS), random.below(ALONE_MS));
        let arguments = job(program, &fabric(name, &mut random));
        let finished = (0..TRIES).find_map(|_| {
            let finished = kill(&arguments, victim, alone_ms);
            alone_ms /= 2;
            finished
        });
        let finished = finished
            .unwrap_or_else(|| panic!("{arguments:?}: ended before rank {victim} could be killed"));
        let wrong = wrong(&finished, victim);
        let (kills, named, blames) = counts.entry(name).or_default();
        (*kills, *named, *blames) =
            (*kills + 1, *named + said(&finished), *blames + u64::from(!wrong.is_empty()));
        if !wrong.is_empty() {
            blamed.push(format!(
                "kill {number}: {:?}, rank {victim} was killed: {wrong:#?}",
                &arguments[..arguments.len().min(12)]
            ));
        }
        let (killed, stderr) = (
            format!("rank {victim} was killed by signal 9 (SIGKILL)"),
            finished.leaves_nothing().stderr(),
        );
        if !stderr.contains(&killed) {
            blamed.push(format!("kill {number}: nobody says {killed:?}: {stderr}"));
        }
    }
    for (name, (kills, named, blames)) in &counts {
        println!(
            "{name}: {kills} kills, {named} survivors named a rank, {blames} kills with wrong names"
        );
    }
    assert_eq!(blamed, [] as [&str; 0], "somebody else is blamed");
    let all: u64 = counts.values().map(|(_, named, _)| named).sum();
    assert!(all >= kills(), "survivors say whom they miss: only {all} did");
}

/// How many lines name a lost rank.
fn said(finished: &Finished) -> u64 {
    finished.stderr().lines().filter(|line| !named(line).is_empty()).count() as u64
}

#[test]
fn names_are_found_in_lines() {
    assert_eq!(
        named("farside: rank 3: lu: rank 12 is lost: it was killed by signal 9 (SIGKILL)"),
        [12]
    );
    assert_eq!(
        named("the lock is poisoned: rank 1 is lost, it exited with status 1; rank 2 is lost"),
        [1, 2]
    );
    assert_eq!(named("farside: rank 3 was killed by signal 9 (SIGKILL)"), [] as [u64; 0]);
}

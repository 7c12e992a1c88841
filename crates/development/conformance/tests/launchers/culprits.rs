//! Ranks are killed under launchers that are not ours, where each process watches the others of its
//! node: every survivor must name the killed rank, and nobody whose end is a consequence.

use farside_conformance::churn::{ABORTS, DELAY, FAILS, KINDS, VICTIM};

use crate::support::{Launcher, PROGRAM, run, shared_files, wanted};

const RANKS: usize = 4;

/// How many ranks are killed under each launcher: with those of `culprits` of the command, 24 in
/// all, or 400.
fn kills() -> usize {
    let asked = std::env::var("FARSIDE_TEST_KILLS").ok().and_then(|number| number.parse().ok());
    let long = std::env::var_os("FARSIDE_LONG").map(|_| 40);
    asked.or(long).unwrap_or(3)
}

/// Who is named as lost in a line, behind the number of the rank that says so.
fn named(line: &str) -> Option<usize> {
    line.split_once(" is lost")?.0.rsplit_once("rank ")?.1.parse().ok()
}

fn every_survivor_names_the_killed_rank(launcher: Launcher) {
    if !wanted(launcher.programs()) {
        return;
    }
    let before = shared_files();
    let (mut blamed, mut told) = (Vec::new(), 0);
    for kill in 0..kills() {
        let kind = KINDS[kill * 7 % KINDS.len()];
        let (victim, delay_us) = (kill * 7 / 3 % RANKS, kill * 7919 % 30_000);
        // Each kind runs on one node and on two.
        let nodes = if kind.starts_with("dsm") { 1 } else { 1 + (kill + kill / KINDS.len()) % 2 };
        // A launcher that sees a failure ends the others.
        let script = format!("{PROGRAM} churn-{kind}; true");
        let ran = run(launcher
            .command(RANKS as u32, &["sh", "-c", &script])
            .env(VICTIM, victim.to_string())
            .env(DELAY, delay_us.to_string())
            // Where one process hosts what tells the other nodes, its abort is theirs.
            .env(FAILS, if nodes == 1 && kill % 4 == 2 { ABORTS } else { "exit" })
            .env("FARSIDE_NODES", nodes.to_string())
            .env("FARSIDE_PEER_TIMEOUT", "2"));
        for survivor in (0..RANKS).filter(|&rank| rank != victim) {
            let begin = format!("rank {survivor}: churn-{kind}: ");
            let line =
                ran.output.lines().find_map(|line| line.split_once(&begin)).map(|(_, line)| line);
            told += usize::from(line.is_some());
            if line.and_then(named) != Some(victim) {
                let said = format!("{begin}{line:?} in {}", ran.output);
                blamed.push(format!("{kind} on {nodes} nodes, rank {victim} dies: {said}"));
            }
        }
    }
    println!(
        "{launcher:?}: {} kills, {told} survivors said something, {} wrongly",
        kills(),
        blamed.len()
    );
    assert_eq!(blamed, [] as [&str; 0], "somebody else is blamed");
    assert_eq!(shared_files(), before, "files are left");
}

#[test]
fn every_survivor_under_hydra_names_the_killed_rank() {
    every_survivor_names_the_killed_rank(Launcher::Hydra);
}

#[test]
fn every_survivor_under_open_mpi_names_the_killed_rank() {
    every_survivor_names_the_killed_rank(Launcher::OpenMpi);
}

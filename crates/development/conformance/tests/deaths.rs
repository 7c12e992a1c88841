//! Ranks are killed at random moments: everybody else must hear of it, and nothing may be left
//! behind.

use farside::{ExitCause, Rank};
use farside_conformance::churn::{ABORTS, DELAY, FAILS, KINDS, VICTIM};
use farside_job::Kind;
use farside_launch::{Failure, Launch};
use farside_testing::{DEADLINE, MARK, pids_with, shared_files};

const RANKS: u32 = 4;

/// Kills per kind of work, ten times as many in the long run: on one node 400 in all, on several
/// 76.
fn kills(nodes: u32) -> u32 {
    let few = if nodes == 1 { 20 } else { 4 };
    if std::env::var_os("FARSIDE_LONG").is_some() { 10 * few } else { few }
}

/// A different number for every kill of every kind, the same in every run.
fn spread(kind: &str, kill: u32) -> u64 {
    let seed = kind
        .bytes()
        .fold(u64::from(kill) + 1, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

fn kill_at_random_moments(kind: &str, nodes_max: u32, fabric: Kind) {
    assert!(KINDS.contains(&kind));
    let before = shared_files();
    let (mut slowest_us, mut heard_of) = (0, 0);
    // A process takes a third of a second to load libfabric.
    let kills = if fabric == Kind::Ofi { kills(nodes_max) / 4 } else { kills(nodes_max) };
    for kill in 0..kills {
        let random = spread(kind, kill);
        let victim = Rank(random as u32 % RANKS);
        let delay_us = (random / 7) % 20_000;
        let nodes = if nodes_max == 1 { 1 } else { 2 + kill % (nodes_max - 1) };
        let mark = format!("{kind}-{nodes}-{kill}-{}", std::process::id());
        let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), RANKS)
            .expect("the environment is in order");
        let launch = launch.options(|options| {
            if nodes > 1 {
                options.fabric = fabric;
                options.nodes = Some(nodes);
            }
        });
        let report = launch
            .argument(format!("churn-{kind}"))
            .variable(VICTIM, victim.0.to_string())
            .variable(DELAY, delay_us.to_string())
            .variable(MARK, &mark)
            .timeout(DEADLINE)
            .grace(DEADLINE)
            .run()
            .expect("the job starts");
        let context = format!(
            "{kind} on {nodes} nodes, kill {kill}: {victim} after {delay_us} us: {report:?}"
        );
        assert!(!report.timed_out, "somebody hangs: {context}");
        assert_eq!(
            report.failures,
            [Failure { rank: victim, how: ExitCause::Signal(9) }],
            "{context}"
        );
        assert_eq!(report.status, 128 + 9, "{context}");
        assert!(pids_with(MARK, &mark).is_empty(), "processes are left: {context}");
        let heard = String::from_utf8_lossy(&report.stdout).into_owned();
        let heard = heard.split_whitespace().find_map(|word| word.parse::<u64>().ok());
        // A survivor that had not come out of the first barrier then has not begun to measure.
        if let Some(heard_us) = heard {
            slowest_us = slowest_us.max(heard_us);
            heard_of += 1;
        }
    }
    assert!(heard_of > 0, "no survivor says when it heard");
    assert_eq!(shared_files(), before, "files are left behind");
    println!(
        "{kind}, up to {nodes_max} nodes over {fabric}: {kills} kills, the slowest was heard of \
         after {slowest_us} us"
    );
}

/// Survivors end as programs do that give up on an error, by their status or by `abort`: nobody may
/// be blamed for that.
#[test]
fn survivors_that_fail_or_abort_name_the_victim() {
    let kinds = ["wait", "barrier", "call", "atomics", "queue-lock", "dsm-fault"];
    let count = kills(2) * kinds.len() as u32;
    let mut blamed = Vec::new();
    for kill in 0..count {
        let kind = kinds[kill as usize % kinds.len()];
        let random = spread(kind, kill + 1000);
        // Each kind runs on each number of nodes, and ends in both ways.
        let round = kill as usize / kinds.len();
        let (victim, nodes) = (Rank(random as u32 % RANKS), [1, 2, 4][(kill as usize + round) % 3]);
        let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), RANKS)
            .expect("the environment is in order");
        let launch = launch.options(|options| {
            if nodes > 1 {
                options.fabric = if round.is_multiple_of(2) { Kind::Nic } else { Kind::Ofi };
                options.nodes = Some(nodes);
            }
        });
        let report = launch
            .argument(format!("churn-{kind}"))
            .variable(VICTIM, victim.0.to_string())
            .variable(DELAY, ((random / 7) % 20_000).to_string())
            .variable(
                FAILS,
                if (kill as usize + round).is_multiple_of(2) { ABORTS } else { "exit" },
            )
            .timeout(DEADLINE)
            .grace(DEADLINE)
            .run()
            .expect("the job starts");
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        let expected = format!("{victim} is lost");
        let wrong = said.lines().filter(|line| line.contains(": churn-"));
        let wrong: Vec<&str> = wrong.filter(|line| !line.contains(&expected)).collect();
        if report.timed_out || !wrong.is_empty() || report.status != 128 + 9 {
            blamed.push(format!("{kind} on {nodes} nodes, kill {kill}, {victim}: {wrong:?}"));
        }
        assert!(said.contains(&expected), "survivors say whom they miss: {said}");
    }
    println!("{count} kills, {} with wrong names", blamed.len());
    assert_eq!(blamed, [] as [&str; 0], "somebody else is blamed");
}

macro_rules! deaths {
    ($nodes:literal $fabric:ident $($name:ident $kind:literal)*) => {
        $(#[test] fn $name() { kill_at_random_moments($kind, $nodes, Kind::$fabric) })*
    };
}

/// On one node as on several.
macro_rules! most_deaths {
    ($nodes:literal $fabric:ident) => {
        deaths! { $nodes $fabric
            while_putting "put"
            while_getting "get"
            during_long_transfers "long"
            during_atomics "atomics"
            during_accumulates "accumulate"
            while_waiting "wait"
            in_a_barrier "barrier"
            in_collectives "collective"
            while_allocating "window"
            during_calls "call"
            while_asleep "nothing"
            with_a_lock "lock"
            with_a_queuing_lock "queue-lock"
            in_a_barrier_of_shared_pages "dsm-barrier"
            while_pages_fault "dsm-fault"
            with_a_lock_of_shared_pages "dsm-lock"
            while_pages_are_merged "dsm-merge"
            in_a_passive_epoch "epoch"
            in_a_two_sided_epoch "two-sided-epoch"
        }
    };
}

most_deaths! { 1 Shm }
deaths! { 1 Shm while_a_map_grows "map" }

/// Two, three or four nodes.
mod over_nic {
    use super::*;
    most_deaths! { 4 Nic }
}

mod over_ofi {
    use super::*;
    deaths! { 4 Ofi
        while_putting "put"
        while_getting "get"
        during_long_transfers "long"
        during_atomics "atomics"
        while_waiting "wait"
        in_a_barrier "barrier"
        while_allocating "window"
        during_calls "call"
        with_a_queuing_lock "queue-lock"
        while_pages_fault "dsm-fault"
        while_pages_are_merged "dsm-merge"
    }
}

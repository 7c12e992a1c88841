//! The suite on four hosts with addresses of their own, and hosts that are lost.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use farside::Rank;
use farside_conformance::churn::{GO_ON, HOST_LOST, PAIR, VICTIM};
use farside_conformance::{DEADLINE, for_each_test};
use farside_job::Kind;
use farside_launch::{Hosts, Launch, Report};
use farside_testing::namespaces::{Namespaces, RSH};

const PROGRAM: &str = env!("CARGO_BIN_EXE_farside-conformance");

fn launch(namespaces: &Namespaces, ranks: u32) -> Launch {
    let hosts = Hosts::parse(&namespaces.list(ranks), None)
        .and_then(|hosts| hosts.rsh(RSH))
        .expect("the list is right");
    let launch = Launch::new(PROGRAM, 1)
        .expect("the environment is in order")
        .hosts(hosts.program(PROGRAM.into()));
    launch.timeout(DEADLINE)
}

fn over_ofi(launch: Launch) -> Launch {
    launch.options(|options| {
        options.fabric = Kind::Ofi;
        options.provider.get_or_insert("tcp;ofi_rxm".into());
    })
}

/// What a quick run tries on hosts over libfabric, which each process takes a third of a second to
/// load.
const QUICK: [&str; 5] = [
    "tickets_are_unique",
    "flush_is_seen_by_a_third_rank",
    "a_signal_comes_after_the_fenced_put",
    "a_handler_reads_and_writes",
    "put_and_get_round_trip",
];

/// Runs the tests that are chosen on four hosts.
fn suite(how: fn(Launch) -> Launch, is_chosen: impl Fn(&str) -> bool) {
    let Some(namespaces) = Namespaces::wanted(4) else { return };
    let mut failed = Vec::new();
    let mut run = |name: &str| match how(launch(&namespaces, 1)).argument(name).run() {
        Ok(Report { status: 0, .. }) => {}
        other => failed.push(format!("{name}: {other:?}")),
    };
    macro_rules! cases {
        ($($name:ident)*) => { [$(stringify!($name)),*] };
    }
    for_each_test!(cases).into_iter().filter(|name| is_chosen(name)).for_each(&mut run);
    assert_eq!(failed, [] as [&str; 0]);
}

#[test]
fn the_suite_passes_on_four_hosts_over_libfabric() {
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    suite(over_ofi, |name| is_long || QUICK.contains(&name));
}

#[test]
fn the_suite_passes_on_four_hosts() {
    suite(|launch| launch, |_| true);
}

fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < DEADLINE, "the work does not begin");
        // sleep: the moment at which the host is lost is meant to be any moment of the work.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs work without an end on three hosts, loses `victim` with `lose`, and returns how the job
/// ended. Without a time a silent host is lost after the default one.
fn lose_host(
    launch: Launch,
    (kind, victim): (&str, u32),
    peer_timeout: Option<Duration>,
    lose: impl FnOnce() + Send,
) -> Report {
    let scratch = tempfile::tempdir().expect("a directory can be made");
    let file = scratch.path().join("lost");
    let job = launch
        .argument(format!("churn-{kind}"))
        .variable(VICTIM, victim.to_string())
        .variable(HOST_LOST, &file);
    let job = job.options(|options| options.peer_timeout = peer_timeout).grace(DEADLINE);
    std::thread::scope(|threads| {
        let running = threads.spawn(|| job.run().expect("the job starts"));
        wait_for(&file);
        lose();
        running.join().expect("it does not panic")
    })
}

/// Likewise for the last of the hosts, and soon.
fn lose_a_host(launch: Launch, kind: &str, lose: impl FnOnce() + Send) -> Report {
    lose_host(launch, (kind, 2), Some(Duration::from_secs(2)), lose)
}

/// The survivors got errors that name the lost rank, and nothing else went wrong.
fn survived(report: &Report) {
    survived_without(report, 2);
}

fn survived_without(report: &Report, victim: u32) {
    assert!(!report.timed_out, "{report:?}");
    let failed: Vec<Rank> = report.failures.iter().map(|failure| failure.rank).collect();
    assert_eq!((failed, report.status), (vec![Rank(victim)], 1), "{report:?}");
}

fn signal_daemon(namespaces: &Namespaces, host: usize, signal: &str) {
    let is_daemon = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"__node\0")
    };
    let processes = namespaces.processes(host).expect("they can be listed");
    let daemon = processes.into_iter().find(is_daemon).expect("there is a daemon");
    let sent = Command::new("kill").args([signal, &daemon.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn whichever_host_is_cut_off_it_alone_is_lost() {
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    // At the default limit hosts notice it at very different times.
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    let (kinds, rounds): (&[&str], u32) =
        if is_long { (&["nothing", PAIR, "put", "wait"], 3) } else { (&[PAIR], 1) };
    let timeout = (!is_long).then_some(Duration::from_secs(2));
    let mut count = 0;
    for (&kind, victim) in kinds.iter().flat_map(|kind| (0..3).map(move |victim| (kind, victim))) {
        for _ in 0..rounds {
            let cut = || namespaces.cut(victim).expect("a link can be cut");
            let work = (kind, victim as u32);
            let report = lose_host(launch(&namespaces, 1), work, timeout, cut);
            namespaces.heal(victim).expect("a link can be mended");
            survived_without(&report, victim as u32);
            assert_eq!(report.hosts_lost, [namespaces.names()[victim].clone()], "{report:?}");
            count += 1;
        }
    }
    println!("{count} hosts were cut off, and they alone are lost");
}

#[test]
fn a_host_whose_daemon_hangs_is_lost_however_much_its_ranks_ask() {
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    let stop = || signal_daemon(&namespaces, 2, "-STOP");
    let report = lose_a_host(launch(&namespaces, 1), "atomics", stop);
    survived(&report);
    assert_eq!(report.hosts_lost, [namespaces.names()[2].clone()], "{report:?}");
}

#[test]
fn a_host_that_is_cut_off_is_lost_for_the_others() {
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    for kind in ["barrier", "atomics", "wait"] {
        let report = lose_a_host(launch(&namespaces, 1), kind, || {
            namespaces.cut(2).expect("a link can be cut")
        });
        survived(&report);
        assert_eq!(report.hosts_lost, [namespaces.names()[2].clone()], "{report:?}");
        namespaces.heal(2).expect("a link can be mended");
    }
}

#[test]
fn a_host_that_is_cut_off_is_lost_over_libfabric() {
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    for kind in ["put", "atomics", GO_ON] {
        let cut = || namespaces.cut(2).expect("a link can be cut");
        let report = lose_a_host(over_ofi(launch(&namespaces, 1)), kind, cut);
        survived(&report);
        assert_eq!(report.hosts_lost, [namespaces.names()[2].clone()], "{report:?}");
        namespaces.heal(2).expect("a link can be mended");
    }
}

#[test]
fn a_host_whose_daemon_is_killed_is_lost_for_the_others() {
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    for kind in ["put", "window", "lock"] {
        let kill = || signal_daemon(&namespaces, 2, "-KILL");
        survived(&lose_a_host(launch(&namespaces, 1), kind, kill));
    }
}

/// With `FARSIDE_LONG=1` alone: a daemon that takes itself for cut off ends after half a minute.
#[test]
fn hosts_that_are_left_go_on_after_one_is_lost() {
    if std::env::var_os("FARSIDE_LONG").is_none() {
        return;
    }
    let Some(namespaces) = Namespaces::wanted(3) else { return };
    let hosts = Hosts::parse(&namespaces.list(1), None)
        .and_then(|hosts| hosts.rsh(RSH))
        .expect("the list is right");
    let script = "[ $FARSIDE_RANK = 2 ] && kill -9 $PPID; sleep 45";
    let job = Launch::new("sh", 1).expect("the environment is in order");
    let job = job.arguments(["-c", script]).hosts(hosts.program(PROGRAM.into())).keep_going(true);
    let job = job.options(|options| options.peer_timeout = Some(Duration::from_secs(2)));
    let report = job.timeout(2 * DEADLINE).run().expect("the job starts");
    assert_eq!(report.hosts_lost, [namespaces.names()[2].clone()], "{report:?}");
}

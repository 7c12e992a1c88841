//! The suite on four hosts with addresses of their own, and hosts that are lost.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use farside::Rank;
use farside_conformance::churn::{HOST_LOST, VICTIM};
use farside_conformance::{DEADLINE, for_each_test};
use farside_job::Kind;
use farside_launch::{Hosts, Launch, Report};
use farside_namespaces::{Namespaces, RSH};

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

/// The same job over libfabric.
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

#[test]
fn the_suite_passes_on_four_hosts_over_libfabric() {
    let Some(namespaces) = Namespaces::wanted(4) else { return };
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    let mut failed = Vec::new();
    let mut run = |name: &str| match over_ofi(launch(&namespaces, 1)).argument(name).run() {
        Ok(Report { status: 0, .. }) => {}
        other => failed.push(format!("{name}: {other:?}")),
    };
    macro_rules! cases {
        ($($name:ident)*) => {
            $(if is_long || QUICK.contains(&stringify!($name)) { run(stringify!($name)); })*
        };
    }
    for_each_test!(cases);
    assert_eq!(failed, [] as [&str; 0]);
}

#[test]
fn the_suite_passes_on_four_hosts() {
    let Some(namespaces) = Namespaces::wanted(4) else { return };
    let mut failed = Vec::new();
    let mut run = |name: &str| match launch(&namespaces, 1).argument(name).run() {
        Ok(Report { status: 0, .. }) => {}
        other => failed.push(format!("{name}: {other:?}")),
    };
    macro_rules! cases {
        ($($name:ident)*) => { $(run(stringify!($name));)* };
    }
    for_each_test!(cases);
    assert_eq!(failed, [] as [&str; 0]);
}

/// Waits until a file is there.
fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < DEADLINE, "the work does not begin");
        // sleep: the moment at which the host is lost is meant to be any moment of the work.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs work without an end on three hosts, loses the last one with `lose`, and returns how the job
/// ended.
fn lose_a_host(launch: Launch, kind: &str, lose: impl FnOnce() + Send) -> Report {
    let scratch = tempfile::tempdir().expect("a directory can be made");
    let file = scratch.path().join("lost");
    let job =
        launch.argument(format!("churn-{kind}")).variable(VICTIM, "2").variable(HOST_LOST, &file);
    let job =
        job.options(|options| options.peer_timeout = Some(Duration::from_secs(2))).grace(DEADLINE);
    std::thread::scope(|threads| {
        let running = threads.spawn(|| job.run().expect("the job starts"));
        wait_for(&file);
        lose();
        running.join().expect("it does not panic")
    })
}

/// The survivors got errors that name the lost rank, and nothing else went wrong.
fn survived(report: &Report) {
    assert!(!report.timed_out, "{report:?}");
    let failed: Vec<Rank> = report.failures.iter().map(|failure| failure.rank).collect();
    assert_eq!((failed, report.status), (vec![Rank(2)], 1), "{report:?}");
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
    for kind in ["put", "atomics"] {
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
        let kill = || {
            let is_daemon = |pid: &u32| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.ends_with(b"__node\0")
            };
            let processes = namespaces.processes(2).expect("they can be listed");
            let daemon = processes.into_iter().find(is_daemon).expect("there is a daemon");
            let killed =
                Command::new("kill").args(["-9", &daemon.to_string()]).status().expect("kill runs");
            assert!(killed.success());
        };
        survived(&lose_a_host(launch(&namespaces, 1), kind, kill));
    }
}

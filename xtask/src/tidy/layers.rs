//! What the layers may not know: a protocol knows no thread, socket, clock or fabric, and the
//! choice of a fabric is made in one place.

use super::Report;
use super::source::Source;

/// The directories of the crates that run on every fabric, the simulator included.
const PORTABLE: &[&str] = &["rma", "sync", "epoch", "dsm", "containers"];

/// What a portable crate may not mention, and what to do instead.
const NOT_PORTABLE: &[(&str, &str)] = &[
    ("std::thread", "wait with `wait` or `relax`; threads belong to a fabric"),
    ("thread::sleep", "wait with `wait` or `relax`"),
    ("std::net", "bytes move through the fabric"),
    ("core::net", "bytes move through the fabric"),
    ("std::os", "the operating system belongs to a fabric"),
    ("time::Instant", "time is the fabric's, in the simulator it is virtual"),
    ("SystemTime", "time is the fabric's, in the simulator it is virtual"),
    ("std::time::*", "name what is used, so that a clock is seen"),
    ("std::*", "name what is used, so that a thread or a clock is seen"),
    ("rustix", "the operating system belongs to a fabric"),
    ("libc", "the operating system belongs to a fabric"),
];

/// What a portable crate may mention all the same: a destructor asks whether it runs because of a
/// panic, and that is the same on every fabric.
const PORTABLE_ALL_THE_SAME: &str = "std::thread::panicking";

/// The crates of fabrics as sources name them, each with its directory.
const FABRICS: &[(&str, &str)] = &[
    ("farside_shm", "shm"),
    ("farside_nic", "nic"),
    ("farside_ofi", "ofi"),
    ("farside_sim", "sim"),
];

/// The one place that chooses a fabric.
const CHOICE: &str = "crates/runtime/job/src/lib.rs";

const MAY_NAME_FABRICS: &[&str] = &[
    // The `limit` measurements touch mapped memory without the runtime, to show what it costs.
    "crates/laboratory/bench/src/",
    // Parts of that place: the nodes of a job, and how ranks enter it.
    "crates/runtime/job/src/",
    // A viewer reads the memory of a node, which is the same over every fabric of real ranks.
    "crates/tools/inspect/src/find.rs",
    "crates/tools/inspect/src/read.rs",
    // Simulated jobs are made, not joined: there is nothing to choose.
    "crates/runtime/farside/src/sim/mod.rs",
    "crates/runtime/farside/src/sim/timed.rs",
];

/// Checks what one file mentions. Tests may use everything: they bring their own fabric.
pub(super) fn check(source: &Source, report: &mut Report) {
    let Some(directory) = source.crate_directory() else {
        return;
    };
    let in_src = source.path_in_crate().is_some_and(|path| path.starts_with("src/"));
    let portable = in_src && PORTABLE.contains(&directory);
    let may_name_fabrics = source.path == CHOICE
        || MAY_NAME_FABRICS.iter().any(|prefix| source.path.starts_with(prefix));
    for path in &source.paths {
        if source.is_test(path.line) {
            continue;
        }
        if portable && !path.contains(PORTABLE_ALL_THE_SAME) {
            for (part, instead) in NOT_PORTABLE.iter().filter(|(part, _)| path.contains(part)) {
                let message = format!("`{part}` in a crate that runs on every fabric: {instead}");
                report.violation(&source.path, path.line, message);
            }
        }
        for (fabric, home) in FABRICS {
            // Ranks of a node share memory on every fabric of several nodes, and libfabric carries
            // what UDP does.
            let stands_on = matches!((directory, *home), ("nic", "shm") | ("ofi", "shm" | "nic"));
            if path.contains(fabric) && *home != directory && !stands_on && !may_name_fabrics {
                let message = format!(
                    "`{fabric}` outside of the one choice of a fabric: go through {CHOICE}"
                );
                report.violation(&source.path, path.line, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        check(&Source::parse(path, text).unwrap(), &mut report);
        report
    }

    #[test]
    fn a_protocol_may_not_know_threads_sockets_and_clocks() {
        let text = "use std::{sync::Arc, thread};\nuse std::net::UdpSocket;\nuse std::time;\n\
                    fn a() { time::Instant::now(); }\nuse std::time::SystemTime;\nuse \
                    std::os::fd::OwnedFd;\n\
                    fn b() { libc::abort(); }\nfn c() { rustix::rand(); }\nuse std::time::*;";
        let report = check_text("crates/runtime/sync/src/mcs.rs", text);
        assert_eq!(report.lines(), [1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn durations_comments_strings_and_tests_are_allowed() {
        let text = "//! Unlike std::thread.\nuse std::time::Duration; // not std::net\n\
                    fn b() -> bool { std::thread::panicking() }\n\
                    fn a() -> &'static str { \"libc\" }\n#[cfg(test)]\nmod tests \
                    {\n use std::thread;\n use farside_sim::World;\n}";
        assert_eq!(check_text("crates/runtime/sync/src/mcs.rs", text).text(), "");
    }

    #[test]
    fn a_fabric_may_use_threads() {
        assert_eq!(check_text("crates/runtime/nic/src/agent.rs", "use std::thread;").text(), "");
        assert_eq!(check_text("crates/runtime/sync/tests/mcs.rs", "use std::thread;").text(), "");
    }

    #[test]
    fn only_the_choice_names_fabrics() {
        let text = "use farside_shm::Shm;\nfn a() { farside_nic::b(); }";
        assert_eq!(check_text("crates/tools/launch/src/lib.rs", text).lines(), [1, 2]);
        assert_eq!(check_text("crates/runtime/farside/src/lib.rs", text).lines(), [1, 2]);
        assert_eq!(check_text("crates/runtime/farside/examples/hello.rs", text).lines(), [1, 2]);
        assert_eq!(check_text(CHOICE, text).text(), "");
        assert_eq!(check_text("crates/laboratory/bench/src/limit.rs", text).text(), "");
        assert_eq!(check_text("crates/runtime/shm/src/lib.rs", text).lines(), [2]);
        assert_eq!(check_text("crates/runtime/rma/tests/put.rs", text).text(), "");
    }
}

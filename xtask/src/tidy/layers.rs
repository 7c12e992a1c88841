//! What the layers may not know: a protocol knows no thread, socket, clock or fabric, the choice of
//! a fabric is made in one place, and the folders of a crate that have an order use only those
//! before them.

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
    // That place and its parts: the nodes of a job, and how ranks enter it.
    "crates/runtime/job/src/",
    // A viewer reads the memory of a node, which is the same over every fabric of real ranks.
    "crates/tools/inspect/src/find.rs",
    "crates/tools/inspect/src/read.rs",
    // Simulated jobs are made, not joined: there is nothing to choose.
    "crates/runtime/farside/src/sim/mod.rs",
    "crates/runtime/farside/src/sim/timed.rs",
];

/// The crates whose modules have an order, each with its modules from the lowest up. A module of
/// the list uses those before it, and itself; one that is not in the list is free.
#[rustfmt::skip]
const ORDERS: &[(&str, &[&str])] = &[(
    "nic",
    &["settings", "clock", "lock", "transport", "wire", "link", "initiator", "target", "node",
      "endpoint"],
)];

/// Checks what one file mentions. Tests may use everything: they bring their own fabric.
pub(super) fn check(source: &Source, report: &mut Report) {
    let Some(directory) = source.crate_directory() else { return };
    let in_src = source.in_src();
    let portable = in_src.is_some_and(|(name, _)| PORTABLE.contains(&name));
    let may_name_fabrics = MAY_NAME_FABRICS.iter().any(|prefix| source.path.starts_with(prefix));
    let above = in_src.and_then(|(name, path)| above(name, path));
    for path in source.paths.iter().filter(|path| !source.is_test(path.line)) {
        let mut refuse = |message: String| report.violation(&source.path, path.line, message);
        if portable && !path.contains(PORTABLE_ALL_THE_SAME) {
            for (part, instead) in NOT_PORTABLE.iter().filter(|(part, _)| path.contains(part)) {
                refuse(format!("`{part}` in a crate that runs on every fabric: {instead}"));
            }
        }
        for (fabric, home) in FABRICS {
            // Ranks of a node share memory on every fabric of several nodes, and libfabric carries
            // what UDP does.
            let stands_on = matches!((directory, *home), ("nic", "shm") | ("ofi", "shm" | "nic"));
            if path.contains(fabric) && *home != directory && !stands_on && !may_name_fabrics {
                refuse(format!(
                    "`{fabric}` outside of the one choice of a fabric: go through {CHOICE}"
                ));
            }
        }
        let Some((module, above)) = above else { continue };
        for name in above.iter().filter(|name| path.contains(&format!("crate::{name}"))) {
            refuse(format!(
                "`crate::{name}` in `{module}`, which is below it: move what both need down, or \
                 hand it over as an argument"
            ));
        }
    }
}

/// The topmost module that a file of `src` is in, and the modules that stand above it.
fn above<'a>(directory: &str, path: &'a str) -> Option<(&'a str, &'static [&'static str])> {
    let (_, order) = ORDERS.iter().find(|(name, _)| *name == directory)?;
    let module = path.split('/').next()?;
    let module = module.strip_suffix(".rs").unwrap_or(module);
    let own = order.iter().position(|name| *name == module)?;
    Some((module, &order[own + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::NOWHERE;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        Report::of(check, path, text).lines()
    }

    #[test]
    fn a_protocol_may_not_know_threads_sockets_and_clocks() {
        let text = "use std::{sync::Arc, thread};\nuse std::net::UdpSocket;\nuse std::time;\n\
                    fn a() { time::Instant::now(); }\nuse std::time::SystemTime;\nuse \
                    std::os::fd::OwnedFd;\n\
                    fn b() { libc::abort(); }\nfn c() { rustix::rand(); }\nuse std::time::*;";
        assert_eq!(lines("crates/runtime/sync/src/mcs.rs", text), [1, 2, 4, 5, 6, 7, 8, 9]);
        let text = "//! Unlike std::thread.\nuse std::time::Duration; // not std::net\n\
                    fn b() -> bool { std::thread::panicking() }\n\
                    fn a() -> &'static str { \"libc\" }\n#[cfg(test)]\nmod tests \
                    {\n use std::thread;\n use farside_sim::World;\n}";
        assert_eq!(lines("crates/runtime/sync/src/mcs.rs", text), NOWHERE);
        assert_eq!(lines("crates/runtime/nic/src/agent.rs", "use std::thread;"), NOWHERE);
        assert_eq!(lines("crates/runtime/sync/tests/mcs.rs", "use std::thread;"), NOWHERE);
    }

    #[test]
    fn only_the_choice_names_fabrics() {
        let text = "use farside_shm::Shm;\nfn a() { farside_nic::b(); }";
        assert_eq!(lines("crates/tools/launch/src/lib.rs", text), [1, 2]);
        assert_eq!(lines("crates/runtime/farside/examples/hello.rs", text), [1, 2]);
        assert_eq!(lines(CHOICE, text), NOWHERE);
        assert_eq!(lines("crates/laboratory/bench/src/limit.rs", text), NOWHERE);
        assert_eq!(lines("crates/runtime/shm/src/lib.rs", text), [2]);
        assert_eq!(lines("crates/runtime/rma/tests/put.rs", text), NOWHERE);
    }

    #[test]
    fn a_folder_may_use_those_below_it_only() {
        let text = "use crate::transport::Address;\nuse crate::{lock::lock, node::server};\n\
                    fn a() { crate::endpoint::b(); }\nuse crate::link::Sender;";
        assert_eq!(lines("crates/runtime/nic/src/link/sender.rs", text), [2, 3]);
        assert_eq!(lines("crates/runtime/nic/src/link.rs", text), [2, 3]);
        for path in
            ["nic/src/endpoint/far.rs", "nic/src/fuzzing.rs", "shm/src/link.rs", "nic/tests/a.rs"]
        {
            assert_eq!(lines(&format!("crates/runtime/{path}"), text), NOWHERE, "{path}");
        }
    }
}

//! The suite with thread ranks: as they are, crowded, on pretended nodes, and with every operation
//! passing through the fabric.

use std::sync::mpsc;

use farside::Local;
use farside_conformance::{DEADLINE, for_each_test, record, test};

/// Runs a test, and ends the whole process if it hangs.
fn run(fabric: &str, name: &'static str, local: Local) {
    let (sender, receiver) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        let result = local.run(test(name).expect("the test exists"));
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(());
        result
    });
    if receiver.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: hangs");
        std::process::abort();
    }
    match runner.join() {
        Ok(result) => drop(result.unwrap_or_else(|error| panic!("{name}: {error}"))),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    record(fabric, name, "passed");
}

fn local(ranks: u32) -> Local {
    Local::new(ranks).expect("the environment is in order")
}

/// Four ranks, and processors for two of them: the central barrier, yields, sleeps.
mod threads {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("shm", stringify!($name), local(4).cores(2))
            })*
        };
    }
    for_each_test!(cases);
}

/// A processor for each rank, as far as the fabric knows: the dissemination barrier, spinning.
mod roomy_threads {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("shm", stringify!($name), local(3).cores(64))
            })*
        };
    }
    for_each_test!(cases);
}

/// Five ranks on two pretended nodes: the tree collectives, an agent for each node.
mod threads_on_two_nodes {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("shm", stringify!($name), local(5).topology("node:2"))
            })*
        };
    }
    for_each_test!(cases);
}

/// Every operation passes through the fabric's own methods, none through mapped memory.
mod observed_threads {
    use super::*;
    use farside::fabric::counting::Counts;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                let counts = Counts::new(4);
                run("shm", stringify!($name), local(4).decorate(move |fabric| counts.over(fabric)))
            })*
        };
    }
    for_each_test!(cases);
}

/// Four nodes that reach each other over UDP only.
mod threads_over_nic {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("nic", stringify!($name), local(4).nodes(4))
            })*
        };
    }
    for_each_test!(cases);
}

/// Five ranks on two nodes: near and far at once.
mod threads_over_nic_on_two_nodes {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("nic", stringify!($name), local(5).nodes(2))
            })*
        };
    }
    for_each_test!(cases);
}

/// Five ranks on two nodes whose servers execute all atomics, near ones too, and do not heed those
/// of the processor.
mod threads_over_nic_apart {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("nic", stringify!($name), local(5).nodes(2).server("nic-apart"))
            })*
        };
    }
    for_each_test!(cases);
}

/// Four nodes that reach each other over libfabric only: its TCP, or the provider that the
/// environment names.
mod threads_over_ofi {
    use super::*;

    fn provider() -> String {
        std::env::var(farside_job::PROVIDER).unwrap_or_else(|_| "tcp;ofi_rxm".into())
    }

    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("ofi", stringify!($name), local(4).nodes(4).ofi(&provider()))
            })*
        };
    }
    for_each_test!(cases);
}

/// Likewise, with far atomics that the provider executes, past the agents.
mod threads_over_ofi_native {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("ofi", stringify!($name), local(4).nodes(4).ofi("tcp;ofi_rxm/atomics=native"))
            })*
        };
    }
    for_each_test!(cases);
}

/// Likewise, with near ones, too: five ranks on two nodes.
mod threads_over_ofi_apart {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                run("ofi", stringify!($name), local(5).nodes(2).ofi("tcp;ofi_rxm/atomics=apart"))
            })*
        };
    }
    for_each_test!(cases);
}

/// Four ranks on one node whose operations are checked for races. Those programs alone have one
/// that look at what is under way.
mod checked_for_races {
    use super::*;
    use farside_races::Checker;

    const RACY: [&str; 7] = [
        // Its gets are dropped, and what they read does not matter.
        "transfers_own_their_data",
        "counters_count",
        // Two ranks read what the other writes: at least one must see it.
        "what_an_accumulate_fetched_has_landed",
        "flush_orders_a_put_before_a_later_get",
        // Readers watch the writer.
        "fence_orders_puts_to_one_rank",
        "a_team_syncs",
        // Two ranks write one element: any of the two will do.
        "windows_of_a_team",
    ];

    fn check(name: &'static str) {
        let checker = Checker::new(4).expect("there is memory");
        let over = checker.clone();
        let over = move |fabric| over.over(fabric).expect("the job has as many ranks");
        run("shm", name, local(4).decorate(over));
        let report = checker.report();
        if !RACY.contains(&name) {
            assert!(report.races.is_empty(), "{name}: {report}");
        }
    }

    macro_rules! cases {
        ($($name:ident)*) => {
            $(#[test] fn $name() {
                check(stringify!($name))
            })*
        };
    }
    for_each_test!(cases);
}

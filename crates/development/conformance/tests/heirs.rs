//! Rank 0 is killed while its process runs the handlers of its node: calls go on with the next
//! rank, or say why they cannot.

use std::time::Duration;

use farside::{ExitCause, Rank};
use farside_conformance::churn::DELAY;
use farside_conformance::heirs::KINDS;
use farside_job::{Kind, Options};
use farside_launch::{Failure, Launch};

const RANKS: u32 = 4;
const DEADLINE: Duration = Duration::from_secs(60);

/// Kills per kind of work, ten times as many in the long run.
fn kills(fabric: Kind) -> u64 {
    let few = match fabric {
        Kind::Shm => 8,
        Kind::Nic => 4,
        // A process takes a third of a second to load libfabric.
        _ => 2,
    };
    if std::env::var_os("FARSIDE_LONG").is_some() { 10 * few } else { few }
}

fn rank_0_is_killed(kind: &str, fabric: Kind, nodes: u32) {
    assert!(KINDS.contains(&kind));
    // Who is killed by a call dies once.
    let kills = if kind == "suicide" { 1 } else { kills(fabric) };
    for kill in 0..kills {
        let delay_us = (kill * 7919) % 20_000;
        let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), RANKS)
            .expect("the environment is in order");
        let change = |options: &mut Options| {
            options.fabric = fabric;
            if fabric != Kind::Shm {
                options.nodes = Some(nodes);
            }
            if fabric == Kind::Ofi {
                options.provider.get_or_insert("tcp;ofi_rxm".into());
            }
        };
        let report = launch
            .options(change)
            .argument(format!("heirs-{kind}"))
            .variable(DELAY, delay_us.to_string())
            .timeout(DEADLINE)
            .grace(DEADLINE)
            .run()
            .expect("the job starts");
        let context = format!(
            "{kind} over {fabric} on {nodes} nodes, killed after {delay_us} us: {report:?}"
        );
        assert!(!report.timed_out, "somebody hangs: {context}");
        assert_eq!(
            report.failures,
            [Failure { rank: Rank(0), how: ExitCause::Signal(9) }],
            "{context}"
        );
    }
}

macro_rules! heirs {
    ($fabric:ident $nodes:literal $($name:ident $kind:literal)*) => {
        $(#[test] fn $name() { rank_0_is_killed($kind, Kind::$fabric, $nodes) })*
    };
}

mod on_one_node {
    use super::*;
    heirs! { Shm 1
        calls_go_on "call"
        the_call_that_is_executed_is_an_error "suicide"
        a_server_lock_recovers "server"
        a_hybrid_lock_recovers "hybrid"
        a_window_says_whom_it_has_lost "backoff"
    }
}

/// Two nodes of two ranks.
mod over_nic {
    use super::*;
    heirs! { Nic 2
        calls_go_on "call"
        the_call_that_is_executed_is_an_error "suicide"
        a_server_lock_recovers "server"
        a_hybrid_lock_recovers "hybrid"
        a_window_says_whom_it_has_lost "backoff"
    }
}

/// Rank 0 is the only one of its node: nobody takes over.
mod over_nic_without_heirs {
    use super::*;
    heirs! { Nic 4
        calls_are_errors "call"
        the_call_that_is_executed_is_an_error "suicide"
        a_server_lock_recovers_elsewhere "server"
        a_hybrid_lock_recovers_elsewhere "hybrid"
        a_window_says_whom_it_has_lost "backoff"
    }
}

/// Two nodes of two ranks, over libfabric.
mod over_ofi {
    use super::*;
    heirs! { Ofi 2
        calls_go_on "call"
        the_call_that_is_executed_is_an_error "suicide"
        a_hybrid_lock_recovers "hybrid"
    }
}

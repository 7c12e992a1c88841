//! The suite with process ranks.

use farside_conformance::{DEADLINE, for_each_test, test_each};
use farside_launch::Launch;

use farside_job::{Kind, Options};

fn run(name: &str, change: impl FnOnce(&mut Options)) {
    let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), 4)
        .expect("the environment is in order");
    let launch = launch.options(change);
    let report = launch.argument(name).timeout(DEADLINE).run().expect("the job starts");
    assert!(!report.timed_out, "{name}: hangs");
    assert_eq!(report.status, 0, "{name}: {:?}", report.failures);
}

test_each!(processes, |name| run(name, |_| ()));
// Four nodes that reach each other over UDP only.
test_each!(processes_over_nic, |name| {
    run(name, |options| (options.fabric, options.nodes) = (Kind::Nic, Some(4)));
});

/// Four nodes that reach each other over libfabric only. A process takes a third of a second to
/// load that: thread ranks try everything.
mod processes_over_ofi {
    use super::*;
    fn four_nodes(options: &mut Options) {
        options.fabric = Kind::Ofi;
        options.nodes = Some(4);
        options.provider.get_or_insert("tcp;ofi_rxm".into());
    }
    const QUICK: [&str; 6] = [
        "tickets_are_unique",
        "flush_is_seen_by_a_third_rank",
        "a_signal_comes_after_the_fenced_put",
        "wait_wakes_a_sleeper",
        "a_handler_reads_and_writes",
        "transfers_overlap_in_a_scope",
    ];
    #[test]
    fn the_suite_passes() {
        macro_rules! cases {
            ($($name:ident)*) => { [$(stringify!($name)),*] };
        }
        let all = for_each_test!(cases);
        assert!(QUICK.iter().all(|name| all.contains(name)), "{QUICK:?}");
        let is_long = std::env::var_os("FARSIDE_LONG").is_some();
        all.iter()
            .filter(|name| is_long || QUICK.contains(name))
            .for_each(|name| run(name, four_nodes));
    }
}

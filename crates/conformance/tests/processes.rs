//! The suite with process ranks.

use farside_conformance::{DEADLINE, for_each_test};
use farside_launch::Launch;

use farside::job::{Kind, Options};

fn run(name: &str, change: impl FnOnce(&mut Options)) {
    let launch = Launch::new(env!("CARGO_BIN_EXE_farside-conformance"), 4).expect("the environment is in order");
    let launch = launch.options(change);
    let report = launch.argument(name).timeout(DEADLINE).run().expect("the job starts");
    assert!(!report.timed_out, "{name}: hangs");
    assert_eq!(report.status, 0, "{name}: {:?}", report.failures);
}

mod processes {
    use super::*;
    macro_rules! cases {
        ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name), |_| ()) })* };
    }
    for_each_test!(cases);
}

/// Four nodes that reach each other over UDP only.
mod processes_over_nic {
    use super::*;
    fn four_nodes(options: &mut Options) {
        options.fabric = Kind::Nic;
        options.nodes = Some(4);
    }
    macro_rules! cases {
        ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name), four_nodes) })* };
    }
    for_each_test!(cases);
}

/// Four nodes that reach each other over libfabric's TCP only.
mod processes_over_ofi {
    use super::*;
    fn four_nodes(options: &mut Options) {
        options.fabric = Kind::Ofi;
        options.nodes = Some(4);
        options.provider = Some("tcp;ofi_rxm".into());
    }
    macro_rules! cases {
        ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name), four_nodes) })* };
    }
    for_each_test!(cases);
}

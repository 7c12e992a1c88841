//! What each rank of the benches runs has no races, at small sizes, but for those that it means.

#[path = "../../../tools/races/tests/support/mod.rs"]
mod support;

use farside::map::Synchronization;
use farside_apps::lu::DESIGNS;
use farside_bench::driver::Plan;
use farside_bench::locks::LockSpec;
use farside_bench::{
    array, collectives, dht, interference, irregular, locks, lu, ops, overlap, sharing, start, sync,
};
use serde_json::{Value, json};
use support::checked;

/// How long each case takes, where the time decides.
const MOMENT_NS: u32 = 1_000_000;

/// Two operations that may race where a bench means it, in the order of their names.
type Known = [&'static str; 2];

/// Runs all cases of a bench, with what else its plan says; returns how many accesses were seen.
fn accesses<P: Plan + Sync>(ranks: u32, rest: Value, known: &[Known]) -> u64 {
    let mut plan = json!({ "time": { "secs": 0, "nanos": MOMENT_NS }, "cases": P::LAYOUT.cases });
    for (name, value) in rest.as_object().expect("the rest of a plan has names") {
        plan[name] = value.clone();
    }
    let plan: P = serde_json::from_value(plan).expect("it is a plan");
    let mut report = checked(ranks, |world| plan.run(world).map(drop));
    report.races.retain(|race| {
        let mut operations = [race.first.operation, race.second.operation];
        operations.sort_unstable();
        !known.contains(&operations)
    });
    assert!(report.races.is_empty(), "{}: {report}", P::BENCH);
    report.accesses
}

#[test]
fn operations() {
    let ordered = ops::Plan::LAYOUT.cases.iter().filter(|case| **case != "rate");
    let ordered: Vec<&str> = ordered.copied().collect();
    for target in ["Idle", "Computing"] {
        let rest = json!({ "cases": ordered, "sizes": [8, 256], "target": target });
        let seen = accesses::<ops::Plan>(2, rest, &[]);
        assert!(seen > 100, "{target}: {seen}");
    }
    // Many puts to one place are under way at once: which of them comes last does not matter.
    let rest = json!({ "cases": ["rate"], "sizes": [8], "target": "Idle" });
    assert!(accesses::<ops::Plan>(2, rest, &[["put", "put"]]) > 100);
}

#[test]
fn fences_and_barriers() {
    // A rank looks for what was put in a round; one that is ahead may have put again.
    assert!(accesses::<sync::Plan>(3, json!({ "bytes": 64 }), &[["put", "read"]]) > 100);
}

#[test]
fn collectives_and_small_operations() {
    for case in collectives::Plan::LAYOUT.cases {
        accesses::<collectives::Plan>(2, json!({ "case": case, "bytes": 256 }), &[]);
    }
    for case in irregular::Plan::LAYOUT.cases {
        accesses::<irregular::Plan>(2, json!({ "case": case, "operations": 64 }), &[]);
    }
    for case in ["idle", "beside_bulk", "fair", "put_relayed", "get_lossy"] {
        let rest = json!({ "case": case, "bytes": 4096, "second": null });
        assert!(accesses::<sharing::Plan>(4, rest, &[]) > 0, "{case}");
    }
}

#[test]
fn windows_that_begin_and_end() {
    // The program does nothing with them.
    assert_eq!(accesses::<start::Plan>(2, json!({ "case": "window" }), &[]), 0);
}

#[test]
fn locks_under_contention() {
    let all = LockSpec::all();
    let rest = json!({ "writers_pct": 50.0, "operations": 0, "locks": all });
    // When it counts is signalled, and looked for by a plain read in every round.
    assert!(accesses::<locks::Plan>(2, rest, &[["read", "signal"]]) > 100);
}

#[test]
fn arrays_and_tables() {
    // What is done inside of them is not looked at, but what they are measured by is.
    let rest = json!({ "shapes": [{ "rows": 4, "columns": 4 }], "size": 16 });
    accesses::<array::Plan>(2, rest, &[]);
    let names: Vec<String> = Synchronization::all().iter().map(|one| one.name().into()).collect();
    let rest = json!({ "writers_pct": [20.0], "operations": 0, "keys": 100, "locks": names });
    accesses::<dht::Plan>(2, rest, &[]);
}

#[test]
fn epochs() {
    let lengths = json!({
        "sizes": [64], "operations": [2], "receiver_sizes": [64], "designs": DESIGNS,
        "slice_us": 10, "library_ns": 0, "message_bytes": 8192, "apart": null,
    });
    assert!(accesses::<overlap::Plan>(2, lengths, &[]) > 100);
    let factored = json!({
        "size": 32, "block": 8, "flop_ns": 0.0, "library_ns": 0, "message_bytes": 8192,
        "refetch": false, "ahead": true,
    });
    let rest = json!({ "sizes": [32], "lu": factored, "designs": DESIGNS });
    assert!(accesses::<lu::Plan>(3, rest, &[]) > 10);
}

#[test]
fn a_home_that_does_something_else() {
    let rest = json!({ "loads_per_s": [1000], "placement": null });
    assert!(accesses::<interference::Plan>(3, rest, &[]) > 1);
}

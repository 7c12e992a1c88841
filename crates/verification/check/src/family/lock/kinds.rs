//! Every lock of the table, as it is used.

use farside::lock::Kind;
use farside::lock::frame::Observer;
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use super::table::{EXPLORED, Explored, Large};
use super::{exclusive, fair, together};
use crate::check::{Check, Setup};
use crate::family::asking::Style;
use crate::family::{LARGE, name};

const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn of(kind: &Kind) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| Lock::of_kind(world, Rank(0), &kind)
}

pub(in crate::family) fn of_name(
    name: &'static str,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    let kind = Kind::named(name).expect("a lock of that name");
    move |world: &World| Lock::observed(world, Rank(0), &kind, observer)
}

/// The jobs that a lock's file names.
fn explored(row: &Explored) -> Vec<Check> {
    let kind = (row.kind)();
    let check = |suffix: &str, about: &'static str, style: Style| {
        let name = name(&["lock/", row.name, suffix]);
        Check::new(name, about, together(of(&kind), style, row.holders))
    };
    let limited = |suffix: &str, about: &'static str, style: Style| {
        check(suffix, about, style).setup(row.limits.setup())
    };
    let mut checks = vec![
        check("", "one at a time, on one node", Style::Wait).setup(row.near.setup()),
        check("-far", "one at a time, on several nodes", Style::Wait).setup(row.far.setup()),
        check("-death", "a rank dies with the lock, or waiting for it", Style::Wait)
            .setup(row.deaths.setup().deaths(1)),
        limited("-gives-up", "who waits gives up its place, and comes back", Style::GiveUp),
        limited("-walks-away", "who waits gives up its place, and goes away", Style::WalkAway),
        limited("-tries", "who does not get it at once comes back", Style::Try),
        limited("-times-out", "a time limit ends at any step", Style::Patient).setup(Setup {
            ranks: 2,
            rounds: 1,
            time_outs: 1,
            ..row.limits.setup()
        }),
    ];
    for (suffix, ranks) in [("-8", 8), ("-16", 16)] {
        let about = "many ranks, some with time limits, on three levels";
        let setup = Setup::new(ranks).rounds(3).topology(DEEP);
        checks.push(check(suffix, about, Style::Mixed).setup(setup).policy(PCT, 1000));
    }
    checks.extend(large(row));
    checks
}

/// As many processes as [RMALOCK16] has checked, and as often.
fn large(row: &Explored) -> Vec<Check> {
    const MANY: &str = "many more ranks, 20 times each";
    let (kind, is_deep) = match row.large {
        Large::No => return Vec::new(),
        Large::Near(kind) => (kind(), false),
        Large::Deep(kind) => (kind(), true),
    };
    let suffixes = ["-64", "-64-random", "-256", "-256-random"];
    let checks = suffixes.into_iter().zip(LARGE).map(|(suffix, job)| {
        let (ranks, topology, policy, schedules) = job;
        let setup = Setup::new(ranks).rounds(20);
        let setup = if is_deep { setup.topology(topology) } else { setup };
        let name = name(&["lock/", row.name, suffix]);
        let check = Check::new(name, MANY, exclusive(of(&kind), Style::Wait));
        check.small(setup.clone().rounds(2)).setup(setup).policy(policy, schedules)
    });
    checks.collect()
}

pub(super) fn checks() -> Vec<Check> {
    let tree = |thresholds: Vec<u32>| Kind::RmaMcs { thresholds };
    let turns = Kind::Bypass { batch: 1, bound: 2, polls: 1 };
    let asleep = Kind::Bypass { batch: 1, bound: 1, polls: 0 };
    let mut checks: Vec<Check> = EXPLORED.iter().flat_map(explored).collect();
    for check in checks.iter_mut().filter(|check| check.name == "lock/semaphore-2-times-out") {
        check.setup.ranks = 3;
        (check.policy, check.schedules) = (PCT, Some(10_000));
    }
    // The longest of them. On one node the tree is the queue.
    for check in &mut checks {
        check.small = match check.name {
            "lock/default-asleep-gives-up" => Some(Setup::new(2)),
            "lock/rma-mcs" => Some(Setup::new(3)),
            _ => continue,
        };
    }
    for (name, about, t_l) in [
        ("lock/rma-mcs-leaves", "a lock that leaves its node with every release", 1),
        ("lock/rma-mcs-stays", "a lock that stays on its node while a rank of it waits", 32),
    ] {
        let check = Check::new(name, about, exclusive(of(&tree(vec![t_l])), Style::Wait));
        checks.push(check.setup(Setup::new(3).topology("node:2")));
    }
    checks.push(
        Check::new(
            "lock/default-bound",
            "the first that waits is overtaken once at most",
            fair(of(&asleep), 1),
        )
        .setup(Setup::new(2).rounds(2)),
    );
    checks.push(
        Check::new(
            "lock/default-turns-bound",
            "the first is overtaken twice at most, if it does not run",
            fair(of(&turns), 2),
        )
        .setup(Setup::new(2).rounds(4))
        .policy(PCT, 10_000),
    );
    checks.push(
        Check::new("lock/default-bound-8", "the same, among many", fair(of(&asleep), 1))
            .setup(Setup::new(8).rounds(10).topology(DEEP))
            .policy(PCT, 1000),
    );
    checks
}

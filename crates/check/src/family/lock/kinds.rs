//! Every kind of lock, as it is used.

use farside::lock::Kind;
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use super::{exclusive, fair};
use crate::check::{Check, Setup};
use crate::family::LARGE;
use crate::family::asking::Style;

/// A machine of three levels.
const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn of(kind: &Kind) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| Lock::of_kind(world, Rank(0), &kind)
}

/// The names of the checks of one kind.
macro_rules! names {
    ($name:literal) => {
        Names {
            near: concat!("lock/", $name),
            far: concat!("lock/", $name, "-far"),
            many: [concat!("lock/", $name, "-8"), concat!("lock/", $name, "-16")],
            deaths: concat!("lock/", $name, "-death"),
            gives_up: concat!("lock/", $name, "-gives-up"),
            walks_away: concat!("lock/", $name, "-walks-away"),
            tries: concat!("lock/", $name, "-tries"),
        }
    };
}

struct Names {
    near: &'static str,
    far: &'static str,
    many: [&'static str; 2],
    deaths: &'static str,
    gives_up: &'static str,
    walks_away: &'static str,
    tries: &'static str,
}

/// Jobs of which all schedules can be tried in seconds: ranks and rounds.
struct Sizes {
    near: (u32, u32),
    far: (u32, u32),
    /// How many ranks, of which one may die.
    deaths: u32,
    limits: (u32, u32),
    /// The nodes of the far job, and whether those with time limits are far, too.
    nodes: (&'static str, bool),
}

const USUAL: Sizes =
    Sizes { near: (3, 1), far: (3, 1), deaths: 2, limits: (2, 1), nodes: ("node:3", false) };

fn of_kind(names: &Names, kind: &Kind, sizes: &Sizes) -> Vec<Check> {
    let job = |(ranks, rounds): (u32, u32)| Setup::new(ranks).rounds(rounds);
    let (nodes, is_far) = sizes.nodes;
    let far = |setup: Setup| if is_far { setup.topology(nodes) } else { setup };
    let waiting = |name: &'static str, about: &'static str| {
        Check::new(name, about, exclusive(of(kind), Style::Wait))
    };
    let limited = |name: &'static str, about: &'static str, style: Style| {
        Check::new(name, about, exclusive(of(kind), style)).setup(far(job(sizes.limits)))
    };
    let mut checks = vec![
        waiting(names.near, "one at a time, on one node").setup(job(sizes.near)),
        waiting(names.far, "one at a time, on several nodes").setup(job(sizes.far).topology(nodes)),
        waiting(names.deaths, "a rank dies with the lock, or waiting for it")
            .setup(far(Setup::new(sizes.deaths).deaths(1))),
        limited(names.gives_up, "who waits gives up its place, and comes back", Style::GiveUp),
        limited(names.walks_away, "who waits gives up its place, and goes away", Style::WalkAway),
        limited(names.tries, "who does not get it at once comes back", Style::Try),
    ];
    for (name, ranks) in names.many.into_iter().zip([8, 16]) {
        let about = "many ranks, some with time limits, on three levels";
        let check = Check::new(name, about, exclusive(of(kind), Style::Mixed));
        checks.push(check.setup(Setup::new(ranks).rounds(3).topology(DEEP)).policy(PCT, 1000));
    }
    checks
}

/// As many processes as [RMALOCK16] has checked, and as often: the kinds, where the ranks are, and
/// four names.
fn large() -> Vec<Check> {
    const MANY: &str = "many more ranks, 20 times each";
    macro_rules! names {
        ($name:literal) => {
            [
                concat!("lock/", $name, "-64"),
                concat!("lock/", $name, "-64-random"),
                concat!("lock/", $name, "-256"),
                concat!("lock/", $name, "-256-random"),
            ]
        };
    }
    let tree = Kind::Tree { thresholds: vec![4, 2, 2] };
    let kinds = [
        (names!("d-mcs"), Kind::Mcs, true),
        (names!("rma-mcs"), tree, true),
        (names!("default"), Kind::Default, false),
    ];
    let checks = kinds.into_iter().flat_map(|(names, kind, is_deep)| {
        names.into_iter().zip(LARGE).map(move |(name, (ranks, topology, policy, schedules))| {
            let setup = Setup::new(ranks).rounds(20);
            let setup = if is_deep { setup.topology(topology) } else { setup };
            let check = Check::new(name, MANY, exclusive(of(&kind), Style::Wait))
                .small(setup.clone().rounds(2));
            check.setup(setup).policy(policy, schedules)
        })
    });
    checks.collect()
}

/// All checks of kinds.
pub(super) fn checks() -> Vec<Check> {
    let queue = Sizes { near: (3, 2), deaths: 3, limits: (3, 1), ..USUAL };
    let tree = |thresholds: Vec<u32>| Kind::Tree { thresholds };
    let turns = Kind::Bypass { batch: 1, bound: 2, polls: 1 };
    let asleep = Kind::Bypass { batch: 1, bound: 1, polls: 0 };
    let kinds = [
        (names!("ticket"), Kind::Ticket, Sizes { deaths: 3, limits: (3, 1), ..USUAL }),
        (names!("server"), Kind::Server, USUAL),
        (names!("hybrid"), Kind::Hybrid, USUAL),
        (names!("d-mcs"), Kind::Mcs, Sizes { ..queue }),
        (names!("d-mcs-token"), Kind::Token, Sizes { limits: (2, 3), ..queue }),
        (names!("rma-mcs"), tree(vec![2]), Sizes { nodes: ("node:2", true), ..queue }),
        (names!("fompi-spin"), Kind::Spin { backoff: false }, Sizes { limits: (2, 2), ..USUAL }),
        (
            names!("fompi-spin-backoff"),
            Kind::Spin { backoff: true },
            Sizes { limits: (2, 2), ..USUAL },
        ),
        (names!("default"), Kind::Default, USUAL),
        (names!("default-asleep"), asleep.clone(), Sizes { deaths: 3, limits: (2, 2), ..USUAL }),
        (names!("default-one-look"), Kind::Bypass { batch: 1, bound: 1, polls: 1 }, USUAL),
        (names!("default-turns"), turns.clone(), USUAL),
    ];
    let mut checks: Vec<Check> =
        kinds.iter().flat_map(|(names, kind, sizes)| of_kind(names, kind, sizes)).collect();
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
        ("lock/rma-mcs-stays", "a lock that stays on its node while somebody there waits", 32),
    ] {
        let check = Check::new(name, about, exclusive(of(&tree(vec![t_l])), Style::Wait));
        checks.push(check.setup(Setup::new(3).topology("node:2")));
    }
    checks.extend(large());
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

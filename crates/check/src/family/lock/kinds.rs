//! Every kind of lock, as it is used.

use farside::lock::Kind;
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use super::{exclusive, fair};
use crate::check::{Check, Setup};
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

/// The largest jobs of which all schedules can be tried in seconds: ranks and rounds.
struct Sizes {
    near: (u32, u32),
    far: (u32, u32),
    deaths: u32,
    limits: (u32, u32),
}

fn of_kind(names: &Names, kind: &Kind, sizes: &Sizes) -> Vec<Check> {
    let job = |(ranks, rounds): (u32, u32)| Setup::new(ranks).rounds(rounds);
    let limited = |name: &'static str, about: &'static str, style: Style| {
        Check::new(name, about, exclusive(of(kind), style)).setup(job(sizes.limits))
    };
    let mut checks = vec![
        Check::new(names.near, "one at a time, on one node", exclusive(of(kind), Style::Wait)).setup(job(sizes.near)),
        Check::new(names.far, "one at a time, on several nodes", exclusive(of(kind), Style::Wait)).setup(
            job(sizes.far).topology(if sizes.far.0 == 3 && names.far.contains("rma-mcs") {
                "node:2"
            } else {
                ["", "", "node:2", "node:3"][sizes.far.0 as usize]
            }),
        ),
        Check::new(names.deaths, "a rank dies with the lock, or waiting for it", exclusive(of(kind), Style::Wait))
            .setup(Setup::new(sizes.deaths).deaths(1)),
        limited(names.gives_up, "who waits gives up its place, and comes back", Style::GiveUp),
        limited(names.walks_away, "who waits gives up its place, and goes away", Style::WalkAway),
        limited(names.tries, "who does not get it at once comes back", Style::Try),
    ];
    for (name, ranks) in names.many.into_iter().zip([8, 16]) {
        let about = "many ranks, some with time limits, on three levels";
        let check = Check::new(name, about, exclusive(of(kind), Style::Mixed));
        checks.push(check.setup(Setup::new(ranks).rounds(3).topology(DEEP)).policy(PCT, 400));
    }
    checks
}

/// All checks of kinds.
pub(super) fn checks() -> Vec<Check> {
    let usual = Sizes { near: (3, 1), far: (3, 1), deaths: 2, limits: (2, 1) };
    let kinds = [
        (names!("ticket"), Kind::Ticket, &usual),
        (names!("server"), Kind::Server, &usual),
        (names!("hybrid"), Kind::Hybrid, &usual),
        (names!("d-mcs"), Kind::Mcs, &usual),
        (names!("d-mcs-token"), Kind::Token, &usual),
        (names!("rma-mcs"), Kind::Tree { thresholds: vec![2] }, &usual),
        (names!("fompi-spin"), Kind::Spin { backoff: false }, &usual),
        (names!("fompi-spin-backoff"), Kind::Spin { backoff: true }, &usual),
        (names!("default"), Kind::Default, &usual),
        (names!("default-asleep"), Kind::Bypass { bound: 1, polls: 0 }, &usual),
        (names!("default-one-look"), Kind::Bypass { bound: 1, polls: 1 }, &usual),
    ];
    let mut checks: Vec<Check> = kinds.iter().flat_map(|(names, kind, sizes)| of_kind(names, kind, sizes)).collect();
    let bound = Kind::Bypass { bound: 1, polls: 0 };
    checks.push(
        Check::new("lock/default-bound", "the first that waits is overtaken once at most", fair(of(&bound), 1))
            .setup(Setup::new(2).rounds(2)),
    );
    checks.push(
        Check::new("lock/default-bound-8", "the same, among many", fair(of(&bound), 1))
            .setup(Setup::new(8).rounds(10).topology(DEEP))
            .policy(PCT, 400),
    );
    checks
}

//! Every kind of reader-writer lock, as it is used, with limits so small that every branch is
//! reached.

use farside::rw::Kind;
use farside::sim::Policy;
use farside::{Rank, Result, RwLock, World};

use super::{Roles, visits};
use crate::check::{Check, Setup};
use crate::family::LARGE;
use crate::family::asking::Style;

/// A machine of three levels.
const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

const READERS: Roles = &["w", "r", "r"];
const WRITERS: Roles = &["w", "w", "r"];
const PAIR: Roles = &["w", "r"];
const MANY: Roles = &["wr", "rrwr", "rrr", "rwr"];

fn of(kind: &Kind) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| RwLock::of_kind(world, Rank(0), &kind)
}

/// Every schedule of ranks with these roles, on one node.
fn all(
    name: &'static str,
    about: &'static str,
    kind: &Kind,
    roles: (Roles, Style),
    branches: &'static [&'static str],
) -> Check {
    Check::new(name, about, visits(of(kind), roles, branches))
        .setup(Setup::new(roles.0.len() as u32))
}

const READERS_WAIT: &str = "one writer and two readers";
const WRITERS_WAIT: &str = "two writers and a reader";
const TWICE: &str = "a writer and a reader, twice";
const DIES: &str = "a rank dies inside, or waiting";
const GIVES_UP: &str = "who waits gives up its place, and comes back";
const WALKS_AWAY: &str = "who waits gives up its place, and goes away";
const TRIES: &str = "who does not get it at once comes back";
const ON_LEVELS: &str = "many ranks, some with time limits, on three levels";

/// Time limits, deaths, and many ranks: what every kind has.
fn beyond(
    names: [&'static str; 6],
    kind: &Kind,
    many: &Kind,
    branches: &'static [&'static str],
) -> Vec<Check> {
    let [gives_up, walks_away, tries, death, eight, sixteen] = names;
    let mut checks = vec![
        all(gives_up, GIVES_UP, kind, (PAIR, Style::GiveUp), &["given_up"]),
        all(walks_away, WALKS_AWAY, kind, (PAIR, Style::WalkAway), &["given_up"]),
        all(tries, TRIES, kind, (PAIR, Style::Try), &["given_up"]),
        all(death, DIES, kind, (PAIR, Style::Wait), &[]).setup(Setup::new(2).deaths(1)),
    ];
    for (name, ranks) in [(eight, 8), (sixteen, 16)] {
        let check = Check::new(name, ON_LEVELS, visits(of(many), (MANY, Style::Mixed), branches));
        checks.push(check.setup(Setup::new(ranks).topology(DEEP)).policy(PCT, 1000));
    }
    checks
}

macro_rules! beyond {
    ($name:literal, $kind:expr, $many:expr, $branches:expr) => {
        beyond(
            [
                concat!("rw/", $name, "-gives-up"),
                concat!("rw/", $name, "-walks-away"),
                concat!("rw/", $name, "-tries"),
                concat!("rw/", $name, "-death"),
                concat!("rw/", $name, "-8"),
                concat!("rw/", $name, "-16"),
            ],
            $kind,
            $many,
            $branches,
        )
    };
}

fn fompi_rw() -> Vec<Check> {
    let (plain, backoff) = (&Kind::FompiRw { backoff: false }, &Kind::FompiRw { backoff: true });
    let wait = Style::Wait;
    let mut checks = vec![
        all(
            "rw/fompi-rw-readers",
            READERS_WAIT,
            plain,
            (READERS, wait),
            &["reads", "writes", "reads_queued"],
        ),
        all(
            "rw/fompi-rw-writers",
            WRITERS_WAIT,
            plain,
            (WRITERS, wait),
            &["reads_queued", "writes_queued"],
        ),
        all("rw/fompi-rw-twice", TWICE, plain, (PAIR, wait), &["reads_queued"])
            .setup(Setup::new(2).rounds(2)),
        all(
            "rw/fompi-rw-backoff-readers",
            READERS_WAIT,
            backoff,
            (READERS, wait),
            &["reads_queued"],
        ),
        all(
            "rw/fompi-rw-backoff-writers",
            WRITERS_WAIT,
            backoff,
            (WRITERS, wait),
            &["writes_queued"],
        ),
    ];
    checks.extend(beyond!(
        "fompi-rw",
        plain,
        plain,
        &["reads_queued", "writes_queued", "given_up"]
    ));
    checks
}

fn rma_rw() -> Vec<Check> {
    let with =
        |t_dc: Option<u32>, t_l: &[u32], t_r: u32| Kind::RmaRw { t_dc, t_l: t_l.to_vec(), t_r };
    let (one, each) = (&with(None, &[2], 1), &with(Some(1), &[1], 1));
    let wait = Style::Wait;
    let tree = |name: &'static str, kind: Kind, roles: Roles, branches: &'static [&'static str]| {
        let about = "writers in a tree of two nodes, and a reader";
        all(name, about, &kind, (roles, wait), branches).setup(Setup::new(3).topology("node:2"))
    };
    let mut checks = vec![
        all(
            "rw/rma-rw-readers",
            READERS_WAIT,
            one,
            (READERS, wait),
            &[
                "closed",
                "drained",
                "opened",
                "reads_queued",
                "limit_reached",
                "limit_kept",
                "limit_lifted",
            ],
        ),
        all(
            "rw/rma-rw-writers",
            WRITERS_WAIT,
            one,
            (WRITERS, wait),
            &["closed", "drained", "opened", "reads_queued", "writes_queued", "passed_across"],
        ),
        all(
            "rw/rma-rw-twice",
            TWICE,
            one,
            (PAIR, wait),
            &["closed", "drained", "opened", "limit_lifted"],
        )
        .setup(Setup::new(2).rounds(2)),
        all(
            "rw/rma-rw-each-readers",
            READERS_WAIT,
            each,
            (READERS, wait),
            &["drained", "reads_queued"],
        ),
        all(
            "rw/rma-rw-each-writers",
            WRITERS_WAIT,
            each,
            (WRITERS, wait),
            &["drained", "opened", "yielded"],
        ),
        tree(
            "rw/rma-rw-far-inner",
            with(None, &[1, 2], 2),
            WRITERS,
            &["passed_within", "passed_near", "left_for_another"],
        ),
        tree(
            "rw/rma-rw-far-outer",
            with(None, &[2, 1], 2),
            WRITERS,
            &["closed", "drained", "opened"],
        ),
        tree(
            "rw/rma-rw-far-apart",
            with(None, &[2, 1], 2),
            &["w", "r", "w"],
            &["passed_across", "passed_far"],
        ),
        all(
            "rw/rma-rw-far-walks-away",
            WALKS_AWAY,
            &with(None, &[2, 2], 1),
            (WRITERS, Style::WalkAway),
            &["given_up"],
        )
        .setup(Setup::new(3).topology("node:2")),
    ];
    const ALL: &[&str] = &[
        "closed",
        "drained",
        "opened",
        "yielded",
        "passed_within",
        "left_for_another",
        "limit_reached",
        "limit_kept",
        "limit_lifted",
        "reads_queued",
        "writes_queued",
        "given_up",
    ];
    checks.push(
        all("rw/rma-rw-death-readers", DIES, one, (READERS, wait), &[])
            .setup(Setup::new(3).deaths(1))
            .small(Setup::new(2).deaths(1)),
    );
    checks.extend(beyond!("rma-rw", one, &with(Some(3), &[1, 2], 1), ALL));
    let across = visits(
        of(&with(Some(3), &[2, 2, 1], 1)),
        (MANY, Style::Mixed),
        &["passed_across", "passed_within"],
    );
    let check = Check::new("rw/rma-rw-across-8", ON_LEVELS, across);
    checks.push(check.setup(Setup::new(8).topology(DEEP)).policy(PCT, 1000));
    checks
}

fn default_rw() -> Vec<Check> {
    let with = |t_dc: Option<u32>, t_w: u32, yields: u32| Kind::Slots { t_dc, t_w, yields };
    let (insistent, patient, shared) = (&with(None, 1, 0), &with(None, 2, 1), &with(Some(4), 2, 1));
    let wait = Style::Wait;
    let mut checks = vec![
        all(
            "rw/default-rw-readers",
            READERS_WAIT,
            insistent,
            (READERS, wait),
            &["closed", "drained", "insisted"],
        ),
        all(
            "rw/default-rw-writers",
            WRITERS_WAIT,
            insistent,
            (WRITERS, wait),
            &["closed", "drained", "yielded"],
        ),
        all(
            "rw/default-rw-pair",
            "a writer and a reader",
            patient,
            (PAIR, wait),
            &["closed", "drained", "opened"],
        ),
        all(
            "rw/default-rw-insists",
            "a reader insists at once",
            insistent,
            (PAIR, wait),
            &["insisted"],
        ),
        all(
            "rw/default-rw-row",
            "two writers in a row",
            patient,
            (&["w", "w"], wait),
            &["passed_across", "lingered"],
        ),
        all(
            "rw/default-rw-reads-twice",
            "a reader comes again, and reads alone",
            patient,
            (&["w", "rr"], wait),
            &["reads_alone", "lingered", "reads_queued"],
        ),
        all(
            "rw/default-rw-writes-twice",
            "a writer comes again",
            patient,
            (&["ww", "r"], wait),
            &["lingered"],
        ),
        all(
            "rw/default-rw-shared",
            "one counter for all",
            shared,
            (PAIR, wait),
            &["closed", "drained", "opened"],
        ),
        all(
            "rw/default-rw-shared-twice",
            "one counter, a reader comes again",
            shared,
            (&["w", "rr"], wait),
            &["lingered"],
        ),
    ];
    const ALL: &[&str] = &[
        "closed",
        "drained",
        "opened",
        "yielded",
        "passed_across",
        "insisted",
        "lingered",
        "reads_alone",
        "reads_queued",
        "writes_queued",
        "given_up",
    ];
    checks.extend(beyond!("default-rw", patient, &with(Some(3), 2, 1), ALL));
    checks.push(
        Check::new(
            "rw/default-rw-far-8",
            ON_LEVELS,
            visits(of(&Kind::Default), (MANY, Style::Mixed), &["given_up"]),
        )
        .setup(Setup::new(8).topology(DEEP))
        .policy(PCT, 1000),
    );
    checks
}

/// As many processes as [RMALOCK16] has checked, and as often.
fn large() -> Vec<Check> {
    const ABOUT: &str = "many more ranks, about 20 times each";
    macro_rules! names {
        ($name:literal) => {
            [
                concat!("rw/", $name, "-64"),
                concat!("rw/", $name, "-64-random"),
                concat!("rw/", $name, "-256"),
                concat!("rw/", $name, "-256-random"),
            ]
        };
    }
    let rma_rw = Kind::RmaRw { t_dc: Some(16), t_l: vec![2, 2, 2], t_r: 4 };
    let kinds = [(names!("rma-rw"), rma_rw, true), (names!("default-rw"), Kind::Default, false)];
    let checks = kinds.into_iter().flat_map(|(names, kind, is_deep)| {
        names.into_iter().zip(LARGE).map(move |(name, (ranks, topology, policy, schedules))| {
            let setup = Setup::new(ranks).rounds(7);
            let setup = if is_deep { setup.topology(topology) } else { setup };
            let subject =
                visits(of(&kind), (MANY, Style::Wait), &["reads_queued", "writes_queued"]);
            let check = Check::new(name, ABOUT, subject).small(setup.clone().rounds(1));
            check.setup(setup).policy(policy, schedules)
        })
    });
    checks.collect()
}

/// All checks of kinds.
pub(super) fn checks() -> Vec<Check> {
    [fompi_rw(), rma_rw(), default_rw(), large()].into_iter().flatten().collect()
}

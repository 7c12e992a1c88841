//! Every reader-writer lock of the table, as it is used, with limits so small that every branch
//! is reached.

use farside::rw::Kind;
use farside::sim::Policy;
use farside::{Rank, Result, RwLock, World};

use super::table::{EXPLORED, Explored, Many, Roles, Whole};
use super::visits;
use crate::check::{Check, Setup};
use crate::family::asking::Style;
use crate::family::{LARGE, name};

const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

const PAIR: Roles = &["w", "r"];
/// The first rank waits without a limit.
const PATIENT_WRITER: Roles = &["r", "w"];
const MANY: Roles = &["wr", "rrwr", "rrr", "rwr"];

fn of(kind: &Kind) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    let kind = kind.clone();
    move |world: &World| RwLock::of_kind(world, Rank(0), &kind)
}

const DIES: &str = "a rank dies inside, or waiting";
const ON_LEVELS: &str = "many ranks, some with time limits, on three levels";

fn whole(lock: &str, row: &Whole) -> Check {
    let setup = Setup::new(row.roles.len() as u32).rounds(row.rounds);
    let setup = match row.topology {
        Some(topology) => setup.topology(topology),
        None => setup,
    };
    let subject = visits(of(&(row.kind)()), row.roles, row.style, row.branches);
    Check::new(name(&["rw/", lock, "-", row.name]), row.about, subject).setup(setup)
}

/// Every schedule of a writer and a reader with time limits, and with a death.
fn limited(lock: &str, kind: &Kind) -> Vec<Check> {
    let check = |suffix: &str, about: &'static str, style: Style| {
        let branches: &[&str] = if style == Style::Wait { &[] } else { &["given_up"] };
        let subject = visits(of(kind), PAIR, style, branches);
        Check::new(name(&["rw/", lock, suffix]), about, subject).setup(Setup::new(2))
    };
    vec![
        check("-gives-up", "who waits gives up its place, and comes back", Style::GiveUp),
        check("-walks-away", "who waits gives up its place, and goes away", Style::WalkAway),
        check("-tries", "who does not get it at once comes back", Style::Try),
        Check::new(
            name(&["rw/", lock, "-times-out"]),
            "a time limit ends at any step",
            visits(of(kind), PATIENT_WRITER, Style::Patient, &[]),
        )
        .setup(Setup::new(2).time_outs(1)),
        check("-death", DIES, Style::Wait).setup(Setup::new(2).deaths(1)),
    ]
}

fn many(lock: &str, many: &Many) -> Vec<Check> {
    let check = |(suffix, ranks): (&str, u32)| {
        let subject = visits(of(&(many.kind)()), MANY, Style::Mixed, many.branches);
        let check = Check::new(name(&["rw/", lock, suffix]), ON_LEVELS, subject);
        check.setup(Setup::new(ranks).topology(DEEP)).policy(PCT, 1000)
    };
    [("-8", 8), ("-16", 16)].map(check).into()
}

fn explored(row: &Explored) -> Vec<Check> {
    let lock = row.lock;
    let mut checks: Vec<Check> = row.whole.iter().map(|row| whole(lock, row)).collect();
    if let Some(kind) = row.limited {
        checks.extend(limited(lock, &kind()));
    }
    if let Some(row) = &row.many {
        checks.extend(many(lock, row));
    }
    checks
}

fn special() -> Vec<Check> {
    let rma_rw = |t_dc: Option<u32>, t_l: &[u32]| Kind::RmaRw { t_dc, t_l: t_l.to_vec(), t_r: 1 };
    let deep = || Setup::new(8).topology(DEEP);
    let across = visits(
        of(&rma_rw(Some(3), &[2, 2, 1])),
        MANY,
        Style::Mixed,
        &["passed_across", "passed_within"],
    );
    let readers = visits(of(&rma_rw(None, &[2])), &["w", "r", "r"], Style::Wait, &[]);
    vec![
        Check::new("rw/rma-rw-death-readers", DIES, readers)
            .setup(Setup::new(3).deaths(1))
            .small(Setup::new(2).deaths(1)),
        Check::new("rw/rma-rw-across-8", ON_LEVELS, across).setup(deep()).policy(PCT, 1000),
        Check::new(
            "rw/default-rw-far-8",
            ON_LEVELS,
            visits(of(&Kind::Default), MANY, Style::Mixed, &["given_up"]),
        )
        .setup(deep())
        .policy(PCT, 1000),
    ]
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
            let subject = visits(of(&kind), MANY, Style::Wait, &["reads_queued", "writes_queued"]);
            let check = Check::new(name, ABOUT, subject).small(setup.clone().rounds(1));
            check.setup(setup).policy(policy, schedules)
        })
    });
    checks.collect()
}

pub(super) fn checks() -> Vec<Check> {
    EXPLORED.iter().flat_map(explored).chain(special()).chain(large()).collect()
}

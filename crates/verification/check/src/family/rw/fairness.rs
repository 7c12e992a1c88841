//! T_W and T_R, and how often who waits is overtaken.

use farside::rw::{Kind, steps};
use farside::sim::Policy;
use farside::{Rank, Result, RwLock, World};

use super::table::Roles;
use crate::check::{Check, Setup};
use crate::family::waiting::{
    Overtaken, ReadersInARow, Rule, WritersInARow, readers_writers, waits,
};
use crate::property::Promise;

const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn watched(kind: Kind) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    move |world: &World| RwLock::observed(world, Rank(0), &kind, Some(waits))
}

fn rma_rw_of(t_dc: Option<u32>, t_l: &[u32], t_r: u32) -> Kind {
    Kind::RmaRw { t_dc, t_l: t_l.to_vec(), t_r }
}

fn check(
    name: &'static str,
    about: &'static str,
    make: impl Fn(&World) -> Result<RwLock> + Clone + 'static,
    roles: Roles,
    rule: fn() -> Box<dyn Rule>,
) -> Check {
    let subject = readers_writers(make, roles, move |_| vec![rule()]);
    Check::new(name, about, subject).setup(Setup::new(roles.len() as u32))
}

const T_W: &str = "a reader that waits is passed by T_W writers at most";
const T_R: &str =
    "a writer that waits is passed by T_R readers of a counter at most, and those who had asked";

fn rma_rw() -> Vec<Check> {
    let one = || watched(rma_rw_of(None, &[1], 1));
    let two = || watched(rma_rw_of(None, &[2], 1));
    let each = || watched(rma_rw_of(Some(1), &[1], 1));
    let tree = || watched(rma_rw_of(Some(2), &[2, 2], 2));
    const MANY: Roles = &["wr", "rrwr", "rwr", "wwr"];
    vec![
        check("rw/rma-rw-t-w-1", T_W, one(), &["w", "w", "r"], || {
            Box::new(WritersInARow::at_most(1))
        }),
        check("rw/rma-rw-t-w-2", T_W, two(), &["ww", "w", "r"], || {
            Box::new(WritersInARow::at_most(2))
        }),
        check("rw/rma-rw-t-r", T_R, each(), &["w", "rrr"], || {
            Box::new(ReadersInARow::at_most(1, 1, 0))
        }),
        check("rw/rma-rw-t-w-8", T_W, tree(), MANY, || Box::new(WritersInARow::at_most(8)))
            .setup(Setup::new(8).rounds(3).topology(DEEP))
            .policy(PCT, 300),
        check("rw/rma-rw-t-r-8", T_R, tree(), MANY, || Box::new(ReadersInARow::at_most(2, 2, 2)))
            .setup(Setup::new(8).rounds(3).topology(DEEP))
            .policy(PCT, 300),
        check(
            "rw/rma-rw-without-t-w",
            "passes the lock from writer to writer for as long as there are any",
            one(),
            &["w", "w", "r"],
            || Box::new(WritersInARow::at_most(1)),
        )
        .omitting(farside::lock::steps::KEEP_T_W)
        .mutant(Promise::WritersInARow, "2 writers in a row have gone in: T_W allows 1"),
        check(
            "rw/rma-rw-without-t-r",
            "lets readers in for as long as they come",
            each(),
            &["w", "rrr"],
            || Box::new(ReadersInARow::at_most(1, 1, 0)),
        )
        .omitting(steps::KEEP_T_R)
        .mutant(Promise::ReadersInARow, "3 readers of one counter have gone in: T_R allows 2"),
    ]
}

fn default_rw() -> Vec<Check> {
    const MANY: Roles = &["wr", "rrwr", "rwr", "wwr"];
    const ROWS: &str = "a reader that insists is passed by two rows of `t_w` writers at most";
    let slots = |t_w: u32, yields: u32| watched(Kind::Slots { t_dc: None, t_w, yields });
    const SLEEPS: &str = "a reader that yields and does not run is passed by any number of writers";
    vec![
        check("rw/default-rw-rows", ROWS, slots(1, 0), &["www", "r"], || {
            Box::new(WritersInARow::at_most(2))
        })
        .policy(PCT, 3000),
        check("rw/default-rw-rows-8", ROWS, slots(2, 0), MANY, || {
            Box::new(WritersInARow::at_most(4))
        })
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300),
        check("rw/default-rw-unbounded-yields", SLEEPS, slots(2, 1), MANY, || {
            Box::new(WritersInARow::at_most(6))
        })
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300)
        .shows(Promise::WritersInARow, "7 writers in a row have gone in: T_W allows 6"),
    ]
}

fn fompi_rw() -> Vec<Check> {
    const UNBOUNDED: &str = "who polls has no place: it may be overtaken for ever";
    let unbounded = |name: &'static str, roles: Roles| {
        check(name, UNBOUNDED, watched(Kind::FompiRw { backoff: false }), roles, || {
            Box::new(Overtaken::at_most(3))
        })
        .shows(Promise::Fairness, "was overtaken 4 times, where 3 is the bound")
    };
    vec![
        unbounded("rw/fompi-rw-unbounded-writer", &["w", "rrrr", "rrrr"]).policy(PCT, 20_000),
        unbounded("rw/fompi-rw-unbounded-reader", &["r", "wwwww"]),
    ]
}

pub(super) fn checks() -> Vec<Check> {
    [rma_rw(), default_rw(), fompi_rw()].into_iter().flatten().collect()
}

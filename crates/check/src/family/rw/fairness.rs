//! T_W and T_R, and how often who waits is overtaken.

use farside::lock::frame::Variant;
use farside::rw::mutants::{self as made, Base};
use farside::sim::Policy;
use farside::{Rank, Result, RwLock, World};

use super::Roles;
use crate::check::{Check, Setup};
use crate::family::waiting::{
    Overtaken, ReadersInARow, Rule, Watched, WithoutTR, WithoutTW, WritersInARow, readers_writers,
};
use crate::property::Promise;

const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    move |world: &World| made::lock::<V>(world, Rank(0), base)
}

fn check<V: Variant>(
    name: &'static str,
    about: &'static str,
    base: Base,
    roles: Roles,
    rule: fn() -> Box<dyn Rule>,
) -> Check {
    let subject = readers_writers(of::<V>(base), roles, move |_| vec![rule()]);
    Check::new(name, about, subject).setup(Setup::new(roles.len() as u32))
}

const T_W: &str = "a reader that waits is passed by T_W writers at most";
const T_R: &str =
    "a writer that waits is passed by T_R readers of a counter at most, and those who had asked";

fn rma_rw() -> Vec<Check> {
    const ONE: Base = Base::RmaRwOf(None, &[1], 1);
    const TWO: Base = Base::RmaRwOf(None, &[2], 1);
    const EACH: Base = Base::RmaRwOf(Some(1), &[1], 1);
    const TREE: Base = Base::RmaRwOf(Some(2), &[2, 2], 2);
    const MANY: Roles = &["wr", "rrwr", "rwr", "wwr"];
    vec![
        check::<Watched>("rw/rma-rw-t-w-1", T_W, ONE, &["w", "w", "r"], || {
            Box::new(WritersInARow::at_most(1))
        }),
        check::<Watched>("rw/rma-rw-t-w-2", T_W, TWO, &["ww", "w", "r"], || {
            Box::new(WritersInARow::at_most(2))
        }),
        check::<Watched>("rw/rma-rw-t-r", T_R, EACH, &["w", "rrr"], || {
            Box::new(ReadersInARow::at_most(1, 1, 0))
        }),
        check::<Watched>("rw/rma-rw-t-w-8", T_W, TREE, MANY, || {
            Box::new(WritersInARow::at_most(8))
        })
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300),
        check::<Watched>("rw/rma-rw-t-r-8", T_R, TREE, MANY, || {
            Box::new(ReadersInARow::at_most(2, 2, 2))
        })
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300),
        check::<WithoutTW>(
            "rw/rma-rw-without-t-w",
            "passes the lock from writer to writer for as long as there are any",
            ONE,
            &["w", "w", "r"],
            || Box::new(WritersInARow::at_most(1)),
        )
        .mutant(Promise::WritersInARow, "2 writers in a row have gone in: T_W allows 1"),
        check::<WithoutTR>(
            "rw/rma-rw-without-t-r",
            "lets readers in for as long as they come",
            EACH,
            &["w", "rrr"],
            || Box::new(ReadersInARow::at_most(1, 1, 0)),
        )
        .mutant(Promise::ReadersInARow, "3 readers of one counter have gone in: T_R allows 2"),
    ]
}

fn default_rw() -> Vec<Check> {
    const MANY: Roles = &["wr", "rrwr", "rwr", "wwr"];
    const ROWS: &str = "a reader that insists is passed by two rows of `t_w` writers at most";
    const SLEEPS: &str = "a reader that yields and does not run is passed by any number of writers";
    vec![
        check::<Watched>("rw/default-rw-rows", ROWS, Base::SlotsOf(1, 0), &["www", "r"], || {
            Box::new(WritersInARow::at_most(2))
        })
        .policy(PCT, 3000),
        check::<Watched>("rw/default-rw-rows-8", ROWS, Base::SlotsOf(2, 0), MANY, || {
            Box::new(WritersInARow::at_most(4))
        })
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300),
        check::<Watched>(
            "rw/default-rw-unbounded-yields",
            SLEEPS,
            Base::SlotsOf(2, 1),
            MANY,
            || Box::new(WritersInARow::at_most(6)),
        )
        .setup(Setup::new(8).rounds(3).topology(DEEP))
        .policy(PCT, 300)
        .shows(Promise::WritersInARow, "7 writers in a row have gone in: T_W allows 6"),
    ]
}

fn fompi_rw() -> Vec<Check> {
    const UNBOUNDED: &str = "who polls has no place: it may be overtaken for ever";
    let unbounded = |name: &'static str, roles: Roles| {
        check::<Watched>(name, UNBOUNDED, Base::FompiRw, roles, || Box::new(Overtaken::at_most(3)))
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

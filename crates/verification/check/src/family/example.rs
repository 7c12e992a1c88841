//! Small jobs of a few locks, as examples of how a protocol is checked: all that is known of locks
//! is in the families `lock` and `rw`.

use farside::lock::steps;
use farside::{Rank, Result, RwLock, World, rw};

use super::asking::Style;
use super::waiting::{self, Overtaken, Rule, waits};
use super::{lock, printed, rw as readers_writers};
use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

/// Every rank enters the same room again and again, under the lock of that name.
pub fn exclusive(name: &'static str) -> impl Fn(&Setup) -> Subject {
    lock::exclusive(lock::of_name(name, None), Style::Wait)
}

/// Every rank asks for a lock again and again; no rank may be overtaken more often than there are
/// others.
fn fair(name: &'static str) -> impl Fn(&Setup) -> Subject {
    let rules = |setup: &Setup| -> Vec<Box<dyn Rule>> {
        vec![Box::new(Overtaken::at_most(setup.ranks - 1))]
    };
    waiting::exclusive(lock::of_name(name, Some(waits)), rules)
}

const ROLES: &[&str] = &["w", "r", "r"];

fn library(
    make: impl Fn(&World) -> Result<RwLock> + Clone + 'static,
) -> impl Fn(&Setup) -> Subject {
    readers_writers::visits(make, ROLES, Style::Wait, &[])
}

fn one_word(world: &World) -> Result<RwLock> {
    RwLock::of_kind(world, Rank(0), &rw::Kind::FompiRw { backoff: false })
}

/// The lock whose writer does not wait for readers if that step is left out.
fn impatient(world: &World) -> Result<RwLock> {
    let kind = rw::Kind::RmaRw { t_dc: Some(1), t_l: vec![1, 2], t_r: 1 };
    RwLock::of_kind(world, Rank(0), &kind)
}

/// All checks of the examples.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "example/mcs",
            "a queue of waiters, each on a word of its own",
            exclusive("d-mcs"),
        )
        .setup(Setup::new(3).rounds(2))
        .small(Setup::new(3)),
        Check::new("example/mcs-fair", "a queue: first come, first served", fair("d-mcs"))
            .setup(Setup::new(3)),
        Check::new(
            "example/mcs-without-flush",
            "lets the next one in before its writes have landed",
            exclusive("d-mcs"),
        )
        .omitting(steps::FLUSH)
        .mutant(Promise::Visibility, "was lost"),
        Check::new(
            "example/mcs-without-second-look",
            "forgets a successor that is about to link itself",
            exclusive("d-mcs"),
        )
        .omitting(steps::LOOK_AGAIN)
        .mutant(Promise::Progress, "has already left"),
        Check::new("example/ticket", "take a number, wait until it is served", exclusive("ticket"))
            .setup(Setup::new(2).rounds(2)),
        Check::new("example/ticket-fair", "numbers are served in turn", fair("ticket"))
            .setup(Setup::new(2).rounds(2)),
        Check::new(
            "example/ticket-plain",
            "takes its number with a load and a store",
            exclusive("ticket"),
        )
        .omitting(steps::TAKE_AT_ONCE)
        .mutant(Promise::Exclusion, "are inside at the same time"),
        Check::new("example/spin", "swap until it was free", exclusive("fompi-spin"))
            .setup(Setup::new(2).rounds(2)),
        Check::new(
            "example/spin-unfair",
            "swap until it was free: any rank may come first",
            fair("fompi-spin"),
        )
        .setup(Setup::new(2).rounds(3))
        .mutant(Promise::Fairness, "was overtaken"),
        Check::new(
            "example/readers-writers",
            "readers and a writer count in one word",
            library(one_word),
        )
        .setup(Setup::new(2).rounds(2)),
        Check::new("example/readers-writers-3", "two readers and a writer", library(one_word))
            .setup(Setup::new(3)),
        Check::new(
            "example/readers-writers-impatient",
            "the writer does not wait for readers that are inside",
            library(impatient),
        )
        .omitting(rw::steps::DRAIN)
        .mutant(Promise::Exclusion, "meets"),
        Check::new(
            "example/rma-rw-printed",
            "RMA-RW as printed: the writer does not wait for readers that are inside",
            printed::visits,
        )
        .setup(Setup::new(2))
        .mutant(Promise::Exclusion, "meets"),
    ]
}

//! How often who waits for a lock is overtaken, and T_L.

use farside::lock::{Kind, steps};
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use super::table::EXPLORED;
use crate::check::{Check, Setup, Subject};
use crate::family::name;
use crate::family::waiting::{Locality, Overtaken, Rule, exclusive, waits};
use crate::property::Promise;

const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn watched(kind: Kind) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    move |world: &World| Lock::observed(world, Rank(0), &kind, Some(waits))
}

/// No rank is overtaken more often than `bound` says for so many ranks.
fn overtaken(name: &'static str, about: &'static str, kind: Kind, bound: fn(u32) -> u32) -> Check {
    let rules = move |setup: &Setup| -> Vec<Box<dyn Rule>> {
        vec![Box::new(Overtaken::at_most(bound(setup.ranks)))]
    };
    Check::new(name, about, exclusive(watched(kind), rules))
}

/// Every rank asks again and again, except the last, and each gets the lock in its turn.
pub(super) fn turns(
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
) -> impl Fn(&Setup) -> Subject {
    let rules = |setup: &Setup| -> Vec<Box<dyn Rule>> {
        vec![Box::new(Overtaken::at_most(in_turn(setup.ranks)))]
    };
    exclusive(make, rules)
}

const IN_TURN: &str = "who has its place is overtaken by those alone who were there before it";

/// Who came before goes before.
fn in_turn(ranks: u32) -> u32 {
    ranks - 1
}

/// Each lock that serves in turn: all schedules of a rank that waits and one that comes three
/// times, and many ranks.
fn queues() -> Vec<Check> {
    let checks = EXPLORED.iter().filter(|row| row.is_fifo).flat_map(|row| {
        let check = |suffix: &str| {
            overtaken(name(&["lock/", row.name, suffix]), IN_TURN, (row.kind)(), in_turn)
        };
        let many = Setup::new(8).rounds(4).topology(DEEP);
        [
            check("-bypass").setup(Setup::new(2).rounds(3)),
            check("-bypass-8").setup(many).policy(PCT, 300),
        ]
    });
    checks.collect()
}

/// The head of `default` is overtaken by the rank that was inside, and by as many as the bound
/// says, which is 1 here.
fn head(
    name: &'static str,
    about: &'static str,
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
) -> Check {
    let rules =
        |_: &Setup| -> Vec<Box<dyn Rule>> { vec![Box::new(Overtaken::at_most(2).since_level(1))] };
    Check::new(name, about, exclusive(make, rules))
}

/// What `default` promises, and what spin locks do not.
fn bypasses() -> Vec<Check> {
    const BOUNDED: &str =
        "the first that waits is overtaken once, and by who was inside, where the bound is 1";
    const UNBOUNDED: &str = "who polls has no place: it may be overtaken for ever";
    let asleep = || watched(Kind::Bypass { batch: 1, bound: 1, polls: 0 });
    let spin = |name: &'static str, backoff: bool| {
        overtaken(name, UNBOUNDED, Kind::Spin { backoff }, |_| 3)
            .setup(Setup::new(2).rounds(5))
            .shows(Promise::Fairness, "was overtaken 4 times, where 3 is the bound")
    };
    vec![
        head("lock/default-bypass", BOUNDED, asleep())
            .setup(Setup::new(2).rounds(4))
            .small(Setup::new(2).rounds(3)),
        head("lock/default-bypass-8", BOUNDED, asleep())
            .setup(Setup::new(8).rounds(6).topology(DEEP))
            .policy(PCT, 300),
        head(
            "lock/default-bypass-without-bound",
            "lets running ranks be ahead of the queue for ever",
            asleep(),
        )
        .setup(Setup::new(2).rounds(5))
        .omitting(steps::BOUND_BYPASS)
        .mutant(Promise::Fairness, "was overtaken 3 times, where 2 is the bound"),
        spin("lock/fompi-spin-unbounded", false),
        spin("lock/fompi-spin-backoff-unbounded", true),
    ]
}

/// `rma-mcs` on two nodes: T_L, and a rank that stands in the widest queue waits for one turn of
/// the other node.
fn two_nodes(
    name: &'static str,
    about: &'static str,
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
    t_l: u32,
) -> Check {
    let rules = move |_: &Setup| -> Vec<Box<dyn Rule>> {
        vec![
            Box::new(Locality::new("node", 1, t_l)),
            Box::new(Overtaken::at_most(t_l + 1).since_level(1)),
        ]
    };
    Check::new(name, about, exclusive(make, rules)).setup(Setup::new(3).topology("node:2"))
}

/// `rma-mcs` on racks of nodes: T_L of both levels, 2 each. What a rack has is what its nodes have
/// in their turns.
fn racks(
    name: &'static str,
    about: &'static str,
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
) -> Check {
    let rules = |_: &Setup| -> Vec<Box<dyn Rule>> {
        vec![Box::new(Locality::new("node", 2, 2)), Box::new(Locality::new("rack", 2, 4))]
    };
    let check = Check::new(name, about, exclusive(make, rules));
    check.setup(Setup::new(8).rounds(6).topology("rack:2,node:2")).policy(PCT, 300)
}

fn tree(thresholds: &[u32]) -> impl Fn(&World) -> Result<Lock> + Clone + 'static + use<> {
    watched(Kind::RmaMcs { thresholds: thresholds.to_vec() })
}

fn trees() -> Vec<Check> {
    const T_L: &str = "the lock leaves a node after T_L passings while another waits";
    const STAYS: &str = "keeps the lock inside an element for as long as a rank there wants it";
    vec![
        two_nodes("lock/rma-mcs-t-l-1", T_L, tree(&[1]), 1),
        two_nodes("lock/rma-mcs-t-l-1-twice", T_L, tree(&[1]), 1)
            .setup(Setup::new(3).rounds(4).topology("node:2"))
            .policy(PCT, 1000),
        two_nodes("lock/rma-mcs-t-l-2", T_L, tree(&[2]), 2)
            .setup(Setup::new(3).rounds(4).topology("node:2"))
            .policy(PCT, 1000),
        racks(
            "lock/rma-mcs-t-l-racks",
            "the same on racks of nodes, for both levels",
            tree(&[2, 2]),
        ),
        two_nodes("lock/rma-mcs-without-t-l", STAYS, tree(&[1]), 1)
            .omitting(steps::KEEP_T_L)
            .mutant(Promise::Locality, "2 of one element in a row have gone in: T_L allows 1"),
        racks("lock/rma-mcs-racks-without-t-l", STAYS, tree(&[2, 2]))
            .omitting(steps::KEEP_T_L)
            .mutant(Promise::Locality, "of one element in a row have gone in: T_L allows"),
    ]
}

pub(super) fn checks() -> Vec<Check> {
    [queues(), bypasses(), trees()].into_iter().flatten().collect()
}

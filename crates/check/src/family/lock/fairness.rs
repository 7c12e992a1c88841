//! How often who waits for a lock is overtaken, and T_L.

use farside::lock::frame::Variant;
use farside::lock::mutants::{self as made, Base};
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use crate::check::{Check, Setup};
use crate::family::waiting::{
    Locality, Overtaken, Rule, Watched, WithoutBound, WithoutTL, exclusive,
};
use crate::property::Promise;

/// A machine of three levels.
const DEEP: &str = "rack:2,node:2,socket:2";
const PCT: Policy = Policy::Pct { depth: 3 };

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    move |world: &World| made::lock::<V>(world, Rank(0), base)
}

/// Nobody is overtaken more often than `bound` says for so many ranks.
fn overtaken<V: Variant>(
    name: &'static str,
    about: &'static str,
    base: Base,
    bound: fn(u32) -> u32,
) -> Check {
    let rules = move |setup: &Setup| -> Vec<Box<dyn Rule>> {
        vec![Box::new(Overtaken::at_most(bound(setup.ranks)))]
    };
    Check::new(name, about, exclusive(of::<V>(base), rules))
}

const IN_TURN: &str = "who has its place is overtaken by those alone who were there before it";

/// Who came before goes before.
fn in_turn(ranks: u32) -> u32 {
    ranks - 1
}

/// Each kind that serves in turn: all schedules of a rank that waits and one that comes three
/// times, and many ranks.
fn queues() -> Vec<Check> {
    let kinds = [
        (["lock/ticket-bypass", "lock/ticket-bypass-8"], Base::Ticket),
        (["lock/server-bypass", "lock/server-bypass-8"], Base::Server),
        (["lock/hybrid-bypass", "lock/hybrid-bypass-8"], Base::Hybrid),
        (["lock/d-mcs-bypass", "lock/d-mcs-bypass-8"], Base::Mcs),
        (["lock/d-mcs-token-bypass", "lock/d-mcs-token-bypass-8"], Base::Token),
    ];
    let checks = kinds.into_iter().flat_map(|([few, many], base)| {
        [
            overtaken::<Watched>(few, IN_TURN, base, in_turn).setup(Setup::new(2).rounds(3)),
            overtaken::<Watched>(many, IN_TURN, base, in_turn)
                .setup(Setup::new(8).rounds(4).topology(DEEP))
                .policy(PCT, 300),
        ]
    });
    checks.collect()
}

/// The head of `default` is overtaken by whoever was inside, and by as many as the bound says,
/// which is 1 here.
fn head<V: Variant>(name: &'static str, about: &'static str) -> Check {
    let rules =
        |_: &Setup| -> Vec<Box<dyn Rule>> { vec![Box::new(Overtaken::at_most(2).since_level(1))] };
    Check::new(name, about, exclusive(of::<V>(Base::Bypass), rules))
}

/// What `default` promises, and what spin locks do not.
fn bypasses() -> Vec<Check> {
    const BOUNDED: &str =
        "the first that waits is overtaken once, and by who was inside, where the bound is 1";
    const UNBOUNDED: &str = "who polls has no place: it may be overtaken for ever";
    let spin = |name: &'static str, base: Base| {
        overtaken::<Watched>(name, UNBOUNDED, base, |_| 3)
            .setup(Setup::new(2).rounds(5))
            .shows(Promise::Fairness, "was overtaken 4 times, where 3 is the bound")
    };
    vec![
        head::<Watched>("lock/default-bypass", BOUNDED)
            .setup(Setup::new(2).rounds(4))
            .small(Setup::new(2).rounds(3)),
        head::<Watched>("lock/default-bypass-8", BOUNDED)
            .setup(Setup::new(8).rounds(6).topology(DEEP))
            .policy(PCT, 300),
        head::<WithoutBound>(
            "lock/default-bypass-without-bound",
            "lets running ranks be ahead of the queue for ever",
        )
        .setup(Setup::new(2).rounds(5))
        .mutant(Promise::Fairness, "was overtaken 3 times, where 2 is the bound"),
        spin("lock/fompi-spin-unbounded", Base::Spin),
        spin("lock/fompi-spin-backoff-unbounded", Base::SpinBackoff),
    ]
}

/// `rma-mcs` on two nodes: T_L, and who stands in the widest queue waits for one turn of the other
/// node.
fn two_nodes<V: Variant>(name: &'static str, about: &'static str, t_l: &'static [u32; 1]) -> Check {
    let rules = move |_: &Setup| -> Vec<Box<dyn Rule>> {
        vec![
            Box::new(Locality::new("node", 1, t_l[0])),
            Box::new(Overtaken::at_most(t_l[0] + 1).since_level(1)),
        ]
    };
    Check::new(name, about, exclusive(of::<V>(Base::TreeOf(t_l)), rules))
        .setup(Setup::new(3).topology("node:2"))
}

/// `rma-mcs` on racks of nodes: T_L of both levels. What a rack has is what its nodes have in their
/// turns.
fn racks<V: Variant>(name: &'static str, about: &'static str, t_l: &'static [u32; 2]) -> Check {
    let rules = move |_: &Setup| -> Vec<Box<dyn Rule>> {
        vec![
            Box::new(Locality::new("node", 2, t_l[1])),
            Box::new(Locality::new("rack", 2, t_l[0] * t_l[1])),
        ]
    };
    let check = Check::new(name, about, exclusive(of::<V>(Base::TreeOf(t_l)), rules));
    check.setup(Setup::new(8).rounds(6).topology("rack:2,node:2")).policy(PCT, 300)
}

fn trees() -> Vec<Check> {
    const T_L: &str = "the lock leaves a node after T_L passings while another waits";
    const STAYS: &str = "keeps the lock inside an element for as long as anybody there wants it";
    vec![
        two_nodes::<Watched>("lock/rma-mcs-t-l-1", T_L, &[1]),
        two_nodes::<Watched>("lock/rma-mcs-t-l-1-twice", T_L, &[1])
            .setup(Setup::new(3).rounds(4).topology("node:2"))
            .policy(PCT, 1000),
        two_nodes::<Watched>("lock/rma-mcs-t-l-2", T_L, &[2])
            .setup(Setup::new(3).rounds(4).topology("node:2"))
            .policy(PCT, 1000),
        racks::<Watched>(
            "lock/rma-mcs-t-l-racks",
            "the same on racks of nodes, for both levels",
            &[2, 2],
        ),
        two_nodes::<WithoutTL>("lock/rma-mcs-without-t-l", STAYS, &[1])
            .mutant(Promise::Locality, "2 of one element in a row have gone in: T_L allows 1"),
        racks::<WithoutTL>("lock/rma-mcs-racks-without-t-l", STAYS, &[2, 2])
            .mutant(Promise::Locality, "of one element in a row have gone in: T_L allows"),
    ]
}

pub(super) fn checks() -> Vec<Check> {
    [queues(), bypasses(), trees()].into_iter().flatten().collect()
}

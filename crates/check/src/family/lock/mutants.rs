//! Locks that are wrong on purpose.

use farside::lock::frame::Variant;
use farside::lock::mutants::{self as wrong, Base};
use farside::sim::Policy;
use farside::{Lock, Rank, Result, World};

use super::{exclusive, fair};
use crate::check::{Check, Setup};
use crate::family::asking::Style;
use crate::property::Promise;

fn of<V: Variant>(base: Base) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    move |world: &World| wrong::lock::<V>(world, Rank(0), base)
}

fn waiting<V: Variant>(name: &'static str, about: &'static str, base: Base) -> Check {
    Check::new(name, about, exclusive(of::<V>(base), Style::Wait))
}

const FLUSH: &str = "passes the lock on before what was written under it has landed";
const STEPS: &str = "looks, and then writes";

fn without_flush() -> [Check; 8] {
    [
        waiting::<wrong::WithoutFlush>("lock/ticket-without-flush", FLUSH, Base::Ticket),
        waiting::<wrong::WithoutFlush>("lock/server-without-flush", FLUSH, Base::Server),
        waiting::<wrong::WithoutFlush>("lock/hybrid-without-flush", FLUSH, Base::Hybrid)
            .setup(Setup::new(2).topology("node:2")),
        waiting::<wrong::WithoutFlush>("lock/d-mcs-without-flush", FLUSH, Base::Mcs),
        waiting::<wrong::WithoutFlush>("lock/d-mcs-token-without-flush", FLUSH, Base::Token),
        waiting::<wrong::WithoutFlush>("lock/rma-mcs-without-flush", FLUSH, Base::Tree)
            .setup(Setup::new(3).topology("node:2")),
        waiting::<wrong::WithoutFlush>("lock/fompi-spin-without-flush", FLUSH, Base::Spin),
        waiting::<wrong::WithoutFlush>("lock/default-without-flush", FLUSH, Base::Bypass),
    ]
    .map(|check| check.mutant(Promise::Visibility, "was lost"))
}

fn in_steps() -> [Check; 3] {
    [
        waiting::<wrong::InTwoSteps>("lock/ticket-in-two-steps", STEPS, Base::Ticket),
        waiting::<wrong::InTwoSteps>("lock/hybrid-in-two-steps", STEPS, Base::Hybrid),
        waiting::<wrong::InTwoSteps>("lock/fompi-spin-in-two-steps", STEPS, Base::Spin),
    ]
    .map(|check| check.mutant(Promise::Exclusion, "are inside at the same time"))
}

/// All wrong variants.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        waiting::<wrong::WithoutSecondLook>(
            "lock/d-mcs-without-second-look",
            "does not wait for a successor that is about to link itself",
            Base::Mcs,
        )
        .mutant(Promise::Progress, "had left"),
        Check::new(
            "lock/d-mcs-gives-up-in-two-steps",
            "looks whether it was granted the lock, and then gives up",
            exclusive(of::<wrong::GivesUpInTwoSteps>(Base::Mcs), Style::GiveUp),
        )
        .mutant(Promise::Progress, "had left"),
        Check::new(
            "lock/d-mcs-without-skipping",
            "passes the lock to a place that was given up",
            exclusive(of::<wrong::WithoutSkipping>(Base::Mcs), Style::WalkAway),
        )
        .setup(Setup::new(2).rounds(2))
        .mutant(Promise::Progress, "had left"),
        waiting::<wrong::LeafFirst>(
            "lock/rma-mcs-leaf-first",
            "leaves the queue of its element before it has released the one around it",
            Base::Tree,
        )
        .setup(Setup::new(3).rounds(3).topology("node:2"))
        .policy(Policy::Random, 20_000)
        .mutant(Promise::Progress, "deadlock"),
        waiting::<wrong::WithOneNode>(
            "lock/d-mcs-token-with-one-node",
            "uses the node again that it has just released the lock with",
            Base::Token,
        )
        .setup(Setup::new(2).rounds(2))
        .mutant(Promise::Progress, "deadlock"),
        Check::new(
            "lock/d-mcs-token-without-numbers",
            "takes a tail that is as it was for one that did not change",
            exclusive(of::<wrong::WithoutNumbers>(Base::Token), Style::Try),
        )
        .setup(Setup::new(2).rounds(3))
        .mutant(Promise::Visibility, "was lost"),
        waiting::<wrong::WithoutWaking>(
            "lock/default-without-waking",
            "leaves the lock free without a word to the sleeping head of the queue",
            Base::Bypass,
        )
        .mutant(Promise::Progress, "had left"),
        Check::new(
            "lock/default-without-bound",
            "lets running ranks be ahead of the head of the queue for ever",
            fair(of::<wrong::WithoutBound>(Base::Bypass), 1),
        )
        .setup(Setup::new(2).rounds(3))
        .mutant(Promise::Fairness, "was overtaken"),
    ];
    checks.extend(without_flush());
    checks.extend(in_steps());
    checks
}

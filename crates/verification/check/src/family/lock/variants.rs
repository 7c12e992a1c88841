//! Variants of locks, as the table has them.

use farside::lock::frame::Observer;
use farside::lock::{Kind, steps};
use farside::{Lock, Rank, Result, World};

use super::fairness::turns;
use super::table::{VARIANTS, Variant};
use super::{exclusive, fair};
use crate::check::{Check, Setup};
use crate::family::name;
use crate::family::trial::tried;
use crate::family::waiting::waits;
use crate::property::Promise;

/// Makes the lock of a variant in the memory of rank 0.
fn of(
    variant: &Variant,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<Lock> + Clone + 'static + use<> {
    let (kind, is_narrow) = ((variant.kind)(), variant.is_narrow);
    move |world: &World| match is_narrow {
        true => Lock::narrow(world, Rank(0), &kind),
        false => Lock::observed(world, Rank(0), &kind, observer),
    }
}

fn explored(variant: &Variant) -> Check {
    let name = name(&["lock/", variant.name]);
    let check = if matches!(variant.trial.breaks, Some((Promise::Fairness, _))) {
        Check::new(name, variant.about, turns(of(variant, Some(waits))))
    } else {
        Check::new(name, variant.about, exclusive(of(variant, None), variant.trial.how))
    };
    tried(check, variant)
}

pub(super) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = VARIANTS.iter().map(explored).collect();
    let asleep = Kind::Bypass { batch: 1, bound: 1, polls: 0 };
    checks.push(
        Check::new(
            "lock/default-without-bound",
            "lets running ranks be ahead of the head of the queue for ever",
            fair(move |world: &World| Lock::of_kind(world, Rank(0), &asleep), 1),
        )
        .setup(Setup::new(2).rounds(3))
        .omitting(steps::BOUND_BYPASS)
        .mutant(Promise::Fairness, "was overtaken"),
    );
    checks
}

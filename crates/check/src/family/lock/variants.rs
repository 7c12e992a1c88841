//! Variants of locks, as the registry has them: those that are wrong on purpose, and the right ones
//! with fields so narrow that they run over in every run.

use farside::lock::entries;
use farside::lock::frame::{Algorithm, Observer};
use farside::lock::registry::{self, Build, Entry};
use farside::{Lock, Rank, Result, World};

use super::fairness::turns;
use super::{exclusive, fair};
use crate::check::{Check, Setup};
use crate::family::waiting::waits;
use crate::family::{name, tried};
use crate::property::Promise;

/// Makes a variant in the memory of rank 0.
pub(super) fn of(
    entry: &'static Entry,
    build: Build<dyn Algorithm>,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<Lock> + Clone + 'static {
    move |world: &World| Lock::variant(world, Rank(0), entry, build, observer)
}

/// Makes the variant of that name of the lock of that name.
pub(in crate::family) fn named(
    lock: &str,
    variant: &str,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<Lock> + Clone + 'static + use<> {
    let entry = entries().find(|entry| entry.name == lock).expect("a lock of that name");
    let variants = &mut entry.variants.iter();
    let found = variants.find(|found| found.name == variant).expect("a variant of that name");
    of(entry, found.build, observer)
}

/// All variants that the registry says how to explore.
fn explored() -> impl Iterator<Item = Check> {
    entries().flat_map(|entry| {
        entry.variants.iter().filter_map(move |variant| {
            let trial = variant.trial.as_ref()?;
            let name = name(&["lock/", entry.name, "-", variant.name]);
            let make = |observer| of(entry, variant.build, observer);
            let check = if matches!(trial.breaks, Some((registry::Promise::Fairness, _))) {
                Check::new(name, variant.about, turns(make(Some(waits))))
            } else {
                Check::new(name, variant.about, exclusive(make(None), trial.how))
            };
            Some(tried(check, trial))
        })
    })
}

/// All checks of variants.
pub(super) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = explored().collect();
    checks.push(
        Check::new(
            "lock/default-without-bound",
            "lets running ranks be ahead of the head of the queue for ever",
            fair(named("default", "without-bound", None), 1),
        )
        .setup(Setup::new(2).rounds(3))
        .mutant(Promise::Fairness, "was overtaken"),
    );
    checks
}

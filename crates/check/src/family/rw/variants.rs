//! Variants of reader-writer locks, as the registry has them: those that are wrong on purpose, and
//! the right ones with fields so narrow that they run over in every run.

use farside::lock::frame::Observer;
use farside::lock::registry::{Build, Style};
use farside::rw::entries;
use farside::rw::frame::Algorithm;
use farside::rw::registry::Entry;
use farside::{Rank, Result, RwLock, World};

use super::visits;
use crate::check::Check;
use crate::family::{name, tried};

/// Makes a variant in the memory of rank 0.
fn of(
    entry: &'static Entry,
    build: Build<dyn Algorithm>,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static {
    move |world: &World| RwLock::variant(world, Rank(0), entry, build, observer)
}

/// Makes the variant of that name of the lock of that name.
pub(in crate::family) fn named(
    lock: &str,
    variant: &str,
    observer: Option<Observer>,
) -> impl Fn(&World) -> Result<RwLock> + Clone + 'static + use<> {
    let entry = entries().find(|entry| entry.name == lock).expect("a lock of that name");
    let variants = &mut entry.variants.iter();
    let found = variants.find(|found| found.name == variant).expect("a variant of that name");
    of(entry, found.build, observer)
}

/// All checks of variants that the registry says how to explore.
pub(super) fn checks() -> Vec<Check> {
    let checks = entries().flat_map(|entry| {
        entry.variants.iter().filter_map(move |variant| {
            let trial = variant.trial.as_ref()?;
            let subject = visits(of(entry, variant.build, None), trial.how, Style::Wait, &[]);
            let name = name(&["rw/", entry.name, "-", variant.name]);
            Some(tried(Check::new(name, variant.about, subject), trial))
        })
    });
    checks.collect()
}

//! Locks of every kind order what they protect; those that forget a flush are found by one
//! ordinary run.

use farside::lock::entries;
use farside::{Local, Lock, Rank, Result, World};
use farside_races::{Checker, Report};

const RANKS: u32 = 3;

/// Adds to a number under a lock, a few times on every rank.
fn add(world: &World, make: &(dyn Fn(&World) -> Result<Lock> + Sync)) -> Result<()> {
    let lock = make(world)?;
    let sum = world.window::<u64>(1)?;
    for _ in 0..3 {
        let guard = lock.lock(world)?;
        let held = world.get_value(sum.at(Rank(1), 0))?;
        world.put_value(held + 1, sum.at(Rank(1), 0))?;
        guard.unlock()?;
    }
    world.sync()?;
    sum.free(world)?;
    lock.free(world)
}

fn checked(make: &(dyn Fn(&World) -> Result<Lock> + Sync)) -> Report {
    let checker = Checker::new(RANKS).unwrap();
    let over = checker.clone();
    let local = Local::new(RANKS).unwrap().decorate(move |fabric| over.over(fabric).unwrap());
    local.run(|world| add(world, make)).unwrap();
    checker.report()
}

#[test]
fn every_lock_orders_what_it_protects() {
    for entry in entries() {
        let report = checked(&|world| Lock::of_kind(world, Rank(0), &(entry.kind)()));
        assert!(report.races.is_empty(), "{}: {report}", entry.name);
    }
}

#[test]
fn every_lock_without_flush_is_found_by_one_run() {
    let mut found = 0;
    for entry in entries() {
        for variant in entry.variants.iter().filter(|variant| variant.name == "without-flush") {
            let build = variant.build;
            let report = checked(&|world| Lock::variant(world, Rank(0), entry, build, None));
            assert!(!report.races.is_empty(), "{}-{} is not found", entry.name, variant.name);
            found += 1;
        }
    }
    assert!(found >= 6, "only {found} wrong locks were tried");
}

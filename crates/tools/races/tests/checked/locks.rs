//! Locks of every kind order what they protect; those that forget a flush are found by one
//! ordinary run.

use farside::lock::{Kind, entries, steps};
use farside::{Local, Lock, Rank, Result, World};
use farside_fabric::Connection;
use farside_fabric::omitting::Omitting;
use farside_races::{Checker, Report};

const RANKS: u32 = 3;

/// Adds to a number under a lock, a few times on every rank.
fn add(world: &World, kind: &Kind) -> Result<()> {
    let lock = Lock::of_kind(world, Rank(0), kind)?;
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

fn checked(kind: &Kind, decorate: fn(Box<dyn Connection>) -> Box<dyn Connection>) -> Report {
    let checker = Checker::new(RANKS).unwrap();
    let over = checker.clone();
    let over = move |fabric| decorate(over.over(fabric).unwrap());
    Local::new(RANKS).unwrap().decorate(over).run(|world| add(world, kind)).unwrap();
    checker.report()
}

#[test]
fn every_lock_orders_what_it_protects() {
    for entry in entries() {
        let report = checked(&(entry.kind)(), |fabric| fabric);
        assert!(report.races.is_empty(), "{}: {report}", entry.name);
    }
}

#[test]
fn every_lock_without_flush_is_found_by_one_run() {
    for entry in entries() {
        let report = checked(&(entry.kind)(), |fabric| Omitting::over(fabric, steps::FLUSH));
        assert!(!report.races.is_empty(), "{} without flush is not found", entry.name);
    }
}

//! Maps at their edges: a rank that is lost in a split under a lock, a batch with one key twice,
//! and cells that leave a chain.

use farside::map::{Options, Synchronization, steps};
use farside::sim::{Policy, program};
use farside::{Rank, Result, World, rw};

use super::Map;
use crate::check::{Check, Setup, Subject};
use crate::family::wrong as failed;
use crate::property::Promise;

/// Finds so many keys of the volume of rank 0 whose hashes have this lowest bit.
fn keys(map: &Map, bit: u64, count: usize) -> Vec<u64> {
    let is_meant = |key: &u64| map.owner(*key) == Rank(0) && map.hash(*key) & 1 == bit;
    (0..).filter(is_meant).take(count).collect()
}

fn options(synchronization: &Synchronization, reserve_bytes: usize) -> Options {
    let synchronization = synchronization.clone();
    Options { synchronization, slots: 1, reserve_bytes: Some(reserve_bytes) }
}

/// Rank 1 splits a bucket under a lock, and may be lost at any step. Rank 0 looks for all entries.
fn lost_in_a_split() -> impl Fn(&Setup) -> Subject {
    let options = options(&Synchronization::Locked(rw::Kind::Default), 8 << 10);
    move |_| {
        let options = options.clone();
        Subject::new(program(
            move |world| {
                let map = Map::with(&world.team(), &options)?;
                let keys = [keys(&map, 0, 1), keys(&map, 1, 2)].concat();
                if world.rank() == Rank(0) {
                    for &key in &keys {
                        map.insert(world, key, [key; 2])?;
                    }
                }
                // Teams that are there when a rank is lost.
                let alone = world.split(Some(world.rank().0.into()), 0)?;
                world.barrier()?;
                Ok((map, keys, alone.map(farside::Team::detach).transpose()?))
            },
            |world, (mut map, keys, alone)| {
                if world.rank() == Rank(1) {
                    return map.split(world, Rank(0), 1);
                }
                let split =
                    map.split(world, Rank(0), 1).and_then(|()| sees_all(world, &map, &keys));
                let Err(error) = split else { return Ok(()) };
                let Some(alone) = alone.filter(|_| error.lost_rank().is_some()) else {
                    return Err(error);
                };
                map.recover(&alone.attach(world))?;
                // What the lost rank had under way may land in between.
                sees_all(world, &map, &keys)?;
                sees_all(world, &map, &keys)
            },
        ))
    }
}

fn sees_all(world: &World, map: &Map, keys: &[u64]) -> Result<()> {
    for &key in keys {
        if map.get(world, key)? != Some([key; 2]) {
            return Err(failed("an entry was lost with the rank that split its bucket"));
        }
    }
    let mut seen = Vec::new();
    map.for_each_of(world, Rank(0), |key, _| seen.push(key))?;
    seen.sort_unstable();
    let mut all = keys.to_vec();
    all.sort_unstable();
    match seen == all {
        true => Ok(()),
        false => Err(failed(format!("entries {seen:?} instead of {all:?}"))),
    }
}

/// Rank 0 inserts one key twice in a batch, while rank 1 splits its bucket: the last one wins.
fn twice_in_a_batch() -> impl Fn(&Setup) -> Subject {
    let options = options(&Synchronization::Atomics, 8 << 10);
    move |_| {
        let options = options.clone();
        Subject::new(program(
            move |world| {
                let map = Map::with(&world.team(), &options)?;
                let key = keys(&map, 1, 1)[0];
                world.barrier()?;
                Ok((map, key))
            },
            |world, (map, key)| {
                if world.rank() == Rank(1) {
                    return map.split(world, Rank(0), 1);
                }
                let old = map.insert_all(world, &[(key, [2; 2]), (key, [3; 2])])?;
                match (old[1], map.get(world, key)?) {
                    (Some([2, 2]), Some([3, 3])) => Ok(()),
                    other => Err(failed(format!(
                        "the first of two entries with one key has won: {other:?}"
                    ))),
                }
            },
        ))
    }
}

/// Room for two buckets and two cells of the heap: see `Layout::new`.
const TWO_CELLS: usize = (64 + 2 * 15) * 8;

/// The chain of a bucket leads over a cell without an entry, which rank 0 needs for another bucket,
/// while rank 1 follows the chain.
fn taken_from_a_reader() -> impl Fn(&Setup) -> Subject {
    let options = options(&Synchronization::Atomics, TWO_CELLS);
    move |_| {
        let options = options.clone();
        Subject::new(program(
            move |world| {
                let map = Map::with(&world.team(), &options)?;
                let (even, odd) = (keys(&map, 0, 3), keys(&map, 1, 2));
                if world.rank() == Rank(0) {
                    map.split(world, Rank(0), 1)?;
                    for &key in even.iter().chain(&odd[..1]) {
                        map.insert(world, key, [key; 2])?;
                    }
                    map.remove(world, even[2])?;
                }
                world.barrier()?;
                Ok((map, even[1], odd[1]))
            },
            |world, (map, kept, new)| {
                if world.rank() == Rank(0) {
                    return map.insert(world, new, [new; 2]).map(drop);
                }
                match map.get(world, kept)? {
                    Some(value) if value == [kept; 2] => Ok(()),
                    other => Err(failed(format!("a reader was led out of its chain: {other:?}"))),
                }
            },
        ))
    }
}

pub(super) fn checks() -> Vec<Check> {
    let (pair, mortal) = (|| Setup::new(2), || Setup::new(2).deaths(1));
    vec![
        Check::new(
            "map/locked-death-split",
            "a rank dies while it splits a bucket under a lock: nothing is lost",
            lost_in_a_split(),
        )
        .setup(mortal())
        .policy(Policy::Pct { depth: 3 }, 5_000),
        Check::new(
            "map/locked-without-mark",
            "takes entries out of a bucket before it is marked",
            lost_in_a_split(),
        )
        .setup(mortal())
        .policy(Policy::Pct { depth: 3 }, 20_000)
        .omitting(steps::MARK_SPLIT)
        .mutant(Promise::Linearizability, "was lost with the rank"),
        Check::new(
            "map/batch-twice",
            "of two entries with one key in a batch the last one wins, while a bucket is split",
            twice_in_a_batch(),
        )
        .setup(pair().torn()),
        Check::new(
            "map/batch-looks-twice",
            "lets a later entry of a key overtake an earlier one",
            twice_in_a_batch(),
        )
        .setup(pair().torn())
        .omitting(steps::LOOK_ONCE)
        .mutant(Promise::Linearizability, "has won"),
        Check::new(
            "map/sweep",
            "a cell is taken out of a chain, beside a reader",
            taken_from_a_reader(),
        )
        .setup(pair()),
        Check::new(
            "map/sweeps-unseen",
            "takes a cell away from under a reader",
            taken_from_a_reader(),
        )
        .setup(pair())
        .omitting(steps::SHOW_SWEEP)
        .mutant(Promise::Linearizability, "led out of its chain"),
    ]
}

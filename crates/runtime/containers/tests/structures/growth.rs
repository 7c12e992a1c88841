//! Many ranks insert, change and remove while the map grows from next to nothing: in the end it is
//! the oracle's.

use crate::support::{Numbers, ensure, is_long, within_deadline};
use farside::map::{Options, Synchronization};
use farside::{HashMap, Result, World};

/// What rank `owner` does to a key, step by step; everybody can tell what must come out.
fn history(key: u64) -> (u64, Option<u64>) {
    let choice = Numbers::new(key).below(10);
    let value = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    match choice {
        // Inserted, and that is all.
        0..=3 => (choice, Some(value)),
        // Changed afterwards.
        4..=6 => (choice, Some(value ^ 1)),
        // Removed again.
        7..=8 => (choice, None),
        // Removed, and inserted once more.
        _ => (choice, Some(value ^ 2)),
    }
}

fn work(world: &World, map: &HashMap<u64, u64>, keys: u64, batch: usize) -> Result<()> {
    let mine: Vec<u64> = (u64::from(world.rank().0)..keys).step_by(world.size() as usize).collect();
    let value = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for chunk in mine.chunks(batch) {
        // Some one by one, some in batches.
        if chunk[0] % 3 == 0 {
            let entries: Vec<(u64, u64)> = chunk.iter().map(|&key| (key, value(key))).collect();
            let old = map.insert_all(world, &entries)?;
            ensure(old.iter().all(Option::is_none), || "a fresh key stood for something".into())?;
        } else {
            for &key in chunk {
                ensure(map.insert(world, key, value(key))?.is_none(), || {
                    format!("the fresh key {key} stood for something")
                })?;
            }
        }
        for &key in chunk {
            let is = |seen: Option<u64>| {
                ensure(seen == Some(value(key)), || format!("key {key} stands for {seen:?}"))
            };
            match history(key).0 {
                4..=5 => is(map.insert(world, key, value(key) ^ 1)?)?,
                6 => is(map.update(world, key, |old| old.map(|old| old ^ 1))?)?,
                7..=8 => is(map.remove(world, key)?)?,
                9 => {
                    is(map.remove(world, key)?)?;
                    map.insert_new(world, key, value(key) ^ 2)?;
                }
                _ => is(map.get(world, key)?)?,
            }
        }
    }
    Ok(())
}

fn check(world: &World, map: &HashMap<u64, u64>, keys: u64) -> Result<()> {
    let mut found = vec![0u64; 2];
    let mut problem = None;
    map.for_each_own(world, |key, value| {
        found[0] += 1;
        found[1] = found[1].wrapping_add(key);
        if key >= keys || history(key).1 != Some(value) {
            problem.get_or_insert(format!("key {key} stands for {value}"));
        }
    })?;
    ensure(problem.is_none(), || problem.clone().unwrap_or_default())?;
    world.all_reduce(&mut found, u64::wrapping_add)?;
    let mut expected = [0u64; 2];
    for key in (u64::from(world.rank().0)..keys)
        .step_by(world.size() as usize)
        .filter(|&key| history(key).1.is_some())
    {
        expected = [expected[0] + 1, expected[1].wrapping_add(key)];
    }
    world.all_reduce(&mut expected, u64::wrapping_add)?;
    ensure(found == expected, || {
        format!("{found:?} entries and sum of keys instead of {expected:?}")
    })?;
    ensure(map.len(world)? as u64 == expected[0], || {
        format!("the map says {} entries", map.len(world).unwrap_or(0))
    })?;
    let slots = map.slots(world)? as u64;
    // Once split, buckets stay; at some time there were as many entries as keys that were there at
    // once.
    ensure(slots * 2 > expected[0], || format!("{slots} slots for {} entries", expected[0]))
}

fn grows(ranks: u32, keys: u64, synchronization: &Synchronization) {
    let synchronization = synchronization.clone();
    let deadline = crate::support::DEADLINE * if is_long() { 20 } else { 1 };
    let result = within_deadline(deadline, move || {
        farside::local(ranks, |world| {
            let options = Options {
                synchronization: synchronization.clone(),
                slots: 1000,
                ..Options::default()
            };
            let map = HashMap::<u64, u64>::with(&world.team(), &options)?;
            work(world, &map, keys, 64)?;
            world.barrier()?;
            check(world, &map, keys)?;
            world.barrier()?;
            map.free(world)
        })
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_map_grows_while_16_ranks_use_it() {
    let keys = if is_long() { 10_000_000 } else { 100_000 };
    grows(16, keys, &Synchronization::Atomics);
}

#[test]
fn a_map_grows_under_every_lock() {
    for synchronization in &Synchronization::all()[1..] {
        grows(4, if is_long() { 200_000 } else { 10_000 }, synchronization);
    }
}

//! Maps against an oracle, with every kind of rank and every synchronization.

use std::collections::BTreeMap;

use crate::support::{Numbers, ensure, on_every_fabric};
use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind;
use farside::map::{Options, Synchronization};
use farside::{Error, FixedMap, FixedSet, HashMap, Local, Rank, Result, World, rw};
use proptest::prelude::*;

fn options(synchronization: &Synchronization, slots: usize) -> Options {
    Options { synchronization: synchronization.clone(), slots, reserve_bytes: Some(1 << 20) }
}

/// Each rank works on keys of its own, which collide with everybody's, and knows what must come
/// out.
fn own_keys(world: &World, synchronization: &Synchronization) -> Result<()> {
    let map = HashMap::<[u8; 12], [u32; 3]>::with(&world.team(), &options(synchronization, 4))?;
    let mut oracle = BTreeMap::new();
    let mut numbers = Numbers::new(world.rank().0.into());
    let key =
        |number: u64| -> [u8; 12] { std::array::from_fn(|at| (number >> (8 * (at % 8))) as u8) };
    for step in 0..60u32 {
        let (key, value) = (
            key(numbers.below(20) * 64 + u64::from(world.rank().0)),
            [step, world.rank().0, !step],
        );
        let (seen, known) = match numbers.below(6) {
            0 => (map.remove(world, key)?, oracle.remove(&key)),
            1 => (map.get(world, key)?, oracle.get(&key).copied()),
            2 => {
                let seen = map.insert_new(world, key, value)?;
                let known = oracle.get(&key).copied();
                oracle.entry(key).or_insert(value);
                (seen, known)
            }
            3 => {
                let change = |old: Option<[u32; 3]>| {
                    old.filter(|old| old[0] % 2 == 0).map(|old| [old[0] + 1; 3])
                };
                let known = oracle.remove(&key);
                change(known).and_then(|new| oracle.insert(key, new));
                (map.update(world, key, change)?, known)
            }
            _ => (map.insert(world, key, value)?, oracle.insert(key, value)),
        };
        ensure(seen == known, || format!("step {step}: {seen:?} is not {known:?}"))?;
    }
    world.barrier()?;
    let mut sum = [oracle.len()];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    ensure(map.len(world)? == sum[0], || {
        format!("{} entries instead of {}", map.len(world).unwrap_or(0), sum[0])
    })?;
    let mut own = [map.own_entries(world)?.len()];
    world.all_reduce(&mut own, |a, b| a + b)?;
    ensure(own == sum, || format!("{own:?} entries were visited instead of {sum:?}"))?;
    let keys: Vec<[u8; 12]> = oracle.keys().copied().chain([key(u64::MAX)]).collect();
    let values = map.get_all(world, &keys)?;
    let expected: Vec<_> = oracle.values().copied().map(Some).chain([None]).collect();
    ensure(values == expected, || format!("{values:?} is not {expected:?}"))?;
    world.barrier()?;
    map.free(world)
}

/// Everybody adds to the same few keys, one by one and in batches with the same key twice.
fn sums(world: &World, synchronization: &Synchronization) -> Result<()> {
    let map = HashMap::<u64, i64>::with(&world.team(), &options(synchronization, 1))?;
    for round in 0..4 {
        map.fetch_add(world, round % 3, 1)?;
        let batch: Vec<(u64, i64)> = (0..12).map(|key| (key % 9, 1)).collect();
        let old = map.fetch_add_all(world, &batch)?;
        ensure(old[0] < old[9], || {
            format!("the second of two sums in a batch saw {} after {}", old[9], old[0])
        })?;
    }
    world.barrier()?;
    let keys: Vec<u64> = (0..9).collect();
    let ranks = i64::from(world.size());
    let expected: Vec<Option<i64>> =
        [10, 9, 9, 4, 4, 4, 4, 4, 4].iter().map(|sum| Some(sum * ranks)).collect();
    let values = map.get_all(world, &keys)?;
    ensure(values == expected, || format!("{values:?} is not {expected:?}"))?;
    world.barrier()?;
    let removed = map.remove_all(world, &keys)?.iter().flatten().count();
    let mut all = [removed];
    world.all_reduce(&mut all, |a, b| a + b)?;
    ensure(all[0] == 9 && map.is_empty(world)?, || format!("{} entries were removed", all[0]))?;
    world.barrier()?;
    map.free(world)
}

fn fixed(world: &World, synchronization: &Synchronization) -> Result<()> {
    let map = FixedMap::new(world, 7, 60, synchronization)?;
    let me = u64::from(world.rank().0);
    for key in 0..10 {
        ensure(map.insert(world, 1000 + key * 100 + me, key)?.is_none(), || {
            "a fresh key stood for something".into()
        })?;
        ensure(map.insert(world, 1000 + key * 100 + me, key + 1)? == Some(key), || {
            "a key lost its value".into()
        })?;
        map.insert(world, key, me)?;
    }
    world.barrier()?;
    for key in 0..10 {
        let (mine, shared) = (map.get(world, 1000 + key * 100 + me)?, map.get(world, key)?);
        ensure(mine == Some(key + 1), || format!("key {key} stands for {mine:?}"))?;
        ensure(shared.is_some_and(|by| by < 5), || {
            format!("the shared key {key} stands for {shared:?}")
        })?;
    }
    ensure(map.get(world, 5000)?.is_none() && map.get(world, u64::MAX)?.is_none(), || {
        "a key out of nowhere".into()
    })?;
    world.barrier()?;
    map.free(world)
}

fn integers(world: &World, synchronization: &Synchronization) -> Result<()> {
    let set = FixedSet::new(world, 7, 60, synchronization)?;
    let me = u64::from(world.rank().0);
    let mut new = 0;
    for integer in 0..10 {
        let own = 1000 + integer * 100 + me;
        ensure(set.insert(world, own)?, || "a fresh integer was there".into())?;
        ensure(!set.insert(world, own)?, || "an integer was lost".into())?;
        new += u64::from(set.insert(world, integer)?);
    }
    let mut sum = [new];
    world.all_reduce(&mut sum, |one, other| one + other)?;
    ensure(sum == [10], || format!("10 integers that all insert were new {sum:?} times"))?;
    for integer in 0..10 {
        let own = 1000 + integer * 100 + me;
        ensure(set.contains(world, own)? && set.contains(world, integer)?, || {
            format!("{integer} or {own} is missing")
        })?;
    }
    ensure(!set.contains(world, 5000)? && !set.contains(world, u64::MAX)?, || {
        "an integer out of nowhere".into()
    })?;
    world.barrier()?;
    set.free(world)
}

macro_rules! with_every_synchronization {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn atomics() {
                on_every_fabric(|world| super::$name(world, &Synchronization::Atomics));
            }
            #[test]
            fn fompi_rw() {
                let locked = Synchronization::Locked(rw::Kind::FompiRw { backoff: false });
                on_every_fabric(move |world| super::$name(world, &locked));
            }
            #[test]
            fn rma_rw() {
                let locked = Synchronization::Locked(rw::Kind::rma_rw());
                on_every_fabric(move |world| super::$name(world, &locked));
            }
            #[test]
            fn default_rw() {
                let locked = Synchronization::Locked(rw::Kind::Default);
                on_every_fabric(move |world| super::$name(world, &locked));
            }
        }
    )* };
}
with_every_synchronization!(own_keys sums fixed integers);

/// One rank at a time, any operations in any order: the map is the oracle's, entry by entry.
#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u64),
    Remove(u8),
    Get(u8),
    Add(u8, u64),
    Batch(Vec<(u8, u64)>),
    RemoveAll(Vec<u8>),
    Split(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key % 40, value)),
        any::<u8>().prop_map(|key| Step::Remove(key % 40)),
        any::<u8>().prop_map(|key| Step::Get(key % 40)),
        (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Add(key % 40, value)),
        proptest::collection::vec((0u8..40, any::<u64>()), 0..12).prop_map(Step::Batch),
        proptest::collection::vec(0u8..40, 0..12).prop_map(Step::RemoveAll),
        (1u64..4).prop_map(Step::Split),
    ];
    proptest::collection::vec(step, 1..40)
}

fn take(world: &World, steps: &[Step], synchronization: &Synchronization) -> Result<()> {
    let map = HashMap::<u8, u64>::with(&world.team(), &options(synchronization, 1))?;
    let mut oracle: BTreeMap<u8, u64> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        world.barrier()?;
        let mine = world.rank().index() == at % world.size() as usize;
        let is = |seen: Option<u64>, known: Option<u64>| {
            ensure(!mine || seen == known, || {
                format!("step {at}, {step:?}: {seen:?} is not {known:?}")
            })
        };
        let none = || Ok(None);
        match step {
            Step::Insert(key, value) => {
                let seen = if mine { map.insert(world, *key, *value) } else { none() }?;
                is(seen, oracle.insert(*key, *value))?;
            }
            Step::Remove(key) => {
                is(if mine { map.remove(world, *key) } else { none() }?, oracle.remove(key))?
            }
            Step::Get(key) => {
                is(if mine { map.get(world, *key) } else { none() }?, oracle.get(key).copied())?
            }
            Step::Add(key, value) => {
                let seen = if mine { map.fetch_add(world, *key, *value)? } else { 0 };
                let known = oracle.entry(*key).or_insert(0);
                is(Some(seen), Some(*known))?;
                *known = known.wrapping_add(*value);
            }
            Step::Batch(entries) => {
                let seen =
                    if mine { map.insert_all(world, entries)? } else { vec![None; entries.len()] };
                for ((key, value), seen) in entries.iter().zip(seen) {
                    is(seen, oracle.insert(*key, *value))?;
                }
            }
            Step::RemoveAll(keys) => {
                let seen = if mine { map.remove_all(world, keys)? } else { vec![None; keys.len()] };
                for (key, seen) in keys.iter().zip(seen) {
                    is(seen, oracle.remove(key))?;
                }
            }
            Step::Split(splits) if mine => {
                world.ranks().try_for_each(|rank| map.split(world, rank, *splits))?;
            }
            Step::Split(_) => {}
        }
    }
    world.barrier()?;
    let mut all = BTreeMap::new();
    for rank in world.ranks() {
        map.for_each_of(world, rank, |key, value| {
            all.insert(key, value);
        })?;
    }
    ensure(all == oracle && map.len(world)? == oracle.len(), || {
        format!("{all:?} is not {oracle:?}")
    })?;
    world.barrier()?;
    map.free(world)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_leave_what_the_oracle_has(steps in steps(), ranks in 1u32..4, which in 0usize..4) {
        let synchronization = Synchronization::all()[which].clone();
        farside::local(ranks, |world| take(world, &steps, &synchronization)).unwrap();
    }
}

#[test]
fn a_map_is_saved_and_loaded_with_another_number_of_ranks() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("map");
    farside::local(3, |world| {
        let map = HashMap::<u32, [u8; 3]>::new(world)?;
        for key in (world.rank().0..1000).step_by(3) {
            map.insert(world, key, [key as u8; 3])?;
        }
        map.save(world, &path)?;
        map.free(world)
    })
    .unwrap();
    for ranks in [1, 2, 5] {
        farside::local(ranks, |world| {
            let map = HashMap::<u32, [u8; 3]>::load(&world.team(), &Options::default(), &path)?;
            ensure(map.len(world)? == 1000, || format!("{} entries", map.len(world).unwrap_or(0)))?;
            for key in 0..1000 {
                ensure(map.get(world, key)? == Some([key as u8; 3]), || {
                    format!("key {key} is not what it was")
                })?;
            }
            let wrong =
                HashMap::<u64, [u8; 3]>::load(&world.team(), &Options::default(), &path).map(drop);
            let says = wrong.unwrap_err().to_string();
            ensure(says.contains("keys of 4") || says.contains("has failed"), || says.clone())?;
            let none =
                HashMap::<u64, u8>::load(&world.team(), &Options::default(), "/nonexistent/map")
                    .map(drop);
            ensure(none.unwrap_err().to_string().contains("/nonexistent/map"), || {
                "the file is not named".into()
            })?;
            map.free(world)
        })
        .unwrap();
    }
}

#[test]
fn a_volume_that_is_full_says_how_to_have_more() {
    farside::local(2, |world| {
        let small = Options { slots: 2, reserve_bytes: Some(1 << 12), ..Options::default() };
        let map = HashMap::<u64, u64>::with(&world.team(), &small)?;
        let error = (0..1000).find_map(|key| map.insert(world, key, 0).err());
        let says = error.map_or("nothing".into(), |error| error.to_string());
        ensure(says.contains("reserve_bytes"), || says.clone())?;
        // Everything that went in before is there, and can be read, changed and removed.
        ensure(map.get(world, 0)?.is_some(), || "the first key is gone".into())?;
        map.insert(world, 0, 7)?;
        world.barrier()?;
        ensure(map.get(world, 0)? == Some(7), || "the first key cannot be changed".into())?;
        world.barrier()?;
        let fixed = FixedMap::new(world, 1, 1, &Synchronization::Atomics)?;
        let error = (0..1000).find_map(|key| fixed.insert(world, key, 0).err());
        ensure(matches!(error, Some(Error::TooMuch { .. })), || format!("{error:?}"))?;
        let odd = fixed.insert(world, u64::MAX, 0);
        ensure(matches!(odd, Err(Error::Unsupported { .. })), || format!("{odd:?}"))?;
        world.barrier()?;
        fixed.free(world)?;
        let set = FixedSet::new(world, 1, 1, &Synchronization::Atomics)?;
        let error = (0..1000).find_map(|integer| set.insert(world, integer).err());
        ensure(matches!(error, Some(Error::TooMuch { .. })), || format!("{error:?}"))?;
        let odd = set.insert(world, u64::MAX);
        ensure(matches!(odd, Err(Error::Unsupported { .. })), || format!("{odd:?}"))?;
        world.barrier()?;
        set.free(world)?;
        map.free(world)
    })
    .unwrap();
}

/// A rank is lost: the survivors of a map with locks recover it, and free it with their team.
#[test]
fn survivors_free_a_map_that_they_have_recovered() {
    const LOST: Rank = Rank(2);
    let ended = farside::local(3, |world| {
        let survivors = world.split((world.rank() != LOST).then_some(0), 0)?;
        let synchronization = Synchronization::Locked(rw::Kind::Default);
        let mut map = HashMap::<u64, u64>::with(&world.team(), &options(&synchronization, 4))?;
        world.barrier()?;
        let Some(survivors) = survivors else { return Err(Error::Program("it fails".into())) };
        while !world.is_lost(LOST) {
            std::thread::yield_now();
        }
        map.recover(&survivors)?;
        map.free(&survivors)?;
        survivors.free()
    });
    assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
}

/// A map of one rank with little room, and how many keys it takes.
fn fill(world: &World, map: &HashMap<u64, u64>) -> Result<usize> {
    let inserted = (0..1000).take_while(|&key| map.insert(world, key, key).is_ok()).count();
    ensure(inserted < 1000, || "the map is not full".into())?;
    Ok(inserted)
}

#[test]
fn what_a_full_map_refuses_is_not_in_it() {
    for synchronization in [Synchronization::Atomics, Synchronization::Locked(rw::Kind::Default)] {
        farside::local(1, |world| {
            let small = Options { slots: 2, ..options(&synchronization, 2) };
            let small = Options { reserve_bytes: Some(1 << 12), ..small };
            let map = HashMap::<u64, u64>::with(&world.team(), &small)?;
            let inserted = fill(world, &map)?;
            ensure(map.len(world)? == inserted, || {
                format!("{} entries after {inserted} inserts", map.len(world).unwrap_or(0))
            })?;
            for key in 0..1000 {
                let (held, known) = (map.get(world, key)?, (key < inserted as u64).then_some(key));
                ensure(held == known, || format!("key {key}: {held:?}"))?;
            }
            // A batch that does not fit leaves room for what does.
            let map_of_two = HashMap::<u64, u64>::with(&world.team(), &small)?;
            let batch: Vec<(u64, u64)> = (0..1000).map(|key| (key, key)).collect();
            let refused = map_of_two.insert_all(world, &batch);
            ensure(matches!(refused, Err(Error::TooMuch { .. })), || format!("{refused:?}"))?;
            let (before, after) = (map_of_two.len(world)?, fill(world, &map_of_two)?);
            ensure(after.max(before) * 4 > inserted * 3, || {
                format!("{before}, then {after} entries instead of {inserted}")
            })?;
            map_of_two.free(world)?;
            map.free(world)
        })
        .unwrap();
    }
}

#[test]
fn a_panic_of_an_update_leaves_the_map_in_order() {
    farside::local(2, |world| {
        let map = HashMap::<u64, u64>::new(world)?;
        map.insert(world, 7, 1)?;
        world.barrier()?;
        let panics = || map.update(world, 7, |_| std::panic::resume_unwind(Box::new("caught")));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        ensure(caught.is_err(), || "nothing was caught".into())?;
        ensure(map.get(world, 7)? == Some(1), || "the entry has changed".into())?;
        world.barrier()?;
        map.free(world)
    })
    .unwrap();
}

#[test]
fn integers_cost_what_their_file_says() {
    let counts = Counts::new(2);
    let over = counts.clone();
    let local = Local::new(2).expect("the environment is in order");
    let each = |world: &World| {
        let set = FixedSet::on(&world.team(), &[Rank(0)], (1, 9), &Synchronization::Atomics)?;
        world.barrier()?;
        let cost = |what: &str, expected: [u64; 3], run: &dyn Fn() -> Result<bool>| {
            let count = || {
                [Kind::Atomic, Kind::Get, Kind::Put]
                    .map(|kind| counts.operations(Rank(1), kind, Rank(0)))
            };
            let before = count();
            run()?;
            let now = count();
            let spent: [u64; 3] = std::array::from_fn(|at| now[at] - before[at]);
            ensure(spent == expected, || format!("{what}: {spent:?} for {expected:?}"))
        };
        if world.rank() == Rank(1) {
            cost("an empty slot", [1, 0, 0], &|| set.insert(world, 5))?;
            cost("in the table", [1, 0, 0], &|| set.contains(world, 5))?;
            cost("a collision", [4, 0, 1], &|| set.insert(world, 6))?;
            cost("a second one", [4, 1, 1], &|| set.insert(world, 7))?;
            cost("the last element", [2, 1, 0], &|| set.contains(world, 7))?;
            cost("that before it", [2, 2, 0], &|| set.contains(world, 6))?;
            cost("once more", [2, 2, 0], &|| set.insert(world, 6))?;
        }
        world.barrier()?;
        set.free(world)
    };
    local.decorate(move |fabric| over.over(fabric)).run(each).unwrap();
}

/// What has no place is refused at once, until an entry is removed.
#[test]
fn a_full_volume_is_looked_through_once() {
    let counts = Counts::new(2);
    let over = counts.clone();
    let each = |world: &World| {
        let small = Options { slots: 2, reserve_bytes: Some(1 << 13), ..Options::default() };
        let map = HashMap::<u64, u64>::with(&world.team(), &small)?;
        world.barrier()?;
        if world.rank() == Rank(1) {
            let own = |&key: &u64| map.owner(key) == Rank(0);
            let keys: Vec<u64> = (0..).filter(own).take(1000).collect();
            let held = keys.iter().take_while(|&&key| map.insert(world, key, 0).is_ok()).count();
            let count = || {
                let kinds = [Kind::Atomic, Kind::Get, Kind::Put];
                kinds.map(|kind| counts.operations(Rank(1), kind, Rank(0))).iter().sum::<u64>()
            };
            let (before, next) = (count(), keys[held]);
            ensure(map.insert(world, next, 0).is_err(), || "there is room".into())?;
            let spent = count() - before;
            ensure(spent <= 30, || format!("{spent} operations for {held} entries"))?;
            // An entry of the table that is removed leaves no cell, one of the heap does.
            let makes_room =
                |&&key: &&u64| map.remove(world, key).is_ok() && map.insert(world, next, 0).is_ok();
            let removed = keys[..held].iter().position(|key| makes_room(&key));
            ensure(removed.is_some_and(|count| count < held / 2), || format!("{removed:?}"))?;
        }
        world.barrier()?;
        map.free(world)
    };
    let local = Local::new(2).expect("the environment is in order");
    local.decorate(move |fabric| over.over(fabric)).run(each).unwrap();
}

#[test]
fn a_map_of_a_team_and_a_stranger() {
    farside::local(4, |world| {
        let half =
            world.split(Some(u64::from(world.rank().0 / 2)), 0)?.expect("everybody has a colour");
        let map = HashMap::<u64, u64>::with(&half, &Options::default())?;
        map.insert(world, 1, u64::from(world.rank().0 / 2))?;
        half.barrier()?;
        ensure(map.get(world, 1)? == Some(u64::from(world.rank().0 / 2)), || {
            "another team's entry".into()
        })?;
        ensure(half.members().contains(&map.owner(1)), || "the owner is no member".into())?;
        let stranger = Rank((world.rank().0 + 2) % 4);
        let error = map.for_each_of(world, stranger, |_, _| {});
        ensure(error == Err(Error::NotAMember { rank: stranger, of: "map" }), || {
            format!("{error:?}")
        })?;
        half.barrier()?;
        map.free(&half)?;
        half.free()
    })
    .unwrap();
}

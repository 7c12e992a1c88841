//! Hash tables: what they answer can be explained by some order, while they grow and while ranks
//! die.

mod edges;
mod recovered;

use std::collections::BTreeMap;

use farside::map::{Options, Synchronization, steps};
use farside::sim::{Policy, program};
use farside::{Error, FixedMap, FixedSet, HashMap, Rank, Result, World, rw};

use crate::check::{Check, Setup, Subject};
use crate::property::{History, Promise, Specification};

/// The contents of a map: values of two equal words, so that a torn one is noticed.
struct Entries;

/// An operation on a map, by the number of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Get(usize),
    Insert(usize, u64),
    Remove(usize),
    /// Splits a bucket, which no operation can tell.
    Split,
}
use Ask::{Get, Insert, Remove, Split};

type Answer = Option<[u64; 2]>;

impl Specification for Entries {
    type State = BTreeMap<usize, u64>;
    type Operation = Ask;
    type Answer = Answer;

    fn initial(&self) -> Self::State {
        BTreeMap::new()
    }

    fn apply(&self, state: &mut Self::State, ask: &Ask) -> Answer {
        let old = match *ask {
            Get(key) => state.get(&key).copied(),
            Insert(key, value) => state.insert(key, value),
            Remove(key) => state.remove(&key),
            Split => None,
        };
        old.map(|value| [value; 2])
    }
}

/// The operations of each rank in a round, and those of rank 0 before, which are not explored.
#[derive(Debug, Clone, Copy)]
struct Script {
    before: &'static [Ask],
    ranks: &'static [&'static [Ask]],
    /// True if each rank's requests are batches of one kind.
    batches: bool,
}

type Map = HashMap<u64, [u64; 2]>;

/// Keys of the volume of rank 0, so that all collide.
fn keys(map: &Map) -> Vec<u64> {
    (0..).filter(|&key| map.owner(key) == Rank(0)).take(4).collect()
}

fn ask(world: &World, map: &Map, keys: &[u64], ask: Ask) -> Result<Answer> {
    match ask {
        Get(key) => map.get(world, keys[key]),
        Insert(key, value) => map.insert(world, keys[key], [value; 2]),
        Remove(key) => map.remove(world, keys[key]),
        Split => map.split(world, Rank(0), 1).map(|()| None),
    }
}

/// All requests of a rank at once, by kind.
fn ask_all(world: &World, map: &Map, keys: &[u64], asks: &[Ask]) -> Result<Vec<Answer>> {
    let key = |ask: &Ask| match *ask {
        Get(key) | Insert(key, _) | Remove(key) => keys[key],
        Split => keys[0],
    };
    let of: Vec<u64> = asks.iter().map(key).collect();
    match asks.first() {
        Some(Get(_)) => map.get_all(world, &of),
        Some(Remove(_)) => map.remove_all(world, &of),
        _ => {
            let value = |ask: &Ask| if let Insert(_, value) = *ask { [value; 2] } else { [0; 2] };
            map.insert_all(
                world,
                &of.iter().copied().zip(asks.iter().map(value)).collect::<Vec<_>>(),
            )
        }
    }
}

fn asks(synchronization: Synchronization, script: Script) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (history, rounds) = (History::new(), setup.rounds);
        let prepared = history.clone();
        let options = Options {
            synchronization: synchronization.clone(),
            slots: 1,
            reserve_bytes: Some(8 << 10),
        };
        Subject::new(program(
            move |world| {
                prepared.clear();
                let map = Map::with(&world.team(), &options)?;
                let keys = keys(&map);
                if world.rank() == Rank(0) {
                    for &request in script.before {
                        let call = prepared.call(request);
                        prepared.answer(call, ask(world, &map, &keys, request)?);
                    }
                }
                world.barrier()?;
                Ok((map, keys))
            },
            move |world, (map, keys)| {
                let mine = script.ranks[world.rank().index() % script.ranks.len()];
                for _ in 0..rounds {
                    if script.batches {
                        let calls: Vec<usize> =
                            mine.iter().map(|&request| history.call(request)).collect();
                        let answers = ask_all(world, &map, &keys, mine)?;
                        calls
                            .into_iter()
                            .zip(answers)
                            .for_each(|(call, answer)| history.answer(call, answer));
                    } else {
                        for &request in mine {
                            let call = history.call(request);
                            history.answer(call, ask(world, &map, &keys, request)?);
                        }
                    }
                    history.check(&Entries).map_err(super::wrong)?;
                }
                Ok(())
            },
        ))
    }
}

fn fixed(
    synchronization: Synchronization,
    ranks: &'static [&'static [Ask]],
) -> impl Fn(&Setup) -> Subject {
    asked(
        ranks,
        move |world| FixedMap::on(&world.team(), &[Rank(0)], (1, 8), &synchronization),
        |world, map, request| {
            let answer = match request {
                Get(key) => map.get(world, key as u64)?,
                Insert(key, value) => map.insert(world, key as u64, value)?,
                other => {
                    return Err(Error::Program(format!("{other:?} of a map of fixed size")));
                }
            };
            Ok(answer.map(|value| [value; 2]))
        },
    )
}

/// A set is a map whose keys all stand for one.
fn integers(
    synchronization: Synchronization,
    ranks: &'static [&'static [Ask]],
) -> impl Fn(&Setup) -> Subject {
    asked(
        ranks,
        move |world| FixedSet::on(&world.team(), &[Rank(0)], (1, 8), &synchronization),
        |world, set, request| {
            let was_there = match request {
                Get(key) => set.contains(world, key as u64)?,
                Insert(key, 1) => !set.insert(world, key as u64)?,
                other => return Err(Error::Program(format!("{other:?} of a set"))),
            };
            Ok(was_there.then_some([1; 2]))
        },
    )
}

/// Every rank asks a table what its list says, in each round; all answers together must be those of
/// a table that does one thing after the other.
fn asked<T: 'static>(
    ranks: &'static [&'static [Ask]],
    make: impl Fn(&World) -> Result<T> + Clone + 'static,
    answer: impl Fn(&World, &T, Ask) -> Result<Option<[u64; 2]>> + Clone + 'static,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (history, rounds) = (History::new(), setup.rounds);
        let (cleared, make, answer) = (history.clone(), make.clone(), answer.clone());
        Subject::new(program(
            move |world| {
                cleared.clear();
                make(world)
            },
            move |world, table| {
                for _ in 0..rounds {
                    for &request in ranks[world.rank().index() % ranks.len()] {
                        let call = history.call(request);
                        history.answer(call, answer(world, &table, request)?);
                    }
                    history.check(&Entries).map_err(super::wrong)?;
                }
                Ok(())
            },
        ))
    }
}

const ATOMICS: Synchronization = Synchronization::Atomics;

/// Three ranks on one entry.
const COLLIDE: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Remove(0)], &[Get(0)], &[Get(0)]],
    batches: false,
};
/// Three ranks on one bucket, two of which write.
const WRITE: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Insert(1, 2)], &[Get(0)], &[Remove(0)]],
    batches: false,
};
/// A reader sees an entry come and go.
const TWICE: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Insert(0, 2), Remove(0)], &[Get(0), Get(0)]],
    batches: false,
};
/// A bucket that is split while others look into it.
const GROW: Script = Script {
    before: &[Insert(0, 1), Insert(1, 1), Insert(2, 1)],
    ranks: &[&[Split], &[Get(1)], &[Get(2)]],
    batches: false,
};
/// A bucket that is split while one looks into it and one writes to it.
const GROW_AND_WRITE: Script =
    Script { ranks: &[&[Split], &[Get(1), Get(2)], &[Remove(0)]], ..GROW };
/// An insert that makes the table grow, beside a reader.
const OVERFLOW: Script =
    Script { before: &[Insert(0, 1)], ranks: &[&[Insert(1, 2)], &[Get(0)]], batches: false };
const BATCHES: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Insert(0, 2), Insert(1, 2)], &[Get(0), Get(1)]],
    batches: true,
};
const MANY_BATCHES: Script = Script {
    ranks: &[&[Insert(0, 2), Insert(1, 2)], &[Insert(1, 3), Insert(0, 3)], &[Get(0), Get(1)]],
    ..BATCHES
};
/// The survivor reads all entries, and changes them.
const DEATH: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Get(0), Insert(0, 3), Get(0)], &[Insert(0, 2)]],
    batches: false,
};
const MORE_DEATH: Script = Script {
    before: &[Insert(0, 1), Insert(1, 1)],
    ranks: &[&[Get(0), Insert(0, 3), Get(0), Get(1)], &[Insert(0, 2), Remove(1)]],
    batches: false,
};
const DEATH_IN_SPLIT: Script = Script {
    before: &[Insert(0, 1), Insert(1, 1)],
    ranks: &[&[Get(0), Get(1)], &[Split]],
    batches: false,
};
const MORE_DEATH_IN_SPLIT: Script = Script {
    before: &[Insert(0, 1), Insert(1, 1), Insert(2, 1)],
    ranks: &[&[Get(0), Get(1), Get(2), Split, Get(0), Get(1), Get(2)], &[Split]],
    batches: false,
};
const FIXED: &[&[Ask]] = &[&[Insert(1, 1)], &[Insert(1, 2), Get(1)], &[Insert(2, 3)]];
const INTEGERS: &[&[Ask]] = &[&[Insert(1, 1)], &[Insert(1, 1), Get(1)], &[Insert(2, 1)]];
const INTEGERS_PAIR: &[&[Ask]] = &[&[Insert(0, 1), Insert(1, 1)], &[Insert(1, 1), Get(1), Get(0)]];
const FIXED_PAIR: &[&[Ask]] = &[&[Insert(0, 1), Insert(1, 1)], &[Insert(1, 2), Get(1), Get(1)]];

fn right(name: &'static str, about: &'static str, script: Script) -> Check {
    Check::new(name, about, asks(ATOMICS, script)).setup(Setup::new(script.ranks.len() as u32))
}

fn mutant(name: &'static str, about: &'static str, script: Script) -> Check {
    let check = Check::new(name, about, asks(ATOMICS, script));
    check
        .setup(Setup::new(script.ranks.len() as u32).torn())
        .mutant(Promise::Linearizability, "no order explains")
}

/// All checks of maps.
pub fn checks() -> Vec<Check> {
    [rights(), of_fixed_size(), mutants(), edges::checks(), recovered::checks()]
        .into_iter()
        .flatten()
        .collect()
}

fn rights() -> Vec<Check> {
    let locked = |kind: rw::Kind| asks(Synchronization::Locked(kind), WRITE);
    let pct = || Policy::Pct { depth: 3 };
    let mortal = || Setup::new(2).deaths(1);
    vec![
        right("map/atomics", "get and remove one entry", COLLIDE),
        right("map/atomics-writers", "insert, get and remove in one bucket", WRITE)
            .policy(pct(), 20_000),
        right("map/atomics-torn", "a reader beside a writer, values arrive word by word", TWICE)
            .setup(Setup::new(2).torn()),
        right("map/growth", "get while a bucket is split", GROW),
        right("map/growth-writers", "get and remove while a bucket is split", GROW_AND_WRITE)
            .policy(pct(), 20_000),
        right("map/growth-overflow", "an insert splits a bucket, beside a reader", OVERFLOW),
        right("map/batches", "a batch of colliding inserts, and one that reads them", BATCHES),
        right("map/batches-3", "batches of colliding keys, and one that reads them", MANY_BATCHES)
            .policy(pct(), 5000),
        right("map/death", "a rank dies while it inserts: the other reads what there was", DEATH)
            .setup(mortal()),
        right("map/death-more", "a rank dies while it inserts or removes", MORE_DEATH)
            .setup(mortal())
            .policy(pct(), 20_000),
        right(
            "map/death-split",
            "a rank dies while it splits a bucket: nothing is lost",
            DEATH_IN_SPLIT,
        )
        .setup(mortal()),
        right("map/death-split-more", "the other splits, too", MORE_DEATH_IN_SPLIT)
            .setup(mortal())
            .policy(pct(), 20_000),
        Check::new(
            "map/fompi-rw",
            "under the lock of foMPI",
            locked(rw::Kind::FompiRw { backoff: false }),
        )
        .setup(Setup::new(3))
        .policy(pct(), 3000),
        Check::new("map/rma-rw", "under RMA-RW", locked(rw::Kind::rma_rw()))
            .setup(Setup::new(3))
            .policy(pct(), 3000),
        Check::new("map/default-rw", "under the default lock", locked(rw::Kind::Default))
            .setup(Setup::new(3))
            .policy(pct(), 3000),
    ]
}

fn of_fixed_size() -> Vec<Check> {
    let pct = || Policy::Pct { depth: 3 };
    vec![
        Check::new(
            "map/fixed",
            "the map of a fixed size: three ranks, one slot",
            fixed(ATOMICS, FIXED),
        )
        .setup(Setup::new(3)),
        Check::new(
            "map/fixed-pair",
            "the map of a fixed size: two ranks, twice",
            fixed(ATOMICS, FIXED_PAIR),
        )
        .setup(Setup::new(2)),
        Check::new(
            "map/fixed-default-rw",
            "the map of a fixed size under the default lock",
            fixed(Synchronization::Locked(rw::Kind::Default), FIXED),
        )
        .setup(Setup::new(3))
        .policy(pct(), 3000),
        Check::new(
            "map/integers",
            "the set of a fixed size: three ranks, one slot",
            integers(ATOMICS, INTEGERS),
        )
        .setup(Setup::new(3)),
        Check::new(
            "map/integers-pair",
            "the set of a fixed size: two ranks, twice",
            integers(ATOMICS, INTEGERS_PAIR),
        )
        .setup(Setup::new(2)),
        Check::new(
            "map/integers-default-rw",
            "the set of a fixed size under the default lock",
            integers(Synchronization::Locked(rw::Kind::Default), INTEGERS),
        )
        .setup(Setup::new(3))
        .policy(pct(), 3000),
    ]
}

fn mutants() -> Vec<Check> {
    let mortal = || Setup::new(2).deaths(1);
    vec![
        mutant("map/without-validation", "believes what it read while somebody wrote", TWICE)
            .omitting(steps::VALIDATE),
        mutant("map/without-order", "makes an entry visible before it has landed", TWICE)
            .omitting(steps::ORDER),
        mutant("map/without-depth", "looks into a bucket that was split", GROW_AND_WRITE)
            .omitting(steps::LOOK_AT_DEPTH)
            .setup(Setup::new(3)),
        mutant(
            "map/without-mark",
            "goes back where a bucket was split by half",
            MORE_DEATH_IN_SPLIT,
        )
        .omitting(steps::MARK_SPLIT)
        .setup(mortal()),
        mutant("map/without-abandoning", "writes where a lost rank may still write", MORE_DEATH)
            .omitting(steps::ABANDON)
            .setup(mortal())
            .mutant(Promise::Exclusion, "declared lost"),
        Check::new(
            "map/fixed-without-order",
            "leads to an element before it has landed",
            fixed(ATOMICS, FIXED_PAIR),
        )
        .setup(Setup::new(2))
        .omitting(steps::ORDER)
        .mutant(Promise::Linearizability, "no order explains"),
        Check::new(
            "map/fixed-without-second-look",
            "has a key twice that two ranks insert at once",
            fixed(ATOMICS, FIXED_PAIR),
        )
        .setup(Setup::new(2))
        .omitting(steps::LOOK_AGAIN)
        .mutant(Promise::Linearizability, "no order explains"),
        Check::new(
            "map/integers-without-order",
            "leads to an integer before it has landed",
            integers(ATOMICS, INTEGERS_PAIR),
        )
        .setup(Setup::new(2))
        .omitting(steps::ORDER)
        .mutant(Promise::Linearizability, "no order explains"),
        Check::new(
            "map/integers-without-second-look",
            "has an integer twice that two ranks insert at once",
            integers(ATOMICS, INTEGERS),
        )
        .setup(Setup::new(3))
        .omitting(steps::LOOK_AGAIN)
        .mutant(Promise::Linearizability, "no order explains"),
    ]
}

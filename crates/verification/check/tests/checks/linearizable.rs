//! Samples of real runs: what many ranks are told by a map can be explained by some order, while it
//! grows.

use std::collections::BTreeMap;

use crate::support::{Numbers, ensure, is_long, within_deadline};
use farside::map::{Options, Synchronization};
use farside::{HashMap, Rank, Result, World};
use farside_check::property::{History, Specification};

/// One key of a map. What is asked: 0 to get, 1 to remove, and otherwise to insert that number.
struct Entry;

impl Specification for Entry {
    type State = Option<u64>;
    type Operation = u64;
    type Answer = Option<u64>;

    fn initial(&self) -> Option<u64> {
        None
    }

    fn apply(&self, state: &mut Option<u64>, asked: &u64) -> Option<u64> {
        match asked {
            0 => *state,
            1 => state.take(),
            value => state.replace(*value),
        }
    }
}

/// The keys that all contend for.
const KEYS: u64 = 3;
/// How much each rank asks in a round: all ranks together no more than can be judged.
const ASKED: usize = 56;

/// Words of an answer: key, what was asked, whether there was something, what, when it was asked
/// and when answered.
const WORDS: usize = 6;

fn round(world: &World, map: &HashMap<u64, u64>, number: u64) -> Result<()> {
    let mut numbers = Numbers::new(number * 1000 + u64::from(world.rank().0));
    let mut mine = Vec::new();
    let count = (ASKED * KEYS as usize / 2 / world.size() as usize).max(2);
    world.barrier()?;
    for step in 0..count as u64 {
        let key = number * 100 + numbers.below(KEYS);
        let asked = match numbers.below(4) {
            0 => 0,
            1 => 1,
            _ => 2 + step * u64::from(world.size()) + u64::from(world.rank().0),
        };
        let called = world.now_ns();
        let answer = match asked {
            0 => map.get(world, key)?,
            1 => map.remove(world, key)?,
            value => map.insert(world, key, value)?,
        };
        mine.extend([
            key,
            asked,
            u64::from(answer.is_some()),
            answer.unwrap_or(0),
            called,
            world.now_ns(),
        ]);
        // Others, so that the table grows meanwhile.
        map.insert(world, u64::MAX - numbers.next() % 100_000, 0)?;
    }
    let all = world.all_gather(&mine)?;
    if world.rank() != Rank(0) {
        return Ok(());
    }
    let mut by_key: BTreeMap<u64, Vec<&[u64]>> = BTreeMap::new();
    all.chunks_exact(WORDS).for_each(|words| by_key.entry(words[0]).or_default().push(words));
    for (key, asked) in by_key {
        let history = History::new();
        for words in asked {
            history.record(words[1], (words[2] == 1).then_some(words[3]), words[4]..words[5]);
        }
        let judged = history.check(&Entry);
        ensure(judged.is_ok(), || format!("key {key}: {}", judged.unwrap_err()))?;
    }
    Ok(())
}

fn sampled(ranks: u32, synchronization: Synchronization) {
    let rounds = if is_long() { 2000 } else { 60 };
    let result = within_deadline(crate::support::DEADLINE, move || {
        farside::local(ranks, |world| {
            let options = Options {
                synchronization: synchronization.clone(),
                slots: 1,
                ..Options::default()
            };
            let map = HashMap::<u64, u64>::with(&world.team(), &options)?;
            (0..rounds).try_for_each(|number| round(world, &map, number))?;
            world.barrier()?;
            map.free(world)
        })
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn answers_of_4_ranks_have_an_order() {
    sampled(4, Synchronization::Atomics);
}

#[test]
fn answers_of_16_ranks_have_an_order() {
    sampled(16, Synchronization::Atomics);
}

#[test]
fn answers_under_locks_have_an_order() {
    for synchronization in Synchronization::all() {
        sampled(3, synchronization);
    }
}

//! Objects that many ranks use at once: what they answer can be explained by some order.

use farside::sim::program;
use farside::{Rank, Result, Words, World};

use crate::check::{Check, Setup, Subject};
use crate::property::{History, Promise, Specification};

pub(super) struct Count;

impl Specification for Count {
    type State = u64;
    type Operation = ();
    type Answer = u64;

    fn initial(&self) -> u64 {
        0
    }

    fn apply(&self, state: &mut u64, (): &()) -> u64 {
        *state += 1;
        *state - 1
    }
}

/// Every rank counts, and the history so far must be in order.
pub(super) fn counts(count: fn(&World, &Words) -> Result<u64>) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (history, rounds) = (History::new(), setup.rounds);
        let cleared = history.clone();
        Subject::new(program(
            move |world| {
                cleared.clear();
                world.words(1)
            },
            move |world, words| {
                for _ in 0..rounds {
                    let call = history.call(());
                    history.answer(call, count(world, &words)?);
                    history.check(&Count).map_err(super::wrong)?;
                }
                Ok(())
            },
        ))
    }
}

pub(super) fn atomically(world: &World, words: &Words) -> Result<u64> {
    world.fetch_add(words.at(Rank(0), 0), 1)
}

fn by_compare_swap(world: &World, words: &Words) -> Result<u64> {
    let mut seen = 0;
    loop {
        match world.compare_swap(words.at(Rank(0), 0), seen, seen + 1)? {
            held if held == seen => return Ok(seen),
            held => seen = held,
        }
    }
}

fn in_two_halves(world: &World, words: &Words) -> Result<u64> {
    let seen = world.load(words.at(Rank(0), 0))?;
    world.store(words.at(Rank(0), 0), seen + 1)?;
    Ok(seen)
}

/// All checks of objects.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new("object/counter", "a counter, by fetch_add", counts(atomically))
            .setup(Setup::new(3).rounds(2)),
        Check::new(
            "object/counter-compare_swap",
            "a counter, by compare_swap",
            counts(by_compare_swap),
        )
        .setup(Setup::new(3)),
        Check::new(
            "object/counter-in-halves",
            "a counter, by a load and a store",
            counts(in_two_halves),
        )
        .mutant(Promise::Linearizability, "no order explains"),
    ]
}

//! Time limits: a rank that waits no longer, while what it has waited for is on its way.

use std::time::Duration;

use farside::sim::program;
use farside::{Error, Rank, Result, Words, World};

use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

/// The states of the word that rank 1 waits for.
const WAITS: u64 = 0;
const GRANTED: u64 = 1;
const GONE: u64 = 2;

/// The words of each rank: the state, and whether what was granted is back.
const STATE: usize = 0;
const BACK: usize = 1;

/// Rank 0 grants something to rank 1, which waits for some time and gives it back. If rank 1 has
/// gone, rank 0 keeps it.
fn grants(looks_again: bool) -> impl Fn(&Setup) -> Subject {
    move |_| {
        Subject::new(program(
            |world| world.words(2),
            move |world, words| match world.rank() {
                Rank(0) => grant(world, &words),
                _ => wait(world, &words, looks_again),
            },
        ))
    }
}

fn grant(world: &World, words: &Words) -> Result<()> {
    if world.swap(words.at(Rank(1), STATE), GRANTED)? == WAITS {
        world.wait(words.at(Rank(0), BACK), |back| back == 1)?;
    }
    Ok(())
}

fn wait(world: &World, words: &Words, looks_again: bool) -> Result<()> {
    let state = words.at(Rank(1), STATE);
    let limit = Duration::from_secs(1);
    match world.wait_timeout(state, |state| state == GRANTED, limit) {
        Ok(_) => {}
        // The grant may have landed since. One step finds that out and withdraws.
        Err(Error::TimedOut { .. }) if looks_again => {
            if world.swap(state, GONE)? != GRANTED {
                return Ok(());
            }
        }
        Err(Error::TimedOut { .. }) => return world.store(state, GONE),
        Err(error) => return Err(error),
    }
    world.signal(words.at(Rank(0), BACK), 1)
}

/// All checks of time limits.
pub fn checks() -> Vec<Check> {
    let check = |name, about, looks_again| {
        Check::new(name, about, grants(looks_again)).setup(Setup::new(2).time_outs(1))
    };
    vec![
        check("limit/grant", "who waits no longer looks whether it was granted meanwhile", true),
        check("limit/grant-without-second-look", "goes while the grant is on its way", false)
            .mutant(Promise::Progress, "has already left"),
    ]
}

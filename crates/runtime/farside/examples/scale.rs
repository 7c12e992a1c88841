//! Thousands of ranks on one core: barriers and a contended lock in virtual time.
//!
//! `cargo run --release --example scale -- [RANKS] [ROUNDS] [PROFILE] [SEED]`

use std::time::Instant;

use farside::sim::{Profile, Virtual};
use farside::{Link, Rank, Result, Words, World};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (ranks, rounds, seed) = (number(0, 4096) as u32, number(1, 100), number(3, 1));
    let profile = Profile::load(arguments.get(2).map_or("aries-xc30", String::as_str))?;
    let began = Instant::now();
    let outcome = Virtual::new(&profile, ranks)?.seed(seed).run_prepared(
        |world| world.words(4),
        move |world, words| {
            for _ in 0..rounds {
                world.barrier()?;
            }
            for _ in 0..rounds {
                pass_the_lock(world, &words)?;
            }
            world.barrier()?;
            world.get_value(words.at(Rank(0), 3))
        },
    )?;
    let timing = outcome.timing;
    let (seconds, whole) = (timing.real.as_secs_f64(), began.elapsed().as_secs_f64());
    let million_a_second = |count: u64| count as f64 / seconds / 1e6;
    assert!(
        outcome.results.iter().all(|&count| count == u64::from(ranks) * rounds),
        "the lock lost an update"
    );
    println!(
        "{ranks} ranks on {}: {rounds} barriers and {rounds} lock passings each take {:.3} ms of \
         virtual time",
        profile.name,
        timing.virtual_ns as f64 / 1e6
    );
    println!(
        "{} operations and {} waits in {seconds:.2} s, after {:.2} s of preparations: {:.2} \
         million operations a second, \
         {:.2} million with the waits; hash {:016x}",
        timing.operations,
        timing.waits,
        whole - seconds,
        million_a_second(timing.operations),
        million_a_second(timing.operations + timing.waits),
        timing.hash
    );
    Ok(())
}

/// A queuing lock in a few lines: the tail is at rank 0, everybody has a link to the next and a
/// flag.
pub(crate) fn pass_the_lock(world: &World, words: &Words) -> Result<()> {
    let me = world.rank();
    let (tail, count) = (words.at(Rank(0), 0), words.at(Rank(0), 3));
    let (next, granted) = (words.at(me, 1), words.at(me, 2));
    world.store(next, 0)?;
    world.store(granted, 0)?;
    let mine = Link::new(me, 0)?.bits();
    let before = Link::from_bits(world.swap(tail, mine)?);
    if let Some((previous, _)) = before.target() {
        world.signal(words.at(previous, 1), mine)?;
        world.wait(granted, |granted| granted == 1)?;
    }
    let seen = world.get_value(count)?;
    world.put_value(seen + 1, count)?;
    world.flush(Rank(0))?;
    let mut successor = world.load(next)?;
    if successor == 0 {
        if world.compare_swap(tail, mine, 0)? == mine {
            return Ok(());
        }
        successor = world.wait(next, |next| next != 0)?;
    }
    match Link::from_bits(successor).target() {
        Some((successor, _)) => world.signal(words.at(successor, 2), 1),
        None => Ok(()),
    }
}

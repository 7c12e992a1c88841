//! A job of more ranks than a byte counts.

use farside::{Rank, Result, World};

use crate::support::checked;

const RANKS: u32 = 200;

/// Puts to the next rank of a ring, which reads, with a flush before the barrier between them or
/// without.
fn ring(world: &World, flushes: bool) -> Result<()> {
    let (me, next) = (world.rank(), Rank((world.rank().0 + 1) % RANKS));
    let window = world.window::<u64>(1)?;
    // One that races is enough, and the last ranks are those that could be taken for others.
    if flushes || me == Rank(RANKS - 2) {
        world.put_value(me.0.into(), window.at(next, 0))?;
    }
    if flushes {
        world.flush(next)?;
    }
    world.barrier()?;
    window.own().get(0)?;
    world.barrier()?;
    window.free(world)
}

#[test]
fn races_are_found_among_200_ranks() {
    let report = checked(RANKS, |world| ring(world, false));
    assert_eq!(report.races.len(), 1, "{report}");
    let race = &report.races[0];
    assert_eq!((race.first.rank, race.second.rank, race.owner), (198, 199, 199), "{report}");
}

#[test]
fn ordered_accesses_of_200_ranks_are_no_races() {
    let report = checked(RANKS, |world| ring(world, true));
    assert!(report.races.is_empty(), "{report}");
    assert_eq!(report.accesses, 2 * u64::from(RANKS));
}

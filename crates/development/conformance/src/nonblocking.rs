//! Collectives that are started, and waited for later, or not at all.

use farside::{Error, PendingBarrier, Rank, Result, World};

use crate::{ensure, ensure_eq};

const UNDER_WAY: usize = 8;

pub(crate) fn barriers_can_be_started(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let n = u64::from(world.size());
    for round in 1..=100u64 {
        world.fetch_add(words.at(Rank(0), 0), 1)?;
        let mut barrier = world.barrier_nb()?;
        if round % 2 == 0 {
            while !barrier.test()? {}
        }
        barrier.wait()?;
        let seen = world.load(words.at(Rank(0), 0))?;
        ensure(seen >= n * round, || format!("{seen} arrivals after barrier {round}"))?;
    }
    words.free(world)
}

pub(crate) fn reductions_overlap_with_puts(world: &World) -> Result<()> {
    let (me, n) = (world.rank(), u64::from(world.size()));
    let window = world.window::<u64>(n as usize)?;
    for round in 1..=50u64 {
        let first = world.all_reduce_nb(&[round, u64::from(me.0)], |a, b| a + b)?;
        for peer in world.ranks() {
            world.put(&[round], window.at(peer, me.index()))?;
        }
        let data: Vec<f64> = (0..512).map(|at| 1.0 / (1 + at + 3 * me.0) as f64).collect();
        let second = world.all_reduce_nb(&data, |a, b| a + b)?;
        // Blocking collectives may come between.
        world.sync()?;
        // A rank that is ahead may have put again.
        let seen = window.own().to_vec()?;
        ensure(seen.iter().all(|&seen| seen >= round), || format!("{seen:?} of {round}"))?;
        let mut sum = [0.0; 512];
        second.wait_into(&mut sum)?;
        let mut same = sum;
        world.broadcast(Rank(0), &mut same)?;
        ensure(sum.map(f64::to_bits) == same.map(f64::to_bits), || "other bits".into())?;
        ensure_eq(first.wait()?, vec![n * round, n * (n - 1) / 2], "sums")?;
    }
    window.free(world)
}

/// Handles are dropped by some ranks, at once or after a test, and nobody waits in vain.
pub(crate) fn handles_can_be_dropped(world: &World) -> Result<()> {
    let (me, n) = (world.rank().0, world.size());
    for round in 0..200u32 {
        let mut reduction = world.all_reduce_nb(&[round + me], u32::max)?;
        match (round + me) % 3 {
            0 => drop(reduction),
            1 => drop(reduction.test()?),
            _ => ensure_eq(reduction.wait()?, vec![round + n - 1], "the greatest")?,
        }
        if round % 5 == 0 {
            drop(world.barrier_nb()?);
        }
    }
    world.barrier()
}

pub(crate) fn too_many_under_way_are_refused(world: &World) -> Result<()> {
    let started: Vec<_> =
        (0..UNDER_WAY).map(|at| world.all_reduce_nb(&[at], usize::max)).collect::<Result<_>>()?;
    let refused = world.barrier_nb().map(drop);
    ensure(matches!(refused, Err(Error::TooMuch { limit: 8, .. })), || format!("{refused:?}"))?;
    for (at, reduction) in started.into_iter().enumerate() {
        ensure_eq(reduction.wait()?, vec![at], "each of many")?;
    }
    world.barrier_nb()?.wait()?;
    let long = world.all_reduce_nb(&[0u8; 4097], u8::max).map(drop);
    ensure(matches!(long, Err(Error::TooMuch { value: 4097, .. })), || format!("{long:?}"))?;
    let nothing: [u64; 0] = [];
    ensure_eq(world.all_reduce_nb(&nothing, u64::max)?.wait()?.len(), 0, "nothing")
}

pub(crate) fn different_reductions_are_a_disagreement(world: &World) -> Result<()> {
    if world.size() == 1 {
        return Ok(());
    }
    let data = [1u64; 3];
    let len = if world.rank() == Rank(0) { 2 } else { 3 };
    let outcome = match world.all_reduce_nb(&data[..len], u64::max) {
        Ok(reduction) => reduction.wait().map(drop),
        Err(error) => Err(error),
    };
    ensure(matches!(outcome, Err(Error::Disagreement { .. })), || format!("{outcome:?}"))
}

pub(crate) fn nonblocking_numbers_start_over(world: &World) -> Result<()> {
    world.renumber_collectives(u32::MAX - 10)?;
    for round in 0..30u64 {
        let sum = world.all_reduce_nb(&[round], |a, b| a + b)?;
        drop(world.barrier_nb()?);
        ensure_eq(sum.wait()?, vec![round * u64::from(world.size())], "a sum")?;
    }
    world.barrier()
}

pub(crate) fn teams_start_collectives(world: &World) -> Result<()> {
    let me = world.rank().0;
    let team = world.split(Some(u64::from(me % 2)), 0)?.expect("everybody has a colour");
    for round in 0..20u32 {
        let of_team = team.all_reduce_nb(&[round], |a, b| a + b)?;
        let of_all = world.all_reduce_nb(&[round], |a, b| a + b)?;
        ensure_eq(of_all.wait()?, vec![round * world.size()], "a sum of all")?;
        ensure_eq(of_team.wait()?, vec![round * team.size() as u32], "a sum of a team")?;
        team.barrier_nb()?.wait()?;
    }
    team.free()
}

pub(crate) fn who_is_missed_by_a_test_is_named(world: &World) -> Result<()> {
    if world.size() == 1 || world.rank() == Rank(1) {
        return Ok(());
    }
    // Another rank may have noticed before this one starts.
    let tested = |mut barrier: PendingBarrier<'_>| loop {
        match barrier.test() {
            Ok(false) => {}
            other => return other,
        }
    };
    let outcome = world.barrier_nb().and_then(tested);
    ensure(matches!(outcome, Err(Error::RankLost { rank: Rank(1), .. })), || format!("{outcome:?}"))
}

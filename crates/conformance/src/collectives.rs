//! Barrier, broadcast, reductions and the rest.

use farside::{Rank, Result, World};

use crate::{ensure, ensure_eq};

/// Lengths around the edges of what one message holds.
const LENGTHS: [usize; 7] = [1, 3, 100, 2048, 4095, 4097, 20_000];

pub(crate) fn barriers_in_a_row_separate(world: World) -> Result<()> {
    // Everybody counts up; after the barrier everybody sees all, and nobody sees the next round.
    let words = world.words(2)?;
    let n = u64::from(world.size());
    for round in 1..=300u32 {
        world.fetch_add(words.at(Rank(0), (round % 2) as usize), 1)?;
        world.barrier()?;
        let seen = world.load(words.at(Rank(0), (round % 2) as usize))?;
        ensure_eq(seen, n * u64::from(round).div_ceil(2), "arrivals after the barrier")?;
    }
    words.free(&world)
}

pub(crate) fn barriers_and_broadcasts_alternate(world: World) -> Result<()> {
    // A broadcast across nodes separates nobody: a fast rank may be through it and in the next
    // barrier while a slow one is still in the last.
    for round in 0..2000u32 {
        world.barrier()?;
        let root = Rank(round % world.size());
        let mut data = [round + world.rank().0];
        world.broadcast(root, &mut data)?;
        ensure_eq(data[0], round + root.0, "broadcast")?;
    }
    Ok(())
}

pub(crate) fn broadcast_from_every_root(world: World) -> Result<()> {
    for root in world.ranks() {
        for len in LENGTHS {
            let mut data: Vec<u64> =
                (0..len as u64).map(|at| at * 7 + u64::from(world.rank().0)).collect();
            world.broadcast(root, &mut data)?;
            let expected = (0..len as u64).map(|at| at * 7 + u64::from(root.0));
            ensure(data.into_iter().eq(expected), || format!("{len} elements from {root}"))?;
        }
    }
    Ok(())
}

pub(crate) fn reduce_to_every_root(world: World) -> Result<()> {
    let n = u64::from(world.size());
    for root in world.ranks() {
        for len in LENGTHS {
            let mut data: Vec<u64> =
                (0..len as u64).map(|at| at * 1000 + u64::from(world.rank().0)).collect();
            world.reduce(root, &mut data, |a, b| a + b)?;
            if world.rank() == root {
                let expected = (0..len as u64).map(|at| n * at * 1000 + n * (n - 1) / 2);
                ensure(data.into_iter().eq(expected), || format!("{len} elements to {root}"))?;
            }
        }
    }
    let mut matrix = [[f64::from(world.rank().0); 3]; 2];
    world.reduce(Rank(0), &mut matrix, |a, b| std::array::from_fn(|at| a[at].max(b[at])))?;
    ensure(world.rank() != Rank(0) || matrix == [[(n - 1) as f64; 3]; 2], || format!("{matrix:?}"))
}

pub(crate) fn all_reduce_gives_all_the_same_bits(world: World) -> Result<()> {
    for len in LENGTHS {
        // Floating point is not associative: the order must be the same for all.
        let mut data: Vec<f64> =
            (0..len).map(|at| 1.0 / (1.0 + at as f64 + 3.3 * f64::from(world.rank().0))).collect();
        world.all_reduce(&mut data, |a, b| a + b)?;
        let mut first = data.clone();
        world.broadcast(Rank(0), &mut first)?;
        ensure(data.iter().zip(&first).all(|(a, b)| a.to_bits() == b.to_bits()), || {
            format!("{len} elements differ")
        })?;
    }
    let mut largest = [world.rank().0];
    world.all_reduce(&mut largest, u32::max)?;
    ensure_eq(largest[0], world.size() - 1, "the largest rank")
}

pub(crate) fn all_gather_keeps_the_order(world: World) -> Result<()> {
    for len in LENGTHS {
        let mine = vec![world.rank().0 * 10; len];
        let all = world.all_gather(&mine)?;
        let as_expected = all
            .chunks_exact(len)
            .enumerate()
            .all(|(rank, part)| part.iter().all(|&v| v == rank as u32 * 10));
        ensure(as_expected && all.len() == len * world.size() as usize, || {
            format!("{len} elements from each")
        })?;
    }
    Ok(())
}

pub(crate) fn all_to_all_transposes(world: World) -> Result<()> {
    let me = u64::from(world.rank().0);
    for len in LENGTHS {
        let send: Vec<u64> = world
            .ranks()
            .flat_map(|to| {
                (0..len as u64).map(move |at| me * 1_000_000 + u64::from(to.0) * 100_000 + at)
            })
            .collect();
        let received = world.all_to_all(&send)?;
        let expected = world.ranks().flat_map(|from| {
            (0..len as u64).map(move |at| u64::from(from.0) * 1_000_000 + me * 100_000 + at)
        });
        ensure(received.into_iter().eq(expected), || format!("{len} elements to each"))?;
    }
    ensure(
        world.size() == 1 || world.all_to_all(&vec![0u8; world.size() as usize + 1]).is_err(),
        || "an uneven deal".into(),
    )
}

pub(crate) fn collectives_in_a_row_do_not_mix(world: World) -> Result<()> {
    collectives_in_a_row(&world, 60)
}

/// Collectives with no barrier between them, by ranks that are slow in turns.
fn collectives_in_a_row(world: &World, rounds: u32) -> Result<()> {
    let me = world.rank().0;
    for round in 0..rounds {
        if round % world.size() == me {
            std::thread::yield_now();
        }
        let root = Rank(round % world.size());
        let mut data = [round * 100 + me; 5];
        world.broadcast(root, &mut data)?;
        ensure_eq(data, [round * 100 + root.0; 5], "broadcast")?;
        let mut sum = [round + me];
        world.all_reduce(&mut sum, |a, b| a + b)?;
        let n = world.size();
        ensure_eq(sum[0], n * round + n * (n - 1) / 2, "all_reduce")?;
        let all = world.all_gather(&[round * me])?;
        ensure(all.into_iter().eq((0..n).map(|rank| round * rank)), || {
            format!("all_gather of round {round}")
        })?;
        let mut product = [1 + u64::from(me)];
        world.reduce(root, &mut product, |a, b| a * b)?;
        ensure(world.rank() != root || product[0] == (1..=u64::from(n)).product(), || {
            format!("reduce of round {round}")
        })?;
    }
    Ok(())
}

/// Collectives, meetings and messages are numbered in 32 bits.
pub(crate) fn collectives_go_on_past_the_end_of_their_numbers(world: World) -> Result<()> {
    for before in [9, 10] {
        world.renumber_collectives(u32::MAX - before)?;
        collectives_in_a_row(&world, 12)?;
        for round in 0..12u32 {
            let mut data = [round + world.rank().0; 5000];
            world.broadcast(Rank(round % world.size()), &mut data)?;
            world.barrier()?;
            ensure_eq(data[4999], round + round % world.size(), "broadcast")?;
        }
    }
    let words = world.words(3)?;
    words.free(&world)
}

pub(crate) fn empty_collectives_are_fine(world: World) -> Result<()> {
    let mut nothing: [u64; 0] = [];
    world.broadcast(Rank(0), &mut nothing)?;
    world.reduce(Rank(0), &mut nothing, |a, _| a)?;
    world.all_reduce(&mut nothing, |a, _| a)?;
    ensure_eq(world.all_gather(&nothing)?.len(), 0, "gathered")?;
    ensure_eq(world.all_to_all(&nothing)?.len(), 0, "exchanged")
}

pub(crate) fn sync_completes_puts(world: World) -> Result<()> {
    let window = world.window::<u32>(world.size() as usize)?;
    for round in 1..=100 {
        for peer in world.ranks() {
            world.put(&[round], window.at(peer, world.rank().index()))?;
        }
        world.sync()?;
        ensure_eq(window.own().to_vec()?, vec![round; world.size() as usize], "puts of all ranks")?;
        world.sync()?;
    }
    window.free(&world)
}

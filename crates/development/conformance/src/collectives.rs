//! Barrier, broadcast, reductions and the rest.

use farside::{BarrierKind, Error, Rank, Result, SyncKind, World};

use crate::{ensure, ensure_eq};

/// Lengths around the edges of what a step, or one message, holds, and from where on work is shared
/// or memory exposed.
const LENGTHS: [usize; 9] = [1, 3, 100, 511, 513, 4095, 4097, 32_768, 33_001];

pub(crate) fn barriers_in_a_row_separate(world: &World) -> Result<()> {
    // Everybody counts up; after the barrier everybody sees all, and nobody sees the next round.
    let words = world.words(2)?;
    let n = u64::from(world.size());
    for round in 1..=300u32 {
        world.fetch_add(words.at(Rank(0), (round % 2) as usize), 1)?;
        world.barrier()?;
        let seen = world.load(words.at(Rank(0), (round % 2) as usize))?;
        ensure_eq(seen, n * u64::from(round).div_ceil(2), "arrivals after the barrier")?;
    }
    words.free(world)
}

pub(crate) fn barriers_and_broadcasts_alternate(world: &World) -> Result<()> {
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

pub(crate) fn broadcast_from_every_root(world: &World) -> Result<()> {
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

pub(crate) fn reduce_to_every_root(world: &World) -> Result<()> {
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

pub(crate) fn all_reduce_gives_all_the_same_bits(world: &World) -> Result<()> {
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

pub(crate) fn all_gather_keeps_the_order(world: &World) -> Result<()> {
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

pub(crate) fn all_to_all_transposes(world: &World) -> Result<()> {
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

pub(crate) fn collectives_in_a_row_do_not_mix(world: &World) -> Result<()> {
    collectives_in_a_row(world, 60)
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
pub(crate) fn collectives_go_on_past_the_end_of_their_numbers(world: &World) -> Result<()> {
    for before in [9, 10] {
        world.renumber_collectives(u32::MAX - before)?;
        collectives_in_a_row(world, 12)?;
        for round in 0..12u32 {
            let mut data = [round + world.rank().0; 5000];
            world.broadcast(Rank(round % world.size()), &mut data)?;
            world.barrier()?;
            ensure_eq(data[4999], round + round % world.size(), "broadcast")?;
        }
    }
    let words = world.words(3)?;
    words.free(world)
}

pub(crate) fn empty_collectives_are_fine(world: &World) -> Result<()> {
    let mut nothing: [u64; 0] = [];
    world.broadcast(Rank(0), &mut nothing)?;
    world.reduce(Rank(0), &mut nothing, |a, _| a)?;
    world.all_reduce(&mut nothing, |a, _| a)?;
    ensure_eq(world.all_gather(&nothing)?.len(), 0, "gathered")?;
    ensure_eq(world.all_to_all(&nothing)?.len(), 0, "exchanged")
}

pub(crate) fn sync_completes_puts(world: &World) -> Result<()> {
    let window = world.window::<u32>(world.size() as usize)?;
    for round in 1..=100 {
        for peer in world.ranks() {
            world.put(&[round], window.at(peer, world.rank().index()))?;
        }
        world.sync()?;
        ensure_eq(window.own().to_vec()?, vec![round; world.size() as usize], "puts of all ranks")?;
        world.sync()?;
    }
    window.free(world)
}

/// After a sync, each rank finds what each has put to each, whichever way they have chosen.
pub(crate) fn sync_is_seen_by_all(world: &World) -> Result<()> {
    let (me, n) = (world.rank(), world.size() as usize);
    let window = world.window::<u64>(n)?;
    for round in 1..=30u64 {
        // Sometimes few ranks put, sometimes none.
        let puts = |rank: Rank| (u64::from(rank.0) + round) % 3 != 0 && round % 7 != 0;
        for peer in world.ranks().filter(|_| puts(me)) {
            world.put(&[round], window.at(peer, me.index()))?;
        }
        let ways = SyncKind::ALL;
        world.sync_by(ways[(round as usize + me.index()) % ways.len()])?;
        for peer in world.ranks() {
            let mut seen = vec![0; n];
            world.get(window.at(peer, 0), &mut seen)?;
            for from in world.ranks().filter(|&from| puts(from)) {
                ensure_eq(seen[from.index()], round, "what was put before a sync")?;
            }
        }
        world.barrier()?;
    }
    window.free(world)
}

pub(crate) fn barriers_of_every_kind_alternate(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let n = u64::from(world.size());
    for round in 1..=100u64 {
        world.fetch_add(words.at(Rank(0), 0), 1)?;
        // Every order of two kinds comes up.
        let kinds = BarrierKind::ALL;
        world.barrier_by(kinds[(round * (1 + round / 4)) as usize % kinds.len()])?;
        let seen = world.load(words.at(Rank(0), 0))?;
        ensure(seen >= n * round && seen <= n * (round + 1), || {
            format!("{seen} arrivals after barrier {round}")
        })?;
    }
    words.free(world)
}

pub(crate) fn a_sync_and_a_barrier_are_a_disagreement(world: &World) -> Result<()> {
    world.sync()?;
    let outcome = if world.rank() == Rank(0) { world.sync() } else { world.barrier() };
    if world.size() == 1 {
        return outcome;
    }
    ensure(matches!(outcome, Err(Error::Disagreement { .. })), || format!("{outcome:?}"))
}

/// Composes two linear functions, which is associative, and depends on the order.
fn compose(f: [u64; 2], g: [u64; 2]) -> [u64; 2] {
    [f[0].wrapping_mul(g[0]), g[0].wrapping_mul(f[1]).wrapping_add(g[1])]
}

pub(crate) fn reductions_keep_the_order(world: &World) -> Result<()> {
    let of = |rank: u64, at: usize| [2 * rank + 3, 5 * at as u64 + rank];
    for len in LENGTHS {
        let mine: Vec<[u64; 2]> = (0..len).map(|at| of(world.rank().0.into(), at)).collect();
        let is_right = |data: &[[u64; 2]]| {
            let folded = |at| (0..world.size()).map(|rank| of(rank.into(), at)).reduce(compose);
            data.iter().enumerate().all(|(at, &seen)| folded(at) == Some(seen))
        };
        let mut data = mine.clone();
        world.all_reduce(&mut data, compose)?;
        ensure(is_right(&data), || format!("all_reduce of {len} elements"))?;
        for root in world.ranks() {
            let mut data = mine.clone();
            world.reduce(root, &mut data, compose)?;
            ensure(world.rank() != root || is_right(&data), || {
                format!("reduce of {len} elements to {root}")
            })?;
        }
    }
    let mine = [of(world.rank().0.into(), 0)];
    let expected = (0..world.size()).map(|rank| of(rank.into(), 0)).reduce(compose);
    ensure_eq(world.all_reduce_nb(&mine, compose)?.wait()?.first().copied(), expected, "nb")
}

/// A handle that is kept has its result, however many others have come and gone.
pub(crate) fn kept_handles_keep_their_results(world: &World) -> Result<()> {
    let (me, n) = (u64::from(world.rank().0), u64::from(world.size()));
    let first = world.all_reduce_nb(&[me, 1], |a, b| a + b)?;
    let mut separated = world.barrier_nb()?;
    for round in 0..20 {
        ensure_eq(world.all_reduce_nb(&[round], u64::max)?.wait()?, vec![round], "another")?;
    }
    ensure(separated.test()?, || "a barrier that all have come to is not over".into())?;
    separated.wait()?;
    ensure_eq(first.wait()?, vec![n * (n - 1) / 2, n], "the first")
}

pub(crate) fn a_team_is_freed_after_its_words(world: &World) -> Result<()> {
    let team = world.split(Some(0), 0)?.expect("everybody has a colour");
    let words = team.words(3)?;
    let says = team.free().err().map(|error| error.to_string()).unwrap_or_default();
    drop(words);
    ensure(says.contains("3 words"), || format!("a team whose words are used: {says:?}"))
}

pub(crate) fn scans_keep_the_order(world: &World) -> Result<()> {
    let me = u64::from(world.rank().0);
    for len in LENGTHS {
        let of = |rank: u64, at: usize| [2 * rank + 3, 5 * at as u64 + rank];
        let mine: Vec<[u64; 2]> = (0..len).map(|at| of(me, at)).collect();
        let folded = |ranks: u64, at: usize| {
            (0..ranks).map(|rank| of(rank, at)).reduce(compose).unwrap_or([1, 0])
        };
        let mut data = mine.clone();
        world.scan(&mut data, compose)?;
        ensure(data.iter().enumerate().all(|(at, &seen)| seen == folded(me + 1, at)), || {
            format!("scan of {len} elements")
        })?;
        let mut data = mine;
        world.exclusive_scan(&mut data, [1, 0], compose)?;
        ensure(data.iter().enumerate().all(|(at, &seen)| seen == folded(me, at)), || {
            format!("exclusive scan of {len} elements")
        })?;
    }
    let team = world.split(Some(me % 2), 0)?.expect("everybody has a colour");
    let mut data = [1u32];
    team.scan(&mut data, |a, b| a + b)?;
    ensure_eq(data[0] as usize, team.index() + 1, "a scan in a team")?;
    team.free()
}

pub(crate) fn all_to_all_v_deals_unequal_parts(world: &World) -> Result<()> {
    let (me, n) = (world.rank().0, world.size());
    // From nothing to what does not fit into one message, or into the scratch space.
    for scale in [0, 1, 40, 1500] {
        let len = |from: u32, to: u32| ((from * 7 + to * 3) % 5 * scale) as usize;
        let value = |from: u32, to: u32| u64::from(from * 1000 + to);
        let parts: Vec<Vec<u64>> = (0..n).map(|to| vec![value(me, to); len(me, to)]).collect();
        let borrowed: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
        let received = world.all_to_all_v(&borrowed)?;
        let expected: Vec<Vec<u64>> =
            (0..n).map(|from| vec![value(from, me); len(from, me)]).collect();
        ensure(received == expected, || format!("parts of up to {} elements", 4 * scale))?;
        let counts: Vec<usize> = (0..n).map(|to| len(me, to)).collect();
        let (mut receive, mut received) = (vec![77; 3], vec![0; n as usize]);
        world.all_to_all_v_into(&parts.concat(), &counts, &mut receive, &mut received)?;
        ensure(receive == expected.concat(), || "one after the other".into())?;
        ensure(received.iter().zip(&expected).all(|(&len, part)| len == part.len()), || {
            format!("{received:?} elements")
        })?;
    }
    let uneven = world.all_to_all_v_into(&[1, 2], &vec![3; n as usize], &mut vec![], &mut []);
    ensure(matches!(uneven, Err(Error::InvalidArgument(_))), || format!("{uneven:?}"))
}

pub(crate) fn collectives_fill_buffers(world: &World) -> Result<()> {
    let (me, n) = (world.rank().0, world.size() as usize);
    for len in LENGTHS {
        let mut all = vec![0; n * len];
        world.all_gather_into(&vec![me; len], &mut all)?;
        ensure(all.chunks_exact(len).zip(0..).all(|(part, rank)| part == vec![rank; len]), || {
            format!("gathered {len}")
        })?;
        let send: Vec<u32> = (0..n as u32).flat_map(|to| vec![me * 100 + to; len]).collect();
        world.all_to_all_into(&send, &mut all)?;
        let expected = (0..n as u32).flat_map(|from| vec![from * 100 + me; len]);
        ensure(all.into_iter().eq(expected), || format!("exchanged {len}"))?;
    }
    let short = world.all_gather_into(&[me; 2], &mut vec![0; 2 * n + 1]);
    ensure(matches!(short, Err(Error::InvalidArgument(_))), || format!("{short:?}"))?;
    let short = world.all_to_all_into(&vec![me; n], &mut vec![0; n + 1]);
    ensure(matches!(short, Err(Error::InvalidArgument(_))), || format!("{short:?}"))
}

pub(crate) fn usual_folds_of_all_numbers(world: &World) -> Result<()> {
    let (me, n) = (world.rank().0, world.size());
    let mut sum = [u64::MAX, me.into()];
    world.all_sum(&mut sum)?;
    let wrapped = 0u64.wrapping_sub(n.into());
    ensure_eq(sum, [wrapped, u64::from(n * (n - 1) / 2)], "a sum of u64")?;
    let mut least = [10 + me, 100 - me];
    world.all_min(&mut least)?;
    ensure_eq(least, [10, 101 - n], "the least of u32")?;
    let mut greatest = [f64::from(me), -f64::from(me), f64::NAN];
    world.all_max(&mut greatest[..2])?;
    ensure_eq(greatest[..2].to_vec(), vec![f64::from(n - 1), 0.0], "the greatest of f64")?;
    // Sums of unsigned numbers at a place, too.
    let (wide, narrow) = (world.window::<u64>(1)?, world.window::<u32>(1)?);
    world.accumulate(3, &[u64::MAX], wide.at(Rank(0), 0))?;
    world.accumulate(2, &[u32::from(me == 0)], narrow.at(Rank(0), 0))?;
    world.sync()?;
    let place = world.get_value(wide.at(Rank(0), 0))?;
    ensure_eq(place, 0u64.wrapping_sub(3 * u64::from(n)), "accumulated u64")?;
    ensure_eq(world.get_value(narrow.at(Rank(0), 0))?, 2, "accumulated u32")?;
    narrow.free(world)?;
    wide.free(world)
}

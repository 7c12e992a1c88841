//! Atomics, of every width.

use farside::fabric::Atomic;
use farside::{AtomicWord, Context, Pair, Place, Rank, Result, Window, World};

use crate::{Numbers, ensure, ensure_eq};

pub(crate) fn every_atomic_means_what_the_reference_says(world: &World) -> Result<()> {
    // Every rank works on words of its own, at another rank.
    let peer = Rank((world.rank().0 + 1) % world.size());
    let mut numbers = Numbers::new(99 + u64::from(world.rank().0));
    let (narrow, wide) = (world.window::<i32>(2)?, world.window::<u64>(2)?);
    for _ in 0..200 {
        let (a, b) = (numbers.next() as i32, numbers.next() as i32 % 2);
        step(world, narrow.at(peer, 1), a)?;
        step(world, narrow.at(peer, 1), b)?;
        let (a, b) = (numbers.next(), numbers.next() % 2);
        step(world, wide.at(peer, 1), a)?;
        step(world, wide.at(peer, 1), b)?;
    }
    world.sync()?;
    narrow.free(world)?;
    wide.free(world)
}

fn step<I: farside::Integer + PartialEq + std::fmt::Debug>(
    world: &World,
    at: Place<'_, I>,
    value: I,
) -> Result<()> {
    let held = world.load(at)?;
    type Case<'a, I> = (Atomic, &'a dyn Fn(&Context) -> Result<I>);
    let bits = value.to_bits();
    let cases: [Case<'_, I>; 7] = [
        (Atomic::Add(bits), &|world| world.fetch_add(at, value)),
        (Atomic::And(bits), &|world| world.fetch_and(at, value)),
        (Atomic::Or(bits), &|world| world.fetch_or(at, value)),
        (Atomic::Xor(bits), &|world| world.fetch_xor(at, value)),
        (Atomic::Swap(bits), &|world| world.swap(at, value)),
        (Atomic::CompareSwap { expected: bits, desired: held.to_bits() }, &|world| {
            world.compare_swap(at, value, held)
        }),
        (Atomic::CompareSwap { expected: bits, desired: 7 }, &|world| {
            world.compare_swap(at, value, I::from_bits(7))
        }),
    ];
    let mut model = held.to_bits();
    for (op, run) in cases {
        ensure_eq(run(world)?.to_bits(), model, op.name())?;
        model = op.apply(I::WIDTH, model);
        ensure_eq(world.load(at)?.to_bits(), model, op.name())?;
    }
    type Posted<'a> = (Atomic, &'a dyn Fn(&Context) -> Result<()>);
    let posted: [Posted<'_>; 4] = [
        (Atomic::Add(bits), &|world| world.add(at, value)),
        (Atomic::Or(bits), &|world| world.or(at, value)),
        (Atomic::Xor(bits), &|world| world.xor(at, value)),
        (Atomic::And(bits), &|world| world.and(at, value)),
    ];
    for (op, run) in posted {
        run(world)?;
        world.flush(at.rank())?;
        model = op.apply(I::WIDTH, model);
        ensure_eq(world.load(at)?.to_bits(), model, op.name())?;
    }
    world.store(at, value)?;
    ensure_eq(world.load(at)?, value, "store")?;
    world.signal(at, held)?;
    world.flush(at.rank())?;
    ensure_eq(world.load(at)?, held, "signal")
}

pub(crate) fn tickets_are_unique(world: &World) -> Result<()> {
    const EACH: usize = 1000;
    let counter = world.window::<u64>(1)?;
    let mine: Vec<u64> =
        (0..EACH).map(|_| world.fetch_add(counter.at(Rank(0), 0), 1)).collect::<Result<_>>()?;
    ensure(mine.is_sorted(), || "tickets of one rank grow".into())?;
    let mut all = world.all_gather(&mine)?;
    all.sort_unstable();
    ensure(all.into_iter().eq(0..EACH as u64 * u64::from(world.size())), || {
        "tickets are not unique".into()
    })?;
    counter.free(world)
}

pub(crate) fn swaps_lose_nothing(world: &World) -> Result<()> {
    // Everybody passes tokens through one word: what came out, and what is left, is what went in.
    let slot = world.window::<u64>(1)?;
    let me = u64::from(world.rank().0);
    let mut sum = 0u64;
    for round in 1..=500 {
        sum = sum.wrapping_add(world.swap(slot.at(Rank(0), 0), round * 1000 + me)?);
    }
    world.sync()?;
    let mut total = [sum];
    world.all_reduce(&mut total, |a, b| a.wrapping_add(b))?;
    let left = world.load(slot.at(Rank(0), 0))?;
    let put_in: u64 = (0..u64::from(world.size()))
        .map(|rank| (1..=500).map(|round| round * 1000 + rank).sum::<u64>())
        .sum();
    ensure_eq(total[0] + left, put_in, "tokens")?;
    world.sync()?;
    slot.free(world)
}

fn count_up<C: AtomicWord + PartialEq>(
    world: &Context,
    window: &Window<C>,
    times: usize,
    next: impl Fn(C) -> C,
) -> Result<()> {
    let at = window.at(Rank(0), 0);
    for _ in 0..times {
        let mut seen = world.load(at)?;
        loop {
            let held = world.compare_swap(at, seen, next(seen))?;
            if held == seen {
                break;
            }
            seen = held;
            world.relax()?;
        }
    }
    Ok(())
}

pub(crate) fn compare_swap_counts(world: &World) -> Result<()> {
    let (wide, narrow) = (world.window::<i64>(1)?, world.window::<u32>(1)?);
    count_up(world, &wide, 300, |value| value - 1)?;
    count_up(world, &narrow, 300, |value| value + 1)?;
    world.sync()?;
    ensure_eq(world.load(wide.at(Rank(0), 0))?, -300 * i64::from(world.size()), "64 bits")?;
    ensure_eq(world.load(narrow.at(Rank(0), 0))?, 300 * world.size(), "32 bits")?;
    world.sync()?;
    wide.free(world)?;
    narrow.free(world)
}

pub(crate) fn pairs_change_together(world: &World) -> Result<()> {
    let window = world.window::<Pair>(2)?;
    count_up(world, &window, 300, |Pair(a, b)| Pair(a + 1, b + 2))?;
    // Meanwhile nobody ever sees halves of different pairs.
    let Pair(a, b) = world.load(window.at(Rank(0), 0))?;
    ensure_eq(b, 2 * a, "the halves of a pair")?;
    world.sync()?;
    let n = u64::from(world.size());
    ensure_eq(
        world.load(window.at(Rank(0), 0))?,
        Pair(300 * n, 600 * n),
        "a pair that was counted up",
    )?;
    let held = world.swap(window.at(Rank(0), 1), Pair(u64::MAX, world.rank().0.into()))?;
    ensure(held == Pair(0, 0) || held.0 == u64::MAX, || format!("swap gave {held:?}"))?;
    world.sync()?;
    window.free(world)
}

pub(crate) fn narrow_words_do_not_touch_their_neighbours(world: &World) -> Result<()> {
    let window = world.window::<u32>(64)?;
    let me = world.rank().index();
    for _ in 0..1000 {
        world.fetch_add(window.at(Rank(0), me), u32::MAX)?;
    }
    world.sync()?;
    let mut all = [0; 64];
    world.get(window.at(Rank(0), 0), &mut all)?;
    for (index, value) in all.into_iter().enumerate() {
        let expected = if index < world.size() as usize { 1000u32.wrapping_neg() } else { 0 };
        ensure_eq(value, expected, "a narrow word")?;
    }
    world.sync()?;
    window.free(world)
}

pub(crate) fn bits_are_set_once(world: &World) -> Result<()> {
    let window = world.window::<u64>(1)?;
    let mine: Vec<u32> = (0..64).filter(|bit| bit % world.size() == world.rank().0).collect();
    for bit in mine {
        let held = world.fetch_or(window.at(Rank(0), 0), 1 << bit)?;
        ensure_eq(held & (1 << bit), 0, "a bit that only this rank sets")?;
    }
    world.sync()?;
    ensure_eq(world.load(window.at(Rank(0), 0))?, u64::MAX, "all bits together")?;
    world.sync()?;
    window.free(world)
}

pub(crate) fn atomics_can_be_started(world: &World) -> Result<()> {
    let window = world.window::<u64>(3)?;
    let add = world.fetch_add_nb(window.at(Rank(0), 0), 1)?;
    let swap = world.swap_nb(window.at(Rank(0), 1), 5)?;
    let compare = world.compare_swap_nb(window.at(Rank(0), 2), 0, 9)?;
    let (added, swapped, compared) = (add.wait()?, swap.wait()?, compare.wait()?);
    ensure(added < u64::from(world.size()), || format!("fetch_add_nb gave {added}"))?;
    ensure([0, 5].contains(&swapped) && [0, 9].contains(&compared), || {
        format!("{swapped}, {compared}")
    })?;
    world.sync()?;
    ensure_eq(world.load(window.at(Rank(0), 0))?, world.size().into(), "a counter")?;
    world.sync()?;
    window.free(world)
}

pub(crate) fn posted_atomics_lose_nothing(world: &World) -> Result<()> {
    // All ranks update the words of all, and nothing but the sync completes that.
    const EACH: u32 = 100;
    let (narrow, wide) = (world.window::<u32>(3)?, world.window::<i64>(2)?);
    let (me, n) = (world.rank().0, world.size());
    for peer in world.ranks() {
        for _ in 0..EACH {
            world.add(narrow.at(peer, 1), 3)?;
            world.add(wide.at(peer, 0), -1)?;
            world.xor(wide.at(peer, 1), 1 << me)?;
        }
        world.or(narrow.at(peer, 2), 1 << me)?;
    }
    world.sync()?;
    let (narrow_now, wide_now) = (narrow.own().to_vec()?, wide.own().to_vec()?);
    ensure_eq(narrow_now, vec![0, 3 * EACH * n, (1 << n) - 1], "additions and bits")?;
    ensure_eq(wide_now, vec![-i64::from(EACH * n), 0], "subtractions and flipped bits")?;
    world.sync()?;
    // A fetching atomic of another rank is atomic with a posted one.
    let next = Rank((me + 1) % n);
    for _ in 0..EACH {
        world.add(narrow.at(Rank(0), 0), 1)?;
        world.fetch_add(narrow.at(Rank(0), 0), 1)?;
        world.and(narrow.at(next, 2), !1)?;
    }
    world.flush_all()?;
    world.barrier()?;
    ensure_eq(world.load(narrow.at(Rank(0), 0))?, 2 * EACH * n, "posted and fetching additions")?;
    ensure_eq(world.load(narrow.at(next, 2))?, (1 << n) - 2, "a bit that was taken out")?;
    let beyond = world.add(narrow.at(next, 3), 1);
    ensure(matches!(beyond, Err(farside::Error::OutOfBounds { .. })), || format!("{beyond:?}"))?;
    world.sync()?;
    narrow.free(world)?;
    wide.free(world)
}

pub(crate) fn contexts_are_contenders(world: &World) -> Result<()> {
    const THREADS: usize = 3;
    const EACH: u64 = 2000;
    let window = world.window::<u64>(1 + THREADS)?;
    std::thread::scope(|threads| -> Result<()> {
        let mut handles = Vec::new();
        for thread in 1..=THREADS {
            let (context, window) = (world.context()?, &window);
            handles.push(threads.spawn(move || {
                for _ in 0..EACH {
                    context.fetch_add(window.at(Rank(0), 0), 1)?;
                }
                context.put(&[1], window.at(context.rank(), thread))?;
                context.flush(context.rank())?;
                Ok(context.counters().peer(Rank(0)).atomics)
            }));
        }
        for handle in handles {
            let counted: Result<u64> = handle.join().expect("the thread does not panic");
            ensure_eq(counted?, EACH, "atomics that a context counted for itself")?;
        }
        Ok(())
    })?;
    world.sync()?;
    let expected = EACH * THREADS as u64 * u64::from(world.size());
    ensure_eq(world.load(window.at(Rank(0), 0))?, expected, "a counter of all threads")?;
    for thread in 1..=THREADS {
        ensure_eq(window.own().get(thread)?, 1, "a put of a thread")?;
    }
    world.sync()?;
    window.free(world)
}

//! Put, get, accumulate: contiguous, strided, in pieces, overlapped.

use farside::{Complex, Patch, Rank, Result, Run, Summand, World};

pub(crate) use crate::accumulates::{
    accumulates_fetch_in_every_shape, accumulates_of_all_ranks_meet,
    accumulates_that_make_no_sense_are_refused, every_accumulate_means_what_the_reference_says,
    every_value_is_fetched_once, what_an_accumulate_fetched_has_landed,
};
use crate::{Numbers, ensure, ensure_eq};

const SIZES: [usize; 16] =
    [0, 1, 2, 3, 7, 8, 9, 31, 64, 255, 256, 257, 1000, 4096, 70_001, 1 << 20];

fn right(world: &World) -> Rank {
    Rank((world.rank().0 + 1) % world.size())
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

pub(crate) fn put_and_get_round_trip(world: &World) -> Result<()> {
    let window = world.window::<u8>((1 << 20) + 16)?;
    let me = world.rank().0 as u8;
    for (round, size) in SIZES.into_iter().enumerate() {
        // Odd offsets, too.
        let offset = round % 5;
        world.put(&pattern(me, size), window.at(right(world), offset))?;
        world.sync()?;
        for peer in world.ranks() {
            let writer = (peer.0 + world.size() - 1) % world.size();
            let mut got = vec![0; size];
            world.get(window.at(peer, offset), &mut got)?;
            ensure(got == pattern(writer as u8, size), || {
                format!("{size} bytes at {offset} of {peer}")
            })?;
        }
        world.sync()?;
    }
    window.free(world)
}

pub(crate) fn neighbours_stay_untouched(world: &World) -> Result<()> {
    let window = world.window::<u8>(2000)?;
    for (round, size) in SIZES.into_iter().filter(|&size| size <= 1000).enumerate() {
        window.own().write(0, &[0xAA; 2000])?;
        world.sync()?;
        let offset = 300 + round;
        world.put(&vec![0x55; size], window.at(right(world), offset))?;
        world.sync()?;
        let mine = window.own().to_vec()?;
        let as_expected = |(at, &byte): (usize, &u8)| {
            byte == if (offset..offset + size).contains(&at) { 0x55 } else { 0xAA }
        };
        ensure(mine.iter().enumerate().all(as_expected), || {
            format!("a put of {size} bytes at {offset}")
        })?;
        world.sync()?;
    }
    window.free(world)
}

pub(crate) fn transfers_overlap_in_a_scope(world: &World) -> Result<()> {
    let window = world.window::<u32>(3000)?;
    let mine: Vec<u32> = (0..3000).map(|at| at + world.rank().0 * 10_000).collect();
    let peer = right(world);
    world.scope(|scope| {
        let first = scope.put_nb(&mine[..1000], window.at(peer, 0))?;
        let second = scope.put_nb(&mine[1000..], window.at(peer, 1000))?;
        second.wait()?;
        first.wait().map(|_| ())
    })?;
    world.sync()?;
    let mut there = [vec![0; 1500], vec![0; 1500]];
    let sum = world.scope(|scope| {
        let [low, high] = &mut there;
        // One is waited for here, the other at the end of the scope.
        let _later = scope.get_nb(window.at(peer, 1500), high)?;
        Ok(scope
            .get_nb(window.at(peer, 0), low)?
            .wait()?
            .iter()
            .map(|&value| u64::from(value))
            .sum::<u64>())
    })?;
    ensure_eq(
        sum,
        mine[..1500].iter().map(|&value| u64::from(value)).sum(),
        "what was waited for",
    )?;
    ensure(there.concat() == mine, || "what was gotten in two halves".into())?;
    world.sync()?;
    window.free(world)
}

pub(crate) fn transfers_own_their_data(world: &World) -> Result<()> {
    const LEN: usize = 70_000;
    let window = world.window::<u32>(2 * LEN)?;
    let (peer, mark) = (right(world), world.rank().0 * 1_000_000);
    let values = |from: u32| (0..LEN as u32).map(move |at| mark + from + at).collect::<Vec<u32>>();
    // One is waited for, and its data changed as soon as it is back; one is given up, which does
    // not take it back.
    let waited = world.put_nb(values(0), window.at(peer, 0))?;
    let given_up = world.put_nb(values(500_000), window.at(peer, LEN))?;
    drop(given_up);
    let mut back = waited.wait()?;
    ensure(back == values(0), || "what was written came back changed".into())?;
    back.fill(u32::MAX);
    let first = world.get_nb(window.at(peer, 0), LEN)?;
    let second = world.get_nb(window.at(peer, LEN), LEN)?;
    drop(second);
    drop(first);
    world.sync()?;
    let all = world.get_nb(window.at(peer, 0), 2 * LEN)?.wait()?;
    ensure(all == [values(0), values(500_000)].concat(), || {
        "what was written is not there".into()
    })?;
    world.sync()?;
    window.free(world)
}

/// A random block that fits into `len` elements on both sides.
fn random_patch(numbers: &mut Numbers, len: usize) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let dimensions = numbers.below(5);
    loop {
        let counts: Vec<usize> = (0..dimensions).map(|_| numbers.below(6)).collect();
        // Strides that nest, with gaps, so that no two elements are the same.
        let mut strides = || {
            let mut step = 1 + numbers.below(3);
            let mut strides = vec![0; dimensions];
            for (stride, count) in strides.iter_mut().zip(&counts).rev() {
                *stride = step;
                step = step * (*count).max(1) + numbers.below(3);
            }
            strides
        };
        let (near, far) = (strides(), strides());
        let extent = |strides: &[usize]| {
            counts
                .iter()
                .zip(strides)
                .map(|(count, stride)| count.saturating_sub(1) * stride)
                .sum::<usize>()
                + 1
        };
        if extent(&near) <= len && extent(&far) <= len {
            return (counts, near, far);
        }
    }
}

/// The reference: pairs of near and far elements, one by one.
fn elements(counts: &[usize], near: &[usize], far: &[usize]) -> Vec<(usize, usize)> {
    let mut all = vec![(0, 0)];
    for ((&count, &near), &far) in counts.iter().zip(near).zip(far) {
        all = all
            .iter()
            .flat_map(|&(n, f)| (0..count).map(move |i| (n + i * near, f + i * far)))
            .collect();
    }
    all
}

pub(crate) fn strided_matches_the_reference(world: &World) -> Result<()> {
    const LEN: usize = 4000;
    let window = world.window::<i64>(LEN + 10)?;
    let peer = right(world);
    let left = Rank((world.rank().0 + world.size() - 1) % world.size());
    let mut numbers = Numbers::new(42);
    for round in 0..40 {
        let (counts, near, far) = random_patch(&mut numbers, LEN);
        let patch = Patch { counts: &counts, near: &near, far: &far };
        let start = numbers.below(10);
        let data = |rank: Rank| -> Vec<i64> {
            (0..LEN as i64).map(|at| at * 100 + i64::from(rank.0)).collect()
        };
        let mut expected = vec![0; LEN + 10];
        for (n, f) in elements(&counts, &near, &far) {
            expected[start + f] = data(left)[n] * 3;
        }
        world.put_strided(&data(world.rank()), window.at(peer, start), &patch)?;
        world.fence()?;
        world.accumulate_strided(2, &data(world.rank()), window.at(peer, start), &patch)?;
        world.sync()?;
        ensure(window.own().to_vec()? == expected, || {
            format!("round {round}: put and accumulate of {patch:?}")
        })?;
        let mut back = vec![-1; LEN];
        world.get_strided(window.at(world.rank(), start), &mut back, &patch)?;
        let mut reference = vec![-1; LEN];
        for (n, f) in elements(&counts, &near, &far) {
            reference[n] = expected[start + f];
        }
        ensure(back == reference, || format!("round {round}: get of {patch:?}"))?;
        window.own().write(0, &[0; LEN + 10])?;
        world.sync()?;
    }
    window.free(world)
}

pub(crate) fn vector_matches_the_reference(world: &World) -> Result<()> {
    const LEN: usize = 1000;
    let window = world.window::<f64>(LEN)?;
    let peer = right(world);
    let mut numbers = Numbers::new(7);
    let data: Vec<f64> = (0..LEN).map(|at| at as f64 + 0.5).collect();
    for round in 0..30 {
        // Pieces that do not overlap at the far side.
        let mut runs = Vec::new();
        let mut far = numbers.below(5);
        while far + 40 < LEN - 7 {
            let len = numbers.below(30);
            runs.push(Run { near: numbers.below(LEN - len), far, len });
            far += len + numbers.below(40);
        }
        let mut expected = vec![0.0; LEN];
        for run in &runs {
            for at in 0..run.len {
                expected[7 + run.far + at] = data[run.near + at] * 1.5;
            }
        }
        world.put_vector(&data, window.at(peer, 7), &runs)?;
        world.fence()?;
        world.accumulate_vector(0.5, &data, window.at(peer, 7), &runs)?;
        world.sync()?;
        ensure(window.own().to_vec()? == expected, || {
            format!("round {round}: put and accumulate of pieces")
        })?;
        let mut back = vec![0.0; LEN];
        world.get_vector(window.at(peer, 7), &mut back, &runs)?;
        let last = runs.iter().rev().find(|run| run.len > 0);
        if let Some(run) = last {
            ensure_eq(
                back[run.near],
                expected[7 + run.far],
                "the first element of the last piece",
            )?;
        }
        world.sync()?;
        window.own().write(0, &[0.0; LEN])?;
        world.sync()?;
    }
    window.free(world)
}

pub(crate) fn strided_of_four_dimensions(world: &World) -> Result<()> {
    // A 2 x 3 x 4 x 5 block inside a 6 x 6 x 6 x 6 array, to a tight one.
    let window = world.window::<u16>(6 * 6 * 6 * 6)?;
    let patch = Patch { counts: &[2, 3, 4, 5], near: &[60, 20, 5, 1], far: &[216, 36, 6, 1] };
    let data: Vec<u16> = (1..=120).collect();
    let peer = right(world);
    world.put_strided(&data, window.at(peer, 216 + 36 + 6 + 1), &patch)?;
    world.sync()?;
    let mine = window.own().to_vec()?;
    ensure_eq(mine.iter().filter(|&&value| value != 0).count(), 120, "elements written")?;
    ensure_eq(mine[216 + 36 + 6 + 1 + 216 + 2 * 36 + 3 * 6 + 4], 120, "the last element")?;
    window.free(world)
}

fn accumulate_one<T: Summand + PartialEq + std::fmt::Debug>(
    world: &World,
    scale: T,
    x: T,
    expected: T,
) -> Result<()> {
    let window = world.window::<T>(5)?;
    world.accumulate(scale, &[x, x], window.at(Rank(0), 1))?;
    world.sync()?;
    let got: Vec<T> = {
        let mut all = vec![T::new_zeroed(); 5];
        world.get(window.at(Rank(0), 0), &mut all)?;
        all
    };
    let zero = T::new_zeroed();
    ensure_eq(got, vec![zero, expected, expected, zero, zero], "a sum")?;
    world.sync()?;
    window.free(world)
}

pub(crate) fn accumulate_scales_every_number(world: &World) -> Result<()> {
    let n = world.size() as i32;
    accumulate_one(world, 3i32, -2, -6 * n)?;
    accumulate_one(world, -3i64, 1 << 40, -3 * (1 << 40) * i64::from(n))?;
    accumulate_one(world, 0.5f32, 3.0, 1.5 * n as f32)?;
    accumulate_one(world, 0.25f64, 3.0, 0.75 * f64::from(n))?;
    let i32_ = |re: f32, im: f32| Complex { re, im };
    let i64_ = |re: f64, im: f64| Complex { re, im };
    // (1 + 2i)(3 - i) = 5 + 5i
    accumulate_one(world, i32_(1.0, 2.0), i32_(3.0, -1.0), i32_(5.0 * n as f32, 5.0 * n as f32))?;
    accumulate_one(
        world,
        i64_(1.0, 2.0),
        i64_(3.0, -1.0),
        i64_(5.0 * f64::from(n), 5.0 * f64::from(n)),
    )
}

pub(crate) fn accumulates_do_not_disturb_each_other(world: &World) -> Result<()> {
    const ROUNDS: usize = 500;
    let (doubles, complex) = (world.window::<f64>(16)?, world.window::<Complex<f32>>(16)?);
    for _ in 0..ROUNDS {
        world.accumulate(1.0, &[1.0; 16], doubles.at(Rank(0), 0))?;
        world.accumulate(
            Complex::<f32>::ONE,
            &[Complex { re: 1.0, im: 2.0 }; 16],
            complex.at(Rank(0), 0),
        )?;
    }
    world.sync()?;
    let expected = ROUNDS as f64 * f64::from(world.size());
    for index in 0..16 {
        ensure_eq(world.get_value(doubles.at(Rank(0), index))?, expected, "a contended sum")?;
        let both = Complex { re: expected as f32, im: 2.0 * expected as f32 };
        ensure_eq(world.get_value(complex.at(Rank(0), index))?, both, "a contended complex sum")?;
    }
    world.sync()?;
    doubles.free(world)?;
    complex.free(world)
}

pub(crate) fn counters_count(world: &World) -> Result<()> {
    let (window, sums) = (world.window::<u64>(100)?, world.window::<i64>(1)?);
    let peer = right(world);
    let before = world.counters().peer(peer);
    world.put(&[0; 10], window.at(peer, 0))?;
    world.get(window.at(peer, 0), &mut [0; 5])?;
    world.fetch_add(window.at(peer, 50), 1)?;
    world.accumulate(1, &[1], sums.at(peer, 0))?;
    let after = world.counters().peer(peer);
    ensure_eq(after.puts - before.puts, 1, "puts")?;
    ensure_eq(after.put_bytes - before.put_bytes, 80, "bytes put")?;
    ensure_eq(after.accumulates - before.accumulates, 1, "accumulates")?;
    ensure(after.gets > before.gets && after.get_bytes >= before.get_bytes + 40, || "gets".into())?;
    ensure(after.atomics > before.atomics, || "atomics".into())?;
    let total = world.counters().total();
    ensure(total.operations() >= after.operations() && total.bytes() >= after.bytes(), || {
        "totals".into()
    })?;
    sums.free(world)?;
    window.free(world)
}

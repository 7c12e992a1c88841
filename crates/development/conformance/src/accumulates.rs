//! Accumulates: every operation of every kind of elements, posted and fetching, in every shape.

use farside::raw::{self, Accumulate, Memory, Number};
use farside::{Complex, Error, Op, Patch, Rank, Result, Run, World};

use crate::{Numbers, ensure, ensure_eq};

/// The bytes of each rank's area in the memory of every other.
const AREA: u64 = 1024;

/// A small value as an element; of pairs and complex numbers, both parts.
fn element(number: Number, value: i8) -> Vec<u8> {
    let float = |value: i8| f32::from(value).to_le_bytes();
    let double = |value: i8| f64::from(value).to_le_bytes();
    let index = i32::from(value & 3).to_le_bytes();
    let padded = |value: &[u8], bytes: usize| {
        let mut pair = value.to_vec();
        pair.resize(bytes - 4, 0);
        pair.extend_from_slice(&index);
        pair
    };
    match number {
        Number::I8 | Number::U8 => value.to_le_bytes().to_vec(),
        Number::I16 | Number::U16 => i16::from(value).to_le_bytes().to_vec(),
        Number::I32 | Number::U32 => i32::from(value).to_le_bytes().to_vec(),
        Number::I64 | Number::U64 => i64::from(value).to_le_bytes().to_vec(),
        Number::F32 => float(value).to_vec(),
        Number::F64 => double(value).to_vec(),
        Number::C32 => [float(value), float(value / 2)].concat(),
        Number::C64 => [double(value), double(value / 2)].concat(),
        Number::I16Index => padded(&i16::from(value).to_le_bytes(), 8),
        Number::I32Index => padded(&i32::from(value).to_le_bytes(), 8),
        Number::F32Index => padded(&float(value), 8),
        Number::I64Index => [padded(&i64::from(value).to_le_bytes(), 12), vec![0; 4]].concat(),
        Number::F64Index => [padded(&double(value), 12), vec![0; 4]].concat(),
    }
}

fn elements(number: Number, count: usize, numbers: &mut Numbers) -> Vec<u8> {
    (0..count).flat_map(|_| element(number, numbers.next() as i8)).collect()
}

/// Every accumulate that there is, and a scaled sum of each kind that has sums.
fn all() -> Vec<Accumulate> {
    let with = |number| Op::ALL.into_iter().flat_map(move |op| Accumulate::new(number, op));
    let scaled = |number| {
        let mut scale = [0; 16];
        let three = element(number, 3);
        scale[..three.len()].copy_from_slice(&three);
        Accumulate::scaled_sum(number, scale)
    };
    Number::ALL.into_iter().flat_map(|number| with(number).chain(scaled(number))).collect()
}

/// What the reference makes of elements.
fn combined(accumulate: &Accumulate, y: &[u8], x: &[u8]) -> Vec<u8> {
    let (size, mut all) = (accumulate.number().bytes() as usize, y.to_vec());
    for (y, x) in all.chunks_exact_mut(size).zip(x.chunks_exact(size)) {
        accumulate.apply(y, x);
    }
    all
}

pub(crate) fn every_accumulate_means_what_the_reference_says(world: &World) -> Result<()> {
    let memory = Memory::allocate(&world.team(), AREA * u64::from(world.size()))?;
    let (me, mut numbers) = (world.rank(), Numbers::new(7 + u64::from(world.rank().0)));
    // Its neighbour and itself: near and far.
    for peer in [Rank((me.0 + 1) % world.size()), me] {
        for (at, accumulate) in all().iter().enumerate() {
            // One element, a few, or more than a vector has.
            let (number, count) = (accumulate.number(), [1, 3, 37][at % 3]);
            let (y, x) =
                (elements(number, count, &mut numbers), elements(number, count, &mut numbers));
            let skipped = number.align() * (at as u64 % 5);
            let place = || memory.at(peer, AREA * u64::from(me.0) + skipped);
            let message = if accumulate.writes() { &x[..] } else { &[] };
            world.put(&y, place())?;
            world.flush(peer)?;
            let once = combined(accumulate, &y, &x);
            let mut old = vec![0xEE; y.len()];
            raw::get_accumulate(world, accumulate, message, place(), &mut old)?;
            ensure(old == y, || format!("{accumulate:?} fetched {old:?} instead of {y:?}"))?;
            raw::accumulate(world, accumulate, message, place())?;
            world.flush(peer)?;
            let (mut held, twice) = (vec![0; y.len()], combined(accumulate, &once, &x));
            world.get(place(), &mut held)?;
            ensure(held == twice, || {
                format!("{accumulate:?} of {y:?} and {x:?}, twice: {held:?} is not {twice:?}")
            })?;
        }
        world.barrier()?;
    }
    memory.free(world)
}

pub(crate) fn accumulates_of_all_ranks_meet(world: &World) -> Result<()> {
    let (n, me) = (world.size(), world.rank().0);
    let (small, wide) = (world.window::<u16>(8)?, world.window::<f64>(4)?);
    if me == 0 {
        small.own().write(0, &[500, 500, 0, 0xFFFF, 0, 1, 1, 0])?;
        wide.own().write(0, &[1.0, 0.0, 0.0, 0.0])?;
    }
    world.sync()?;
    let at = |index| small.at(Rank(0), index);
    let bit = 1u16 << (me % 16);
    world.accumulate_with(Op::Min, &[me as u16 + 3], at(0))?;
    world.accumulate_with(Op::Max, &[me as u16 + 600], at(1))?;
    world.accumulate_with(Op::Or, &[bit], at(2))?;
    world.accumulate_with(Op::And, &[!bit], at(3))?;
    world.accumulate_with(Op::Xor, &[bit], at(4))?;
    world.accumulate_with(Op::LogicalAnd, &[me as u16], at(5))?;
    world.accumulate_with(Op::LogicalXor, &[7], at(6))?;
    world.accumulate_with(Op::LogicalOr, &[u16::from(me + 1 == n)], at(7))?;
    world.accumulate_with(Op::Product, &[2.0], wide.at(Rank(0), 0))?;
    world.accumulate_with(Op::Sum, &[0.5], wide.at(Rank(0), 1))?;
    world.accumulate_with(Op::Replace, &[f64::from(me) + 1.0], wide.at(Rank(0), 2))?;
    let none = if me.is_multiple_of(2) { f64::NAN } else { -1.0 };
    world.accumulate_with(Op::Max, &[none], wide.at(Rank(0), 3))?;
    world.sync()?;
    let bits = (0..n).fold(0u16, |bits, rank| bits | 1 << (rank % 16));
    let flips = (0..n).fold(0u16, |bits, rank| bits ^ 1 << (rank % 16));
    let odd = u16::from(n.is_multiple_of(2));
    let expected = [3, n as u16 + 599, bits, !bits, flips, 0, odd, 1];
    let mut held = [0; 8];
    world.get(at(0), &mut held)?;
    ensure_eq(held, expected, "accumulates of all ranks")?;
    ensure_eq(world.get_value(wide.at(Rank(0), 0))?, 2f64.powi(n as i32), "a product")?;
    ensure_eq(world.get_value(wide.at(Rank(0), 1))?, 0.5 * f64::from(n), "a sum")?;
    let replaced = world.get_value(wide.at(Rank(0), 2))?;
    ensure((1..=n).any(|rank| replaced == f64::from(rank)), || format!("replaced: {replaced}"))?;
    ensure_eq(world.get_value(wide.at(Rank(0), 3))?, 0.0, "the greater of a number and a NaN")?;
    world.sync()?;
    small.free(world)?;
    wide.free(world)
}

/// Every value that an element had is fetched once, whatever else is accumulated meanwhile.
pub(crate) fn every_value_is_fetched_once(world: &World) -> Result<()> {
    const ROUNDS: usize = 100;
    let (doubles, bytes) = (world.window::<f64>(700)?, world.window::<i16>(3)?);
    let complex = world.window::<Complex<f64>>(3)?;
    let (mut sums, mut old) = ([0.0; 3], [0.0; 3]);
    for round in 0..ROUNDS {
        world.get_accumulate(Op::Sum, &[1.0; 3], doubles.at(Rank(0), 511), &mut old)?;
        sums[0] += old[1];
        sums[1] += f64::from(world.get_accumulate_value(Op::Sum, 1i16, bytes.at(Rank(0), 1))?);
        let one = Complex { re: 1.0, im: -1.0 };
        let started =
            world.get_accumulate_nb(Op::Sum, &[one], complex.at(Rank(0), 1), vec![one])?;
        // A long one goes in between, to other elements of the same pages.
        if round % 10 == 0 {
            world.accumulate(1.0, &[1.0; 500], doubles.at(Rank(0), 0))?;
        }
        let held = started.wait()?[0];
        ensure(held.re == -held.im, || format!("the parts of {held:?} came apart"))?;
        sums[2] += held.re;
    }
    world.sync()?;
    let total = ROUNDS as f64 * f64::from(world.size());
    world.all_sum(&mut sums)?;
    ensure_eq(sums, [total * (total - 1.0) / 2.0; 3], "the sums of all values that were fetched")?;
    ensure_eq(world.get_value(doubles.at(Rank(0), 512))?, total, "the last value")?;
    ensure_eq(world.get_value(doubles.at(Rank(0), 499))?, total / 10.0, "the last long value")?;
    world.sync()?;
    doubles.free(world)?;
    bytes.free(world)?;
    complex.free(world)
}

pub(crate) fn what_an_accumulate_fetched_has_landed(world: &World) -> Result<()> {
    // Each of two ranks changes its own word and then reads the other's: at least one sees the
    // other (Dekker).
    let words = world.window::<u64>(64)?;
    let home = Rank(2);
    for round in 1..=500 {
        world.barrier()?;
        let mut saw = 1u8;
        if world.rank().0 < 2 {
            let (mine, other) = (32 * world.rank().index(), 32 - 32 * world.rank().index());
            let before = world.get_accumulate_value(Op::Sum, 1, words.at(home, mine))?;
            ensure_eq(before, round - 1, "a word of this rank alone")?;
            saw = u8::from(world.get_value(words.at(home, other))? == round);
        }
        let all = world.all_gather(&[saw])?;
        ensure(all[0] + all[1] > 0, || format!("round {round}: both read too early"))?;
    }
    words.free(world)
}

pub(crate) fn accumulates_fetch_in_every_shape(world: &World) -> Result<()> {
    const LEN: usize = 200_000;
    let window = world.window::<i32>(LEN)?;
    let peer = Rank((world.rank().0 + 1) % world.size());
    // Each rank has the memory of its neighbour to itself.
    let ramp: Vec<i32> = (0..LEN as i32).collect();
    let mut old = vec![-1; LEN];
    world.get_accumulate(Op::Sum, &ramp, window.at(peer, 0), &mut old)?;
    ensure(old.iter().all(|&value| value == 0), || "fresh memory was fetched".into())?;
    world.get_accumulate(Op::NoOp, &[], window.at(peer, 0), &mut old)?;
    ensure(old == ramp, || "a long accumulate was fetched".into())?;

    let patch = Patch { counts: &[3, 2, 4], near: &[20, 5, 1], far: &[1000, 30, 2] };
    let data: Vec<i32> = (0..60).map(|value| value * 1000).collect();
    let mut block = vec![-1; 60];
    world.get_accumulate_strided(Op::Max, &data, window.at(peer, 7), &patch, &mut block)?;
    let mut after = vec![-1; 60];
    world.get_accumulate_strided(Op::NoOp, &[], window.at(peer, 7), &patch, &mut after)?;
    for near in 0..60 {
        let (plane, row, column) = (near / 20, near % 20 / 5, near % 5);
        let (was, is) = if row < 2 && column < 4 {
            let held = (7 + plane * 1000 + row * 30 + column * 2) as i32;
            (held, held.max(near as i32 * 1000))
        } else {
            (-1, -1)
        };
        ensure_eq((block[near], after[near]), (was, is), "an element of a block")?;
    }

    let runs = [(0, 10_000, 5), (9, 10_020, 0), (5, 50_000, 3), (8, 30_000, 2)];
    let runs = runs.map(|(near, far, len)| Run { near, far, len });
    let (ones, mut pieces) = ([1; 10], [-1; 10]);
    world.get_accumulate_vector(Op::Xor, &ones, window.at(peer, 0), &runs, &mut pieces)?;
    let held = [10_000, 10_001, 10_002, 10_003, 10_004, 50_000, 50_001, 50_002, 30_000, 30_001];
    ensure_eq(pieces, held, "pieces")?;
    world.accumulate_vector_with(Op::Xor, &ones, window.at(peer, 0), &runs)?;
    world.flush(peer)?;
    world.get_accumulate_vector(Op::NoOp, &[], window.at(peer, 0), &runs, &mut pieces)?;
    ensure_eq(pieces, held, "pieces that were flipped twice")?;

    let mut nothing: [i32; 0] = [];
    world.get_accumulate(Op::Sum, &[], window.at(peer, LEN), &mut nothing)?;
    world.accumulate_with(Op::Product, &nothing, window.at(peer, LEN))?;
    world.flush(peer)?;
    world.barrier()?;
    window.free(world)
}

pub(crate) fn accumulates_that_make_no_sense_are_refused(world: &World) -> Result<()> {
    let memory = Memory::allocate(&world.team(), 64)?;
    for peer in world.ranks() {
        let sum = Accumulate::new(Number::F64, Op::Sum)?;
        let at = |offset| memory.at(peer, offset);
        let (ones, mut old) = ([1; 24], [0; 24]);
        for (offset, bytes) in [(4, 8), (0, 12), (64, 8), (56, 16), (u64::MAX - 7, 8)] {
            let fetched =
                raw::get_accumulate(world, &sum, &ones[..bytes], at(offset), &mut old[..bytes]);
            let posted = raw::accumulate(world, &sum, &ones[..bytes], at(offset));
            let posted = posted.and_then(|()| world.flush(peer));
            let is_named = |result: &Result<()>| {
                matches!(
                    result,
                    Err(Error::Misaligned { .. } | Error::Mismatch { .. })
                        | Err(Error::OutOfBounds { .. } | Error::OutOfRange { .. })
                )
            };
            ensure(is_named(&fetched) && is_named(&posted), || {
                format!("{bytes} bytes at {offset} of {peer}: {fetched:?}, {posted:?}")
            })?;
        }
        let short = raw::get_accumulate(world, &sum, &ones[..8], at(0), &mut old[..16]);
        ensure(matches!(short, Err(Error::Mismatch { .. })), || format!("{short:?}"))?;
        let runs = [(0, 0, 8), (8, 12, 8)].map(|(near, far, len)| Run { near, far, len });
        let split = raw::accumulate_vector(world, &sum, &ones, at(0), &runs);
        ensure(matches!(split, Err(Error::Misaligned { .. })), || format!("{split:?}"))?;
        let doubles = at(0).cast::<f64>();
        let undefined = world.accumulate_with(Op::And, &[1.0], doubles);
        let named = Err(Error::UndefinedOperation { op: Op::And, number: Number::F64 });
        ensure_eq(undefined, named, "bits of a floating-point number")?;
        let mut held = [1; 64];
        world.get(at(0), &mut held)?;
        ensure(held == [0; 64], || format!("memory of {peer} was changed: {held:?}"))?;
    }
    world.barrier()?;
    memory.free(world)
}

//! What each rank of `farside bench ops` runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use farside::{Patch, Rank, Result, Window, World};

use super::{Plan, Target, row};
use crate::timing::{measure, median};

/// Rank 0 does everything to this rank.
const PEER: Rank = Rank(1);
/// Barriers follow each other: a long batch also makes the skew of the first one vanish.
const BARRIER_BATCH: Duration = Duration::from_millis(2);
/// How many puts come between two flushes when their rate is measured.
const RATE: u64 = 1000;

/// Runs a plan as a rank, and prints its samples.
pub fn run(world: &World, plan: &Plan) -> Result<()> {
    let largest = plan.sizes.iter().copied().max().unwrap_or(8).max(8);
    let window = world.window::<u64>(2 * largest.div_ceil(8) + 64)?;
    let sums = world.window::<f64>(largest.div_ceil(8))?;
    for (case, bytes) in plan.cases() {
        world.barrier()?;
        if case == "barrier" {
            let ns = barrier(world, plan.time)?;
            say(world, plan, &case, bytes, ns);
            continue;
        }
        match world.rank() {
            Rank(0) => {
                let ns = one(world, (&window, &sums), &case, bytes, plan.time)?;
                say(world, plan, &case, bytes, ns);
            }
            PEER if plan.target == Target::Computing => compute(plan.time.mul_f64(1.5) + Duration::from_millis(50)),
            _ => {}
        }
    }
    world.barrier()?;
    sums.free(world)?;
    window.free(world)
}

fn say(world: &World, plan: &Plan, case: &str, bytes: usize, ns: f64) {
    if world.rank() == Rank(0) {
        println!("{}", row(case, bytes, plan.target, ns));
    }
}

/// Arithmetic, and no call of the library.
fn compute(time: Duration) {
    let start = Instant::now();
    let mut x = 1u64;
    while start.elapsed() < time {
        for _ in 0..10_000 {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

type Memory<'a> = (&'a Window<u64>, &'a Window<f64>);

/// One operation, complete at the target each time.
fn one(world: &World, (window, sums): Memory<'_>, case: &str, bytes: usize, time: Duration) -> Result<f64> {
    let at = window.at(PEER, 0);
    let words = bytes / 8;
    let data = vec![1u64; words];
    match case {
        "put" => measure(time, |count| {
            (0..count).try_for_each(|_| {
                world.put(black_box(&data), at)?;
                world.flush(PEER)
            })
        }),
        "get" => {
            let mut into = vec![0u64; words];
            measure(time, |count| {
                (0..count).try_for_each(|_| {
                    world.get(at, &mut into)?;
                    black_box(&into);
                    Ok(())
                })
            })
        }
        "accumulate" => {
            let data = vec![1.0f64; words];
            measure(time, |count| {
                (0..count).try_for_each(|_| {
                    world.accumulate(1.0, black_box(&data), sums.at(PEER, 0))?;
                    world.flush(PEER)
                })
            })
        }
        "put_strided" => {
            let (rows, row) = (words.div_ceil(8).max(1), words.min(8));
            let data = vec![1u64; rows * 16];
            let patch = Patch { counts: &[rows, row], near: &[16, 1], far: &[16, 1] };
            measure(time, |count| {
                (0..count).try_for_each(|_| {
                    world.put_strided(black_box(&data), at, &patch)?;
                    world.flush(PEER)
                })
            })
        }
        "rate" => measure(time, |count| {
            (0..count * RATE).try_for_each(|value| world.put(&[value], at))?;
            world.flush(PEER)
        })
        .map(|ns| ns / RATE as f64),
        "fetch_add" => measure(time, |count| each(count, |_| world.fetch_add(at, 1))),
        "swap" => measure(time, |count| each(count, |value| world.swap(at, value))),
        // Every one hits, as the rivals' do.
        "compare_swap" => measure(time, |count| {
            let start = world.load(at)?;
            each(count, |done| world.compare_swap(at, start.wrapping_add(done), start.wrapping_add(done + 1)))
        }),
        "signal" => measure(time, |count| {
            (0..count).try_for_each(|value| {
                world.signal(at, value)?;
                world.flush(PEER)
            })
        }),
        other => Err(farside::Error::Misuse(format!("there is no case {other:?}"))),
    }
}

fn each<T>(count: u64, mut run: impl FnMut(u64) -> Result<T>) -> Result<()> {
    (0..count).try_for_each(|value| run(value).map(|result| drop(black_box(result))))
}

/// Rank 0 decides how many barriers make a batch, and when it is enough.
fn barrier(world: &World, time: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut count = 1u64;
    let mut samples = Vec::new();
    loop {
        // The ranks leave the broadcast one by one.
        world.barrier()?;
        let batch = Instant::now();
        for _ in 0..count {
            world.barrier()?;
        }
        let (took, over) = (batch.elapsed(), start.elapsed() >= time);
        let long_enough = took >= BARRIER_BATCH;
        if long_enough || (over && samples.is_empty()) {
            samples.push(took.as_nanos() as f64 / count as f64);
        }
        let next = if long_enough { count } else { count * 2 };
        let mut plan = [if over { 0 } else { next }];
        world.broadcast(Rank(0), &mut plan)?;
        if plan[0] == 0 {
            return Ok(median(&mut samples));
        }
        count = plan[0];
    }
}

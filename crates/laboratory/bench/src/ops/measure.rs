//! What each rank of `farside bench ops` runs.

use std::hint::black_box;
use std::time::Duration;

use farside::{Op, Patch, Place, Rank, Result, Window, World};

use super::{Plan, Target, row};
use crate::driver::peer_of_first;
use crate::timing::{Times, measure, measure_each, median};

/// Barriers follow each other: a long batch also makes the skew of the first one vanish.
const BARRIER_BATCH: Duration = Duration::from_millis(2);
/// How many puts come between two flushes when their rate is measured.
const RATE: u64 = 1000;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let largest = plan.sizes.iter().copied().max().unwrap_or(8).max(8);
    let window = world.window::<u64>(2 * largest.div_ceil(8) + 64)?;
    let sums = world.window::<f64>(largest.div_ceil(8))?;
    let peer = peer_of_first(world);
    let memory = Memory { window, sums, peer };
    let mut samples = Vec::new();
    for (case, bytes) in plan.cases() {
        world.barrier()?;
        let times = match (world.rank(), case.as_str()) {
            (_, "barrier") => Times::of_batches(barrier(world, plan.time)?),
            (Rank(0), _) => one(world, &memory, &case, bytes, plan.time)?,
            (me, _) if me == peer && plan.target == Target::Computing => {
                world.work((plan.time.mul_f64(1.5) + Duration::from_millis(50)).as_nanos() as u64);
                continue;
            }
            _ => continue,
        };
        samples.push(row(&case, bytes, plan.target, times));
    }
    world.barrier()?;
    memory.sums.free(world)?;
    memory.window.free(world)?;
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

struct Memory {
    window: Window<u64>,
    sums: Window<f64>,
    peer: Rank,
}

/// One operation, complete at the target each time.
fn one(world: &World, memory: &Memory, case: &str, bytes: usize, time: Duration) -> Result<Times> {
    match case {
        "put" | "get" | "accumulate" | "get_accumulate" | "put_strided" | "rate" => {
            transfer(world, memory, case, bytes, time)
        }
        _ => word(world, memory.window.at(memory.peer, 0), case, time),
    }
}

fn transfer(
    world: &World,
    Memory { window, sums, peer }: &Memory,
    case: &str,
    bytes: usize,
    time: Duration,
) -> Result<Times> {
    let (peer, at) = (*peer, window.at(*peer, 0));
    let clock_ns = || world.now_ns();
    let words = bytes / 8;
    let data = vec![1u64; words];
    match case {
        "put" => measure_each(&clock_ns, time, |count| {
            (0..count).try_for_each(|_| {
                world.put(black_box(&data), at)?;
                world.flush(peer)
            })
        }),
        "get" => {
            let mut into = vec![0u64; words];
            measure_each(&clock_ns, time, |count| {
                (0..count).try_for_each(|_| {
                    world.get(at, &mut into)?;
                    black_box(&into);
                    Ok(())
                })
            })
        }
        "accumulate" => {
            let data = vec![1.0f64; words];
            measure_each(&clock_ns, time, |count| {
                (0..count).try_for_each(|_| {
                    world.accumulate(1.0, black_box(&data), sums.at(peer, 0))?;
                    world.flush(peer)
                })
            })
        }
        "get_accumulate" => {
            let (data, mut old) = (vec![1.0f64; words], vec![0.0f64; words]);
            measure_each(&clock_ns, time, |count| {
                (0..count).try_for_each(|_| {
                    let at = sums.at(peer, 0);
                    world.get_accumulate(Op::Sum, black_box(&data), at, &mut old)?;
                    black_box(&old);
                    Ok(())
                })
            })
        }
        "put_strided" => {
            let (rows, row) = (words.div_ceil(8).max(1), words.min(8));
            let data = vec![1u64; rows * 16];
            let patch = Patch { counts: &[rows, row], near: &[16, 1], far: &[16, 1] };
            measure_each(&clock_ns, time, |count| {
                (0..count).try_for_each(|_| {
                    world.put_strided(black_box(&data), at, &patch)?;
                    world.flush(peer)
                })
            })
        }
        "rate" => measure(&clock_ns, time, |count| {
            (0..count * RATE).try_for_each(|value| world.put(&[value], at))?;
            world.flush(peer)
        })
        .map(|ns| Times::of_batches(ns / RATE as f64)),
        other => Err(no_case(other)),
    }
}

fn word(world: &World, at: Place<'_, u64>, case: &str, time: Duration) -> Result<Times> {
    let clock_ns = || world.now_ns();
    match case {
        "fetch_add" => {
            measure_each(&clock_ns, time, |count| each(count, |_| world.fetch_add(at, 1)))
        }
        "swap" => measure_each(&clock_ns, time, |count| each(count, |value| world.swap(at, value))),
        // Every one hits, as the rivals' do.
        "compare_swap" => {
            let mut held = world.load(at)?;
            measure_each(&clock_ns, time, |count| {
                each(count, |_| {
                    let next = held.wrapping_add(1);
                    world.compare_swap(at, std::mem::replace(&mut held, next), next)
                })
            })
        }
        "compare_swap_miss" => {
            let other = world.load(at)?.wrapping_add(1);
            measure_each(&clock_ns, time, |count| {
                each(count, |_| world.compare_swap(at, other, other))
            })
        }
        "signal" => measure_each(&clock_ns, time, |count| {
            (0..count).try_for_each(|value| {
                world.signal(at, value)?;
                world.flush(at.rank())
            })
        }),
        other => Err(no_case(other)),
    }
}

fn no_case(name: &str) -> farside::Error {
    farside::Error::InvalidArgument(format!("there is no case {name:?}"))
}

fn each<T>(count: u64, mut run: impl FnMut(u64) -> Result<T>) -> Result<()> {
    (0..count).try_for_each(|value| run(value).map(|result| drop(black_box(result))))
}

/// Rank 0 decides how many barriers make a batch, and when it is enough.
fn barrier(world: &World, time: Duration) -> Result<f64> {
    let (start_ns, time_ns, batch_ns) =
        (world.now_ns(), time.as_nanos() as u64, BARRIER_BATCH.as_nanos() as u64);
    let mut count = 1u64;
    let mut samples = Vec::new();
    loop {
        // The ranks leave the broadcast one by one.
        world.barrier()?;
        let begin_ns = world.now_ns();
        for _ in 0..count {
            world.barrier()?;
        }
        let now_ns = world.now_ns();
        let (took_ns, over) = (now_ns - begin_ns, now_ns - start_ns >= time_ns);
        let long_enough = took_ns >= batch_ns;
        if long_enough || (over && samples.is_empty()) {
            samples.push(took_ns as f64 / count as f64);
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

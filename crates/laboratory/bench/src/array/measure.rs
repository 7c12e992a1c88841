//! What each rank of `farside bench array` runs.

use farside::array::{Builder, Completion, Distribution};
use farside::{Error, GlobalArray, Rank, Result, World};

use super::{COMPLETIONS, Plan, Shape};
use crate::driver::{peer_of_first, sample};
use crate::timing::measure;

/// As often as \[ARMCI03\] did it.
const SYNC_ROUNDS: u64 = 100;
/// The best of so many products counts.
const PRODUCTS: u32 = 3;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let mut samples = Vec::new();
    if plan.cases.iter().any(|case| case == "sync") {
        for completion in COMPLETIONS {
            let ns = sync(world, completion)?;
            samples.push(sample(
                "sync",
                &[&8, &"1x1", &completion.name()],
                &[Some(ns), None, None],
            ));
        }
    }
    for &shape in &plan.shapes {
        samples.extend(patches(world, plan, shape)?);
    }
    if plan.cases.iter().any(|case| case == "matmul") {
        let (n, ns) = (plan.size, product(world, plan.size)?);
        let (bytes, flops) = (8 * n * n, 2.0 * (n as f64).powi(3));
        samples.push(sample(
            "matmul",
            &[&bytes, &format!("{n}x{n}"), &"-"],
            &[Some(ns), None, Some(flops * 1e9 / ns)],
        ));
    }
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

/// A matrix of which each rank has so many rows.
fn rows_array(world: &World, rows: usize, columns: usize) -> Result<GlobalArray<'_, f64>> {
    let ranks = world.size() as usize;
    Builder::new(&[rows * ranks, columns])
        .distribution(Distribution::Grid(vec![ranks, 1]))
        .create(world)
}

/// Everybody writes to the part of everybody else, all meet, and the sync is timed: the mean over
/// all ranks.
fn sync(world: &World, completion: Completion) -> Result<f64> {
    let (ranks, me) = (world.size() as usize, world.rank().index());
    let array = rows_array(world, 1, ranks)?;
    let mut took_ns = 0;
    for round in 0..=SYNC_ROUNDS {
        let value = round as f64 + 1.0;
        for peer in (0..ranks).filter(|&peer| peer != me) {
            array.put_value(&[peer, me], value)?;
        }
        world.barrier()?;
        let begin_ns = world.now_ns();
        array.sync_by(completion)?;
        if round > 0 {
            // The first one only warms up.
            took_ns += world.now_ns() - begin_ns;
        }
        let mut seen = vec![0.0; ranks];
        array.get_slice([me..me + 1, 0..ranks], &mut seen)?;
        if seen.iter().enumerate().any(|(peer, &seen)| peer != me && seen < value) {
            return Err(Error::Program(format!(
                "after a {} sync, a put had not landed",
                completion.name()
            )));
        }
        array.sync()?;
    }
    let mut sum = [took_ns];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    array.free()?;
    Ok(sum[0] as f64 / SYNC_ROUNDS as f64 / ranks as f64)
}

/// Rank 0 and a patch of another rank.
fn patches(world: &World, plan: &Plan, shape: Shape) -> Result<Vec<String>> {
    let Shape { rows, columns } = shape;
    let array = rows_array(world, rows, 2 * columns)?;
    let target = peer_of_first(world);
    let start = target.index() * rows;
    let patch = [start..start + rows, columns / 2..columns / 2 + columns];
    let mut data = vec![0.0; rows * columns];
    let mut samples = Vec::new();
    for case in ["put", "get", "accumulate"]
        .into_iter()
        .filter(|&case| plan.cases.iter().any(|asked| asked == case))
    {
        array.sync()?;
        if world.rank() == Rank(0) {
            let ns = measure(&|| world.now_ns(), plan.time, |count| {
                for _ in 0..count {
                    match case {
                        "get" => array.get_slice(&patch, &mut data)?,
                        "put" => array.put_slice(&patch, &data)?,
                        _ => array.accumulate_slice(1.0, &patch, &data)?,
                    }
                    world.flush(target)?;
                }
                Ok::<(), Error>(())
            })?;
            let bytes = shape.bytes();
            samples.push(sample(
                case,
                &[&bytes, &shape, &"-"],
                &[Some(ns), Some(bytes as f64 * 1e9 / ns), None],
            ));
        }
        array.sync()?;
    }
    array.free()?;
    Ok(samples)
}

/// The time of a product of the slowest rank, at best.
fn product(world: &World, size: usize) -> Result<f64> {
    let make = || GlobalArray::<f64>::new(world, &[size, size]);
    let (a, b, c) = (make()?, make()?, make()?);
    a.fill(0.5)?;
    b.fill(2.0)?;
    let mut best_ns = f64::INFINITY;
    for _ in 0..PRODUCTS {
        world.barrier()?;
        let begin_ns = world.now_ns();
        c.multiply_from(1.0, &a, &b, 0.0)?;
        let mut took_ns = [world.now_ns() - begin_ns];
        world.all_reduce(&mut took_ns, u64::max)?;
        best_ns = best_ns.min(took_ns[0] as f64);
    }
    let last = c.get_value(&[size - 1, size - 1])?;
    if last != size as f64 {
        return Err(Error::Program(format!("a product of order {size} gave {last}")));
    }
    world.barrier()?;
    c.free()?;
    b.free()?;
    a.free()?;
    Ok(best_ns)
}

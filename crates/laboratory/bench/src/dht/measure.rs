//! What each rank of `farside bench dht` runs.

use farside::map::{Options, Synchronization};
use farside::{FixedMap, FixedSet, HashMap, Rank, Result, World};

use super::Plan;
use super::mix::{Mix, STEPS, Step};
use crate::driver::sample;

/// How many operations come between two looks at the clock.
const LOOKS: u64 = 16;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let mut samples = Vec::new();
    for (case, writers_pct) in plan.runs() {
        for lock in &plan.locks {
            let mix = Mix::new(case, writers_pct, plan.keys, world.rank().0);
            let figures = match case {
                "volume" => volume(world, plan, lock, mix)?,
                "integers" => integers(world, plan, lock, mix)?,
                _ => mixed(world, plan, lock, mix)?,
            };
            let writers = writers_pct.map_or("-".to_owned(), |pct| pct.to_string());
            samples.push(sample(case, &[&writers, &lock.name()], &figures.map(Some)));
        }
    }
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

/// All ranks but the first use the volume of the first.
fn volume(world: &World, plan: &Plan, lock: &Synchronization, mix: Mix) -> Result<[f64; 3]> {
    let size = plan.keys as usize;
    let map = FixedMap::on(&world.team(), &[Rank(0)], (size, size), lock)?;
    if world.rank() == Rank(0) {
        (0..plan.keys).step_by(2).try_for_each(|key| map.insert(world, key, key).map(drop))?;
    }
    let works = world.rank() != Rank(0);
    let figures = timed(world, plan, works, mix, |step| match step {
        Step::Get(key) => map.get(world, key).map(drop),
        Step::Insert(key) | Step::Modify(key) => map.insert(world, key, 1).map(drop),
    })?;
    map.free(world)?;
    Ok(figures)
}

fn integers(world: &World, plan: &Plan, lock: &Synchronization, mix: Mix) -> Result<[f64; 3]> {
    let size = plan.keys as usize;
    let set = FixedSet::on(&world.team(), &[Rank(0)], (size, size), lock)?;
    if world.rank() == Rank(0) {
        (0..plan.keys).step_by(2).try_for_each(|key| set.insert(world, key).map(drop))?;
    }
    let works = world.rank() != Rank(0);
    let figures = timed(world, plan, works, mix, |step| match step {
        Step::Get(key) => set.contains(world, key).map(drop),
        Step::Insert(key) | Step::Modify(key) => set.insert(world, key).map(drop),
    })?;
    set.free(world)?;
    Ok(figures)
}

/// All ranks use all volumes.
fn mixed(world: &World, plan: &Plan, lock: &Synchronization, mix: Mix) -> Result<[f64; 3]> {
    let options =
        Options { synchronization: lock.clone(), slots: plan.keys as usize, ..Options::default() };
    let map = HashMap::<u64, u64>::with(&world.team(), &options)?;
    let mine: Vec<(u64, u64)> = (u64::from(world.rank().0)..plan.keys)
        .step_by(world.size() as usize)
        .map(|key| (key, 0))
        .collect();
    mine.chunks(256).try_for_each(|batch| map.insert_all(world, batch).map(drop))?;
    let figures = timed(world, plan, true, mix, |step| match step {
        Step::Get(key) => map.get(world, key).map(drop),
        Step::Insert(key) => map.insert(world, key, 1).map(drop),
        Step::Modify(key) => map.fetch_add(world, key, 1).map(drop),
    })?;
    map.free(world)?;
    Ok(figures)
}

/// The mean time of an operation, the throughput of all ranks, and the time until the last one was
/// done.
fn timed(
    world: &World,
    plan: &Plan,
    works: bool,
    mix: Mix,
    mut take: impl FnMut(Step) -> Result<()>,
) -> Result<[f64; 3]> {
    let steps =
        mix.steps(if plan.operations > 0 { STEPS.min(plan.operations as usize) } else { STEPS });
    let mut steps = steps.iter().copied().cycle();
    world.sync()?;
    let begin_ns = world.now_ns();
    let end_ns = begin_ns + plan.time.as_nanos() as u64;
    let mut done = 0;
    while works
        && if plan.operations > 0 { done < plan.operations } else { world.now_ns() < end_ns }
    {
        let count = if plan.operations > 0 { 1 } else { LOOKS };
        for step in steps.by_ref().take(count as usize) {
            take(step)?;
        }
        done += count;
    }
    let took_ns = world.now_ns() - begin_ns;
    let words = world.all_gather(&[done, if works { took_ns } else { 0 }])?;
    let (mut operations, mut busy_ns, mut longest_ns) = (0, 0, 1);
    for pair in words.as_chunks::<2>().0 {
        operations += pair[0];
        busy_ns += pair[1];
        longest_ns = longest_ns.max(pair[1]);
    }
    world.barrier()?;
    let [operations, busy_ns, longest_ns] =
        [operations, busy_ns, longest_ns].map(|number| number as f64);
    Ok([busy_ns / operations.max(1.0), operations * 1e9 / longest_ns, longest_ns])
}

//! What each rank of `farside bench sync` runs.

use std::time::Duration;

use farside::fence::{Fences, Style};
use farside::{BarrierKind, Error, Rank, Result, SyncKind, Window, World};

use super::{ALLFENCE, BARRIER, Plan, SYNC, algorithms};
use crate::driver::sample;
use crate::timing::measure_together;

/// How many synchronizations come between two decisions whether it is enough.
const BATCH_MAX: usize = 64;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let puts = Puts {
        window: world.window(world.size() as usize * plan.bytes / 8)?,
        words: plan.bytes / 8,
    };
    let mut samples = Vec::new();
    for case in &plan.cases {
        for algorithm in algorithms(case) {
            let method = Method::new(world, case, algorithm)?;
            let (bytes, ns) = match case.as_str() {
                BARRIER => (0, measure_together(world, plan.time, &mut || method.call(world))?),
                _ => (plan.bytes, fences(world, &method, &puts, plan.time)?),
            };
            let messages = messages(world, &method, (bytes > 0).then_some(&puts))?;
            samples.push(sample(case, &[&bytes, &algorithm], &[Some(ns), Some(messages)]));
            method.free(world)?;
        }
    }
    puts.window.free(world)?;
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

enum Method {
    AllFence(Fences, Style),
    WorldSync,
    Sync(SyncKind),
    WorldBarrier,
    Barrier(BarrierKind),
}

impl Method {
    fn new(world: &World, case: &str, algorithm: &str) -> Result<Method> {
        let unknown = || Error::InvalidArgument(format!("there is no {algorithm:?} of {case:?}"));
        let barrier = || {
            let kind = BarrierKind::ALL.into_iter().find(|kind| kind.name() == algorithm);
            kind.map(Method::Barrier).ok_or_else(unknown)
        };
        let sync = || {
            let kind = SyncKind::ALL.into_iter().find(|kind| kind.name() == algorithm);
            kind.map(Method::Sync).ok_or_else(unknown)
        };
        match (case, algorithm) {
            (ALLFENCE, "acknowledged") => {
                Ok(Method::AllFence(Fences::new(world)?, Style::Acknowledged))
            }
            (ALLFENCE, "confirmed") => Ok(Method::AllFence(Fences::new(world)?, Style::Confirmed)),
            (SYNC, "world") => Ok(Method::WorldSync),
            (SYNC, _) => sync(),
            (BARRIER, "world") => Ok(Method::WorldBarrier),
            (BARRIER, _) => barrier(),
            _ => Err(unknown()),
        }
    }

    fn call(&self, world: &World) -> Result<()> {
        match self {
            Method::AllFence(fences, style) => {
                fences.all_fence(world, *style)?;
                world.barrier()
            }
            Method::WorldSync => world.sync(),
            Method::Sync(kind) => world.sync_by(*kind),
            Method::WorldBarrier => world.barrier(),
            Method::Barrier(kind) => world.barrier_by(*kind),
        }
    }

    fn free(self, world: &World) -> Result<()> {
        match self {
            Method::AllFence(fences, _) => fences.free(world),
            _ => Ok(()),
        }
    }
}

/// What every rank puts into every other: the number of the round, as often as it is long.
struct Puts {
    window: Window<u64>,
    words: usize,
}

impl Puts {
    fn post(&self, world: &World, round: u64) -> Result<()> {
        let (data, at) = (vec![round; self.words], world.rank().index() * self.words);
        let others = world.ranks().filter(|&peer| peer != world.rank());
        others.into_iter().try_for_each(|peer| world.put(&data, self.window.at(peer, at)))
    }

    /// A synchronization that is fast because it does not wait must not look fast. A rank that is
    /// ahead may have put again.
    fn check(&self, world: &World, round: u64) -> Result<()> {
        for peer in world.ranks().filter(|&peer| peer != world.rank()) {
            let seen = self.window.own().get(peer.index() * self.words)?;
            if seen < round {
                return Err(Error::Program(format!(
                    "{peer}'s put of round {round} has not landed, only {seen}"
                )));
            }
        }
        Ok(())
    }

    fn clear(&self, world: &World) -> Result<()> {
        world.sync()?;
        self.window.own().write(0, &vec![0; world.size() as usize * self.words])?;
        world.sync()
    }
}

/// The mean of the slowest rank's time. Rank 0 decides when it is enough.
fn fences(world: &World, method: &Method, puts: &Puts, time: Duration) -> Result<f64> {
    puts.clear(world)?;
    let (start_ns, time_ns) = (world.now_ns(), time.as_nanos() as u64);
    let (mut count, mut round) = (1, 0);
    let (mut sum_ns, mut done) = (0.0, 0);
    loop {
        let mut took_ns = vec![0u64; count];
        for took_ns in &mut took_ns {
            round += 1;
            puts.post(world, round)?;
            world.barrier()?;
            let begin_ns = world.now_ns();
            method.call(world)?;
            *took_ns = world.now_ns() - begin_ns;
            puts.check(world, round)?;
        }
        world.all_reduce(&mut took_ns, u64::max)?;
        // The first one only warms up.
        if round > 1 {
            sum_ns += took_ns.iter().sum::<u64>() as f64;
            done += count;
        }
        let over = world.now_ns() - start_ns >= time_ns && done > 0;
        let mut next = [if over { 0 } else { (2 * count).min(BATCH_MAX) as u64 }];
        world.broadcast(Rank(0), &mut next)?;
        if next[0] == 0 {
            return Ok(sum_ns / done as f64);
        }
        count = next[0] as usize;
    }
}

/// How many messages a rank sends to others for one synchronization, on average. The puts of a
/// `put_signal` travel with their signals.
fn messages(world: &World, method: &Method, puts: Option<&Puts>) -> Result<f64> {
    if let Some(puts) = puts {
        puts.clear(world)?;
        puts.post(world, 1)?;
    }
    world.barrier()?;
    let sent = || -> u64 {
        let counters = world.counters();
        let others = world.ranks().filter(|&peer| peer != world.rank());
        others.map(|peer| counters.peer(peer)).map(|peer| peer.operations() - peer.puts).sum()
    };
    let before = sent();
    method.call(world)?;
    let mut sum = [sent() - before];
    world.all_reduce(&mut sum, |a, b| a + b)?;
    Ok(sum[0] as f64 / f64::from(world.size()))
}

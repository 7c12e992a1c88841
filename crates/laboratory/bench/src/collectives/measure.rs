//! What each rank of `farside bench collectives` runs.

use farside::{Error, Rank, Result, Window, World};

use super::pipeline::{self, Pipeline};
use super::{
    ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, ALL_TO_ALL_PUTS, BROADCAST, PIPELINE, Plan, REDUCE,
};
use crate::driver::sample;
use crate::timing::measure_together;

/// Runs a plan as a rank; rank 0 returns its sample. The first call, which touches everything, is
/// not timed.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let ns = match plan.case.as_str() {
        PIPELINE => {
            let mut pipeline = Pipeline::new(world)?;
            pipeline.sweep(world)?;
            let ns = measure_together(world, plan.time, &mut || pipeline.sweep(world))?;
            pipeline.check(world)?;
            pipeline.free(world)?;
            ns
        }
        _ => {
            let mut exchange = Exchange::new(world, plan)?;
            exchange.call(world)?;
            let ns = measure_together(world, plan.time, &mut || exchange.call(world))?;
            exchange.check(world)?;
            exchange.window.free(world)?;
            ns
        }
    };
    let is_told = world.rank() == Rank(0);
    let bytes = if plan.case == PIPELINE { pipeline::VALUE_BYTES } else { plan.bytes };
    Ok(is_told.then(|| sample(&plan.case, &[&bytes], &[Some(ns)])).into_iter().collect())
}

/// One collective, again and again. Every rank gives its number plus one, in every word.
struct Exchange {
    case: String,
    give: Vec<u64>,
    take: Vec<u64>,
    numbers: Vec<f64>,
    /// Of puts: what the others put here.
    window: Window<u64>,
    calls: u32,
}

impl Exchange {
    fn new(world: &World, plan: &Plan) -> Result<Exchange> {
        let (words, mine) = (plan.bytes / 8, u64::from(world.rank().0) + 1);
        let is_of_puts = plan.case == ALL_TO_ALL_PUTS;
        Ok(Exchange {
            case: plan.case.clone(),
            give: vec![mine; words],
            take: vec![0; words],
            numbers: vec![mine as f64; words],
            window: world.window(if is_of_puts { words } else { 0 })?,
            calls: 0,
        })
    }

    /// Broadcasts and reductions go to the next root each time, so that none runs ahead.
    fn call(&mut self, world: &World) -> Result<()> {
        let root = Rank(self.calls % world.size());
        self.calls += 1;
        let part = self.give.len() / world.size() as usize;
        match self.case.as_str() {
            BROADCAST => {
                if root == world.rank() {
                    self.take.fill(u64::from(root.0) + 1);
                }
                world.broadcast(root, &mut self.take)
            }
            REDUCE => {
                self.mark_own(world);
                world.reduce(root, &mut self.numbers, larger)
            }
            ALL_REDUCE => {
                self.mark_own(world);
                world.all_reduce(&mut self.numbers, larger)
            }
            ALL_GATHER => world.all_gather_into(&self.give[..part], &mut self.take),
            ALL_TO_ALL => world.all_to_all_into(&self.give, &mut self.take),
            ALL_TO_ALL_PUTS => self.puts(world, part),
            other => Err(Error::InvalidArgument(format!("there is no collective {other:?}"))),
        }
    }

    /// Gives this rank's own number in the first and in the last element, which are looked at in
    /// the end: what those hold that were not the root is unspecified.
    fn mark_own(&mut self, world: &World) {
        let (own, last) = (f64::from(world.rank().0) + 1.0, self.numbers.len() - 1);
        (self.numbers[0], self.numbers[last]) = (own, own);
    }

    /// Every rank begins with its neighbour, so that not all go to one.
    fn puts(&self, world: &World, part: usize) -> Result<()> {
        let (me, size) = (world.rank().index(), world.size() as usize);
        for to in (1..=size).map(|further| (me + further) % size) {
            let block = &self.give[to * part..][..part];
            world.put(block, self.window.at(Rank(to as u32), me * part))?;
        }
        world.sync()
    }

    /// Refuses a figure of a collective that has not done its work.
    fn check(&self, world: &World) -> Result<()> {
        let (size, words) = (world.size() as usize, self.take.len());
        let ends = [0, words - 1];
        let part = |at: usize| (at * size / words) as u64 + 1;
        let last_root = (self.calls - 1) % world.size();
        let is_good = match self.case.as_str() {
            BROADCAST => ends.map(|at| self.take[at]) == [u64::from(last_root) + 1; 2],
            REDUCE if world.rank() != Rank(last_root) => true,
            REDUCE | ALL_REDUCE => ends.map(|at| self.numbers[at]) == [size as f64; 2],
            ALL_TO_ALL_PUTS => {
                ends.map(|at| self.window.own().get(at).ok()) == ends.map(|at| Some(part(at)))
            }
            _ => ends.map(|at| self.take[at]) == ends.map(part),
        };
        match is_good {
            true => Ok(()),
            false => Err(Error::Program(format!("the result of {} is wrong", self.case))),
        }
    }
}

fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

//! Dense LU factorization in blocks, after the SPLASH kernel that \[PASSIVE08\] measures (section
//! 5.3).
//!
//! The matrix is cut into blocks, dealt out to a grid of ranks as a chess board is (2-D scatter).
//! In step k the owner of the diagonal block factors it; the owners of the blocks to the right and
//! below fetch it and solve; then all others fetch those that their blocks need, and subtract
//! products. A block is fetched by lock, get and unlock of its owner, in exclusive mode as in the
//! paper, and twice in a step all ranks meet. There is no pivoting: the matrix is diagonally
//! dominant.

mod grid;
mod kernel;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use farside::epoch::{Design, Get, LockAgent, MESSAGE_BYTES, Mode, Options, Window};
use farside::{Error, Prices, Rank, Result, World};
use serde::{Deserialize, Serialize};

use crate::flag::Flag;
use crate::output::say;
use grid::Grid;
use kernel::{Extents, RowDistances};

/// What to factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Rows and columns of the matrix.
    pub size: usize,
    /// Rows and columns of a block.
    pub block: usize,
    /// How long a rank of a simulated machine takes for one floating-point operation, in
    /// nanoseconds.
    pub flop_ns: f64,
    /// How long the library of a simulated machine is busy with a request of the two-sided design,
    /// in nanoseconds.
    pub library_ns: u64,
    /// What fits into one message of the two-sided design.
    pub message_bytes: usize,
    /// Whether a block to the right is fetched anew for every block that needs it, as where the
    /// loops of the shared-memory program became gets, instead of once in a step.
    pub refetch: bool,
    /// Whether the next block is fetched while products are computed, instead of before them.
    pub ahead: bool,
}

/// How long a floating-point operation takes on a core of \[PASSIVE08\]'s machine (2.33 GHz): the
/// kernels of SPLASH are loops that load two numbers and store one for two operations, mostly from
/// the second-level cache, which is about one operation in two cycles.
pub const FLOP_NS: f64 = 1.0;

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            size: 1024,
            block: 128,
            flop_ns: FLOP_NS,
            library_ns: 1500,
            message_bytes: MESSAGE_BYTES,
            refetch: false,
            ahead: false,
        }
    }
}

/// Where the time of a factorization went, in nanoseconds: the mean over the ranks, and for `total`
/// the slowest.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Split {
    /// All of it.
    pub total: f64,
    /// In lock calls.
    pub lock: f64,
    /// In get calls.
    pub get: f64,
    /// In unlock calls.
    pub unlock: f64,
    /// In barriers.
    pub barrier: f64,
    /// The rest.
    pub compute: f64,
}

impl Split {
    /// Its parts by name, `total` first.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("total", self.total),
            ("lock", self.lock),
            ("get", self.get),
            ("unlock", self.unlock),
            ("barrier", self.barrier),
            ("compute", self.compute),
        ]
    }
}

/// What came out.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Where the time went.
    pub split: Split,
    /// The largest difference between L U x and A x over all rows, for a vector of ones and minus
    /// ones. Rank 0 knows it.
    pub residual: Option<f64>,
}

/// The designs by name.
pub const DESIGNS: [&str; 4] = ["direct", "two-sided", "backoff", "published"];

/// Factors a matrix with windows of a design, and checks the result. Collective.
pub fn factor(world: &World, plan: &Plan, design: &str) -> Result<Outcome> {
    if plan.size == 0 || plan.block == 0 || plan.block > plan.size {
        return Err(Error::InvalidArgument(format!(
            "a matrix of {} rows cannot be cut into blocks of {}: both are at least 1, and the \
             block is not larger",
            plan.size, plan.block
        )));
    }
    let design = match design {
        "direct" => Design::Direct,
        "two-sided" => {
            let message_ns = if is_simulated(world) { plan.library_ns } else { 0 };
            world.set_prices(Prices { message_ns, ..Prices::default() });
            Design::TwoSided { message_bytes: plan.message_bytes }
        }
        "backoff" => Design::Backoff(LockAgent::new(world)?),
        "published" => Design::Published(LockAgent::new(world)?),
        other => {
            return Err(Error::InvalidArgument(format!(
                "there is no design {other:?}; there are: {}",
                DESIGNS.join(", ")
            )));
        }
    };
    let grid = Grid::new(plan.size, plan.block, world.size());
    let bytes = grid.blocks_of_each() * grid.block_len() * 8;
    let window = Window::allocate(world, bytes, Options::new().unit(8).design(design))?;
    let mut work = Work {
        world,
        window: &window,
        grid,
        own: grid.own(world.rank()).map(|at| (at, grid.original(at))).collect(),
        flop_ns: if is_simulated(world) { plan.flop_ns } else { 0.0 },
        refetch: plan.refetch,
        is_ahead: plan.ahead,
        split: Split::default(),
    };
    window.barrier()?;
    let begin_ns = world.now_ns();
    work.run()?;
    work.split.total = (world.now_ns() - begin_ns) as f64;
    let mine = work.split;
    let residual = work.residual()?;
    window.barrier()?;
    window.free()?;
    let split = gather(world, &mine)?;
    Ok(Outcome { split, residual })
}

fn is_simulated(world: &World) -> bool {
    world.job().caps.name == "sim"
}

/// The mean of all ranks' splits, and the largest total.
fn gather(world: &World, mine: &Split) -> Result<Split> {
    let all = world.all_gather(&mine.named().map(|(_, ns)| ns))?;
    let ranks = f64::from(world.size());
    let mean = |at: usize| all.chunks_exact(6).map(|split| split[at]).sum::<f64>() / ranks;
    let total = all.chunks_exact(6).map(|split| split[0]).fold(0.0, f64::max);
    let (lock, get, unlock, barrier) = (mean(1), mean(2), mean(3), mean(4));
    Ok(Split {
        total,
        lock,
        get,
        unlock,
        barrier,
        compute: mean(0) - lock - get - unlock - barrier,
    })
}

struct Work<'a, 'w> {
    world: &'a World,
    window: &'a Window<'w>,
    grid: Grid,
    /// The blocks that this rank owns. Others see a block in the window once it is final.
    own: HashMap<(usize, usize), Vec<f64>>,
    flop_ns: f64,
    refetch: bool,
    is_ahead: bool,
    split: Split,
}

/// A block that is being fetched: its owner is locked.
struct Ahead<'w> {
    at: (usize, usize),
    owner: Rank,
    block: Get<'w, f64>,
}

impl<'w> Work<'_, 'w> {
    fn run(&mut self) -> Result<()> {
        for k in 0..self.grid.count() {
            self.diagonal(k)?;
            self.meet()?;
            self.perimeter(k)?;
            self.meet()?;
            self.interior(k)?;
        }
        self.meet()
    }

    fn diagonal(&mut self, k: usize) -> Result<()> {
        let (n, ld) = (self.grid.extent(k), self.grid.block);
        if let Some(block) = self.own.get_mut(&(k, k)) {
            kernel::factor(block, n, ld);
            self.spend(2 * n * n * n / 3);
            self.publish((k, k))?;
        }
        Ok(())
    }

    fn perimeter(&mut self, k: usize) -> Result<()> {
        let mine: Vec<(usize, usize)> = self
            .own
            .keys()
            .copied()
            .filter(|&(i, j)| (i == k) != (j == k) && i.max(j) > k && i.min(j) == k)
            .collect();
        if mine.is_empty() {
            return Ok(());
        }
        let (n, ld) = (self.grid.extent(k), self.grid.block);
        let diagonal = self.fetch((k, k))?;
        for (i, j) in self.grid.sorted(mine) {
            let m = self.grid.extent(if i == k { j } else { i });
            if let Some(block) = self.own.get_mut(&(i, j)) {
                match i == k {
                    true => kernel::solve_lower(&diagonal, block, (n, m), ld),
                    false => kernel::solve_upper(&diagonal, block, (n, m), ld),
                }
            }
            self.spend(n * n * m);
            self.publish((i, j))?;
        }
        Ok(())
    }

    fn interior(&mut self, k: usize) -> Result<()> {
        let mine: Vec<(usize, usize)> =
            self.own.keys().copied().filter(|&(i, j)| i > k && j > k).collect();
        let mine = self.grid.sorted(mine);
        let mut fetched: HashMap<(usize, usize), Vec<f64>> = HashMap::new();
        let mut ahead: Option<Ahead<'w>> = None;
        for (number, &(i, j)) in mine.iter().enumerate() {
            for at in [(i, k), (k, j)] {
                if let Entry::Vacant(place) = fetched.entry(at) {
                    // What was begun is the first that is lacking: never are two owners locked.
                    place.insert(match ahead.take_if(|ahead| ahead.at == at) {
                        Some(ahead) => self.end_fetch(ahead)?,
                        None => self.fetch(at)?,
                    });
                }
            }
            if let (true, Some(&(i, next))) = (self.is_ahead, mine.get(number + 1)) {
                let is_lacking = |at: &(usize, usize)| {
                    !fetched.contains_key(at) || (self.refetch && *at == (k, j))
                };
                let lacking = [(i, k), (k, next)].into_iter().find(is_lacking);
                ahead = match lacking.filter(|at| !self.own.contains_key(at)) {
                    Some(at) => Some(self.begin_fetch(at)?),
                    None => None,
                };
            }
            let [m, k_extent, n] = [i, k, j].map(|at| self.grid.extent(at));
            let size = Extents { m, k: k_extent, n };
            let ld = self.grid.block;
            if let Some(block) = self.own.get_mut(&(i, j)) {
                let ld = RowDistances::all(ld);
                kernel::multiply(block, &fetched[&(i, k)], &fetched[&(k, j)], size, ld);
            }
            self.spend(2 * m * k_extent * n);
            if self.refetch {
                fetched.remove(&(k, j));
            }
        }
        Ok(())
    }

    /// A block that is final: from this rank's own, or from its owner.
    fn fetch(&mut self, at: (usize, usize)) -> Result<Vec<f64>> {
        if let Some(block) = self.own.get(&at) {
            return Ok(block.clone());
        }
        let ahead = self.begin_fetch(at)?;
        self.end_fetch(ahead)
    }

    /// Locks the owner of a block, and asks for the block.
    fn begin_fetch(&mut self, at: (usize, usize)) -> Result<Ahead<'w>> {
        let (owner, place) = self.grid.place(at);
        let begin_ns = self.world.now_ns();
        self.window.lock(owner, Mode::Exclusive)?;
        let locked_ns = self.world.now_ns();
        let block = self.window.get::<f64>(owner, place as u64, self.grid.block_len())?;
        self.split.lock += (locked_ns - begin_ns) as f64;
        self.split.get += (self.world.now_ns() - locked_ns) as f64;
        Ok(Ahead { at, owner, block })
    }

    fn end_fetch(&mut self, ahead: Ahead<'w>) -> Result<Vec<f64>> {
        let begin_ns = self.world.now_ns();
        self.window.unlock(ahead.owner)?;
        self.split.unlock += (self.world.now_ns() - begin_ns) as f64;
        ahead.block.take()
    }

    fn publish(&self, at: (usize, usize)) -> Result<()> {
        let (_, place) = self.grid.place(at);
        self.own.get(&at).map_or(Ok(()), |block| self.window.write_own(block, place as u64))
    }

    fn meet(&mut self) -> Result<()> {
        let begin_ns = self.world.now_ns();
        self.window.barrier()?;
        self.split.barrier += (self.world.now_ns() - begin_ns) as f64;
        Ok(())
    }

    /// The time of so many floating-point operations, on a simulated machine.
    fn spend(&self, flops: usize) {
        if self.flop_ns > 0.0 {
            self.world.work((flops as f64 * self.flop_ns) as u64);
        }
    }

    /// Rank 0 compares the product of the factors with the original matrix, both applied to a
    /// vector.
    fn residual(&mut self) -> Result<Option<f64>> {
        if self.world.rank() != Rank(0) {
            return Ok(None);
        }
        let (grid, n) = (self.grid, self.grid.size);
        let x: Vec<f64> =
            (0..n).map(|at| if grid::scatter(at, n + 7) < 0.5 { 1.0 } else { -1.0 }).collect();
        let (mut ux, mut lux, mut ax) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for below in [false, true] {
            for i in 0..grid.count() {
                for j in 0..grid.count() {
                    if if below { i < j } else { i > j } {
                        continue;
                    }
                    let block = self.fetch((i, j))?;
                    let from = if below { ux.clone() } else { x.clone() };
                    let into = if below { &mut lux } else { &mut ux };
                    grid.apply((i, j), &block, below, &from, into);
                }
            }
        }
        grid.apply_original(&x, &mut ax);
        Ok(Some(lux.iter().zip(&ax).map(|(got, wanted)| (got - wanted).abs()).fold(0.0, f64::max)))
    }
}

pub(crate) fn run(world: &World, arguments: &[String]) -> Result<()> {
    let (plan, designs) = parse(arguments)?;
    let flops = 2.0 * (plan.size as f64).powi(3) / 3.0;
    let mut first: Option<f64> = None;
    for design in designs {
        let outcome = factor(world, &plan, &design)?;
        let Some(residual) = outcome.residual else { continue };
        let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
        let parts: Vec<String> = outcome.split.named()[1..]
            .iter()
            .map(|&(name, ns)| format!("{name} {}", ms(ns)))
            .collect();
        let total = outcome.split.total;
        say(format_args!(
            "{design:9}  {} x {} in blocks of {}, {} ranks: {} ({:.2} GFlop/s), of a rank: {}; \
             residual {residual:.1e} (limit {:.1e})",
            plan.size,
            plan.size,
            plan.block,
            world.size(),
            ms(total),
            flops / total,
            parts.join(", "),
            1e-10 * plan.size as f64,
        ))?;
        if residual.is_nan() || residual > 1e-10 * plan.size as f64 {
            return Err(Error::Program(format!(
                "the factors are wrong: the residual is {residual:e}"
            )));
        }
        match first {
            None => first = Some(total),
            Some(first) => say(format_args!(
                "{design:9}  takes {:.2} times the time of the first",
                total / first
            ))?,
        }
    }
    Ok(())
}

const FLAGS: [Flag; 7] = [
    Flag::new("--size", "N", "rows and columns of the matrix"),
    Flag::new("--block", "N", "rows and columns of a block"),
    Flag::new(
        "--design",
        "DESIGN,…",
        "which passive epochs, one after the other: direct, two-sided, backoff, published",
    ),
    Flag::new("--refetch", "yes", "fetch a block anew for every block that needs it"),
    Flag::new("--ahead", "yes", "fetch the next block while products are computed"),
    Flag::new("--flop-ns", "NS", "in virtual time: how long an operation on numbers takes"),
    Flag::new(
        "--library-ns",
        "NS",
        "in virtual time: how long a request of the two-sided design takes its target",
    ),
];

pub(crate) fn help() -> String {
    Flag::help(&FLAGS)
}

pub(crate) fn parse(arguments: &[String]) -> Result<(Plan, Vec<String>)> {
    let (mut plan, mut designs) =
        (Plan::default(), vec!["direct".to_owned(), "two-sided".to_owned()]);
    Flag::read("lu", &FLAGS, arguments, |flag, value| {
        let bad = || Error::InvalidArgument(format!("{value:?} is not a value for {flag}"));
        match flag {
            "--size" => plan.size = value.parse().map_err(|_| bad())?,
            "--block" => plan.block = value.parse().map_err(|_| bad())?,
            "--flop-ns" => {
                plan.flop_ns = value.parse().ok().filter(|ns: &f64| *ns >= 0.0).ok_or_else(bad)?
            }
            "--library-ns" => plan.library_ns = value.parse().map_err(|_| bad())?,
            "--refetch" => plan.refetch = value == "yes",
            "--ahead" => plan.ahead = value == "yes",
            "--design" => designs = value.split(',').map(str::to_owned).collect(),
            _ => return Err(bad()),
        }
        Ok(())
    })?;
    Ok((plan, designs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_factors_at_every_number_of_ranks() {
        for ranks in [1, 2, 3, 6] {
            let outcomes = farside::local(ranks, |world| {
                let plan = Plan { size: 75, block: 16, ..Plan::default() };
                DESIGNS
                    .iter()
                    .map(|design| factor(world, &plan, design))
                    .collect::<Result<Vec<_>>>()
            });
            for outcome in &outcomes.unwrap()[0] {
                assert!(outcome.residual.unwrap() < 1e-10 * 75.0, "{outcome:?}");
                let parts: f64 = outcome.split.named()[1..].iter().map(|(_, ns)| ns).sum();
                assert!(parts <= outcome.split.total * 1.01, "{outcome:?}");
            }
        }
    }

    #[test]
    fn blocks_that_are_fetched_ahead_are_the_same_and_cost_less() {
        let profile = farside::sim::Profile::load("infiniband-2008").unwrap();
        for refetch in [false, true] {
            let of = |ahead: bool, design: &'static str| {
                let plan = Plan { size: 300, block: 32, refetch, ahead, ..Plan::default() };
                let run =
                    farside::sim::run(&profile, 6, 1, move |world| factor(world, &plan, design));
                let outcome = run.unwrap().results[0];
                assert!(outcome.residual.unwrap() < 1e-10 * 300.0, "{outcome:?}");
                outcome.split.unlock
            };
            let (then, ahead) = (of(false, "direct"), of(true, "direct"));
            assert!(ahead < 0.8 * then, "{then} ns in unlocks, ahead {ahead} ns");
            of(true, "two-sided");
        }
    }

    #[test]
    fn bad_arguments_are_named() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, named) in
            [("--size x", "\"x\""), ("--sise 3", "--sise"), ("--block", "needs a value")]
        {
            assert!(parse(&words(text)).unwrap_err().to_string().contains(named), "{text}");
        }
        let (plan, designs) = parse(&words("--size=64 --block 8 --design direct")).unwrap();
        assert_eq!((plan.size, plan.block, designs.len()), (64, 8, 1));
        let bad = farside::local(1, |world| {
            factor(world, &Plan { size: 4, block: 9, ..Plan::default() }, "direct")
        });
        assert!(bad.unwrap_err().to_string().contains("blocks of 9"));
    }
}

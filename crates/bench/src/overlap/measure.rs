//! What each rank of `farside bench overlap` runs.

use std::hint::black_box;
use std::time::Duration;

use farside::epoch::{Design, LockAgent, Mode, Options, Window};
use farside::{Error, Rank, Result, World};

use super::{BYTES, LATENCY, Plan, RECEIVER, SENDER};
use crate::timing::{measure, median};
use crate::turns::sample;

/// By how much computation grows, and how much longer the whole may take before that counts, both as parts of the epoch's own time.
const STEP: f64 = 0.05;
const TOLERANCE: f64 = 0.03;
/// How much the target computes, in slices.
const SLICES: u64 = 40;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let largest = plan.sizes.iter().copied().max().unwrap_or(8);
    let largest = largest.max(BYTES * plan.operations.iter().copied().max().unwrap_or(1));
    let agent = match plan.designs.iter().any(|design| design == "backoff") {
        true => Some(LockAgent::new(world)?),
        false => None,
    };
    let labour = Labour::new(world);
    let mut samples = Vec::new();
    for name in &plan.designs {
        let design = match (name.as_str(), agent) {
            ("direct", _) => Design::Direct,
            ("backoff", Some(agent)) => Design::Backoff(agent),
            ("two-sided", _) => Design::TwoSided { library_ns: plan.library_ns, message_bytes: plan.message_bytes },
            _ => return Err(Error::Misuse(format!("there is no design {name:?}"))),
        };
        let window = Window::allocate(world, largest, Options::new().design(design))?;
        let bench = Bench { world, plan, window: &window, design: name, labour: &labour, target: target_of(world) };
        if plan.has(LATENCY) {
            samples.extend(bench.latency()?);
        }
        if plan.has(SENDER) {
            samples.extend(bench.sender()?);
        }
        if plan.has(RECEIVER) {
            samples.extend(bench.receiver()?);
        }
        window.barrier()?;
        window.free()?;
    }
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

/// Everything is done to this rank: on another node if there is one.
fn target_of(world: &World) -> Rank {
    let topology = world.topology();
    world.ranks().find(|&rank| !topology.same_node(rank, Rank(0))).unwrap_or(Rank(1))
}

/// Computation: a fixed number of steps, so that whoever takes processor time away is noticed; on simulated machines, virtual time.
struct Labour {
    is_virtual: bool,
    steps_per_us: f64,
}

impl Labour {
    fn new(world: &World) -> Labour {
        let is_virtual = world.fabric().caps().name == "sim";
        if is_virtual {
            return Labour { is_virtual, steps_per_us: 0.0 };
        }
        // The fastest of some runs is the one that nobody has disturbed.
        let run = |_| {
            let begin_ns = world.now_ns();
            toil(1_000_000);
            world.now_ns() - begin_ns
        };
        let ns = (0..7).map(run).min().unwrap_or(1).max(1);
        Labour { is_virtual, steps_per_us: 1e9 / ns as f64 }
    }

    fn work(&self, world: &World, ns: f64) {
        if self.is_virtual {
            world.work(ns as u64);
        } else {
            toil((self.steps_per_us * ns / 1e3) as u64);
        }
    }
}

fn toil(steps: u64) {
    let mut value = black_box(1u64);
    for _ in 0..steps {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(value);
}

struct Bench<'a, 'w> {
    world: &'a World,
    plan: &'a Plan,
    window: &'a Window<'w>,
    design: &'a str,
    labour: &'a Labour,
    target: Rank,
}

impl Bench<'_, '_> {
    /// An epoch with so many puts or gets, and some computation before it ends.
    fn epoch(&self, operation: &str, data: &[u8], count: usize, compute_ns: f64) -> Result<()> {
        self.window.lock(self.target, Mode::Exclusive)?;
        match operation {
            // Each has bytes of its own: two puts of one epoch to the same bytes would be an error.
            "put" => {
                (0..count).try_for_each(|at| self.window.put(black_box(data), self.target, (at * data.len()) as u64))?
            }
            _ => (0..count).try_for_each(|at| {
                self.window.get::<u8>(self.target, (at * data.len()) as u64, data.len()).map(drop)
            })?,
        }
        if compute_ns > 0.0 {
            self.labour.work(self.world, compute_ns);
        }
        self.window.unlock(self.target)
    }

    fn time(&self, operation: &str, data: &[u8], count: usize, compute_ns: f64, time: Duration) -> Result<f64> {
        let clock_ns = || self.world.now_ns();
        measure(&clock_ns, time, |epochs| (0..epochs).try_for_each(|_| self.epoch(operation, data, count, compute_ns)))
    }

    /// Rank 0 does something, and all others wait in the library.
    fn alone(&self, run: impl FnOnce() -> Result<Vec<String>>) -> Result<Vec<String>> {
        self.window.barrier()?;
        let samples = if self.world.rank() == Rank(0) { run()? } else { Vec::new() };
        self.window.barrier()?;
        Ok(samples)
    }

    fn latency(&self) -> Result<Vec<String>> {
        let mut samples = self.alone(|| self.latencies("idle"))?;
        self.window.barrier()?;
        // One measurement for each spell of computation: whoever needs the target waits until it is over.
        for operation in ["put", "get"] {
            for &bytes in &self.plan.sizes {
                self.window.barrier()?;
                if self.world.rank() == Rank(0) {
                    samples.extend(self.one_latency(operation, bytes, "computing")?);
                } else if self.world.rank() == self.target {
                    self.world.work((self.plan.time.mul_f64(1.5) + Duration::from_millis(50)).as_nanos() as u64);
                }
                self.window.barrier()?;
            }
        }
        Ok(samples)
    }

    fn latencies(&self, target: &str) -> Result<Vec<String>> {
        let mut samples = Vec::new();
        for operation in ["put", "get"] {
            for &bytes in &self.plan.sizes {
                samples.extend(self.one_latency(operation, bytes, target)?);
            }
        }
        Ok(samples)
    }

    fn one_latency(&self, operation: &str, bytes: usize, target: &str) -> Result<Option<String>> {
        let data = vec![1u8; bytes];
        let mut into = vec![0u8; bytes];
        let clock_ns = || self.world.now_ns();
        let ns = measure(&clock_ns, self.plan.time, |epochs| {
            (0..epochs).try_for_each(|_| {
                self.window.lock(self.target, Mode::Exclusive)?;
                match operation {
                    "put" => self.window.put(black_box(&data), self.target, 0)?,
                    // Where nothing overlaps, a get goes straight into the caller's memory, unless the design queues it.
                    _ if self.design != "two-sided" => self.window.get_into(&mut into, self.target, 0)?,
                    _ => drop(self.window.get::<u8>(self.target, 0, bytes)?),
                }
                self.window.unlock(self.target)
            })
        })?;
        black_box(&into);
        Ok(Some(sample(LATENCY, &[&self.design, &operation, &bytes, &1, &target], &[Some(ns), None, None])))
    }

    fn sender(&self) -> Result<Vec<String>> {
        self.alone(|| {
            let mut samples = Vec::new();
            for operation in ["put", "get"] {
                for &bytes in &self.plan.sizes {
                    samples.push(self.overlap(operation, bytes, 1)?);
                }
                for &count in self.plan.operations.iter().filter(|&&count| count > 1) {
                    samples.push(self.overlap(operation, BYTES, count)?);
                }
            }
            Ok(samples)
        })
    }

    /// Lets computation grow until the whole takes longer.
    fn overlap(&self, operation: &str, bytes: usize, count: usize) -> Result<String> {
        let data = vec![1u8; bytes];
        let time = self.plan.time / 4;
        // What the figure compares with is measured several times, in turns with nothing else.
        let mut alone: Vec<f64> =
            (0..3).map(|_| self.time(operation, &data, count, 0.0, time)).collect::<Result<_>>()?;
        let alone_ns = median(&mut alone);
        let (mut hidden, mut part) = (0.0, STEP);
        while part < 1.0 + STEP / 2.0 {
            let ns = self.time(operation, &data, count, part * alone_ns, time)?;
            if ns > alone_ns * (1.0 + TOLERANCE) {
                break;
            }
            hidden = part;
            part += STEP;
        }
        let figures = [Some(alone_ns), Some(100.0 * hidden), None];
        Ok(sample(SENDER, &[&self.design, &operation, &bytes, &count, &"idle"], &figures))
    }

    /// The target computes, with and without the others' epochs.
    fn receiver(&self) -> Result<Vec<String>> {
        let done = self.world.words(1)?;
        let (mut alone, mut disturbed) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            for is_disturbed in [false, true] {
                self.window.barrier()?;
                let mut took_ns = 0;
                if self.world.rank() == self.target {
                    took_ns = self.compute()?;
                    for peer in self.world.ranks().filter(|&peer| peer != self.target) {
                        self.world.signal(done.at(peer, 0), 1)?;
                    }
                } else if is_disturbed {
                    let own = done.at(self.world.rank(), 0);
                    while self.world.load(own)? == 0 {
                        self.window.lock(self.target, Mode::Exclusive)?;
                        drop(self.window.get::<u8>(self.target, 0, BYTES)?);
                        self.window.unlock(self.target)?;
                    }
                }
                self.window.barrier()?;
                self.world.store(done.at(self.world.rank(), 0), 0)?;
                self.window.barrier()?;
                let mut took_ns = [took_ns];
                self.world.broadcast(self.target, &mut took_ns)?;
                if is_disturbed { disturbed.push(took_ns[0] as f64) } else { alone.push(took_ns[0] as f64) }
            }
        }
        done.free(self.world)?;
        let (alone_ns, ns) = (median(&mut alone), median(&mut disturbed));
        let figures = [Some(ns), Some(100.0 * (alone_ns / ns).min(1.0)), Some(alone_ns)];
        Ok(vec![sample(RECEIVER, &[&self.design, &"get", &BYTES, &1, &"computing"], &figures)])
    }

    /// A fixed amount of computation, with a call of the library after each slice.
    fn compute(&self) -> Result<u64> {
        let begin_ns = self.world.now_ns();
        for _ in 0..SLICES {
            self.labour.work(self.world, self.plan.slice_us as f64 * 1e3);
            self.window.progress()?;
        }
        Ok(self.world.now_ns() - begin_ns)
    }
}

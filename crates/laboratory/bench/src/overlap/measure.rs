//! What each rank of `farside bench overlap` runs.

use std::hint::black_box;
use std::time::Duration;

use farside::epoch::{Design, LockAgent, Mode, Options, Window};
use farside::{Error, Prices, Rank, Result, World};

use super::{BYTES, LATENCY, Plan, RECEIVER, SENDER};
use crate::driver::{peer_of_first, sample};
use crate::timing::{measure, median};

/// In how many steps computation grows to the epoch's own time.
const STEPS: u32 = 20;
/// How much longer the whole may take before that counts, as a part of the epoch's own time.
const TOLERANCE: f64 = 0.03;
/// How often each step is measured.
const TURNS: u32 = 5;
/// How often it is measured anew on real ranks before a step counts as longer.
const SETS: u32 = 4;
/// How much the target computes, in slices.
const SLICES: u64 = 40;

/// Runs a plan as a rank; rank 0 returns its samples.
pub(super) fn run(world: &World, plan: &Plan) -> Result<Vec<String>> {
    let largest = plan.sizes.iter().copied().max().unwrap_or(8);
    let largest = plan.receiver_sizes.iter().copied().fold(largest, usize::max);
    let largest = largest.max(BYTES * plan.operations.iter().copied().max().unwrap_or(1));
    let asks_agents = |design: &String| ["backoff", "published"].contains(&design.as_str());
    let agent = match plan.designs.iter().any(asks_agents) {
        true => Some(LockAgent::new(world)?),
        false => None,
    };
    world.set_prices(Prices { message_ns: plan.library_ns, ..Prices::default() });
    let labour = Labour::new(world);
    let mut samples = Vec::new();
    for name in &plan.designs {
        let design = match (name.as_str(), agent) {
            ("direct", _) => Design::Direct,
            ("backoff", Some(agent)) => Design::Backoff(agent),
            ("published", Some(agent)) => Design::Published(agent),
            ("two-sided", _) => Design::TwoSided { message_bytes: plan.message_bytes },
            _ => return Err(Error::InvalidArgument(format!("there is no design {name:?}"))),
        };
        let window = Window::allocate(world, largest, Options::new().design(design))?;
        let bench = Bench {
            world,
            plan,
            window: &window,
            design: name,
            labour: &labour,
            target: peer_of_first(world),
        };
        if plan.has(LATENCY) {
            samples.extend(bench.latency()?);
        }
        if plan.has(SENDER) {
            bench.place(Rank(0))?;
            samples.extend(bench.sender()?);
        }
        if plan.has(RECEIVER) {
            bench.place(bench.target)?;
            for &bytes in &plan.receiver_sizes {
                samples.push(bench.receiver(bytes)?);
            }
        }
        window.barrier()?;
        window.free()?;
    }
    Ok(if world.rank() == Rank(0) { samples } else { Vec::new() })
}

/// Computation: a fixed number of steps, so that lost processor time is noticed; on
/// simulated machines, virtual time.
struct Labour {
    is_virtual: bool,
    steps_per_us: f64,
}

impl Labour {
    fn new(world: &World) -> Labour {
        let is_virtual = world.job().caps.name == "sim";
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
        value =
            value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
    /// Gives a rank a processor for itself, if there is one to give.
    fn place(&self, computes: Rank) -> Result<()> {
        let Some((alone, others)) = &self.plan.apart else { return Ok(()) };
        let cores = if self.world.rank() == computes { alone } else { others };
        cores.pin().map_err(|error| Error::System {
            call: "choosing the processors of a rank",
            errno: error.raw_os_error().unwrap_or(0),
        })
    }

    /// An epoch with a put of each of the buffers or a get as long as each, and some computation
    /// before it ends.
    fn epoch(&self, operation: &str, buffers: &mut [Vec<u8>], compute_ns: f64) -> Result<()> {
        self.window.lock(self.target, Mode::Exclusive)?;
        let (mut puts, mut gets, mut at) = (Vec::new(), Vec::new(), 0);
        for buffer in &mut *buffers {
            // Each has bytes of its own: two puts of one epoch to the same bytes would be an error.
            let bytes = buffer.len() as u64;
            let buffer = std::mem::take(buffer);
            match operation {
                "put" => puts.push(self.window.put_request(buffer, self.target, at)?),
                _ => gets.push(self.window.get_request(buffer, self.target, at)?),
            }
            at += bytes;
        }
        if compute_ns > 0.0 {
            self.labour.work(self.world, compute_ns);
        }
        self.window.unlock(self.target)?;
        let back =
            puts.into_iter().map(|put| put.take()).chain(gets.into_iter().map(|get| get.take()));
        buffers.iter_mut().zip(back).try_for_each(|(buffer, data)| data.map(|data| *buffer = data))
    }

    fn time(
        &self,
        operation: &str,
        buffers: &mut [Vec<u8>],
        compute_ns: f64,
        time: Duration,
    ) -> Result<f64> {
        let clock_ns = || self.world.now_ns();
        measure(&clock_ns, time, |epochs| {
            (0..epochs).try_for_each(|_| self.epoch(operation, buffers, compute_ns))
        })
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
        // One measurement for each spell of computation: whoever needs the target waits until it is
        // over.
        for operation in ["put", "get"] {
            for &bytes in &self.plan.sizes {
                self.window.barrier()?;
                if self.world.rank() == Rank(0) {
                    samples.extend(self.one_latency(operation, bytes, "computing")?);
                } else if self.world.rank() == self.target {
                    self.world
                        .work((self.plan.time.mul_f64(1.5) + Duration::from_millis(50)).as_nanos()
                            as u64);
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
                    // Where nothing overlaps, a get goes straight into the caller's memory, unless
                    // the design queues it.
                    _ if self.design != "two-sided" => {
                        self.window.get_into(&mut into, self.target, 0)?
                    }
                    _ => drop(self.window.get::<u8>(self.target, 0, bytes)?),
                }
                self.window.unlock(self.target)
            })
        })?;
        black_box(&into);
        Ok(Some(sample(
            LATENCY,
            &[&self.design, &operation, &bytes, &1, &target, &self.plan.cores()],
            &[Some(ns), None, None, None],
        )))
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

    /// Returns the longest computation that, like all shorter ones, does not make the whole take
    /// longer: one rule for real ranks and for virtual time.
    fn overlap(&self, operation: &str, bytes: usize, count: usize) -> Result<String> {
        let mut buffers = vec![vec![1u8; bytes]; count];
        let mut time =
            |compute_ns: f64| self.time(operation, &mut buffers, compute_ns, self.plan.time / 4);
        // The fastest of each, in turns, and more of them where it looks longer: what somebody else
        // disturbs is not taken for growth. In virtual time nobody disturbs.
        let (turns, sets) = if self.labour.is_virtual { (1, 1) } else { (TURNS, SETS) };
        let mut alone_ns = f64::INFINITY;
        for _ in 0..turns {
            alone_ns = alone_ns.min(time(0.0)?);
        }
        let (longest_ns, mut hidden_ns) = (alone_ns, 0.0);
        for step in 1..=STEPS {
            let compute_ns = longest_ns * f64::from(step) / f64::from(STEPS);
            let (mut alone, mut busy) = (f64::INFINITY, f64::INFINITY);
            let is_hidden = |alone: f64, busy: f64| busy <= alone * (1.0 + TOLERANCE);
            for _ in 0..sets {
                for _ in 0..turns {
                    alone = alone.min(time(0.0)?);
                    busy = busy.min(time(compute_ns)?);
                }
                if is_hidden(alone, busy) {
                    break;
                }
            }
            if !is_hidden(alone, busy) {
                break;
            }
            hidden_ns = compute_ns;
            alone_ns = alone_ns.min(alone);
        }
        // Where everything is queued, an epoch without operations is nothing at all.
        let empty_ns = match self.design {
            "two-sided" => 0.0,
            _ => self.time(operation, &mut [], 0.0, self.plan.time / 4)?,
        };
        let part = |of_ns: f64| 100.0 * (hidden_ns / of_ns.max(1.0)).min(1.0);
        let figures = [Some(alone_ns), Some(part(alone_ns)), Some(part(alone_ns - empty_ns)), None];
        Ok(sample(
            SENDER,
            &[&self.design, &operation, &bytes, &count, &"idle", &self.plan.cores()],
            &figures,
        ))
    }

    /// The target computes, with and without the others' epochs.
    fn receiver(&self, bytes: usize) -> Result<String> {
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
                        drop(self.window.get::<u8>(self.target, 0, bytes)?);
                        self.window.unlock(self.target)?;
                    }
                }
                self.window.barrier()?;
                self.world.store(done.at(self.world.rank(), 0), 0)?;
                self.window.barrier()?;
                let mut took_ns = [took_ns];
                self.world.broadcast(self.target, &mut took_ns)?;
                if is_disturbed {
                    disturbed.push(took_ns[0] as f64)
                } else {
                    alone.push(took_ns[0] as f64)
                }
            }
        }
        done.free(self.world)?;
        let (alone_ns, ns) = (median(&mut alone), median(&mut disturbed));
        let figures = [Some(ns), Some(100.0 * (alone_ns / ns).min(1.0)), None, Some(alone_ns)];
        Ok(sample(
            RECEIVER,
            &[&self.design, &"get", &bytes, &1, &"computing", &self.plan.cores()],
            &figures,
        ))
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

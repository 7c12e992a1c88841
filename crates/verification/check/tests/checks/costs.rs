//! The *Cost* lines of the locks, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind as Operation;
use farside::lock::{Kind, entries};
use farside::{Local, Lock, Rank, Result, World};

struct Cost {
    lock: &'static str,
    /// Its parameters; the usual ones if they are not said.
    kind: Option<fn() -> Kind>,
    /// Where the two ranks of the job are.
    topology: &'static str,
    case: Case,
    acquire: Operations,
    release: Operations,
}

/// The situation in which costs are counted. The home is rank 0.
#[derive(Debug, Clone, Copy)]
enum Case {
    /// Either rank takes the lock alone.
    Alone,
    AloneAtHome,
    AloneAway,
    /// The other rank waits for it, and the home passes it on.
    Passed,
}

/// Operations that a rank has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operations {
    /// Atomics, loads and stores among them.
    atomics: u64,
    signals: u64,
    /// Calls to an agent.
    calls: u64,
}

const CALL: Operations = Operations { atomics: 0, signals: 0, calls: 1 };

const fn atomics(atomics: u64) -> Operations {
    Operations { atomics, signals: 0, calls: 0 }
}

const fn and_signal(atomics: u64) -> Operations {
    Operations { atomics, signals: 1, calls: 0 }
}

const fn cost(
    lock: &'static str,
    topology: &'static str,
    case: Case,
    acquire: Operations,
    release: Operations,
) -> Cost {
    Cost { lock, kind: None, topology, case, acquire, release }
}

const COSTS: &[Cost] = &[
    cost("default", "node:1", Case::Alone, atomics(1), atomics(1)),
    Cost {
        kind: Some(|| Kind::Bypass { batch: 64, bound: 64, polls: 200 }),
        ..cost("default", "node:2", Case::Alone, atomics(1), atomics(1))
    },
    cost("ticket", "node:1", Case::Alone, atomics(2), atomics(1)),
    cost("server", "node:2", Case::Alone, CALL, CALL),
    cost("server", "node:1", Case::Passed, CALL, CALL),
    cost("hybrid", "node:2", Case::AloneAtHome, atomics(2), CALL),
    cost("hybrid", "node:2", Case::AloneAway, CALL, CALL),
    cost("hybrid", "node:2", Case::Passed, CALL, CALL),
    cost("server-posted", "node:2", Case::AloneAway, CALL, CALL),
    cost("hybrid-posted", "node:2", Case::AloneAway, CALL, CALL),
    cost("d-mcs", "node:1", Case::Alone, atomics(1), atomics(2)),
    // The waiter swaps the tail, and resets its status; the holder reads and resets its next.
    cost("d-mcs", "node:1", Case::Passed, and_signal(2), and_signal(2)),
    cost("d-mcs-token", "node:1", Case::Alone, atomics(2), atomics(1)),
    cost("d-mcs-token", "node:1", Case::Passed, atomics(4), and_signal(1)),
    cost("d-mcs-packed", "node:1", Case::Alone, atomics(1), atomics(2)),
    cost("d-mcs-packed", "node:1", Case::Passed, and_signal(2), and_signal(2)),
    cost("rma-mcs", "node:1", Case::Alone, atomics(1), atomics(2)),
    cost("rma-mcs", "node:1", Case::Passed, and_signal(2), and_signal(2)),
    cost("fompi-spin", "node:1", Case::Alone, atomics(1), and_signal(0)),
    cost("fompi-spin-backoff", "node:1", Case::Alone, atomics(1), and_signal(0)),
    cost("semaphore", "node:1", Case::Alone, atomics(3), atomics(1)),
];

fn read(counts: &Counts, rank: Rank) -> Operations {
    Operations {
        atomics: counts.total(rank, Operation::Atomic),
        signals: counts.total(rank, Operation::Post),
        calls: counts.total(rank, Operation::Call),
    }
}

fn since(counts: &Counts, rank: Rank, before: Operations) -> Operations {
    let now = read(counts, rank);
    Operations {
        atomics: now.atomics - before.atomics,
        signals: now.signals - before.signals,
        calls: now.calls - before.calls,
    }
}

/// Runs a program of two ranks with its counts. All operations are seen, near ones too.
fn counted(topology: &str, run: impl Fn(&World, &Counts) -> Result<()> + Sync) {
    let counts = Counts::new(2);
    let over = counts.clone();
    let job = Local::new(2).expect("the environment is in order").topology(topology);
    let result = job.decorate(move |fabric| over.over(fabric)).run(|world| run(world, &counts));
    assert_eq!(result.map(drop), Ok(()));
}

fn alone(kind: &Kind, cost: &Cost, asker: Rank) {
    let Cost { topology, acquire, release, .. } = *cost;
    counted(topology, |world, counts| {
        let lock = Lock::of_kind(world, Rank(0), kind)?;
        world.barrier()?;
        if world.rank() == asker {
            // The second time, nothing of the first is under way any more.
            for _ in 0..2 {
                let before = read(counts, asker);
                let guard = lock.lock(world)?;
                assert_eq!(since(counts, asker, before), acquire, "{kind:?}: acquire");
                let before = read(counts, asker);
                guard.unlock()?;
                assert_eq!(since(counts, asker, before), release, "{kind:?}: release");
                world.flush(Rank(0))?;
            }
        }
        world.barrier()?;
        lock.free(world)
    });
}

/// The cost of a request that is queued behind a holder, and of the release that passes the lock to
/// it.
fn passed(kind: &Kind, cost: &Cost) {
    let Cost { topology, acquire, release, .. } = *cost;
    let asks = AtomicU64::new(u64::MAX);
    counted(topology, |world, counts| {
        let (me, lock) = (world.rank(), Lock::of_kind(world, Rank(0), kind)?);
        if me == Rank(0) {
            let guard = lock.lock(world)?;
            world.barrier()?;
            // The waiter waits, and has not waited when it was about to ask: it is queued.
            while counts.total(Rank(1), Operation::Wait) <= asks.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let before = read(counts, me);
            guard.unlock()?;
            assert_eq!(since(counts, me, before), release, "{kind:?}: release");
        } else {
            world.barrier()?;
            let before = read(counts, me);
            asks.store(counts.total(me, Operation::Wait), Ordering::SeqCst);
            let guard = lock.lock(world)?;
            assert_eq!(since(counts, me, before), acquire, "{kind:?}: acquire");
            drop(guard);
        }
        world.barrier()?;
        lock.free(world)
    });
}

#[test]
fn every_lock_costs_what_its_file_says() {
    for entry in entries() {
        let costs = || COSTS.iter().filter(|cost| cost.lock == entry.name);
        assert!(costs().count() > 0, "{} says nothing of its cost", entry.name);
        for cost in costs() {
            let kind = cost.kind.unwrap_or(entry.kind)();
            match cost.case {
                Case::Alone => {
                    alone(&kind, cost, Rank(0));
                    alone(&kind, cost, Rank(1));
                }
                Case::AloneAtHome => alone(&kind, cost, Rank(0)),
                Case::AloneAway => alone(&kind, cost, Rank(1)),
                Case::Passed => passed(&kind, cost),
            }
        }
    }
}

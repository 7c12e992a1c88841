//! The *Cost* lines of the locks, which their rows of the registry repeat, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind as Operation;
use farside::lock::registry::{Case, Cost, Operations};
use farside::lock::{Kind, entries};
use farside::{Local, Lock, Rank, Result, World};

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

/// The cost of an acquire and of a release that no other rank disturbs.
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
        assert!(!entry.costs.is_empty(), "{} says nothing of its cost", entry.name);
        for cost in entry.costs {
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

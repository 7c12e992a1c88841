//! The *Cost* lines of the locks, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use farside::counting::Counts;
use farside::lock::Kind;
use farside::observed::Kind as Operation;
use farside::{Local, Lock, Rank, Result, World};

/// What a rank has done: atomics (loads among them), signals, calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Done {
    atomics: u64,
    signals: u64,
    calls: u64,
}

fn done(atomics: u64, signals: u64, calls: u64) -> Done {
    Done { atomics, signals, calls }
}

fn read(counts: &Counts, rank: Rank) -> Done {
    done(
        counts.total(rank, Operation::Atomic),
        counts.total(rank, Operation::Post),
        counts.total(rank, Operation::Call),
    )
}

fn since(counts: &Counts, rank: Rank, before: Done) -> Done {
    let now = read(counts, rank);
    done(now.atomics - before.atomics, now.signals - before.signals, now.calls - before.calls)
}

/// Runs a program of two ranks with its counts. All operations are seen, near ones too.
fn counted(topology: &str, run: impl Fn(&World, &Counts) -> Result<()> + Sync) {
    let counts = Counts::new(2);
    let over = counts.clone();
    let job = Local::new(2).expect("the environment is in order").topology(topology);
    let result = job.decorate(move |fabric| over.over(fabric)).run(|world| run(&world, &counts));
    assert_eq!(result.map(drop), Ok(()));
}

/// The cost of an acquire and of a release that nobody disturbs.
fn alone(kind: &Kind, topology: &str, asker: Rank, acquire: Done, release: Done) {
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

#[test]
fn alone_a_lock_costs_what_its_file_says() {
    for asker in [Rank(0), Rank(1)] {
        alone(&Kind::Default, "node:1", asker, done(1, 0, 0), done(1, 0, 0));
        alone(
            &Kind::Bypass { batch: 64, bound: 64, polls: 200 },
            "node:2",
            asker,
            done(1, 0, 0),
            done(1, 0, 0),
        );
        alone(&Kind::Ticket, "node:1", asker, done(2, 0, 0), done(1, 0, 0));
        alone(&Kind::Mcs, "node:1", asker, done(1, 0, 0), done(2, 0, 0));
        alone(&Kind::Token, "node:1", asker, done(2, 0, 0), done(1, 0, 0));
        alone(&Kind::Spin { backoff: false }, "node:1", asker, done(1, 0, 0), done(0, 1, 0));
        alone(&Kind::Server, "node:2", asker, done(0, 0, 1), done(0, 0, 1));
        alone(&Kind::Tree { thresholds: vec![] }, "node:1", asker, done(1, 0, 0), done(2, 0, 0));
    }
    alone(&Kind::Hybrid, "node:2", Rank(0), done(2, 0, 0), done(0, 0, 1));
    alone(&Kind::Hybrid, "node:2", Rank(1), done(0, 0, 1), done(0, 0, 1));
}

/// The cost of a request that is queued behind a holder, and of the release that passes the lock to
/// it.
fn passed(kind: &Kind, topology: &str, acquire: Done, release: Done) {
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
fn passing_a_lock_costs_what_its_file_says() {
    // The waiter swaps the tail, and resets its status; the holder reads its next and resets it.
    passed(&Kind::Mcs, "node:1", done(2, 1, 0), done(2, 1, 0));
    passed(&Kind::Tree { thresholds: vec![] }, "node:1", done(2, 1, 0), done(2, 1, 0));
    passed(&Kind::Token, "node:1", done(4, 0, 0), done(1, 1, 0));
    passed(&Kind::Server, "node:1", done(0, 0, 1), done(0, 0, 1));
    passed(&Kind::Hybrid, "node:2", done(0, 0, 1), done(0, 0, 1));
}

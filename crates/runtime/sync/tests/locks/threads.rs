//! The locks with thread ranks: exact counts under contention, misuse, time limits, deaths.

use std::time::Duration;

use farside::lock::Kind;
use farside::{Error, ExitCause, Local, Lock, Rank, Result, World};

fn every_kind() -> Vec<Kind> {
    let mut kinds = Kind::all();
    kinds.push(Kind::Bypass { batch: 1, bound: 1, polls: 0 });
    kinds.push(Kind::Bypass { batch: 2, bound: 5, polls: 2 });
    kinds.push(Kind::RmaMcs { thresholds: vec![2] });
    kinds
}

fn rounds() -> u64 {
    if std::env::var_os("FARSIDE_LONG").is_some() { 10_000 } else { 30 }
}

/// Everybody counts up under the lock, not atomically, and asks in different ways.
fn count(world: &World, lock: &Lock, rounds: u64) -> Result<u64> {
    let window = world.window::<u64>(1)?;
    let at = window.at(Rank(world.size() - 1), 0);
    let mut mine = 0;
    for round in 0..rounds {
        let guard = match (u64::from(world.rank().0) + round) % 4 {
            0 => lock.try_lock(world)?,
            1 => match lock.lock_timeout(world, Duration::from_micros(50 * (round % 3))) {
                Err(Error::TimedOut { .. }) => None,
                other => Some(other?),
            },
            _ => Some(lock.lock(world)?),
        };
        if let Some(guard) = guard {
            let seen = world.get_value(at)?;
            world.put_value(seen + 1, at)?;
            guard.unlock()?;
            mine += 1;
        }
    }
    world.sync()?;
    let mut all = [mine];
    world.all_reduce(&mut all, |a, b| a + b)?;
    assert_eq!(world.get_value(at)?, all[0], "{}: counts are lost", lock.name());
    world.sync()?;
    window.free(world)?;
    Ok(mine)
}

fn local(ranks: u32) -> Local {
    Local::new(ranks).expect("the environment is in order")
}

fn counts_are_exact(ranks: u32, topology: &str) {
    counts_are_exact_in(|| local(ranks).topology(topology), rounds());
}

fn counts_are_exact_in(job: impl Fn() -> Local, rounds: u64) {
    for kind in every_kind() {
        let done = job().run(|world| {
            let lock = Lock::of_kind(world, Rank(1), &kind)?;
            let mine = count(world, &lock, rounds)?;
            let statistics = lock.statistics();
            assert_eq!(statistics.acquisitions, mine);
            assert_eq!(statistics.acquisitions + statistics.given_up, rounds);
            let bound = if let Kind::Bypass { bound, .. } = kind { bound } else { 32_000 };
            assert!(statistics.longest_bypass <= bound.into());
            lock.free(world)
        });
        assert_eq!(done.map(drop), Ok(()), "{kind:?}");
    }
}

#[test]
fn counts_are_exact_with_64_ranks_on_one_node() {
    counts_are_exact(64, "node:1");
}

#[test]
fn counts_are_exact_with_64_ranks_on_four_nodes() {
    counts_are_exact(64, "rack:2,node:2,socket:2");
}

#[test]
fn counts_are_exact_over_networks() {
    counts_are_exact_in(|| local(8).nodes(4), 20);
    counts_are_exact_in(|| local(8).nodes(4).ofi("tcp;ofi_rxm"), 20);
}

#[test]
fn counts_are_exact_with_as_many_ranks_as_processors() {
    counts_are_exact(2, "node:1");
    counts_are_exact(2, "node:2");
}

#[test]
fn many_locks_do_not_disturb_each_other() {
    let done = farside::local(4, |world| {
        let locks: Vec<Lock> =
            (0..300).map(|number| Lock::new(world, Rank(number % 4))).collect::<Result<_>>()?;
        for lock in &locks {
            let mut guards = vec![lock.lock(world)?];
            guards.extend(
                locks
                    .iter()
                    .skip(298)
                    .map(|lock| lock.try_lock(world))
                    .filter_map(|guard| guard.ok().flatten()),
            );
        }
        locks.into_iter().try_for_each(|lock| lock.free(world))
    });
    assert_eq!(done.map(drop), Ok(()));
}

/// What a rank is told when it does what it must not.
fn misuse(program: impl Fn(&World) -> Result<()> + Sync) -> String {
    farside::local(2, program).expect_err("a misuse").to_string()
}

#[test]
fn who_has_a_lock_cannot_ask_for_it_again() {
    for kind in Kind::all() {
        let told = misuse(|world| {
            let lock = Lock::of_kind(world, Rank(0), &kind)?;
            let guard = lock.lock(world)?;
            let told = lock.lock(world).map(drop);
            guard.unlock()?;
            world.barrier()?;
            lock.free(world)?;
            told
        });
        assert!(told.contains("already holds"), "{told}");
    }
}

#[test]
fn a_lock_that_is_held_cannot_be_freed() {
    let told = misuse(|world| {
        let lock = Lock::new(world, Rank(0))?;
        if world.rank() == Rank(1) {
            std::mem::forget(lock.lock(world)?);
        }
        lock.free(world)
    });
    assert!(told.contains("while rank 1 holds it"), "{told}");
}

#[test]
fn ranks_must_agree_on_a_lock() {
    let told = misuse(|world| Lock::new(world, world.rank()).map(drop));
    assert!(told.contains("disagree on a lock"), "{told}");
    let told = misuse(|world| Lock::new(world, Rank(2)).map(drop));
    assert!(told.contains("rank 2 does not exist"), "{told}");
    let told = misuse(|world| Lock::for_team(&world.team(), Rank(0), &Kind::Server).map(drop));
    assert!(told.contains("not supported"), "{told}");
}

#[test]
fn a_guard_releases_in_a_panic() {
    let done = farside::local(2, |world| {
        let lock = Lock::new(world, Rank(0))?;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock(world);
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(caught.is_err());
        lock.lock(world)?.unlock()?;
        lock.free(world)
    });
    assert_eq!(done.map(drop), Ok(()));
}

#[test]
fn time_limits_are_kept_and_leave_the_lock_usable() {
    for kind in every_kind() {
        let done = farside::local(4, |world| {
            let lock = Lock::of_kind(world, Rank(0), &kind)?;
            for holder in world.ranks() {
                let guard = if world.rank() == holder { Some(lock.lock(world)?) } else { None };
                world.barrier()?;
                if guard.is_none() {
                    let late = lock.lock_timeout(world, Duration::from_millis(2)).map(drop);
                    assert_eq!(late, Err(Error::TimedOut { after_ms: 2 }), "{kind:?}");
                    assert!(lock.try_lock(world)?.is_none());
                }
                world.barrier()?;
                drop(guard);
                lock.lock(world)?.unlock()?;
                world.barrier()?;
            }
            lock.free(world)
        });
        assert_eq!(done.map(drop), Ok(()), "{kind:?}");
    }
}

/// A rank dies with the lock (or in the queue), everybody hears of it, and the survivors go on.
fn recovers(kind: &Kind, victim: Rank, home: Rank, dies_queued: bool) {
    let outcome = std::panic::catch_unwind(|| {
        farside::local(4, |world| {
            let team = world.split(Some(u64::from(world.rank() == victim)), 0)?.expect("a team");
            let mut lock = Lock::of_kind(world, home, kind)?;
            let first = if dies_queued { Rank(1) } else { victim };
            let guard = if world.rank() == first { Some(lock.lock(world)?) } else { None };
            world.barrier()?;
            if world.rank() == victim {
                if dies_queued {
                    let late = lock.lock_timeout(world, Duration::from_millis(5)).map(drop);
                    assert_eq!(late, Err(Error::TimedOut { after_ms: 5 }));
                }
                std::mem::forget(guard);
                std::panic::resume_unwind(Box::new("a rank dies on purpose"));
            }
            let poisoned = Error::Poisoned { rank: victim, how: ExitCause::Panicked };
            if guard.is_none() {
                assert_eq!(lock.lock(world).map(drop), Err(poisoned.clone()), "{kind:?}");
            }
            while world.job().failures.losses.load(std::sync::atomic::Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(guard);
            assert_eq!(lock.lock(world).map(drop), Err(poisoned.clone()), "{kind:?}");
            assert_eq!(lock.try_lock(world).map(drop), Err(poisoned), "{kind:?}");
            lock.recover(&team)?;
            assert_eq!(lock.members(), team.members());
            assert_ne!(lock.home(), victim);
            let (words, first) = (team.words(1)?, team.members()[0]);
            for _ in 0..100 {
                let guard = lock.lock(world)?;
                let seen = world.get_value(words.at(first, 0))?;
                world.put_value(seen + 1, words.at(first, 0))?;
                guard.unlock()?;
            }
            team.sync()?;
            assert_eq!(world.get_value(words.at(first, 0))?, 300, "{kind:?}");
            team.sync()
        })
    });
    let panic = outcome.expect_err("the victim's panic is passed on");
    assert_eq!(
        panic.downcast_ref::<&str>(),
        Some(&"a rank dies on purpose"),
        "{kind:?}: {panic:?}"
    );
}

#[test]
fn a_dead_holder_poisons_the_lock_until_it_is_recovered() {
    for kind in every_kind() {
        recovers(&kind, Rank(2), Rank(0), false);
    }
}

#[test]
fn a_dead_waiter_poisons_the_lock_until_it_is_recovered() {
    for kind in every_kind() {
        recovers(&kind, Rank(2), Rank(0), true);
    }
}

#[test]
fn a_dead_home_is_replaced() {
    for kind in every_kind() {
        recovers(&kind, Rank(2), Rank(2), false);
    }
}

/// With rank 0 goes the agent that runs the handlers of its node, and the next rank's goes on.
#[test]
fn a_dead_first_rank_is_replaced() {
    for kind in every_kind() {
        recovers(&kind, Rank(0), Rank(0), false);
        recovers(&kind, Rank(0), Rank(1), true);
    }
}

#[test]
fn a_stranger_that_dies_does_not_poison_a_team_s_lock() {
    let outcome = std::panic::catch_unwind(|| {
        farside::local(4, |world| {
            let team = world.split(Some(u64::from(world.rank() == Rank(3))), 0)?.expect("a team");
            let lock = Lock::for_team(&team, team.members()[0], &Kind::Default)?;
            world.barrier()?;
            if world.rank() == Rank(3) {
                std::panic::resume_unwind(Box::new("a stranger dies on purpose"));
            }
            while world.job().failures.losses.load(std::sync::atomic::Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                lock.lock(world)?.unlock()?;
            }
            lock.free(&team)
        })
    });
    let panic = outcome.expect_err("the stranger's panic is passed on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a stranger dies on purpose"), "{panic:?}");
}

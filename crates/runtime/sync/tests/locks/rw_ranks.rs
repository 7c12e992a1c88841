//! Reader-writer locks among ranks that are threads: counts are exact, reads are consistent, losses
//! are told, costs are as written.

use std::time::Duration;

use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind as Operation;
use farside::rw::Kind;
use farside::{Error, ExitCause, Local, Rank, Result, RwLock, World};

/// Whether to take the time for more.
fn long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// Everybody writes and reads a pair that is equal whenever nobody writes.
fn count_under(kind: &Kind, ranks: u32, rounds: u64) {
    farside::local(ranks, |world| {
        let lock = RwLock::of_kind(world, Rank(0), kind)?;
        let pair = world.window::<u64>(2)?;
        let at = pair.at(Rank(ranks / 2), 0);
        let mut last = 0;
        for round in 0..rounds {
            if (round + u64::from(world.rank().0)) % 4 == 0 {
                let guard = lock.write(world)?;
                let mut seen = [0; 2];
                world.get(at, &mut seen)?;
                assert_eq!(seen[0], seen[1]);
                world.put(&[seen[0] + 1, seen[0] + 1], at)?;
                guard.unlock()?;
            } else {
                let guard = lock.read(world)?;
                let mut seen = [0; 2];
                world.get(at, &mut seen)?;
                guard.unlock()?;
                assert_eq!(seen[0], seen[1]);
                assert!(seen[0] >= last);
                last = seen[0];
            }
        }
        world.sync()?;
        assert_eq!(world.get_value(at)?, u64::from(ranks) * rounds / 4);
        pair.free(world)?;
        lock.free(world)
    })
    .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
}

#[test]
fn sixty_four_ranks_count_exactly() {
    let rounds = if long() { 10_000 } else { 40 };
    for kind in Kind::all() {
        count_under(&kind, 64, rounds);
    }
}

#[test]
fn four_ranks_count_exactly() {
    for kind in Kind::all() {
        count_under(&kind, 4, if long() { 100_000 } else { 2000 });
    }
}

#[test]
fn misuse_is_told() {
    farside::local(2, |world| {
        for kind in Kind::all() {
            let lock = RwLock::of_kind(world, Rank(0), &kind)?;
            let guard = lock.read(world)?;
            assert!(
                lock.write(world)
                    .map(drop)
                    .unwrap_err()
                    .to_string()
                    .contains("already holds for reading")
            );
            assert!(
                lock.read(world)
                    .map(drop)
                    .unwrap_err()
                    .to_string()
                    .contains("already holds for reading")
            );
            guard.unlock()?;
            let guard = lock.write(world)?;
            assert!(
                lock.try_read(world)
                    .map(drop)
                    .unwrap_err()
                    .to_string()
                    .contains("already holds for writing")
            );
            guard.unlock()?;
            assert!(RwLock::of_kind(world, Rank(9), &kind).is_err());
            lock.free(world)?;
            let lock = RwLock::of_kind(world, Rank(1), &kind)?;
            if world.rank() == Rank(1) {
                std::mem::forget(lock.read(world)?);
            }
            assert!(lock.free(world).unwrap_err().to_string().contains("rank 1 holds it"));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn kinds_that_differ_are_told() {
    let made = farside::local(2, |world| {
        let kind = if world.rank() == Rank(0) { Kind::Default } else { Kind::rma_rw() };
        match RwLock::of_kind(world, Rank(0), &kind) {
            Err(Error::Disagreement { .. }) => Ok(()),
            other => Err(Error::Program(format!("made, or another error: {:?}", other.err()))),
        }
    });
    made.unwrap();
}

#[test]
fn a_limit_on_time_is_kept() {
    for kind in Kind::all() {
        farside::local(3, |world| {
            let lock = RwLock::of_kind(world, Rank(0), &kind)?;
            let short = Duration::from_millis(2);
            for write in [true, false] {
                if world.rank() == Rank(0) {
                    let _guards = (
                        if write { Some(lock.write(world)?) } else { None },
                        if write { None } else { Some(lock.read(world)?) },
                    );
                    world.barrier()?;
                    world.barrier()?;
                } else {
                    world.barrier()?;
                    let late = lock.write_timeout(world, short).map(drop);
                    assert_eq!(late, Err(Error::TimedOut { after_ms: 2 }), "{}", kind.name());
                    assert!(lock.try_write(world)?.is_none(), "{}", kind.name());
                    if write {
                        let late = lock.read_timeout(world, short).map(drop);
                        assert_eq!(late, Err(Error::TimedOut { after_ms: 2 }), "{}", kind.name());
                        assert!(lock.try_read(world)?.is_none(), "{}", kind.name());
                    }
                    world.barrier()?;
                }
                world.barrier()?;
                drop(lock.write(world)?);
                drop(lock.read(world)?);
                world.barrier()?;
            }
            lock.free(world)
        })
        .unwrap();
    }
}

/// Rank 3 is lost while it reads or writes; the others are told, wherever they wait, and go on
/// after they have recovered the lock.
fn lose_a_holder(kind: &Kind, home: Rank, is_writer: bool) {
    let kind = kind.clone();
    let ended = farside::local(4, move |world| {
        let mut lock = RwLock::of_kind(world, home, &kind)?;
        let colour = u64::from(world.rank() == Rank(3));
        let team = world.split(Some(colour), 0)?.expect("a team");
        if world.rank() == Rank(3) {
            let (_write, _read);
            if is_writer {
                _write = std::mem::ManuallyDrop::new(lock.write(world)?);
            } else {
                _read = std::mem::ManuallyDrop::new(lock.read(world)?);
            }
            world.barrier()?;
            return Err(Error::Program("on purpose".into()));
        }
        world.barrier()?;
        let poisoned = |asked: Result<()>| {
            matches!(asked, Err(Error::Poisoned { rank: Rank(3), how: ExitCause::Failed }))
        };
        // Whoever gets in as a reader beside the lost one tries again until it is told.
        loop {
            let asked = if world.rank() == Rank(0) {
                lock.write(world).map(drop)
            } else {
                lock.read(world).map(drop)
            };
            match asked {
                Ok(()) => continue,
                asked => assert!(poisoned(asked), "{}", kind.name()),
            }
            break;
        }
        assert!(poisoned(lock.try_write(world).map(drop)), "{}", kind.name());
        lock.recover(&team)?;
        for _ in 0..50 {
            drop(lock.write(world)?);
            drop(lock.read(world)?);
        }
        assert_eq!(lock.members(), [Rank(0), Rank(1), Rank(2)]);
        Ok(())
    });
    assert_eq!(ended.map(drop).unwrap_err(), Error::Program("on purpose".into()));
}

#[test]
fn a_lost_holder_poisons_and_the_rest_recover() {
    for kind in Kind::all() {
        for is_writer in [true, false] {
            lose_a_holder(&kind, Rank(0), is_writer);
            lose_a_holder(&kind, Rank(3), is_writer);
        }
    }
}

/// How many atomics rank 1 does, all in all.
fn atomics(
    ranks: u32,
    topology: &str,
    kind: &Kind,
    run: impl Fn(&RwLock, &World) -> Result<()> + Sync,
) -> u64 {
    let counts = Counts::new(ranks);
    let over = counts.clone();
    let all = |me: Rank| -> u64 {
        let of = |operation| (0..ranks).map(move |to| (operation, Rank(to)));
        let both = of(Operation::Atomic).chain(of(Operation::Post));
        both.map(|(operation, to)| counts.operations(me, operation, to)).sum()
    };
    let each = |world: &World| {
        let lock = RwLock::of_kind(world, Rank(0), kind)?;
        world.barrier()?;
        let before = all(world.rank());
        if world.rank() == Rank(1) {
            run(&lock, world)?;
        }
        let done = all(world.rank()) - before;
        world.barrier()?;
        lock.free(world)?;
        Ok(done)
    };
    let local = Local::new(ranks).expect("the environment is in order").topology(topology);
    local.decorate(move |fabric| over.over(fabric)).run(each).expect("the job ends well")[1]
}

fn read_once(lock: &RwLock, world: &World) -> Result<()> {
    lock.read(world)?.unlock()
}

fn write_once(lock: &RwLock, world: &World) -> Result<()> {
    lock.write(world)?.unlock()
}

#[test]
fn reading_takes_two_atomics() {
    for kind in Kind::all() {
        assert_eq!(atomics(4, "node:2", &kind, read_once), 2, "{}", kind.name());
    }
}

#[test]
fn writing_takes_what_the_headers_say() {
    // A change of the word, and back.
    assert_eq!(atomics(4, "node:2", &Kind::FompiRw { backoff: false }, write_once), 2);
    // Two levels, two counters: entering and closing, a store; leaving with loads, and opening.
    // Then three levels, and a counter each.
    assert_eq!(atomics(4, "node:2", &Kind::rma_rw(), write_once), (2 + 2 + 1) + (5 + 2 + 2));
    let deep = Kind::RmaRw { t_dc: Some(1), t_l: vec![2], t_r: 1 };
    assert_eq!(atomics(8, "rack:2,node:2", &deep, write_once), (3 + 8 + 2) + (8 + 3 + 8));
    // The exclusive lock's two, looks at the row, and four counters that are closed and opened;
    // before that, each counter is read once.
    let often_read = |lock: &RwLock, world: &World| {
        (0..4).try_for_each(|_| read_once(lock, world))?;
        write_once(lock, world)
    };
    assert_eq!(
        atomics(4, "node:1", &Kind::Default, often_read),
        4 * 2 + (1 + 1 + 4) + (1 + 1 + 4 + 1)
    );
}

#[test]
fn a_lock_that_nobody_reads_is_left_closed() {
    let twice = |lock: &RwLock, world: &World| (0..2).try_for_each(|_| write_once(lock, world));
    assert_eq!(
        atomics(4, "node:1", &Kind::Default, twice),
        (1 + 1 + 4) + (1 + 1 + 1) + (1 + 1) + (1 + 1)
    );
    let read_twice = |lock: &RwLock, world: &World| {
        write_once(lock, world)?;
        (0..2).try_for_each(|_| read_once(lock, world))
    };
    let first_read = 1 + 2 + 1 + 1 + (1 + 1 + 1) + 1;
    assert_eq!(
        atomics(4, "node:1", &Kind::Default, read_twice),
        9 + first_read + (1 + 1 + 1 + 1 + 1)
    );
}

/// A threshold that does not fit into its field is refused by name, and not cut off.
#[test]
fn thresholds_that_do_not_fit_are_refused() {
    let slots = |t_w| Kind::Slots { t_dc: None, t_w, yields: 0 };
    let rma_rw = |t_r| Kind::RmaRw { t_dc: None, t_l: vec![2], t_r };
    for (kind, says) in [
        (slots(1 << 24), "T_W of a reader-writer lock is 1 to 16777215, not 16777216"),
        (slots(0), "T_W of a reader-writer lock is 1 to 16777215, not 0"),
        (rma_rw(65_537), "T_R of a reader-writer lock is 1 to 65536, not 65537"),
        (rma_rw(0), "T_R of a reader-writer lock is 1 to 65536, not 0"),
    ] {
        let refused = farside::local(2, |world| {
            let error =
                RwLock::of_kind(world, Rank(0), &kind).map(drop).expect_err("it does not fit");
            world.barrier()?;
            Ok(error.to_string())
        });
        assert_eq!(refused.expect("all go on"), [says; 2]);
    }
}

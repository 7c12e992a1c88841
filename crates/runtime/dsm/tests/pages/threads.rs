//! Shared memory of thread ranks: every front end, barrier and start gives the same.

use farside::dsm::{
    Access, ArrayStatistics, BarrierKind, Config, Copies, Diffs, Dsm, Fetch, Placement, Shared,
    Start, has_userfault,
};
use farside::{Local, Rank, Result, World};

/// The kinds of coherence state: the usual one, the paper's, and those between.
const KINDS: [(Copies, Diffs); 4] = [
    (Copies::Node, Diffs::OnDemand),
    (Copies::Rank, Diffs::Eager),
    (Copies::Rank, Diffs::OnDemand),
    (Copies::Node, Diffs::Eager),
];

fn configs() -> Vec<Config> {
    let mut all = Vec::new();
    for &access in Access::ALL {
        if access == Access::Userfault && !has_userfault() {
            println!("skipped: userfaultfd, which this system does not allow");
            continue;
        }
        for &barrier in BarrierKind::ALL {
            for &start in Start::ALL {
                for (copies, diffs) in KINDS {
                    let usual = Config::new(1 << 20);
                    all.push(Config { access, barrier, start, copies, diffs, ..usual });
                }
            }
        }
    }
    all
}

/// On nodes that are only pretended, and share memory in fact; and on nodes that reach each other
/// over UDP.
fn on_nodes(ranks: u32, nodes: u32, program: impl Fn(&World) -> Result<()> + Sync) {
    Local::new(ranks).unwrap().topology(&format!("node:{nodes}")).run(&program).unwrap();
    if nodes > 1 {
        Local::new(ranks).unwrap().nodes(nodes).run(&program).unwrap();
    }
}

#[test]
fn what_is_written_before_a_barrier_is_seen_after_it() {
    for (ranks, nodes) in [(1, 1), (2, 1), (3, 3), (5, 2), (8, 4)] {
        for config in configs() {
            on_nodes(ranks, nodes, |world| {
                let mut dsm = Dsm::new(world, config)?;
                let (me, count) = (world.rank().index(), world.size() as usize);
                // All on one page, and in several pages.
                let words = dsm.alloc::<u32>(count)?;
                let many = dsm.alloc_at::<f64>(3000, Placement::Pages)?;
                for round in 1..5u32 {
                    dsm.set(words, me, round * 100 + me as u32)?;
                    let view = dsm.view_mut(many, 0..3000)?;
                    for at in (me..3000).step_by(count) {
                        view.set(at, f64::from(round) * at as f64);
                    }
                    dsm.barrier()?;
                    let seen = dsm.view(words, 0..count)?.to_vec();
                    let expected: Vec<u32> =
                        (0..count as u32).map(|rank| round * 100 + rank).collect();
                    assert_eq!(seen, expected, "{config:?}");
                    let view = dsm.view(many, 0..3000)?;
                    assert!(
                        (0..3000).all(|at| view.get(at) == f64::from(round) * at as f64),
                        "{config:?}"
                    );
                    dsm.barrier()?;
                }
                dsm.close()
            });
        }
    }
}

#[test]
fn locks_lose_no_update() {
    for config in configs() {
        on_nodes(4, 2, |world| {
            let mut dsm = Dsm::new(world, config)?;
            let (a, b) = (dsm.alloc::<u64>(1)?, dsm.alloc_at::<u64>(1, Placement::Pages)?);
            for turn in 0..25 {
                let lock = (turn + world.rank().0) % 2;
                let sum = if lock == 0 { a } else { b };
                dsm.locked(lock, |dsm| dsm.set(sum, 0, dsm.get(sum, 0)? + 1))?;
            }
            dsm.barrier()?;
            assert_eq!(dsm.get(a, 0)? + dsm.get(b, 0)?, 100, "{config:?}");
            dsm.close()
        });
    }
}

#[test]
fn a_barrier_of_some_tells_them_and_nobody_waits_for_the_others() {
    for config in configs() {
        on_nodes(5, 1, |world| {
            let mut dsm = Dsm::new(world, config)?;
            let words = dsm.alloc::<u32>(5)?;
            let me = world.rank();
            let some = [Rank(1), Rank(3), Rank(4)];
            if some.contains(&me) {
                for round in 1..4 {
                    dsm.set(words, me.index(), round)?;
                    dsm.barrier_of(&some)?;
                    assert_eq!(some.map(|rank| dsm.get(words, rank.index()).unwrap()), [round; 3]);
                    dsm.barrier_of(&some)?;
                }
            }
            dsm.barrier()?;
            let seen = dsm.view(words, 0..5)?.to_vec();
            dsm.check()?;
            assert_eq!(seen, [0, 3, 0, 3, 3], "{config:?}");
            let error = dsm.barrier_of(&[Rank(3), Rank(1)]).unwrap_err();
            assert!(error.to_string().contains("ascending"), "{error}");
            dsm.close()
        });
    }
}

#[test]
fn storage_is_reclaimed_and_nothing_is_lost() {
    for config in configs() {
        let config = Config { storage_limit: 20_000, ..config };
        on_nodes(4, 2, |world| {
            let mut dsm = Dsm::new(world, config)?;
            let me = world.rank().index();
            let words = dsm.alloc::<u32>(16 * 1024)?;
            for round in 1..40u32 {
                // Each page has one writer in this round, and another in the next.
                let page = (me + round as usize) % 16;
                let view = dsm.view_mut(words, page * 1024..(page + 1) * 1024)?;
                (0..1024).for_each(|at| view.set(at, view.get(at) + round));
                dsm.barrier()?;
                assert!(dsm.storage() < 20_000 + 40_000, "{}", dsm.storage());
            }
            let view = dsm.view(words, 0..16 * 1024)?;
            for page in 0..16usize {
                let wrote = |round: &u32| (0..4).any(|rank| (rank + *round as usize) % 16 == page);
                let sum: u32 = (1..40).filter(wrote).sum();
                assert_eq!(view.get(page * 1024 + 7), sum, "page {page}, {config:?}");
            }
            assert!(dsm.statistics().reclaims > 1, "{:?}", dsm.statistics());
            dsm.barrier()?;
            dsm.close()
        });
    }
}

#[test]
fn the_agents_bring_the_same_as_gets() {
    let (copies, diffs) = (Copies::Rank, Diffs::Eager);
    let (fetch, start) = (Fetch::Call, Start::Original);
    let config = Config { fetch, start, copies, diffs, ..Config::new(1 << 20) };
    on_nodes(4, 2, |world| {
        let mut dsm = Dsm::new(world, config)?;
        let words = dsm.alloc::<u32>(4096)?;
        let me = world.rank().index();
        for at in 0..1024 {
            dsm.set(words, at * 4 + me, at as u32)?;
        }
        dsm.barrier()?;
        assert!(
            dsm.view(words, 0..4096)?.iter().enumerate().all(|(at, word)| word == at as u32 / 4)
        );
        dsm.barrier()?;
        dsm.close()
    });
}

/// Rank 0 writes a word, and writes it back, while rank 1 fetches the whole page for another word
/// of it: for the first time, and after storage was reclaimed. No diff has the word.
#[test]
fn a_word_that_changes_back_is_not_kept_by_whoever_fetched_its_page() {
    let accesses = [Access::Explicit, Access::Protect];
    let starts = [(Start::Original, 16 << 20), (Start::Zero, 0)];
    for access in accesses {
        for (copies, diffs) in KINDS {
            for fetch in [Fetch::Get, Fetch::Call] {
                for (start, storage_limit) in starts {
                    let usual = Config::new(1 << 16);
                    let config =
                        Config { access, copies, diffs, fetch, start, storage_limit, ..usual };
                    on_nodes(2, 2, |world| changes_back(world, config));
                }
            }
        }
    }
}

fn changes_back(world: &World, config: Config) -> Result<()> {
    let mut dsm = Dsm::new(world, config)?;
    let words = dsm.alloc_at::<u32>(3 * 1024, Placement::Pages)?;
    let is_writer = world.rank() == Rank(0);
    // A barrier that reclaims leaves these on rank 0 alone, where all are at first otherwise.
    let known = if config.start == Start::Original { 1 } else { 3 };
    for round in 1..4 {
        if is_writer {
            (0..known).try_for_each(|page| dsm.set(words, page * 1024, round))?;
        }
        dsm.barrier()?;
        if is_writer {
            (0..3).try_for_each(|page| dsm.set(words, page * 1024 + 7, 1000))?;
        }
        world.barrier()?;
        if !is_writer {
            for page in 0..3 {
                let seen = dsm.get(words, page * 1024)?;
                assert_eq!(seen, if page < known { round } else { 0 }, "{config:?}");
            }
        }
        world.barrier()?;
        if is_writer {
            (0..3).try_for_each(|page| dsm.set(words, page * 1024 + 7, 0))?;
        }
        dsm.barrier()?;
        for page in 0..3 {
            let seen = dsm.get(words, page * 1024 + 7)?;
            assert_eq!(seen, 0, "page {page}, round {round}, {config:?}");
        }
        dsm.barrier()?;
    }
    dsm.close()
}

#[test]
fn false_sharing_costs_diffs_and_not_pages() {
    const ROUNDS: u32 = 10_000;
    let rounds = if std::env::var_os("FARSIDE_LONG").is_some() { ROUNDS } else { ROUNDS / 20 };
    for access in [Access::Pager, Access::Explicit] {
        let (copies, diffs) = (Copies::Rank, Diffs::Eager);
        let config = Config { access, copies, diffs, ..Config::new(4096) };
        on_nodes(16, 1, |world| {
            let mut dsm = Dsm::new(world, config)?;
            let words = dsm.alloc::<u32>(16)?;
            let me = world.rank().index();
            for round in 1..=rounds {
                dsm.set(words, me, round)?;
                dsm.barrier()?;
                if round % 100 == 0 {
                    assert_eq!(dsm.view(words, 0..16)?.to_vec(), [round; 16]);
                }
            }
            assert_eq!(dsm.view(words, 0..16)?.to_vec(), [rounds; 16]);
            let done = dsm.statistics();
            assert_eq!(done.cold_misses, 0, "{done:?}");
            // A diff of one word has two words: what was changed, and where.
            assert!(done.diff_bytes <= u64::from(rounds) * 15 * 8, "{done:?}");
            assert_eq!(done.diffs_made, u64::from(rounds));
            dsm.barrier()?;
            dsm.close()
        });
    }
}

#[test]
fn ranks_that_disagree_are_told() {
    let result = farside::local(2, |world| {
        let bytes = if world.rank() == Rank(0) { 4096 } else { 8192 };
        Dsm::new(world, Config::new(bytes)).map(drop)
    });
    assert!(result.unwrap_err().to_string().contains("disagree on how"));
    let result = farside::local(2, |world| {
        let mut dsm = Dsm::new(world, Config::new(8192))?;
        dsm.alloc::<u8>(1 + world.rank().index())?;
        dsm.barrier()
    });
    assert!(result.unwrap_err().to_string().contains("disagree on what was allocated"));
}

/// The program of the tutorial in `docs/dsm.md`.
#[test]
fn the_tutorial_relaxes_a_grid() {
    let (rows, columns, iterations) = (64, 64, 10);
    let hottest = farside::local(4, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
        let grid = dsm.alloc_at::<f32>(rows * columns, Placement::Pages)?;
        dsm.parallel_for(0..columns, |dsm, part| {
            dsm.view_mut(grid, part)?.fill(1.0);
            Ok(())
        })?;
        for colour in (0..2).cycle().take(2 * iterations) {
            dsm.parallel_for(1..rows - 1, |dsm, part| {
                for row in part {
                    let around = dsm.view(grid, (row - 1) * columns..(row + 2) * columns)?;
                    let mine = dsm.view_mut(grid, row * columns..(row + 1) * columns)?;
                    for at in (1..columns - 1).filter(|at| (row + at) % 2 == colour) {
                        let sides = mine.get(at - 1) + mine.get(at + 1);
                        let mean = (around.get(at) + around.get(2 * columns + at) + sides) / 4.0;
                        mine.set(at, mine.get(at) + 1.25 * (mean - mine.get(at)));
                    }
                }
                Ok(())
            })?;
        }
        let second = dsm.view(grid, columns..2 * columns)?.iter().fold(0.0, f32::max);
        dsm.close().map(|()| second)
    });
    assert!(hottest.unwrap().iter().all(|&second| second > 0.5));
}

#[test]
fn pages_of_one_node_are_opened_once() {
    const PAGES: usize = 100;
    let shared = Local::new(2).unwrap().topology("node:2").run(|world| {
        let mut dsm = Dsm::new(world, Config::new(4 << 20))?;
        let words = dsm.alloc_at::<u32>(2 * PAGES * 1024, Placement::Pages)?;
        let part = dsm.part_of(0..2 * PAGES * 1024);
        // The other rank reads the first word of this one's part.
        let edge = if world.rank() == Rank(0) { PAGES * 1024 } else { 0 };
        for round in 1..=50 {
            let view = dsm.view_mut(words, part.clone())?;
            (0..part.len()).step_by(512).for_each(|at| view.set(at, round));
            dsm.barrier()?;
            assert_eq!(dsm.get(words, edge)?, round);
            dsm.barrier()?;
        }
        let done = dsm.statistics();
        let arrays = dsm.array_statistics();
        dsm.barrier()?;
        dsm.close()?;
        Ok((done, arrays))
    });
    for (done, arrays) in shared.unwrap() {
        // The pages of a view are opened together, 16 at a time.
        let faults = PAGES.div_ceil(16) as u64;
        assert_eq!((done.write_faults, done.twins), (faults, PAGES as u64), "{done:?}");
        // One for each barrier at which it was read, and those that are fetched ahead at first.
        assert!(done.read_faults <= 51 && done.diffs_applied <= 60, "{done:?}");
        assert!(done.diffs_made <= 60, "{done:?}");
        assert_eq!(arrays[0].write_faults, done.write_faults);
        assert_eq!(arrays[0].moves, 0, "{arrays:?}");
    }
}

#[test]
fn diffs_that_nobody_wants_are_told_apart() {
    const PAGES: usize = 20;
    const ROUNDS: u32 = 10;
    for diffs in [Diffs::Eager, Diffs::OnDemand] {
        let config = Config { diffs, ..Config::new(1 << 20) };
        let arrays = Local::new(2).unwrap().topology("node:2").run(|world| {
            let mut dsm = Dsm::new(world, config)?;
            let words = dsm.alloc_at::<u32>(2 * PAGES * 1024, Placement::Pages)?;
            let part = dsm.part_of(0..2 * PAGES * 1024);
            let edge = if world.rank() == Rank(0) { PAGES * 1024 } else { 0 };
            for round in 1..=ROUNDS {
                let view = dsm.view_mut(words, part.clone())?;
                (0..part.len()).step_by(512).for_each(|at| view.set(at, round));
                dsm.barrier()?;
                assert_eq!(dsm.get(words, edge)?, round);
                dsm.barrier()?;
            }
            let arrays = dsm.array_statistics();
            dsm.close().map(|()| arrays[0])
        });
        let rounds = u64::from(ROUNDS);
        for array in arrays.unwrap() {
            // Once in each round, and with its neighbours the first time.
            assert!((rounds..=rounds + 3).contains(&array.diffs_wanted), "{diffs:?}: {array:?}");
            let made = match diffs {
                Diffs::Eager => PAGES as u64 * rounds,
                Diffs::OnDemand => array.diffs_wanted,
            };
            assert_eq!(array.diffs_made, made, "{diffs:?}: {array:?}");
        }
    }
}

#[test]
fn what_was_asked_for_comes_with_the_barrier() {
    const ROUNDS: u32 = 50;
    for access in [Access::Pager, Access::Explicit] {
        let done = Local::new(2).unwrap().topology("node:2").run(|world| {
            let mut dsm = Dsm::new(world, Config { access, ..Config::new(1 << 20) })?;
            let words = dsm.alloc_at::<u32>(2 * 1024, Placement::Pages)?;
            let me = world.rank().index();
            for round in 1..=ROUNDS {
                dsm.set(words, 1024 * me, round)?;
                dsm.barrier()?;
                assert_eq!(dsm.get(words, 1024 * (1 - me))?, round);
                dsm.barrier()?;
            }
            let done = dsm.statistics();
            dsm.close().map(|()| done)
        });
        for done in done.unwrap() {
            // All but the first, and a few to see whether it is still wanted.
            assert!(done.pushed >= u64::from(ROUNDS) - 6, "{done:?}");
            assert!(done.read_faults <= 6, "{done:?}");
        }
    }
}

#[test]
fn pages_that_are_left_alone_are_closed_without_a_barrier() {
    const PAGES: usize = 20;
    let done = Local::new(2).unwrap().topology("node:2").run(|world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
        let words = dsm.alloc_at::<u32>(PAGES * 1024, Placement::Pages)?;
        let is_writer = world.rank() == Rank(0);
        let write = |dsm: &mut Dsm<'_>, value: u32| {
            dsm.locked(0, |dsm| {
                let view = dsm.view_mut(words, 0..PAGES * 1024)?;
                (0..PAGES).for_each(|page| view.set(page * 1024, value));
                Ok(())
            })
        };
        let read = |dsm: &mut Dsm<'_>, value: u32| {
            dsm.locked(0, |dsm| {
                let view = dsm.view(words, 0..PAGES * 1024)?;
                assert!((0..PAGES).all(|page| view.get(page * 1024) == value));
                Ok(())
            })
        };
        for value in 1..=3 {
            if is_writer {
                write(&mut dsm, value)?;
            }
            world.barrier()?;
            if !is_writer {
                read(&mut dsm, value)?;
            }
            world.barrier()?;
            if is_writer {
                (0..4).try_for_each(|_| dsm.locked(1, |_| Ok(())))?;
            }
        }
        let done = dsm.statistics();
        dsm.barrier()?;
        dsm.close().map(|()| done)
    });
    // Each page is opened again every time, because it was closed in between.
    assert_eq!(done.unwrap()[0].twins, 3 * PAGES as u64);
}

/// Lets two nodes write an array in some way; returns what both say of it.
fn advice_on(write: impl Fn(&mut Dsm<'_>, Shared<u32>, u32) -> Result<()> + Sync) -> Vec<String> {
    let arrays = Local::new(2).unwrap().topology("node:2").run(|world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 20))?;
        let words = dsm.alloc_at::<u32>(1024, Placement::Pages)?;
        for round in 1..=10 {
            write(&mut dsm, words, round)?;
        }
        dsm.barrier()?;
        let mut arrays = dsm.array_statistics();
        world.all_reduce(&mut arrays, ArrayStatistics::and)?;
        dsm.close()?;
        Ok(arrays[0])
    });
    arrays.unwrap()[0].advice()
}

#[test]
fn each_kind_of_sharing_has_its_own_advice() {
    let apart = advice_on(|dsm, words, round| {
        let me = dsm.world().rank().index();
        dsm.set(words, 512 * me, round)?;
        dsm.barrier()?;
        assert_eq!(dsm.get(words, 512 * (1 - me))?, round);
        dsm.barrier()
    });
    assert_eq!(apart.len(), 1, "{apart:?}");
    assert!(apart[0].contains("by nodes [0, 1]") && apart[0].contains("false sharing"));
    let by_lock = advice_on(|dsm, words, round| {
        // One after the other, so that the page moves every time.
        for turn in [Rank(0), Rank(1)] {
            if dsm.world().rank() == turn {
                dsm.locked(3, |dsm| dsm.set(words, 0, dsm.get(words, 0)? + round))?;
            }
            dsm.world().barrier()?;
        }
        Ok(())
    });
    assert_eq!(by_lock.len(), 1, "{by_lock:?}");
    assert!(by_lock[0].contains("between nodes [0, 1]") && by_lock[0].contains("migratory"));
    let by_turns = advice_on(|dsm, words, round| {
        for turn in [Rank(0), Rank(1)] {
            if dsm.world().rank() == turn {
                dsm.set(words, 0, dsm.get(words, 0)? + round)?;
            }
            dsm.barrier()?;
        }
        Ok(())
    });
    assert_eq!(by_turns.len(), 1, "{by_turns:?}");
    assert!(by_turns[0].contains("the same words"), "{by_turns:?}");
    let alone = advice_on(|dsm, words, round| {
        if dsm.world().rank() == Rank(0) {
            dsm.set(words, 0, round)?;
        }
        dsm.barrier()
    });
    assert!(alone.is_empty(), "{alone:?}");
}

#[test]
fn wrong_locks_and_slices_are_named() {
    farside::local(1, |world| {
        let mut dsm = Dsm::new(world, Config { locks: 3, ..Config::new(8192) })?;
        let words = dsm.alloc::<u32>(10)?;
        for (error, problem) in [
            (dsm.lock(3).unwrap_err(), "no lock 3"),
            (dsm.unlock(2).unwrap_err(), "not held"),
            (dsm.view(words, 5..11).err().unwrap(), "5 to 11"),
            (dsm.get(words, usize::MAX).unwrap_err(), "outside the 10 elements"),
        ] {
            assert!(error.to_string().contains(problem), "{error}");
        }
        dsm.lock(1)?;
        assert!(dsm.lock(1).unwrap_err().to_string().contains("already"));
        dsm.unlock(1)?;
        dsm.close()
    })
    .unwrap();
}

//! Errors in the middle of a synchronization: every rank hears of them, and none reads stale pages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use farside::dsm::{Access, Config, Copies, Diffs, Dsm};
use farside::{Error, Local, Rank, Result, WaitOptions, World};

const KINDS: [(Copies, Diffs); 4] = [
    (Copies::Node, Diffs::OnDemand),
    (Copies::Rank, Diffs::Eager),
    (Copies::Rank, Diffs::OnDemand),
    (Copies::Node, Diffs::Eager),
];

const DEADLINE: Duration = Duration::from_secs(60);

fn on_two_nodes(ranks: u32, program: impl Fn(&World) -> Result<()> + Send + Sync + 'static) {
    try_on_two_nodes(ranks, program).unwrap();
}

/// Runs a program on two nodes, and ends the process if it hangs.
fn try_on_two_nodes(
    ranks: u32,
    program: impl Fn(&World) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        let result = Local::new(ranks).unwrap().nodes(2).run(&program);
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(());
        result
    });
    if receiver.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{}: hangs", std::thread::current().name().unwrap_or("a test"));
        std::process::abort();
    }
    runner.join().unwrap().map(drop)
}

const PAGE_WORDS: usize = 512;
const PAGES: usize = 1024;

/// Memory whose log of notices has room for one KiB.
fn short_of_storage((copies, diffs): (Copies, Diffs)) -> Config {
    let usual = Config::new((PAGES * PAGE_WORDS * 8) as u64);
    Config { access: Access::Explicit, copies, diffs, storage_max: 16 << 10, ..usual }
}

fn write_too_much(dsm: &mut Dsm<'_>) -> Result<farside::dsm::Shared<u64>> {
    let words = dsm.alloc::<u64>(PAGES * PAGE_WORDS)?;
    if dsm.world().rank() == Rank(0) {
        (0..PAGES).step_by(2).try_for_each(|page| dsm.set(words, page * PAGE_WORDS, 7))?;
    }
    Ok(words)
}

/// Shared memory with room enough works after that.
fn works(world: &World, kind: (Copies, Diffs)) -> Result<()> {
    let mut dsm = Dsm::new(world, Config { storage_max: 64 << 20, ..short_of_storage(kind) })?;
    let words = write_too_much(&mut dsm)?;
    dsm.barrier()?;
    assert_eq!(dsm.get(words, (PAGES - 2) * PAGE_WORDS)?, 7);
    dsm.close()
}

#[test]
fn a_barrier_that_finds_no_room_stays_an_error_of_every_rank() {
    for ranks in [2, 4] {
        for kind in KINDS {
            on_two_nodes(ranks, move |world| {
                let mut dsm = Dsm::new(world, short_of_storage(kind))?;
                let words = write_too_much(&mut dsm)?;
                let mut last = Ok(());
                for _ in 0..3 {
                    last = dsm.barrier();
                    if last.is_ok() {
                        let seen = dsm.get(words, 0)?;
                        assert_eq!(seen, 7, "{} reads on, {kind:?}", world.rank());
                    }
                }
                let error = last.expect_err("memory that is incoherent says so");
                assert!(dsm.check().is_err(), "{error}");
                if world.rank() == Rank(0) {
                    assert!(matches!(error, Error::Exhausted(_)), "{error}");
                }
                dsm.close()?;
                works(world, kind)
            });
        }
    }
}

#[test]
fn a_lock_whose_release_finds_no_room_is_waited_for_by_nobody() {
    for kind in KINDS {
        on_two_nodes(2, move |world| {
            let mut dsm = Dsm::new(world, short_of_storage(kind))?;
            if world.rank() == Rank(0) {
                dsm.lock(0)?;
            }
            world.barrier()?;
            if world.rank() == Rank(0) {
                write_too_much(&mut dsm)?;
                assert!(matches!(dsm.unlock(0), Err(Error::Exhausted(_))));
                assert!(matches!(dsm.unlock(0), Err(Error::Exhausted(_))));
            } else {
                let error = dsm.lock(0).expect_err("its holder has failed");
                assert!(error.to_string().contains("rank 0"), "{error}");
            }
            dsm.close()?;
            works(world, kind)
        });
    }
}

/// A load has no error to return, and no synchronization follows.
#[test]
fn a_page_that_did_not_come_is_an_error_of_close() {
    on_two_nodes(2, |world| {
        for is_checked in [false, true] {
            let usual = short_of_storage((Copies::Rank, Diffs::OnDemand));
            let mut dsm = Dsm::new(world, Config { access: Access::Pager, ..usual })?;
            let words = dsm.alloc::<u64>(16 * PAGE_WORDS)?;
            if world.rank() == Rank(0) {
                (0..16 * PAGE_WORDS).try_for_each(|at| dsm.set(words, at, 7))?;
            }
            dsm.barrier()?;
            let mut expects = false;
            if world.rank() == Rank(1) {
                assert_eq!(dsm.view(words, 0..16 * PAGE_WORDS)?.iter().sum::<u64>(), 0, "stale");
                expects = !is_checked;
                assert!(!is_checked || dsm.check().is_err(), "there is no room for the diffs");
            }
            let closed = dsm.close();
            assert_eq!(matches!(closed, Err(Error::Exhausted(_))), expects, "{closed:?}");
        }
        Ok(())
    });
}

#[test]
fn a_wrong_argument_of_a_synchronization_does_no_harm() {
    on_two_nodes(2, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        assert!(dsm.lock(u32::MAX).is_err());
        assert!(dsm.unlock(0).is_err());
        assert!(dsm.barrier_of(&[Rank(1), Rank(0)]).is_err());
        dsm.locked(0, |dsm| dsm.check())?;
        dsm.barrier()?;
        dsm.close()
    });
}

/// Rank 1 waits for a lock of rank 2, which is lost, and rank 0 for rank 1, in a barrier without
/// rank 2.
#[test]
fn a_rank_that_fails_because_of_a_loss_is_waited_for_by_nobody() {
    for (copies, diffs) in KINDS {
        let ended = try_on_two_nodes(4, move |world| {
            let config = Config { access: Access::Explicit, copies, diffs, ..Config::new(1 << 16) };
            let mut dsm = Dsm::new(world, config)?;
            let heard = world.words(1)?;
            if world.rank() == Rank(2) {
                dsm.lock(0)?;
            }
            world.barrier()?;
            let pair = [Rank(0), Rank(1)];
            match world.rank() {
                Rank(0) => {
                    let error = dsm.barrier_of(&pair).expect_err("rank 1 does not come");
                    assert_eq!(error.lost_rank(), Some(Rank(2)), "{error}");
                    world.signal(heard.at(Rank(1), 0), 1)
                }
                Rank(1) => {
                    let error = dsm.lock(0).expect_err("its holder is lost");
                    assert_eq!(error.lost_rank(), Some(Rank(2)), "{error}");
                    assert!(dsm.barrier_of(&pair).is_err());
                    // Whoever has left would be missed anyway.
                    let options = WaitOptions::default();
                    world.wait_among(&pair, heard.at(Rank(1), 0), |heard| heard == 1, options)?;
                    Ok(())
                }
                Rank(2) => Err(Error::Program("is lost".into())),
                _ => Ok(()),
            }
        });
        assert_eq!(ended, Err(Error::Program("is lost".into())));
    }
}

#[test]
fn a_body_that_fails_on_one_rank_is_an_error_of_all() {
    on_two_nodes(3, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        let me = world.rank();
        let fails = |is_bad: bool| match is_bad {
            true => Err(Error::Program("no".into())),
            false => Ok(()),
        };
        let bad = dsm.parallel_for(0..30, |_, _| fails(me == Rank(1)));
        assert!(bad.unwrap_err().to_string().contains(if me.0 == 1 { "no" } else { "rank 1" }));
        let bad = dsm.parallel_sum(0..30, |_, part| fails(me == Rank(2)).map(|()| part.len()));
        assert!(bad.unwrap_err().to_string().contains(if me.0 == 2 { "no" } else { "rank 2" }));
        assert_eq!(dsm.parallel_sum(0..30, |_, part| Ok(part.len()))?, 30);
        dsm.close()
    });
}

#[test]
fn a_panic_with_a_lock_releases_it() {
    on_two_nodes(2, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        let word = dsm.alloc::<u64>(1)?;
        if world.rank() == Rank(0) {
            let panics = AssertUnwindSafe(|| {
                dsm.locked(0, |dsm| -> Result<()> {
                    dsm.set(word, 0, 7)?;
                    panic!("is caught");
                })
            });
            assert!(catch_unwind(panics).is_err());
        }
        world.barrier()?;
        // With the lock comes what was done before the panic.
        assert_eq!(dsm.locked(0, |dsm| dsm.get(word, 0))?, 7);
        dsm.barrier()?;
        dsm.close()
    });
}

/// The first error says why; that the lock cannot be released any more follows from it.
#[test]
fn an_error_with_a_lock_is_not_hidden_by_that_of_its_release() {
    on_two_nodes(2, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        let bad = dsm.locked(0, |dsm| -> Result<()> {
            dsm.unlock(0)?;
            Err(Error::Program("why".into()))
        });
        assert!(bad.unwrap_err().to_string().contains("why"));
        dsm.barrier()?;
        dsm.close()
    });
}

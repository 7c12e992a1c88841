//! An exploration that ends has tried every schedule: programs whose fault shows in few of them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use farside::fabric::Region;
use farside::sim::{
    Policy, Program, Reduction, Report, Simulation, exhaustive, explore, program, simulation,
};
use farside::{Error, HandlerId, Node, Rank, Result, WaitOptions, Words, World};

const SECOND: Duration = Duration::from_secs(1);

fn ranks(ranks: u32, topology: Option<&str>) -> Simulation {
    simulation(ranks, topology).expect("a simulation")
}

/// Returns what is found, which must be the same with reduction and without it.
fn found(simulation: &Simulation, program: &Program) -> String {
    let by = |reduction| -> Report { exhaustive(simulation, program, reduction, 200_000) };
    let [reduced, all] = [Reduction::Sources, Reduction::None].map(by);
    let problem = |report: &Report| report.failure.as_ref().map(|failure| failure.problem.clone());
    let problem = problem(&reduced).unwrap_or_else(|| {
        panic!("nothing is found in {} schedules; without reduction {:?}", reduced.runs, all)
    });
    assert!(all.failure.is_some(), "only the reduction finds {problem}");
    problem
}

/// A put lands unnoticed, and an atomic on another word of the wait comes before it, or after it.
#[test]
fn a_wake_up_that_came_too_early_is_found() {
    for (putter, adder) in [(0, 1), (1, 0)] {
        let lost = program(
            |world| world.words(2),
            move |world, words| {
                let (put_to, added_to) = (words.at(Rank(2), 0), words.at(Rank(2), 1));
                match world.rank().0 {
                    rank if rank == putter => world.put_value(1, put_to),
                    rank if rank == adder => world.add(added_to, 1),
                    _ => {
                        let (one, five) = (|value: u64| value == 1, |value: u64| value == 5);
                        let words = [(put_to, &one as _), (added_to, &five as _)];
                        world.wait_any(&words, WaitOptions::default()).map(drop)
                    }
                }
            },
        );
        let problem = found(&ranks(3, None), &lost);
        assert!(problem.contains("a plain put wakes no rank"), "{problem}");
    }
}

/// Between nodes, the count of landings wakes who waits for that count, and nobody else.
#[test]
fn a_counted_landing_wakes_nobody_who_waits_for_another_word() {
    let lost = program(
        |world| world.words(1),
        |world, words| match world.rank().0 {
            0 => world.put_value(1, words.at(Rank(1), 0)),
            _ => world.wait(words.at(Rank(1), 0), |value| value == 1).map(drop),
        },
    );
    let problem = found(&ranks(2, Some("node:2")), &lost);
    assert!(problem.contains("a plain put wakes no rank"), "{problem}");
}

/// Many posted operations: that one of them has landed says nothing of the first.
#[test]
fn the_first_of_many_posted_operations_may_land_last() {
    let hasty = program(
        |world| world.words(65),
        |world, words| {
            let (data, flag) = (words.at(Rank(1), 0), words.at(Rank(1), 64));
            if world.rank() == Rank(0) {
                world.put_value(7, data)?;
                (1..64).try_for_each(|word| world.put_value(1, words.at(Rank(1), word)))?;
                return world.signal(flag, 1);
            }
            world.wait(flag, |flag| flag == 1)?;
            match world.get_value(data)? {
                7 => Ok(()),
                other => Err(Error::Program(format!("{other} before the data"))),
            }
        },
    );
    let report = exhaustive(&ranks(2, None), &hasty, Reduction::Sources, 10_000);
    let failure = report.failure.expect("a flush is missing");
    assert!(failure.problem.contains("0 before the data"), "{}", failure.problem);
}

/// A rank dies after the time limit of another has ended, which has consequences.
#[test]
fn a_death_after_a_time_limit_is_followed_by_every_schedule() {
    let hasty = program(
        |world| world.words(2),
        |world, words| {
            if world.rank() == Rank(1) {
                // It ends when rank 0 has left.
                let _ = world.wait(words.at(Rank(1), 1), |value| value == 9);
                return Ok(());
            }
            let own = words.at(Rank(0), 0);
            let ended = world.wait_timeout(own, |value| value == 9, SECOND);
            if !matches!(ended, Err(Error::TimedOut { .. })) {
                return Ok(());
            }
            if world.fetch_add(words.at(Rank(1), 0), 1).is_err() {
                world.put_value(1, own)?;
                world.put_value(2, own)?;
                world.flush(Rank(0))?;
                if world.get_value(own)? != 2 {
                    return Err(Error::Program("the first put came last".into()));
                }
            }
            Ok(())
        },
    );
    let problem = found(&ranks(2, None).deaths(1), &hasty);
    assert!(problem.contains("the first put came last"), "{problem}");
}

/// The time limits of two ranks end together, and what they do then interleaves.
#[test]
fn time_limits_end_in_any_order_and_together() {
    let lossy = program(
        |world| world.words(2),
        |world, words| {
            let (flag, count) = (words.at(world.rank(), 0), words.at(Rank(0), 1));
            let ended = world.wait_timeout(flag, |flag| flag == 1, SECOND);
            assert!(matches!(ended, Err(Error::TimedOut { .. })));
            let counted = world.load(count)?;
            world.store(count, counted + 1)?;
            world.barrier()?;
            match world.load(count)? {
                2 => Ok(()),
                other => Err(Error::Program(format!("{other} of 2 counted"))),
            }
        },
    );
    let problem = found(&ranks(2, None), &lossy);
    assert!(problem.contains("1 of 2 counted"), "{problem}");

    let first_come = program(
        |world| world.words(2),
        |world, words| {
            let ended = world.wait_timeout(words.at(world.rank(), 0), |flag| flag == 1, SECOND);
            assert!(matches!(ended, Err(Error::TimedOut { .. })));
            match (world.fetch_add(words.at(Rank(0), 1), 1)?, world.rank()) {
                (0, Rank(1)) => Err(Error::Program("rank 1 was first".into())),
                _ => Ok(()),
            }
        },
    );
    let problem = found(&ranks(2, None), &first_come);
    assert!(problem.contains("rank 1 was first"), "{problem}");
}

/// Four ranks come in one order out of 24, which takes three pairs in a certain order: a fault of
/// depth 3.
#[test]
fn a_fault_of_depth_3_is_found_by_pct_in_the_first_run_of_some_seeds() {
    let ordered = program(
        |world| world.words(1),
        |world, words| {
            let turn = u64::from(world.rank().0);
            match world.compare_swap(words.at(Rank(0), 0), turn, turn + 1)? {
                3 if turn == 3 => Err(Error::Program("all came in order".into())),
                _ => Ok(()),
            }
        },
    );
    let is_found = |seed: &u64| {
        let pct = Policy::Pct { depth: 3 };
        explore(&ranks(4, None), &ordered, pct, *seed, &mut |_| false).failure.is_some()
    };
    let found = (0..100).filter(is_found).count();
    assert!((1..50).contains(&found), "by {found} of 100 seeds");
}

/// A rank dies while all others wait for time to pass.
#[test]
fn a_rank_dies_while_nothing_else_happens() {
    let died_early = Rc::new(Cell::new(false));
    let noted = died_early.clone();
    let waits = program(
        |world| world.words(1),
        move |world, words| {
            let ended = world.wait_timeout(words.at(world.rank(), 0), |flag| flag == 1, SECOND);
            // The time of rank 0 is up first, in the order of events.
            if world.rank() == Rank(0) && matches!(ended, Err(Error::RankLost { .. })) {
                noted.set(true);
            }
            Ok(())
        },
    );
    let report = exhaustive(&ranks(2, None).deaths(1), &waits, Reduction::Sources, 1000);
    assert_eq!((report.complete, report.failure), (true, None));
    assert!(died_early.get(), "no rank dies before the time is up");
}

/// A program whose ranks share words and a handler that puts 1 to the word of rank 1.
fn with_a_putting_handler(
    first: impl Fn(&World, &Words, HandlerId) -> Result<()> + 'static,
) -> Program {
    program(
        |world| {
            let words = world.words(2)?;
            let at = words.at(Rank(1), 0).word();
            let handler = world.serve(move |agent, _, _| {
                let to = Region::block(at.rank, at.segment, at.offset, 8);
                agent.put(&to, &1u64.to_ne_bytes()).map_or_else(|_| vec![0], |()| vec![1])
            })?;
            Ok((words, handler))
        },
        move |world, (words, handler)| match world.rank() {
            Rank(1) => world.wait(words.at(Rank(1), 0), |value| value == 1).map(drop),
            _ => first(world, &words, handler),
        },
    )
}

/// A call wakes nobody by itself: its handler may have done nothing to the word of a sleeper.
#[test]
fn a_call_that_writes_nothing_wakes_nobody() {
    for topology in [None, Some("node:2")] {
        let lost = program(
            |world| Ok((world.words(1)?, world.serve(|_, _, _| vec![])?)),
            |world, (words, handler)| match world.rank() {
                Rank(1) => world.wait(words.at(Rank(1), 0), |value| value == 1).map(drop),
                _ => {
                    world.put_value(1, words.at(Rank(1), 0))?;
                    world.flush(Rank(1))?;
                    world.call(Node(0), handler, &[]).map(drop)
                }
            },
        );
        let problem = found(&ranks(2, topology), &lost);
        assert!(problem.contains("a plain put wakes no rank"), "{problem}");
    }
}

/// The put of a handler wakes nobody, either, on its own node or on another.
#[test]
fn the_put_of_a_handler_wakes_nobody() {
    for topology in [None, Some("node:2")] {
        for node in 0..if topology.is_some() { 2 } else { 1 } {
            let lost = with_a_putting_handler(move |world, _, handler| {
                world.call(Node(node), handler, &[]).map(drop)
            });
            let problem = found(&ranks(2, topology), &lost);
            assert!(problem.contains("a plain put wakes no rank"), "{topology:?}: {problem}");
        }
    }
}

/// A signal after the put of a handler wakes its waiter, which is then told of both.
#[test]
fn a_signal_after_the_put_of_a_handler_wakes() {
    for topology in [None, Some("node:2")] {
        let told = with_a_putting_handler(|world, words, handler| {
            world.call(Node(world.topology().nodes() - 1), handler, &[])?;
            world.signal(words.at(Rank(1), 0), 1)
        });
        let report = exhaustive(&ranks(2, topology), &told, Reduction::Sources, 10_000);
        assert_eq!((report.complete, report.failure), (true, None), "{topology:?}");
    }
}

/// A rank that a signal has woken looks, whatever is put to its word meanwhile.
#[test]
fn a_put_after_a_signal_does_not_put_to_sleep() {
    let told = program(
        |world| world.words(1),
        |world, words| match world.rank().0 {
            0 => world.signal(words.at(Rank(2), 0), 1),
            1 => world.put_value(2, words.at(Rank(2), 0)),
            _ => world.wait(words.at(Rank(2), 0), |value| value != 0).map(drop),
        },
    );
    for reduction in [Reduction::Sources, Reduction::None] {
        let report = exhaustive(&ranks(3, None), &told, reduction, 10_000);
        assert_eq!((report.complete, report.failure), (true, None));
    }
}

/// An operation is complete when its rank first looks, or not.
#[test]
fn a_first_look_comes_before_or_after_the_landing() {
    let under_way = Rc::new(Cell::new(0));
    let noted = under_way.clone();
    let looks = program(
        |world| world.words(2),
        move |world, words| {
            if world.rank() == Rank(0) {
                let mut get = world.get_nb(words.at(Rank(1), 0), 1)?;
                world.load(words.at(Rank(1), 1))?;
                if !get.is_done()? {
                    noted.set(noted.get() + 1);
                }
                get.wait()?;
            }
            Ok(())
        },
    );
    let simulation = ranks(2, None).looks(true);
    let report = exhaustive(&simulation, &looks, Reduction::Sources, 1000);
    assert_eq!((report.complete, report.failure), (true, None));
    assert!(under_way.get() > 0 && under_way.get() < report.runs, "{under_way:?}");
}

/// A rank does not know that its get has landed until it asks.
#[test]
fn a_put_overtakes_a_get_that_nobody_has_waited_for() {
    let hasty = program(
        |world| world.words(2),
        |world, words| {
            if world.rank() == Rank(1) {
                return Ok(());
            }
            let get = world.get_nb(words.at(Rank(1), 0), 1)?;
            world.load(words.at(Rank(1), 1))?;
            world.put_value(1, words.at(Rank(1), 0))?;
            match get.wait()?[0] {
                0 => Ok(()),
                _ => Err(Error::Program("the get reads what was put later".into())),
            }
        },
    );
    let problem = found(&ranks(2, None), &hasty);
    assert!(problem.contains("put later"), "{problem}");
}

/// A flush comes too late for what was posted before it, also if it finds all landed.
#[test]
fn a_signal_ahead_of_a_flush_overtakes_a_put() {
    let hasty = program(
        |world| world.words(3),
        |world, words| match world.rank().0 {
            0 => {
                world.put_value(1, words.at(Rank(1), 0))?;
                world.load(words.at(Rank(1), 1))?;
                world.signal(words.at(Rank(2), 0), 1)?;
                world.flush(Rank(1))
            }
            1 => Ok(()),
            _ => {
                world.wait(words.at(Rank(2), 0), |flag| flag == 1)?;
                match world.get_value(words.at(Rank(1), 0))? {
                    1 => Ok(()),
                    _ => Err(Error::Program("the signal was first".into())),
                }
            }
        },
    );
    let problem = found(&ranks(3, None), &hasty);
    assert!(problem.contains("the signal was first"), "{problem}");
}

/// A program that depends on something which survives a run is refused.
#[test]
fn a_program_that_differs_from_run_to_run_is_refused() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static TAKES_PART: AtomicBool = AtomicBool::new(false);
    let fickle = program(
        |world| world.words(1),
        |world, words| {
            if world.rank() == Rank(0) {
                TAKES_PART.store(RUNS.fetch_add(1, SeqCst).is_multiple_of(2), SeqCst);
                if !TAKES_PART.load(SeqCst) {
                    return Ok(());
                }
            }
            world.fetch_add(words.at(Rank(0), 0), 1).map(drop)
        },
    );
    for reduction in [Reduction::Sources, Reduction::None] {
        RUNS.store(0, SeqCst);
        let report = exhaustive(&ranks(2, None), &fickle, reduction, 1000);
        let problem = report.failure.expect("the program differs").problem;
        let expected = "the program does not do the same in every run: step 1 was ";
        assert!(problem.starts_with(expected), "{problem}");
    }
}

/// The same, where the beginning of a run is other than it was.
#[test]
fn a_program_with_operations_of_changing_order_is_refused() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let unordered = program(
        |world| world.words(4),
        |world, words| {
            let turn = if world.rank() == Rank(0) { RUNS.fetch_add(1, SeqCst) as usize } else { 0 };
            for word in [turn % 2, 1 - turn % 2, 2] {
                world.fetch_add(words.at(Rank(0), word), 1)?;
            }
            Ok(())
        },
    );
    let report = exhaustive(&ranks(2, None), &unordered, Reduction::Sources, 1000);
    let problem = report.failure.expect("the program differs").problem;
    assert!(problem.contains("does not do the same in every run"), "{problem}");
}

#[test]
fn a_program_that_puts_changing_values_is_refused() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let fickle = program(
        |world| world.words(1),
        |world, words| {
            let value = if world.rank() == Rank(0) { RUNS.fetch_add(1, SeqCst) } else { 0 };
            world.put_value(value.into(), words.at(Rank(0), 0))
        },
    );
    let report = exhaustive(&ranks(2, None), &fickle, Reduction::Sources, 1000);
    let problem = report.failure.expect("the program differs").problem;
    assert!(problem.contains("has other values now"), "{problem}");
}

/// A handler that panics fails the run, which can be seen again.
#[test]
fn a_handler_that_panics_fails_the_run() {
    let panics = program(
        |world| world.serve(|_, _, _| panic!("no such request")),
        |world, handler| world.call(Node(0), handler, &[]).map(drop),
    );
    let problem = found(&ranks(2, None), &panics);
    assert!(problem.contains("panicked"), "{problem}");
}

/// A fence orders what is posted, and no calls.
#[test]
fn a_fence_holds_no_call_back() {
    let hasty = program(
        |world| {
            let words = world.words(1)?;
            let at = words.at(Rank(0), 0).word();
            let handler = world.serve(move |agent, _, _| {
                let read = agent.atomic(at, farside::fabric::Atomic::Load);
                vec![read.map_or(9, |value| value as u8)]
            })?;
            Ok((words, handler))
        },
        |world, (words, handler)| {
            if world.rank() == Rank(0) {
                return Ok(());
            }
            world.put_value(1, words.at(Rank(0), 0))?;
            world.fence()?;
            match world.call(Node(0), handler, &[])?[0] {
                1 => Ok(()),
                other => Err(Error::Program(format!("the handler reads {other}"))),
            }
        },
    );
    let problem = found(&ranks(2, None), &hasty);
    assert!(problem.contains("the handler reads 0"), "{problem}");
}

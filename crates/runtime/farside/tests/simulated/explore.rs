//! The explorer itself: what it finds, what it counts, and what it does again. The protocols that
//! it explores are in `crates/verification/check`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use farside::sim::{
    Policy, Program, Reduction, Report, Verdict, exhaustive, explore, program, random, replay,
    simulation,
};
use farside::{Error, ExitCause, Node, Rank};

fn explore_all(ranks: u32, program: &Program, reduction: Reduction) -> Report {
    exhaustive(&simulation(ranks, None).expect("a simulation"), program, reduction, 1_000_000)
}

/// Every rank adds one to a word in two halves, and ends with an error if it finds that one was
/// lost.
fn racy() -> Program {
    program(
        |world| world.words(1),
        |world, words| {
            let count = words.at(Rank(0), 0);
            let seen = world.load(count)?;
            world.store(count, seen + 1)?;
            world.barrier()?;
            let all = world.load(count)?;
            if all == u64::from(world.size()) {
                Ok(())
            } else {
                Err(Error::Program(format!("{all} counted")))
            }
        },
    )
}

#[test]
fn every_policy_finds_a_lost_update_and_shows_it_again() {
    let simulation = simulation(2, None).expect("a simulation");
    for policy in ["exhaustive", "unreduced", "random", "pct:2"] {
        let policy: Policy = policy.parse().expect("a policy");
        let report =
            explore(&simulation, &racy(), policy, 3, &mut |progress| progress.runs < 10_000);
        let failure = report.failure.unwrap_or_else(|| panic!("{policy} finds nothing"));
        assert!(failure.problem.contains("1 counted"), "{policy}: {failure:?}");
        let again =
            replay(&simulation, &racy(), &failure.schedule).expect("the schedule can be read");
        assert_eq!(again.verdict, Verdict::Failed(failure.problem), "{policy}");
    }
}

#[test]
fn an_exploration_ends_when_it_is_told_to() {
    let simulation = simulation(2, None).expect("a simulation");
    let harmless = program(
        |world| world.words(1),
        |world, words| world.fetch_add(words.at(Rank(0), 0), 1).map(drop),
    );
    for policy in ["unreduced", "random", "pct:3"] {
        let policy: Policy = policy.parse().expect("a policy");
        let report = explore(&simulation, &harmless, policy, 1, &mut |progress| progress.runs < 1);
        assert_eq!((report.runs, report.complete, report.failure), (1, false, None), "{policy}");
    }
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    let stuck = program(
        |world| world.words(1),
        |world, words| world.wait(words.at(world.rank(), 0), |word| word == 7).map(drop),
    );
    let failure = explore_all(2, &stuck, Reduction::Sources).failure.expect("a deadlock");
    assert!(failure.problem.contains("deadlock: rank 0 waits for word"), "{}", failure.problem);
    assert!(failure.problem.contains("rank 1 waits for word"), "{}", failure.problem);
}

/// How a survivor learns of a death: rank 1 waits for a signal that rank 0 may not live to send.
fn orphan(heard: Rc<Cell<u32>>) -> Program {
    program(
        |world| world.words(1),
        move |world, words| {
            if world.rank() == Rank(0) {
                world.load(words.at(Rank(1), 0))?;
                return world.signal(words.at(Rank(1), 0), 1);
            }
            match world.wait(words.at(Rank(1), 0), |word| word == 1) {
                Err(Error::RankLost { rank: Rank(0), how: ExitCause::Signal(9) }) => {
                    heard.set(heard.get() + 1)
                }
                other => drop(other?),
            }
            Ok(())
        },
    )
}

#[test]
fn a_death_is_heard_of_and_fails_nothing() {
    let heard = Rc::new(Cell::new(0));
    let simulation = simulation(2, None).expect("a simulation").deaths(1);
    let report = exhaustive(&simulation, &orphan(heard.clone()), Reduction::Sources, 10_000);
    assert!(report.complete && report.failure.is_none(), "{report:?}");
    assert!(
        heard.get() > 0 && u64::from(heard.get()) < report.runs,
        "{} of {} runs",
        heard.get(),
        report.runs
    );
}

/// Signals when it is dropped, whatever happens.
struct Guard<'a>(&'a farside::World, &'a farside::Words);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // Who has died is refused, and that is what this is about.
        let _ = self.0.signal(self.1.at(Rank(1), 0), 1);
    }
}

#[test]
fn the_dead_do_nothing_while_they_unwind() {
    let (signalled, lost) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (saw, heard) = (signalled.clone(), lost.clone());
    let guarded = program(
        |world| world.words(2),
        move |world, words| {
            if world.rank() == Rank(0) {
                let guard = Guard(world, &words);
                // The only rank that can die before the guard is dropped in order is this one,
                // here.
                world.load(words.at(Rank(0), 1))?;
                drop(guard);
                return world.flush(Rank(1));
            }
            match world.wait(words.at(Rank(1), 0), |word| word == 1) {
                Ok(_) => saw.set(saw.get() + 1),
                Err(_) => heard.set(heard.get() + 1),
            }
            Ok(())
        },
    );
    let simulation = simulation(2, None).expect("a simulation").deaths(1);
    let report = exhaustive(&simulation, &guarded, Reduction::Sources, 10_000);
    assert!(report.complete && report.failure.is_none(), "{report:?}");
    assert!(
        signalled.get() > 0 && lost.get() > 0,
        "{} signalled, {} lost",
        signalled.get(),
        lost.get()
    );
    // A rank that dies at its first step has posted nothing: were its guard's signal to land,
    // nobody would hear of the death.
    let first = replay(&simulation, &guarded, "1").expect("the schedule can be read");
    assert_eq!(first.verdict, Verdict::Passed);
    assert!(
        first.steps.iter().all(|step| !step.event.to_string().contains("store 1")),
        "{:?}",
        first.steps
    );
}

/// All outcomes of two ranks that each write a word of rank 0 and then read the other's.
fn store_buffering(flushes: bool, reduction: Reduction) -> Vec<String> {
    let seen: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    let (outcomes, results) = (seen.clone(), Rc::new(Cell::new([9u64; 2])));
    let at_start = results.clone();
    let litmus = program(
        move |world| {
            at_start.set([9; 2]);
            world.words(2)
        },
        move |world, words| {
            let me = world.rank().index();
            world.put_value(1, words.at(Rank(0), me))?;
            if flushes {
                world.flush(Rank(0))?;
            }
            let saw = world.get_value(words.at(Rank(0), 1 - me))?;
            let mut both = results.get();
            both[me] = saw;
            results.set(both);
            if both.iter().all(|&value| value < 2) {
                outcomes.borrow_mut().insert(format!("{}{}", both[0], both[1]));
            }
            Ok(())
        },
    );
    let report = explore_all(2, &litmus, reduction);
    assert!(report.complete && report.failure.is_none(), "{report:?}");
    println!("store buffering, flush {flushes}, {reduction:?}: {} runs", report.runs);
    seen.borrow().iter().cloned().collect()
}

#[test]
fn reduction_loses_no_outcome_of_store_buffering() {
    for reduction in [Reduction::Sources, Reduction::None] {
        assert_eq!(store_buffering(false, reduction), ["00", "01", "10", "11"], "{reduction:?}");
        assert_eq!(store_buffering(true, reduction), ["01", "10", "11"], "{reduction:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    let simulation = simulation(3, None).expect("a simulation");
    let polling = program(
        |world| world.words(1),
        |world, words| {
            let mine = u64::from(world.rank().0);
            while world.load(words.at(Rank(0), 0))? != mine {
                world.relax()?;
            }
            world.fetch_add(words.at(Rank(0), 0), 1).map(drop)
        },
    );
    let steps = |seed| random(&simulation, &polling, seed, 20).steps;
    assert_eq!(steps(1), steps(1));
    assert!((2..20).any(|seed| steps(seed) != steps(1)), "other seeds give other runs");
}

/// Rank 1 calls a handler that runs with rank 0 as long as that lives.
#[test]
fn a_call_goes_on_without_a_dead_rank_or_ends_with_its_loss() {
    let answers = Rc::new(RefCell::new(BTreeSet::new()));
    let seen = answers.clone();
    let calls = program(
        |world| {
            let me = world.rank().0 as u8;
            world.serve(move |_, _, _| vec![me])
        },
        move |world, handler| {
            if world.rank() == Rank(0) {
                return world.call(Node(0), handler, &[]).map(drop);
            }
            let answer = world.call(Node(0), handler, &[]);
            seen.borrow_mut().insert(format!("{answer:?}"));
            Ok(())
        },
    );
    let simulation = simulation(2, None).expect("a simulation").deaths(1);
    let report = exhaustive(&simulation, &calls, Reduction::Sources, 100_000);
    assert_eq!((report.complete, report.failure), (true, None));
    let lost = Err::<Vec<u8>, _>(Error::RankLost { rank: Rank(0), how: ExitCause::Signal(9) });
    let expected = [Ok(vec![0]), Ok(vec![1]), lost].map(|answer| format!("{answer:?}"));
    assert_eq!(*answers.borrow(), BTreeSet::from(expected));
}

//! The explorer at work: locks that are right pass, known-wrong variants of them are caught, and what was caught can be seen again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use farside::sim::{Program, Reduction, Report, Verdict, exhaustive, program, random, replay, simulation};
use farside::{Error, Link, Rank, Result, Words, World};

/// Runs of an exploration that is expected to end.
const ENOUGH: u64 = 2_000_000;

/// A lock under test: acquire and release, over words that every rank has.
trait Lock: Copy + 'static {
    fn acquire(self, world: &World, words: &Words) -> Result<()>;
    fn release(self, world: &World, words: &Words) -> Result<()>;
}

// The words of every rank: the lock's tail or tickets (at rank 0), next or serving, locked, the protected counter (at rank 0).
const TAIL: usize = 0;
const NEXT: usize = 1;
const LOCKED: usize = 2;
const COUNT: usize = 3;

/// The queuing lock of [ARMCI03] figure 5, and ways to get it wrong.
#[derive(Clone, Copy, PartialEq)]
enum Mcs {
    Right,
    /// Releases before what was written inside has landed.
    WithoutFlush,
    /// Does not wait for a successor that is about to link itself.
    WithoutSecondLook,
}

impl Lock for Mcs {
    fn acquire(self, world: &World, words: &Words) -> Result<()> {
        let me = world.rank();
        world.store(words.at(me, NEXT), 0)?;
        world.store(words.at(me, LOCKED), 1)?;
        let mine = Link::new(me, 0)?;
        let before = Link::from_bits(world.swap(words.at(Rank(0), TAIL), mine.bits())?);
        if let Some((pred, _)) = before.target() {
            world.signal(words.at(pred, NEXT), mine.bits())?;
            world.wait(words.at(me, LOCKED), |locked| locked == 0)?;
        }
        Ok(())
    }

    fn release(self, world: &World, words: &Words) -> Result<()> {
        let me = world.rank();
        if self != Mcs::WithoutFlush {
            world.flush_all()?;
        }
        let mut next = world.load(words.at(me, NEXT))?;
        if next == 0 {
            let mine = Link::new(me, 0)?.bits();
            if world.compare_swap(words.at(Rank(0), TAIL), mine, 0)? == mine {
                return Ok(());
            }
            next = match self {
                Mcs::WithoutSecondLook => world.load(words.at(me, NEXT))?,
                _ => world.wait(words.at(me, NEXT), |next| next != 0)?,
            };
        }
        match Link::from_bits(next).target() {
            Some((next, _)) => world.signal(words.at(next, LOCKED), 0),
            None => Ok(()),
        }
    }
}

/// A ticket lock, and one that takes its ticket with a load and a store.
#[derive(Clone, Copy, PartialEq)]
enum Ticket {
    Right,
    PlainTicket,
}

impl Lock for Ticket {
    fn acquire(self, world: &World, words: &Words) -> Result<()> {
        let tickets = words.at(Rank(0), TAIL);
        let mine = match self {
            Ticket::Right => world.fetch_add(tickets, 1)?,
            Ticket::PlainTicket => {
                let next = world.load(tickets)?;
                world.store(tickets, next + 1)?;
                next
            }
        };
        while world.load(words.at(Rank(0), NEXT))? != mine {
            world.relax()?;
        }
        Ok(())
    }

    fn release(self, world: &World, words: &Words) -> Result<()> {
        world.flush_all()?;
        world.fetch_add(words.at(Rank(0), NEXT), 1).map(drop)
    }
}

/// Every rank counts up a word under the lock, not atomically. Nobody may meet another inside, and no count may be lost.
fn counting(lock: impl Lock, rounds: u64) -> Program {
    let inside = Rc::new(Cell::new(0));
    let at_start = inside.clone();
    program(
        move |world| {
            at_start.set(0);
            world.words(4)
        },
        move |world, words| {
            let count = words.at(Rank(0), COUNT);
            for _ in 0..rounds {
                lock.acquire(world, &words)?;
                inside.set(inside.get() + 1);
                let seen = world.get_value(count)?;
                if inside.get() != 1 {
                    return Err(Error::Misuse(format!("{} ranks inside at a time", inside.get())));
                }
                world.put_value(seen + 1, count)?;
                inside.set(inside.get() - 1);
                lock.release(world, &words)?;
                if world.get_value(count)? <= seen {
                    return Err(Error::Misuse(format!("not counted: still {seen}")));
                }
            }
            Ok(())
        },
    )
}

fn explore(ranks: u32, program: &Program, reduction: Reduction) -> Report {
    exhaustive(&simulation(ranks, None).expect("a simulation"), program, reduction, ENOUGH)
}

fn passes(ranks: u32, program: &Program) -> Report {
    let report = explore(ranks, program, Reduction::Sources);
    assert_eq!(report.failure, None);
    assert!(report.complete, "{report:?}");
    println!("{ranks} ranks: {} runs, {} pruned, {} steps", report.runs, report.pruned, report.steps);
    report
}

/// A wrong program is caught, and its schedule shows the same problem again.
fn is_caught(ranks: u32, program: &Program, problem: &str) {
    let simulation = simulation(ranks, None).expect("a simulation");
    let report = exhaustive(&simulation, program, Reduction::Sources, ENOUGH);
    let failure = report.failure.expect("the mutant is caught");
    assert!(failure.problem.contains(problem), "{failure:?}");
    println!("caught after {} runs: {}; schedule {}", report.runs, failure.problem, failure.schedule);
    let again = replay(&simulation, program, &failure.schedule).expect("the schedule can be read");
    assert_eq!(again.verdict, Verdict::Failed(failure.problem));
}

#[test]
fn a_queuing_lock_passes() {
    passes(2, &counting(Mcs::Right, 1));
    passes(2, &counting(Mcs::Right, 2));
    passes(3, &counting(Mcs::Right, 1));
}

#[test]
fn a_ticket_lock_passes() {
    passes(2, &counting(Ticket::Right, 1));
}

#[test]
fn a_queuing_lock_without_flush_is_caught() {
    is_caught(2, &counting(Mcs::WithoutFlush, 1), "not counted");
}

#[test]
fn a_queuing_lock_without_a_second_look_is_caught() {
    is_caught(2, &counting(Mcs::WithoutSecondLook, 1), "had left");
}

#[test]
fn a_ticket_lock_with_a_plain_ticket_is_caught() {
    is_caught(2, &counting(Ticket::PlainTicket, 1), "");
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
    let report = explore(2, &litmus, reduction);
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
    let program = counting(Mcs::Right, 2);
    let steps = |seed| random(&simulation, &program, seed, 20).steps;
    assert_eq!(steps(1), steps(1));
    assert!((2..20).any(|seed| steps(seed) != steps(1)), "other seeds give other runs");
}

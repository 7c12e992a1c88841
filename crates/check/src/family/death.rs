//! Ranks that die: no survivor waits for ever, whatever the moment.

use farside::fabric::Atomic;
use farside::sim::program;
use farside::{Node, Rank};

use crate::check::{Check, Setup, Subject};
use crate::family::example;
use crate::family::object::{self, Count};
use crate::property::{History, Promise};

/// Ranks meet; one may die.
fn barrier(setup: &Setup) -> Subject {
    let rounds = setup.rounds;
    Subject::new(program(
        |_| Ok(()),
        move |world, ()| (0..rounds).try_for_each(|_| world.barrier()),
    ))
}

fn all_gather(setup: &Setup) -> Subject {
    let rounds = setup.rounds;
    Subject::new(program(
        |_| Ok(()),
        move |world, ()| {
            (0..rounds).try_for_each(|_| world.all_gather(&[world.rank().0]).map(drop))
        },
    ))
}

/// Ranks count up a word; what the dead did has happened or not, and each number was given once.
fn counter(setup: &Setup) -> Subject {
    object::counts(object::atomically)(setup)
}

/// Ranks have a handler count. The rank whose process runs it may leave early, or die: the next
/// goes on, and each number was given once.
fn calls(setup: &Setup) -> Subject {
    let (history, rounds) = (History::new(), setup.rounds);
    let cleared = history.clone();
    Subject::new(program(
        move |world| {
            cleared.clear();
            let at = world.words(1)?.at(Rank(0), 0).word();
            world.serve(move |agent, _, _| {
                let before = agent.atomic(at, Atomic::Load).unwrap_or_default();
                let counted = agent.atomic(at, Atomic::Store(before + 1));
                if counted.is_ok() { vec![before as u8] } else { vec![] }
            })
        },
        move |world, handler| {
            // The first is done first.
            for _ in 0..rounds + world.rank().0 {
                let call = history.call(());
                let before = world.call(Node(0), handler, &[])?;
                history.answer(call, u64::from(before[0]));
                history.check(&Count).map_err(super::wrong)?;
            }
            Ok(())
        },
    ))
}

/// Rank 0 waits for a signal of the last rank, whatever it is told.
fn deaf(_: &Setup) -> Subject {
    Subject::new(program(
        |world| world.words(2),
        |world, words| {
            if world.rank().0 + 1 == world.size() {
                world.load(words.at(Rank(0), 1))?;
                return world.signal(words.at(Rank(0), 0), 1);
            }
            while world.rank() == Rank(0)
                && world.wait(words.at(Rank(0), 0), |count| count > 0).is_err()
            {}
            Ok(())
        },
    ))
}

/// All checks with deaths.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new("death/barrier", "a rank dies at a barrier", barrier)
            .setup(Setup::new(3).deaths(1)),
        Check::new("death/barrier-far", "a rank dies at a barrier between nodes", barrier)
            .setup(Setup::new(3).topology("node:3").deaths(1)),
        Check::new("death/all_gather", "a rank dies in a collective", all_gather)
            .setup(Setup::new(2).deaths(1)),
        Check::new("death/all_gather-far", "a rank dies in a collective between nodes", all_gather)
            .setup(Setup::new(2).topology("node:2").deaths(1)),
        Check::new(
            "death/mcs",
            "a rank dies with a queuing lock, or in its queue",
            example::exclusive("d-mcs"),
        )
        .setup(Setup::new(2).deaths(1)),
        Check::new("death/counter", "a rank dies while all count", counter)
            .setup(Setup::new(2).rounds(2).deaths(1)),
        Check::new("death/calls-left", "who runs the handlers leaves while others call", calls)
            .setup(Setup::new(3)),
        Check::new("death/calls", "a rank dies while all call, or runs the handlers", calls)
            .setup(Setup::new(2).deaths(1)),
        Check::new("death/deaf", "a survivor does not listen, and waits for ever", deaf)
            .setup(Setup::new(2).deaths(1))
            .mutant(Promise::Progress, "no end"),
    ]
}

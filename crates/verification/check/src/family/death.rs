//! Ranks that die: no survivor waits for ever, whatever the moment.

use farside::fabric::Atomic;
use farside::sim::program;
use farside::{Node, Rank, WaitOptions};

use super::wrong;
use crate::check::{Check, Setup, Subject};
use crate::family::example;
use crate::family::object::{self, Count};
use crate::property::{History, Promise};

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

/// Rank 0 hears of the last rank, or of its loss, and tells rank 1. Another rank's word is not yet
/// the news: rank 1 may not have heard of the loss.
fn hearsay(is_hasty: bool) -> impl Fn(&Setup) -> Subject {
    const ALIVE: u64 = 1;
    const LOST: u64 = 2;
    move |_| {
        Subject::new(program(
            |world| world.words(2),
            move |world, words| {
                let last = Rank(world.size() - 1);
                if world.rank() == last {
                    world.signal(words.at(Rank(0), 0), ALIVE)?;
                    return world.flush(Rank(0));
                }
                if world.rank() == Rank(0) {
                    let heard = world.wait(words.at(Rank(0), 0), |word| word == ALIVE);
                    let says = if heard.is_ok() { ALIVE } else { LOST };
                    return world.signal(words.at(Rank(1), 1), says);
                }
                let (pair, told) = ([Rank(0), Rank(1)], words.at(Rank(1), 1));
                let told =
                    world.wait_among(&pair, told, |word| word != 0, WaitOptions::default())?;
                if is_hasty && told == LOST && !world.is_lost(last) {
                    return Err(wrong("was told of a loss that it has not heard of"));
                }
                Ok(())
            },
        ))
    }
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
        Check::new("death/barrier-news", "nodes hear of a death at different times", barrier)
            .setup(Setup::new(2).topology("node:2").deaths(1).slow_news()),
        Check::new("death/all_gather-news", "the same in a collective", all_gather)
            .setup(Setup::new(2).topology("node:2").deaths(1).slow_news()),
        Check::new("death/hearsay", "a rank tells another of a loss", hearsay(false))
            .setup(Setup::new(3).topology("node:3").deaths(1).slow_news()),
        Check::new("death/hearsay-is-news", "takes it for granted that all hear at once", {
            hearsay(true)
        })
        .setup(Setup::new(3).topology("node:3").deaths(1).slow_news())
        .mutant(Promise::Progress, "told of a loss that it has not heard of"),
        Check::new("death/deaf", "a survivor does not listen, and waits for ever", deaf)
            .setup(Setup::new(2).deaths(1))
            .mutant(Promise::Progress, "no end"),
    ]
}

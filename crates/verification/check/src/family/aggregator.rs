//! Aggregators: every item is handled once, in the order of its origin, and no run ends early.

use farside::aggregator::{Packing, steps};
use farside::sim::{Policy, program};
use farside::{Aggregator, Rank, Result, World};

use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

/// What an item is: the rank that pushed it, its number there, and how many items its handler is
/// to push, for which ranks.
type Item = [u32; 5];

/// Items that a rank pushes by itself: for whom, and what their handlers push in turn.
type Script = &'static [&'static [(u32, Then)]];

/// How many items a handler pushes, for whom the first one is, and how much further the rank of
/// each other one is than that of the one before.
type Then = (u32, u32, u32);
const NOTHING: Then = (0, 0, 0);

/// Two ranks send each other and themselves more than there is room for.
const EXCHANGE: Script =
    &[&[(1, NOTHING), (1, NOTHING), (0, NOTHING)], &[(0, NOTHING), (1, NOTHING), (0, NOTHING)]];
const ANSWERS: Script = &[&[(1, (1, 0, 0)), (1, (1, 0, 0))], &[(0, (1, 1, 0))]];
/// The handler of one item pushes two for a third rank.
const CASCADE: Script = &[&[(1, (2, 2, 0))], &[], &[]];
/// The handler of one item pushes one for each of two others.
const FAN: Script = &[&[], &[(2, (2, 0, 1))], &[]];
/// One rank has nothing to do.
const LATE: Script = &[&[], &[(0, NOTHING)]];
/// One rank writes to another again and again.
const STREAM: Script = &[&[(1, NOTHING), (1, NOTHING), (1, NOTHING)], &[]];
/// So often that several acknowledgements are on their way, and there is room for none of them to
/// be the last.
const LONG_STREAM: Script = &[&[(1, NOTHING); 6], &[]];

fn expected(script: Script, rank: u32) -> usize {
    let all = script.iter().flat_map(|items| items.iter());
    all.map(|&(to, (count, then, step))| {
        usize::from(to == rank) + (0..count).filter(|at| then + at * step == rank).count()
    })
    .sum()
}

fn run(world: &World, aggregator: &mut Aggregator<'_, Item>, script: Script) -> Result<()> {
    let me = world.rank();
    let (mut produced, mut pushed) = (0, 0);
    let mut arrived: Vec<(Rank, u32)> = Vec::new();
    aggregator.run(
        |out| {
            for &(to, (count, then, step)) in script[me.index()] {
                out.push(Rank(to), [me.0, produced, count, then, step])?;
                produced += 1;
            }
            Ok(())
        },
        |out, from, items| {
            for &[by, number, count, then, step] in items {
                if by != from.0 {
                    return Err(super::wrong(format!("an item of rank {by} comes from {from}")));
                }
                arrived.push((from, number));
                for at in 0..count {
                    // Numbers of handlers do not mix with those of producers.
                    out.push(Rank(then + at * step), [me.0, 100 + pushed, 0, 0, 0])?;
                    pushed += 1;
                }
            }
            Ok(())
        },
    )?;
    let expected = expected(script, me.0);
    if arrived.len() != expected {
        let count = arrived.len();
        return Err(super::wrong(format!("{me} has handled {count} of {expected} items")));
    }
    for by in world.ranks() {
        for is_handler in [false, true] {
            let of = arrived
                .iter()
                .filter(|&&(from, number)| from == by && (number >= 100) == is_handler);
            if !of.map(|&(_, number)| number).is_sorted_by(|a, b| a < b) {
                return Err(super::wrong(format!("{me} has handled {arrived:?}: out of order")));
            }
        }
    }
    Ok(())
}

fn subject(script: Script, packing: Packing) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = setup.rounds;
        Subject::new(program(
            |_| Ok(()),
            move |world, ()| {
                let mut aggregator = Aggregator::packed(world, packing)?;
                for _ in 0..rounds {
                    run(world, &mut aggregator, script)?;
                }
                aggregator.free()
            },
        ))
    }
}

const SINGLE: Packing = Packing { items: 1, packets: 1 };
const PAIRS: Packing = Packing { items: 2, packets: 2 };
const DOUBLE: Packing = Packing { items: 1, packets: 2 };

fn check(name: &'static str, about: &'static str, script: Script, packing: Packing) -> Check {
    let check = Check::new(name, about, subject(script, packing));
    check.setup(Setup::new(script.len() as u32).rounds(2)).policy(Policy::Pct { depth: 3 }, 3000)
}

fn mutant(
    name: &'static str,
    about: &'static str,
    script: Script,
    (promise, saying): (Promise, &'static str),
) -> Check {
    packed_mutant(name, about, (script, SINGLE), (promise, saying))
}

fn packed_mutant(
    name: &'static str,
    about: &'static str,
    (script, packing): (Script, Packing),
    (promise, saying): (Promise, &'static str),
) -> Check {
    let check = check(name, about, script, packing);
    check.setup(Setup::new(script.len() as u32)).mutant(promise, saying)
}

/// All checks of aggregators.
pub fn checks() -> Vec<Check> {
    let early = (Promise::Visibility, "has handled");
    vec![
        check("aggregator/exchange", "two ranks, little room", EXCHANGE, SINGLE),
        check("aggregator/fan", "a handler writes to two ranks", FAN, PAIRS),
        check("aggregator/pairs", "two ranks, packets of two items", EXCHANGE, PAIRS),
        check("aggregator/answers", "handlers that answer", ANSWERS, SINGLE),
        check("aggregator/cascade", "a handler that makes work", CASCADE, SINGLE),
        check("aggregator/narrow", "numbers of two bits", EXCHANGE, PAIRS)
            .setup(Setup::new(2).rounds(4))
            .omitting(steps::WIDEN_NUMBERS),
        check("aggregator/narrow-cascade", "and of a third rank", CASCADE, SINGLE)
            .setup(Setup::new(3).rounds(4))
            .omitting(steps::WIDEN_NUMBERS),
        check("aggregator/late", "one rank has nothing to do", LATE, SINGLE),
        check(
            "aggregator/stream",
            "several acknowledgements are on their way",
            LONG_STREAM,
            DOUBLE,
        )
        .setup(Setup::new(2)),
        check(
            "aggregator/stores-taken",
            "lets an old acknowledgement land on a newer one",
            LONG_STREAM,
            DOUBLE,
        )
        .setup(Setup::new(2))
        .unordered(super::IS_THE_FAULT)
        .omitting(steps::ADD_TAKEN)
        .mutant(Promise::Progress, "deadlock"),
        mutant(
            "aggregator/without-room",
            "writes over packets that were not read",
            STREAM,
            (Promise::Progress, "deadlock"),
        )
        .omitting(steps::AWAIT_ROOM)
        .unordered(super::IS_THE_FAULT),
        mutant(
            "aggregator/without-count-first",
            "lets items be handled that nobody has counted",
            CASCADE,
            early,
        )
        .omitting(steps::COUNT_FIRST),
        packed_mutant(
            "aggregator/counts-closed",
            "counts items when their packets are closed",
            (FAN, PAIRS),
            early,
        )
        .omitting(steps::COUNT_PUSHED),
        mutant("aggregator/without-asking", "believes reports of different times", CASCADE, early)
            .omitting(steps::ASK_ALL),
        mutant("aggregator/without-all", "ends while others still produce", LATE, early)
            .omitting(steps::AWAIT_ALL),
    ]
}

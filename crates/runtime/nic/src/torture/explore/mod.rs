//! Every behaviour of the two ends of a connection, up to a bound: `Origin` and `Service` as they
//! are, with a window of two, on a network that loses, repeats, reorders and delays.
//!
//! Breadth first, so that what is found wrong comes with the shortest way to it. A state that was
//! seen before is not looked at again: states are told apart by 64 bits of what decides on all that
//! follows (`fingerprint`), so two of a million are confused with a probability below 1 : 10^7.

mod ends;
mod journal;

use std::collections::{HashSet, VecDeque};

use self::ends::{Bounds, Ends, Step};
use super::operations;
use crate::link::variant::mutants::{self, Narrow};
use crate::link::variant::{Right, Variant};

/// Where an exploration ends that has not come to its end by itself.
const STATES_MAX: usize = 3_000_000;

#[derive(Debug, PartialEq, Eq)]
enum Explored {
    /// There are no other behaviours within the bounds.
    All {
        states: usize,
    },
    /// Nothing was found in so many states, but there are more.
    BoundEnded {
        states: usize,
    },
    Wrong {
        what: String,
        steps: Vec<String>,
    },
}

fn explore<V: Variant>(bounds: Bounds, states_max: usize) -> Explored {
    let first: Ends<Narrow<V>> = Ends::new(bounds);
    let mut seen = HashSet::from([first.fingerprint()]);
    let mut ways = vec![Way { from: 0, step: Step::Rest, lost: 0 }];
    let mut queue = VecDeque::from([(0, first)]);
    while let Some((from, ends)) = queue.pop_front() {
        for step in ends.steps() {
            let mut taken = ends.clone();
            let applied = taken.apply(step);
            for lost in taken.losses() {
                let mut next = taken.clone();
                next.lose(lost);
                if let Err(what) = applied.clone().and_then(|()| next.check_end()) {
                    ways.push(Way { from, step, lost });
                    let mut steps = retrace::<V>(bounds, &ways);
                    steps
                        .extend(applied.is_ok().then(|| "from here on the network is fair".into()));
                    return Explored::Wrong { what, steps };
                }
                if seen.insert(next.fingerprint()) {
                    if seen.len() > states_max {
                        return Explored::BoundEnded { states: states_max };
                    }
                    ways.push(Way { from, step, lost });
                    queue.push_back((ways.len() - 1, next));
                }
            }
        }
    }
    Explored::All { states: seen.len() }
}

/// How a state was reached: from which other, by which step, and what got lost.
struct Way {
    from: usize,
    step: Step,
    lost: u32,
}

fn retrace<V: Variant>(bounds: Bounds, ways: &[Way]) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = ways.len() - 1;
    while at != 0 {
        path.push(&ways[at]);
        at = ways[at].from;
    }
    let mut ends: Ends<Narrow<V>> = Ends::new(bounds);
    path.into_iter().rev().map(|way| ends.retrace(way.step, way.lost)).collect()
}

/// All sequences of so many operations, each of which is posted or wants an answer.
fn programs(operations: u32) -> impl Iterator<Item = Bounds> {
    (0..1 << operations).map(move |fetches| Bounds { operations, fetches, ..Bounds::default() })
}

/// Explores all of it; nothing may be wrong, and nothing may be left.
fn explore_all(name: &str, cases: impl Iterator<Item = Bounds>) {
    let (mut total, begin) = (0, std::time::Instant::now());
    for bounds in cases {
        match explore::<Right>(bounds, STATES_MAX) {
            Explored::All { states } => total += states,
            other => panic!("{bounds:?}: {other:#?}"),
        }
    }
    println!("{name}: all explored, {total} states, {:?}", begin.elapsed());
}

#[test]
fn what_was_lost_is_executed_once_in_order_and_answered() {
    explore_all("two losses", programs(3).map(|bounds| Bounds { losses: 2, ..bounds }));
}

#[test]
fn what_came_twice_is_executed_once_in_order_and_answered() {
    explore_all("two copies", programs(3).map(|bounds| Bounds { copies: 2, ..bounds }));
}

#[test]
fn what_was_repeated_too_early_is_executed_once_in_order_and_answered() {
    explore_all(
        "one repetition too early",
        programs(3).map(|bounds| Bounds { early: 1, ..bounds }),
    );
}

#[test]
fn whatever_happens_two_operations_are_executed_once_in_order_and_answered() {
    explore_all(
        "everything, with two operations",
        programs(2).map(|bounds| Bounds { losses: 2, copies: 2, early: 1, ..bounds }),
    );
}

#[test]
fn nothing_is_executed_for_a_node_that_was_given_up() {
    let cases = programs(2).map(|bounds| Bounds { losses: 1, copies: 1, gives_up: true, ..bounds });
    explore_all("a node that is given up", cases);
}

/// With `FARSIDE_LONG=1` alone: it takes minutes.
#[test]
fn whatever_happens_three_or_four_operations_are_executed_once_in_order_and_answered() {
    if operations(0, 1) == 0 {
        return;
    }
    for (losses, copies, early) in [(1, 1, 1), (2, 1, 0), (1, 2, 0), (2, 2, 0), (2, 1, 1)] {
        let name = format!("three operations, {losses} lost, {copies} twice, {early} too early");
        explore_all(&name, programs(3).map(|bounds| Bounds { losses, copies, early, ..bounds }));
    }
    for (losses, copies, early) in [(2, 0, 0), (1, 1, 0), (0, 2, 0), (1, 0, 1)] {
        let name = format!("four operations, {losses} lost, {copies} twice, {early} too early");
        explore_all(&name, programs(4).map(|bounds| Bounds { losses, copies, early, ..bounds }));
    }
}

#[test]
fn a_bound_that_ends_is_not_taken_for_all() {
    let bounds = Bounds { operations: 3, fetches: 0b111, losses: 2, ..Bounds::default() };
    assert_eq!(explore::<Right>(bounds, 100), Explored::BoundEnded { states: 100 });
}

/// A wrong variant is found out by what it does wrong. `fetches` says which of three operations
/// want an answer.
fn finds_out<V: Variant>(fetches: u32, what: &str) {
    let bounds = Bounds { operations: 3, fetches, losses: 2, copies: 1, early: 0, gives_up: true };
    match explore::<V>(bounds, STATES_MAX) {
        Explored::Wrong { what: found, steps } => {
            assert!(found.contains(what), "found out by something else: {found}\n{steps:#?}");
            println!("{found}, after {} steps: {steps:#?}", steps.len());
        }
        other => panic!("{other:?}, but expected: {what}"),
    }
}

/// A test for each wrong variant, with what must be found.
macro_rules! found_out {
    ($($name:ident: $variant:ident, $fetches:literal, $what:literal;)*) => { $(
        #[test]
        fn $name() {
            finds_out::<mutants::$variant>($fetches, $what);
        }
    )* };
}

found_out! {
    a_window_too_wide: WindowTooWide, 0b111, "operation 1 is never answered: the server has \
        forgotten";
    a_window_with_holes: WindowWithHoles, 0b111, "operation 1 is never answered: the server has \
        forgotten";
    a_request_closed_too_early: WithoutAwaitingAnswers, 0b111, "operation 1 is never answered: its \
        request is closed";
    a_late_reply_believed: GoesBack, 0b000, "never known to have landed";
    late_bits_read_anew: ReadsLateBitsAnew, 0b001, "request 3 is believed to have arrived";
    what_was_held_never_repeated: WithoutRepeatingHeld, 0b010, "never known to have landed";
    an_old_answer_believed: BelievesOldAnswers, 0b111, "has the answer of operation 1";
    an_old_ticket_believed: BelievesOldTickets, 0b111, "the ticket of operation 1 names another";
    a_table_too_short: TableTooShort, 0b111, "operation 1 is never answered: its request is closed";
    an_answer_forgotten_too_early: ForgetsTooEarly, 0b111, "operation 1 is never answered: its \
        request is closed";
    a_repetition_executed: ExecutesAgain, 0b111, "operation 1 was executed twice";
    a_repetition_dropped: DropsRepetitions, 0b000, "operation 3 is never executed";
    a_repetition_answered_under_another_number: AnswersUnderAnotherNumber, 0b111, "operation 1 is \
        never answered";
    a_request_executed_out_of_turn: ExecutesOutOfTurn, 0b111, "operation 2 was executed before \
        operation 1";
    an_arrival_acknowledged: AcknowledgesArrivals, 0b000, "request 1 was acknowledged before it \
        was executed";
    the_wrong_bit_set: MarksTheNext, 0b000, "request 3 is believed to have arrived";
    a_node_given_up_and_believed: BelievesTheLost, 0b111, "operation 1 was executed after its node \
        was given up";
}

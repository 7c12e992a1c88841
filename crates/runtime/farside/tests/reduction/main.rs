//! The reduction loses nothing: small random programs have the same outcomes with it as without it.
//!
//! An outcome is what every rank has seen, which ranks have died, and what memory holds in the end;
//! or the deadlock, and who waits for what in it.

#[path = "../../examples/queue.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod queue;

mod dependence;
mod examples;
mod programs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::discriminant;

use farside::check::{Check, Outcome};
use farside::sim::{Progress, Reduction, Run, Verdict, What, every_run};

use programs::{Case, Numbers, Op, subject};

/// How often each kind of event has happened.
type Events = BTreeMap<String, u64>;

struct Explored {
    runs: u64,
    outcomes: BTreeSet<String>,
    events: Events,
}

fn kind_of(what: &What) -> String {
    let name = format!("{what:?}");
    name.split('(').next().unwrap_or_default().to_owned()
}

/// Explores a program; `None` if there are too many schedules.
fn explore(case: &Case, reduction: Reduction, limit: u64) -> Option<Explored> {
    let (program, seen) = subject(case);
    let (mut all, mut kinds) = (BTreeSet::new(), HashMap::new());
    let mut each = |run: &Run| {
        for what in run.steps.iter().map(|step| step.event.what) {
            kinds.entry(discriminant(&what)).or_insert((what, 0)).1 += 1;
        }
        let seen = || (0..case.ranks).map(|rank| seen.borrow().get(&farside::Rank(rank)).cloned());
        let seen = || seen().map(|text| text.unwrap_or("dead".into())).collect::<Vec<_>>();
        match &run.verdict {
            Verdict::Passed => all.insert(format!("{:?}, {:x?}", seen(), run.state)),
            Verdict::Failed(problem) => {
                assert!(problem.starts_with("deadlock"), "{case:?}: {problem}");
                all.insert(format!("{:?}: {problem}", seen()))
            }
            Verdict::TooLong => panic!("{case:?}: no end"),
            Verdict::Pruned => false,
        };
    };
    let mut go_on = |progress: &Progress| progress.runs < limit;
    let report = every_run(&case.simulation(), &program, reduction, &mut each, &mut go_on);
    let events = kinds.values().map(|(what, count)| (kind_of(what), *count)).collect();
    report.complete.then_some(Explored { runs: report.runs, outcomes: all, events })
}

/// What a program leads to with the reduction, and how many schedules it has without.
struct Compared {
    runs: u64,
    reduced: Explored,
}

impl Compared {
    fn any(&self, text: &str) -> bool {
        self.reduced.outcomes.iter().any(|seen| seen.contains(text))
    }
}

/// Compares the outcomes of a program; `None` if there are too many schedules.
fn compare(case: &Case, limit: u64) -> Option<Compared> {
    let Explored { runs, outcomes: expected, .. } = explore(case, Reduction::None, limit)?;
    let reduced = explore(case, Reduction::Sources, limit.max(runs))
        .unwrap_or_else(|| panic!("{case:?}: more schedules with reduction than {runs}"));
    let (fewer, found) = (reduced.runs, &reduced.outcomes);
    let (lost, made_up): (Vec<_>, Vec<_>) =
        (expected.difference(found).collect(), found.difference(&expected).collect());
    assert!(
        lost.is_empty() && made_up.is_empty(),
        "{case:?}: {fewer} runs of {runs}: lost {lost:#?}, made up {made_up:#?}"
    );
    Some(Compared { runs, reduced })
}

fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// Reads a number from the environment, for campaigns of other sizes and seeds.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The kinds of events that random programs have: all but those of memory, which all ranks make
/// and free together (`a_window_is_made_and_freed_while_a_put_lands`).
const KINDS: [&str; 19] = [
    "Accumulate",
    "Atomic",
    "Call",
    "Death",
    "Executed",
    "Get",
    "Interrupt",
    "Leaving",
    "News",
    "Own",
    "Poll",
    "Put",
    "Serve",
    "Sleep",
    "Time",
    "TimeOut",
    "Unnoticed",
    "Vanish",
    "Wait",
];

/// Compares random programs. A seed of the environment comes on top of the campaign's own, so that
/// each campaign tries programs of its own.
fn campaign(seed: u64, programs: u64, ops_max: u64, limit: u64) {
    let seed = seed.wrapping_add(number("FARSIDE_TEST_SEED", 0).wrapping_mul(2));
    let mut numbers = Numbers(0x1234_5678_9ABC_DEF1 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (mut compared, mut reduced, mut all, mut too_large) = (0, 0, 0, 0);
    let mut events = Events::new();
    while compared < programs {
        match compare(&Case::random(&mut numbers, ops_max), limit) {
            Some(found) => {
                (compared, all) = (compared + 1, all + found.runs);
                reduced += found.reduced.runs;
                for (kind, count) in found.reduced.events {
                    *events.entry(kind).or_default() += count;
                }
            }
            None => too_large += 1,
        }
    }
    println!(
        "seed {seed}: {compared} programs, 0 differences: {all} schedules, {reduced} after \
         reduction; {too_large} had more than {limit}"
    );
    println!("events covered: {events:?}");
    // A campaign of a few programs may miss some.
    let missed: Vec<_> = KINDS.iter().filter(|kind| !events.contains_key(**kind)).collect();
    assert!(programs < 100 || missed.is_empty(), "no event of these kinds: {missed:?}");
}

#[test]
fn reduction_loses_no_outcome() {
    let programs = number("FARSIDE_TEST_PROGRAMS", if is_long() { 50_000 } else { 700 });
    campaign(1, programs, 3, if is_long() { 2_000 } else { 200 });
}

#[test]
fn reduction_loses_no_outcome_of_longer_programs() {
    let programs = number("FARSIDE_TEST_PROGRAMS", if is_long() { 50_000 } else { 300 });
    campaign(2, programs, 4, if is_long() { 20_000 } else { 500 });
}

/// With two ranks, which must meet for that, there are too many schedules.
#[test]
fn a_window_is_made_and_freed_while_a_put_lands() {
    let case = Case::of(vec![vec![Op::Put(0, 1), Op::Window]]);
    let found = compare(&case, 10_000).expect("few schedules");
    let events = found.reduced.events;
    assert!(events.contains_key("Register") && events.contains_key("Free"), "{events:?}");
    assert!(found.runs > 1);
}

/// Rank 0 runs the handlers, and dies while it is at work on the call of rank 1, or of rank 2, but
/// not on both.
#[test]
fn a_death_interrupts_one_of_two_calls() {
    let case = Case {
        deaths: 1,
        ..Case::of(vec![vec![Op::Load(1)], vec![Op::Call(0, 1)], vec![Op::Call(0, 1)]])
    };
    let found = compare(&case, 100_000).expect("few schedules");
    assert!(found.reduced.events.contains_key("Interrupt"));
    for (first, second) in [("lost0 ", "10 "), ("10 ", "lost0 ")] {
        assert!(found.any(&format!("{first:?}, {second:?}")), "{:#?}", found.reduced.outcomes);
    }
    assert!(!found.any("\"lost0 \", \"lost0 \""), "{:#?}", found.reduced.outcomes);
}

/// Explores a program with and without reduction, and returns what both must have found.
fn outcomes_of_both(ops: Vec<Vec<Op>>) -> BTreeSet<String> {
    compare(&Case::of(ops), 100_000).expect("few schedules").reduced.outcomes
}

#[test]
fn a_time_limit_ends_while_a_signal_is_on_its_way() {
    // Without a budget the signal comes first, since nothing else can happen.
    let ops = vec![
        vec![Op::WaitSome(0, 1), Op::Load(2)],
        vec![Op::Put(2, 3), Op::Fence, Op::Signal(0, 1)],
    ];
    let found = |time_outs: u32| {
        let case = Case { time_outs, ..Case::of(ops.clone()) };
        compare(&case, 10_000).expect("few schedules").reduced.outcomes
    };
    assert!(found(0).iter().all(|seen| !seen.contains("late")));
    assert!(found(1).iter().any(|seen| seen.contains("late")));
}

#[test]
fn a_wait_sees_a_value_that_is_there_for_a_while() {
    // The word is right, wrong and right again; what the waiter reads next tells when it looked.
    let writer =
        vec![Op::Store(0, 2), Op::Put(2, 1), Op::FlushAll, Op::Store(0, 0), Op::Store(0, 2)];
    let waiter = vec![Op::WaitSome(0, 1), Op::Load(2)];
    assert!(outcomes_of_both(vec![waiter, writer]).len() > 1);
}

#[test]
fn a_wait_that_begins_late_sees_what_was_there_before() {
    // In the first run the wait begins when its word has been right, wrong and right again.
    let writer = vec![Op::Store(2, 5), Op::Store(2, 0), Op::Store(3, 1), Op::Store(2, 6)];
    let waiter =
        vec![Op::Load(0), Op::Load(0), Op::Load(0), Op::Load(0), Op::WaitSome(2, 1), Op::Load(3)];
    let found = outcomes_of_both(vec![writer, waiter]);
    assert!(found.iter().any(|seen| seen.contains("0 0 0 0 5 0 ")), "{found:?}");
}

#[test]
fn a_torn_put_of_the_dead_counts_as_landed_if_all_of_it_has() {
    let waiter = vec![Op::WaitAnySome(2, 2), Op::WaitSome(0, 1)];
    let writer = vec![Op::PutLong(0, 1), Op::Store(2, 2)];
    let case = Case::of(vec![waiter, writer]);
    let case = Case { nodes: 2, deaths: 1, time_outs: 1, torn: true, ..case };
    compare(&case, 10_000).expect("few schedules");
}

#[test]
fn a_wait_that_begins_after_a_death_sees_its_word_or_hears_of_the_death() {
    let waiter = vec![Op::Poll(0), Op::Store(0, 1), Op::WaitAnySome(2, 1)];
    let case = Case::of(vec![waiter, vec![Op::Put(1, 3), Op::Flush(0)]]);
    compare(&Case { nodes: 2, deaths: 1, ..case }, 10_000).expect("few schedules");
}

/// The load comes first: its rank then waits, and hears of the death although its word is not right
/// yet. The signal, which exists because of the death alone, may come before that.
#[test]
fn a_wait_after_a_death_begins_before_and_after_what_makes_it_right() {
    let ops = vec![
        vec![Op::Load(4), Op::Wait(0, 1)],
        vec![Op::Wait(2, 1)],
        vec![Op::Wait(4, 1), Op::Signal(0, 1)],
    ];
    let found = compare(&Case { deaths: 1, ..Case::of(ops) }, 100_000)
        .expect("few schedules")
        .reduced
        .outcomes;
    assert!(found.len() > 1, "{found:?}");
}

#[test]
fn a_wait_for_two_values_of_one_word_sees_the_first_or_the_second() {
    let writer = vec![Op::Signal(0, 2), Op::Fence, Op::Signal(0, 1)];
    let found = outcomes_of_both(vec![vec![Op::WaitEither(0, 1, 2)], writer]);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_second_look_at_one_of_two_operations_waits_for_it() {
    let looks = vec![Op::Look, Op::LookFirst, Op::Look, Op::LookFirst];
    let ops = [vec![Op::Start(2), Op::Start(3)], looks].concat();
    let case = Case { looks: true, ..Case::of(vec![ops, vec![]]) };
    let found = compare(&case, 10_000).expect("few schedules").reduced.outcomes;
    assert!(found.iter().all(|seen| seen.contains("1 1 ")), "{found:?}");
}

/// Rank 0 runs the handler, and dies: its caller gets an answer of the next rank's, or an error;
/// and after an error the call has been executed, or not.
#[test]
fn a_call_that_ends_with_an_error_was_executed_or_not() {
    let ops = vec![vec![Op::Load(1)], vec![Op::Call(0, 1), Op::Load(0), Op::Load(2)]];
    let found = compare(&Case { deaths: 1, ..Case::of(ops) }, 100_000)
        .expect("few schedules")
        .reduced
        .outcomes;
    for executed in [0, 1] {
        let after_an_error = format!("lost0 lost0 {executed} ");
        assert!(found.iter().any(|seen| seen.contains(&after_an_error)), "{found:#?}");
    }
}

/// A rank that polls knows nothing of an operation whose reply it has not taken.
#[test]
fn what_lands_unseen_is_nothing_new_to_a_rank_that_polls() {
    let ops =
        [vec![Op::Start(0), Op::Put(1, 2), Op::Poll(2), Op::WaitSome(1, 2)], vec![Op::Get(0)]];
    let early = Case { time_outs: 1, torn: true, ..Case::of(ops.into()) };
    compare(&early, 1000).expect("few schedules");
    let ops = [
        vec![Op::Call(1, 1), Op::WaitAny(1, 3)],
        vec![Op::Fence, Op::Fence, Op::Start(0), Op::Poll(0)],
    ];
    let far = Case { nodes: 2, looks: true, torn: true, ..Case::of(ops.into()) };
    compare(&far, 1000).expect("few schedules");
}

#[test]
fn an_example_comes_to_the_same() {
    for (is_hasty, outcome) in [(false, Outcome::Exhaustive), (true, Outcome::Failed)] {
        for policy in ["exhaustive", "unreduced"] {
            let check = Check::new(2).policy(policy).races(false);
            let finding = check.explore(move |world| queue::hand_out(world, is_hasty)).unwrap();
            assert_eq!(finding.outcome, outcome, "{policy}, hasty: {is_hasty}");
        }
    }
}

/// Another rank's time limit ends before or after that: it might wake the one that sleeps.
#[test]
fn a_rank_that_sleeps_is_stuck_when_no_time_limit_is_left() {
    let ops = vec![
        vec![Op::GetAccumulate(2, 3), Op::Load(2), Op::WaitHalf(1, 0, 1)],
        vec![Op::Start(2), Op::WaitAny(2, 3)],
    ];
    compare(&Case { time_outs: 1, ..Case::of(ops) }, 10_000).expect("few schedules");
    let wakes = vec![Op::Put(2, 3), Op::WaitSome(0, 1), Op::Signal(2, 3)];
    let found = outcomes_of_both(vec![wakes, vec![Op::Wait(2, 1)]]);
    assert!(found.iter().all(|seen| !seen.contains("deadlock")), "{found:?}");
}

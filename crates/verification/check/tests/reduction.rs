//! The reduction loses nothing of any check: with it and without it, the schedules that pass leave
//! the same contents of memory, and if one fails, one fails.
//!
//! A program has a few schedules with the reduction, and thousands without. A check whose own job
//! has too many is compared with two ranks and one round, and if these have too many, random
//! schedules take the place of all.

use std::collections::BTreeMap;

use farside::sim::{Event, Policy, Reduction, Report};
use farside_check::{Check, Setup, checks, describe_trace};

const REDUCED: Policy = Policy::Exhaustive(Reduction::Sources);
const UNREDUCED: Policy = Policy::Exhaustive(Reduction::None);

/// The schedules that a check may have to be compared: without reduction, and with it; and how many
/// random ones are compared if there are more of the former.
struct Limits {
    unreduced: u64,
    reduced: u64,
    random: u64,
}

fn limits() -> Limits {
    match std::env::var_os("FARSIDE_LONG") {
        Some(_) => Limits { unreduced: 300_000, reduced: 100_000, random: 10_000 },
        None => Limits { unreduced: 300, reduced: 200, random: 20 },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    WithAll,
    WithSome,
}

/// Jobs to compare a check with, the largest first; where there is little time, the smallest alone.
fn setups(check: &Check) -> Vec<Setup> {
    let whole = check.small.as_ref().unwrap_or(&check.setup).clone();
    let mut few = Setup { ranks: 2.min(whole.ranks), rounds: 1, ..whole.clone() };
    if whole.topology == Some(format!("node:{}", whole.ranks)) {
        few.topology = Some(format!("node:{}", few.ranks));
    }
    match std::env::var_os("FARSIDE_LONG") {
        Some(_) if few != whole => vec![whole, few],
        _ => vec![few],
    }
}

fn is_over(report: &Report) -> bool {
    report.complete || report.failure.is_some()
}

/// What schedules lead to: the ends, and what was found.
type Explored = (BTreeMap<u64, Vec<Event>>, Report);

fn explore(check: &Check, setup: &Setup, policy: Policy, runs_max: u64) -> Explored {
    check.final_states(setup, policy, runs_max).expect("the job can be simulated")
}

/// Compares what the schedules of a policy lead to with what the reduction has found; not if they
/// are too many.
fn compare(check: &Check, setup: &Setup, policy: Policy, reduced: &Explored) -> Option<Compared> {
    let Limits { unreduced, random, .. } = limits();
    let runs_max = if policy == UNREDUCED { unreduced } else { random };
    let ((all, whole), (found, few)) = (explore(check, setup, policy, runs_max), reduced);
    if policy == UNREDUCED && !is_over(&whole) {
        return None;
    }
    let of = format!("{}, {}, {policy}", check.name, setup.describe());
    let problem = |report: &Report| report.failure.as_ref().map(|it| it.problem.clone());
    let (expected, seen) = (problem(&whole), problem(few));
    assert!(expected.is_none() || seen.is_some(), "{of}: the reduction does not find {expected:?}");
    if policy == UNREDUCED {
        assert!(seen.is_none() || expected.is_some(), "{of}: only the reduction finds {seen:?}");
    }
    if seen.is_none() {
        if let Some((_, trace)) = all.iter().find(|(state, _)| !found.contains_key(state)) {
            let trace = describe_trace(setup.ranks, trace);
            panic!("{of}: the reduction loses an end, to which this leads:\n{trace}");
        }
        let made_up = found.keys().any(|state| !all.contains_key(state));
        assert!(policy != UNREDUCED || !made_up, "{of}: only the reduction comes to an end");
    }
    println!("{of}: {} schedules, {} ends; {} with reduction", whole.runs, all.len(), few.runs);
    Some(if policy == UNREDUCED { Compared::WithAll } else { Compared::WithSome })
}

/// Compares every `parts`-th exhaustive check, from `part` on, of those with deaths or of those
/// without; where there is little time, a third of these, which the seed chooses. The others are
/// sampled, and not reduced.
fn compare_all(with_deaths: bool, part: usize, parts: usize) {
    let all = checks();
    let is_meant =
        |check: &&Check| check.is_exhaustive() && (check.setup.deaths > 0) == with_deaths;
    let thirds = if std::env::var_os("FARSIDE_LONG").is_some() { 1 } else { 3 };
    let meant = all.iter().filter(is_meant).skip(part).step_by(parts);
    let chosen = meant.skip(farside_testing::seed() as usize % thirds).step_by(thirds);
    let (mut with_all, mut with_some, mut left_out) = (0, 0, Vec::new());
    for check in chosen {
        // Most that have too many schedules have too many with the reduction: those go first.
        let reduced = setups(check).into_iter().map(|setup| {
            let explored = explore(check, &setup, REDUCED, limits().reduced);
            (setup, explored)
        });
        let reduced: Vec<_> = reduced.filter(|(_, (_, report))| is_over(report)).collect();
        let ways = [UNREDUCED, Policy::Random].into_iter();
        let mut ways = ways.flat_map(|policy| reduced.iter().map(move |it| (policy, it)));
        let compared =
            ways.find_map(|(policy, (setup, explored))| compare(check, setup, policy, explored));
        match compared {
            Some(Compared::WithAll) => with_all += 1,
            Some(_) => with_some += 1,
            None => left_out.push(check.name),
        }
    }
    println!("{with_all} compared with all schedules, {with_some} with random ones");
    println!("{} have too many with reduction: {}", left_out.len(), left_out.join(", "));
    assert!(with_all > 0);
}

#[test]
fn reduction_loses_nothing_of_any_check() {
    compare_all(false, 0, 2);
}

#[test]
fn reduction_loses_nothing_of_any_other_check() {
    compare_all(false, 1, 2);
}

#[test]
fn reduction_loses_nothing_when_ranks_die() {
    compare_all(true, 0, 1);
}

//! The reduction loses nothing: small random programs have the same outcomes with it as without it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use farside::check::{Check, Outcome};
use farside::fabric::{Atomic, Word};
use farside::sim::{Policy, Program, Reduction, Simulation, explore, program, simulation};
use farside::{Error, ExitCause, HandlerId, Node, Rank, Result, Words, World};

#[path = "../examples/queue.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod queue;

/// What a rank of a random program does.
#[derive(Debug, Clone, Copy)]
enum Op {
    Put(usize, u64),
    Signal(usize, u64),
    PutSignal(usize, u64, usize, u64),
    Get(usize),
    Load(usize),
    Store(usize, u64),
    Add(usize, u64),
    Swap(usize, u64),
    PutLong(u64),
    GetLong,
    Fence,
    Flush,
    /// Waits until the word of its own with this number is at least so much.
    Wait(usize, u64),
    /// Polls a word until it is not zero, a few times.
    Poll(usize),
    /// Starts a get, and looks twice whether it is complete before it waits.
    Look(usize),
    /// Asks an agent to add to a word of its node, and to signal one of another.
    Call(u32, u64),
}

/// Words 0 and 1 are rank 0's, 2 is rank 1's and so on.
const WORDS: usize = 4;

fn owner(word: usize, ranks: u32) -> Rank {
    Rank((word as u32 / 2) % ranks)
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn random_op(numbers: &mut Numbers, rank: u32, ranks: u32, value: u64) -> Op {
    let word = numbers.below(3) as usize;
    let own = (0..WORDS).filter(|&word| owner(word, ranks) == Rank(rank)).collect::<Vec<_>>();
    match numbers.below(14) {
        0 | 1 => Op::Put(word, value),
        2 => Op::Signal(word, value),
        3 => Op::PutSignal(word / 2 * 2, value, word / 2 * 2 + 1, value),
        4 | 5 => Op::Get(word),
        6 => Op::Load(word),
        7 => Op::Store(word, value),
        8 => Op::Add(word, value),
        9 => Op::Swap(word, value),
        10 => Op::Fence,
        11 => Op::Flush,
        12 => Op::Poll(word),
        _ => match own.first() {
            Some(&own) => Op::Wait(own, 1 + numbers.below(2)),
            None => Op::Fence,
        },
    }
}

/// What each rank has seen; `None` while it runs.
type Seen = Vec<Option<String>>;
type Outcomes = Rc<RefCell<BTreeSet<Vec<String>>>>;

fn run_one(world: &World, (words, handler): &(Words, HandlerId), op: Op) -> Result<Option<u64>> {
    let at = |word: usize| words.at(owner(word, world.size()), word);
    match op {
        Op::Put(word, value) => world.put_value(value, at(word)).map(|()| None),
        Op::Signal(word, value) => world.signal(at(word), value).map(|()| None),
        Op::PutSignal(word, value, flag, signal) => world
            .put_signal(&[value], at(word), signal, words.at(owner(word, world.size()), flag))
            .map(|()| None),
        Op::Get(word) => world.get_value(at(word)).map(Some),
        Op::Load(word) => world.load(at(word)).map(Some),
        Op::Store(word, value) => world.store(at(word), value).map(|()| None),
        Op::Add(word, value) => world.fetch_add(at(word), value).map(Some),
        Op::Swap(word, value) => world.swap(at(word), value).map(Some),
        Op::PutLong(value) => world.put(&[value, value], words.at(Rank(0), 0)).map(|()| None),
        Op::GetLong => {
            let mut two = [0; 2];
            world.get(words.at(Rank(0), 0), &mut two)?;
            Ok(Some(two[0] * 10 + two[1]))
        }
        Op::Look(word) => {
            let mut get = world.get_nb(at(word), 1)?;
            let looks = 100 * u64::from(get.is_done()?) + 10 * u64::from(get.is_done()?);
            Ok(Some(looks + get.wait()?[0]))
        }
        Op::Call(node, value) => {
            Ok(Some(world.call(Node(node), *handler, &[value as u8])?[0].into()))
        }
        Op::Fence => world.fence().map(|()| None),
        Op::Flush => world.flush_all().map(|()| None),
        Op::Wait(word, least) => {
            match world.wait_timeout(at(word), |held| held >= least, Duration::from_secs(1)) {
                Ok(value) => Ok(Some(value)),
                Err(Error::TimedOut { .. }) => Ok(Some(999)),
                Err(error) => Err(error),
            }
        }
        Op::Poll(word) => {
            for _ in 0..3 {
                let value = world.load(at(word))?;
                if value != 0 {
                    return Ok(Some(value));
                }
                // When somebody's leaving is noticed is not explored: who finds nobody left to wait
                // for stops, as after the last look.
                if let Err(Error::RankLost { how: ExitCause::Left, .. }) = world.relax() {
                    break;
                }
            }
            Ok(None)
        }
    }
}

/// The program, and a set that gathers what the ranks see together.
fn subject(ops: Vec<Vec<Op>>) -> (Program, Outcomes) {
    let outcomes = Outcomes::default();
    let (gathered, ranks) = (outcomes.clone(), ops.len());
    let seen: Rc<RefCell<Seen>> = Rc::default();
    let at_start = seen.clone();
    let program = program(
        move |world| {
            *at_start.borrow_mut() = vec![None; ranks];
            let words = world.words(WORDS)?;
            let size = world.size();
            let all: Vec<Word> =
                (0..WORDS).map(|word| words.at(owner(word, size), word).word()).collect();
            let calls = std::sync::atomic::AtomicU8::new(0);
            let handler = world.serve(move |agent, _, value| {
                let calls = 1 + calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let (own, other) =
                    (all[agent.node().0 as usize * 2], all[(1 - agent.node().0 as usize) * 2]);
                let value = value[0].into();
                // The words are there, and of this and of the other node.
                let before = agent.atomic(own, Atomic::Add(value)).and_then(|before| {
                    agent.post(other, Atomic::Store(value))?;
                    Ok(before)
                });
                vec![10 * calls + before.map_or(9, |before| before as u8)]
            })?;
            Ok((words, handler))
        },
        move |world, state| {
            let me = world.rank().index();
            let mut text = String::new();
            for &op in &ops[me] {
                match run_one(world, &state, op) {
                    Ok(None) => {}
                    Ok(Some(value)) => text.push_str(&format!("{value} ")),
                    Err(Error::RankLost { .. }) => text.push_str("lost "),
                    Err(error) => return Err(error),
                }
            }
            seen.borrow_mut()[me] = Some(text);
            if let Some(all) = seen.borrow().iter().cloned().collect::<Option<Vec<String>>>() {
                gathered.borrow_mut().insert(all);
            }
            Ok(())
        },
    );
    (program, outcomes)
}

/// Runs, and all outcomes; `None` if there are too many schedules.
fn outcomes(
    simulation: &Simulation,
    ops: &[Vec<Op>],
    reduction: Reduction,
    limit: u64,
) -> Option<(u64, BTreeSet<Vec<String>>)> {
    let (program, outcomes) = subject(ops.to_vec());
    let report = explore(simulation, &program, Policy::Exhaustive(reduction), 0, &mut |progress| {
        progress.runs < limit
    });
    assert_eq!(report.failure, None, "{ops:?}");
    report.complete.then(|| (report.runs, outcomes.borrow().clone()))
}

/// Compares so many programs that `random_program` makes; those with too many schedules do not
/// count.
fn compare(
    programs: usize,
    ranks: u32,
    simulation: &Simulation,
    mut random_program: impl FnMut(&mut Numbers) -> Vec<Vec<Op>>,
) {
    let mut numbers = Numbers(0x1234_5678_9ABC_DEF1);
    let (mut compared, mut reduced, mut all) = (0, 0, 0);
    while compared < programs {
        let ops = random_program(&mut numbers);
        let Some((runs, expected)) = outcomes(simulation, &ops, Reduction::None, 20_000) else {
            continue;
        };
        let (fewer, found) = outcomes(simulation, &ops, Reduction::Sources, 20_000)
            .expect("not more than without reduction");
        let (lost, made_up): (Vec<_>, Vec<_>) =
            (expected.difference(&found).collect(), found.difference(&expected).collect());
        assert!(
            lost.is_empty() && made_up.is_empty(),
            "{ops:?}: {fewer} runs of {runs}: lost {lost:?}, made up {made_up:?}"
        );
        (compared, reduced, all) = (compared + 1, reduced + fewer, all + runs);
    }
    println!("{compared} programs of {ranks} ranks: {all} schedules, {reduced} after reduction");
}

fn random_ops(numbers: &mut Numbers, ranks: u32, count: u32) -> Vec<Vec<Op>> {
    let mut value = 0;
    let mut next = |numbers: &mut Numbers, rank| {
        value += 1;
        random_op(numbers, rank, ranks, value)
    };
    (0..ranks).map(|rank| (0..count).map(|_| next(numbers, rank)).collect()).collect()
}

fn programs(few: usize) -> usize {
    if std::env::var_os("FARSIDE_LONG").is_some() { few * 10 } else { few }
}

#[test]
fn reduction_loses_no_outcome() {
    compare(programs(40), 2, &simulation(2, None).expect("a simulation"), |numbers| {
        random_ops(numbers, 2, 3)
    });
    compare(programs(40), 3, &simulation(3, None).expect("a simulation"), |numbers| {
        random_ops(numbers, 3, 2)
    });
}

#[test]
fn reduction_loses_no_outcome_of_long_programs() {
    compare(programs(20), 2, &simulation(2, None).expect("a simulation"), |numbers| {
        random_ops(numbers, 2, 4)
    });
}

#[test]
fn reduction_loses_no_outcome_when_ranks_die() {
    let simulation = simulation(2, None).expect("a simulation").deaths(1);
    compare(programs(30), 2, &simulation, |numbers| random_ops(numbers, 2, 2));
}

#[test]
fn reduction_loses_no_outcome_when_time_limits_end() {
    for time_outs in [1, 2] {
        let simulation = simulation(2, None).expect("a simulation").time_outs(time_outs);
        compare(programs(30), 2, &simulation, |numbers| {
            let mut ops = random_ops(numbers, 2, 2);
            ops[0].insert(numbers.below(3) as usize, Op::Wait(0, 1));
            ops[1].insert(numbers.below(3) as usize, Op::Wait(2, 1));
            ops
        });
    }
}

#[test]
fn reduction_loses_no_outcome_of_looks() {
    let simulation = simulation(2, None).expect("a simulation").looks(true);
    compare(programs(30), 2, &simulation, |numbers| {
        let mut ops = random_ops(numbers, 2, 2);
        ops[0].insert(numbers.below(3) as usize, Op::Look(numbers.below(3) as usize));
        ops
    });
}

#[test]
fn a_time_limit_ends_while_a_signal_is_on_its_way() {
    // Without a budget the signal comes first, since nothing else can happen.
    let ops = [vec![Op::Wait(0, 1), Op::Load(2)], vec![Op::Put(2, 3), Op::Fence, Op::Signal(0, 1)]];
    let found = |time_outs: u32| {
        let simulation = simulation(2, None).expect("a simulation").time_outs(time_outs);
        outcomes(&simulation, &ops, Reduction::Sources, 1000).expect("few schedules").1
    };
    assert!(found(0).iter().all(|seen| !seen[0].starts_with("999")));
    assert!(found(1).iter().any(|seen| seen[0].starts_with("999")));
}

#[test]
fn reduction_loses_no_outcome_of_torn_operations() {
    let simulation = simulation(2, None).expect("a simulation").torn(true);
    compare(programs(20), 2, &simulation, |numbers| {
        let mut ops = random_ops(numbers, 2, 1);
        ops[0].insert(0, Op::PutLong(5));
        ops[1].insert(numbers.below(2) as usize, Op::GetLong);
        ops
    });
}

#[test]
fn reduction_loses_no_outcome_of_calls() {
    let simulation = simulation(2, Some("node:2")).expect("a simulation");
    compare(programs(20), 2, &simulation, |numbers| {
        let mut ops = random_ops(numbers, 2, 2);
        for rank in &mut ops {
            let call = Op::Call(numbers.below(2) as u32, 1 + numbers.below(3));
            rank.insert(numbers.below(3) as usize, call);
        }
        ops[0].push(Op::Load(2));
        ops
    });
}

/// Explores a program with and without reduction, and returns what both must have found.
fn outcomes_of_both(ops: &[Vec<Op>]) -> BTreeSet<Vec<String>> {
    let simulation = simulation(2, None).expect("a simulation");
    let (_, all) = outcomes(&simulation, ops, Reduction::None, 100_000).expect("few schedules");
    let (_, found) =
        outcomes(&simulation, ops, Reduction::Sources, 100_000).expect("few schedules");
    assert_eq!(found, all);
    found
}

#[test]
fn a_wait_sees_a_value_that_is_there_for_a_while() {
    // The word is right, wrong and right again; what the waiter reads next tells when it looked.
    let writer = vec![Op::Store(0, 2), Op::Put(2, 1), Op::Flush, Op::Store(0, 0), Op::Store(0, 2)];
    let waiter = vec![Op::Wait(0, 1), Op::Load(2)];
    assert!(outcomes_of_both(&[waiter, writer]).len() > 1);
}

#[test]
fn a_wait_that_begins_late_sees_what_was_there_before() {
    // In the first run the wait begins when its word has been right, wrong and right again.
    let writer = vec![Op::Store(2, 5), Op::Store(2, 0), Op::Store(3, 1), Op::Store(2, 6)];
    let waiter =
        vec![Op::Load(0), Op::Load(0), Op::Load(0), Op::Load(0), Op::Wait(2, 1), Op::Load(3)];
    let found = outcomes_of_both(&[writer, waiter]);
    assert!(found.iter().any(|seen| seen[1] == "0 0 0 0 5 0 "), "{found:?}");
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

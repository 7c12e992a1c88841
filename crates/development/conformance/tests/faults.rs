//! One call of one rank fails, each in turn: afterwards the same program works, or every rank has
//! an error. Nobody waits for ever, and no memory is kept.

#[path = "faults/programs.rs"]
mod programs;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farside::epoch::{Mode, Options as EpochOptions, Window};
use farside::map::steps::FIND_CELLS;
use farside::{Error, Local, Lock, Rank, Result, World, lock};
use farside_conformance::{for_each_test, test};
use farside_job::faults::{Faults, Kind};
use farside_launch::Launch;
use farside_testing::faults::{Outcome as Ended, too_few_files_are_errors, with_few_files};
use farside_testing::two_nodes;

const DEADLINE: Duration = Duration::from_secs(30);

type Program = fn(&World) -> Result<()>;

/// What a rank does when its program has returned an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Runs it again, without the fault. All ranks hear of the error, or it does no harm.
    Again,
    /// Ends, as `?` in `main` does.
    Ends,
    Once,
}

struct Outcome {
    has_struck: bool,
    /// How many segments there are, if the program works, and no team of it has failed, nor could
    /// a member free its own: such a team keeps its memory, since members may be about to write
    /// there.
    segments: Option<i64>,
    /// What was left behind, if anything was.
    problem: Option<String>,
}

/// Runs a program with a fault, and then once more.
fn trial(nodes: u32, program: Program, after: After, faults: Arc<Faults>) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let decorating = faults.clone();
    let local = Local::new(4).expect("the environment is in order").nodes(nodes);
    let local = local.decorate(move |connection| decorating.over(connection));
    let armed = faults.clone();
    std::thread::spawn(move || {
        let run = |world: &World| {
            armed.arm(world.rank(), true);
            let first = program(world);
            armed.arm(world.rank(), false);
            match after {
                After::Ends => first.map(|()| [None, None]),
                After::Once => Ok([first.err(), None]),
                After::Again => Ok([first.err(), program(world).err()]),
            }
        };
        // Nobody listens any more only if the deadline has passed.
        let _ = sender.send(local.run(run));
    });
    let (counts, problem) = match receiver.recv_timeout(DEADLINE) {
        Err(RecvTimeoutError::Timeout) => (false, Some("hangs".into())),
        Err(RecvTimeoutError::Disconnected) => (false, Some("panics".into())),
        Ok(Ok(errors)) => {
            let keeps_a_team = |error: &Error| match error {
                Error::PeerFailed { .. } => true,
                error => error.to_string().contains(programs::KEEPS_TEAM),
            };
            let has_failed = errors.iter().flatten().flatten().any(keeps_a_team);
            let (works, problem) = judge(&errors);
            (works && !(has_failed && faults.kind() != Kind::Allocation), problem)
        }
        // It has ended, and the others with it.
        Ok(Err(_)) if after == After::Ends => (false, None),
        Ok(Err(error)) => (false, Some(format!("ends: {error}"))),
    };
    let segments = counts.then(|| faults.segments());
    Outcome { has_struck: faults.has_struck(), segments, problem }
}

/// Whether the second run was in order, and what is wrong if it was not, and a rank has no error.
fn judge(errors: &[[Option<Error>; 2]]) -> (bool, Option<String>) {
    let works = errors.iter().all(|[_, again]| again.is_none());
    let all_know = errors.iter().all(|of_rank| of_rank.iter().any(Option::is_some));
    (works, (!works && !all_know).then(|| format!("{errors:?}")))
}

fn is_long() -> bool {
    std::env::var_os("FARSIDE_LONG").is_some()
}

/// Which calls fail, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Points {
    /// One of each power of two.
    Few,
    /// The first 64, and most of the later ones.
    Most,
}

impl Points {
    fn numbers(self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0), move |&at| {
            Some(at + 1 + if self == Points::Few { at } else { at / 64 })
        })
    }
}

/// Tries every call of a kind, of the first rank and of the last. Returns how many there were, and
/// what they left behind: nobody waits for ever, all ranks know, and no segment is kept.
fn try_all(
    name: &str,
    (kind, after): (Kind, After),
    points: Points,
    program: Program,
) -> (u64, Vec<String>) {
    let (mut count, mut problems) = (0, Vec::new());
    for nodes in [1, 2] {
        let fine = trial(nodes, program, After::Again, Faults::new(kind, Rank(0), u64::MAX));
        assert_eq!(fine.problem, None, "{name} on {nodes} nodes, without a fault");
        // What the world itself needs is there after the first time, and nothing comes to it.
        let once = trial(nodes, program, After::Once, Faults::new(kind, Rank(0), u64::MAX));
        assert_eq!(fine.segments, once.segments, "{name} on {nodes} nodes keeps segments");
        for rank in [Rank(0), Rank(3)] {
            for at in points.numbers() {
                let outcome = trial(nodes, program, after, Faults::new(kind, rank, at));
                if !outcome.has_struck {
                    break;
                }
                count += 1;
                let place = format!("{name}, {nodes} nodes, {kind:?} {at} of {rank}");
                let kept = outcome.segments.filter(|kept| Some(*kept) > fine.segments);
                let kept = kept.map(|kept| format!("{KEPT} {kept}, not {:?}", fine.segments));
                problems.extend(outcome.problem.or(kept).map(|what| format!("{place}: {what}")));
            }
        }
    }
    (count, problems)
}

/// Begins the text of segments that were kept.
const KEPT: &str = "segments:";

/// Tries every call of a kind in a program, which leaves nothing behind.
fn every_fault(name: &str, (kind, after): (Kind, After), program: Program) {
    let points = if is_long() { Points::Most } else { Points::Few };
    let (count, problems) = try_all(name, (kind, after), points, program);
    assert!(count > 0, "{name} has no call that could fail");
    println!("{name}, {kind:?}: {count} points, {} left something behind", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Makes a test of each program, in which calls of a kind fail.
macro_rules! each_fails {
    ($kind:expr, $after:ident: $($name:ident)*) => {
        $(#[test] fn $name() {
            every_fault(stringify!($name), ($kind, After::$after), programs::$name);
        })*
    };
}
/// Tries every call of a kind in the whole suite. Its tests keep their own memory after an error.
fn every_fault_of_the_suite(kind: Kind, after: After, points: Points) {
    if !is_long() {
        return;
    }
    let (mut count, mut problems) = (0, Vec::new());
    let mut one = |name: &str| {
        // Ranks leave these early on purpose, and are missed.
        if name.starts_with("who_") || name.contains("without_the_first_rank") {
            return;
        }
        let program = test(name).expect("the test exists");
        let (points, left) = try_all(name, (kind, after), points, program);
        let left = left.into_iter().filter(|problem| !problem.contains(KEPT));
        let before = problems.len();
        problems.extend(left);
        println!("{name}: {points} points, {} left something behind", problems.len() - before);
        count += points;
    };
    macro_rules! cases {
        ($($name:ident)*) => {
            $(one(stringify!($name));)*
        };
    }
    for_each_test!(cases);
    println!("{count} points of the suite, {} left something behind", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Allocations that fail do so for all ranks, and each of them can try again.
mod allocations {
    use super::*;

    each_fails! {
        Kind::Allocation, Again: map locked_map fixed locked_fixed locks epochs locked_epochs array
        aggregator pages collectives long_collectives loads_half_a_map
    }

    #[test]
    fn of_the_suite() {
        every_fault_of_the_suite(Kind::Allocation, After::Again, Points::Most);
    }
}

/// Operations that fail leave a program that works, or ranks that all know.
mod operations {
    use super::*;

    each_fails! {
        Kind::Operation, Again: map epochs told_epochs array aggregator pages collectives
        long_collectives
    }
    // Whoever fails between taking a place in a queue and giving it back must end.
    each_fails! { Kind::Operation, Ends: locked_map fixed locked_fixed locks locked_epochs }

    /// Whoever ends with an error, ends the others.
    #[test]
    fn of_the_suite() {
        every_fault_of_the_suite(Kind::Operation, After::Ends, Points::Few);
    }
}

/// Operations that are done, and fail all the same: in programs that take nothing which others wait
/// for. A rank that has taken a lock, or a bucket of a map, and does not know it must end at once.
mod answers {
    use super::*;

    each_fails! {
        Kind::Answer, Again: epochs told_epochs array aggregator pages collectives long_collectives
    }
}

/// Maps and sets whose volumes have no cell left, once: whoever needs one has an error, and the map
/// is as it was before.
mod cells {
    use super::*;

    each_fails! { Kind::Room(FIND_CELLS), Again: map locked_map fixed locked_fixed }
}

/// The call of the system that needs one file more fails, each in turn, in ranks that are
/// processes.
#[test]
fn a_rank_that_may_open_few_files_says_so() {
    const RANKS: u32 = 4;
    too_few_files_are_errors("two nodes", RANKS, |files| {
        let launch = Launch::new("sh", RANKS).expect("the environment is in order");
        let launch = launch.argument("-c").argument(with_few_files(RANKS, files));
        let launch = launch.argument(env!("CARGO_BIN_EXE_farside-conformance"));
        let launch = launch.argument("many_windows_come_and_go").options(two_nodes);
        let report = launch.timeout(DEADLINE).run().expect("the job starts");
        let output = String::from_utf8_lossy(&report.stdout).into_owned();
        // The status says that all is well, and nothing else does.
        let line = |rank| format!("rank {rank}: fine | fine\n");
        let fine = (0..RANKS).filter(|_| report.status == 0).map(line).collect::<String>();
        Ended { status: report.status, output: format!("{output}{fine}{:?}", report.failures) }
    });
}

/// A rank that has failed to take a lock or to give it back cannot meet the others at the end of
/// the window: one of them may wait for that lock.
#[test]
fn a_window_whose_lock_has_failed_is_not_freed() {
    let passive = |window: &Window<'_>| {
        window.lock(Rank(0), Mode::Exclusive)?;
        window.unlock(Rank(0))
    };
    for at in 0.. {
        let faults = Faults::new(Kind::Operation, Rank(0), at);
        let decorating = faults.clone();
        let local = Local::new(1).expect("the environment is in order");
        let local = local.decorate(move |connection| decorating.over(connection));
        let armed = faults.clone();
        let run = |world: &World| {
            let window = Window::allocate(world, 64, EpochOptions::new())?;
            armed.arm(world.rank(), true);
            let locked = passive(&window);
            armed.arm(world.rank(), false);
            Ok((locked, window.free()))
        };
        let (locked, freed) = local.run(run).expect("the window is made").remove(0);
        assert_eq!(locked.is_err(), freed.is_err(), "operation {at}: {locked:?}, {freed:?}");
        assert_eq!(locked.is_err(), faults.has_struck(), "operation {at}");
        if !faults.has_struck() {
            assert!(at > 0, "a lock takes operations");
            break;
        }
    }
}

/// Nor do the others wait for it at a fence, or at the end of the window, while it goes on.
#[test]
fn a_member_whose_lock_has_failed_keeps_no_other_waiting() {
    for has_fence in [false, true] {
        let faults = Faults::new(Kind::Operation, Rank(1), 0);
        let decorating = faults.clone();
        let local = Local::new(2).expect("the environment is in order").nodes(2);
        let local = local.decorate(move |connection| decorating.over(connection));
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let run = |world: &World| {
            let window = Window::allocate(world, 64, EpochOptions::new())?;
            window.lock_all()?;
            faults.arm(world.rank(), true);
            // It locks the target, which is the operation that fails.
            let put = window.put(&[1u64], Rank(0), world.rank().0.into());
            faults.arm(world.rank(), false);
            window.unlock_all()?;
            assert_eq!(put.is_err(), world.rank() == Rank(1), "{put:?}");
            let fenced = if has_fence { window.fence() } else { Ok(()) };
            assert_eq!(fenced.is_err(), has_fence, "{fenced:?}");
            let freed = window.free();
            if world.rank() == Rank(0) {
                sender.send(()).expect("the other listens");
            } else {
                let told = receiver.lock().expect("one rank receives").recv_timeout(DEADLINE);
                told.map_err(|_| Error::Program("the other waits for this one".into()))?;
            }
            Ok(freed)
        };
        let freed = local.run(run).expect("nobody waits for ever");
        let is_named = matches!(freed[0], Err(Error::PeerFailed { rank: Rank(1), .. }));
        assert!(is_named && freed[1].is_err(), "{freed:?}");
    }
}

/// A team gives all of its memory back, also the words of what was made on it.
#[test]
fn teams_come_and_go_without_a_trace() {
    let times = |count: u32| {
        let faults = Faults::new(Kind::Allocation, Rank(0), u64::MAX);
        let counting = faults.clone();
        let local = Local::new(2).expect("the environment is in order");
        let run = |world: &World| {
            for _ in 0..count {
                let team = world.split(Some(0), 0)?.expect("all are members");
                team.words(3)?.free(&team)?;
                Lock::for_team(&team, Rank(0), &lock::Kind::Default)?.free(&team)?;
                team.free()?;
            }
            Ok(())
        };
        local.decorate(move |connection| counting.over(connection)).run(run).expect("all is well");
        faults.segments()
    };
    assert_eq!(times(300), times(1));
}

/// An element may have so many bytes, and no more, on all members.
#[test]
fn elements_of_a_reduction_have_a_limit() {
    let local = Local::new(2).expect("the environment is in order");
    let run = |world: &World| {
        let fold = |into: &mut [u8], from: &[u8]| into.copy_from_slice(from);
        let mut most = vec![1; 2 << 14];
        farside::raw::all_reduce(&world.team(), 1 << 14, &mut most, fold)?;
        let mut more = vec![1; (1 << 14) + 1];
        let refused = farside::raw::all_reduce(&world.team(), more.len(), &mut more, fold);
        assert!(matches!(refused, Err(Error::TooMuch { .. })), "{refused:?}");
        world.barrier()
    };
    local.run(run).expect("all is well");
}

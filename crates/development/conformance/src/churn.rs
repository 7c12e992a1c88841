//! Work without an end, for tests in which a rank is killed: every other rank must get an error
//! that names it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use farside::dsm::{Access, Config, Copies, Dsm};
use farside::epoch::{self, Design, Mode};
use farside::lock::Kind;
use farside::map::Options;
use farside::{Error, ExitCause, HashMap, Lock, Node, Rank, Result, World};

use crate::ensure;

/// The kinds of work.
pub const KINDS: [&str; 20] = [
    "put",
    "get",
    "long",
    "atomics",
    "accumulate",
    "wait",
    "barrier",
    "collective",
    "window",
    "call",
    "nothing",
    "lock",
    "queue-lock",
    "dsm-barrier",
    "dsm-fault",
    "dsm-lock",
    "dsm-merge",
    "map",
    "epoch",
    "two-sided-epoch",
];
/// One more kind, for hosts that are lost: the first and the last rank work with each other, and
/// all others sleep, so that hosts notice a loss at different times.
pub const PAIR: &str = "pair";
/// One more: when the last rank is lost, to which much is under way, the others go on without it.
pub const GO_ON: &str = "go-on";
/// How many words are moved at a time where that is meant to take long.
const LONG: usize = 100_000;
/// The variable that names the rank that will be killed.
pub const VICTIM: &str = "FARSIDE_TEST_CHURN_VICTIM";
/// The variable that says after how many microseconds it kills itself.
pub const DELAY: &str = "FARSIDE_TEST_CHURN_DELAY_US";
/// The variable that says instead that its host is lost, with a file that the victim makes when the
/// work has begun.
pub const HOST_LOST: &str = "FARSIDE_TEST_CHURN_HOST_LOST";

/// The variable that says that a survivor prints its error and fails, as most programs do: with the
/// value [`ABORTS`] by `abort`, otherwise by its status.
pub const FAILS: &str = "FARSIDE_TEST_CHURN_FAILS";
/// See [`FAILS`].
pub const ABORTS: &str = "abort";

/// Works until a rank dies, and checks that the error names it. A survivor prints how long after
/// the death it heard of it.
pub fn run(kind: &str) -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let begun = std::env::var_os(HOST_LOST);
    let (Some(victim), Some(delay)) = (number(VICTIM), number(DELAY).or(begun.as_ref().map(|_| 0)))
    else {
        eprintln!("churn needs {VICTIM} and {DELAY} or {HOST_LOST}");
        return ExitCode::FAILURE;
    };
    let victim = Rank(victim);
    let is_ours = std::env::var_os(farside_job::RANK).is_some();
    let expected = |rank, how| match how {
        // Under launchers that tell nothing; and of the first rank of a node, which takes the
        // node's interface with it.
        ExitCause::Vanished | ExitCause::Silent if !is_ours => rank == victim,
        // Of a host that is lost, some hear first that it is silent, and others that its rank gave
        // up.
        _ => rank == victim && (begun.is_some() || how == ExitCause::Signal(9)),
    };
    let fails = std::env::var_os(FAILS).is_some();
    let aborts = std::env::var_os(FAILS).is_some_and(|how| how == ABORTS);
    let told = farside::join().and_then(|world| {
        let told = work(&world, kind, victim, delay);
        told.inspect_err(|error| {
            if fails {
                // In one piece: a launcher may give all ranks the same file to write to.
                let line = format!("{}: churn-{kind}: {error}\n", world.rank());
                print!("{line}");
            }
            if aborts {
                std::process::abort();
            }
        })
    });
    match told {
        Err(_) if fails => ExitCode::FAILURE,
        Err(Error::RankLost { rank, how } | Error::Poisoned { rank, how })
            if expected(rank, how) =>
        {
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("churn-{kind}: expected to lose {victim}, got {other:?}");
            ExitCode::FAILURE
        }
    }
}

fn work(world: &World, kind: &str, victim: Rank, delay: u32) -> Result<()> {
    let death = world.words(1)?;
    let window = world.window::<u64>(LONG)?;
    let sums = world.window::<f64>(1000)?;
    let handler = world.serve(|_, _, bytes| bytes.to_vec())?;
    world.barrier()?;
    if let Some(begun) = std::env::var_os(HOST_LOST) {
        if world.rank() == victim {
            std::thread::spawn(move || {
                // sleep: the host is lost at some moment of the work, and not before it begins.
                std::thread::sleep(Duration::from_millis(500));
                std::fs::write(begun, "").unwrap_or_else(|error| eprintln!("{HOST_LOST}: {error}"));
            });
        }
    } else if world.rank() == victim {
        let context = world.context()?;
        let word = death.at(Rank((victim.0 + 1) % world.size()), 0).word();
        std::thread::spawn(move || {
            // sleep: the death may come at any moment of the work.
            std::thread::sleep(Duration::from_micros(delay.into()));
            let op = farside::fabric::Atomic::Store(now_us().into());
            let _ = context.fabric().atomic(word, op, farside::fabric::OldValue::Ignored);
            kill_self();
        });
    }
    let result = forever(world, kind, (&window, &sums), handler);
    if world.rank().0 == (victim.0 + 1) % world.size() {
        // The time of death is the victim's last word, which may be lost with it.
        let died_us = world.load(death.at(world.rank(), 0))?;
        println!(
            "heard after {} us",
            if died_us == 0 { 0 } else { now_us().saturating_sub(died_us) }
        );
    }
    result
}

/// Of the transfers, some are waited for, and some given up.
fn move_much(world: &World, place: farside::Place<'_, u64>, round: u64) -> Result<()> {
    let writing = world.put_nb(vec![round; LONG], place)?;
    let reading = world.get_nb(place, LONG)?;
    if round.is_multiple_of(2) {
        drop(writing.wait()?);
    }
    reading.wait().map(drop)
}

/// Has more under way to the last rank than may be, until that is lost, and then works with the
/// others.
fn go_on(world: &World, window: &farside::Window<u64>) -> Result<()> {
    let last = Rank(world.size() - 1);
    let flood = || -> Result<()> {
        let start = |_| world.put_nb(vec![1; LONG], window.at(last, 0));
        let writing = (0..8).map(start).collect::<Result<Vec<_>>>()?;
        writing.into_iter().try_for_each(|put| put.wait().map(drop))?;
        world.flush(last)
    };
    let lost = loop {
        if let Err(error) = flood() {
            break error;
        }
    };
    world.go_on();
    for peer in world.ranks().filter(|&peer| peer != last) {
        world.put(&vec![2; LONG], window.at(peer, 0))?;
        world.flush(peer)?;
        drop(world.get_nb(window.at(peer, 0), LONG)?.wait()?);
    }
    Err(lost)
}

fn is_of_the_pair(world: &World) -> bool {
    [0, world.size() - 1].contains(&world.rank().0)
}

/// Works with the other one of the pair, and waits for a moment for what does not come.
fn work_as_pair(
    world: &World,
    window: &farside::Window<u64>,
    awaited: farside::Place<'_, u64>,
) -> Result<()> {
    world.fetch_add(window.at(Rank(world.size() - 1 - world.rank().0), 7), 1)?;
    match world.wait_timeout(awaited, |word| word == u64::MAX, Duration::from_millis(1)) {
        Err(Error::TimedOut { .. }) => Ok(()),
        other => other.map(drop),
    }
}

type Memory<'a> = (&'a farside::Window<u64>, &'a farside::Window<f64>);

#[allow(clippy::too_many_lines, reason = "it is a list of kinds of work")]
fn forever(
    world: &World,
    kind: &str,
    (window, sums): Memory<'_>,
    handler: farside::HandlerId,
) -> Result<()> {
    if let Some(kind) = kind.strip_prefix("dsm-") {
        return share(world, kind);
    }
    match kind {
        "map" => return map(world),
        GO_ON => return go_on(world, window),
        _ => {}
    }
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    let mut buffer = vec![1; 1000];
    let design = if kind == "epoch" { Design::Direct } else { Design::TWO_SIDED };
    let epochs = epoch::Window::allocate(world, 8000, epoch::Options::new().design(design))?;
    let lock =
        Lock::of_kind(world, Rank(0), if kind == "lock" { &Kind::Default } else { &Kind::Mcs })?;
    for round in 1.. {
        for peer in world.ranks() {
            match kind {
                "put" => {
                    world.put(&buffer, window.at(peer, 0))?;
                    world.flush(peer)?;
                }
                "get" => world.get(window.at(peer, 0), &mut buffer)?,
                "long" => move_much(world, window.at(peer, 0), round)?,
                "atomics" => drop(world.fetch_add(window.at(peer, 7), 1)?),
                "accumulate" => world.accumulate(2.0, &[1.0; 1000], sums.at(peer, 0))?,
                "call" => drop(world.call(Node(0), handler, b"echo")?),
                _ => {}
            }
        }
        match kind {
            "wait" => {
                world.signal(words.at(next, 0), round)?;
                world.wait(words.at(world.rank(), 0), |seen| seen >= round)?;
            }
            "barrier" => world.barrier()?,
            "collective" => {
                world.all_reduce(&mut buffer, u64::max)?;
                world.broadcast(Rank((round % u64::from(world.size())) as u32), &mut buffer)?;
                drop(world.all_gather(&buffer)?);
                drop(world.all_to_all(&buffer)?);
            }
            // Dies as the holder, in the queue, or outside.
            "lock" | "queue-lock" => {
                let guard = lock.lock(world)?;
                world.put(&buffer, window.at(next, 0))?;
                guard.unlock()?;
            }
            // Dies with the lock of a target, in its queue, or outside.
            "epoch" | "two-sided-epoch" => {
                let target = Rank((round % u64::from(world.size())) as u32);
                epochs.lock(target, if round % 3 == 0 { Mode::Shared } else { Mode::Exclusive })?;
                epochs.put(&buffer, target, 0)?;
                epochs.unlock(target)?;
            }
            "window" => world.window::<u64>(100)?.free(world)?,
            PAIR if is_of_the_pair(world) => {
                work_as_pair(world, window, words.at(world.rank(), 0))?
            }
            // Asleep, until the end.
            "nothing" | PAIR => {
                world.wait(words.at(world.rank(), 0), |word| word == u64::MAX)?;
            }
            // The victim's own calls go on with itself.
            "call" => world.barrier()?,
            _ => world.relax()?,
        }
    }
    Ok(())
}

/// Works on shared pages: barriers with next to nothing, pages that fault by the hundred, pages
/// that threads of all ranks write, so that the words of other nodes are merged into them, or a
/// lock.
fn share(world: &World, kind: &str) -> Result<()> {
    const PAGES: usize = 64;
    // Ranks of one node that share their pages have no faults.
    let copies = if world.topology().nodes() == 1 { Copies::Rank } else { Copies::Node };
    // By either kind of page faults, from one kill to the next.
    let delay = std::env::var(DELAY).ok().and_then(|text| text.parse::<u32>().ok());
    let access = if delay.unwrap_or(0).is_multiple_of(2) { Access::Pager } else { Access::Protect };
    let usual = Config::new(4 * PAGES as u64 * 4096);
    let mut dsm = Dsm::new(world, Config { storage_limit: 1 << 18, copies, access, ..usual })?;
    let each = if kind == "fault" { PAGES * 1024 } else { 1 };
    let each = if kind == "merge" { PAGES * 256 } else { each };
    let words = dsm.alloc::<u32>(each * world.size() as usize)?;
    let mine = each * world.rank().index();
    for round in 1.. {
        if kind == "merge" {
            // Two threads of each rank, every fourth word of theirs.
            let part = dsm.lend().write(words, 0..words.len())?;
            let (me, ranks) = (world.rank().index(), world.size() as usize);
            std::thread::scope(|scope| {
                for mut part in part.chunks(words.len() / 2) {
                    scope.spawn(move || {
                        for at in (me..part.len()).step_by(4 * ranks) {
                            part.set(at, part.get(at).wrapping_add(round));
                        }
                    });
                }
            });
            dsm.barrier()?;
            continue;
        }
        if kind == "lock" {
            dsm.locked(round % 3, |dsm| dsm.set(words, 0, dsm.get(words, 0)?.wrapping_add(1)))?;
            // A rank that has had all locks last takes them again without any other rank, and need
            // not hear of a loss.
            if round.is_multiple_of(64) {
                dsm.barrier()?;
            }
            continue;
        }
        let view = dsm.view_mut(words, mine..mine + each)?;
        (0..each).step_by(512).for_each(|at| view.set(at, round));
        dsm.barrier()?;
        // Whoever dies meanwhile leaves pages that cannot be fetched: loads go on, and the barrier
        // fails.
        let view = dsm.view(words, 0..words.len())?;
        let sum: u64 = (0..words.len()).step_by(512).map(|at| u64::from(view.get(at))).sum();
        std::hint::black_box(sum);
        dsm.barrier()?;
    }
    Ok(())
}

/// Changes a map that grows until a rank is lost; then all that is in the volumes of the others
/// must be as it was left, and can be changed.
fn map(world: &World) -> Result<()> {
    let options = Options { slots: 4, ..Options::default() };
    let map = HashMap::<u64, [u64; 4]>::with(&world.team(), &options)?;
    let mut oracle: BTreeMap<u64, u64> = BTreeMap::new();
    let key = |step: u64| (u64::from(world.rank().0) << 32) | (step * step % 3001);
    let change = |step: u64, key: u64, oracle: &mut BTreeMap<u64, u64>| -> Result<()> {
        let known = oracle.get(&key).copied();
        let (seen, now) = match step % 4 {
            0 => (map.remove(world, key)?, None),
            1 => (map.get(world, key)?, known),
            2 => (map.insert_all(world, &[(key, [step; 4])])?[0], Some(step)),
            _ => (map.insert(world, key, [step; 4])?, Some(step)),
        };
        match now {
            Some(value) => _ = oracle.insert(key, value),
            None => _ = oracle.remove(&key),
        }
        ensure(seen == known.map(|value| [value; 4]), || {
            format!("key {key} stood for {seen:?}, not {known:?}")
        })
    };
    let lost = (1..).find_map(|step| change(step, key(step), &mut oracle).err());
    let Some(Error::RankLost { rank: victim, how }) = lost else {
        return lost.map_or(Ok(()), Err);
    };
    for (&key, &value) in oracle.iter().filter(|(key, _)| map.owner(**key) != victim) {
        let seen = map.get(world, key)?;
        ensure(seen == Some([value; 4]), || {
            format!("after the loss, key {key} stands for {seen:?}, not {value}")
        })?;
        map.insert(world, key, [value + 1; 4])?;
        ensure(map.remove(world, key)? == Some([value + 1; 4]), || {
            format!("after the loss, key {key} cannot be changed")
        })?;
    }
    for rank in world.ranks().filter(|&rank| rank != victim) {
        let mut torn = None;
        map.for_each_of(world, rank, |key, value| {
            if value != [value[0]; 4] {
                torn = Some((key, value));
            }
        })?;
        ensure(torn.is_none(), || format!("the entry {torn:?} is torn"))?;
    }
    let dead = (0..).find(|&key| map.owner(key) == victim).unwrap_or(0);
    let refused = map.get(world, dead);
    ensure(refused == Err(Error::RankLost { rank: victim, how }), || {
        format!("the lost volume says {refused:?}")
    })?;
    Err(Error::RankLost { rank: victim, how })
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Nothing runs after this: no destructor, no handler, as if somebody had called `kill -9`.
pub(crate) fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

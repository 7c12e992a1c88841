//! Work with handlers that goes on when rank 0, whose process runs those of its node, is killed.
//!
//! Either at a moment of its own choice, while all others are at work, or by the very call that it
//! executes.

use std::process::ExitCode;
use std::time::Duration;

use farside::epoch::{self, Design, LockAgent, Mode};
use farside::lock::Kind;
use farside::{Error, ExitCause, Lock, Node, Rank, Result, Team, World};

use crate::agents::{count, counter};
use crate::churn::{DELAY, kill_self};
use crate::{ensure, ensure_eq};

/// The kinds of work.
pub const KINDS: [&str; 5] = ["call", "suicide", "server", "hybrid", "backoff"];

const VICTIM: Rank = Rank(0);
const HOW: ExitCause = ExitCause::Signal(9);
/// How often each survivor does its work again after the loss.
const ROUNDS: u64 = 50;

/// Works, loses rank 0, and works on.
pub fn run(kind: &str) -> ExitCode {
    match farside::join().and_then(|world| work(&world, kind)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heirs-{kind}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(world: &World, kind: &str) -> Result<()> {
    // Who is left cannot split the world any more.
    let rest = world.split(Some(u64::from(world.rank() == VICTIM)), 0)?;
    let rest = rest.ok_or_else(|| Error::Program("everybody has a colour".into()))?;
    match kind {
        "call" => calls(world, &rest),
        "suicide" => suicide(world, &rest),
        "server" => lock(world, &rest, &Kind::Server),
        "hybrid" => lock(world, &rest, &Kind::Hybrid),
        "backoff" => window(world),
        _ => Err(Error::Program(format!("there is no kind {kind:?} of work; there are {KINDS:?}"))),
    }
}

/// All meet; then rank 0 dies, some time later, when nobody needs it any more to leave the meeting.
fn doom(world: &World) -> Result<()> {
    let left = world.words(1)?;
    let have_left = left.at(VICTIM, 0);
    if world.rank() != VICTIM {
        world.fetch_add(have_left, 1)?;
    } else {
        world.wait(have_left, |count| count == u64::from(world.size() - 1))?;
        let delay_us = std::env::var(DELAY).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        std::thread::spawn(move || {
            // sleep: the death may come at any moment of the work.
            std::thread::sleep(Duration::from_micros(delay_us));
            kill_self();
        });
    }
    Ok(())
}

/// Stands for a program that computes until it is killed.
fn await_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

fn is_lost(world: &World) -> bool {
    world.is_lost(VICTIM)
}

fn is_served(world: &World) -> bool {
    world.topology().ranks_of(Node(0)).len() > 1
}

/// Every call is counted once, or ends with an error that names the victim; afterwards the next
/// rank of the node answers, or, if there is none, all calls end so.
fn calls(world: &World, rest: &Team<'_>) -> Result<()> {
    let counter = counter(world)?;
    let lost = Error::RankLost { rank: VICTIM, how: HOW };
    doom(world)?;
    if world.rank() == VICTIM {
        await_the_end();
    }
    let (mut good, mut bad, mut after, mut last) = (0, 0, 0, 0);
    while after < ROUNDS {
        after += u64::from(is_lost(world));
        match count(world, counter) {
            Ok(seen) => {
                ensure(seen > last, || format!("{seen} after {last}"))?;
                (good, last) = (good + 1, seen);
            }
            Err(error) if error == lost => bad += 1,
            Err(error) => return Err(error),
        }
    }
    let mut all = [good, bad];
    rest.all_reduce(&mut all, |a, b| a + b)?;
    let [good, bad] = all;
    if !is_served(world) {
        ensure(bad >= ROUNDS * rest.size() as u64, || {
            format!("{bad} calls of an empty node have failed")
        })?;
        return rest.barrier();
    }
    ensure(bad <= 1, || format!("{bad} calls were being executed at the same time"))?;
    let seen = count(world, counter)?;
    let counted = good + 1..=good + bad + rest.size() as u64;
    ensure(counted.contains(&seen), || {
        format!("{good} good calls, {bad} bad ones, and {seen} were counted")
    })?;
    rest.barrier()
}

/// The call that rank 0 executes when it dies ends with an error that says so.
fn suicide(world: &World, rest: &Team<'_>) -> Result<()> {
    let counter = counter(world)?;
    let is_victim = world.rank() == VICTIM;
    let die = world.serve(move |_, _, _| {
        if is_victim {
            kill_self();
        }
        vec![1]
    })?;
    if is_victim {
        await_the_end();
    }
    // The others may still be in the collective before, and need rank 0 there.
    rest.barrier()?;
    if world.rank() == Rank(1) {
        let lost = Error::RankLost { rank: VICTIM, how: HOW };
        ensure_eq(
            world.call(Node(0), die, &[]),
            Err(lost.clone()),
            "a call that kills who executes it",
        )?;
        let again = world.call(Node(0), die, &[]);
        ensure_eq(
            again,
            if is_served(world) { Ok(vec![1]) } else { Err(lost) },
            "the same call again",
        )?;
    }
    rest.barrier()?;
    if is_served(world) {
        (0..ROUNDS).try_for_each(|_| count(world, counter).map(drop))?;
    }
    rest.barrier()
}

/// A lock is poisoned, and usable again when it was recovered.
fn lock(world: &World, rest: &Team<'_>, kind: &Kind) -> Result<()> {
    let mut lock = Lock::of_kind(world, VICTIM, kind)?;
    let sum = world.window::<u64>(1)?;
    let sum = sum.at(Rank(1), 0);
    doom(world)?;
    let poisoned = loop {
        if let Err(error) = lock.lock(world).and_then(|guard| guard.unlock()) {
            break error;
        }
    };
    ensure_eq(
        poisoned,
        Error::Poisoned { rank: VICTIM, how: HOW },
        "a lock whose home was killed",
    )?;
    lock.recover(rest)?;
    for _ in 0..ROUNDS {
        let guard = lock.lock(world)?;
        // Not atomic: the lock must keep the others out.
        world.put_value(world.get_value(sum)? + 1, sum)?;
        guard.unlock()?;
    }
    rest.sync()?;
    ensure_eq(world.get_value(sum)?, ROUNDS * rest.size() as u64, "entries after the loss")?;
    rest.barrier()
}

/// A window is poisoned, like those of other designs.
fn window(world: &World) -> Result<()> {
    let design = Design::Backoff(LockAgent::new(world)?);
    let window = epoch::Window::allocate(world, 8, epoch::Options::new().design(design))?;
    doom(world)?;
    let visit =
        |target: Rank, mode: Mode| window.lock(target, mode).and_then(|()| window.unlock(target));
    let targets = || world.ranks().filter(|&rank| rank != VICTIM);
    let mut modes = [Mode::Shared, Mode::Exclusive].into_iter().cycle();
    let error = modes.find_map(|mode| targets().find_map(|target| visit(target, mode).err()));
    let expected = Error::Poisoned { rank: VICTIM, how: HOW };
    ensure_eq(error, Some(expected.clone()), "an epoch of a window that has lost a member")?;
    ensure_eq(visit(Rank(1), Mode::Shared), Err(expected), "the next epoch")
}

//! Ranks count up one number under each lock, not atomically: what a lock that lets two in would
//! lose is missed at the end.

use std::time::Instant;

use farside::{Error, Lock, Rank, Result, RwLock, World, lock, rw};

use crate::output::say;

/// How often each rank counts up, if it is not said.
const INCREMENTS: u64 = 10_000;

pub(crate) fn run(world: &World, arguments: &[String]) -> Result<()> {
    let (increments, names) = parse(arguments)?;
    for name in &names {
        let begin = Instant::now();
        let counter = world.window::<u64>(1)?;
        let increment = || {
            let seen = world.get_value(counter.at(Rank(0), 0))?;
            world.put_value(seen + 1, counter.at(Rank(0), 0))
        };
        if let Some(kind) = lock::Kind::named(name) {
            let lock = Lock::of_kind(world, Rank(0), &kind)?;
            for _ in 0..increments {
                let guard = lock.lock(world)?;
                increment()?;
                guard.unlock()?;
            }
            lock.free(world)?;
        } else if let Some(kind) = rw::Kind::named(name) {
            let lock = RwLock::of_kind(world, Rank(0), &kind)?;
            for _ in 0..increments {
                let guard = lock.write(world)?;
                increment()?;
                guard.unlock()?;
            }
            lock.free(world)?;
        }
        world.sync()?;
        let (counted, expected) =
            (world.get_value(counter.at(Rank(0), 0))?, increments * u64::from(world.size()));
        if counted != expected {
            return Err(Error::Program(format!(
                "{name}: {expected} increments under the lock came to {counted}"
            )));
        }
        if world.rank() == Rank(0) {
            let seconds = begin.elapsed().as_secs_f64();
            say(format_args!("{name:18} {counted} increments, all there, {seconds:.2} s"))?;
        }
        counter.free(world)?;
    }
    Ok(())
}

/// How often, and under which locks.
pub(crate) fn parse(arguments: &[String]) -> Result<(u64, Vec<String>)> {
    let (increments, names) = match arguments {
        [] => (INCREMENTS, &[][..]),
        [first, names @ ..] => match first.parse() {
            Ok(increments) => (increments, names),
            Err(_) => (INCREMENTS, arguments),
        },
    };
    let all = locks();
    if let Some(name) = names.iter().find(|&name| !all.contains(name)) {
        let what = format!(
            "count takes a number and names of locks, and {name:?} is neither; there are: {}",
            all.join(", ")
        );
        return Err(Error::InvalidArgument(what));
    }
    Ok((increments, if names.is_empty() { all } else { names.to_vec() }))
}

fn locks() -> Vec<String> {
    let exclusive = lock::Kind::all().into_iter().map(|kind| kind.name().to_owned());
    exclusive.chain(rw::Kind::all().iter().map(|kind| kind.name().to_owned())).collect()
}

pub(crate) fn help() -> String {
    format!(
        "  TIMES                    how often each rank counts up [default: {INCREMENTS}]\n  \
           LOCK …                   under which locks [default: all]: {}\n",
        locks().join(", ")
    )
}

//! The exclusive locks that programs use: every kind by itself, and what is wrong on purpose.

mod fairness;
mod kinds;
mod table;
mod variants;

use std::cell::Cell;
use std::rc::Rc;

use farside::sim::program;
use farside::{Guard, Lock, Rank, Result, World};

use super::asking::{Limit, Style, ask, in_time};
use crate::check::{Check, Setup, Subject};
use crate::property::{BoundedBypass, MutualExclusion};

pub(super) use kinds::of_name;
pub(super) use table::{EXPLORED, Explored};

/// Every rank enters the same room again and again, under a lock.
pub(super) fn exclusive(
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
    style: Style,
) -> impl Fn(&Setup) -> Subject {
    together(make, style, 1)
}

/// The same under a lock that so many ranks may have at a time.
fn together(
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
    style: Style,
    holders: u32,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, rounds, room) = (make.clone(), setup.rounds, MutualExclusion::of(holders));
        Subject::new(program(
            move |world| Ok((make(world)?, room.prepare(world)?)),
            move |world, (lock, room)| {
                for _ in 0..rounds {
                    let Some(guard) = ask(world, style, |limit| request(&lock, world, limit))?
                    else {
                        continue;
                    };
                    room.visit(world)?;
                    guard.unlock()?;
                }
                stay(world, &lock)
            },
        ))
    }
}

/// Every rank enters the same room again and again; the first of the queue may not be overtaken
/// more than `bound` times.
fn fair(
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
    bound: u32,
) -> impl Fn(&Setup) -> Subject {
    // Who is first changes, and so does who overtakes it.
    const FIRST: Rank = Rank(0);
    const OTHERS: Rank = Rank(1);
    move |setup| {
        let (make, rounds, watch) = (make.clone(), setup.rounds, BoundedBypass::new(bound));
        let is_overtaken = Rc::new(Cell::new(false));
        let (prepared, cleared) = (watch.clone(), is_overtaken.clone());
        Subject::new(program(
            move |world| {
                prepared.reset(2);
                cleared.set(false);
                make(world)
            },
            move |world, lock| {
                for _ in 0..rounds {
                    let before = lock.statistics();
                    let guard = lock.lock(world)?;
                    let now = lock.statistics();
                    if now.bypasses > before.bypasses {
                        if !is_overtaken.replace(true) {
                            watch.asks(FIRST);
                        }
                        watch.enters(OTHERS)?;
                    } else if now.queued > before.queued {
                        is_overtaken.set(false);
                        watch.enters(FIRST)?;
                    }
                    guard.unlock()?;
                }
                Ok(())
            },
        ))
    }
}

fn request<'a>(lock: &'a Lock, world: &'a World, limit: Limit) -> Result<Option<Guard<'a>>> {
    match limit {
        Limit::None => lock.lock(world).map(Some),
        Limit::Time(time) => in_time(lock.lock_timeout(world, time)),
        Limit::Once => lock.try_lock(world),
    }
}

/// An agent goes with the last rank of its node, so those of the home's stay until ranks of other
/// nodes are done. A rank leaves when its releases were executed.
pub(super) fn stay(world: &World, lock: &Lock) -> Result<()> {
    world.finish_calls()?;
    let is_called_from_afar = world.topology().nodes() > 1 && lock.entry().needs_agent;
    if is_called_from_afar { world.barrier() } else { Ok(()) }
}

/// All checks of exclusive locks.
pub fn checks() -> Vec<Check> {
    let mut checks = kinds::checks();
    checks.extend(fairness::checks());
    checks.extend(variants::checks());
    checks
}

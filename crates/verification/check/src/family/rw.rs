//! The reader-writer locks that programs use: every kind by itself, and what is wrong on purpose.

mod fairness;
mod kinds;
mod table;
mod variants;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use farside::rw::Statistics;
use farside::sim::program;
use farside::{ReadGuard, Result, RwLock, World, WriteGuard};

use super::asking::{Limit, Style, ask, in_time};
use crate::check::{Check, Setup, Subject};
use crate::property::ReadersWriters;

pub(super) use table::Roles;

/// What all runs of a check have counted together.
#[derive(Clone, Default)]
struct Totals(Rc<RefCell<Statistics>>);

impl Totals {
    fn add(&self, more: &Statistics) {
        let sum = self.0.borrow().plus(more);
        *self.0.borrow_mut() = sum;
    }

    /// What is never reached is not checked.
    fn reached(&self, branches: &[&str]) -> Result<(), String> {
        let all = self.0.borrow().named();
        for branch in branches {
            match all.iter().find(|(name, _)| name == branch) {
                Some((_, 1..)) => {}
                Some(_) => {
                    let taken = all
                        .iter()
                        .filter(|(_, count)| *count > 0)
                        .map(|(name, _)| *name)
                        .collect::<Vec<_>>();
                    return Err(format!(
                        "the branch `{branch}` was never reached, only {}",
                        taken.join(", ")
                    ));
                }
                None => return Err(format!("there is no branch `{branch}`")),
            }
        }
        Ok(())
    }
}

/// Every rank visits the same library again and again, under a lock; when all is done, each of the
/// branches must have been taken.
pub(super) fn visits(
    make: impl Fn(&World) -> Result<RwLock> + Clone + 'static,
    roles: Roles,
    style: Style,
    branches: &'static [&'static str],
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, rounds, library) = (make.clone(), setup.rounds, ReadersWriters::new(1));
        let totals = Totals::default();
        let counted = totals.clone();
        let program = program(
            move |world| Ok((make(world)?, library.prepare(world)?)),
            move |world, (lock, library)| {
                for _ in 0..rounds {
                    for role in roles[world.rank().index() % roles.len()].chars() {
                        let guard = match role {
                            'w' => ask(world, style, |limit| request_write(&lock, world, limit))?,
                            't' => request_write(&lock, world, Limit::Once)?,
                            'l' => {
                                request_write(&lock, world, Limit::Time(Duration::from_secs(1)))?
                            }
                            _ => None,
                        };
                        if role != 'r' {
                            guard.map_or(Ok(()), |guard| {
                                library.write(world).and_then(|()| guard.unlock())
                            })?;
                        } else {
                            let guard =
                                ask(world, style, |limit| request_read(&lock, world, limit))?;
                            guard.map_or(Ok(()), |guard| {
                                library.read(world).and_then(|()| guard.unlock())
                            })?;
                        }
                    }
                }
                counted.add(&lock.statistics());
                Ok(())
            },
        );
        Subject { program, in_the_end: Box::new(move || totals.reached(branches)) }
    }
}

fn request_read<'a>(
    lock: &'a RwLock,
    world: &'a World,
    limit: Limit,
) -> Result<Option<ReadGuard<'a>>> {
    match limit {
        Limit::None => lock.read(world).map(Some),
        Limit::Time(time) => in_time(lock.read_timeout(world, time)),
        Limit::Once => lock.try_read(world),
    }
}

fn request_write<'a>(
    lock: &'a RwLock,
    world: &'a World,
    limit: Limit,
) -> Result<Option<WriteGuard<'a>>> {
    match limit {
        Limit::None => lock.write(world).map(Some),
        Limit::Time(time) => in_time(lock.write_timeout(world, time)),
        Limit::Once => lock.try_write(world),
    }
}

/// All checks of reader-writer locks.
pub fn checks() -> Vec<Check> {
    let mut checks = kinds::checks();
    checks.extend(fairness::checks());
    checks.extend(variants::checks());
    checks
}

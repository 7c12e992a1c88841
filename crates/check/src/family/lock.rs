//! Locks.

mod mcs;
mod ticket;

use farside::sim::program;
use farside::{Result, Words, World};

use crate::check::{Check, Setup, Subject};
use crate::property::MutualExclusion;

/// A lock as the checks see it.
pub trait Lock: Clone + 'static {
    /// What a rank holds of it.
    type Handle;
    /// Makes one. Collective.
    fn make(&self, world: &World) -> Result<Self::Handle>;
    /// Returns when nobody else holds it.
    fn acquire(&self, world: &World, handle: &Self::Handle) -> Result<()>;
    /// Lets the next one in.
    fn release(&self, world: &World, handle: &Self::Handle) -> Result<()>;
}

/// Every rank enters the same room again and again, under a lock.
pub fn exclusive<L: Lock>(lock: L) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (lock, rounds, room) = (lock.clone(), setup.rounds, MutualExclusion::default());
        let make = lock.clone();
        Subject::new(program(
            move |world| Ok((make.make(world)?, room.furnish(world)?)),
            move |world, (handle, room)| {
                for _ in 0..rounds {
                    lock.acquire(world, &handle)?;
                    room.visit(world)?;
                    lock.release(world, &handle)?;
                }
                Ok(())
            },
        ))
    }
}

/// All checks of locks.
pub fn checks() -> Vec<Check> {
    let exclusion = |name, about, lock: mcs::Mcs| Check::new(name, about, exclusive(lock));
    let ticket = |name, about, lock: ticket::Ticket| Check::new(name, about, exclusive(lock));
    vec![
        exclusion("lock/mcs", "a queue of waiters, each on a word of its own", mcs::Mcs::Right)
            .setup(Setup::new(3).rounds(1)),
        exclusion(
            "lock/mcs-without-flush",
            "lets the next one in before its writes have landed",
            mcs::Mcs::WithoutFlush,
        )
        .mutant("was lost"),
        exclusion(
            "lock/mcs-without-second-look",
            "forgets a successor that is about to link itself",
            mcs::Mcs::WithoutSecondLook,
        )
        .mutant("had left"),
        ticket("lock/ticket", "take a number, wait until it is served", ticket::Ticket::Right),
        ticket("lock/ticket-plain", "takes its number with a load and a store", ticket::Ticket::Plain).mutant("inside"),
    ]
}

fn words(world: &World, count: usize) -> Result<Words> {
    world.words(count)
}

//! Small locks, as examples of how a protocol is checked: the locks that programs use are in the
//! family `lock`.

pub(crate) mod mcs;
mod readers_writers;
mod spin;
mod ticket;

use farside::sim::program;
use farside::{Result, World};

use crate::check::{Check, Setup, Subject};
use crate::property::{BoundedBypass, MutualExclusion, Promise};
use mcs::Mcs;
use readers_writers::Counted;
use spin::Spin;
use ticket::Ticket;

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

/// A lock that can be asked for first and waited for then.
pub trait Queue: Lock {
    /// What a rank gets by asking.
    type Turn;
    /// Takes a place. Does not wait for others.
    fn ask(&self, world: &World, handle: &Self::Handle) -> Result<Self::Turn>;
    /// Returns when it is this rank's turn.
    fn await_turn(&self, world: &World, handle: &Self::Handle, turn: Self::Turn) -> Result<()>;
}

/// Every rank enters the same room again and again, under a lock.
pub fn exclusive<L: Lock>(lock: L) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (lock, rounds, room) = (lock.clone(), setup.rounds, MutualExclusion::default());
        let make = lock.clone();
        Subject::new(program(
            move |world| Ok((make.make(world)?, room.prepare(world)?)),
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

/// Every rank asks for a lock again and again; nobody may overtake another more than `bound` times.
pub fn fair<L: Queue>(lock: L, bound: u32) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (lock, rounds, watch) = (lock.clone(), setup.rounds, BoundedBypass::new(bound));
        let (make, prepared) = (lock.clone(), watch.clone());
        Subject::new(program(
            move |world| {
                prepared.prepare(world);
                make.make(world)
            },
            move |world, handle| {
                for _ in 0..rounds {
                    let turn = lock.ask(world, &handle)?;
                    watch.asks(world.rank());
                    lock.await_turn(world, &handle, turn)?;
                    watch.enters(world.rank())?;
                    lock.release(world, &handle)?;
                }
                Ok(())
            },
        ))
    }
}

/// All checks of the examples.
pub fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "example/mcs",
            "a queue of waiters, each on a word of its own",
            exclusive(Mcs::Right),
        )
        .setup(Setup::new(3).rounds(2))
        .small(Setup::new(3)),
        Check::new("example/mcs-fair", "a queue: first come, first served", fair(Mcs::Right, 1))
            .setup(Setup::new(3)),
        Check::new(
            "example/mcs-without-flush",
            "lets the next one in before its writes have landed",
            exclusive(Mcs::WithoutFlush),
        )
        .mutant(Promise::Visibility, "was lost"),
        Check::new(
            "example/mcs-without-second-look",
            "forgets a successor that is about to link itself",
            exclusive(Mcs::WithoutSecondLook),
        )
        .mutant(Promise::Progress, "had left"),
        Check::new(
            "example/ticket",
            "take a number, wait until it is served",
            exclusive(Ticket::Right),
        )
        .setup(Setup::new(2).rounds(2)),
        Check::new("example/ticket-fair", "numbers are served in turn", fair(Ticket::Right, 1))
            .setup(Setup::new(2).rounds(2)),
        Check::new(
            "example/ticket-plain",
            "takes its number with a load and a store",
            exclusive(Ticket::Plain),
        )
        .mutant(Promise::Exclusion, "are inside at the same time"),
        Check::new("example/spin", "swap until it was free", exclusive(Spin))
            .setup(Setup::new(2).rounds(2)),
        Check::new(
            "example/spin-unfair",
            "swap until it was free: anybody may come first",
            fair(Spin, 1),
        )
        .setup(Setup::new(2).rounds(3))
        .mutant(Promise::Fairness, "was overtaken"),
        Check::new(
            "example/readers-writers",
            "readers and a writer count in one word",
            Counted::RIGHT.exclusive(),
        )
        .setup(Setup::new(2).rounds(2)),
        Check::new(
            "example/readers-writers-3",
            "two readers and a writer",
            Counted::RIGHT.exclusive(),
        )
        .setup(Setup::new(3)),
        Check::new(
            "example/readers-writers-impatient",
            "the writer does not wait for readers that are inside",
            Counted::IMPATIENT.exclusive(),
        )
        .mutant(Promise::Exclusion, "meets"),
    ]
}

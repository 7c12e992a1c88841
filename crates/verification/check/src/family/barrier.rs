//! Barriers.

use farside::sim::program;
use farside::{Rank, Result, Words, World};
use farside_rma::group::{dissemination, rounds};

use crate::check::{Check, Setup, Subject};
use crate::property::{Promise, Separation};

/// Every rank comes to a barrier again and again. `make` is collective and not explored.
pub fn separates<B: 'static>(
    make: impl Fn(&World) -> Result<B> + Clone + 'static,
    barrier: impl Fn(&World, &B, u64) -> Result<()> + Clone + 'static,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, barrier, rounds) = (make.clone(), barrier.clone(), u64::from(setup.rounds));
        Subject::new(program(
            move |world| Ok((make(world)?, Separation.prepare(world)?)),
            move |world, (state, gate)| {
                for round in 1..=rounds {
                    gate.comes(world, round)?;
                    barrier(world, &state, round)?;
                    gate.leaves(world, round)?;
                }
                Ok(())
            },
        ))
    }
}

/// Every rank puts a word to every other, and finds what was put to it after a sync.
fn completes(setup: &Setup) -> Subject {
    let rounds = u64::from(setup.rounds);
    Subject::new(program(
        |world| world.words(world.size() as usize),
        move |world, words| {
            for round in 1..=rounds {
                for peer in world.ranks().filter(|&peer| peer != world.rank()) {
                    world.put_value(round, words.at(peer, world.rank().index()))?;
                }
                world.sync()?;
                for peer in world.ranks().filter(|&peer| peer != world.rank()) {
                    let seen = world.get_value(words.at(world.rank(), peer.index()))?;
                    if seen < round {
                        return Err(super::wrong(format!(
                            "what {peer} has put before a sync is not there after it"
                        )));
                    }
                }
            }
            Ok(())
        },
    ))
}

/// A dissemination barrier with flags that are raised and taken down; `sets` of them are used in
/// turn.
#[derive(Clone, Copy)]
struct Flags {
    sets: u64,
}

impl Flags {
    fn barrier(self, world: &World, words: &Words, round: u64) -> Result<()> {
        let (me, size) = (world.rank().index(), world.size() as usize);
        for exchange in dissemination(me, size) {
            let flag = ((round % self.sets) as u32 * rounds(size) + exchange.round) as usize;
            world.signal(words.at(Rank(exchange.to as u32), flag), 1)?;
            world.wait(words.at(world.rank(), flag), |raised| raised == 1)?;
            world.store(words.at(world.rank(), flag), 0)?;
        }
        Ok(())
    }

    fn check(self, name: &'static str, about: &'static str) -> Check {
        let make = |world: &World| world.words(2 * rounds(world.size() as usize) as usize);
        Check::new(
            name,
            about,
            separates(make, move |world, words: &Words, round| self.barrier(world, words, round)),
        )
    }
}

/// All checks of barriers.
pub fn checks() -> Vec<Check> {
    let world_barrier = || separates(|_| Ok(()), |world, (), _| world.barrier());
    vec![
        Check::new("barrier/dissemination", "the barrier of a team", world_barrier())
            .setup(Setup::new(3).rounds(2)),
        Check::new("barrier/dissemination-far", "the same between nodes", world_barrier())
            .setup(Setup::new(3).topology("node:3").rounds(2)),
        Check::new(
            "barrier/central",
            "the barrier of a team that outnumbers its processors",
            world_barrier(),
        )
        .setup(Setup::new(3).crowded().rounds(2)),
        Check::new(
            "barrier/suspects",
            "a rank that has waited for long asks what the others do, at any step",
            world_barrier(),
        )
        .setup(Setup::new(2).rounds(2).time_outs(1)),
        Check::new("barrier/sync", "what was put before is there after", completes)
            .setup(Setup::new(3)),
        Flags { sets: 2 }
            .check("barrier/flags", "flags that are raised and taken down, two sets in turn")
            .setup(Setup::new(3).rounds(3)),
        Flags { sets: 1 }
            .check("barrier/flags-one-set", "uses a flag again before it was taken down")
            .setup(Setup::new(2).rounds(2))
            .mutant(Promise::Progress, "has already left"),
        Check::new(
            "barrier/without-waiting",
            "signals its neighbours and does not wait for them",
            separates(
                |world| world.words(1),
                |world, words, _| {
                    let next = Rank((world.rank().0 + 1) % world.size());
                    world.signal(words.at(next, 0), 1)
                },
            ),
        )
        .mutant(Promise::Separation, "has left barrier"),
    ]
}

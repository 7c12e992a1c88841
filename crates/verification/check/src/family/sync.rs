//! Fences, the barriers of every kind, and the sync that is a fence and a barrier in one.

use farside::fence::{Fences, Style};
use farside::sim::{Policy, program};
use farside::{BarrierKind, Rank, SyncKind, Team, World};
use farside_rma::group::steps;

use super::barrier::separates;
use crate::check::{Check, Setup, Subject};
use crate::property::Promise;

fn meets(kind: BarrierKind) -> impl Fn(&Setup) -> Subject {
    separates(|_| Ok(()), move |world, (), _| world.barrier_by(kind))
}

/// Rank 0 puts to rank 1 and fences; the last rank is told, and looks.
fn fenced(style: Style) -> impl Fn(&Setup) -> Subject {
    move |_| {
        Subject::new(program(
            |world| Ok((Fences::new(world)?, world.words(2)?)),
            move |world, (fences, words)| match world.rank().0 {
                0 => {
                    world.put_value(7, words.at(Rank(1), 0))?;
                    fences.fence(world, style, Rank(1))?;
                    world.signal(words.at(Rank(world.size() - 1), 1), 1)
                }
                me if me == world.size() - 1 => {
                    world.wait(words.at(world.rank(), 1), |told| told == 1)?;
                    match world.get_value(words.at(Rank(1), 0))? {
                        7 => Ok(()),
                        other => Err(super::wrong(format!("{other} after the fence instead of 7"))),
                    }
                }
                _ => Ok(()),
            },
        ))
    }
}

/// Each rank puts to each and syncs; then it finds what was put to itself and to its neighbour.
fn synced(kind: fn(&World, u64) -> SyncKind) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = u64::from(setup.rounds);
        Subject::new(program(
            |world| {
                // The first one allocates.
                world.sync_by(SyncKind::Counted)?;
                world.words(world.size() as usize)
            },
            move |world, words| {
                let next = Rank((world.rank().0 + 1) % world.size());
                for round in 1..=rounds {
                    for peer in world.ranks().filter(|&peer| peer != world.rank()) {
                        world.put_value(round, words.at(peer, world.rank().index()))?;
                    }
                    world.sync_by(kind(world, round))?;
                    for to in [world.rank(), next] {
                        for from in world.ranks().filter(|&from| from != to) {
                            // Others may be a round ahead, never behind.
                            let seen = world.get_value(words.at(to, from.index()))?;
                            if seen < round {
                                let what = format!(
                                    "what {from} put to {to} before sync {round} is not there \
                                     after it"
                                );
                                return Err(super::wrong(what));
                            }
                        }
                    }
                }
                Ok(())
            },
        ))
    }
}

/// Ranks 0 and 1 are a team; rank 0 puts to rank 1 and the team syncs, while rank 2 puts to rank 1
/// as well.
fn synced_by_some(_: &Setup) -> Subject {
    Subject::new(program(
        |world| {
            let team = world.split((world.rank() != Rank(2)).then_some(0), 0)?;
            if let Some(team) = &team {
                team.sync_by(SyncKind::Counted)?;
            }
            Ok((team.map(Team::detach).transpose()?, world.words(2)?))
        },
        move |world, (team, words)| {
            let put = |value| world.put_value(value, words.at(Rank(1), world.rank().index() / 2));
            if world.rank() != Rank(1) {
                put(7)?;
            }
            let Some(team) = team else { return Ok(()) };
            team.attach(world).sync_by(SyncKind::Counted)?;
            match world.get_value(words.at(Rank(1), 0))? {
                7 => Ok(()),
                other => Err(super::wrong(format!("{other} is not there after it"))),
            }
        },
    ))
}

/// Ranks that do not agree on the way.
fn mixed(world: &World, round: u64) -> SyncKind {
    let ways = [SyncKind::Counted, SyncKind::Direct, SyncKind::Auto];
    ways[(u64::from(world.rank().0) + round) as usize % ways.len()]
}

fn counted(_: &World, _: u64) -> SyncKind {
    SyncKind::Counted
}

/// All checks of fences, barriers and the combined sync.
pub fn checks() -> Vec<Check> {
    let mut checks = barriers();
    checks.extend(fences());
    checks.extend(combined());
    checks
}

fn barriers() -> Vec<Check> {
    let three = || Setup::new(3).rounds(2);
    let far = || Setup::new(3).topology("node:2").rounds(2);
    let many = || Setup::new(16).topology("rack:2,node:2,socket:2").rounds(2);
    let names: [(BarrierKind, [&'static str; 4]); 4] = [
        (
            BarrierKind::Central,
            ["sync/central", "sync/central-far", "sync/central-many", "sync/central-death"],
        ),
        (
            BarrierKind::Dissemination,
            [
                "sync/dissemination",
                "sync/dissemination-far",
                "sync/dissemination-many",
                "sync/dissemination-death",
            ],
        ),
        (
            BarrierKind::Binomial,
            ["sync/binomial", "sync/binomial-far", "sync/binomial-many", "sync/binomial-death"],
        ),
        (
            BarrierKind::Hierarchical,
            [
                "sync/hierarchical",
                "sync/hierarchical-far",
                "sync/hierarchical-many",
                "sync/hierarchical-death",
            ],
        ),
    ];
    let mut checks = Vec::new();
    for (kind, [near, between, large, death]) in names {
        let about = match kind {
            BarrierKind::Central => "a barrier that counts at one place",
            BarrierKind::Dissemination => "a barrier that signals in doubling steps",
            BarrierKind::Binomial => "a barrier up and down a binomial tree",
            BarrierKind::Hierarchical => "a barrier inside the nodes and then across",
        };
        let pct = Policy::Pct { depth: 3 };
        checks.push(Check::new(near, about, meets(kind)).setup(three()));
        checks.push(Check::new(between, about, meets(kind)).setup(far()));
        checks.push(Check::new(large, about, meets(kind)).setup(many()).policy(pct, 200));
        checks.push(Check::new(death, about, dies(kind)).setup(Setup::new(3).deaths(1)));
    }
    checks.push(
        Check::new(
            "sync/dissemination-one-set",
            "reuses its flags a round too early",
            meets(BarrierKind::Dissemination),
        )
        .setup(Setup::new(2).rounds(3))
        .omitting(steps::ALTERNATE)
        .mutant(Promise::Progress, "deadlock"),
    );
    checks.push(
        Check::new(
            "sync/binomial-without-gathering",
            "tells its parent before its children have come",
            meets(BarrierKind::Binomial),
        )
        .omitting(steps::GATHER)
        .mutant(Promise::Separation, "has left barrier"),
    );
    checks
}

/// Ranks meet, and one may die: the others get an error and do not wait for ever.
fn dies(kind: BarrierKind) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = setup.rounds;
        Subject::new(program(
            |_| Ok(()),
            move |world, ()| (0..rounds).try_for_each(|_| world.barrier_by(kind)),
        ))
    }
}

fn fences() -> Vec<Check> {
    let about = "what was put before a fence has landed after it";
    vec![
        Check::new("sync/fence-acknowledged", about, fenced(Style::Acknowledged))
            .setup(Setup::new(3)),
        Check::new("sync/fence-confirmed", about, fenced(Style::Confirmed)).setup(Setup::new(3)),
        Check::new(
            "sync/fence-without-order",
            "asks for a confirmation that may overtake the put",
            fenced(Style::Confirmed),
        )
        .setup(Setup::new(3))
        .omitting(steps::ORDER)
        .mutant(Promise::Visibility, "0 after the fence"),
    ]
}

fn combined() -> Vec<Check> {
    let about = "fence and barrier in one, by counting what has landed";
    vec![
        Check::new("sync/combined", about, synced(counted)).setup(Setup::new(3).topology("node:3")),
        Check::new("sync/combined-two-nodes", about, synced(counted))
            .setup(Setup::new(3).topology("node:2")),
        Check::new("sync/combined-twice", about, synced(counted))
            .setup(Setup::new(2).topology("node:2").rounds(2)),
        Check::new("sync/combined-mixed", "ranks that choose different ways", synced(mixed))
            .setup(Setup::new(3).topology("node:3")),
        Check::new("sync/combined-many", about, synced(counted))
            .setup(Setup::new(8).topology("node:5").rounds(2))
            .policy(Policy::Pct { depth: 3 }, 200),
        Check::new("sync/combined-death", about, |setup: &Setup| {
            let rounds = setup.rounds;
            Subject::new(program(World::sync, move |world, ()| {
                (0..rounds).try_for_each(|_| world.sync_by(SyncKind::Counted))
            }))
        })
        .setup(Setup::new(3).topology("node:3").deaths(1)),
        Check::new(
            "sync/team-of-some",
            "a sync of some ranks, while another puts to them",
            synced_by_some,
        )
        .setup(Setup::new(3).topology("node:3")),
        Check::new(
            "sync/team-counting-strangers",
            "takes the landings of ranks that are no members for those of members",
            synced_by_some,
        )
        .setup(Setup::new(3).topology("node:3"))
        .omitting(steps::COUNT_ALL)
        .mutant(Promise::Visibility, "is not there after it"),
        Check::new(
            "sync/combined-without-waiting",
            "does not wait until as much has landed as was posted",
            synced(counted),
        )
        .setup(Setup::new(2).topology("node:2"))
        .omitting(steps::AWAIT_LANDINGS)
        .mutant(Promise::Visibility, "is not there after it"),
        Check::new(
            "sync/combined-without-meeting",
            "goes on when its own memory is complete",
            synced(counted),
        )
        .setup(Setup::new(3).topology("node:3"))
        .omitting(steps::MEET_AGAIN)
        .mutant(Promise::Visibility, "is not there after it"),
    ]
}

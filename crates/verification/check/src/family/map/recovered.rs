//! Maps that survivors of a death recover and go on with. What the dead had under way may land at
//! any time, also after that.

use farside::map::{Options, Synchronization, steps};
use farside::sim::{Policy, program};
use farside::{PeerState, Rank, Result, World, rw};

use super::{Ask, Entries, Get, Insert, Map, Remove, Script, ask, keys};
use crate::check::{Check, Setup, Subject};
use crate::family::recovery::teams;
use crate::family::wrong as failed;
use crate::property::{History, Promise};

const PCT: Policy = Policy::Pct { depth: 3 };

/// The last rank changes a map, the others read.
const CHANGES: Script = Script {
    before: &[Insert(0, 1), Insert(1, 1)],
    ranks: &[&[Get(0)], &[Insert(0, 2), Remove(1)]],
    batches: false,
};
/// The last rank lengthens a chain.
const APPENDS: Script = Script {
    before: &[Insert(0, 1)],
    ranks: &[&[Get(0)], &[Insert(1, 2), Insert(2, 2)]],
    batches: false,
};
/// The requests of a survivor.
const AFTER: &[Ask] = &[Insert(0, 3), Get(0), Insert(0, 4), Get(1), Get(0)];

/// Every rank does what the script says, and all meet. Whoever hears of a death instead recovers
/// the map with the others that are left, and goes on with it.
fn recovered(synchronization: Synchronization, script: Script) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (history, deaths) = (History::new(), setup.deaths);
        let prepared = history.clone();
        let options = Options {
            synchronization: synchronization.clone(),
            slots: 1,
            reserve_bytes: Some(8 << 10),
        };
        Subject::new(program(
            move |world| {
                prepared.clear();
                let map = Map::with(&world.team(), &options)?;
                let keys = keys(&map);
                if world.rank() == Rank(0) {
                    for &request in script.before {
                        let call = prepared.call(request);
                        prepared.answer(call, ask(world, &map, &keys, request)?);
                    }
                }
                let teams = teams(world, deaths)?;
                world.barrier()?;
                Ok((map, keys, teams))
            },
            move |world: &World, (mut map, keys, teams)| {
                let run = |map: &Map, asks: &[Ask]| -> Result<()> {
                    for &request in asks {
                        let call = history.call(request);
                        history.answer(call, ask(world, map, &keys, request)?);
                    }
                    history.check(&Entries).map_err(failed)
                };
                let is_last = world.rank().0 + 1 == world.size();
                let done = run(&map, script.ranks[usize::from(is_last)]);
                let Err(error) = done.and_then(|()| world.barrier()) else { return Ok(()) };
                let dead: Vec<Rank> = world.ranks().filter(|&rank| world.is_lost(rank)).collect();
                // With its home the volume is gone; and who has left recovers nothing.
                let has_left = |rank: Rank| world.peer_state(rank) == PeerState::Left;
                if dead.contains(&Rank(0)) || world.ranks().any(has_left) {
                    return Ok(());
                }
                let survivors = teams.iter().find(|survivors| survivors.dead == dead);
                let team = survivors.and_then(|found| found.team.as_ref());
                let Some((team, _)) = team.filter(|_| error.lost_rank().is_some()) else {
                    return Err(failed(format!("after the death of {dead:?}: {error}")));
                };
                map.recover(&team.attach(world))?;
                // Nobody else dies: whoever took part in this can go on.
                run(&map, AFTER).map_err(|error| failed(format!("after a recovery: {error}")))
            },
        ))
    }
}

pub(super) fn checks() -> Vec<Check> {
    const ABOUT: &str = "a rank dies while it changes a map under a lock: the others recover it";
    let locked = || Synchronization::Locked(rw::Kind::Default);
    let check = |name, script| Check::new(name, ABOUT, recovered(locked(), script));
    let mortal = || Setup::new(2).deaths(1);
    vec![
        check("map/locked-death-recovers", CHANGES).setup(mortal()).policy(PCT, 5_000),
        check("map/locked-death-recovers-chain", APPENDS).setup(mortal()).policy(PCT, 5_000),
        check("map/locked-death-recovers-3", CHANGES)
            .setup(Setup::new(3).topology("node:3").deaths(1))
            .policy(PCT, 2_000),
        Check::new(
            "map/death-recovers",
            "a map with atomics needs no recovery, and stands one",
            recovered(Synchronization::Atomics, CHANGES),
        )
        .setup(mortal())
        .policy(PCT, 5_000),
        check("map/locked-without-recovery", CHANGES)
            .setup(mortal())
            .policy(PCT, 5_000)
            .omitting(steps::RECOVER_LOCKS)
            .mutant(Promise::Progress, "after a recovery"),
    ]
}

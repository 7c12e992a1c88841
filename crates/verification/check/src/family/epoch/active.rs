//! Active epochs: fences, and groups.

use farside::epoch::{Options, Window};
use farside::{Rank, Result, World};
use farside_epoch::steps;

use crate::check::{Check, Setup, Subject};
use crate::family::wrong;
use crate::property::Promise;

/// Every rank puts to every other between fences, and finds what was put to itself and to its
/// neighbour.
fn fences(setup: &Setup) -> Subject {
    let rounds = u64::from(setup.rounds);
    Subject::new(farside::sim::staged(move |world: &World, start: &dyn Fn()| {
        let size = u64::from(world.size());
        let window = Window::allocate(world, 8 * size as usize, Options::new().unit(8))?;
        window.fence()?;
        start();
        let me = world.rank();
        let next = Rank((me.0 + 1) % world.size());
        for round in 1..=rounds {
            for peer in world.ranks().filter(|&peer| peer != me) {
                window.put(&[round], peer, me.0.into())?;
            }
            window.fence()?;
            let seen = window.get::<u64>(next, me.0.into(), 1)?;
            window.fence()?;
            if seen.take()? != [round] {
                return Err(wrong(format!(
                    "what {me} has put before fence {round} is not there after it"
                )));
            }
            for other in world.ranks().filter(|&other| other != me) {
                let mut seen = [0u64];
                window.read_own(other.0.into(), &mut seen)?;
                // Others may be a round ahead, never behind.
                if seen[0] < round {
                    return Err(wrong(format!(
                        "what {other} has put before fence {round} is not there after it"
                    )));
                }
            }
        }
        Ok(())
    }))
}

/// Origins of each round put to the targets that have posted for them; targets find all of it after
/// the wait, and change their part before the next post.
fn groups(all: bool) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = u64::from(setup.rounds);
        Subject::new(farside::sim::staged(move |world: &World, start: &dyn Fn()| {
            let window = Window::allocate(world, 64, Options::new().unit(8).checking(false))?;
            start();
            let others: Vec<Rank> = world.ranks().filter(|&other| other != world.rank()).collect();
            for round in 1..=rounds {
                match (all, world.rank().0) {
                    (true, _) => {
                        expose(world, &window, &others, round)?;
                        access(world, &window, &others, round)?;
                        ended(world, &window, &others, round)?;
                    }
                    (false, 0) => {
                        expose(world, &window, &others, round)?;
                        ended(world, &window, &others, round)?;
                    }
                    (false, _) => access(world, &window, &[Rank(0)], round)?,
                }
            }
            Ok(())
        }))
    }
}

/// Word 7 says in which round this rank's part was posted.
fn expose(world: &World, window: &Window<'_>, origins: &[Rank], round: u64) -> Result<()> {
    let _ = world;
    window.write_own(&[round], 7)?;
    window.post(origins)
}

fn access(world: &World, window: &Window<'_>, targets: &[Rank], round: u64) -> Result<()> {
    window.start(targets)?;
    let mut posted = Vec::new();
    for &target in targets {
        window.put(&[round], target, world.rank().0.into())?;
        posted.push(window.get::<u64>(target, 7, 1)?);
    }
    window.complete()?;
    for (posted, target) in posted.into_iter().zip(targets) {
        let seen = posted.take()?[0];
        if seen != round {
            return Err(wrong(format!(
                "{} finds round {seen} at {target} in round {round}",
                world.rank()
            )));
        }
    }
    Ok(())
}

fn ended(world: &World, window: &Window<'_>, origins: &[Rank], round: u64) -> Result<()> {
    window.wait()?;
    for origin in origins {
        let mut seen = [0u64];
        window.read_own(origin.0.into(), &mut seen)?;
        if seen[0] != round {
            let me = world.rank();
            return Err(wrong(format!(
                "{me} does not find what {origin} has put in round {round}, but {}",
                seen[0]
            )));
        }
    }
    Ok(())
}

const FENCES: &str = "what was put before a fence is there after it";
const GROUPS: &str = "origins put to the target that has posted for them";
const RING: &str = "everybody is origin and target of all others";

pub(super) fn checks() -> Vec<Check> {
    let far = |ranks: u32| Setup::new(ranks).topology(if ranks == 3 { "node:3" } else { "node:2" });
    vec![
        Check::new("epoch/fence", FENCES, fences).setup(Setup::new(3)),
        Check::new("epoch/fence-far", FENCES, fences).setup(far(3)),
        Check::new("epoch/fence-twice", FENCES, fences).setup(far(2).rounds(2)),
        Check::new("epoch/fence-death", FENCES, fences).setup(far(2).deaths(1)),
        Check::new("epoch/post", GROUPS, groups(false)).setup(Setup::new(3)),
        Check::new("epoch/post-far", GROUPS, groups(false)).setup(far(3)),
        Check::new("epoch/post-twice", GROUPS, groups(false)).setup(far(2).rounds(2)),
        Check::new("epoch/post-all", RING, groups(true)).setup(far(3)),
        Check::new("epoch/post-death", GROUPS, groups(false)).setup(far(3).deaths(1)),
        Check::new("epoch/fence-without-flush", "meets before all has landed", fences)
            .setup(far(2))
            .omitting(steps::FLUSH)
            .mutant(Promise::Visibility, "is not there after it"),
        Check::new("epoch/fence-without-meeting", "waits for nobody", fences)
            .setup(far(2))
            .omitting(steps::MEET)
            .mutant(Promise::Visibility, "is not there after it"),
        Check::new("epoch/post-without-order", "says that it is done too early", groups(false))
            .setup(far(2))
            .omitting(steps::ORDER)
            .mutant(Promise::Visibility, "does not find what"),
        Check::new("epoch/post-without-posts", "comes before it may", groups(false))
            .setup(far(2))
            .omitting(steps::AWAIT_POSTS)
            .mutant(Promise::Separation, "finds round 0 at"),
        Check::new("epoch/post-without-origins", "goes before all came", groups(false))
            .setup(far(2))
            .omitting(steps::AWAIT_ORIGINS)
            .mutant(Promise::Visibility, "does not find what"),
    ]
}

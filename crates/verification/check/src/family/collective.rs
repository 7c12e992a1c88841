//! The collectives of a team: every member gets what it should, in every schedule.

use farside::sim::{Policy, program};
use farside::{Rank, Result, World};
use farside_rma::group::steps;

use super::barrier::separates;
use crate::check::{Check, Setup, Subject};
use crate::family::wrong;
use crate::property::Promise;

fn is<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(wrong(format!("{found:?} came out instead of {expected:?}")))
    }
}

/// Does something in each round, which begin with 1, and nothing else.
fn rounds(each: fn(&World, u64) -> Result<()>) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let rounds = u64::from(setup.rounds);
        Subject::new(program(
            |_| Ok(()),
            move |world, ()| (1..=rounds).try_for_each(|round| each(world, round)),
        ))
    }
}

fn broadcast(world: &World, round: u64) -> Result<()> {
    let root = Rank(round as u32 % world.size());
    let mut data = [100 * round + u64::from(world.rank().0)];
    world.broadcast(root, &mut data)?;
    is(data, [100 * round + u64::from(root.0)])
}

fn sum(world: &World, round: u64) -> u64 {
    world.ranks().map(|rank| round * 10 + u64::from(rank.0)).sum()
}

fn reduce(world: &World, round: u64) -> Result<()> {
    let root = Rank(round as u32 % world.size());
    let mut data = [round * 10 + u64::from(world.rank().0)];
    world.reduce(root, &mut data, |a, b| a + b)?;
    if world.rank() == root { is(data[0], sum(world, round)) } else { Ok(()) }
}

fn all_reduce(world: &World, round: u64) -> Result<()> {
    let mut data = [round * 10 + u64::from(world.rank().0)];
    world.all_reduce(&mut data, |a, b| a + b)?;
    is(data[0], sum(world, round))
}

/// So long that members on one node share the work.
fn all_reduce_long(world: &World, round: u64) -> Result<()> {
    let mut data = [round * 10 + u64::from(world.rank().0); 513];
    world.all_reduce(&mut data, |a, b| a + b)?;
    is(data, [sum(world, round); 513])
}

/// Likewise, for one of them.
fn reduce_long(world: &World, round: u64) -> Result<()> {
    let root = Rank(round as u32 % world.size());
    let mut data = [round * 10 + u64::from(world.rank().0); 513];
    world.reduce(root, &mut data, |a, b| a + b)?;
    if world.rank() == root { is(data, [sum(world, round); 513]) } else { Ok(()) }
}

/// So long that members on several nodes expose what they have.
fn exposed(world: &World, round: u64) -> Result<()> {
    const LEN: usize = (256 << 10) / 8 + 1;
    let (me, size) = (u64::from(world.rank().0), world.size() as usize);
    let mut data = vec![round * 10 + me; LEN];
    world.all_reduce(&mut data, |a, b| a + b)?;
    is([data[0], data[LEN / 2], data[LEN - 1]], [sum(world, round); 3])?;
    let all = world.all_gather(&vec![me; LEN])?;
    is(
        all.chunks_exact(LEN).map(|part| part[LEN - 1]).collect(),
        (0..size as u64).collect::<Vec<_>>(),
    )?;
    let all = world.all_to_all(&vec![me; LEN * size])?;
    is(all.chunks_exact(LEN).map(|part| part[0]).collect(), (0..size as u64).collect::<Vec<_>>())
}

fn all_gather(world: &World, round: u64) -> Result<()> {
    let all = world.all_gather(&[round * 10 + u64::from(world.rank().0)])?;
    is(all, world.ranks().map(|rank| round * 10 + u64::from(rank.0)).collect())
}

fn all_to_all(world: &World, round: u64) -> Result<()> {
    let block = |from: Rank, to: Rank| round * 100 + u64::from(from.0 * 10 + to.0);
    let send: Vec<u64> = world.ranks().map(|to| block(world.rank(), to)).collect();
    let all = world.all_to_all(&send)?;
    is(all, world.ranks().map(|from| block(from, world.rank())).collect())
}

fn scan(world: &World, round: u64) -> Result<()> {
    let up_to = |rank: u32| (0..rank).map(|rank| round * 10 + u64::from(rank)).sum::<u64>();
    let mine = [round * 10 + u64::from(world.rank().0)];
    let mut data = mine;
    world.scan(&mut data, |a, b| a + b)?;
    is(data[0], up_to(world.rank().0 + 1))
}

fn exclusive_scan(world: &World, round: u64) -> Result<()> {
    let mut data = [round * 10 + u64::from(world.rank().0)];
    world.exclusive_scan(&mut data, 0, |a, b| a + b)?;
    is(data[0], (0..world.rank().0).map(|rank| round * 10 + u64::from(rank)).sum())
}

/// Rank i sends i + j elements to rank j.
fn all_to_all_v(world: &World, round: u64) -> Result<()> {
    let part =
        |from: Rank, to: Rank| vec![round * 100 + u64::from(from.0); (from.0 + to.0) as usize];
    let parts: Vec<Vec<u64>> = world.ranks().map(|to| part(world.rank(), to)).collect();
    let all = world.all_to_all_v(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    is(all, world.ranks().map(|from| part(from, world.rank())).collect())
}

/// Two at a time; rank 0 does not wait for the first.
fn all_reduce_nb(world: &World, round: u64) -> Result<()> {
    let first = world.all_reduce_nb(&[round * 10 + u64::from(world.rank().0)], |a, b| a + b)?;
    let second = world.barrier_nb()?;
    if world.rank() == Rank(0) {
        drop(first);
    } else {
        is(first.wait()?, vec![sum(world, round)])?;
    }
    second.wait()
}

/// Rank 0 starts reductions and drops them; the last rank waits for each. There are more rounds
/// than places.
fn places(setup: &Setup) -> Subject {
    let rounds = u64::from(setup.rounds);
    Subject::new(program(
        |_| Ok(()),
        move |world, ()| {
            for round in 1..=rounds {
                let mine = [round * 10 + u64::from(world.rank().0)];
                let team = world.team();
                let reduction = team.all_reduce_nb(&mine, |a, b| a + b)?;
                if world.rank().0 == world.size() - 1 {
                    is(reduction.wait()?, vec![sum(world, round)])?;
                }
            }
            Ok(())
        },
    ))
}

/// Ranks 0 and 2 make a team, use it and free it; so does rank 1, alone.
fn split(world: &World, _round: u64) -> Result<()> {
    let colour = u64::from(world.rank().0 % 2);
    let team = world.split(Some(colour), 0)?.ok_or_else(|| wrong("no team for a colour"))?;
    let members = team.all_gather(&[world.rank().0])?;
    is(
        members,
        world.ranks().map(|rank| rank.0).filter(|rank| u64::from(rank % 2) == colour).collect(),
    )?;
    team.free()
}

/// Words of two allocations do not mix, and are zero.
fn words(world: &World, round: u64) -> Result<()> {
    let (a, b) = (world.words(1)?, world.words(1)?);
    let next = Rank((world.rank().0 + 1) % world.size());
    is(world.swap(a.at(next, 0), round)?, 0)?;
    is(world.swap(b.at(next, 0), round + 1)?, 0)?;
    a.free(world)?;
    b.free(world)
}

/// A window is there for every rank when it was allocated, and until all have freed it.
fn window(world: &World, round: u64) -> Result<()> {
    let window = world.window::<u64>(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    world.put_value(round, window.at(next, 0))?;
    window.free(world)
}

fn mixed(world: &World, round: u64) -> Result<()> {
    broadcast(world, round)?;
    all_gather(world, round)?;
    world.barrier()
}

type Each = fn(&World, u64) -> Result<()>;

/// Names on one node and between nodes.
const ALL: [(&str, &str, &str, Each, u32); 15] = [
    (
        "collective/broadcast",
        "collective/broadcast-far",
        "every rank gets the root's data",
        broadcast,
        2,
    ),
    ("collective/reduce", "collective/reduce-far", "the root gets the sum", reduce, 2),
    (
        "collective/all_reduce",
        "collective/all_reduce-far",
        "every rank gets the sum",
        all_reduce,
        1,
    ),
    (
        "collective/reduce_long",
        "collective/reduce_long-far",
        "the root gets the sum, of which each has made a slice",
        reduce_long,
        1,
    ),
    (
        "collective/all_reduce_long",
        "collective/all_reduce_long-far",
        "every rank gets the sum, of which each has made a slice",
        all_reduce_long,
        2,
    ),
    (
        "collective/all_gather",
        "collective/all_gather-far",
        "every rank gets everything",
        all_gather,
        1,
    ),
    (
        "collective/all_to_all",
        "collective/all_to_all-far",
        "every rank gets its parts",
        all_to_all,
        1,
    ),
    ("collective/scan", "collective/scan-far", "each gets the sum up to it", scan, 1),
    (
        "collective/exclusive_scan",
        "collective/exclusive_scan-far",
        "each gets the sum of those before it",
        exclusive_scan,
        1,
    ),
    (
        "collective/all_to_all_v",
        "collective/all_to_all_v-far",
        "every rank gets its parts, of unequal lengths",
        all_to_all_v,
        1,
    ),
    (
        "collective/all_reduce_nb",
        "collective/all_reduce_nb-far",
        "a reduction and a barrier under way at once, and one dropped",
        all_reduce_nb,
        1,
    ),
    ("collective/split", "collective/split-far", "a team is made, used and freed", split, 1),
    ("collective/words", "collective/words-far", "words are allocated, used and freed", words, 1),
    (
        "collective/window",
        "collective/window-far",
        "a window is allocated, used and freed",
        window,
        1,
    ),
    (
        "collective/mixed",
        "collective/mixed-far",
        "collectives of different kinds in a row",
        mixed,
        1,
    ),
];

/// All checks of collectives.
pub fn checks() -> Vec<Check> {
    let both =
        |(near, far, about, each, count): (&'static str, &'static str, &'static str, Each, u32)| {
            let setup = Setup::new(3).rounds(count);
            let far = Check::new(far, about, rounds(each)).setup(setup.clone().topology("node:3"));
            [Check::new(near, about, rounds(each)).setup(setup), far]
        };
    let all = ALL.into_iter().flat_map(both);
    // Its schedules are too many to try them all: acknowledgements may come before or after each of
    // many sends.
    let many = |check: Check| match check.name {
        "collective/split-far" | "collective/all_to_all_v-far" => {
            check.policy(Policy::Pct { depth: 3 }, 2000)
        }
        _ => check,
    };
    let two = Check::new("collective/split-far-2", "the same with two ranks", rounds(split))
        .setup(Setup::new(2).topology("node:2"));
    let about = "all-reduce, all-gather and all-to-all of so much that it is exposed in windows";
    let long = Check::new("collective/exposed-far", about, rounds(exposed))
        .setup(Setup::new(3).topology("node:3"))
        .policy(Policy::Pct { depth: 3 }, 100);
    all.map(many).chain([two, long]).chain(nonblocking()).collect()
}

fn nonblocking() -> [Check; 4] {
    let meets = || separates(|_| Ok(()), |world, (), _| world.barrier_nb()?.wait());
    let pct = Policy::Pct { depth: 3 };
    let rounds = || Setup::new(2).topology("node:2").rounds(12);
    [
        Check::new("collective/barrier_nb", "a barrier that is started and waited for", meets())
            .setup(Setup::new(3).rounds(2)),
        Check::new("collective/barrier_nb-far", "the same between nodes", meets())
            .setup(Setup::new(3).topology("node:3").rounds(2)),
        Check::new(
            "collective/places",
            "more reductions are started, and dropped, than there are places",
            places,
        )
        .setup(rounds())
        .policy(pct, 1000),
        Check::new(
            "collective/places-without-waiting",
            "writes over a contribution that was not read yet",
            places,
        )
        .setup(rounds())
        .policy(pct, 1000)
        .omitting(steps::AWAIT_PLACE)
        .mutant(Promise::Progress, "deadlock"),
    ]
}

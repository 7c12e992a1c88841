//! Barriers, fences and the combined sync: explored at a few ranks, run in virtual time at many,
//! and on threads.

use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind as Operation;
use farside::fence::{Fences, Style};
use farside::sim::{
    Profile, Program, Reduction, Report, Virtual, exhaustive, omitting, program, replay, simulation,
};
use farside::{BarrierKind, Error, Local, Rank, Result, SyncKind, World};
use farside_rma::group::steps;

const ENOUGH: u64 = 2_000_000;

fn explore(ranks: u32, topology: Option<&str>, program: &Program) -> Report {
    let report =
        exhaustive(&simulation(ranks, topology).unwrap(), program, Reduction::Sources, ENOUGH);
    println!("{ranks} ranks, {topology:?}: {} runs, {} steps", report.runs, report.steps);
    report
}

fn passes(ranks: u32, topology: Option<&str>, program: &Program) {
    let report = explore(ranks, topology, program);
    assert_eq!(report.failure, None);
    assert!(report.complete, "{report:?}");
}

/// A wrong program is caught, and its schedule shows the same problem again.
fn is_caught(ranks: u32, topology: Option<&str>, program: &Program, problem: &str) {
    let failure = explore(ranks, topology, program).failure.expect("the mutant is caught");
    assert!(failure.problem.contains(problem), "{failure:?}");
    let again = replay(&simulation(ranks, topology).unwrap(), program, &failure.schedule).unwrap();
    assert_eq!(again.verdict, farside::sim::Verdict::Failed(failure.problem));
}

/// Nobody leaves a round before all have come to it.
fn separation(kind: BarrierKind, rounds: u64) -> Program {
    program(
        |world| world.words(1),
        move |world, words| {
            let come = words.at(Rank(0), 0);
            for round in 1..=rounds {
                world.fetch_add(come, 1)?;
                world.barrier_by(kind)?;
                let seen = world.load(come)?;
                if seen < round * u64::from(world.size()) {
                    return Err(Error::Program(format!("left round {round} when {seen} had come")));
                }
            }
            Ok(())
        },
    )
}

#[test]
fn barriers_separate_in_every_schedule() {
    for kind in BarrierKind::ALL {
        passes(2, None, &separation(kind, 3));
        passes(3, None, &separation(kind, 2));
        passes(3, Some("node:2"), &separation(kind, 2));
        passes(4, Some("node:2"), &separation(kind, 1));
    }
}

#[test]
fn a_barrier_with_one_set_of_flags_is_caught() {
    is_caught(
        2,
        None,
        &omitting(steps::ALTERNATE, separation(BarrierKind::Dissemination, 3)),
        "deadlock",
    );
}

#[test]
fn a_tree_that_does_not_gather_is_caught() {
    is_caught(
        2,
        None,
        &omitting(steps::GATHER, separation(BarrierKind::Binomial, 1)),
        "left round 1",
    );
}

/// What was put before a fence is there when somebody is told so.
fn fenced(style: Style) -> Program {
    program(
        |world| Ok((Fences::new(world)?, world.words(2)?)),
        move |world, (fences, words)| match world.rank().0 {
            0 => {
                world.put_value(7, words.at(Rank(1), 0))?;
                fences.fence(world, style, Rank(1))?;
                let told = Rank(world.size() - 1);
                world.signal(words.at(told, 1), 1)
            }
            me if me == world.size() - 1 => {
                world.wait(words.at(world.rank(), 1), |told| told == 1)?;
                match world.get_value(words.at(Rank(1), 0))? {
                    7 => Ok(()),
                    other => Err(Error::Program(format!("{other} after the fence"))),
                }
            }
            _ => Ok(()),
        },
    )
}

#[test]
fn a_fence_returns_when_puts_have_landed() {
    for style in [Style::Acknowledged, Style::Confirmed] {
        passes(2, None, &fenced(style));
        passes(3, None, &fenced(style));
    }
}

#[test]
fn a_confirmation_without_fence_is_caught() {
    let unordered = omitting(steps::ORDER, fenced(Style::Confirmed));
    is_caught(3, None, &unordered, "0 after the fence");
}

/// Everybody puts to everybody; after the sync all of it is everywhere.
fn all_to_all(world: &World, sync: impl Fn(u64) -> Result<()>, rounds: u64) -> Result<()> {
    let window = world.window::<u64>(world.size() as usize)?;
    for round in 1..=rounds {
        for peer in world.ranks() {
            world.put_value(round, window.at(peer, world.rank().index()))?;
        }
        sync(round)?;
        // One look at a neighbour's memory, too: it must be complete as well.
        let next = Rank((world.rank().0 + 1) % world.size());
        let mut theirs = vec![0; world.size() as usize];
        world.get(window.at(next, 0), &mut theirs)?;
        let mine = window.own().to_vec()?;
        if mine.iter().chain(&theirs).any(|&seen| seen != round) {
            return Err(Error::Program(format!(
                "round {round}: {mine:?} here, {theirs:?} at {next}"
            )));
        }
        world.barrier()?;
    }
    window.free(world)
}

/// Some put, all sync, and everybody finds what was put to it and to its neighbour.
fn synced(puts: &'static [(u32, u32)], rounds: u64) -> Program {
    program(
        |world| {
            // The first one allocates.
            world.sync_by(SyncKind::Counted)?;
            world.window::<u64>(world.size() as usize)
        },
        move |world, window| {
            let me = world.rank().0;
            for round in 1..=rounds {
                for &(_, to) in puts.iter().filter(|&&(from, _)| from == me) {
                    world.put_value(round, window.at(Rank(to), me as usize))?;
                }
                world.sync_by(SyncKind::Counted)?;
                // Others may be a round ahead, never behind.
                for &(from, to) in
                    puts.iter().filter(|&&(_, to)| to == me || to == (me + 1) % world.size())
                {
                    let seen = world.get_value(window.at(Rank(to), from as usize))?;
                    if seen < round {
                        return Err(Error::Program(format!(
                            "{seen} of {round} from rank {from} to rank {to}"
                        )));
                    }
                }
            }
            Ok(())
        },
    )
}

#[test]
fn a_sync_is_complete_in_every_schedule() {
    const ALL: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
    passes(2, Some("node:2"), &synced(&[(0, 1), (1, 0)], 2));
    passes(3, Some("node:3"), &synced(&[(0, 1), (1, 2)], 2));
    passes(3, Some("node:3"), &synced(ALL, 1));
    passes(3, Some("node:2"), &synced(ALL, 1));
    passes(4, Some("node:4"), &synced(&[(0, 3), (3, 1)], 1));
    passes(5, Some("node:5"), &synced(&[(0, 4), (4, 2)], 1));
}

#[test]
fn a_sync_that_does_not_wait_is_caught() {
    let hasty = omitting(steps::AWAIT_LANDINGS, synced(&[(0, 1)], 1));
    is_caught(2, Some("node:2"), &hasty, "0 of 1");
}

#[test]
fn a_sync_that_does_not_meet_again_is_caught() {
    let once = omitting(steps::MEET_AGAIN, synced(&[(0, 1)], 1));
    is_caught(3, Some("node:3"), &once, "0 of 1");
}

#[test]
fn a_sync_is_complete_in_virtual_time() {
    for (ranks, topology) in [
        (2, "node:2"),
        (3, "node:3"),
        (5, "node:5"),
        (6, "node:3"),
        (7, "node:7"),
        (16, "node:16"),
        (24, "node:6"),
    ] {
        for (way, seed) in [(SyncKind::Counted, 1), (SyncKind::Auto, 2), (SyncKind::Direct, 3)] {
            let profile = Profile::load("ethernet-now").unwrap();
            let job = Virtual::new(&profile, ranks).unwrap().topology(topology).unwrap().seed(seed);
            let outcome = job.run(move |world| all_to_all(world, |_| world.sync_by(way), 4));
            assert!(outcome.is_ok(), "{ranks} ranks, {topology}, {way:?}: {outcome:?}");
        }
    }
}

#[test]
fn syncs_of_all_ways_alternate() {
    let profile = Profile::load("myrinet-2000").unwrap();
    let outcome = Virtual::new(&profile, 6).unwrap().run(|world| {
        let ways = SyncKind::ALL;
        // Ranks need not agree on the way.
        let mine = |round: u64| ways[(round + u64::from(world.rank().0)) as usize % ways.len()];
        all_to_all(world, |round| world.sync_by(mine(round)), 8)
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn threads_meet() {
    for topology in ["node:1", "node:2", "node:3,socket:2"] {
        for kind in BarrierKind::ALL {
            let run = |world: &World| {
                let words = world.words(1)?;
                for round in 1..=50u64 {
                    world.fetch_add(words.at(Rank(0), 0), 1)?;
                    world.barrier_by(kind)?;
                    let come = world.load(words.at(Rank(0), 0))?;
                    assert!(
                        come >= round * u64::from(world.size()),
                        "{kind:?} on {topology}: {come} in {round}"
                    );
                }
                words.free(world)
            };
            Local::new(7).unwrap().topology(topology).run(run).unwrap();
        }
        let sync = |world: &World| all_to_all(world, |_| world.sync(), 20);
        Local::new(7).unwrap().topology(topology).run(sync).unwrap();
    }
}

/// Where the fabric counts what lands, nobody waits for acknowledgements of another node.
#[test]
fn a_sync_between_nodes_is_the_combined_one() {
    const LONG: usize = 4 << 10;
    let far = [
        "nic",
        "tcp;ofi_rxm/atomics=agent",
        "tcp;ofi_rxm/atomics=native",
        "tcp;ofi_rxm/atomics=apart",
    ];
    for provider in far {
        let (counts, ranks) = (Counts::new(4), 4);
        let over = counts.clone();
        let local = Local::new(ranks).unwrap().nodes(4);
        let local = if provider == "nic" { local } else { local.ofi(provider) };
        let flushes = |me: Rank| -> u64 {
            (0..ranks)
                .map(Rank)
                .filter(|&to| to != me)
                .map(|to| counts.operations(me, Operation::Flush, to))
                .sum()
        };
        let run = |world: &World| {
            let window = world.window::<u64>(4 * LONG)?;
            // The first one allocates.
            world.sync()?;
            for round in 1..=10u64 {
                for peer in world.ranks() {
                    // One in four goes past the agents where there is such a way.
                    let length = if u64::from(peer.0) == round % 4 { LONG } else { 1 };
                    let at = world.rank().index() * LONG;
                    world.put(
                        &vec![round; LONG][LONG - length..],
                        window.at(peer, at + LONG - length),
                    )?;
                }
                let before = flushes(world.rank());
                world.sync_by(SyncKind::Counted)?;
                assert_eq!(
                    flushes(world.rank()) - before,
                    0,
                    "{provider}: acknowledgements were waited for"
                );
                let mine = window.own().to_vec()?;
                assert!(
                    (1..=4).all(|part| mine[part * LONG - 1] == round),
                    "{provider}: not all has landed"
                );
                world.barrier()?;
            }
            window.free(world)
        };
        local.decorate(move |fabric| over.over(fabric)).run(run).unwrap();
    }
}

#[test]
fn who_does_not_come_to_a_barrier_is_missed() {
    for kind in BarrierKind::ALL {
        let outcome = farside::local(3, |world| {
            if world.rank() == Rank(1) {
                return Ok(None);
            }
            Ok(world.barrier_by(kind).err())
        });
        let errors = outcome.unwrap();
        let missed = |error: &Option<Error>| matches!(error, Some(Error::RankLost { .. }));
        assert!(missed(&errors[0]) && missed(&errors[2]), "{kind:?}: {errors:?}");
    }
}

//! Stores and loads of shared memory that race, and where.

use std::sync::atomic::{AtomicU32, Ordering};

use farside::dsm::{Access, AccessKind, Config, Dsm, Race, Shared};
use farside::{Rank, Result};

#[test]
fn races_are_reported_with_who_and_where() {
    let config = Config { check_races: true, ..Config::new(1 << 16) };
    let found = farside::local(3, |world| {
        let mut dsm = Dsm::new(world, config)?;
        let words = dsm.alloc::<u32>(100)?;
        let me = world.rank();
        // Ordered by a lock, and on different words: no race.
        dsm.locked(1, |dsm| dsm.set(words, 0, me.0 + 1))?;
        dsm.set(words, 1 + me.index(), 7)?;
        dsm.barrier()?;
        assert_eq!(dsm.races(), []);
        // Two of them write word 50.
        if me != Rank(1) {
            dsm.set(words, 50, me.0 + 3)?;
        }
        dsm.barrier()?;
        let found = dsm
            .races()
            .iter()
            .map(|race| (race.ranks, words.index_of(race.offset)))
            .collect::<Vec<_>>();
        dsm.close()?;
        Ok(found)
    });
    assert_eq!(found.unwrap().concat(), [((Rank(0), Rank(2)), Some(50))]);
}

/// Runs a program on 3 ranks that look for loads as well as stores; returns all races, with the
/// elements of the program's one array.
fn races_of(
    access: Access,
    program: impl Fn(&mut Dsm<'_>, Shared<u64>) -> Result<()> + Sync,
) -> Vec<(Race, Option<usize>)> {
    let config = Config { check_loads: true, access, ..Config::new(1 << 16) };
    let found = farside::local(3, |world| {
        let mut dsm = Dsm::new(world, config)?;
        let words = dsm.alloc::<u64>(1000)?;
        program(&mut dsm, words)?;
        dsm.barrier()?;
        let found = dsm.races();
        dsm.close()?;
        let element = |race: Race| (race.clone(), words.index_of(race.offset));
        Ok(found.into_iter().map(element).collect::<Vec<_>>())
    });
    found.unwrap().concat()
}

#[test]
fn loads_that_race_with_stores_are_reported_with_both_places() {
    let here = |line: u32| Some(format!("{}:{line}", file!()));
    for access in [Access::Pager, Access::Protect, Access::Explicit] {
        let (stored, loaded) = (AtomicU32::new(0), AtomicU32::new(0));
        let found = races_of(access, |dsm, words| {
            match dsm.world().rank() {
                Rank(0) => {
                    stored.store(line!() + 1, Ordering::Relaxed);
                    dsm.view_mut(words, 600..700)?.set(1, 7);
                }
                Rank(1) => {
                    let view = dsm.view(words, 0..1000)?;
                    loaded.store(line!() + 1, Ordering::Relaxed);
                    let _ = view.get(600) + view.get(601) + view.get(602);
                }
                _ => {}
            }
            Ok(())
        });
        let [(race, Some(601))] = &found[..] else { panic!("{access:?}: {found:?}") };
        assert_eq!(race.ranks, (Rank(0), Rank(1)));
        assert_eq!(race.kinds, (AccessKind::Store, AccessKind::Load));
        let (stored, loaded) = (stored.into_inner(), loaded.into_inner());
        assert_eq!(race.places, (here(stored), here(loaded)), "{access:?}");
        let text = race.to_string();
        assert!(text.contains(&format!("races.rs:{stored} (interval 1), and rank 1 loads it")));
    }
}

#[test]
fn stores_that_race_are_reported_with_both_places() {
    let found = races_of(Access::Pager, |dsm, words| {
        let me = dsm.world().rank();
        match me {
            Rank(0) => dsm.set(words, 5, 1),
            Rank(1) => dsm.locked(0, |dsm| dsm.set(words, 5, dsm.get(words, 5)? + 2)),
            _ => Ok(()),
        }
    });
    let first = line!() - 5;
    // The load of the same interval and the same word tells nothing more.
    let [(race, Some(5))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(race.kinds, (AccessKind::Store, AccessKind::Store));
    let places = [first, first + 1].map(|line| Some(format!("{}:{line}", file!())));
    assert_eq!([race.places.0.clone(), race.places.1.clone()], places);
}

#[test]
fn loads_that_are_ordered_or_of_other_words_are_no_races() {
    for access in [Access::Pager, Access::Explicit] {
        let found = races_of(access, |dsm, words| {
            let me = dsm.world().rank().index();
            // Others write words beside these, on the same page.
            for round in 1..4 {
                let mine = dsm.view_mut(words, 0..999)?;
                (me..999).step_by(3).for_each(|at| mine.set(at, mine.get(at) + round));
                dsm.barrier()?;
                let sum: u64 = dsm.view(words, 0..999)?.iter().sum();
                assert_eq!(sum, 999 * round * (round + 1) / 2);
                dsm.barrier()?;
            }
            // A rank that only loads under the lock comes before those that store afterwards.
            for _ in 0..20 {
                let seen = dsm.locked(1, |dsm| dsm.get(words, 999))?;
                if me != 0 {
                    dsm.locked(1, |dsm| dsm.set(words, 999, seen + 1))?;
                }
            }
            Ok(())
        });
        assert_eq!(found, []);
    }
}

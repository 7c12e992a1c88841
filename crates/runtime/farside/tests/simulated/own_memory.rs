//! What a rank reads and writes of its own memory directly is explored like its operations.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use farside::check::{Check, Outcome, begin};
use farside::{Rank, Result, World};

/// The ways to say that data has come.
#[derive(Clone, Copy)]
enum Said {
    /// Each block of data adds one.
    Counted,
    /// Each block of data sets its number.
    Numbered,
}

/// Rank 0 sends two blocks of data with a signal each, to the same word; rank 1 waits for the first
/// signal, and takes it for that of the first block.
fn two_blocks(said: Said, is_fenced: bool) -> impl Fn(&World) -> Result<()> + 'static {
    move |world| {
        let (data, flag) = (world.window::<u64>(2)?, world.words(1)?);
        begin(world);
        let flag = flag.at(Rank(1), 0);
        if world.rank() == Rank(1) {
            world.wait(flag, |flag| flag >= 1)?;
            assert_eq!(data.own().get(0)?, 7);
            return Ok(());
        }
        for index in 0..2 {
            let (block, to) = ([7 + index as u64], data.at(Rank(1), index));
            match said {
                Said::Counted => world.put_signal_add(&block, to, 1, flag)?,
                Said::Numbered => world.put_signal(&block, to, 1 + index as u64, flag)?,
            }
            if is_fenced {
                world.fence()?;
            }
        }
        Ok(())
    }
}

#[test]
fn signals_that_change_places_are_found() {
    for said in [Said::Counted, Said::Numbered] {
        for policy in ["exhaustive", "unreduced"] {
            let check = Check::new(2).policy(policy).races(false);
            let finding = check.explore(two_blocks(said, false)).unwrap();
            assert_eq!(finding.outcome, Outcome::Failed, "{policy}");
            let problem = finding.report.failure.unwrap().problem;
            assert!(problem.contains("left: 0"), "{problem}");
            let finding = check.explore(two_blocks(said, true)).unwrap();
            assert_eq!(finding.outcome, Outcome::Exhaustive, "{policy}");
        }
    }
}

/// Explores a program with and without reduction, and returns what it was seen to return.
fn outcomes(ranks: u32, program: fn(&World) -> Result<u64>) -> BTreeSet<Vec<u64>> {
    let explored = |policy: &str| {
        let all: Rc<RefCell<BTreeSet<Vec<u64>>>> = Rc::default();
        let seen: Rc<RefCell<Vec<Option<u64>>>> = Rc::default();
        let gathered = all.clone();
        let subject = move |world: &World| -> Result<()> {
            if world.rank() == Rank(0) {
                *seen.borrow_mut() = vec![None; world.size() as usize];
            }
            let value = program(world)?;
            seen.borrow_mut()[world.rank().index()] = Some(value);
            gathered.borrow_mut().extend(seen.borrow().iter().copied().collect::<Option<Vec<_>>>());
            Ok(())
        };
        let check = Check::new(ranks).policy(policy).races(false);
        let finding = check.explore(subject).unwrap();
        assert_eq!(finding.outcome, Outcome::Exhaustive, "{policy}: {:?}", finding.report);
        all.take()
    };
    let (reduced, all) = (explored("exhaustive"), explored("unreduced"));
    assert_eq!(reduced, all);
    all
}

#[test]
fn a_write_is_seen_by_others_or_is_not() {
    let found = outcomes(2, |world| {
        let data = world.window::<u64>(1)?;
        begin(world);
        if world.rank() == Rank(1) {
            return world.get_value(data.at(Rank(0), 0));
        }
        data.own().set(0, 5)?;
        data.own().set(0, 6)?;
        Ok(0)
    });
    assert_eq!(found, [vec![0, 0], vec![0, 5], vec![0, 6]].into());
}

#[test]
fn puts_land_between_two_reads() {
    // The second put comes after the first: seen alone, it was read later.
    let found = outcomes(2, |world| {
        let data = world.window::<u64>(2)?;
        begin(world);
        if world.rank() == Rank(1) {
            let own = data.own();
            return Ok(10 * own.get(0)? + own.get(1)?);
        }
        world.put_value(1, data.at(Rank(1), 0))?;
        world.fence()?;
        world.put_value(1, data.at(Rank(1), 1))?;
        Ok(0)
    });
    assert_eq!(found, [vec![0, 0], vec![0, 1], vec![0, 10], vec![0, 11]].into());
}

#[test]
fn a_rank_that_polls_its_own_memory_comes_to_an_end() {
    let found = outcomes(2, |world| {
        let data = world.window::<u64>(1)?;
        begin(world);
        if world.rank() == Rank(1) {
            while data.own().get(0)? == 0 {
                world.relax()?;
            }
            return data.own().get(0);
        }
        world.put_value(3, data.at(Rank(1), 0))?;
        Ok(0)
    });
    assert_eq!(found, [vec![0, 3]].into());
}

#[test]
fn memory_that_is_lent_is_not_called_exhaustive() {
    let lends = |world: &World| -> Result<()> {
        let data = world.window::<u64>(1)?;
        begin(world);
        // SAFETY: nobody writes it.
        let _ = unsafe { data.own().as_slice() };
        Ok(())
    };
    for races in [true, false] {
        let finding = Check::new(2).races(races).explore(lends).unwrap();
        assert_eq!(finding.outcome, Outcome::Partial);
        let text = finding.describe(&str::to_owned);
        assert!(text.contains("as_slice at ") && text.contains("own_memory.rs"), "{text}");
        assert!(!text.contains("exhaustive: "), "{text}");
    }
}

#[test]
fn memory_of_an_array_that_is_lent_is_named_by_the_programs_line() {
    let lends = |world: &World| -> Result<()> {
        let array = farside::GlobalArray::<u64>::new(world, &[4])?;
        begin(world);
        // SAFETY: nobody writes it, and nothing else touches it.
        unsafe {
            array.own_view(0)?;
            array.own_view_mut(0)?;
        }
        Ok(())
    };
    let finding = Check::new(2).explore(lends).unwrap();
    assert_eq!(finding.outcome, Outcome::Partial);
    let text = finding.describe(&str::to_owned);
    for what in ["as_slice at ", "as_mut_slice at "] {
        let line = text.lines().find(|line| line.contains(what)).expect(&text);
        assert!(line.contains("own_memory.rs"), "{text}");
    }
}

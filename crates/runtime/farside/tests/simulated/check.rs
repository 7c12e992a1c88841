//! Programs of users, explored: as tests, as functions, and what is said of them.

use farside::check::{Check, Means, Outcome, begin};
use farside::sim::Verdict;
use farside::{Error, Rank, Result, World};

/// A test that a page shows is compiled nowhere else: rustdoc leaves tests out.
#[test]
fn the_page_of_checking_shows_a_test_word_for_word() {
    let page = include_str!("../../../../../docs/checking.md");
    let shown = format!("```rust\n{}```\n", include_str!("page.rs"));
    assert!(page.contains(&shown), "no block is page.rs");
}

/// Without `begin`, all of it is explored, the allocation too.
#[farside::test(ranks = 2)]
fn a_signal_orders_its_put(world: &World) -> Result<()> {
    let (data, flag) = (world.window::<u64>(2)?, world.words(1)?);
    if world.rank() == Rank(0) {
        world.put_signal(&[1, 2], data.at(Rank(1), 0), 1, flag.at(Rank(1), 0))
    } else {
        world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
        assert_eq!(data.own().to_vec()?, [1, 2]);
        Ok(())
    }
}

#[farside::test(ranks = 4, nodes = 2, policy = "pct:3", schedules = 200, seed = 7)]
fn a_sample_on_two_nodes(world: &World) -> Result<()> {
    world.barrier()
}

#[farside::test(ranks = 2, deaths = 1)]
fn a_death_is_told(world: &World) -> Result<()> {
    begin(world);
    world.barrier()
}

#[farside::test(ranks = 2, nodes = 2, deaths = 1, slow_news = true)]
fn a_death_is_told_to_one_node_after_the_other(world: &World) -> Result<()> {
    begin(world);
    world.barrier()
}

#[farside::test(ranks = 2)]
#[should_panic(expected = "RACE on")]
fn a_race_fails_although_nothing_goes_wrong(world: &World) {
    let words = world.window::<u64>(1).unwrap();
    begin(world);
    world.put_value(5, words.at(Rank(0), 0)).unwrap();
}

#[test]
fn what_was_not_looked_into_for_races_is_said() {
    let map = |world: &World| -> Result<farside::HashMap<u64, u64>> {
        let map = farside::HashMap::new(world)?;
        begin(world);
        map.insert(world, 1, 2)?;
        Ok(map)
    };
    let said = |finding: farside::check::Finding| {
        assert_eq!(finding.outcome, Outcome::Exhaustive);
        finding.describe(&str::to_owned)
    };
    let alone = Check::new(1).explore(move |world: &World| map(world).map(drop)).unwrap();
    let text = said(alone);
    assert!(text.starts_with("no failure in any schedule (exhaustive), but races were"), "{text}");
    let why = "races     nothing was checked: accesses inside maps and sets cannot be seen";
    assert!(text.contains(why) && !text.contains("passed"), "{text}");
    let both = Check::new(1).explore(move |world: &World| {
        let words = world.window::<u64>(1)?;
        map(world)?.free(world)?;
        world.put_value(1, words.at(Rank(0), 0))?;
        world.flush(Rank(0))
    });
    let text = said(both.unwrap());
    assert!(text.starts_with("passed in all schedules"), "{text}");
    assert!(text.contains("races     not seen: accesses inside maps and sets ("), "{text}");
    let neither = Check::new(2).explore(|world: &World| world.barrier()).unwrap();
    let text = said(neither);
    assert!(text.starts_with("passed in all schedules") && !text.contains("not seen"), "{text}");
}

#[farside::test(ranks = 2, races = false)]
fn races_need_not_be_looked_for(world: &World) {
    let words = world.window::<u64>(1).unwrap();
    begin(world);
    world.put_value(5, words.at(Rank(0), 0)).unwrap();
}

#[farside::test(ranks = 3, schedules = 5)]
#[should_panic(expected = "not all schedules were tried")]
fn what_was_cut_off_has_not_passed(world: &World) -> Result<()> {
    let words = world.words(1)?;
    begin(world);
    world.fetch_add(words.at(Rank(0), 0), 1)?;
    world.fetch_add(words.at(Rank(0), 0), 1).map(drop)
}

#[farside::test(ranks = 2)]
#[should_panic(expected = "deadlock")]
fn a_deadlock_is_found(world: &World) -> Result<()> {
    let flag = world.words(1)?;
    begin(world);
    world.wait(flag.at(world.rank(), 0), |flag| flag == 1).map(drop)
}

#[test]
fn an_error_comes_with_a_schedule_that_shows_it_again() {
    // The second to come finds what the first has left: in one order of two, it is rank 0.
    fn first_come(world: &World) -> Result<()> {
        let words = world.words(1)?;
        begin(world);
        let before = world.fetch_add(words.at(Rank(0), 0), 1)?;
        match (world.rank(), before) {
            (Rank(0), 1) => Err(Error::Program("rank 0 came second".into())),
            _ => Ok(()),
        }
    }
    let check = Check::new(2);
    let finding = check.explore(first_come).unwrap();
    assert_eq!(finding.outcome, Outcome::Failed);
    assert!(finding.race.is_none() && finding.cure.is_none());
    let failure = finding.report.failure.clone().unwrap();
    assert!(failure.problem.contains("came second"), "{}", failure.problem);
    let run = check.replay(first_come, &failure.schedule).unwrap();
    assert!(matches!(run.verdict, Verdict::Failed(problem) if problem.contains("came second")));
    let text = finding.describe(&|schedule| format!("again {schedule}"));
    for words in
        ["came second", "job       2 ranks, one node", "exhaustive", "fetch_add 1", "again "]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// Data and its flag, with what `between` says between them.
fn data_then_flag(between: fn(&World) -> Result<()>) -> impl Fn(&World) -> Result<()> + 'static {
    move |world| {
        let (data, flag) = (world.window::<u64>(1)?, world.words(1)?);
        begin(world);
        if world.rank() == Rank(0) {
            world.put_value(7, data.at(Rank(1), 0))?;
            between(world)?;
            world.signal(flag.at(Rank(1), 0), 1)
        } else {
            world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
            data.own().get(0).map(drop)
        }
    }
}

#[test]
fn the_weakest_cure_is_proposed() {
    let check = Check::new(2);
    let finding = check.explore(data_then_flag(|_| Ok(()))).unwrap();
    let race = finding.race.expect("nothing orders the two");
    assert!(race.to_string().contains("check.rs"), "{race}");
    let cure = finding.cure.expect("a put with a signal is enough");
    assert_eq!(cure.means, Means::PutSignal);
    assert_eq!(cure.after, race.first.place);
    assert!(finding.cured_schedules > 0);
    // A fence, which orders more, does as well.
    let cured = check.explore(data_then_flag(|world| world.fence())).unwrap();
    assert_eq!(cured.outcome, Outcome::Exhaustive);
    assert!(cured.race.is_none());
}

#[test]
fn a_fence_is_proposed_where_a_put_with_a_signal_does_not_do() {
    // One signal tells of two puts, and could come with the second alone.
    let twice = |world: &World| {
        let (data, flag) = (world.window::<u64>(2)?, world.words(1)?);
        begin(world);
        if world.rank() == Rank(0) {
            for index in 0..2 {
                world.put_value(7, data.at(Rank(1), index))?;
            }
            world.signal(flag.at(Rank(1), 0), 1)
        } else {
            world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
            data.own().to_vec().map(drop)
        }
    };
    let finding = Check::new(2).explore(twice).unwrap();
    assert!(finding.race.is_some());
    let cure = finding.cure.expect("a fence is enough");
    assert_eq!(cure.means, Means::Fence, "{cure}");
}

#[test]
fn a_flush_is_proposed_where_a_fence_does_not_do() {
    // A barrier says nothing of puts, and its messages take other ways than they do.
    let meets = |world: &World| {
        let data = world.window::<u64>(1)?;
        begin(world);
        if world.rank() == Rank(0) {
            world.put_value(7, data.at(Rank(1), 0))?;
        }
        world.barrier()?;
        if world.rank() == Rank(1) {
            data.own().get(0)?;
        }
        Ok::<(), Error>(())
    };
    let finding = Check::new(2).explore(meets).unwrap();
    assert!(finding.race.is_some());
    assert_eq!(finding.cure.expect("a flush is enough").means, Means::Flush);
}

#[test]
fn a_lock_is_proposed_where_the_order_does_not_matter() {
    let both_write = |world: &World| {
        let words = world.window::<u64>(1)?;
        begin(world);
        world.put_value(5, words.at(Rank(0), 0))
    };
    let finding = Check::new(2).explore(both_write).unwrap();
    let cure = finding.cure.expect("puts one after the other are in some order");
    assert_eq!((cure.means, cure.with.as_deref()), (Means::Lock, None), "{cure}");
    assert!(cure.to_string().contains("a lock around the operation of"), "{cure}");
    let get_and_put = |world: &World| {
        let words = world.window::<u64>(1)?;
        begin(world);
        match world.rank() {
            Rank(0) => world.put_value(5, words.at(Rank(0), 0)),
            _ => world.get_value(words.at(Rank(0), 0)).map(drop),
        }
    };
    let finding = Check::new(2).explore(get_and_put).unwrap();
    let cure = finding.cure.expect("the get comes before the put or after it");
    assert_eq!((cure.means, cure.with.is_some()), (Means::Lock, true), "{cure}");
}

#[test]
fn a_lock_is_proposed_for_an_update_of_two_operations() {
    let counts = |world: &World| {
        let count = world.window::<u64>(1)?;
        begin(world);
        let at = count.at(Rank(0), 0);
        let held = world.get_value(at)?;
        world.put_value(held + 1, at)?;
        world.sync()?;
        assert_eq!(world.get_value(at)?, 2, "an update is lost");
        Ok::<(), Error>(())
    };
    let finding = Check::new(2).explore(counts).unwrap();
    assert!(finding.race.is_some());
    let cure = finding.cure.expect("an update at a time");
    assert_eq!(cure.means, Means::LockAcross, "{cure}");
    assert_ne!(Some(&cure.after), cure.with.as_ref());
    assert!(cure.to_string().contains("an atomic"), "{cure}");
    assert!(finding.cured_schedules > 1);
}

#[test]
fn a_wait_is_proposed_where_nobody_waits_for_a_signal() {
    let hasty = |world: &World| {
        let (data, flag) = (world.window::<u64>(1)?, world.words(1)?);
        begin(world);
        match world.rank() {
            Rank(0) => {
                world.put_signal(&[7], data.at(Rank(1), 0), 1, flag.at(Rank(1), 0))?;
                world.flush_all()
            }
            _ => data.own().get(0).map(drop),
        }
    };
    let finding = Check::new(2).explore(hasty).unwrap();
    let race = finding.race.expect("nobody waits");
    let cure = finding.cure.expect("there is a signal to wait for");
    assert_eq!(cure.means, Means::Wait, "{cure}");
    let read = [race.first, race.second].into_iter().find(|side| side.operation == "read").unwrap();
    assert_eq!(cure.after, read.place);
    assert!(cure.to_string().contains("a wait for the signal of"), "{cure}");
    assert!(finding.cured_schedules > 0);
    // A signal that comes ahead of its data is no reason to wait for it.
    let too_early = |world: &World| {
        let (data, flag) = (world.window::<u64>(1)?, world.words(1)?);
        begin(world);
        match world.rank() {
            Rank(0) => {
                world.signal(flag.at(Rank(1), 0), 1)?;
                world.put_value(7, data.at(Rank(1), 0))?;
                world.flush_all()
            }
            _ => data.own().get(0).map(drop),
        }
    };
    let finding = Check::new(2).explore(too_early).unwrap();
    assert!(finding.race.is_some() && finding.cure.is_none(), "{:?}", finding.cure);
}

#[test]
fn nothing_is_proposed_where_nothing_would_do() {
    let both_write = |world: &World| {
        let words = world.window::<u64>(1)?;
        begin(world);
        match world.rank() {
            Rank(0) => world.put_value(5, words.at(Rank(1), 0)),
            _ => words.own().set(0, 5),
        }
    };
    let finding = Check::new(2).explore(both_write).unwrap();
    assert!(finding.race.is_some() && finding.cure.is_none(), "{:?}", finding.cure);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let nothing = |_: &World| {};
    for (check, words) in [
        (Check::new(0), "at least one rank"),
        (Check::new(2).policy("alphabetical"), "alphabetical"),
        (Check::new(3).topology("node:0"), "node:0"),
    ] {
        let error = check.explore(nothing).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

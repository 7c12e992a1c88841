//! A rank has a name for each of so many segments, and no name is given twice: at the end every
//! member is told.

use farside::{Error, Local, Rank, Result, World};

fn told<T>(result: Result<T>) -> Result<()> {
    match result {
        Err(Error::OutOfNames { rank: Rank(0) }) => Ok(()),
        Err(other) => Err(other),
        Ok(_) => Err(Error::Program("a name was given that there is not".into())),
    }
}

/// Uses up all names of rank 0 but one.
fn nearly_all_named(world: &World) {
    if world.rank() == Rank(0) {
        world.have_named(u32::MAX - 1);
    }
}

#[test]
fn who_has_no_name_left_for_a_window_tells_all_members() {
    let ended = farside::local(3, |world| {
        nearly_all_named(world);
        let last = world.window::<u64>(1)?;
        told(world.window::<u64>(1))?;
        told(world.window::<u64>(1))?;
        told(world.words(1))?;
        // The last one is as good as any, and nobody is out of step.
        world.put_value(7, last.at(world.rank(), 0))?;
        world.sync()?;
        assert_eq!(world.get_value(last.at(Rank(2), 0))?, 7);
        last.free(world)
    });
    assert_eq!(ended.map(drop), Ok(()));
}

#[test]
fn who_has_no_name_left_for_a_team_tells_all_members() {
    let ended = farside::local(3, |world| {
        nearly_all_named(world);
        let last = world.window::<u64>(1)?;
        let is_first = u64::from(world.rank() == Rank(0));
        told(world.split(Some(is_first), 0))?;
        // Another rank leads the team, and has names.
        let others = world.split((is_first == 0).then_some(0), 0)?;
        if let Some(others) = others {
            others.window::<u64>(1)?.free(&others)?;
            others.free()?;
        }
        last.free(world)
    });
    assert_eq!(ended.map(drop), Ok(()));
}

/// Across nodes they have memory of their own, which may be refused: to all, and that is all.
#[test]
fn who_has_no_name_left_for_a_long_collective_tells_all_members_and_goes_on() {
    let local = Local::new(3).expect("a job of few ranks can be made").nodes(3);
    let ended = local.run(|world| {
        nearly_all_named(world);
        let last = world.window::<u64>(1)?;
        let (long, mut data) = (vec![0u64; 100_000], vec![1u64; 100_000]);
        told(world.all_to_all_v(&[&long[..], &long, &long]))?;
        told(world.all_sum(&mut data))?;
        world.barrier()?;
        let mut short = [1];
        world.all_sum(&mut short)?;
        assert_eq!(short, [3]);
        last.free(world)
    });
    assert_eq!(ended.map(drop), Ok(()));
}

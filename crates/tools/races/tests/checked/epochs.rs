//! Windows with epochs: what epochs order is no race, and what they do not order is found.

use farside::epoch::{Design, Mode, Options, Window};
use farside::{Local, Rank, Result, World};
use farside_races::{Checker, Report};

const RANKS: u32 = 3;
const R0: Rank = Rank(0);

/// A program on a window of eight words a rank.
type Program = fn(&World, &Window<'_>) -> Result<()>;

fn checked(nodes: Option<u32>, design: Design, program: Program) -> Report {
    let checker = Checker::new(RANKS).unwrap();
    let over = checker.clone();
    let local = Local::new(RANKS).unwrap();
    let local = match nodes {
        Some(nodes) => local.nodes(nodes),
        None => local,
    };
    let local = local.decorate(move |fabric| over.over(fabric).unwrap());
    // What breaks the rules of epochs is to be found by the checker of races.
    let options = Options::new().unit(8).checking(false).design(design);
    let ran = local.run(|world| {
        let window = Window::allocate(world, 64, options)?;
        program(world, &window)?;
        window.barrier()?;
        window.free()
    });
    ran.unwrap();
    checker.report()
}

fn exclusive(world: &World, window: &Window<'_>) -> Result<()> {
    for _ in 0..3 {
        window.lock(R0, Mode::Exclusive)?;
        let mut held = [0u64];
        window.get_into(&mut held, R0, 0)?;
        window.put(&[held[0] + u64::from(world.rank().0)], R0, 0)?;
        window.unlock(R0)?;
    }
    Ok(())
}

fn accumulates(_: &World, window: &Window<'_>) -> Result<()> {
    window.lock(R0, Mode::Shared)?;
    window.accumulate(1u64, &[1, 2], R0, 0)?;
    window.flush(R0)?;
    let old = window.fetch_op(farside::epoch::Op::Sum, 1u64, R0, 4)?;
    window.wait_fetched(old)?;
    window.unlock(R0)
}

fn fences(world: &World, window: &Window<'_>) -> Result<()> {
    let me = world.rank();
    window.fence()?;
    for peer in world.ranks() {
        window.put(&[1u64], peer, me.0.into())?;
    }
    window.fence()?;
    let got = window.get::<u64>(Rank((me.0 + 1) % RANKS), 0, 3)?;
    window.last_fence()?;
    assert_eq!(got.take()?, [1, 1, 1]);
    window.write_own(&[2u64], 0)
}

/// Every rank puts to rank 0, which exposes its part and reads it.
fn exposed(world: &World, window: &Window<'_>, waits: bool) -> Result<()> {
    if world.rank() == R0 {
        window.post(&[Rank(1), Rank(2)])?;
        if waits {
            window.wait()?;
        }
        window.read_own(1, &mut [0u64; 2])?;
        return if waits { Ok(()) } else { window.wait() };
    }
    window.start(&[R0])?;
    window.put(&[7u64], R0, world.rank().0.into())?;
    window.complete()
}

/// All are in their epochs at once: the word of a shared lock orders those that come one after
/// another.
fn lock_together(window: &Window<'_>) -> Result<()> {
    window.lock(R0, Mode::Shared)?;
    window.barrier()
}

fn two_under_shared_locks(_: &World, window: &Window<'_>) -> Result<()> {
    lock_together(window)?;
    window.put(&[7u64], R0, 0)?;
    window.unlock(R0)
}

fn read_inside_of_a_fence_epoch(world: &World, window: &Window<'_>) -> Result<()> {
    window.fence()?;
    match world.rank() {
        R0 => window.read_own(0, &mut [0u64])?,
        Rank(1) => window.put(&[7u64], R0, 0)?,
        _ => {}
    }
    window.last_fence()
}

fn put_beside_accumulate(world: &World, window: &Window<'_>) -> Result<()> {
    lock_together(window)?;
    match world.rank().0 {
        1 => window.put(&[7u64], R0, 0)?,
        _ => window.accumulate(1u64, &[7], R0, 0)?,
    }
    window.unlock(R0)
}

fn put_again_without_a_flush(world: &World, window: &Window<'_>) -> Result<()> {
    if world.rank() == Rank(1) {
        window.lock(R0, Mode::Exclusive)?;
        window.put(&[7u64], R0, 0)?;
        window.get_into(&mut [0u64], R0, 0)?;
        window.unlock(R0)?;
    }
    Ok(())
}

const RIGHT: [(&str, Program); 4] = [
    ("exclusive", exclusive),
    ("accumulates", accumulates),
    ("fences", fences),
    ("exposed", |world, window| exposed(world, window, true)),
];

const WRONG: [(&str, Program); 5] = [
    ("two under shared locks", two_under_shared_locks),
    ("read inside of a fence epoch", read_inside_of_a_fence_epoch),
    ("put beside accumulate", put_beside_accumulate),
    ("exposed and read too early", |world, window| exposed(world, window, false)),
    ("a get may overtake the put before it", put_again_without_a_flush),
];

#[test]
fn what_epochs_order_is_no_race() {
    for (name, program) in RIGHT {
        for nodes in [None, Some(3)] {
            for design in [Design::Direct, Design::TWO_SIDED] {
                let report = checked(nodes, design, program);
                let how = format!("{name} on {nodes:?}, {design:?}");
                assert!(report.races.is_empty(), "{how}: {report}");
                assert!(report.accesses > 0, "{how}: nothing was looked at");
            }
        }
    }
}

#[test]
fn what_epochs_do_not_order_is_found() {
    for (name, program) in WRONG {
        for nodes in [None, Some(3)] {
            let mut report = checked(nodes, Design::Direct, program);
            // Where a rank is late to look, a later barrier can hide a race, in 1 of some 430 runs.
            for _ in 0..2 {
                if report.races.is_empty() {
                    report = checked(nodes, Design::Direct, program);
                }
            }
            assert!(!report.races.is_empty(), "{name} on {nodes:?} is not found");
            let race = &report.races[0];
            assert!(race.first.place.contains("epochs.rs"), "{name}: {report}");
        }
    }
}

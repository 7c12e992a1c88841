//! A panic in the middle of a wait ends the transfers that were waited for: their buffers are the
//! program's again, and no late answer writes to them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use farside::{Context, Local, Rank, Result, Window, World};

/// Long enough that its answers are still on their way when a waiter calls for the first time.
const BYTES: usize = 4 << 20;
const ROUNDS: usize = 20;

/// A transfer from rank 1 into buffers.
type Transfer = dyn Fn(&World, &Window<u8>, &mut [Vec<u8>]) -> Result<()> + Sync;

/// Lets rank 0 make `transfer` panic in its wait, with buffers of zeros, until it does. Then fills
/// the buffers anew and looks whether anything still writes to them.
fn unwound(buffers: usize, transfer: &Transfer) {
    let local = Local::new(2).expect("the environment is in order").nodes(2);
    let ended = local.run(|world| {
        let window = world.window::<u8>(BYTES)?;
        window.own().write(0, &vec![7; BYTES])?;
        world.sync()?;
        let mut has_panicked = false;
        for _ in 0..ROUNDS {
            if world.rank() == Rank(0) {
                has_panicked |= overwritten_by_none(world, &window, buffers, transfer);
            }
        }
        assert!(has_panicked || world.rank() != Rank(0), "no wait lasted long enough");
        world.sync()?;
        window.free(world)
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
}

/// Returns whether the transfer has panicked.
fn overwritten_by_none(
    world: &World,
    window: &Window<u8>,
    buffers: usize,
    transfer: &Transfer,
) -> bool {
    let mut buffers = vec![vec![0; BYTES]; buffers];
    world.call_while_waiting(Some(Arc::new(|| std::panic::resume_unwind(Box::new("enough")))));
    let outcome = catch_unwind(AssertUnwindSafe(|| transfer(world, window, &mut buffers)));
    world.call_while_waiting(None);
    let Err(panic) = outcome else { return false };
    assert_eq!(panic.downcast_ref(), Some(&"enough"));
    buffers.iter_mut().for_each(|buffer| buffer.fill(1));
    drive(world, window);
    for buffer in &buffers {
        let written = buffer.iter().filter(|&&byte| byte != 1).count();
        assert_eq!(written, 0, "a late answer has written so many bytes");
    }
    true
}

/// Takes in all answers that are still on their way.
fn drive(context: &Context, window: &Window<u8>) {
    let mut all = vec![0; BYTES];
    context.get(window.at(Rank(1), 0), &mut all).expect("rank 1 is there");
    assert!(all.iter().all(|&byte| byte == 7));
}

#[test]
fn a_get() {
    unwound(1, &|world, window, buffers| world.get(window.at(Rank(1), 0), &mut buffers[0]));
}

#[test]
fn a_transfer_of_a_scope() {
    unwound(2, &|world, window, buffers| {
        let (first, second) = buffers.split_at_mut(1);
        world.scope(|scope| {
            let pending = scope.get_nb(window.at(Rank(1), 0), &mut first[0])?;
            let _other = scope.get_nb(window.at(Rank(1), 0), &mut second[0])?;
            pending.wait().map(drop)
        })
    });
}

#[test]
fn the_end_of_a_scope() {
    unwound(3, &|world, window, buffers| {
        world.scope(|scope| {
            for buffer in &mut *buffers {
                let _pending = scope.get_nb(window.at(Rank(1), 0), buffer)?;
            }
            Ok(())
        })
    });
}

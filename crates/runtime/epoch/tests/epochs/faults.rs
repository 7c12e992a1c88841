//! Programs that break the rules of epochs are told, by name.

use farside::epoch::{Design, Mode, Op, Options, Window};
use farside::{Error, ErrorClass, Rank, Result, World};

fn says<T>(result: Result<T>, what: &str) {
    match result {
        Err(error) => {
            let class = error.class();
            assert!(matches!(class, ErrorClass::Epoch | ErrorClass::Argument), "{error}: {class}");
            assert!(error.to_string().contains(what), "{error:?} does not say {what:?}");
        }
        Ok(_) => panic!("nothing is said of {what:?}"),
    }
}

/// One rank is enough for most of them.
fn alone(options: Options, program: impl Fn(&World, &Window<'_>) -> Result<()> + Sync) {
    farside::local(1, |world| {
        let window = Window::allocate(world, 256, options.unit(8))?;
        program(world, &window)?;
        window.free()
    })
    .unwrap();
}

const ME: Rank = Rank(0);

#[test]
fn an_operation_outside_an_epoch() {
    for design in [Design::Direct, Design::TWO_SIDED] {
        alone(Options::new().design(design), |_, window| {
            says(window.put(&[1u64], ME, 0), "outside of any access epoch");
            says(window.get::<u64>(ME, 0, 1), "outside of any access epoch");
            window.lock(ME, Mode::Exclusive)?;
            window.put(&[1u64], ME, 0)?;
            window.unlock(ME)?;
            says(window.accumulate(1, &[1i64], ME, 0), "outside of any access epoch");
            says(window.flush(ME), "flush without lock");
            window.fence()?;
            window.put(&[1u64], ME, 0)?;
            window.last_fence()?;
            says(window.fetch_op(Op::Sum, 1u64, ME, 0), "outside of any access epoch");
            Ok(())
        });
    }
}

#[test]
fn locks_that_do_not_pair() {
    for design in [Design::Direct, Design::TWO_SIDED] {
        alone(Options::new().design(design), |_, window| {
            says(window.unlock(ME), "rank 0 cannot be unlocked: this rank has not locked it");
            window.lock(ME, Mode::Shared)?;
            says(window.lock(ME, Mode::Exclusive), "rank 0 is locked a second time");
            says(window.lock_all(), "lock_all while a target is locked");
            says(window.fence(), "fence while a target is locked");
            window.unlock(ME)?;
            says(window.unlock(ME), "this rank has not locked it");
            says(window.unlock_all(), "unlock_all without lock_all");
            window.lock_all()?;
            says(window.lock(ME, Mode::Shared), "lock while all targets are locked");
            says(window.unlock(ME), "this rank has not locked it");
            window.unlock_all()
        });
    }
}

#[test]
fn epochs_of_two_kinds_at_a_time() {
    alone(Options::new(), |_, window| {
        window.fence()?;
        window.put(&[1u64], ME, 0)?;
        says(window.lock(ME, Mode::Shared), "lock while a fence epoch is open");
        window.fence()?;
        // Nothing was done since the fence: it is not in the way.
        window.lock(ME, Mode::Shared)?;
        window.unlock(ME)?;
        says(window.complete(), "complete without start");
        says(window.wait(), "wait without post");
        says(window.test(), "test without post");
        says(window.post(&[ME, ME]), "rank 0 is named twice");
        says(window.start(&[Rank(7)]), "rank 7 is in a group");
        window.post(&[ME])?;
        says(window.post(&[ME]), "post while an exposure epoch is open");
        says(
            window.write_own(&[1u64], 0),
            "a local write of this rank's own part while it is exposed by a post",
        );
        window.start(&[ME])?;
        says(window.lock(ME, Mode::Shared), "lock while an access epoch that was started is open");
        window.complete()?;
        window.wait()
    });
}

#[test]
fn accesses_that_nothing_orders() {
    alone(Options::new(), |_, window| {
        window.lock(ME, Mode::Exclusive)?;
        window.put(&[1u64, 2], ME, 0)?;
        says(
            window.get::<u64>(ME, 1, 1),
            "a get overlaps a put of the same epoch at byte 8 of rank 0",
        );
        says(window.put(&[1u64], ME, 1), "a put overlaps a put");
        says(window.read_own(1, &mut [0u64]), "not complete");
        window.flush(ME)?;
        let get = window.get::<u64>(ME, 1, 1)?;
        window.get::<u64>(ME, 0, 2)?.take()?;
        window.accumulate(1, &[1i64], ME, 5)?;
        window.accumulate(1, &[1i64], ME, 5)?;
        says(window.get::<u64>(ME, 5, 1), "a get overlaps an accumulate");
        let held = window.get_accumulate(Op::NoOp, &[0i64], ME, 5)?;
        assert_eq!(held.take()?, [2], "a no-op goes with every accumulate");
        says(
            window.accumulate_with(Op::Max, &[1i64], ME, 5),
            "an accumulate overlaps an accumulate",
        );
        says(window.accumulate(1, &[1u64], ME, 5), "an accumulate overlaps an accumulate");
        let undefined = window.accumulate_with(Op::Xor, &[1f64], ME, 6).unwrap_err();
        assert!(undefined.to_string().contains("the xor of f64"), "{undefined}");
        let no_atomic = window.fetch_op(Op::Min, 1u64, ME, 6).map(drop).unwrap_err();
        assert!(no_atomic.to_string().contains("get_accumulate has every"), "{no_atomic}");
        window.unlock(ME)?;
        assert_eq!(get.take()?, [2]);
        window.lock(ME, Mode::Shared)?;
        says(window.write_own(&[1u64], 0), "locked in shared mode");
        window.unlock(ME)
    });
}

#[test]
fn answers_that_are_not_there_yet() {
    let job = farside::Local::new(2).unwrap().nodes(2);
    job.run(|world| {
        let window = Window::allocate(world, 1 << 20, Options::new().design(Design::TWO_SIDED))?;
        if world.rank() == Rank(0) {
            window.lock(Rank(1), Mode::Shared)?;
            let get = window.get::<u8>(Rank(1), 0, 100)?;
            says(get.take(), "the result of an operation on rank 1 was taken");
            window.unlock(Rank(1))?;
        }
        window.barrier()?;
        window.free()
    })
    .unwrap();
}

#[test]
fn groups_that_do_not_match() {
    let result = farside::local(2, |world| {
        let window = Window::allocate(world, 64, Options::new())?;
        if world.rank() == Rank(0) {
            window.post(&[Rank(1)])?;
            window.wait()?;
        }
        // Rank 1 goes on without having started.
        window.fence()?;
        window.free()
    });
    says(result, "rank 0 has posted an exposure epoch for rank 1, but rank 1 has");
    let result = farside::local(2, |world| {
        let window = Window::allocate(world, 64, Options::new())?;
        if world.rank() == Rank(0) {
            window.start(&[Rank(1)])?;
            window.complete()?;
        }
        // Rank 1 goes on without having posted.
        window.fence()?;
        window.free()
    });
    says(result, "rank 0 has started an access epoch to rank 1, but rank 1 has");
}

#[test]
fn windows_that_cannot_be() {
    let result =
        farside::local(1, |world| Window::allocate(world, 64, Options::new().unit(0)).map(drop));
    says(result, "a displacement unit of 0 bytes");
    let result = farside::local(2, |world| {
        let design = if world.rank() == Rank(0) { Design::Direct } else { Design::TWO_SIDED };
        Window::allocate(world, 64, Options::new().design(design)).map(drop)
    });
    assert!(matches!(result, Err(Error::Disagreement { .. })), "{result:?}");
    for design in [Design::Direct, Design::TWO_SIDED] {
        alone(Options::new().design(design), |_, window| {
            window.lock(ME, Mode::Exclusive)?;
            assert!(matches!(
                window.put(&[0u64; 3], ME, 30),
                Err(Error::OutOfBounds { first: 30, end: 33, elements: 32, .. })
            ));
            assert!(matches!(window.get::<u64>(ME, 32, 1), Err(Error::OutOfBounds { .. })));
            assert!(matches!(window.get::<u64>(ME, u64::MAX, 1), Err(Error::OutOfBounds { .. })));
            window.unlock(ME)
        });
    }
    let result = farside::local(1, |world| {
        let window = Window::allocate(world, 64, Options::new())?;
        window.lock(ME, Mode::Exclusive)?;
        window.free()
    });
    says(result, "the end of the window while a target is locked");
}

#[test]
fn a_window_that_is_not_checked_does_what_it_is_told() {
    alone(Options::new().checking(false), |_, window| {
        window.put(&[1u64], ME, 0)?;
        window.put(&[2u64], ME, 0)?;
        window.lock(ME, Mode::Exclusive)?;
        window.put(&[3u64], ME, 0)?;
        window.put(&[4u64], ME, 0)?;
        window.unlock(ME)?;
        let mut seen = [0u64];
        window.read_own(0, &mut seen)?;
        assert_eq!(seen, [4]);
        says(window.unlock(ME), "this rank has not locked it");
        Ok(())
    });
}

//! Handles that are used for longer, or by others, than they are good for: an error or a panic, and
//! never memory of somebody else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use farside::fabric::{Atomic, Width};
use farside::raw::{Accumulate, Memory, Number, Request};
use farside::{Local, Op, Rank};

/// Segments use pages of freed ones again.
#[test]
fn a_copy_of_a_freed_handle_reaches_nothing() {
    farside::local(2, |world| {
        let peer = Rank(1 - world.rank().0);
        let memory = Memory::allocate(&world.team(), 64)?;
        let copy = memory.clone();
        memory.free(world)?;
        let window = world.window::<u8>(64)?;
        assert!(world.put(&[9u8; 64], copy.at(peer, 0)).is_err());
        assert!(world.get(copy.at(peer, 0), &mut [0u8; 8]).is_err());
        assert!(copy.atomic(world, peer, 0, Width::W64, Atomic::Add(1)).is_err());
        assert!(!copy.put_directly(world, peer, 0, &[9; 8]));
        assert!(!copy.get_directly(world, peer, 0, &mut [0; 8]));
        world.sync()?;
        assert_eq!(window.own().to_vec()?, [0; 64]);
        window.free(world)
    })
    .unwrap();
}

/// The same of what was looked up once, to be used often.
#[test]
fn near_memory_that_was_freed_is_refused() {
    farside::local(2, |world| {
        let peer = Rank(1 - world.rank().0);
        let memory = Memory::allocate(&world.team(), 64)?;
        let part = memory.near_part(world, peer).expect("it is on this node");
        let (sum, [nine, mut read]) = (Accumulate::new(Number::U64, Op::Sum)?, [[9u8; 8], [1; 8]]);
        // SAFETY: the words are so long.
        assert!(unsafe { part.put(world, 0, nine.as_ptr(), 8) });
        memory.free(world)?;
        let window = world.window::<u8>(64)?;
        // SAFETY: as above.
        unsafe {
            assert!(!part.put(world, 0, nine.as_ptr(), 8));
            assert!(!part.put_and_wake(world, 0, nine.as_ptr(), 8));
            assert!(!part.get(world, 0, read.as_mut_ptr(), 8));
        }
        assert!(!part.signal(world, 0, 9));
        assert!(!part.put_pieces(world, |_| {}));
        assert_eq!(part.atomic(world, 0, Width::W64, Atomic::Add(9)), None);
        assert!(!part.accumulate(world, &sum, &nine, 0, None));
        world.sync()?;
        assert_eq!((window.own().to_vec()?, read), (vec![0; 64], [1; 8]));
        window.free(world)
    })
    .unwrap();
}

#[test]
fn near_words_of_a_team_that_was_freed_are_refused() {
    farside::local(2, |world| {
        let peer = Rank(1 - world.rank().0);
        let team = world.split(Some(0), 0)?.expect("every rank is a member");
        let words = team.words(1)?;
        let near = words.near(world, peer, 0).expect("it is on this node");
        assert_eq!(near.fetch_add(world, 5), Some(0));
        words.free(&team)?;
        team.free()?;
        assert_eq!(near.fetch_add(world, 5), None);
        assert_eq!(near.compare_swap(world, 0, 1), None);
        Ok(())
    })
    .unwrap();
}

/// Tickets of two contexts have the same numbers.
#[test]
fn a_request_is_completed_by_its_own_context_alone() {
    let local = Local::new(2).expect("the environment is in order").nodes(2);
    let ended = local.run(|world| {
        let memory = Memory::allocate(&world.team(), 1 << 20)?;
        let mut into = vec![1u8; 1 << 20];
        if world.rank() == Rank(0) {
            let other = world.context()?;
            let (from, bytes) = (memory.at(Rank(1), 0), into.len());
            // SAFETY: the buffer is not touched before the request is complete.
            let mut request = unsafe { Request::get(world, from, into.as_mut_ptr(), bytes)? };
            let asked = catch_unwind(AssertUnwindSafe(|| request.test(&other)));
            assert!(asked.is_err(), "{asked:?}");
            request.wait(world)?;
            assert!(into.iter().all(|&byte| byte == 0));
        }
        world.sync()?;
        memory.free(world)
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
}

//! Windows of every design, on thread ranks: as they are, on pretended nodes, and on nodes that
//! reach each other over UDP only.

use farside::epoch::{Design, LockAgent, Mode, Op, Options, Window};
use farside::{Complex, Error, ExitCause, Local, Pair, PeerState, Rank, Result, World};

fn designs(world: &World) -> Result<[Design; 4]> {
    let agent = LockAgent::new(world)?;
    Ok([Design::Direct, Design::Backoff(agent), Design::Published(agent), Design::TWO_SIDED])
}

/// Runs a program on three ranks with each arrangement.
fn everywhere(program: impl Fn(&World) -> Result<()> + Sync) {
    let local = || Local::new(3).unwrap();
    for (name, job) in [
        ("threads", local()),
        ("crowded", local().cores(1)),
        ("pretended nodes", local().topology("node:2")),
        ("nodes", local().nodes(3)),
    ] {
        job.run(|world| program(world)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_operation_arrives_in_every_design() {
    everywhere(|world| {
        for design in designs(world)? {
            let window = Window::allocate(world, 4096, Options::new().unit(8).design(design))?;
            let (me, next) = (world.rank(), Rank((world.rank().0 + 1) % world.size()));
            window.lock(next, Mode::Exclusive)?;
            window.put(&[1.5f64, 2.5], next, 0)?;
            window.accumulate(2.0, &[1.0f64, 2.0], next, 2)?;
            window.accumulate(1, &[7i32, 8], next, 4)?;
            window.accumulate(
                Complex { re: 0.0, im: 1.0 },
                &[Complex { re: 1.0, im: 0.0 }],
                next,
                6,
            )?;
            let before = window.fetch_op(Op::Sum, 5u64, next, 10)?;
            let swapped = window.compare_swap(Pair(0, 0), Pair(1, 2), next, 12)?;
            let put = window.put_request(vec![u64::from(me.0) + 100], next, 20)?;
            window.unlock(next)?;
            assert_eq!((before.take()?, swapped.take()?), (0, Pair(0, 0)), "{}", design.name());
            assert_eq!(put.take()?, [u64::from(me.0) + 100]);
            window.barrier()?;
            window.lock(next, Mode::Shared)?;
            let floats = window.get::<f64>(next, 0, 4)?;
            let numbers = window.get::<i32>(next, 4, 2)?;
            let word = window.get::<u64>(next, 10, 1)?;
            let early = window.get::<Complex<f64>>(next, 6, 1)?;
            let early = window.wait_get(early)?;
            let pair = window.fetch_op(Op::NoOp, 0u64, next, 13)?;
            let pair = window.wait_fetched(pair)?;
            window.unlock(next)?;
            assert_eq!(floats.take()?, [1.5, 2.5, 2.0, 4.0], "{}", design.name());
            assert_eq!(numbers.take()?, [7, 8]);
            assert_eq!((word.take()?, pair), (vec![5], 2));
            assert_eq!(early, [Complex { re: 0.0, im: 1.0 }]);
            let mut mine = [0u64];
            window.read_own(20, &mut mine)?;
            assert_eq!(mine[0], u64::from((me.0 + world.size() - 1) % world.size()) + 100);
            window.free()?;
        }
        Ok(())
    });
}

#[test]
fn accumulates_of_every_design_fetch_each_value_once() {
    everywhere(|world| {
        for design in designs(world)? {
            let window = Window::allocate(world, 4096, Options::new().unit(8).design(design))?;
            let (mut found, ones) = (0.0, [1.0f64; 300]);
            for round in 0..20u32 {
                window.lock(Rank(0), Mode::Shared)?;
                // Within its epoch, and at its end; all of it, or none of its data.
                let early = window.get_accumulate(Op::Sum, &ones, Rank(0), 0)?;
                let early = window.wait_get(early)?;
                let late = window.get_accumulate(Op::Sum, &ones[..1], Rank(0), 0)?;
                window.accumulate_with(Op::Max, &[world.rank().0 as u16 + 7], Rank(0), 400)?;
                let same = window.get_accumulate(Op::NoOp, &[0u16], Rank(0), 400)?;
                window.unlock(Rank(0))?;
                let late = late.take()?;
                assert!(late[0] > early[0], "{}: {late:?} after {early:?}", design.name());
                assert_eq!(early[299], early[299].trunc(), "{}: round {round}", design.name());
                assert!(same.take()?[0] < 10);
                found += early[0] + late[0];
            }
            window.barrier()?;
            let total = 40.0 * f64::from(world.size());
            let mut sums = [found];
            world.all_sum(&mut sums)?;
            assert_eq!(sums[0], total * (total - 1.0) / 2.0, "{}", design.name());
            window.lock(Rank(0), Mode::Shared)?;
            let last = window.get::<f64>(Rank(0), 299, 1)?;
            let most = window.get::<u16>(Rank(0), 400, 1)?;
            window.unlock(Rank(0))?;
            assert_eq!(last.take()?, [total / 2.0], "{}", design.name());
            assert_eq!(most.take()?, [9]);
            window.free()?;
        }
        Ok(())
    });
}

#[test]
fn exclusive_epochs_lose_no_update() {
    everywhere(|world| {
        for design in designs(world)? {
            let window = Window::allocate(world, 64, Options::new().unit(8).design(design))?;
            for round in 0..50u64 {
                let target = Rank((round % 3) as u32);
                window.lock(target, Mode::Exclusive)?;
                let mut seen = [0u64];
                window.get_into(&mut seen, target, 1)?;
                window.flush(target)?;
                window.put(&[seen[0] + 1], target, 1)?;
                window.unlock(target)?;
            }
            window.barrier()?;
            let mut sum = 0;
            for target in world.ranks() {
                window.lock(target, Mode::Shared)?;
                let seen = window.get::<u64>(target, 1, 1)?;
                window.unlock(target)?;
                sum += seen.take()?[0];
            }
            assert_eq!(sum, 150, "{}", design.name());
            window.free()?;
        }
        Ok(())
    });
}

#[test]
fn shared_epochs_may_be_together_and_large_ones_go_in_parts() {
    everywhere(|world| {
        for design in designs(world)? {
            let window = Window::allocate(world, 1 << 20, Options::new().design(design))?;
            let (me, target) = (world.rank(), Rank(2));
            let part = 200 << 10;
            window.lock_all()?;
            window.put(&vec![me.0 as u8 + 1; part], target, u64::from(me.0) * part as u64)?;
            window.flush(target)?;
            let back = window.get::<u8>(target, u64::from(me.0) * part as u64, part)?;
            window.unlock_all()?;
            assert!(back.take()?.iter().all(|&byte| byte == me.0 as u8 + 1), "{}", design.name());
            // Without a flush, all of it at the end.
            window.lock(target, Mode::Shared)?;
            window.put(&vec![me.0 as u8 + 4; part], target, u64::from(me.0) * part as u64)?;
            window.unlock(target)?;
            window.barrier()?;
            if me == target {
                let mut all = vec![0u8; 3 * part];
                window.read_own(0, &mut all)?;
                assert_eq!((all[0], all[part], all[3 * part - 1]), (4, 5, 6));
            }
            window.barrier()?;
            window.free()?;
        }
        Ok(())
    });
}

/// A rank reads its own part by itself, without a call at which it could be locked.
#[test]
fn an_epoch_of_all_members_locks_the_own_part_at_once() {
    everywhere(|world| {
        for design in designs(world)? {
            let window = Window::allocate(world, 64, Options::new().unit(8).design(design))?;
            window.barrier()?;
            for round in 1..=20u64 {
                if world.rank() == Rank(0) {
                    let (mut first, mut second) = ([0u64], [0u64]);
                    window.lock_all()?;
                    window.read_own(0, &mut first)?;
                    std::thread::yield_now();
                    window.read_own(1, &mut second)?;
                    window.unlock_all()?;
                    assert_eq!(first, second, "{}", design.name());
                } else {
                    window.lock(Rank(0), Mode::Exclusive)?;
                    window.put(&[round], Rank(0), 0)?;
                    window.flush(Rank(0))?;
                    window.put(&[round], Rank(0), 1)?;
                    window.unlock(Rank(0))?;
                }
            }
            window.barrier()?;
            window.free()?;
        }
        Ok(())
    });
}

#[test]
fn more_operations_than_are_allowed_wait_their_turn() {
    everywhere(|world| {
        let window = Window::allocate(world, 8 * 1000, Options::new().unit(8).outstanding(2))?;
        let next = Rank((world.rank().0 + 1) % world.size());
        let numbers: Vec<u64> = (0..1000).collect();
        window.write_own(&numbers, 0)?;
        window.barrier()?;
        window.lock(next, Mode::Shared)?;
        let gets: Vec<_> =
            (0..99).map(|at| window.get::<u64>(next, 10 * at, 10)).collect::<Result<_>>()?;
        let last = window.fetch_op(Op::NoOp, 0u64, next, 999)?;
        window.unlock(next)?;
        for (at, get) in gets.into_iter().enumerate() {
            assert_eq!(get.take()?, numbers[10 * at..10 * at + 10]);
        }
        assert_eq!(last.take()?, 999);
        window.free()
    });
}

#[test]
fn displacements_count_what_the_target_says() {
    everywhere(|world| {
        let unit = [1, 8, 16][world.rank().index()];
        let window = Window::allocate(world, 64, Options::new().unit(unit))?;
        window.fence()?;
        if world.rank() == Rank(0) {
            for peer in world.ranks() {
                window.put(&[9u8], peer, 2)?;
            }
        }
        window.last_fence()?;
        let mut own = [0u8; 64];
        window.read_own(0, &mut own)?;
        assert_eq!(own.iter().position(|&byte| byte == 9), Some(2 * unit as usize));
        assert_eq!(window.unit(Rank(1))?, 8);
        window.free()
    });
}

#[test]
fn a_team_has_windows_of_its_own() {
    everywhere(|world| {
        let pair = world.split((world.rank().0 > 0).then_some(1), 0)?;
        if let Some(pair) = pair {
            for design in [Design::Direct, Design::TWO_SIDED] {
                let window = Window::allocate(&pair, 8, Options::new().unit(8).design(design))?;
                let other = Rank(3 - world.rank().0);
                window.lock(other, Mode::Exclusive)?;
                window.put(&[u64::from(world.rank().0)], other, 0)?;
                window.unlock(other)?;
                assert_eq!(
                    window.lock(Rank(0), Mode::Shared),
                    Err(Error::NotAMember { rank: Rank(0), of: "window" })
                );
                window.barrier()?;
                let mut seen = [0u64];
                window.read_own(0, &mut seen)?;
                assert_eq!(seen[0], u64::from(other.0));
                window.free()?;
            }
            pair.free()?;
        }
        world.barrier()
    });
}

#[test]
fn groups_meet_without_the_others() {
    everywhere(|world| {
        for design in [Design::Direct, Design::TWO_SIDED] {
            let window = Window::allocate(world, 64, Options::new().unit(8).design(design))?;
            for round in 1..=20u64 {
                let (me, others): (u32, Vec<Rank>) = (
                    world.rank().0,
                    world.ranks().filter(|&other| other != world.rank()).collect(),
                );
                window.post(&others)?;
                window.start(&others)?;
                for &other in &others {
                    window.put(&[round], other, me.into())?;
                }
                window.complete()?;
                if round % 2 == 0 {
                    while !window.test()? {
                        world.relax()?;
                    }
                } else {
                    window.wait()?;
                }
                for &other in &others {
                    let mut seen = [0u64];
                    window.read_own(other.0.into(), &mut seen)?;
                    assert_eq!(seen[0], round);
                }
            }
            window.free()?;
        }
        Ok(())
    });
}

#[test]
fn a_target_that_computes_is_not_needed() {
    for nodes in [1, 2] {
        let job = Local::new(2).unwrap().nodes(nodes);
        job.run(|world| {
            let window = Window::allocate(world, 64, Options::new().unit(8))?;
            let done = world.words(1)?;
            if world.rank() == Rank(0) {
                for count in 1..=100u64 {
                    window.lock(Rank(1), Mode::Exclusive)?;
                    window.put(&[count], Rank(1), 0)?;
                    window.unlock(Rank(1))?;
                }
                world.signal(done.at(Rank(1), 0), 1)?;
            } else {
                // Computes, and calls nothing that could serve a request: it looks at a word of its
                // own memory.
                while world.load(done.at(Rank(1), 0))? == 0 {
                    std::hint::spin_loop();
                }
                let mut seen = [0u64];
                window.read_own(0, &mut seen)?;
                assert_eq!(seen[0], 100);
            }
            done.free(world)?;
            window.free()
        })
        .unwrap();
    }
}

/// Rank 0 alone has put something to the rank that is lost, which is no member.
#[test]
fn a_fence_that_tells_of_a_lost_rank_begins_an_epoch_all_the_same() {
    let (ready, lost) = (std::sync::Barrier::new(3), Rank(2));
    let ended = Local::new(3).unwrap().nodes(3).run(|world| {
        let (me, words) = (world.rank(), world.words(1)?);
        let team = world.split((me != lost).then_some(0), 0)?;
        world.flush_all()?;
        if me == Rank(0) {
            world.signal(words.at(lost, 0), 1)?;
        }
        ready.wait();
        let Some(team) = team else { return Err(Error::Program("it fails".into())) };
        let window = Window::allocate(&team, 8, Options::new().unit(8))?;
        while !matches!(world.peer_state(lost), PeerState::Lost(_)) {
            std::thread::yield_now();
        }
        let fenced = window.fence();
        assert_eq!(fenced.is_err(), me == Rank(0), "{me}: {fenced:?}");
        window.put(&[u64::from(me.0) + 1], Rank(1 - me.0), 0)?;
        window.last_fence()?;
        let mut got = [0u64];
        window.read_own(0, &mut got)?;
        assert_eq!(got, [2 - u64::from(me.0)]);
        window.free()
    });
    assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
}

#[test]
fn a_two_sided_fence_hears_of_a_rank_that_has_left() {
    everywhere(|world| {
        let options = Options::new().design(Design::TWO_SIDED);
        let window = Window::allocate(world, 64, options)?;
        if world.rank() == Rank(2) {
            // As if an error had ended its part: it neither frees the window nor meets the others.
            std::mem::forget(window);
            return Ok(());
        }
        // They wait for each other, too, and none of them for all.
        match window.fence() {
            Err(Error::RankLost { rank: Rank(2), how: ExitCause::Left }) => {}
            other => panic!("{}: {other:?}", world.rank()),
        }
        std::mem::forget(window);
        Ok(())
    });
}

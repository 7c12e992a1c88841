//! What each key of a profile does to the time of operations.

use farside::sim::{Profile, run};
use farside::{Pair, Rank, SyncKind, World};

fn without(name: &str, numbers: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::load(name).unwrap();
    for (table, number) in numbers {
        let table = match *table {
            "interface" => &mut profile.interface,
            "agent" => &mut profile.agent,
            "processor" => &mut profile.processor,
            "noise" => &mut profile.noise,
            other => panic!("there is no table {other}"),
        };
        assert!(table.remove(*number).is_some(), "{name} has no {number}");
    }
    profile
}

/// Returns how long rank 0 takes for something, in virtual time.
fn took_ns(
    profile: &Profile,
    ranks: u32,
    what: impl Fn(&World, Rank) -> farside::Result<()> + 'static,
) -> u64 {
    let outcome = run(profile, ranks, 1, move |world| {
        let last = Rank(world.size() - 1);
        world.barrier()?;
        let begin_ns = world.now_ns();
        what(world, last)?;
        let took_ns = world.now_ns() - begin_ns;
        world.barrier()?;
        Ok(took_ns)
    });
    outcome.unwrap().results[0]
}

#[test]
fn own_memory_is_nearer_than_the_memory_of_another() {
    let own = |world: &World, _| {
        let words = world.words(1)?;
        (0..100).try_for_each(|_| world.load(words.at(world.rank(), 0)).map(drop))
    };
    let priced = took_ns(&Profile::load("aries-xc30").unwrap(), 1, own);
    let as_near = took_ns(&without("aries-xc30", &[("processor", "own_ns")]), 1, own);
    assert!(priced * 5 < as_near * 4, "{priced} and {as_near}");
}

#[test]
fn a_compare_swap_that_misses_writes_nothing_back() {
    let swap = |expected: u64| {
        move |world: &World, last| {
            let words = world.words(1)?;
            if world.rank() == Rank(0) {
                for _ in 0..20 {
                    world.compare_swap(words.at(last, 0), expected, 0u64)?;
                }
            }
            Ok(())
        }
    };
    let profile = Profile::load("myrinet-lanai4").unwrap();
    let (hits, misses) = (took_ns(&profile, 2, swap(0)), took_ns(&profile, 2, swap(1)));
    let dma_ns = (hits - misses) / 20;
    assert!((1300..1700).contains(&dma_ns), "{hits} and {misses}");
}

#[test]
fn pairs_are_the_hosts_unless_the_interface_has_them() {
    let swap = |expected: u64| {
        move |world: &World, last| {
            let window = world.window::<u64>(2)?;
            let pair = window.at(last, 0).cast::<Pair>();
            if world.rank() == Rank(0) {
                for _ in 0..20 {
                    world.compare_swap(pair, Pair(expected, 0), Pair(0, 0))?;
                }
            }
            Ok(())
        }
    };
    let word = |world: &World, last| {
        let window = world.window::<u64>(2)?;
        if world.rank() == Rank(0) {
            for _ in 0..20 {
                world.compare_swap(window.at(last, 0), 0, 0)?;
            }
        }
        Ok(())
    };
    // The agent of Aries needs 800 ns, its interface 60 ns for a word. Ranks of a node share
    // memory, so that it takes more than 16 of them.
    let aries = Profile::load("aries-xc30").unwrap();
    let (pairs, words) = (took_ns(&aries, 17, swap(0)), took_ns(&aries, 17, word));
    assert!(pairs > words + 20 * 700, "{pairs} and {words}");
    // An interface that has pairs needs as long for one that misses. A node has 64 ranks.
    let name = "slingshot-11";
    let mut dear = Profile::load(name).unwrap();
    dear.interface.get_mut("pair_ns").unwrap().is += 10_000.0;
    let cheap = Profile::load(name).unwrap();
    for expected in [0, 1] {
        let (dear, cheap) =
            (took_ns(&dear, 65, swap(expected)), took_ns(&cheap, 65, swap(expected)));
        assert!(dear > cheap + 20 * 9_900, "{expected}: {dear} and {cheap}");
    }
}

#[test]
fn replies_take_time_of_both_interfaces() {
    let gets = |world: &World, last| {
        let window = world.window::<u8>(1 << 16)?;
        let mut into = vec![0u8; 1 << 16];
        if world.rank() != last {
            (0..4).try_for_each(|_| world.get(window.at(last, 0), &mut into))?;
        }
        Ok(())
    };
    let name = "infiniband-2008";
    let with = took_ns(&Profile::load(name).unwrap(), 8, gets);
    let free = took_ns(&without(name, &[("interface", "message_ns")]), 8, gets);
    assert!(with * 10 > free * 12, "seven ranks get from one: {with} and {free}");
}

#[test]
fn messages_of_barriers_do_not_wake_agents() {
    let barriers = |world: &World, _| (0..20).try_for_each(|_| world.barrier());
    let combined = |world: &World, _| (0..20).try_for_each(|_| world.sync_by(SyncKind::Counted));
    let name = "myrinet-2000";
    let taken = took_ns(&Profile::load(name).unwrap(), 4, barriers);
    let served = took_ns(&without(name, &[("agent", "ranks_take_messages")]), 4, barriers);
    // A server wakes in 11.3 us and takes 1.5 us, and each rank waits for two messages.
    assert!(served > taken + 20 * 2 * 12_000, "{served} and {taken}");
    let taken = took_ns(&Profile::load(name).unwrap(), 4, combined);
    let served = took_ns(&without(name, &[("agent", "ranks_take_messages")]), 4, combined);
    assert!(served > taken + 20 * 4 * 12_000, "{served} and {taken}");
    // What goes to a window is the server's in either case.
    let handed_over = |world: &World, last: Rank| {
        let words = world.words(1)?;
        for round in 1..=10u64 {
            if world.rank() == Rank(0) {
                world.store(words.at(last, 0), round)?;
                world.wait(words.at(Rank(0), 0), |seen: u64| seen == round)?;
            } else {
                world.wait(words.at(last, 0), |seen: u64| seen == round)?;
                world.store(words.at(Rank(0), 0), round)?;
            }
        }
        Ok(())
    };
    let taken = took_ns(&Profile::load(name).unwrap(), 2, handed_over);
    assert!(taken > 20 * 11_300, "{taken}");
}

#[test]
fn what_is_posted_to_a_silent_agent_is_not_acknowledged() {
    // All post to the last one, whose interface has one processor for both directions.
    let puts = |world: &World, last| {
        let window = world.window::<u64>(64)?;
        if world.rank() != last {
            (0..64).try_for_each(|at| world.put(&[1], window.at(last, at)))?;
            world.fetch_add(window.at(last, 0), 1)?;
        }
        Ok(())
    };
    let name = "myrinet-2000";
    let silent = took_ns(&Profile::load(name).unwrap(), 8, puts);
    let answers = took_ns(&without(name, &[("agent", "silent")]), 8, puts);
    // 448 acknowledgements of 1.5 us each.
    assert!(answers > silent + 300_000, "{answers} and {silent}");
}

#[test]
fn one_processor_takes_one_thing_of_each_direction_in_turn() {
    // While rank 0 sends to rank 2, rank 1 asks it for atomics.
    let times_ns = |atomics: u32| {
        let profile = Profile::load("myrinet-lanai4").unwrap();
        let outcome = run(&profile, 3, 1, move |world| {
            let (window, words) = (world.window::<u8>(1 << 16)?, world.words(1)?);
            world.barrier()?;
            let begin_ns = world.now_ns();
            match world.rank() {
                Rank(0) => {
                    for at in (0..1 << 16).step_by(1 << 12) {
                        world.put(&[1u8; 1 << 12], window.at(Rank(2), at))?;
                    }
                    world.flush(Rank(2))?;
                }
                Rank(1) => (0..atomics)
                    .try_for_each(|_| world.fetch_add(words.at(Rank(0), 0), 1).map(drop))?,
                _ => {}
            }
            let took_ns = world.now_ns() - begin_ns;
            world.barrier()?;
            Ok(took_ns)
        });
        outcome.unwrap().results
    };
    let (alone, both) = (times_ns(0), times_ns(5));
    assert!(alone[0] > 500_000, "{alone:?}");
    assert!(both[1] < 5 * 60_000, "an atomic does not wait for all that is queued: {both:?}");
    // Each takes 3.9 us and its reply 5.8 us; a part of that fits beside the slower receiver.
    assert!(both[0] > alone[0] + 10_000, "what is queued is put off: {alone:?} and {both:?}");
}

#[test]
fn one_medium_carries_one_message_at_a_time() {
    let put = |world: &World, _| {
        let window = world.window::<u8>(1 << 14)?;
        let to = Rank((world.rank().0 + 1) % world.size());
        // What comes before and after takes as long either way, more or less.
        for _ in 0..8 {
            world.put(&[1u8; 1 << 14], window.at(to, 0))?;
        }
        world.flush(to)
    };
    let name = "ethernet-now";
    let noise = [("noise", "response_ns"), ("agent", "pending_max")];
    let shared = took_ns(&without(name, &noise), 8, put);
    let [a, b] = noise;
    let apart = took_ns(&without(name, &[a, b, ("interface", "one_medium")]), 8, put);
    assert!(shared > 2 * apart, "{shared} and {apart}");
}

#[test]
fn a_rank_that_waits_for_a_response_sends_again() {
    let name = "ibm-sp";
    let resent = |profile: &Profile| {
        let outcome = run(profile, 2, 1, |world| {
            let words = world.words(2)?;
            if world.rank() == Rank(1) {
                world.put_signal(&[1u64], words.at(Rank(0), 0), 1u64, words.at(Rank(0), 1))?;
                world.wait(words.at(Rank(1), 1), |come: u64| come == 1)?;
            } else {
                world.work(1_000_000_000);
                world.signal(words.at(Rank(1), 1), 1)?;
            }
            world.barrier()
        });
        // Those of the collectives around it have a segment of their own.
        let resent = outcome.unwrap().timing.resent;
        let of_last = resent.iter().filter(|resent| resent.origin == Rank(1));
        of_last.map(|resent| resent.count).max().unwrap_or(0)
    };
    let lossless = |mut profile: Profile| {
        profile.noise.get_mut("loss_ppm").unwrap().is = 0.0;
        profile
    };
    let repeats = resent(&lossless(Profile::load(name).unwrap()));
    assert!((7..=10).contains(&repeats), "a clock of 0.1 s, for a second: {repeats}");
    let never = lossless(without(name, &[("noise", "response_ns"), ("agent", "pending_max")]));
    assert_eq!(resent(&never), 0);
}

#[test]
fn work_is_uneven_by_the_noise() {
    let work = |world: &World, _| {
        world.work(1_000_000_000);
        Ok(())
    };
    let noisy = took_ns(&Profile::load("ibm-sp").unwrap(), 1, work);
    assert!((1_000_000_000..=1_040_000_000).contains(&noisy), "{noisy}");
    assert_eq!(took_ns(&without("ibm-sp", &[("noise", "work_pct")]), 1, work), 1_000_000_000);
}

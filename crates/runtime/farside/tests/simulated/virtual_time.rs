//! Virtual time: the model's numbers come out where they can be worked out by hand, runs repeat,
//! and what is stuck is reported.

use std::time::Duration;

use farside::fabric::observed::Kind;
use farside::sim::{Outcome, Profile, Virtual, run};
use farside::{Error, HandlerId, Node, Rank, Result, World};

/// A machine with round numbers: two ranks a node, no noise.
fn round_numbers(carrier: &str, noise: &str) -> Profile {
    let figure = |name: &str, is: u64| {
        format!("{name} = {{ is = {is}, kind = \"estimated\", source = \"a test\" }}\n")
    };
    let table = |name: &str, figures: &[(&str, u64)]| {
        let lines: String = figures.iter().map(|(name, is)| figure(name, *is)).collect();
        format!("[{name}]\n{lines}")
    };
    let service = [("put_ns", 100), ("get_ns", 200), ("atomic_ns", 300), ("byte_ps", 0)];
    let text = [
        format!(
            "name = \"test\"\nmachine = \"a test\"\n[[level]]\nname = \"machine\"\ncarrier = \
             \"{carrier}\"\n"
        ),
        figure("latency_ns", 10_000) + &figure("send_ns", 1000) + &figure("receive_ns", 500),
        figure("gap_ns", 2000) + &figure("byte_ps", 1000),
        "[[level]]\nname = \"node\"\ncarrier = \"processor\"\n".into(),
        figure("ranks", 2)
            + &figure("latency_ns", 70)
            + &figure("send_ns", 30)
            + &figure("receive_ns", 0),
        figure("gap_ns", 0) + &figure("byte_ps", 100),
        table("interface", &service),
        table(
            "agent",
            &[&service[..], &[("call_ns", 400), ("spin_ns", 1_000_000), ("wake_ns", 7000)]]
                .concat(),
        ),
        table("processor", &[("line_ns", 50)]),
        table("rank", &[("notice_ns", 40), ("outstanding", 4)]),
        format!("[noise]\n{noise}"),
    ];
    Profile::parse(&text.concat()).expect("a profile")
}

fn quiet() -> String {
    ["jitter_pct", "loss_ppm", "retransmit_ns"]
        .map(|name| format!("{name} = {{ is = 0, kind = \"estimated\", source = \"a test\" }}\n"))
        .concat()
}

/// How long rank 0 takes for something, on four ranks of two nodes.
fn time(
    carrier: &str,
    what: impl Fn(&World, &farside::Words, HandlerId) -> Result<()> + 'static,
) -> u64 {
    let outcome = Virtual::new(&round_numbers(carrier, &quiet()), 4).unwrap().run_prepared(
        |world| Ok((world.words(8)?, world.serve(|_, _, _| vec![0; 8])?)),
        move |world, (words, handler)| {
            let begin = world.now_ns();
            if world.rank() == Rank(0) {
                what(world, &words, handler)?;
            } else {
                // Handlers run as long as somebody of their node is there.
                world.work(10_000_000);
            }
            Ok(world.now_ns() - begin)
        },
    );
    outcome.unwrap().results[0]
}

#[test]
fn a_far_atomic_takes_what_the_model_says() {
    let atomic = |world: &World, words: &farside::Words, _| {
        world.fetch_add(words.at(Rank(2), 0), 1).map(drop)
    };
    // Sending, gap with 8 bytes, latency, the carrier, latency, receiving.
    assert_eq!(time("interface", atomic), 1000 + 2008 + 10_000 + 300 + 10_000 + 500);
    // The agent sleeps unless it has just been busy: preparations woke it.
    assert_eq!(time("agent", atomic), 1000 + 2008 + 10_000 + 300 + 10_000 + 500);
}

#[test]
fn a_near_atomic_takes_what_the_model_says() {
    assert_eq!(
        time("interface", |world, words, _| world.fetch_add(words.at(Rank(1), 0), 1).map(drop)),
        30 + 70
    );
}

#[test]
fn a_sleeping_agent_has_to_be_woken() {
    let twice = |world: &World, words: &farside::Words, _| {
        world.work(2_000_000);
        world.fetch_add(words.at(Rank(2), 0), 1)?;
        world.fetch_add(words.at(Rank(2), 0), 1).map(drop)
    };
    let each = 1000 + 2008 + 10_000 + 300 + 10_000 + 500;
    assert_eq!(time("agent", twice), 2_000_000 + 7000 + 2 * each);
}

#[test]
fn a_put_is_posted_and_a_flush_waits_for_its_acknowledgement() {
    assert_eq!(time("interface", |world, words, _| world.put_value(1, words.at(Rank(2), 0))), 1000);
    let flushed = |world: &World, words: &farside::Words, _| {
        world.put_value(1, words.at(Rank(2), 0))?;
        world.flush(Rank(2))
    };
    assert_eq!(time("interface", flushed), 1000 + 2008 + 10_000 + 100 + 10_000 + 500);
}

#[test]
fn a_get_pays_for_the_bytes_that_come_back() {
    let get =
        |world: &World, words: &farside::Words, _| world.get(words.at(Rank(2), 0), &mut [0; 8]);
    assert_eq!(time("interface", get), 1000 + 2000 + 10_000 + 200 + 10_000 + 64 + 500);
}

#[test]
fn calls_are_run_by_the_agent_whoever_carries_the_rest() {
    let call = |world: &World, _: &farside::Words, handler| {
        world.call(Node(1), handler, &[0; 8]).map(drop)
    };
    assert_eq!(time("interface", call), 1000 + 2008 + 10_000 + 400 + 10_000 + 8 + 500);
}

#[test]
fn operations_wait_for_a_busy_carrier() {
    // Three ranks hit one word at once: the interface serves one after the other.
    let outcome = Virtual::new(&round_numbers("interface", &quiet()), 8).unwrap().run_prepared(
        |world| world.words(1),
        |world, words| {
            world.work(100_000);
            let begin = world.now_ns();
            if world.rank().0.is_multiple_of(2) && world.rank().0 > 0 {
                world.fetch_add(words.at(Rank(0), 0), 1)?;
            }
            Ok(world.now_ns() - begin)
        },
    );
    let alone = 1000 + 2008 + 10_000 + 300 + 10_000 + 500;
    assert_eq!(outcome.unwrap().results, [0, 0, alone, 0, alone + 300, 0, alone + 600, 0]);
}

#[test]
fn a_rank_stops_when_too_many_of_its_puts_are_under_way() {
    let puts = |count: usize| {
        time("interface", move |world, words, _| {
            (0..count).try_for_each(|at| world.put_value(1, words.at(Rank(2), at)))
        })
    };
    assert_eq!(puts(4), 4000);
    // The fifth is sent when the first is acknowledged.
    assert_eq!(puts(5), 1000 + 2008 + 10_000 + 100 + 10_000 + 500 + 1000);
}

#[test]
fn lost_messages_come_late_and_are_not_lost() {
    let noise = quiet().replace("loss_ppm = { is = 0", "loss_ppm = { is = 200_000");
    let noise = noise.replace("retransmit_ns = { is = 0", "retransmit_ns = { is = 1_000_000");
    let count = |noise: &str| {
        let outcome: Outcome<u64> = Virtual::new(&round_numbers("interface", noise), 8)
            .unwrap()
            .run_prepared(
                |world| world.words(1),
                |world, words| {
                    (0..20).try_for_each(|_| world.fetch_add(words.at(Rank(0), 0), 1).map(drop))?;
                    world.barrier()?;
                    world.load(words.at(Rank(0), 0))
                },
            )
            .unwrap();
        assert!(outcome.results.iter().all(|&count| count == 160));
        outcome.timing.virtual_ns
    };
    assert!(count(&noise) > count(&quiet()) + 1_000_000);
}

fn barriers(seed: u64) -> Outcome<u64> {
    run(&Profile::load("aries-xc30").unwrap(), 100, seed, |world| {
        (0..5).try_for_each(|_| world.barrier())?;
        Ok(world.now_ns())
    })
    .unwrap()
}

#[test]
fn one_seed_is_one_run_and_another_is_another() {
    let (one, again, other) = (barriers(1), barriers(1), barriers(2));
    assert_eq!((one.timing.hash, &one.results), (again.timing.hash, &again.results));
    assert_ne!(one.timing.hash, other.timing.hash);
}

#[test]
fn every_profile_can_be_run() {
    for name in Profile::names() {
        let profile = Profile::load(name).unwrap();
        assert_eq!(profile.name, name);
        let outcome = run(&profile, 33, 1, |world| {
            let window = world.window::<u64>(1)?;
            world.fetch_add(window.at(Rank(32), 0), 1)?;
            world.sync()?;
            let count = world.get_value(window.at(Rank(32), 0))?;
            window.free(world)?;
            Ok(count)
        });
        assert_eq!(outcome.unwrap().results, [33; 33], "{name}");
    }
}

#[test]
fn a_deadlock_is_reported() {
    let error = run(&Profile::load("ethernet-25g").unwrap(), 3, 1, |world| {
        let words = world.words(1)?;
        world.wait(words.at(world.rank(), 0), |word| word == 7).map(drop)
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("deadlock") && text.contains("rank 2 waits for"), "{text}");
}

#[test]
fn a_wait_that_takes_too_long_ends_in_virtual_time() {
    let outcome = run(&Profile::load("ethernet-25g").unwrap(), 2, 1, |world| {
        let words = world.words(1)?;
        let begin = world.now_ns();
        let result = world.wait_timeout(
            words.at(world.rank(), 0),
            |word| word == 7,
            Duration::from_secs(60),
        );
        assert_eq!(result, Err(Error::TimedOut { after_ms: 60_000 }));
        Ok(world.now_ns() - begin)
    });
    assert!(outcome.unwrap().results.iter().all(|&ns| ns >= 60_000_000_000));
}

#[test]
fn a_short_wait_after_a_long_one_that_was_satisfied_ends_in_its_own_time() {
    let outcome = run(&Profile::load("ethernet-25g").unwrap(), 2, 1, |world| {
        let words = world.words(1)?;
        if world.rank() == Rank(1) {
            world.signal(words.at(Rank(0), 0), 1)?;
            world.work(20_000_000);
            world.barrier()?;
            return Ok(0);
        }
        let at = words.at(Rank(0), 0);
        world.wait_timeout(at, |word| word == 1, Duration::from_secs(60))?;
        let begin = world.now_ns();
        let result = world.wait_timeout(at, |word| word == 2, Duration::from_millis(1));
        assert_eq!(result, Err(Error::TimedOut { after_ms: 1 }));
        let took_ns = world.now_ns() - begin;
        world.barrier()?;
        Ok(took_ns)
    });
    assert_eq!(outcome.unwrap().results[0], 1_000_000);
}

#[test]
fn departures_do_not_prolong_a_wait() {
    let outcome = run(&Profile::load("ethernet-25g").unwrap(), 5, 1, |world| {
        let words = world.words(1)?;
        // Three leave while rank 0 waits, one after the other, and the last one stays.
        let leaves_after_ms = [0, 30, 60, 90, 2000][world.rank().index()];
        world.barrier()?;
        world.work(leaves_after_ms * 1_000_000);
        if world.rank() != Rank(0) {
            return Ok(0);
        }
        let begin = world.now_ns();
        let result =
            world.wait_timeout(words.at(Rank(0), 0), |word| word == 1, Duration::from_millis(100));
        assert_eq!(result, Err(Error::TimedOut { after_ms: 100 }));
        Ok(world.now_ns() - begin)
    });
    let took_ns = outcome.unwrap().results[0];
    assert!((100_000_000..101_000_000).contains(&took_ns), "{took_ns} ns");
}

#[test]
fn who_serves_can_be_chosen_and_a_server_that_shares_the_processor_takes_its_time() {
    let profile = Profile::load("myrinet-lanai4").unwrap();
    let run_with = |server: &str| {
        let program = |world: &farside::World| {
            let words = world.words(1)?;
            world.barrier()?;
            let begin = world.now_ns();
            if world.rank() == Rank(0) {
                world.work(1_000_000);
            } else {
                world.fetch_add(words.at(Rank(0), 0), 1)?;
            }
            let took_ns = world.now_ns() - begin;
            world.barrier()?;
            Ok(took_ns)
        };
        run(&profile.served_by(server).unwrap(), 2, 1, program).unwrap().results
    };
    let (nic, poll, block) = (run_with("nic"), run_with("host-poll"), run_with("host-block"));
    assert_eq!((nic[0], poll[0]), (1_000_000, 1_000_000));
    assert!(
        block[0] >= 1_044_400 && nic[1] < poll[1] && poll[1] + 10_000 < block[1],
        "{nic:?} {poll:?} {block:?}"
    );
    for (name, server) in [("myrinet-lanai4", "nic-poll"), ("myrinet-2000", "host-spin-block")] {
        let error = Profile::load(name).unwrap().served_by(server).unwrap_err().to_string();
        assert!(error.contains(server) || error.contains(name), "{error}");
    }
}

#[test]
fn an_error_of_a_rank_is_the_error_of_the_run() {
    let error = run(&Profile::load("ibm-sp").unwrap(), 4, 1, |world| {
        let words = world.words(1)?;
        world.load(words.at(Rank(world.rank().0 + 1), 0))
    });
    assert_eq!(error.unwrap_err(), Error::UnknownRank { rank: Rank(4), ranks: 4 });
}

#[test]
fn a_trace_has_every_operation_with_its_landing() {
    let outcome = Virtual::new(&round_numbers("interface", &quiet()), 4)
        .unwrap()
        .traced()
        .run_prepared(
            |world| world.words(1),
            |world, words| world.fetch_add(words.at(Rank(3), 0), 1),
        )
        .unwrap();
    let slices = &outcome.timing.slices;
    let atomics: Vec<_> =
        slices.iter().filter(|slice| slice.operation.kind == Kind::Atomic).collect();
    assert_eq!(atomics.len(), 4);
    for slice in atomics {
        let landed_ns = slice.landed_ns.expect("an operation lands");
        assert!(slice.begin_ns < landed_ns && landed_ns <= slice.end_ns, "{slice:?}");
    }
}

#[test]
fn a_profile_that_makes_no_sense_is_refused() {
    for (bad, why) in [
        ("", "missing field"),
        ("name = 5", "expected a string"),
        ("name = \"x\"\nsurprise = 1", "surprise"),
    ] {
        let text = Profile::parse(bad).unwrap_err().to_string();
        assert!(text.contains(why), "{bad:?}: {text}");
    }
    assert!(Profile::load("/nowhere/x.toml").unwrap_err().to_string().contains("/nowhere/x.toml"));
}

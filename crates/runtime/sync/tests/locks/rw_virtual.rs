//! Reader-writer locks against each other in virtual time, on the machine of [RMALOCK16]: what is
//! printed is their throughput.

use farside::rw::{Kind, Statistics};
use farside::sim::{Profile, Virtual};
use farside::{Rank, RwLock, World};

/// Acquisitions of an empty section in a second, by ranks that write with a given probability; and
/// what they counted.
fn throughput(kind: &Kind, ranks: u32, writers_permille: u64, rounds: u64) -> (f64, Statistics) {
    let profile = Profile::load("aries-xc30").expect("a profile");
    let make = kind.clone();
    let outcome = Virtual::new(&profile, ranks).expect("a machine").run_prepared(
        move |world: &World| {
            let lock = RwLock::of_kind(world, Rank(0), &make)?;
            world.barrier()?;
            Ok(lock)
        },
        move |world, lock| {
            let mut state = (u64::from(world.rank().0) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let begin = world.now_ns();
            for _ in 0..rounds {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if (state >> 20) % 1000 < writers_permille {
                    lock.write(world)?.unlock()?;
                } else {
                    lock.read(world)?.unlock()?;
                }
            }
            Ok((begin, world.now_ns(), lock.statistics()))
        },
    );
    let results = outcome.expect("a run").results;
    let begin = results.iter().map(|result| result.0).min().unwrap_or(0);
    let end = results.iter().map(|result| result.1).max().unwrap_or(0);
    let counted = results.iter().fold(Statistics::default(), |sum, result| sum.plus(&result.2));
    (u64::from(ranks) as f64 * rounds as f64 * 1e9 / (end - begin) as f64, counted)
}

/// Rounds of each rank: enough that writers are among them.
fn compare(ranks: u32, writers_permille: u64, rounds: u64) -> f64 {
    let (rival, _) = throughput(&Kind::FompiRw { backoff: false }, ranks, writers_permille, rounds);
    let (backoff, _) =
        throughput(&Kind::FompiRw { backoff: true }, ranks, writers_permille, rounds);
    let (ours, counted) = throughput(&Kind::rma_rw(), ranks, writers_permille, rounds);
    println!(
        "{ranks} ranks, {:.1} % writers: rma-rw {:.2} M/s, fompi-rw {:.2} M/s ({:.1} x), with \
         back-off {:.2} M/s ({:.1} x); {} times closed for {} writes",
        writers_permille as f64 / 10.0,
        ours / 1e6,
        rival / 1e6,
        ours / rival,
        backoff / 1e6,
        ours / backoff,
        counted.closed,
        counted.writes,
    );
    ours / rival
}

#[test]
fn counters_near_the_readers_beat_one_word_for_all() {
    let sizes: &[u32] =
        if std::env::var_os("FARSIDE_LONG").is_some() { &[16, 64, 256, 1024] } else { &[64] };
    for &ranks in sizes {
        for writers_permille in [2, 20, 50] {
            let ratio = compare(
                ranks,
                writers_permille,
                if ranks > 256 || sizes.len() == 1 { 50 } else { 100 },
            );
            assert!(ranks < 64 || ratio > 1.0, "{ratio} at {ranks} ranks");
        }
    }
}

/// Reads of every rank of two nodes, by locks of a kind, with a write of each at the end. A reader
/// that is kept out for a second of virtual time is an error.
fn read_on(kind: &Kind, reads: u64, writes_every: Option<u64>) {
    let profile = Profile::load("aries-xc30").expect("a profile");
    let make = kind.clone();
    let machine = Virtual::new(&profile, 16)
        .and_then(|machine| machine.topology("node:8"))
        .expect("a machine");
    let outcome = machine.run_prepared(
        move |world: &World| {
            let lock = RwLock::of_kind(world, Rank(0), &make)?;
            world.barrier()?;
            Ok(lock)
        },
        move |world, lock| {
            let second = std::time::Duration::from_secs(1);
            for round in 1..=reads {
                lock.read_timeout(world, second)?.unlock()?;
                if writes_every
                    .is_some_and(|every| (round + 977 * u64::from(world.rank().0)) % every == 0)
                {
                    lock.write(world)?.unlock()?;
                }
            }
            lock.write(world)?.unlock()?;
            Ok(lock.statistics())
        },
    );
    let counted = outcome.expect("nobody is kept out").results;
    assert_eq!(counted.iter().map(|of_rank| of_rank.reads).sum::<u64>(), 16 * reads, "{kind:?}");
}

/// A node's counter sees more arrivals than its field can count: 8 x 33,000 are more than 2^18.
#[test]
fn readers_alone_go_past_the_end_of_their_counters() {
    let is_long = std::env::var_os("FARSIDE_LONG").is_some();
    for kind in Kind::all() {
        read_on(&kind, if is_long { 625_000 } else { 33_000 }, None);
        if is_long {
            read_on(&kind, 625_000, Some(10_000));
        }
    }
}

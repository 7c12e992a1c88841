//! Long transfers by stream: whole, once and in order, whatever becomes of the streams.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use farside_fabric::{Rank, Result};
use farside_rma::World;

use crate::cutter::{Cuts, Cutter, NO_CUTS};
use crate::relay::Trouble;

/// Longer than a frame, and not a multiple of it.
const WORDS: usize = 40_001;

/// Rounds of long transfers between all pairs of ranks, with short operations behind them.
fn work(world: &World, rounds: u64) -> Result<()> {
    let (me, size) = (world.rank(), world.size() as usize);
    let areas = world.window::<u64>(WORDS * size)?;
    let sums = world.window::<f64>(WORDS)?;
    let counters = world.words(2)?;
    for round in 1..=rounds {
        for peer in world.ranks() {
            let length =
                if round.is_multiple_of(3) { WORDS } else { 1 + (round as usize * 977) % WORDS };
            let mine: Vec<u64> = (0..length as u64)
                .map(|word| (round << 32) + (word << 8) + u64::from(me.0))
                .collect();
            let at = areas.at(peer, WORDS * me.0 as usize);
            world.put(&mine, at)?;
            // It is executed after the put, although it is short and may overtake it.
            world.add(counters.at(peer, 0), 1)?;
            let mut back = vec![0; length];
            world.get(at, &mut back)?;
            assert!(back == mine, "{me} at {peer}, round {round}");
            assert!(world.fetch_add(counters.at(peer, 1), 1)? < rounds * size as u64);
            world.accumulate(1.0, &vec![1.0; length], sums.at(peer, 0))?;
            world.flush(peer)?;
        }
    }
    world.sync()?;
    let all = rounds * size as u64;
    assert_eq!([world.load(counters.at(me, 0))?, world.load(counters.at(me, 1))?], [all, all]);
    let lengths = |round: u64| {
        if round.is_multiple_of(3) { WORDS } else { 1 + (round as usize * 977) % WORDS }
    };
    let mut there = vec![0.0; WORDS];
    world.get(sums.at(me, 0), &mut there)?;
    for word in [0, 976, 977, WORDS - 1] {
        let times = (1..=rounds).filter(|&round| lengths(round) > word).count() * size;
        assert_eq!(there[word], times as f64, "word {word} was increased once each time");
    }
    world.barrier()
}

#[test]
fn long_transfers_survive_streams_that_break() {
    let rounds = if crate::is_long() { 3_000 } else { 12 };
    let (servers, relay) = crate::servers_within(2, Some(1432)).unwrap();
    let (lost_pct, repeated_pct, damaged_pct, late_pct) = (5, 5, 2, 10);
    relay.trouble(Trouble { lost_pct, repeated_pct, damaged_pct, late_pct, ..Trouble::default() });
    let cuts = Cuts { bytes_max: 2 << 20, damaged_pct: 25, ..NO_CUTS };
    let cutter = Cutter::start(&crate::addresses(&servers), crate::mirror, cuts);
    crate::run(&servers, Duration::from_secs(if crate::is_long() { 5000 } else { 300 }), |world| {
        work(world, rounds)
    });
    let passed = cutter.stop();
    println!("{passed:?}; {:?}", relay.stop());
    assert!(passed.streams > u64::from(crate::RANKS), "streams were cut, and opened again");
    assert!(passed.bytes > rounds * 8 * WORDS as u64, "streams have carried long transfers");
    assert!(servers.iter().all(|server| server.refusals().malformed == 0));
}

#[test]
fn a_long_transfer_goes_on_by_other_streams_where_fragments_are_dropped() {
    const LENGTH: usize = 1 << 19;
    let (servers, relay) = crate::servers_within(5, Some(1432)).unwrap();
    relay.lose_longer_than(1432);
    // The transfer is longer than what any stream carries.
    let cuts = Cuts { bytes_max: LENGTH as u64 * 4, ..NO_CUTS };
    let cutter = Cutter::start(&crate::addresses(&servers), crate::mirror, cuts);
    crate::run(&servers, Duration::from_secs(60), |world| {
        let area = world.window::<u64>(LENGTH)?;
        let peer = Rank(world.size() - 1);
        if world.rank() == Rank(0) {
            let mine: Vec<u64> = (0..LENGTH as u64).collect();
            let mine = world.put_nb(mine, area.at(peer, 0))?.wait()?;
            world.flush(peer)?;
            let back = world.get_nb(area.at(peer, 0), LENGTH)?.wait()?;
            assert!(back == mine);
        }
        world.barrier()
    });
    assert!(cutter.stop().streams > 2, "streams were cut, and opened again");
    let _ = relay.stop();
}

/// The port has sent nothing before, and knows nothing of the way. A machine that is busy may let
/// the stream be late all the same, but not every time.
#[test]
fn the_first_long_transfer_over_a_long_way_goes_by_a_stream() {
    const LENGTH: usize = 1 << 17;
    const TRIES: usize = 5;
    let delay = Duration::from_millis(100);
    let (servers, relay) = crate::servers_within(7, Some(1432)).unwrap();
    let cuts = Cuts { delay, ..NO_CUTS };
    let cutter = Cutter::start(&crate::addresses(&servers), crate::mirror, cuts);
    crate::run(&servers, Duration::from_secs(60), |world| {
        let area = world.window::<u64>(LENGTH)?;
        if world.rank() == Rank(0) {
            relay.trouble(Trouble { delay, ..Trouble::default() });
            let (mut contexts, known) = (Vec::new(), relay.places().len());
            while contexts.len() < TRIES && cutter.passed().bytes < 8 * LENGTH as u64 {
                let context = world.context()?;
                let at = area.at(Rank(world.size() - 1), 0);
                context.put_nb(vec![1; LENGTH], at)?.wait()?;
                contexts.push(context);
            }
            relay.trouble(Trouble::default());
            let asked = relay.places().len() - known;
            assert!(asked >= contexts.len(), "a port has not asked how long the way is");
        }
        world.barrier()
    });
    assert!(cutter.stop().bytes >= 8 * LENGTH as u64, "datagrams have carried all transfers");
    let _ = relay.stop();
}

#[test]
fn where_no_stream_can_be_opened_datagrams_carry_everything() {
    // The relay passes on datagrams only.
    let (servers, relay) = crate::servers_within(3, Some(1432)).unwrap();
    crate::run(&servers, Duration::from_secs(300), |world| work(world, 3));
    let seen = relay.stop();
    assert!(seen.passed > 1000, "{seen:?}");
}

#[test]
fn a_stream_without_the_key_gets_nothing_and_keeps_nobody_from_working() {
    let (servers, relay) = crate::servers_within(4, Some(1432)).unwrap();
    let cutter = Cutter::start(&crate::addresses(&servers), crate::mirror, NO_CUTS);
    let place = crate::addresses(&servers)[1];
    let strangers: Vec<TcpStream> = (0..100).filter_map(|at| stranger(place, at)).collect();
    crate::run(&servers, Duration::from_secs(300), |world| work(world, 3));
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut heard = Vec::new();
        // A challenge, and then the end: those that said nothing are closed when others come.
        let _ = stranger.read_to_end(&mut heard);
        assert!(heard.len() <= 24, "a stranger was answered: {heard:?}");
    }
    assert!(cutter.stop().bytes > 0);
    let _ = relay.stop();
}

/// A stream that says nothing, or nonsense, or a proof of nothing.
fn stranger(place: SocketAddr, at: u32) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(place).ok()?;
    let head = |kind: u8, number: u32| [&b"fs\x05"[..], &[kind], &number.to_le_bytes()].concat();
    let _ = match at % 5 {
        0 => Ok(()),
        1 => stream.write_all(&[at as u8; 100]),
        2 => stream.write_all(&[&head(5, 77)[..], &[at as u8; 16]].concat()),
        3 => stream.write_all(&[&head(3, u32::MAX)[..], &[0; 1000]].concat()),
        _ => stream.write_all(b"fs"),
    };
    Some(stream)
}

//! The promises of the memory model, each with its test.

use std::time::Duration;

use farside::{Error, Pair, Rank, Result, World};
use farside_fabric::{Event, Wait, Wake};

use crate::{ensure, ensure_eq};

const ROUNDS: u64 = 300;

/// Rank 0 sends rounds to rank 1, and rank 1 says when it has looked.
fn rounds(
    world: &World,
    send: impl Fn(u64) -> Result<()>,
    look: impl Fn(u64) -> Result<()>,
    done: &farside::Window<u64>,
) -> Result<()> {
    for round in 1..=ROUNDS {
        match world.rank() {
            Rank(0) => {
                send(round)?;
                world.wait(done.at(Rank(0), 0), |done| done >= round)?;
            }
            Rank(1) => {
                look(round)?;
                world.signal(done.at(Rank(0), 0), round)?;
            }
            _ => {}
        }
    }
    world.sync()
}

pub(crate) fn a_signal_comes_after_the_fenced_put(world: &World) -> Result<()> {
    let (data, flag, done) =
        (world.window::<u64>(512)?, world.window::<u64>(1)?, world.window::<u64>(1)?);
    let send = |round| {
        world.put(&[round; 512], data.at(Rank(1), 0))?;
        world.fence()?;
        world.signal(flag.at(Rank(1), 0), round)
    };
    let look = |round| {
        world.wait(flag.at(Rank(1), 0), |flag| flag == round)?;
        ensure(data.own().to_vec()?.iter().all(|&value| value == round), || {
            format!("round {round}: old data")
        })
    };
    rounds(world, send, look, &done)?;
    data.free(world)?;
    flag.free(world)?;
    done.free(world)
}

pub(crate) fn put_signal_brings_its_data(world: &World) -> Result<()> {
    let (data, flag, done) =
        (world.window::<u64>(3000)?, world.window::<u32>(1)?, world.window::<u64>(1)?);
    let send = |round| {
        world.put_signal(&[round; 3000], data.at(Rank(1), 0), round as u32, flag.at(Rank(1), 0))
    };
    let look = |round| {
        world.wait(flag.at(Rank(1), 0), |flag| u64::from(flag) == round)?;
        ensure(data.own().to_vec()?.iter().all(|&value| value == round), || {
            format!("round {round}: old data")
        })
    };
    rounds(world, send, look, &done)?;
    let elsewhere = world.put_signal(&[1], data.at(Rank(0), 0), 1, flag.at(Rank(1), 0));
    ensure(
        matches!(elsewhere, Err(Error::InvalidArgument(ref why)) if why.contains("flush")),
        || "a signal to another rank".into(),
    )?;
    data.free(world)?;
    flag.free(world)?;
    done.free(world)
}

pub(crate) fn an_add_comes_after_the_fenced_put(world: &World) -> Result<()> {
    // The add is posted, ordered by the fence as a signal is, and wakes the rank that waits.
    let (data, count, done) =
        (world.window::<u64>(512)?, world.window::<u32>(1)?, world.window::<u64>(1)?);
    let send = |round| {
        world.put(&[round; 512], data.at(Rank(1), 0))?;
        world.fence()?;
        world.add(count.at(Rank(1), 0), 1)
    };
    let look = |round| {
        world.wait(count.at(Rank(1), 0), |count| u64::from(count) == round)?;
        ensure(data.own().to_vec()?.iter().all(|&value| value == round), || {
            format!("round {round}: old data")
        })
    };
    rounds(world, send, look, &done)?;
    data.free(world)?;
    count.free(world)?;
    done.free(world)
}

pub(crate) fn put_signal_add_brings_all_data(world: &World) -> Result<()> {
    // All ranks write parts of rank 0's memory, some long, and count in one word of it.
    const LEN: usize = 700;
    let (me, n) = (world.rank(), world.size());
    let (data, count) = (world.window::<u64>(LEN * n as usize)?, world.window::<u32>(2)?);
    let go_on = world.words(1)?;
    for round in 1..=50_u32 {
        let len = if round % 5 == 0 { LEN } else { 1 + me.index() };
        let to = data.at(Rank(0), LEN * me.index());
        world.put_signal_add(&vec![u64::from(round); len], to, 1 + me.0, count.at(Rank(0), 1))?;
        if me != Rank(0) {
            world.wait(go_on.at(me, 0), |seen| seen >= round.into())?;
            continue;
        }
        // Each adds another number, so that the sum tells one that is missing from one too many.
        let all = round * (1..=n).sum::<u32>();
        world.wait(count.at(me, 1), |count| count >= all)?;
        for rank in 0..n as usize {
            let len = if round % 5 == 0 { LEN } else { 1 + rank };
            let mut part = vec![0; len];
            data.own().read(LEN * rank, &mut part)?;
            ensure(part.iter().all(|&value| value == u64::from(round)), || {
                format!("round {round}: the data of rank {rank} is not all there: {part:?}")
            })?;
        }
        let mut others = world.ranks().filter(|&peer| peer != me);
        others.try_for_each(|peer| world.signal(go_on.at(peer, 0), round.into()))?;
    }
    world.sync()?;
    let expected = vec![0, 50 * (1..=n).sum::<u32>()];
    if me == Rank(0) {
        ensure_eq(count.own().to_vec()?, expected, "signals, once each")?;
    }
    let elsewhere = world.put_signal_add(&[1], data.at(Rank(0), 0), 1, count.at(Rank(1), 0));
    ensure(elsewhere.is_err(), || "a signal to another rank".into())?;
    go_on.free(world)?;
    data.free(world)?;
    count.free(world)
}

pub(crate) fn flush_is_seen_by_a_third_rank(world: &World) -> Result<()> {
    // Rank 0 writes to rank 2, flushes, and tells rank 1, who reads at rank 2.
    let (data, flag, done) =
        (world.window::<u64>(64)?, world.window::<u64>(1)?, world.window::<u64>(1)?);
    let send = |round| {
        world.put(&[round; 64], data.at(Rank(2), 0))?;
        world.flush(Rank(2))?;
        world.signal(flag.at(Rank(1), 0), round)
    };
    let look = |round| {
        world.wait(flag.at(Rank(1), 0), |flag| flag == round)?;
        let mut got = [0; 64];
        world.get(data.at(Rank(2), 0), &mut got)?;
        ensure_eq(got, [round; 64], "what was flushed")
    };
    rounds(world, send, look, &done)?;
    data.free(world)?;
    flag.free(world)?;
    done.free(world)
}

pub(crate) fn flush_orders_a_put_before_a_later_get(world: &World) -> Result<()> {
    // Each of two ranks writes its own word and then reads the other's: at least one sees the other
    // (Dekker).
    let words = world.window::<u64>(2)?;
    let home = Rank(2);
    for round in 1..=ROUNDS {
        world.barrier()?;
        let mut saw = 1u8;
        if world.rank().0 < 2 {
            let me = world.rank().index();
            world.put(&[round], words.at(home, me))?;
            world.flush(home)?;
            saw = u8::from(world.get_value(words.at(home, 1 - me))? == round);
        }
        let all = world.all_gather(&[saw])?;
        ensure(all[0] + all[1] > 0, || {
            format!("round {round}: both read before the other had written")
        })?;
    }
    words.free(world)
}

pub(crate) fn fence_orders_puts_to_one_rank(world: &World) -> Result<()> {
    // A reader that sees the second put sees the first.
    let words = world.window::<u64>(16)?;
    if world.rank() == Rank(0) {
        for round in 1..=5000 {
            world.put(&[round], words.at(Rank(1), 0))?;
            world.fence()?;
            world.put(&[round], words.at(Rank(1), 8))?;
            world.fence()?;
            // A simulation keeps all that is under way, and looks at it in each step.
            if round % 250 == 0 {
                world.flush(Rank(1))?;
            }
        }
    } else {
        let mut last = 0;
        while last < 5000 {
            last = world.get_value(words.at(Rank(1), 8))?;
            let first = world.get_value(words.at(Rank(1), 0))?;
            ensure(first >= last, || {
                format!("saw the second put of round {last} and the first of round {first}")
            })?;
            world.relax()?;
        }
    }
    world.sync()?;
    words.free(world)
}

pub(crate) fn wait_sees_atomics(world: &World) -> Result<()> {
    let words = world.words(2)?;
    let n = u64::from(world.size());
    for round in 1..=50 {
        for peer in world.ranks() {
            world.fetch_add(words.at(peer, 0), 1)?;
        }
        let seen = world.wait(words.at(world.rank(), 0), |count| count >= round * n)?;
        ensure_eq(seen, round * n, "arrivals")?;
        world.barrier()?;
    }
    words.free(world)
}

pub(crate) fn a_pair_wakes_who_waits_for_either_half(world: &World) -> Result<()> {
    let pairs = world.window::<Pair>(1)?.cast::<u64>()?;
    let done = world.words(1)?;
    let half =
        |world: &World, half: usize| world.wait(pairs.at(world.rank(), half), |word| word != 0);
    for round in 1..=20u64 {
        if world.rank() == Rank(1) {
            let which = (round % 2) as usize;
            ensure_eq(half(world, which)?, round, "a half of a pair")?;
            world.store(pairs.at(Rank(1), 0), 0)?;
            world.store(pairs.at(Rank(1), 1), 0)?;
            world.signal(done.at(Rank(0), 0), round)?;
        } else if world.rank() == Rank(0) {
            let mut work = round;
            for _ in 0..100_000 {
                work = std::hint::black_box(work ^ (work << 7));
            }
            let word = farside::fabric::Word {
                width: farside::fabric::Width::Pair,
                ..pairs.at(Rank(1), 0).word()
            };
            let both = (u128::from(round) << 64) | u128::from(round);
            let op = farside::fabric::Atomic::Store(both);
            let _ = world.fabric().atomic(word, op, farside::fabric::OldValue::Ignored)?;
            world.wait(done.at(Rank(0), 0), |seen| seen == round)?;
        }
    }
    world.sync()?;
    done.free(world)?;
    pairs.free(world)
}

pub(crate) fn wait_returns_what_it_saw(world: &World) -> Result<()> {
    // The word changes all the time, and satisfies the condition every other time.
    let words = world.words(2)?;
    if world.rank() == Rank(0) {
        for _ in 0..200 {
            let seen = world.wait(words.at(Rank(0), 0), |word| word % 2 == 1)?;
            ensure(seen % 2 == 1, || format!("wait returned {seen}"))?;
        }
        world.ranks().try_for_each(|peer| world.store(words.at(peer, 1), 1))?;
    } else {
        while world.load(words.at(world.rank(), 1))? == 0 {
            world.fetch_add(words.at(Rank(0), 0), 1)?;
            world.relax()?;
        }
    }
    world.sync()?;
    words.free(world)
}

pub(crate) fn wait_wakes_a_sleeper(world: &World) -> Result<()> {
    // The sleeper has gone to sleep when it is told so by nothing but the other's long work:
    // however long, it must be woken.
    let words = world.words(2)?;
    for round in 1..=20 {
        if world.rank() == Rank(0) {
            let mut work = round;
            for _ in 0..200_000 {
                work = std::hint::black_box(work ^ (work << 7));
            }
            world.fetch_or(words.at(Rank(1), 0), 1 << round)?;
            world.wait(words.at(Rank(0), 1), |seen| seen == round)?;
        } else if world.rank() == Rank(1) {
            world.wait(words.at(Rank(1), 0), |bits| bits & (1 << round) != 0)?;
            world.signal(words.at(Rank(0), 1), round)?;
        }
    }
    world.sync()?;
    words.free(world)
}

pub(crate) fn wait_times_out(world: &World) -> Result<()> {
    let words = world.words(1)?;
    let result =
        world.wait_timeout(words.at(world.rank(), 0), |word| word == 1, Duration::from_millis(20));
    ensure_eq(result, Err(Error::TimedOut { after_ms: 20 }), "a wait for nothing")?;
    world.store(words.at(world.rank(), 0), 1)?;
    let result = world.wait_timeout(words.at(world.rank(), 0), |word| word == 1, Duration::ZERO);
    ensure_eq(result, Ok(1), "a wait for what is there, without time")?;
    words.free(world)
}

pub(crate) fn time_alone_can_be_waited_for(world: &World) -> Result<()> {
    // No rank departs ahead of the barrier.
    let known_departures = world.job().failures.departures();
    for soon in [true, false] {
        let timeout = Some(Duration::from_millis(2));
        let wait =
            Wait { event: Event::Words(&[]), known_departures, timeout, soon, lasting: None };
        ensure_eq(world.fabric().block(&wait)?, Wake::TimedOut, "a wait for time alone")?;
    }
    world.pause(Duration::from_micros(50))?;
    world.pause_among(&[world.rank()], Duration::ZERO)?;
    world.barrier()
}

pub(crate) fn relax_lets_others_run(world: &World) -> Result<()> {
    // Everybody polls a word of rank 0, which changes only once all have read it.
    let words = world.words(2)?;
    world.fetch_add(words.at(Rank(0), 0), 1)?;
    if world.rank() == Rank(0) {
        world.wait(words.at(Rank(0), 0), |count| count == u64::from(world.size()))?;
        world.store(words.at(Rank(0), 1), 1)?;
    }
    while world.load(words.at(Rank(0), 1))? == 0 {
        world.relax()?;
    }
    world.sync()?;
    words.free(world)
}

pub(crate) fn ranks_wait_in_a_chain(world: &World) -> Result<()> {
    // A token goes round: with more ranks than processors, everybody sleeps most of the time.
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    for round in 1..=100 {
        if world.rank() != Rank(0) {
            world.wait(words.at(world.rank(), 0), |token| token == round)?;
        }
        world.signal(words.at(next, 0), round)?;
        if world.rank() == Rank(0) {
            world.wait(words.at(world.rank(), 0), |token| token == round)?;
        }
    }
    words.free(world)
}

//! The rules of near memory: what a flush orders, what is counted, whom puts wake.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farside::raw::{self, Accumulate, Memory, Number};
use farside::{Context, Error, Local, Op, Place, Rank, Result, WaitOptions};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const ROUNDS: u64 = 100_000;
/// Where others use the processors, fewer rounds are enough.
const PATIENCE: Duration = Duration::from_secs(5);
/// More words than a cache has.
const COLD: u64 = 4 << 20;

/// Keeps this thread on one of two processors; returns whether there are two.
fn stay_on(number: usize) -> bool {
    let all = sched_getaffinity(None).expect("the system knows");
    let mut ones = (0..CpuSet::MAX_CPU).filter(|&at| all.is_set(at));
    let mut one = CpuSet::new();
    match (ones.nth(number), all.count()) {
        (Some(at), 2..) => {
            one.set(at);
            sched_setaffinity(None, &one).is_ok()
        }
        _ => false,
    }
}

/// Two ranks store to each other's words at the same moment, by instructions of their own, and look
/// at their own after a flush. What `before` does makes the flush a fence. Returns in how many
/// rounds neither finds what the other has stored.
fn stale_rounds(before: impl Fn(&Context, Place<'_, u8>) -> Result<()> + Sync) -> u64 {
    let (gate, is_over, stale) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let found = [const { AtomicU64::new(0) }; 2];
    let pass = |all: u64| {
        gate.fetch_add(1, Ordering::SeqCst);
        for look in 1u32.. {
            if gate.load(Ordering::SeqCst) >= all {
                break;
            }
            if look.is_multiple_of(1000) {
                std::thread::yield_now();
            }
        }
    };
    let ended = farside::local(2, |world| {
        let (me, peer) = (world.rank(), Rank(1 - world.rank().0));
        let (memory, begin) = (Memory::allocate(&world.team(), 128)?, Instant::now());
        let word = |rank| {
            let base = memory.near(rank).expect("it is on this node").cast::<u64>();
            // SAFETY: aligned, and mapped until the memory is freed.
            unsafe { AtomicU64::from_ptr(base.as_ptr()) }
        };
        let (own, theirs, are_two) = (word(me), word(peer), stay_on(me.index()));
        let cold: Vec<AtomicU64> = (0..COLD).map(AtomicU64::new).collect();
        for round in 1..=ROUNDS {
            if me == Rank(0) && (begin.elapsed() > PATIENCE || !are_two) {
                is_over.store(1, Ordering::SeqCst);
            }
            before(world, memory.at(peer, 64))?;
            pass(4 * round - 2);
            if is_over.load(Ordering::SeqCst) != 0 {
                break;
            }
            // News of the gate take a while to the one that came first: who is ahead differs.
            for step in 0..round * (1 + 2 * u64::from(me.0)) % 256 {
                std::hint::black_box(step);
            }
            // What the processor has stored leaves it in order, and this takes a while.
            for line in 0..8 {
                let at = (round * 8 + line).wrapping_mul(0x9E37_79B9_7F4A_7C15) % COLD;
                cold[at as usize].store(round, Ordering::Relaxed);
            }
            theirs.store(round, Ordering::Relaxed);
            world.flush(peer)?;
            let held = own.load(Ordering::Relaxed);
            found[me.index()].store(held, Ordering::SeqCst);
            pass(4 * round);
            let is_stale = |found: &AtomicU64| found.load(Ordering::SeqCst) != round;
            if me == Rank(0) && found.iter().all(is_stale) {
                stale.fetch_add(1, Ordering::SeqCst);
            }
        }
        memory.free(world)
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
    stale.into_inner()
}

#[test]
fn a_flush_is_ahead_of_the_reads_after_it() {
    assert_eq!(stale_rounds(|world, place| world.put(&[1], place)), 0, "after a put");
    let stale = stale_rounds(|world, _| {
        world.note_stores();
        Ok(())
    });
    assert_eq!(stale, 0, "of stores that it was told of");
}

#[test]
fn accumulates_of_nothing_make_nothing_visible() {
    let stale = stale_rounds(|world, place| {
        world.put(&[1], place)?;
        world.get_accumulate(Op::Sum, &[], place, &mut [])
    });
    assert_eq!(stale, 0, "in one piece");
    let stale = stale_rounds(|world, place| {
        world.put(&[1], place)?;
        world.get_accumulate_vector(Op::Sum, &[], place, &[], &mut [])
    });
    assert_eq!(stale, 0, "in pieces");
    let sum = Accumulate::new(Number::U64, Op::Sum).expect("numbers can be added");
    let stale = stale_rounds(|world, place| {
        world.put(&[1], place)?;
        raw::get_accumulate(world, &sum, &[], place, &mut [])
    });
    assert_eq!(stale, 0, "of numbers known only now");
}

/// Near and far.
#[test]
fn what_fails_is_not_counted() {
    for nodes in [1, 2] {
        let local = Local::new(2).expect("a job of two ranks can be made").nodes(nodes);
        let ended = local.run(|world| {
            let peer = Rank(1 - world.rank().0);
            let memory = Memory::allocate(&world.team(), 64)?;
            let (sum, mut old) = (Accumulate::new(Number::U64, Op::Sum)?, [0; 8]);
            let before = world.counters().peer(peer);
            // In the middle of a word, and beyond the end.
            assert!(raw::accumulate(world, &sum, &[1; 8], memory.at(peer, 4)).is_err());
            assert!(
                raw::get_accumulate(world, &sum, &[1; 8], memory.at(peer, 4), &mut old).is_err()
            );
            let word = memory.at(peer, 4).cast::<u64>();
            assert!(world.signal(word, 1).is_err());
            assert!(world.put_signal(&[1u8], memory.at(peer, 0), 1, word).is_err());
            let after = world.counters().peer(peer);
            assert_eq!((after.accumulates, after.atomics), (before.accumulates, before.atomics));
            world.sync()?;
            memory.free(world)
        });
        ended.unwrap_or_else(|error| panic!("{nodes} nodes: {error}"));
    }
}

/// Also when a rank was lost, and nothing goes the shortest way any more. A rank that waits for the
/// last of many puts sleeps by then; it may miss a put, and not all of them.
#[test]
fn puts_of_any_length_wake_after_a_loss() {
    const PUTS: u64 = 20_000;
    let (pair, lost) = ([Rank(0), Rank(1)], Rank(2));
    let ended = farside::local(3, |world| {
        let memory = Memory::allocate(&world.team(), 64)?;
        let is_seen = memory.at(Rank(0), 32).cast::<u64>();
        world.barrier()?;
        match world.rank() {
            Rank(0) => {
                while !world.is_lost(lost) {
                    world.relax_among(&pair)?;
                }
                let put = |count: u64| {
                    let words = [count.to_ne_bytes(), count.to_ne_bytes()];
                    memory.put_and_wake(world, Rank(1), 8, words.as_flattened())
                };
                (1..=PUTS).try_for_each(put)?;
                while world.load(is_seen)? == 0 {
                    put(PUTS)?;
                    world.relax_among(&pair)?;
                }
            }
            Rank(1) => {
                let word = memory.at(Rank(1), 16).cast::<u64>();
                // Sleepers that nobody wakes look again after ten seconds.
                let options = WaitOptions { timeout: Some(Duration::from_secs(8)), soon: false };
                world.wait_among(&pair, word, |count| count == PUTS, options)?;
                world.store(is_seen, 1)?;
            }
            _ => return Err(Error::Program("it fails".into())),
        }
        Ok(())
    });
    assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
}

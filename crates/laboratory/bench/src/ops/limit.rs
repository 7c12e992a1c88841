//! What no system can beat: the bare store, load, atomic, copy, and the futex.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use farside_fabric::memory::full_fence;
use rustix::thread::futex::{self, Flags};

use super::{Plan, row};
use crate::timing::{Times, clock, measure};

/// Runs a plan with bare instructions, and returns its samples.
pub(super) fn run(plan: &Plan) -> Result<String> {
    let mut rows = Vec::new();
    for (case, bytes) in plan.cases() {
        if let Some(ns) = one(&case, bytes, plan)? {
            rows.push(row(&case, bytes, plan.target, Times::of_batches(ns)));
        }
    }
    Ok(rows.join("\n"))
}

fn one(case: &str, bytes: usize, plan: &Plan) -> Result<Option<f64>> {
    let word = Box::new(AtomicU64::new(0));
    // Once, outside of the loops: spilling the address each time would be timed as well.
    let word = black_box(&*word);
    let time = plan.time;
    match case {
        // Complete at the target means: seen by everybody. That is a store and a fence.
        "put" | "signal" if bytes == 8 => loops(time, |value| {
            word.store(value, Ordering::Relaxed);
            full_fence();
        }),
        "rate" => loops(time, |value| word.store(value, Ordering::Relaxed)),
        "get" if bytes == 8 => loops(time, |_| {
            black_box(word.load(Ordering::Relaxed));
        }),
        "put" | "get" => {
            let from = vec![1u8; bytes];
            let mut to = vec![0u8; bytes];
            loops(time, |_| black_box(&mut to).copy_from_slice(black_box(&from)))
        }
        "put_strided" => {
            let rows = bytes.div_ceil(64);
            let (from, mut to) = (vec![1u8; rows * 128], vec![0u8; rows * 128]);
            let row = bytes.min(64);
            loops(time, |_| {
                let (from, to) = (black_box(&from), black_box(&mut to));
                for at in (0..rows).map(|row| row * 128) {
                    to[at..at + row].copy_from_slice(&from[at..at + row]);
                }
            })
        }
        "fetch_add" => loops(time, |_| {
            black_box(word.fetch_add(1, Ordering::SeqCst));
        }),
        "swap" => loops(time, |value| {
            black_box(word.swap(value, Ordering::SeqCst));
        }),
        "compare_swap" => loops(time, |value| {
            let _ = black_box(word.compare_exchange(
                value,
                value + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ));
        }),
        "compare_swap_miss" => loops(time, |_| {
            let _ = black_box(word.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst));
        }),
        // How long it takes to wake a sleeper and to be woken by it: what waiting without a
        // processor of one's own costs.
        "barrier" => futex_round_trip(plan).map(Some),
        _ => Ok(None),
    }
}

/// Inlined into its loop: a call for each operation would be timed as well.
fn loops(time: Duration, mut run: impl FnMut(u64)) -> Result<Option<f64>> {
    let measured = measure(&clock(), time, |count| {
        (0..count).for_each(&mut run);
        Ok::<(), std::convert::Infallible>(())
    });
    measured.map(Some).context("measuring")
}

fn futex_round_trip(plan: &Plan) -> Result<f64> {
    let turn = Arc::new(AtomicU32::new(0));
    let theirs = turn.clone();
    // 0: ours, 1: theirs, 2: over.
    let wait = |word: &AtomicU32, while_: u32| {
        while word.load(Ordering::SeqCst) == while_ {
            let _ = futex::wait(word, Flags::empty(), while_, None);
        }
    };
    let wake = |word: &AtomicU32, value: u32| {
        word.store(value, Ordering::SeqCst);
        let _ = futex::wake(word, Flags::empty(), 1);
    };
    let other = std::thread::spawn(move || {
        loop {
            wait(&theirs, 0);
            if theirs.load(Ordering::SeqCst) == 2 {
                return;
            }
            wake(&theirs, 0);
        }
    });
    let ns = measure(&clock(), plan.time, |count| {
        for _ in 0..count {
            wake(&turn, 1);
            wait(&turn, 1);
        }
        Ok::<(), std::convert::Infallible>(())
    })?;
    wake(&turn, 2);
    other.join().ok().context("the other side of the futex panicked")?;
    Ok(ns)
}

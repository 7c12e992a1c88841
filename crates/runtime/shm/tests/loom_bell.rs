//! Every interleaving of a sleeper and a waker: nobody sleeps through a change of the memory.
#![cfg(loom)]
#![allow(missing_docs, unreachable_pub, dead_code)]

#[path = "../src/bell.rs"]
mod bell;

use bell::Bell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

fn sleep_until(bell: &Bell, bit: u64, word: &AtomicU64, target: u64) {
    while word.load(Ordering::SeqCst) < target {
        bell.park(bit, || word.load(Ordering::SeqCst) >= target, None);
    }
}

fn change(bell: &Bell, bit: u64, word: &AtomicU64) {
    word.fetch_add(1, Ordering::SeqCst);
    bell.ring_if_watched(bit);
}

#[test]
fn a_sleeper_is_woken_by_an_atomic() {
    loom::model(|| {
        let shared = Arc::new((Bell::new(), AtomicU64::new(0)));
        let theirs = shared.clone();
        let waker = loom::thread::spawn(move || change(&theirs.0, 1, &theirs.1));
        sleep_until(&shared.0, 1, &shared.1, 1);
        waker.join().unwrap();
    });
}

#[test]
fn two_wakers_and_one_sleeper() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((Bell::new(), AtomicU64::new(0)));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let theirs = shared.clone();
                loom::thread::spawn(move || change(&theirs.0, 1, &theirs.1))
            })
            .collect();
        sleep_until(&shared.0, 1, &shared.1, 2);
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

#[test]
fn two_sleepers_on_two_words_of_one_rank() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((Bell::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let (a, b) = (shared.clone(), shared.clone());
        // The waker changes one word after the other: clearing the bits for the first must not lose
        // the second's sleeper.
        let waker = loom::thread::spawn(move || {
            change(&a.0, 1, &a.1);
            change(&a.0, 2, &a.2);
        });
        let sleeper = loom::thread::spawn(move || sleep_until(&b.0, 2, &b.2, 1));
        sleep_until(&shared.0, 1, &shared.1, 1);
        waker.join().unwrap();
        sleeper.join().unwrap();
    });
}

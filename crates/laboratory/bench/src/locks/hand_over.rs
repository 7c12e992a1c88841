//! How long a lock is on its way from one rank to the next.

use farside::{Rank, Result, World};

use super::{HAND_OVER, LockSpec, Plan};
use crate::timing::median;

/// For how long a rank keeps the lock: longer than it takes the others to ask for it.
const HOLD_NS: u64 = 200_000;
/// A rank that has asked so long before the lock was given back was waiting by then.
const QUEUED_NS: u64 = HOLD_NS / 2;
/// How often each rank takes it on real ranks.
const TURNS: u64 = 100;

/// When a rank asked for the lock, when it had it, and when it began to give it back.
#[derive(Clone, Copy)]
struct Turn {
    rank: usize,
    asked_ns: u64,
    taken_ns: u64,
    left_ns: u64,
}

/// Runs the case as a rank; rank 0 returns its sample if a lock has changed hands. All ranks of a
/// machine have one clock.
pub(super) fn run(world: &World, plan: &Plan, choice: &LockSpec) -> Result<Option<String>> {
    let lock = choice.build(world)?;
    let turns = if plan.operations > 0 { plan.operations } else { TURNS };
    let mut words = Vec::with_capacity(3 * turns as usize);
    world.barrier()?;
    for _ in 0..turns {
        let asked_ns = world.now_ns();
        let (taken_ns, left_ns) = lock.hold(world, true, || {
            let taken_ns = world.now_ns();
            world.work(HOLD_NS);
            Ok((taken_ns, world.now_ns()))
        })?;
        words.extend([asked_ns, taken_ns, left_ns]);
    }
    world.barrier()?;
    lock.free(world)?;
    let all = world.all_gather(&words)?;
    let mut took_ns = hand_overs_ns(&all, words.len());
    let is_told = world.rank() == Rank(0) && !took_ns.is_empty();
    // Of the other figures of the bench there are none.
    let figures = |median_ns| [Some(median_ns), None, None, None, None, None, None];
    Ok(is_told.then(|| plan.sample(choice, HAND_OVER, &figures(median(&mut took_ns)))))
}

/// The times from one rank's giving back to the next rank's having it, where the next one was
/// waiting; of words of all ranks, so many of each.
fn hand_overs_ns(words: &[u64], each: usize) -> Vec<f64> {
    let mut turns: Vec<Turn> = words
        .chunks_exact(3)
        .enumerate()
        .map(|(at, turn)| Turn {
            rank: at / (each / 3),
            asked_ns: turn[0],
            taken_ns: turn[1],
            left_ns: turn[2],
        })
        .collect();
    turns.sort_by_key(|turn| turn.taken_ns);
    let waited = |before: &Turn, next: &Turn| {
        before.rank != next.rank && next.asked_ns + QUEUED_NS <= before.left_ns
    };
    turns
        .windows(2)
        .filter(|pair| waited(&pair[0], &pair[1]))
        .map(|pair| (pair[1].taken_ns - pair[0].left_ns) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_another_rank_waits_for_is_handed_over() {
        let (first, second) = ([0, 10, 300_010], [1_000, 300_040, 600_000]);
        let again = [590_000, 600_100, 900_000];
        // The first rank has asked too late to have been waiting for sure.
        let late: Vec<u64> = [first, again, second].concat();
        assert_eq!(hand_overs_ns(&late[..], 6)[..], [30.0]);
        // The second rank takes it twice in a row.
        let twice = [first, first, second, again].concat();
        assert_eq!(hand_overs_ns(&twice[..], 6)[..], [30.0]);
    }
}

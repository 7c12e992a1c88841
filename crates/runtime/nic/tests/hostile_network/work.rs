//! Work whose outcome shows whether every operation was done, once, and whole.

use farside_fabric::{Op, Rank, Result};
use farside_rma::World;

/// How many operations a rank does in a round.
pub(crate) const OPERATIONS: u64 = 8 * 4;
const WORDS: usize = 512;

/// Rounds of operations, as long as `go_on` says so to the first rank; then the outcome is checked.
pub(crate) fn rounds(world: &World, go_on: impl Fn(u64) -> Result<bool>) -> Result<()> {
    let (me, size) = (world.rank(), u64::from(world.size()));
    let counters = world.words(4)?;
    let blocks = world.window::<u64>(WORDS * world.size() as usize)?;
    let areas = world.window::<u64>(WORDS * world.size() as usize)?;
    let (sums, numbers) = (world.window::<f64>(64)?, world.window::<f64>(WORDS)?);
    let (mut tickets, mut round, mut count) = (0u64, 0u64, [0u64; 64]);
    let (ones, mut old, mut found) = ([1.0; WORDS], [0.0; WORDS], 0.0);
    loop {
        let mut flag = [u64::from(me == Rank(0) && go_on(round)?)];
        if round.is_multiple_of(16) {
            world.broadcast(Rank(0), &mut flag)?;
            if flag == [0] {
                break;
            }
        }
        for peer in world.ranks() {
            tickets = tickets.wrapping_add(world.fetch_add(counters.at(peer, 0), 1)?);
            world.signal(counters.at(peer, 1), round)?;
            // A part of the area that is mine at every peer: small or large.
            let length = if round % 7 == 0 { WORDS } else { 1 + (round % 20) as usize };
            let mine: Vec<u64> = (0..length as u64)
                .map(|word| (round << 20) + word * size + u64::from(me.0))
                .collect();
            let at = areas.at(peer, WORDS * me.0 as usize);
            world.put(&mine, at)?;
            world.add(counters.at(peer, 2), 1)?;
            let block = blocks.at(peer, WORDS * me.0 as usize);
            world.put_signal_add(&mine, block, 1, counters.at(peer, 3))?;
            world.flush(peer)?;
            let mut back = vec![0; length];
            world.get(at, &mut back)?;
            assert_eq!(back, mine, "{me} at {peer}, round {round}");
            let first = (round % 60) as usize;
            world.accumulate(2.0, &[1.0, 3.0], sums.at(peer, first))?;
            count[first] += 1;
            world.get_accumulate(Op::Sum, &ones, numbers.at(peer, 0), &mut old)?;
            found += old[WORDS - 1];
        }
        round += 1;
    }
    world.sync()?;
    let drawn = world.load(counters.at(me, 0))?;
    let mut all = [tickets, drawn * drawn.saturating_sub(1) / 2];
    world.all_reduce(&mut all, u64::wrapping_add)?;
    assert_eq!(drawn, round * size, "every addition was done once");
    assert_eq!(all[0], all[1], "every ticket was drawn once");
    for posted in [2, 3] {
        let added = world.load(counters.at(me, posted))?;
        assert_eq!(added, round * size, "every posted addition ({posted}) was done once");
    }
    let last = world.get_value(numbers.at(me, WORDS - 1))?;
    assert_eq!(last, (round * size) as f64, "every accumulate that fetches was done once");
    let mut fetched = [found, last * (last - 1.0) / 2.0];
    world.all_sum(&mut fetched)?;
    assert_eq!(fetched[0], fetched[1], "every value was fetched once");
    let mut there = [0.0; 64];
    world.get(sums.at(me, 0), &mut there)?;
    let from_each = |at: usize| {
        2.0 * (count[at] as f64 + 3.0 * if at > 0 { count[at - 1] as f64 } else { 0.0 })
    };
    for (at, &sum) in there.iter().enumerate() {
        assert_eq!(sum, from_each(at), "sum {at}");
    }
    world.barrier()
}

use farside::{Context, Rank, Result, Window, World};

fn pack(first: u64, end: u64) -> u64 {
    first << 32 | end
}

/// Takes one task of `rank` from the front, or half of them from the back.
fn take(
    world: &Context,
    queues: &Window<u64>,
    rank: Rank,
    half: bool,
) -> Result<Option<(u64, u64)>> {
    let at = queues.at(rank, 0);
    let mut seen = world.load(at)?;
    loop {
        let (first, end) = (seen >> 32, seen & u64::from(u32::MAX));
        if first >= end {
            return Ok(None);
        }
        let count = if half { (end - first).div_ceil(2) } else { 1 };
        let (left, taken) = if half {
            (pack(first, end - count), (end - count, end))
        } else {
            (pack(first + 1, end), (first, first + 1))
        };
        let before = world.compare_swap(at, seen, left)?;
        if before == seen {
            return Ok(Some(taken));
        }
        seen = before;
    }
}

#[farside::main]
fn main(world: &World) -> Result<()> {
    let queues = world.window::<u64>(1)?;
    let me = world.rank();
    // All work begins at rank 0.
    world.store(queues.at(me, 0), if me == Rank(0) { pack(0, 1000) } else { 0 })?;
    world.sync()?;
    let mut done = 0_u64;
    'work: loop {
        while let Some((first, end)) = take(world, &queues, me, false)? {
            done += end - first; // process the task
        }
        for step in 1..world.size() {
            let victim = Rank((me.0 + step) % world.size());
            if let Some((first, end)) = take(world, &queues, victim, true)? {
                world.store(queues.at(me, 0), pack(first, end))?;
                continue 'work;
            }
        }
        break;
    }
    let mut all = [done];
    world.all_reduce(&mut all, |a, b| a + b)?;
    assert_eq!(all, [1000]);
    queues.free(world)
}

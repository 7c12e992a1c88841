//! A histogram and a gather, on a table that all ranks have a part of.

use farside::{Aggregator, Result, World};

use super::{FEWER, Rate, check, home, numbers, sum, timed};

/// Words of each rank's part of the table.
const WORDS: u64 = 1 << 16;

/// Counts random numbers, by adding to words of other ranks.
pub(super) fn histogram(world: &World, operations: u64) -> Result<Vec<Rate>> {
    let all = WORDS * u64::from(world.size());
    let table = world.window::<u64>(WORDS as usize)?;
    let mut random = numbers(world, 1);
    let single = operations / FEWER;
    let singly = timed(world, ("histogram", "single"), single, || {
        for _ in 0..single {
            let (rank, at) = home(world, random.below(all));
            world.add(table.at(rank, at as usize), 1)?;
        }
        world.sync()
    })?;
    let mut counts = table.own().to_vec()?;
    check(sum(world, counts.iter().sum())? == sum(world, single)?, "the histogram")?;
    let mut items = Aggregator::<u32>::new(world)?;
    let aggregated = timed(world, ("histogram", "aggregated"), operations, || {
        items.run(
            |out| {
                (0..operations).try_for_each(|_| {
                    let (rank, at) = home(world, random.below(all));
                    out.push(rank, at as u32)
                })
            },
            |_, _, arrived| {
                arrived.iter().for_each(|&at| counts[at as usize] += 1);
                Ok(())
            },
        )
    })?;
    let total = sum(world, counts.iter().sum())?;
    check(total == sum(world, single + operations)?, "the aggregated histogram")?;
    items.free()?;
    table.free(world)?;
    Ok(vec![singly, aggregated])
}

/// Reads random elements of a table.
pub(super) fn gather(world: &World, operations: u64) -> Result<Vec<Rate>> {
    let all = WORDS * u64::from(world.size());
    let table = world.window::<u64>(WORDS as usize)?;
    let value = |index: u64| index.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8;
    let (me, ranks) = (u64::from(world.rank().0), u64::from(world.size()));
    let own: Vec<u64> = (0..WORDS).map(|at| value(at * ranks + me)).collect();
    world.put(&own, table.at(world.rank(), 0))?;
    world.sync()?;
    let mut random = numbers(world, 2);
    let wanted: Vec<u64> = (0..operations).map(|_| random.below(all)).collect();
    let single = &wanted[..(operations / FEWER) as usize];
    let singly = timed(world, ("gather", "single"), single.len() as u64, || {
        for &index in single {
            let (rank, at) = home(world, index);
            check(world.get_value(table.at(rank, at as usize))? == value(index), "an element")?;
        }
        Ok(())
    })?;
    // A question has where the answer goes and which element is wanted, an answer its value.
    let mut items = Aggregator::<[u64; 2]>::new(world)?;
    let mut found = vec![0; wanted.len()];
    const IS_ANSWER: u64 = 1 << 63;
    let aggregated = timed(world, ("gather", "aggregated"), operations, || {
        items.run(
            |out| {
                wanted.iter().enumerate().try_for_each(|(to, &index)| {
                    let (rank, at) = home(world, index);
                    out.push(rank, [to as u64, at])
                })
            },
            |out, from, arrived| {
                for &[to, at] in arrived {
                    match to & IS_ANSWER {
                        0 => out.push(from, [to | IS_ANSWER, own[at as usize]])?,
                        _ => found[(to & !IS_ANSWER) as usize] = at,
                    }
                }
                Ok(())
            },
        )
    })?;
    let is_right = wanted.iter().zip(&found).all(|(&index, &found)| value(index) == found);
    check(is_right, "the aggregated gather")?;
    items.free()?;
    table.free(world)?;
    Ok(vec![singly, aggregated])
}

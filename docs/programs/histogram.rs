use farside::{Rank, World};

const BUCKETS: u64 = 64;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let ranks = u64::from(world.size());
    let per_rank = BUCKETS.div_ceil(ranks);
    let buckets = world.window::<u64>(per_rank as usize)?;
    let samples = (0..1000_u64).map(|n| (n * 2654435761 + u64::from(world.rank().0)) % BUCKETS);
    for sample in samples {
        let owner = Rank((sample / per_rank) as u32);
        world.add(buckets.at(owner, (sample % per_rank) as usize), 1)?;
    }
    world.sync()?;
    let mut total = [buckets.own().to_vec()?.iter().sum::<u64>()];
    world.all_sum(&mut total)?;
    assert_eq!(total, [1000 * ranks]);
    buckets.free(world)
}

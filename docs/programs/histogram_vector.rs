use farside::{Run, World};

const BUCKETS: u64 = 64;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let ranks = u64::from(world.size());
    let per_rank = BUCKETS.div_ceil(ranks);
    let buckets = world.window::<i64>(per_rank as usize)?;
    let samples = (0..1000_u64).map(|n| (n * 2654435761 + u64::from(world.rank().0)) % BUCKETS);
    // Collect what goes to each rank, and send it as one message.
    let mut parts = vec![vec![0_i64; per_rank as usize]; world.size() as usize];
    for sample in samples {
        parts[(sample / per_rank) as usize][(sample % per_rank) as usize] += 1;
    }
    for (rank, part) in world.ranks().zip(&parts) {
        let touched: Vec<usize> = (0..part.len()).filter(|&at| part[at] != 0).collect();
        let runs: Vec<Run> =
            touched.iter().enumerate().map(|(near, &far)| Run { near, far, len: 1 }).collect();
        let values: Vec<i64> = touched.iter().map(|&at| part[at]).collect();
        world.accumulate_vector(1, &values, buckets.at(rank, 0), &runs)?;
    }
    world.sync()?;
    let mut total = [buckets.own().to_vec()?.iter().sum::<i64>()];
    world.all_reduce(&mut total, |a, b| a + b)?;
    assert_eq!(total, [1000 * ranks as i64]);
    buckets.free(world)
}

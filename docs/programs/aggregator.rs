use farside::{Aggregator, Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let ranks = world.size();
    let mut count = 0_u64; // of the numbers that belong to this rank
    let mut numbers = Aggregator::<u32>::new(world)?;
    numbers.run(
        |out| (0..1000).try_for_each(|number| out.push(Rank(number % ranks), number)),
        |_out, _from, arrived| {
            count += arrived.len() as u64;
            Ok(())
        },
    )?; // all items of all ranks are handled
    let mut all = [count];
    world.all_sum(&mut all)?;
    assert_eq!(all, [1000 * u64::from(ranks)]);
    numbers.free()
}

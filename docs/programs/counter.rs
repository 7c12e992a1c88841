use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let next = world.window::<u64>(1)?;
    let mut mine = 0_u64;
    while world.fetch_add(next.at(Rank(0), 0), 1)? < 100 {
        mine += 1; // process task
    }
    println!("{} did {mine} tasks", world.rank());
    let mut all = [mine];
    world.all_reduce(&mut all, |a, b| a + b)?;
    assert_eq!(all, [100]);
    next.free(world)
}

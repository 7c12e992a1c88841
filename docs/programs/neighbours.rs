use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let window = world.window::<u64>(4)?;
    let (me, ranks) = (world.rank().0, world.size());
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    world.put(&[u64::from(me); 4], window.at(Rank(right), 0))?;
    world.sync()?;
    println!("rank {me} got {:?} from rank {left}", window.own().to_vec()?);
    assert_eq!(window.own().to_vec()?, [u64::from(left); 4]);
    window.free(world)
}

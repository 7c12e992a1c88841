use farside::{HashMap, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let map = HashMap::<[u8; 16], u64>::new(world)?;
    map.fetch_add(world, *b"sixteen letters!", 1)?;
    world.barrier()?;
    assert_eq!(map.get(world, *b"sixteen letters!")?, Some(world.size().into()));
    world.barrier()?;
    map.free(world)
}

use farside::{HashMap, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let ranks = u64::from(world.size());
    let map = HashMap::<u64, u64>::new(world)?;
    for word in [3, 5, 3, 7] {
        map.fetch_add(world, word, 1)?; // every rank counts
    }
    world.sync()?;
    assert_eq!(map.get(world, 3)?, Some(2 * ranks));
    assert_eq!(map.get_all(world, &[5, 7, 9])?, [Some(ranks), Some(ranks), None]);
    world.barrier()?;
    map.free(world)
}

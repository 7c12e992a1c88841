use farside::World;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let window = world.window::<u64>(world.size() as usize)?;
    for peer in world.ranks() {
        world.put(&[world.rank().0.into()], window.at(peer, world.rank().index()))?;
    }
    world.sync()?;
    println!("{}: {:?}", world.rank(), window.own().to_vec()?);
    window.free(world)
}

use farside::World;

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let window = world.window::<u64>(10)?; // ten words on each rank
    assert_eq!(window.own().to_vec()?, [0; 10]); // fresh memory is zero
    println!("{} of {} has ten words", world.rank(), world.size());
    window.free(world) // collective, too
}

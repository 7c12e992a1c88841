use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let data = world.window::<f64>(1000)?;
    let flag = world.window::<u64>(1)?;
    let me = world.rank();
    let right = Rank((me.0 + 1) % world.size());
    world.put_signal(&[1.5; 1000], data.at(right, 0), 1, flag.at(right, 0))?;
    world.wait(flag.at(me, 0), |value| value == 1)?; // sleeps if it takes long
    println!("{me}: the last of the data is {}", data.own().get(999)?);
    assert_eq!(data.own().get(999)?, 1.5);
    data.free(world)?;
    flag.free(world)
}

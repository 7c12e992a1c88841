use farside::{Locks as _, Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let account = world.window::<i64>(1)?;
    let lock = world.lock(Rank(0))?;
    for _ in 0..100 {
        let guard = lock.lock(world)?;
        let balance = world.get_value(account.at(Rank(0), 0))?;
        world.put_value(balance + 1, account.at(Rank(0), 0))?;
        guard.unlock()?; // the puts have arrived before the next holder goes on
    }
    world.sync()?;
    assert_eq!(world.get_value(account.at(Rank(0), 0))?, 100 * i64::from(world.size()));
    world.barrier()?;
    lock.free(world)?;
    account.free(world)
}

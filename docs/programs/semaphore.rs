use farside::{Rank, Semaphore, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let semaphore = Semaphore::new(world, Rank(0), 2)?; // collective; `for_team` for a team
    let permit = semaphore.acquire(world)?; // waits; `try_acquire`, `acquire_timeout`
    println!("{} is one of two at most", world.rank());
    permit.release()?; // or drop it
    semaphore.free(world) // collective
}

use farside::epoch::{Mode, Options, Window};
use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let window = Window::allocate(world, 1 << 20, Options::new().unit(8))?; // collective
    let right = Rank((world.rank().0 + 1) % world.size());
    window.lock(right, Mode::Exclusive)?;
    window.put(&[1.5; 100], right, 0)?;
    let long = window.put_request(vec![2.5; 50_000], right, 100)?; // under way …
    let sum: u64 = (1..=1000).sum(); // … while this rank computes
    window.unlock(right)?; // … and complete, there too
    let data: Vec<f64> = long.take()?;
    assert_eq!((sum, data.len()), (500500, 50_000));
    window.barrier()?;
    window.free() // collective
}

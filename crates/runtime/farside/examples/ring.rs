//! A token goes round all ranks: each waits on a word of its own memory, and signals the next
//! rank's.
//!
//! ```console
//! $ cargo build --release --example ring -p farside
//! $ farside run -n 4 target/release/examples/ring
//! ```

use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    pass_round(world, 3)
}

pub(crate) fn pass_round(world: &World, rounds: u64) -> farside::Result<()> {
    let words = world.words(1)?;
    let next = Rank((world.rank().0 + 1) % world.size());
    for round in 1..=rounds {
        if world.rank() != Rank(0) {
            world.wait(words.at(world.rank(), 0), |token| token == round)?;
        }
        world.signal(words.at(next, 0), round)?;
        if world.rank() == Rank(0) {
            world.wait(words.at(world.rank(), 0), |token| token == round)?;
            println!("round {round}: the token is back after {} ranks", world.size());
        }
    }
    words.free(world)
}

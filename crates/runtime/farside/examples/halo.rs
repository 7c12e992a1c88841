//! One-dimensional heat flow: each rank owns a part of a rod and puts its edges into its
//! neighbours' memory.
//!
//! ```console
//! $ cargo build --release --example halo -p farside
//! $ farside run -n 4 target/release/examples/halo
//! ```

use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let steps = 2000;
    let heat = flow(world, 1000, steps)?;
    if world.rank() == Rank(0) {
        println!("{} ranks, {steps} steps: {heat:.3} of 1000 units of heat are left", world.size());
    }
    Ok(())
}

/// Lets heat flow from the left end of a rod of which each rank has so many cells, and returns how
/// much is left.
pub(crate) fn flow(world: &World, cells: usize, steps: usize) -> farside::Result<f64> {
    let me = world.rank();
    // Two generations, each with a ghost cell at either end.
    let rods = [world.window::<f64>(cells + 2)?, world.window::<f64>(cells + 2)?];
    if me == Rank(0) {
        rods[0].own().set(1, 1000.0)?;
    }
    world.sync()?;
    for step in 0..steps {
        let (old, new) = (&rods[step % 2], &rods[(step + 1) % 2]);
        if me.0 > 0 {
            world.put_value(old.own().get(1)?, old.at(Rank(me.0 - 1), cells + 1))?;
        }
        if me.0 + 1 < world.size() {
            world.put_value(old.own().get(cells)?, old.at(Rank(me.0 + 1), 0))?;
        }
        world.sync()?;
        // SAFETY: between two syncs, a rank reads its own old part, whose ghost cells have arrived,
        // and writes its own new part.
        let (from, to) = unsafe { (old.own().as_slice(), new.own().as_mut_slice()) };
        for cell in 1..=cells {
            to[cell] = from[cell] + 0.25 * (from[cell - 1] - 2.0 * from[cell] + from[cell + 1]);
        }
        world.sync()?;
    }
    let mut heat = [rods[steps % 2].own().to_vec()?[1..=cells].iter().sum::<f64>()];
    world.all_reduce(&mut heat, |a, b| a + b)?;
    for rod in rods {
        rod.free(world)?;
    }
    Ok(heat[0])
}

//! A queue of tasks: rank 0 writes them into memory of the last rank, and the others take them.
//!
//! `farside check target/debug/examples/queue --ranks 3` tries every schedule of it. With the
//! argument `hasty` the count of tasks may arrive before the task does: the checker finds that and
//! says what is missing.

use farside::{Error, Rank, Result, World};

/// One for each of the ranks that take them.
fn task(number: u64) -> u64 {
    1000 + number
}

/// Hands all tasks out, one to each of the others. In haste, nothing orders a task and the count
/// that tells of it.
pub(crate) fn hand_out(world: &World, is_hasty: bool) -> Result<()> {
    let home = Rank(world.size() - 1);
    let count = u64::from(home.0);
    let tasks = world.window::<u64>(home.index())?;
    // How many there are, and how many were taken.
    let (written, taken) = (world.words(1)?, world.words(1)?);
    farside::check::begin(world);
    if world.rank() == Rank(0) {
        for number in 0..count {
            // In haste the fence comes ahead of the task, and not behind it.
            if is_hasty {
                world.fence()?;
            }
            world.put_value(task(number), tasks.at(home, number as usize))?;
            if !is_hasty {
                world.fence()?;
            }
            world.signal(written.at(home, 0), number + 1)?;
        }
    } else {
        let mine = world.fetch_add(taken.at(home, 0), 1)?;
        while world.load(written.at(home, 0))? <= mine {
            world.relax()?;
        }
        let found = world.get_value(tasks.at(home, mine as usize))?;
        if found != task(mine) {
            return Err(Error::Program(format!("task {mine} is {found}")));
        }
    }
    Ok(())
}

#[farside::main]
fn main(world: &World) -> Result<()> {
    let is_hasty = std::env::args().nth(1).is_some_and(|word| word == "hasty");
    hand_out(world, is_hasty)
}

//! Ranks exchange greetings through each other's memory.

use farside::{Error, Rank, Result, World};
use farside_fabric::text::counted;

use crate::output::say;

/// The longest greeting.
const LINE: usize = 96;

pub(crate) fn run(world: &World, arguments: &[String]) -> Result<()> {
    check(arguments)?;
    let me = world.rank();
    let right = Rank((me.0 + 1) % world.size());
    let greetings = world.window::<u8>(LINE)?;
    let arrivals = world.words(1)?;

    // Write into the neighbour's memory; it need not do anything for that.
    let text =
        format!("hello, rank {}, this is rank {} (process {})", right.0, me.0, std::process::id());
    world.put(text.as_bytes(), greetings.at(right, 0))?;
    // Count up a word of rank 0, which waits until all have come.
    world.fence()?;
    world.fetch_add(arrivals.at(Rank(0), 0), 1)?;
    world.sync()?;

    if me == Rank(0) {
        let count = world.wait(arrivals.at(me, 0), |count| count == u64::from(world.size()))?;
        say(format_args!(
            "{} on {}: {}",
            counted(count, "rank"),
            world.job().caps.name,
            world.topology().describe()
        ))?;
        for peer in world.ranks() {
            let mut line = [0; LINE];
            world.get(greetings.at(peer, 0), &mut line)?;
            let text = String::from_utf8_lossy(&line);
            say(format_args!("  in the memory of {peer}: {:?}", text.trim_end_matches('\0')))?;
        }
        let total = world.counters().total();
        say(format_args!(
            "rank 0 did {} and moved {}",
            counted(total.operations(), "operation"),
            counted(total.bytes(), "byte")
        ))?;
    }
    world.barrier()?;
    arrivals.free(world)?;
    greetings.free(world)
}

/// Refuses arguments.
pub(crate) fn check(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        Some(argument) => Err(Error::InvalidArgument(format!(
            "hello takes no arguments, and {argument:?} is one"
        ))),
        None => Ok(()),
    }
}

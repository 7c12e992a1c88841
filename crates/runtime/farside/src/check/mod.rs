//! Your own programs, explored: every schedule of a few ranks, and their races.
//!
//! As a test:
//!
//! ```
//! use farside::{Rank, World};
//!
//! #[farside::test(ranks = 3)]
//! fn nobody_draws_the_same_ticket(world: &World) -> farside::Result<()> {
//!     let tickets = world.words(1)?;
//!     farside::check::begin(world); // What comes before is not explored.
//!     let mine = world.fetch_add(tickets.at(Rank(0), 0), 1)?;
//!     assert!(mine < 3);
//!     Ok(())
//! }
//! ```
//!
//! As a function, which tells more:
//!
//! ```
//! use farside::check::{Check, Outcome};
//! use farside::{Rank, World};
//!
//! fn overtaken(world: &World) -> farside::Result<()> {
//!     let (data, flag) = (world.window::<u64>(1)?, world.words(1)?);
//!     farside::check::begin(world);
//!     if world.rank() == Rank(0) {
//!         world.put_value(7, data.at(Rank(1), 0))?;
//!         world.signal(flag.at(Rank(1), 0), 1)?; // May arrive before the data.
//!     } else {
//!         world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
//!         data.own().get(0)?;
//!     }
//!     Ok(())
//! }
//!
//! let finding = Check::new(2).explore(overtaken)?;
//! assert_eq!(finding.outcome, Outcome::Failed);
//! assert!(finding.race.is_some());
//! // A put with a signal instead of the two is enough, and every schedule was tried with it.
//! assert!(finding.cure.unwrap().to_string().contains("put_signal"));
//! # Ok::<(), farside::Error>(())
//! ```
//!
//! `farside check PROGRAM` explores a program whose main function is `#[farside::main]`, and those
//! of a program that lists several with [`main!`]. `docs/checking.md` tells how to read what comes
//! out.

mod describe;
mod explore;
mod quiet;
mod registered;
mod trace;

pub use explore::{Check, Finding, Outcome, begin};
pub use farside_races::{Cure, Means, Race};
pub(crate) use registered::explore_entry;
#[doc(hidden)]
pub use registered::{Registered, run};
pub use trace::describe_trace;

/// Makes the main function of a program that lists others, to be explored by `farside check
/// PROGRAM`: the name of each and its number of ranks.
///
/// ```no_run
/// use farside::World;
///
/// fn meets(world: &World) -> farside::Result<()> {
///     world.barrier()
/// }
///
/// fn alone(world: &World) {
///     assert_eq!(world.size(), 1);
/// }
///
/// farside::check::main! { meets: 3, alone: 1 }
/// ```
#[doc(inline)]
pub use crate::__check_main as main;

#[doc(hidden)]
#[macro_export]
macro_rules! __check_main {
    ($($program:ident: $ranks:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::check::run(vec![
                $($crate::check::Registered::new(stringify!($program), $ranks, $program)),+
            ])
        }
    };
}

//! Windows with epochs: what MPI programs know as one-sided communication, with targets that need
//! not help.
//!
//! A [`Window`] is memory with a part on every member of a team. Operations on it are done in
//! *epochs*, and are complete when their epoch ends:
//!
//! - *passive*, without any call of the target: [`Window::lock`] and [`Window::unlock`] of one
//!   target, [`Window::lock_all`], [`Window::flush`];
//! - *active*: [`Window::fence`] by all members; [`Window::post`], [`Window::start`],
//!   [`Window::complete`] and [`Window::wait`] among groups.
//!
//! ```
//! use farside::epoch::{Mode, Options, Window};
//! use farside::Rank;
//!
//! farside::local(4, |world| {
//!     let window = Window::allocate(world, 1 << 20, Options::new().unit(8))?;
//!     let right = Rank((world.rank().0 + 1) % world.size());
//!     window.lock(right, Mode::Exclusive)?;
//!     window.put(&[f64::from(world.rank().0); 100], right, 0)?;
//!     let computed: u64 = (1..=1000).sum(); // … while the data is on its way
//!     window.unlock(right)?;
//!     window.barrier()?;
//!     let mut first = [0.0];
//!     window.read_own(0, &mut first)?;
//!     assert_eq!(first[0], f64::from((world.rank().0 + 3) % 4));
//!     # let _ = computed;
//!     window.free()
//! })
//! .unwrap();
//! ```
//!
//! The [`Design`] of a window determines how its passive epochs work. In all designs the loss of a
//! member is an error for every rank that waits for it, or asks for a lock afterwards. The rules of
//! epochs are checked, unless [`Options::checking`] says otherwise: a call that breaks one returns
//! an error that names it ([`Fault`]).
//!
//! A table from MPI's names to these is in `docs/epochs.md`.
//!
//! This crate knows no fabric, no thread, no socket and no clock. The source that runs in
//! production is the source that the simulator explores, where known-wrong variants of it leave out
//! one of its steps.

#![forbid(unsafe_code)]

mod active;
mod answer;
mod backoff;
mod direct;
mod epoch_state;
mod fault;
mod lock_agent;
mod message;
mod mode;
mod published;
#[doc(hidden)]
pub mod steps;
mod two_sided;
mod window;

pub use epoch_state::{LOCKED, STARTED};
pub use fault::Fault;
pub use lock_agent::LockAgent;
pub use mode::Mode;
pub use window::{Design, Fetched, Get, MESSAGE_BYTES, Op, Options, Put, Request, Window};

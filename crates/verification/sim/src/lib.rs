//! The sim fabric: ranks are fibers of one thread, and an oracle picks what happens next.
//!
//! Nothing here knows a protocol. A rank runs until it has to wait; every operation that it starts
//! is then *in flight*, and lands when the oracle says so, in any order that the memory model
//! allows. Waiting for a word is an event, too: a waiter looks at its word at a moment of the
//! oracle's choice, so it may miss a value that was there for a while. A deadlock is exact: no rank
//! can run, and nothing is in flight.
//!
//! - [`Timed`]: runs a program in virtual time, on a machine as a [`Profile`] describes it;
//! - [`Simulation`]: runs a program once, with an [`Oracle`]; ranks may die in it, and long
//!   transfers tear;
//! - [`explore`]: policies over the oracle: every schedule that differs (with partial-order
//!   reduction), random ones, one given again.
//!
//! Lost messages need no event of their own: below the waist they are sent again, which is to say
//! that they are late, and that is what the order of landing covers. Not modelled are threads of a
//! rank (a fiber has one); [`explore::NOT_COVERED`] says what else is not. Memory that is lent to a
//! program as a slice or a pointer cannot be followed: a [`Report`](explore::Report) says so.

mod bits;
mod body;
mod choices;
mod deadlock;
mod death;
mod departure;
mod engine;
mod event;
mod execution;
pub mod explore;
mod fiber;
mod fibers;
mod flight;
mod landing;
mod late;
mod load;
mod machine;
mod maps;
mod member;
mod memory;
mod news;
mod parked_wait;
mod polling;
mod port;
mod prefetch;
pub mod profile;
mod run;
mod settle;
mod sleep;
mod stack;
mod step;
mod store;
mod tearing;
mod time_out;
mod timed;
mod unordered;

pub use bits::Bits;
pub use event::{Access, Event, EventId, Unseen, What};
pub use fibers::{Program, Start};
pub use profile::Profile;
pub use run::{Oracle, Run, Simulation, Verdict};
pub use step::Step;
pub use timed::{Resent, Timed, Timing};

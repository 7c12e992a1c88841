//! The waist of farside: what every fabric offers and every protocol stands on.
//!
//! A *fabric* moves bytes between ranks. This crate says what that means and nothing more:
//!
//! - [`address`]: ranks, nodes, segments, words, regions and links;
//! - [`operation`]: the atomics and sums as plain data, each with its reference meaning;
//! - [`waist`]: the [`Fabric`] trait, the one way to wait, tickets, capabilities;
//! - [`memory`]: operations on memory that is mapped here, the same for every fabric;
//! - [`departure`]: who has departed, in which order, and because of whom;
//! - [`topology`]: who shares what with whom, in any number of levels;
//! - [`observed`]: a decorator over any fabric, with [`counting`] and [`tracing`] as its observers;
//! - [`Error`]: the one error type.
//!
//! It depends on nothing else of farside, knows no protocol, and makes no system call.

pub mod address;
pub mod counting;
pub mod departure;
pub mod digest;
pub mod error;
pub mod memory;
pub mod observed;
pub mod operation;
pub mod random;
pub mod topology;
pub mod tracing;
pub mod waist;

pub use address::{Link, Node, Piece, Rank, Region, SegmentId, Shape, Word};
pub use departure::{Departure, Loss, first_cause, first_loss};
pub use error::{Error, ExitCause, Result};
pub use memory::Mapped;
pub use observed::{Kind, Observed, Observer, Operation};
pub use operation::{Atomic, Number, Sum, Width};
pub use topology::Topology;
pub use waist::{
    Agent, Caps, Condition, Effort, Event, Fabric, FailureCounters, Handler, HandlerId, Ordering,
    PeerState, Reply, Started, Ticket, Wait, Wake,
};

//! The waist of farside: what every fabric offers and every protocol stands on.
//!
//! A *fabric* moves bytes between ranks. This crate says what that means and nothing more:
//!
//! - [`waist`]: the [`Fabric`] trait that the author of a fabric writes;
//! - [`connection`]: the [`Connection`] trait that all layers above use, and wrappers implement;
//!   the one way to wait, handlers, and the extensions [`Landings`] and [`Clock`];
//! - [`job`]: a rank's [`JobView`]: topology, capabilities, the state of its peers;
//! - [`caps`]: what a fabric says of itself;
//! - [`names`], [`address`]: ranks, nodes and segments; words, regions and links;
//! - [`strided`]: the walk over a strided block;
//! - [`operation`], [`number`], [`accumulate`]: operations as plain data, atomics and accumulates
//!   each with its reference meaning;
//! - [`memory`]: operations on memory that is mapped here, the same for every fabric;
//! - [`departure`]: which ranks have departed, in which order, and by which cause;
//! - [`topology`]: which levels (node, socket, …) ranks share, in any number;
//! - [`record`]: what a rank does now, in memory that viewers read while it runs;
//! - [`observed`]: a decorator over any connection, with [`counting`] and [`tracing`] as its
//!   probes;
//! - [`probe`]: what a connection that checks for races or explores schedules is told;
//! - [`text`]: numbers in messages; [`lock`]: mutexes;
//! - [`Error`]: the one error type.
//!
//! It depends on nothing else of farside, knows no protocol, and makes no system call.

pub mod accumulate;
pub mod address;
pub mod caps;
pub mod connection;
pub mod counting;
pub mod departure;
pub mod digest;
pub mod error;
pub mod job;
pub mod lock;
pub mod memory;
pub mod names;
pub mod number;
pub mod observed;
pub mod omitting;
pub mod operation;
pub mod probe;
pub mod random;
pub mod record;
pub mod strided;
pub mod text;
pub mod topology;
pub mod tracing;
pub mod waist;

pub use accumulate::Accumulate;
pub use address::{Link, Piece, Region, Shape, Word};
pub use caps::{Caps, Ordering};
pub use connection::{
    Agent, Clock, Condition, Connection, Event, Handler, HandlerId, Landings, Wait, Wake,
};
pub use departure::{Departure, Loss, PeerState, first_cause};
pub use error::{Error, ErrorClass, ExitCause, Fault, LayerError, Result};
pub use job::{FailureCounters, Failures, JobState, JobView, Roster};
pub use memory::{Contender, Mapped};
pub use names::{Node, Rank, SegmentId};
pub use number::{Number, Op};
pub use observed::Observed;
pub use operation::{Atomic, Hint, OldValue, Reply, Started, Ticket, Width};
pub use probe::{
    Atomicity, CarriedOut, Foreign, Kind, Operation, OwnAccess, OwnPlace, Probe, ProbeEvent, Reuse,
    Step, is_private, private_place,
};
pub use record::Effort;
pub use topology::Topology;
pub use waist::Fabric;

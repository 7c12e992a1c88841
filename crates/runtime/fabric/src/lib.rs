//! The waist of farside: what every fabric offers and every protocol stands on.
//!
//! A *fabric* moves bytes between ranks. This crate says what that means and nothing more:
//!
//! - [`waist`]: the [`Fabric`] trait that the author of a fabric writes, the one way to wait,
//!   tickets, capabilities, and the extensions [`Landings`] and [`Clock`];
//! - [`connection`]: the [`Connection`] trait that all layers above use, and wrappers implement;
//! - [`job`]: a rank's [`JobView`]: topology, capabilities, the state of its peers;
//! - [`address`]: ranks, nodes, segments, words, regions and links;
//! - [`strided`]: the walk over a strided block;
//! - [`operation`], [`accumulate`]: atomics and accumulates as plain data, each with its reference
//!   meaning;
//! - [`memory`]: operations on memory that is mapped here, the same for every fabric;
//! - [`departure`]: which ranks have departed, in which order, and by which cause;
//! - [`topology`]: which levels (node, socket, …) ranks share, in any number;
//! - [`record`]: what a rank does now, in memory that viewers read while it runs;
//! - [`observed`]: a decorator over any connection, with [`counting`] and [`tracing`] as its
//!   probes;
//! - [`probe`]: what a connection that checks for races or explores schedules is told;
//! - [`text`]: numbers in messages;
//! - [`Error`]: the one error type.
//!
//! It depends on nothing else of farside, knows no protocol, and makes no system call.

pub mod accumulate;
pub mod address;
pub mod connection;
pub mod counting;
pub mod departure;
pub mod digest;
pub mod error;
pub mod job;
pub mod memory;
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

pub use accumulate::{Accumulate, Number, Op};
pub use address::{Link, Node, Piece, Rank, Region, SegmentId, Shape, Word};
pub use connection::Connection;
pub use departure::{Departure, Loss, first_cause};
pub use error::{Error, ErrorClass, ExitCause, Fault, LayerError, Result};
pub use job::{Effort, FailureCounters, Failures, JobState, JobView, PeerState, Roster};
pub use memory::{Contender, Mapped, watch_bits};
pub use observed::{Kind, Observed, Operation};
pub use operation::{Atomic, Width};
pub use probe::{
    Atomicity, CarriedOut, Foreign, OwnAccess, OwnPlace, Probe, ProbeEvent, Reuse, Step,
    is_private, private_place,
};
pub use topology::Topology;
pub use waist::{
    Agent, Caps, Clock, Condition, Event, Fabric, Handler, HandlerId, Hint, Landings, OldValue,
    Ordering, Reply, Started, Ticket, Wait, Wake,
};

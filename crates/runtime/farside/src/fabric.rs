//! What lies below [`World`](crate::World) and [`Context`](crate::Context): addresses, operations
//! as data, and the connection to a fabric.
//!
//! Most programs need none of it. It is here for handlers, whose [`Agent`](crate::Agent) deals in
//! addresses; for programs that put something between themselves and a fabric, as [`counting`] and
//! [`tracing`] do; and for tests of costs. The author of a fabric uses the crate `farside-fabric`
//! itself (`docs/adding-a-fabric.md` of the repository).
//!
//! | for | |
//! | --- | --- |
//! | addresses | [`SegmentId`], [`Region`], [`Word`], [`Width`] |
//! | operations as data | [`Atomic`], [`OldValue`] |
//! | the connection to a job | [`Connection`], [`connect`] |
//! | what a rank knows of the others | [`JobView`], [`Departure`], [`Loss`], [`Failures`] |
//! | memory that loads and stores reach | [`Mapped`] |
//! | errors of a layer above | [`Fault`] |
//! | messages as people read them | [`text`] |
//! | every operation, seen | [`observed`], [`counting`], [`tracing`] |
//! | what a wait tells of itself | [`Purpose`], [`Doing`], [`ActivityKind`] |
//! | where a program is | [`Place`], [`PlaceFinder`] |
//! | what a probe hears | [`Probe`], [`ProbeEvent`], [`OwnAccess`] |
//! | what it asks an exploration for | [`CarriedOut`] |

pub use farside_fabric::record::{ActivityKind, Place};
pub use farside_fabric::{
    Atomic, Atomicity, CarriedOut, Connection, Departure, Failures, Fault, Foreign, JobView, Loss,
    Mapped, OldValue, OwnAccess, OwnPlace, Probe, ProbeEvent, Region, Reuse, SegmentId, Width,
    Word, counting, observed, private_place, text, tracing,
};
pub use farside_job::connect;
pub use farside_rma::{Doing, PlaceFinder, Purpose};

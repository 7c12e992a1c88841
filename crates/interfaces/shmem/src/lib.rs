//! OpenSHMEM 1.5: the untyped core, which the C sources of this crate give its types.
//!
//! A PE is a rank. Symmetric objects lie in *regions* (`region.rs`): static data, whose pages are
//! replaced by pages of the job's memory when the library starts (`statics.rs`), and the chunks of
//! the symmetric heap (`heap.rs`). An address of this PE is translated to a region and an offset,
//! which mean the same object on every PE.
//!
//! Programs have no way to handle errors: what is wrong ends the job with a message (`exit.rs`).

#![allow(clippy::missing_safety_doc, reason = "the specification says what callers promise")]

mod allocation;
mod atomic;
mod collective;
mod context;
mod environment;
mod exit;
mod heap;
mod lock;
mod races;
mod region;
mod runtime;
mod seen;
mod set;
mod start;
mod statics;
mod strands;
mod strided;
mod team;
mod transfer;
mod wait;

//! MPI's one-sided communication over farside, for MPI programs as they are shipped.
//!
//! A library that is loaded before MPI's takes over the one-sided calls and leaves all others to
//! the MPI that is there. It has two halves. The border (`c/`) is compiled once for each MPI, with
//! that MPI's header: it knows handles, datatypes, error handlers and attributes. This half knows
//! nothing of MPI: it has windows whose parts are memory of the job or any memory of a process, the
//! operations on them, and their epochs, which are those of [`farside::epoch`].
//!
//! Programs use the functions of `c/core.h` through the border only.

#![allow(clippy::missing_safety_doc, reason = "`c/core.h` says what the border promises")]

mod accumulate;
mod combination;
mod foreign;
mod gets;
mod heap;
mod layout;
mod memory;
mod part;
mod runtime;
mod service;
mod start;
mod status;
mod synchronization;
mod team;
mod transfer;
mod window;

//! The C interface of farside: `include/farside.h` is generated from these files.
//!
//! - [`status`]: error codes, the text of the last error, and the guard that no panic crosses;
//! - `handle`: the tables that turn the numbers which C holds into what they stand for;
//! - one file for each family of functions.
//!
//! # Safety
//!
//! What every function asks of its caller, beyond what its own text says: pointers are null or
//! point to memory of the type and length that the call names, for as long as the call takes (a
//! request: until it is complete); a context, and what was made from it, is used by one thread at
//! a time; and nothing is freed while another thread uses it. What can be checked is checked: null
//! pointers, handles that were freed or never given out, lengths that no memory has.

#![allow(non_camel_case_types, reason = "types are named as C names them")]
#![allow(clippy::missing_safety_doc, reason = "the crate's page says it once for all")]

pub mod atomic;
pub mod call;
pub mod collective;
pub mod epoch;
pub mod job;
pub mod lock;
pub mod number;
pub mod request;
pub mod status;
pub mod team;
pub mod transfer;
pub mod wait;
pub mod window;

//! libfabric, made safe: its declarations, and types that call it.
//!
//! - `abi`: structures and constants of the headers; `layout` tests them against those;
//! - `library`: the functions that the library exports;
//! - `info`: what providers offer;
//! - `operation`: what an operation is given, and what it gives back;
//! - `objects`: domains, endpoints, queues: the one file that calls through tables of functions.
//!
//! What stays unsafe is to start an operation: its memory and its context must outlive it.

pub(crate) mod abi;
mod info;
#[cfg(test)]
mod layout;
mod library;
mod objects;
mod operation;

pub(crate) use abi::Peer;
pub(crate) use info::{Info, InfoList, Wanted};
pub(crate) use library::Library;
pub(crate) use objects::{Domain, Endpoint, MemoryRegion};
pub(crate) use operation::{AtomicCall, Completion, Context, LocalBytes, Posted, RemoteBytes};

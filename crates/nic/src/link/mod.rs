//! Reliability of one connection, without a socket and without a clock: both are the caller's.
//!
//! A connection goes from a port to a server. The [`Sender`] numbers requests, keeps each until it
//! needs it no more, and says which are overdue; the [`Receiver`] says of each request whether it
//! is to be executed now, later, again or not at all.
//!
//! A request is closed when it was executed *and*, if it wants an answer, answered: the reply
//! doubles as acknowledgement. The receiver keeps the answers of the last [`WINDOW`] requests, so
//! that a repeated request is answered and not executed again. That is sound because the sender
//! never has a request under way that is [`WINDOW`] or more ahead of the oldest that is still open:
//! when request `n` arrives, all up to `n - WINDOW` are closed, and nobody will ever repeat them.

pub(crate) mod buffer;
mod receiver;
mod sender;
pub(crate) mod variant;

pub(crate) use receiver::{Receiver, Verdict};
pub(crate) use sender::Sender;

/// How many requests of a connection may be open at a time.
pub(crate) const WINDOW: u64 = 64;

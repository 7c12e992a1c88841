//! Reliability of one connection, without socket and clock: datagrams and times are arguments.
//!
//! Paper:     \[NIC02 section III-A\] (send records, sequence numbers, retransmission) and
//!            \[NIC02 section III-B\] (the reply acknowledges; the table of return values).
//! Differs:   a connection joins a port and a server, not two interfaces; packets ahead of their
//!            turn are kept and acknowledged one by one; the window adapts to losses.
//! Invariant: each request is executed once, in the order of the numbers, and answered until the
//!            sender has the answer.
//! Checked:   `crate::torture`: every behaviour of a window of two, 17 wrong variants, random
//!            losses.
//!
//! A request is closed when it has been executed *and*, if it wants an answer, answered. The
//! receiver keeps the answers of the last [`WINDOW`] requests, so that a repeated request is
//! answered and not executed again. What carries a request, a datagram or a stream, makes no
//! difference to that: a stream that breaks has lost some requests, and may have lost replies. The
//! sender never has a request under way that is [`WINDOW`] or more ahead of the oldest open one, so
//! when request `n` arrives, all up to `n - WINDOW` are closed and are never repeated: the table is
//! long enough.

pub(crate) mod buffer;
mod receiver;
mod sender;
pub(crate) mod variant;

pub(crate) use receiver::{Receiver, Verdict};
pub(crate) use sender::{Acknowledgement, Sender, Sent};

/// The number of requests of a connection that may be open at a time: the limit on unacknowledged
/// operations that makes the table of return values sound \[NIC02 section III-B\].
pub(crate) const WINDOW: u64 = 64;

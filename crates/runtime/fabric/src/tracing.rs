//! A probe that records what every rank did and when.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::connection::Connection;
use crate::lock::lock;
use crate::names::{Node, Rank};
use crate::observed::Observed;
use crate::probe::{Operation, Probe, ProbeEvent};
use crate::topology::Topology;

/// One operation in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The rank that called it.
    pub rank: Rank,
    /// The operation.
    pub operation: Operation,
    /// When it began.
    pub begin_ns: u64,
    /// When it returned; [`Slice::NOT_OVER`] if it had not by the end of the recording.
    pub end_ns: u64,
    /// When it took effect at the target, where that is known.
    pub landed_ns: Option<u64>,
}

impl Slice {
    /// The end of an operation that has not returned.
    pub const NOT_OVER: u64 = u64::MAX;
}

/// A thread that executes operations for ranks which have asked for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Server {
    /// The agent of a node, which plays its network interface: it executes what ranks of other
    /// nodes ask for.
    Agent(Node),
    /// The thread that runs a node's handlers.
    Handlers(Node),
    /// The thread of a rank's own process that executes far operations on its memory, where
    /// processes do that instead of agents.
    Host(Rank),
}

impl Server {
    /// Returns the node that it is on.
    pub fn node(self, topology: &Topology) -> Node {
        match self {
            Server::Agent(node) | Server::Handlers(node) => node,
            Server::Host(rank) => topology.node_of(rank),
        }
    }

    /// Returns whether a job with this topology can have it.
    pub fn is_of(self, topology: &Topology) -> bool {
        match self {
            Server::Agent(node) | Server::Handlers(node) => node.0 < topology.nodes(),
            Server::Host(rank) => rank.0 < topology.ranks(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Agent(node) => write!(f, "agent of {node}"),
            Server::Handlers(node) => write!(f, "handlers of {node}"),
            Server::Host(rank) => write!(f, "server of {rank}"),
        }
    }
}

/// An operation as the thread saw it that executed it for another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The thread.
    pub server: Server,
    /// The operation, or the part of it that one message asks for. Its peer is the rank that asked.
    pub operation: Operation,
    /// The rank on whose memory it was executed, if on one's.
    pub target: Option<Rank>,
    /// When it began.
    pub begin_ns: u64,
    /// When it was done; [`Slice::NOT_OVER`] if it was not by the end of the recording.
    pub end_ns: u64,
}

/// A recording. Clones share it.
#[derive(Clone)]
pub struct Trace {
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    slices: Arc<Mutex<Vec<Slice>>>,
}

impl Trace {
    /// An empty recording; `clock` tells the time in nanoseconds from any beginning.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Trace {
        Trace { clock: Arc::new(clock), slices: Arc::default() }
    }

    /// Records what goes through `connection`.
    pub fn over(&self, connection: Box<dyn Connection>) -> Box<dyn Connection> {
        Box::new(Observed::new(connection, Arc::new(self.clone())))
    }

    /// Returns the recording so far, in the order in which operations returned, and starts anew.
    pub fn take(&self) -> Vec<Slice> {
        std::mem::take(&mut *lock(&self.slices))
    }
}

impl Probe for Trace {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Begin { .. } => Some((self.clock)()),
            ProbeEvent::End { rank, operation: &operation, begun: begin_ns } => {
                let end_ns = (self.clock)();
                // Only a fabric could tell when an operation lands; above it one sees it return.
                let slice = Slice { rank, operation, begin_ns, end_ns, landed_ns: None };
                lock(&self.slices).push(slice);
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Kind;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_slice_has_a_beginning_and_an_end() {
        let now = AtomicU64::new(0);
        let trace = Trace::new(move || now.fetch_add(5, Ordering::Relaxed));
        let operation = Operation { kind: Kind::Get, peer: Some(Rank(1)), bytes: 8 };
        let rank = Rank(0);
        let begun = trace.event(ProbeEvent::Begin { rank, operation: &operation });
        let begun = begun.expect("a trace notes the time");
        trace.event(ProbeEvent::End { rank, operation: &operation, begun });
        assert_eq!(
            trace.take(),
            [Slice { rank: Rank(0), operation, begin_ns: 0, end_ns: 5, landed_ns: None }]
        );
        assert_eq!(trace.take(), []);
    }
}

//! The recorder of what a server executes: for whom, on whose memory, how many bytes, and when.
//!
//! A server of a job that is not recorded has one that does nothing.

use std::sync::Arc;

use farside_fabric::Rank;
use farside_fabric::observed::{Kind, Operation};
use farside_fabric::record::RingProbe;
use farside_fabric::tracing::Server;
use farside_shm::Job;

use crate::clock::now_ns;
use crate::wire::PortId;
use crate::wire::request::Request;

#[derive(Clone, Default)]
pub(crate) struct Recorder {
    ring: Option<RingProbe>,
}

impl Recorder {
    /// The recorder of a server of a job, in the job's memory.
    pub(crate) fn new(job: &Arc<Job>, server: Server) -> Recorder {
        let ring = job.service_ring(server);
        Recorder { ring: ring.map(|ring| RingProbe { ring, now_ns }) }
    }

    /// Notes that a request begins to be executed that has come from `port`, if it is one on memory
    /// or a call.
    #[inline]
    pub(crate) fn begin(&self, port: PortId, request: &Request<'_>) -> Option<u64> {
        let ring = self.ring.as_ref()?;
        let (kind, target, bytes) = described(request)?;
        Some(ring.serve(&Operation { kind, peer: port.rank(), bytes }, target))
    }

    /// Notes that it was executed.
    #[inline]
    pub(crate) fn end(&self, begun: Option<u64>) {
        if let (Some(ring), Some(begun)) = (&self.ring, begun) {
            ring.served(begun);
        }
    }
}

/// Returns the kind of a request, the rank whose memory it is on, and the number of its bytes.
fn described(request: &Request<'_>) -> Option<(Kind, Option<Rank>, u64)> {
    match *request {
        Request::Put { to, data, .. } => Some((Kind::Put, Some(to.rank), data.len() as u64)),
        Request::Get { from, .. } => Some((Kind::Get, Some(from.rank), from.bytes())),
        Request::Accumulate { to, .. } | Request::GetAccumulate { to, .. } => {
            Some((Kind::Accumulate, Some(to.rank), to.bytes()))
        }
        Request::Atomic { at, .. } => Some((Kind::Atomic, Some(at.rank), at.width.bytes())),
        Request::Post { at, .. } => Some((Kind::Post, Some(at.rank), at.width.bytes())),
        Request::Call { argument, .. } => Some((Kind::Call, None, argument.len() as u64)),
        _ => None,
    }
}

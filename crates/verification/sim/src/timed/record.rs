//! The records of a run in virtual time: counts, a hash, a trace.

use farside_fabric::tracing::Slice;
use farside_fabric::{Operation, Rank};

use super::event_engine::EventEngine;
use super::flight::{Flight, Role};

impl EventEngine {
    /// Counts an operation that was carried out, and writes it down if that is wanted.
    pub(super) fn record(&mut self, flight: &Flight, done_ns: u64, back_ns: u64, bytes_back: u64) {
        let bytes = flight.body.bytes() + bytes_back;
        let counted = &mut self.counted;
        counted.operations += 1;
        counted.bytes += bytes;
        let kind = flight.body.kind(flight.role == Role::Fetching);
        for value in [done_ns, flight.id.rank.0.into(), flight.target.0.into(), kind as u64, bytes]
        {
            counted.hash =
                (counted.hash.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
        }
        if let Some(slices) = &mut self.slices {
            let end_ns = if flight.role == Role::Fetching {
                back_ns
            } else {
                done_ns.min(flight.sent_ns + 1)
            };
            slices.push(Slice {
                rank: flight.id.rank,
                operation: Operation { kind, peer: Some(flight.target), bytes },
                begin_ns: flight.sent_ns,
                end_ns,
                landed_ns: Some(done_ns),
            });
        }
    }

    /// Writes down a wait that is over, if that is wanted.
    pub(super) fn record_wait(&mut self, rank: u32, at_ns: u64) {
        if let Some(slices) = &mut self.slices
            && let (begin_ns, Some(kind)) = self.paused[rank as usize]
            && at_ns > begin_ns
        {
            let operation = Operation { kind, peer: Some(Rank(rank)), bytes: 0 };
            slices.push(Slice {
                rank: Rank(rank),
                operation,
                begin_ns,
                end_ns: at_ns,
                landed_ns: None,
            });
        }
    }
}

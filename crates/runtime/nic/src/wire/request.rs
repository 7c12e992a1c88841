//! Operations in the body of a request.
//!
//! A region of any shape is fragmented into [`Rows`] before it is sent: rows of equal length at
//! equal distance, of which one contiguous run is the simplest case. So the server has four numbers
//! to check before it touches memory.

mod decode;
mod encode;

use farside_fabric::{Accumulate, Atomic, Loss, PeerState, Rank, SegmentId, Word};

use super::answer;

pub(crate) use decode::Requests;
pub(crate) use encode::encode;

/// The most bytes that an operation takes beside its data.
pub(crate) const OVERHEAD_MAX: usize = 80;

/// Rows of a segment: a strided block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rank: Rank,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    /// The length of a row.
    pub(crate) unit: u32,
    pub(crate) count: u32,
    /// The distance between the beginnings of two rows.
    pub(crate) stride: u64,
}

impl Rows {
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.unit) * u64::from(self.count)
    }
}

impl Request<'_> {
    pub(crate) fn answer_bytes_max(&self) -> u64 {
        match self {
            Request::Get { from: rows, .. } | Request::GetAccumulate { to: rows, .. } => {
                rows.bytes().saturating_add(answer::OVERHEAD_MAX as u64)
            }
            Request::Atomic { .. } | Request::Where { .. } | Request::Segment { .. } => {
                answer::OVERHEAD_MAX as u64
            }
            _ => 0,
        }
    }
}

/// One operation. A `tag` matches the answer with it, as in \[NIC02 section III-B\]; `counts` says
/// that it is counted as a landing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Request<'a> {
    Put {
        to: Rows,
        data: &'a [u8],
        counts: bool,
    },
    Get {
        tag: u32,
        from: Rows,
    },
    /// An accumulate whose old elements are not wanted, and which is no no-op.
    Accumulate {
        to: Rows,
        accumulate: Accumulate,
        data: &'a [u8],
        counts: bool,
    },
    /// An accumulate whose old elements are the answer. A no-op has no data.
    GetAccumulate {
        tag: u32,
        to: Rows,
        accumulate: Accumulate,
        data: &'a [u8],
    },
    Atomic {
        tag: u32,
        at: Word,
        op: Atomic,
    },
    Post {
        at: Word,
        op: Atomic,
        counts: bool,
    },
    /// Runs a handler for slot `slot` of the caller; the answer is sent when it is done.
    Call {
        slot: u32,
        handler: u32,
        argument: &'a [u8],
    },
    /// Asks again for the answer of a call.
    Recall {
        slot: u32,
    },
    /// A rank of the sender's node has joined, has left or is lost, caused by this loss.
    Member {
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    },
    /// Asks for the port, at this node's address, of a rank's host-based server.
    Where {
        tag: u32,
        rank: Rank,
    },
    /// Does nothing and is acknowledged.
    Ping,
    /// Gives the address for replies, on transports whose addresses do not fit into a header. It is
    /// the first operation of a connection.
    From {
        address: &'a [u8],
    },
    /// Asks about a segment that direct operations may reach, or ends that.
    Segment {
        tag: u32,
        rank: Rank,
        segment: SegmentId,
        about: About,
    },
    /// A direct operation has changed a word: wakes the ranks that wait for it.
    Changed {
        at: Word,
    },
    /// So many counted direct operations have landed.
    Landed {
        count: u32,
    },
}

/// What a [`Request::Segment`] asks or tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum About {
    /// Asks for its remote key, which registers it if it is not yet registered.
    Key,
    Length,
    /// Deregisters it.
    End,
}

const PUT: u8 = 1;
const PUT_ROWS: u8 = 2;
const GET: u8 = 3;
const GET_ROWS: u8 = 4;
const ACCUMULATE: u8 = 5;
const ATOMIC: u8 = 6;
const POST: u8 = 7;
const CALL: u8 = 8;
const RECALL: u8 = 9;
const MEMBER: u8 = 10;
const WHERE: u8 = 11;
const PING: u8 = 12;
const FROM: u8 = 13;
const SEGMENT: u8 = 14;
const CHANGED: u8 = 15;
const LANDED: u8 = 16;
const GET_ACCUMULATE: u8 = 17;
/// Set in the kind of an operation that counts.
const COUNTS: u8 = 0x80;
/// Set in the operation of an accumulate that has an operand.
const WITH_OPERAND: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::super::Refused;
    use super::*;
    use farside_fabric::{ExitCause, Number, Op, Width};
    use proptest::prelude::*;

    fn all(data: &[u8]) -> Vec<Request<'_>> {
        let run = Rows {
            rank: Rank(3),
            segment: SegmentId(1 << 40),
            offset: 77,
            unit: data.len() as u32,
            count: 1,
            stride: 0,
        };
        let rows = Rows { unit: data.len() as u32 / 2, count: 2, stride: 1 << 33, ..run };
        let scaled = Accumulate::scaled_sum(Number::C64, [9; 16]).unwrap();
        let or = Accumulate::new(Number::U8, Op::LogicalOr).unwrap();
        let nothing = Accumulate::new(Number::F64Index, Op::NoOp).unwrap();
        let wide = Word { rank: Rank(1), segment: SegmentId(2), offset: 64, width: Width::W64 };
        let pair = Word { width: Width::Pair, ..wide };
        vec![
            Request::Put { to: run, data, counts: true },
            Request::Put { to: rows, data, counts: false },
            Request::Get { tag: 5, from: run },
            Request::Get { tag: 6, from: rows },
            Request::Accumulate { to: rows, accumulate: scaled, data, counts: true },
            Request::Accumulate { to: run, accumulate: or, data, counts: false },
            Request::GetAccumulate { tag: 9, to: rows, accumulate: scaled, data },
            Request::GetAccumulate { tag: 10, to: run, accumulate: nothing, data: &[] },
            Request::Atomic {
                tag: 7,
                at: wide,
                op: Atomic::CompareSwap { expected: 1, desired: 2 },
            },
            Request::Atomic { tag: 8, at: pair, op: Atomic::Swap(u128::MAX) },
            Request::Post {
                at: Word { width: Width::W32, ..wide },
                op: Atomic::Add(3),
                counts: true,
            },
            Request::Call { slot: 3, handler: 4, argument: data },
            Request::Recall { slot: 3 },
            Request::Member {
                rank: Rank(9),
                peer_state: PeerState::Lost(ExitCause::Signal(9)),
                cause: None,
            },
            Request::Member {
                rank: Rank(9),
                peer_state: PeerState::Left,
                cause: Some(Loss { rank: Rank(3), how: ExitCause::Silent }),
            },
            Request::Where { tag: 1, rank: Rank(2) },
            Request::Ping,
            Request::Changed { at: wide },
            Request::Landed { count: 77 },
        ]
    }

    #[test]
    fn operations_survive_the_wire() {
        let data = [1, 2, 3, 4, 5, 6];
        let requests = all(&data);
        let mut body = Vec::new();
        for request in &requests {
            let before = body.len();
            encode(request, &mut body);
            assert!(body.len() - before <= OVERHEAD_MAX + data.len(), "{request:?}");
        }
        let read: Vec<_> = Requests::new(&body).map(Result::unwrap).collect();
        assert_eq!(read, requests);
    }

    #[test]
    fn a_body_that_was_cut_is_malformed() {
        let data = [1, 2, 3, 4];
        for request in all(&data) {
            let mut body = Vec::new();
            encode(&request, &mut body);
            for length in 1..body.len() {
                let read: Vec<_> = Requests::new(&body[..length]).collect();
                assert_eq!(read, [Err(Refused::Malformed)], "{request:?} cut to {length}");
            }
        }
    }

    #[test]
    fn accumulates_that_do_not_exist_are_malformed() {
        let data = [0; 16];
        let to =
            Rows { rank: Rank(3), segment: SegmentId(1), offset: 0, unit: 16, count: 1, stride: 0 };
        let known = Accumulate::new(Number::F64, Op::Sum).unwrap();
        for (fetches, at) in [(false, 1), (true, 5)] {
            let mut good = Vec::new();
            encode(
                &if fetches {
                    Request::GetAccumulate { tag: 1, to, accumulate: known, data: &data }
                } else {
                    Request::Accumulate { to, accumulate: known, data: &data, counts: false }
                },
                &mut good,
            );
            for (number, op) in (0..=255).flat_map(|number| (0..=20).map(move |op| (number, op))) {
                let mut body = good.clone();
                body[at] = number;
                body[at + 1] = op;
                let exists = Number::from_code(number).zip(Op::from_code(op));
                let exists = exists.is_some_and(|(number, op)| op.is_defined_for(number));
                let is_no_op = op == Op::NoOp.code();
                if is_no_op {
                    let data_at = body.len() - data.len();
                    body.truncate(data_at);
                }
                let read: Vec<_> = Requests::new(&body).collect();
                let is_read = read.len() == 1 && read[0].is_ok();
                assert_eq!(is_read, exists && (fetches || !is_no_op), "{number} {op}: {read:?}");
            }
            // Only sums and replacements have an operand.
            good[at + 1] = Op::Max.code() | WITH_OPERAND;
            good.extend_from_slice(&[0; 16]);
            assert!(Requests::new(&good).any(|request| request.is_err()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let read = Requests::new(&body).count();
            prop_assert!(read <= body.len());
        }
    }
}

//! Operations in the body of a request.
//!
//! A region of any shape is cut into [`Rows`] before it is sent: rows of equal length at equal
//! distance, of which one contiguous run is the simplest case. So the server's part stays small:
//! what it must check before it touches memory is four numbers.

use farside_fabric::{Atomic, Loss, Number, PeerState, Rank, SegmentId, Sum, Width, Word};

use super::{Reader, Refused, answer};

/// The longest name of an operation: what comes before its data.
pub(crate) const OVERHEAD_MAX: usize = 80;

/// Where rows of a segment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) rank: Rank,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    /// How long a row is.
    pub(crate) unit: u32,
    pub(crate) count: u32,
    /// How far apart rows begin.
    pub(crate) stride: u64,
}

impl Rows {
    /// How many bytes they have together.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.unit) * u64::from(self.count)
    }
}

impl Request<'_> {
    /// The most that its answer can take.
    pub(crate) fn answer_bytes_max(&self) -> u64 {
        match self {
            Request::Get { from, .. } => from.bytes().saturating_add(answer::OVERHEAD_MAX as u64),
            Request::Atomic { .. } | Request::Where { .. } | Request::Segment { .. } => {
                answer::OVERHEAD_MAX as u64
            }
            _ => 0,
        }
    }
}

/// One operation. A `tag` matches the answer to it; `counts` says that it is to be counted as a
/// landing.
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
    Accumulate {
        to: Rows,
        sum: Sum,
        data: &'a [u8],
        counts: bool,
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
    /// Runs a handler for slot `slot` of the caller; the answer comes when it is done.
    Call {
        slot: u32,
        handler: u32,
        argument: &'a [u8],
    },
    /// Asks for the answer once more.
    Recall {
        slot: u32,
    },
    /// A rank of the sender's node has joined, left or was lost, because of this loss.
    Member {
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    },
    /// Asks at which port of this node's address a rank serves itself.
    Where {
        tag: u32,
        rank: Rank,
    },
    /// Nothing; but it is acknowledged.
    Ping,
    /// Says where answers are awaited, on networks whose addresses do not fit into a header. Comes
    /// first.
    From {
        address: &'a [u8],
    },
    /// About a segment that may be reached without its agent.
    Segment {
        tag: u32,
        rank: Rank,
        segment: SegmentId,
        about: About,
    },
    /// A word was changed past its agent: whoever sleeps for it is to look.
    Changed {
        at: Word,
    },
    /// So many operations have landed past the agent, and are to be counted.
    Landed {
        count: u32,
    },
}

/// What is asked, or told, about a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum About {
    /// How the network names it: its first byte, and, above that, its key.
    Name,
    /// How long it is.
    Length,
    /// It goes away.
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
/// Set in the kind of an operation that counts.
const COUNTS: u8 = 0x80;

/// Writes operations after each other.
pub(crate) fn encode(request: &Request<'_>, into: &mut Vec<u8>) {
    let kind = |kind: u8, counts: bool| if counts { kind | COUNTS } else { kind };
    match *request {
        Request::Put { to, data, counts } => {
            into.push(kind(if to.count == 1 { PUT } else { PUT_ROWS }, counts));
            encode_shortest(&to, into);
            into.extend_from_slice(data);
        }
        Request::Get { tag, from } => {
            into.push(if from.count == 1 { GET } else { GET_ROWS });
            into.extend_from_slice(&tag.to_le_bytes());
            encode_shortest(&from, into);
        }
        Request::Accumulate { to, sum, data, counts } => {
            into.push(kind(ACCUMULATE, counts));
            into.push(number_code(sum.number));
            into.extend_from_slice(&sum.scale);
            encode_rows(&to, into);
            into.extend_from_slice(data);
        }
        Request::Atomic { tag, at, op } => {
            into.push(ATOMIC);
            into.extend_from_slice(&tag.to_le_bytes());
            encode_atomic(&at, op, into);
        }
        Request::Post { at, op, counts } => {
            into.push(kind(POST, counts));
            encode_atomic(&at, op, into);
        }
        Request::Call { slot, handler, argument } => {
            into.push(CALL);
            into.extend_from_slice(&slot.to_le_bytes());
            into.extend_from_slice(&handler.to_le_bytes());
            into.extend_from_slice(&(argument.len() as u32).to_le_bytes());
            into.extend_from_slice(argument);
        }
        Request::Recall { slot } => {
            into.push(RECALL);
            into.extend_from_slice(&slot.to_le_bytes());
        }
        Request::Member { rank, peer_state, cause } => {
            into.push(MEMBER);
            into.extend_from_slice(&rank.0.to_le_bytes());
            into.extend_from_slice(&farside_shm::fate_bits(peer_state).to_le_bytes());
            into.extend_from_slice(&cause.map_or(0, Loss::to_bits).to_le_bytes());
        }
        Request::Where { tag, rank } => {
            into.push(WHERE);
            into.extend_from_slice(&tag.to_le_bytes());
            into.extend_from_slice(&rank.0.to_le_bytes());
        }
        Request::Ping => into.push(PING),
        Request::From { address } => {
            into.extend_from_slice(&[FROM, address.len() as u8]);
            into.extend_from_slice(address);
        }
        Request::Segment { tag, rank, segment, about } => {
            into.extend_from_slice(&[SEGMENT, about_code(about)]);
            into.extend_from_slice(&tag.to_le_bytes());
            encode_segment(rank, segment, into);
        }
        Request::Changed { at } => {
            into.push(CHANGED);
            encode_word(&at, 0, into);
        }
        Request::Landed { count } => {
            into.push(LANDED);
            into.extend_from_slice(&count.to_le_bytes());
        }
    }
}

fn about_code(about: About) -> u8 {
    match about {
        About::Name => 0,
        About::Length => 1,
        About::End => 2,
    }
}

/// One run needs neither count nor stride: the kind says so.
fn encode_shortest(rows: &Rows, into: &mut Vec<u8>) {
    if rows.count == 1 { encode_run(rows, into) } else { encode_rows(rows, into) }
}

fn encode_run(rows: &Rows, into: &mut Vec<u8>) {
    encode_segment(rows.rank, rows.segment, into);
    into.extend_from_slice(&rows.offset.to_le_bytes());
    into.extend_from_slice(&rows.unit.to_le_bytes());
}

fn encode_segment(rank: Rank, segment: SegmentId, into: &mut Vec<u8>) {
    into.extend_from_slice(&rank.0.to_le_bytes());
    into.extend_from_slice(&segment.0.to_le_bytes());
}

fn encode_rows(rows: &Rows, into: &mut Vec<u8>) {
    encode_run(rows, into);
    into.extend_from_slice(&rows.count.to_le_bytes());
    into.extend_from_slice(&rows.stride.to_le_bytes());
}

fn encode_atomic(at: &Word, op: Atomic, into: &mut Vec<u8>) {
    let (code, operand, second) = match op {
        Atomic::Load => (0, 0, None),
        Atomic::Store(value) => (1, value, None),
        Atomic::Add(value) => (2, value, None),
        Atomic::Swap(value) => (3, value, None),
        Atomic::CompareSwap { expected, desired } => (4, expected, Some(desired)),
        Atomic::And(value) => (5, value, None),
        Atomic::Or(value) => (6, value, None),
        Atomic::Xor(value) => (7, value, None),
    };
    encode_word(at, code, into);
    for value in [Some(operand), second].into_iter().flatten() {
        if at.width == Width::Pair {
            into.extend_from_slice(&value.to_le_bytes());
        } else {
            into.extend_from_slice(&(value as u64).to_le_bytes());
        }
    }
}

/// A word, and what is done to it.
fn encode_word(at: &Word, code: u8, into: &mut Vec<u8>) {
    let width = match at.width {
        Width::W32 => 0,
        Width::W64 => 1,
        Width::Pair => 2,
    };
    into.push(code | (width << 4));
    encode_segment(at.rank, at.segment, into);
    into.extend_from_slice(&at.offset.to_le_bytes());
}

/// Reads operations one after another; after an error there are no more.
pub(crate) struct Requests<'a>(Reader<'a>);

impl<'a> Requests<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Requests<'a> {
        Requests(Reader(body))
    }

    fn next_request(&mut self) -> Result<Request<'a>, Refused> {
        let reader = &mut self.0;
        let kind = reader.u8()?;
        let counts = kind & COUNTS != 0;
        Ok(match kind & !COUNTS {
            PUT => {
                let to = decode_run(reader)?;
                Request::Put { to, data: decode_data(reader, &to)?, counts }
            }
            PUT_ROWS => {
                let to = decode_rows(reader)?;
                Request::Put { to, data: decode_data(reader, &to)?, counts }
            }
            GET if !counts => Request::Get { tag: reader.u32()?, from: decode_run(reader)? },
            GET_ROWS if !counts => Request::Get { tag: reader.u32()?, from: decode_rows(reader)? },
            ACCUMULATE => {
                let number = number_of(reader.u8()?)?;
                let sum = Sum { number, scale: reader.scale()? };
                let to = decode_rows(reader)?;
                Request::Accumulate { to, sum, data: decode_data(reader, &to)?, counts }
            }
            ATOMIC if !counts => {
                let tag = reader.u32()?;
                let (at, op) = decode_atomic(reader)?;
                Request::Atomic { tag, at, op }
            }
            POST => {
                let (at, op) = decode_atomic(reader)?;
                Request::Post { at, op, counts }
            }
            CALL if !counts => {
                let (slot, handler, bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
                Request::Call { slot, handler, argument: reader.bytes(bytes as usize)? }
            }
            RECALL if !counts => Request::Recall { slot: reader.u32()? },
            MEMBER if !counts => {
                let (rank, peer_state) = (Rank(reader.u32()?), decode_fate(reader)?);
                Request::Member { rank, peer_state, cause: decode_cause(reader)? }
            }
            WHERE if !counts => Request::Where { tag: reader.u32()?, rank: Rank(reader.u32()?) },
            PING if !counts => Request::Ping,
            FROM if !counts => {
                let bytes = reader.u8()?;
                Request::From { address: reader.bytes(bytes.into())? }
            }
            SEGMENT if !counts => {
                let about = match reader.u8()? {
                    0 => About::Name,
                    1 => About::Length,
                    2 => About::End,
                    _ => return Err(Refused::Malformed),
                };
                let (tag, rank, segment) =
                    (reader.u32()?, Rank(reader.u32()?), SegmentId(reader.u64()?));
                Request::Segment { tag, rank, segment, about }
            }
            CHANGED if !counts => match decode_word(reader)? {
                (at, 0) => Request::Changed { at },
                _ => return Err(Refused::Malformed),
            },
            LANDED if !counts => Request::Landed { count: reader.u32()? },
            _ => return Err(Refused::Malformed),
        })
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<Request<'a>, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let request = self.next_request();
        if request.is_err() {
            self.0 = Reader(&[]);
        }
        Some(request)
    }
}

fn decode_run(reader: &mut Reader<'_>) -> Result<Rows, Refused> {
    Ok(Rows {
        rank: Rank(reader.u32()?),
        segment: SegmentId(reader.u64()?),
        offset: reader.u64()?,
        unit: reader.u32()?,
        count: 1,
        stride: 0,
    })
}

fn decode_rows(reader: &mut Reader<'_>) -> Result<Rows, Refused> {
    let run = decode_run(reader)?;
    Ok(Rows { count: reader.u32()?, stride: reader.u64()?, ..run })
}

fn decode_data<'a>(reader: &mut Reader<'a>, rows: &Rows) -> Result<&'a [u8], Refused> {
    reader.bytes(usize::try_from(rows.bytes()).map_err(|_| Refused::Malformed)?)
}

fn decode_fate(reader: &mut Reader<'_>) -> Result<PeerState, Refused> {
    let bits = reader.u64()?;
    let peer_state = farside_shm::fate_from_bits(bits);
    if farside_shm::fate_bits(peer_state) == bits {
        Ok(peer_state)
    } else {
        Err(Refused::Malformed)
    }
}

fn decode_cause(reader: &mut Reader<'_>) -> Result<Option<Loss>, Refused> {
    let bits = reader.u64()?;
    let cause = Loss::from_bits(bits);
    if cause.map_or(0, Loss::to_bits) == bits { Ok(cause) } else { Err(Refused::Malformed) }
}

/// A word, and the code of what is done to it.
fn decode_word(reader: &mut Reader<'_>) -> Result<(Word, u8), Refused> {
    let code = reader.u8()?;
    let width = match code >> 4 {
        0 => Width::W32,
        1 => Width::W64,
        2 => Width::Pair,
        _ => return Err(Refused::Malformed),
    };
    let (rank, segment, offset) = (Rank(reader.u32()?), SegmentId(reader.u64()?), reader.u64()?);
    Ok((Word { rank, segment, offset, width }, code & 15))
}

fn decode_atomic(reader: &mut Reader<'_>) -> Result<(Word, Atomic), Refused> {
    let (at, code) = decode_word(reader)?;
    let mut value = || -> Result<u128, Refused> {
        if at.width == Width::Pair { reader.u128() } else { Ok(reader.u64()?.into()) }
    };
    let operand = value()?;
    let op = match code {
        0 => Atomic::Load,
        1 => Atomic::Store(operand),
        2 => Atomic::Add(operand),
        3 => Atomic::Swap(operand),
        4 => Atomic::CompareSwap { expected: operand, desired: value()? },
        5 => Atomic::And(operand),
        6 => Atomic::Or(operand),
        7 => Atomic::Xor(operand),
        _ => return Err(Refused::Malformed),
    };
    Ok((at, op))
}

fn number_code(number: Number) -> u8 {
    match number {
        Number::I32 => 0,
        Number::I64 => 1,
        Number::F32 => 2,
        Number::F64 => 3,
        Number::C32 => 4,
        Number::C64 => 5,
    }
}

fn number_of(code: u8) -> Result<Number, Refused> {
    Ok(match code {
        0 => Number::I32,
        1 => Number::I64,
        2 => Number::F32,
        3 => Number::F64,
        4 => Number::C32,
        5 => Number::C64,
        _ => return Err(Refused::Malformed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_fabric::ExitCause;
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
        let sum = Sum { number: Number::C64, scale: [9; 16] };
        let wide = Word { rank: Rank(1), segment: SegmentId(2), offset: 64, width: Width::W64 };
        let pair = Word { width: Width::Pair, ..wide };
        vec![
            Request::Put { to: run, data, counts: true },
            Request::Put { to: rows, data, counts: false },
            Request::Get { tag: 5, from: run },
            Request::Get { tag: 6, from: rows },
            Request::Accumulate { to: rows, sum, data, counts: true },
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

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let read = Requests::new(&body).count();
            prop_assert!(read <= body.len());
        }
    }
}

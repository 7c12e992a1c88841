//! Decoding of operations.

use farside_fabric::{
    Accumulate, Atomic, Loss, Number, Op, PeerState, Rank, SegmentId, Width, Word,
};

use super::super::{Reader, Refused};
use super::{
    ACCUMULATE, ATOMIC, About, CALL, CHANGED, COUNTS, FROM, GET, GET_ACCUMULATE, GET_ROWS, LANDED,
    MEMBER, PING, POST, PUT, PUT_ROWS, RECALL, Request, Rows, SEGMENT, WHERE, WITH_OPERAND,
};

/// Iterates over the operations of a body; after an error there are no more.
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
            ACCUMULATE => decode_posted_accumulate(reader, counts)?,
            GET_ACCUMULATE if !counts => {
                let tag = reader.u32()?;
                let (accumulate, to) = (decode_accumulate(reader)?, decode_rows(reader)?);
                let data = if accumulate.writes() { decode_data(reader, &to)? } else { &[] };
                Request::GetAccumulate { tag, to, accumulate, data }
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
                let (rank, peer_state) = (Rank(reader.u32()?), decode_peer_state(reader)?);
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
                    0 => About::Key,
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

fn decode_peer_state(reader: &mut Reader<'_>) -> Result<PeerState, Refused> {
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

/// Reads an accumulate that is not answered. The work of a no-op would not be bounded by its
/// length: none is posted.
fn decode_posted_accumulate<'a>(
    reader: &mut Reader<'a>,
    counts: bool,
) -> Result<Request<'a>, Refused> {
    let (accumulate, to) = (decode_accumulate(reader)?, decode_rows(reader)?);
    if !accumulate.writes() {
        return Err(Refused::Malformed);
    }
    Ok(Request::Accumulate { to, accumulate, data: decode_data(reader, &to)?, counts })
}

fn decode_accumulate(reader: &mut Reader<'_>) -> Result<Accumulate, Refused> {
    let number = Number::from_code(reader.u8()?).ok_or(Refused::Malformed)?;
    let accumulate = match reader.u8()? {
        code if code == WITH_OPERAND | Op::Sum.code() => {
            Accumulate::scaled_sum(number, reader.operand()?)
        }
        code if code == WITH_OPERAND | Op::Replace.code() => {
            Accumulate::compare_swap(number, reader.operand()?)
        }
        code => Accumulate::new(number, Op::from_code(code).ok_or(Refused::Malformed)?),
    };
    accumulate.map_err(|_| Refused::Malformed)
}

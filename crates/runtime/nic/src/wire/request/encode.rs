//! Encoding of operations.

use farside_fabric::{Accumulate, Atomic, Loss, Rank, SegmentId, Width, Word};

use super::{
    ACCUMULATE, ATOMIC, About, CALL, CHANGED, COUNTS, FROM, GET, GET_ACCUMULATE, GET_ROWS, LANDED,
    MEMBER, PING, POST, PUT, PUT_ROWS, RECALL, Request, Rows, SEGMENT, WHERE, WITH_OPERAND,
};

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
        Request::Accumulate { to, accumulate, data, counts } => {
            into.push(kind(ACCUMULATE, counts));
            encode_accumulate(&accumulate, into);
            encode_rows(&to, into);
            into.extend_from_slice(data);
        }
        Request::GetAccumulate { tag, to, accumulate, data } => {
            into.push(GET_ACCUMULATE);
            into.extend_from_slice(&tag.to_le_bytes());
            encode_accumulate(&accumulate, into);
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
        _ => encode_control(request, into),
    }
}

/// Appends an operation that is not on memory.
fn encode_control(request: &Request<'_>, into: &mut Vec<u8>) {
    match *request {
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
        // Operations on memory: `encode` has written these.
        Request::Put { .. }
        | Request::Get { .. }
        | Request::Accumulate { .. }
        | Request::GetAccumulate { .. }
        | Request::Atomic { .. }
        | Request::Post { .. } => {}
    }
}

fn about_code(about: About) -> u8 {
    match about {
        About::Key => 0,
        About::Length => 1,
        About::End => 2,
    }
}

/// Appends rows; a single one takes neither count nor stride, and the kind says so.
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

/// Appends the kind of the elements, the operation, and the operand if there is one.
fn encode_accumulate(accumulate: &Accumulate, into: &mut Vec<u8>) {
    let operand = accumulate.operand();
    let mark = if operand.is_some() { WITH_OPERAND } else { 0 };
    into.extend_from_slice(&[accumulate.number().code(), accumulate.op().code() | mark]);
    into.extend(operand.into_iter().flatten());
}

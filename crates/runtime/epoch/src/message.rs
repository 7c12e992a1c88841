//! Operations as data: what is queued at an origin, and what travels in a message of the two-sided
//! design.

use farside_fabric::{Accumulate, Atomic, Error, Number, OldValue, Op, Rank, Result, Width};
use farside_rma::{AtomicWord, Context, Pair, Plain, Window, raw};

/// An operation on a target's part; offsets are bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operation {
    Put { at: u64, bytes: Vec<u8> },
    Accumulate(Accumulation),
    Get { at: u64, bytes: u64 },
    Atomic { at: u64, width: Width, op: Atomic },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Accumulation {
    pub(crate) at: u64,
    pub(crate) accumulate: Accumulate,
    /// The number of bytes of the target.
    pub(crate) bytes: u64,
    /// The elements that go there: none, if it is a no-op.
    pub(crate) message: Vec<u8>,
    pub(crate) old: OldValue,
}

const PUT: u8 = 1;
const ACCUMULATE: u8 = 2;
const GET: u8 = 3;
const ATOMIC: u8 = 4;
const GET_ACCUMULATE: u8 = 5;
/// Set in the operation of an accumulate that has an operand.
const WITH_OPERAND: u8 = 0x80;

const WIDTHS: [Width; 3] = [Width::W32, Width::W64, Width::Pair];

impl Operation {
    pub(crate) fn message_bytes(&self) -> usize {
        let data = match self {
            Operation::Put { bytes, .. } => bytes.len(),
            Operation::Accumulate(accumulation) => 16 + accumulation.message.len(),
            Operation::Get { .. } => 0,
            Operation::Atomic { .. } => 32,
        };
        24 + data.next_multiple_of(8)
    }

    pub(crate) fn reply_bytes(&self) -> usize {
        match self {
            Operation::Put { .. } => 0,
            Operation::Accumulate(Accumulation { old: OldValue::Ignored, .. }) => 0,
            Operation::Accumulate(Accumulation { bytes, .. }) => {
                (*bytes as usize).next_multiple_of(8)
            }
            Operation::Get { bytes, .. } => (*bytes as usize).next_multiple_of(8),
            Operation::Atomic { .. } => 16,
        }
    }

    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        let mut head = |code: u8, kind: [u8; 2], at: u64, len: u64| {
            into.extend_from_slice(&[code, kind[0], kind[1], 0, 0, 0, 0, 0]);
            into.extend_from_slice(&at.to_le_bytes());
            into.extend_from_slice(&len.to_le_bytes());
        };
        match self {
            Operation::Put { at, bytes } => {
                head(PUT, [0; 2], *at, bytes.len() as u64);
                into.extend_from_slice(bytes);
            }
            Operation::Accumulate(accumulation) => {
                let Accumulation { at, accumulate, bytes, message, old } = accumulation;
                let code = match old {
                    OldValue::Ignored => ACCUMULATE,
                    OldValue::Wanted => GET_ACCUMULATE,
                };
                let mark = if accumulate.operand().is_some() { WITH_OPERAND } else { 0 };
                let kind = [accumulate.number().code(), accumulate.op().code() | mark];
                head(code, kind, *at, *bytes);
                into.extend_from_slice(&accumulate.operand().unwrap_or_default());
                into.extend_from_slice(message);
            }
            Operation::Get { at, bytes } => head(GET, [0; 2], *at, *bytes),
            Operation::Atomic { at, width, op } => {
                let width = WIDTHS.iter().position(|known| known == width).unwrap_or(0);
                let (code, first, second) = parts(*op);
                head(ATOMIC, [width as u8, 0], *at, code);
                into.extend_from_slice(&first.to_le_bytes());
                into.extend_from_slice(&second.to_le_bytes());
            }
        }
        into.resize(into.len().next_multiple_of(8), 0);
    }

    pub(crate) fn decode(message: &mut &[u8]) -> Option<Operation> {
        let head = take(message, 24)?;
        let (code, kind) = (head[0], head[1] as usize);
        let (at, len) = (number(&head[8..16])?, number(&head[16..24])?);
        match code {
            PUT => Some(Operation::Put { at, bytes: padded(message, len)? }),
            ACCUMULATE | GET_ACCUMULATE => {
                let operand = take(message, 16)?.try_into().ok()?;
                let number = Number::from_code(head[1])?;
                let accumulate = match head[2] {
                    op if op == WITH_OPERAND | Op::Sum.code() => {
                        Accumulate::scaled_sum(number, operand)
                    }
                    op if op == WITH_OPERAND | Op::Replace.code() => {
                        Accumulate::compare_swap(number, operand)
                    }
                    op => Accumulate::new(number, Op::from_code(op)?),
                };
                let (accumulate, bytes) = (accumulate.ok()?, len);
                let message = padded(message, accumulate.message_bytes(bytes))?;
                let is_posted = code == ACCUMULATE;
                let old = if is_posted { OldValue::Ignored } else { OldValue::Wanted };
                Some(Operation::Accumulate(Accumulation { at, accumulate, bytes, message, old }))
            }
            GET => Some(Operation::Get { at, bytes: len }),
            ATOMIC => {
                let operand = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_le_bytes);
                let (first, second) = (operand(take(message, 16)?)?, operand(take(message, 16)?)?);
                Some(Operation::Atomic {
                    at,
                    width: *WIDTHS.get(kind)?,
                    op: whole(len, first, second)?,
                })
            }
            _ => None,
        }
    }

    /// Carries it out on a rank's part, and returns what it brings back, as it stands in a reply.
    pub(crate) fn execute(
        &self,
        context: &Context,
        memory: &Window<u8>,
        rank: Rank,
    ) -> Result<Vec<u8>> {
        let place = |at: u64| memory.at(rank, at as usize);
        match self {
            Operation::Put { at, bytes } => context.put(bytes, place(*at)).map(|()| Vec::new()),
            Operation::Get { at, bytes } => {
                let mut data = vec![0; *bytes as usize];
                context.get(place(*at), &mut data)?;
                data.resize(data.len().next_multiple_of(8), 0);
                Ok(data)
            }
            Operation::Atomic { at, width, op } => {
                let held = match width {
                    Width::W32 => context.atomic::<u32>(place(*at).cast(), *op)?.to_bits(),
                    Width::W64 => context.atomic::<u64>(place(*at).cast(), *op)?.to_bits(),
                    Width::Pair => context.atomic::<Pair>(place(*at).cast(), *op)?.to_bits(),
                };
                Ok(held.to_le_bytes().to_vec())
            }
            Operation::Accumulate(Accumulation { at, accumulate, bytes, message, old }) => {
                if *old == OldValue::Ignored {
                    raw::accumulate(context, accumulate, message, place(*at))?;
                    return Ok(Vec::new());
                }
                let mut data = vec![0; *bytes as usize];
                raw::get_accumulate(context, accumulate, message, place(*at), &mut data)?;
                data.resize(data.len().next_multiple_of(8), 0);
                Ok(data)
            }
        }
    }
}

/// Bytes as elements, wherever they lie.
pub(crate) fn elements<T: Plain>(bytes: &[u8]) -> Result<Vec<T>> {
    let mut data = vec![T::new_zeroed(); bytes.len() / size_of::<T>()];
    let into = zerocopy::IntoBytes::as_mut_bytes(data.as_mut_slice());
    match into.len() == bytes.len() {
        true => into.copy_from_slice(bytes),
        false => {
            let what = "bytes of an answer and the size of its elements";
            return Err(Error::Mismatch {
                what,
                left: bytes.len() as u64,
                right: size_of::<T>() as u64,
            });
        }
    }
    Ok(data)
}

fn parts(op: Atomic) -> (u64, u128, u128) {
    match op {
        Atomic::Load => (0, 0, 0),
        Atomic::Store(value) => (1, value, 0),
        Atomic::Add(value) => (2, value, 0),
        Atomic::Swap(value) => (3, value, 0),
        Atomic::CompareSwap { expected, desired } => (4, expected, desired),
        Atomic::And(value) => (5, value, 0),
        Atomic::Or(value) => (6, value, 0),
        Atomic::Xor(value) => (7, value, 0),
    }
}

fn whole(code: u64, first: u128, second: u128) -> Option<Atomic> {
    Some(match code {
        0 => Atomic::Load,
        1 => Atomic::Store(first),
        2 => Atomic::Add(first),
        3 => Atomic::Swap(first),
        4 => Atomic::CompareSwap { expected: first, desired: second },
        5 => Atomic::And(first),
        6 => Atomic::Or(first),
        7 => Atomic::Xor(first),
        _ => return None,
    })
}

fn take<'m>(message: &mut &'m [u8], len: usize) -> Option<&'m [u8]> {
    let (head, tail) = message.split_at_checked(len)?;
    *message = tail;
    Some(head)
}

fn padded(message: &mut &[u8], len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    take(message, len.checked_next_multiple_of(8)?).map(|bytes| bytes[..len].to_vec())
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_rma::Summand as _;

    #[test]
    fn every_operation_survives_a_message() {
        let scaled = 2.5f64.sum().unwrap();
        let nothing = Accumulate::new(Number::I16, Op::NoOp).unwrap();
        let max = Accumulate::new(Number::F32Index, Op::MaxLoc).unwrap();
        let accumulation = |accumulate: Accumulate, old| {
            let message = vec![7; accumulate.message_bytes(24) as usize];
            Operation::Accumulate(Accumulation { at: 8, accumulate, bytes: 24, message, old })
        };
        let all = [
            Operation::Put { at: 5, bytes: vec![1, 2, 3] },
            accumulation(scaled, OldValue::Ignored),
            accumulation(max, OldValue::Wanted),
            accumulation(nothing, OldValue::Wanted),
            Operation::Get { at: 1 << 40, bytes: 77 },
            Operation::Atomic {
                at: 16,
                width: Width::Pair,
                op: Atomic::CompareSwap { expected: 1, desired: u128::MAX },
            },
            Operation::Atomic { at: 4, width: Width::W32, op: Atomic::Xor(9) },
        ];
        let mut message = Vec::new();
        for operation in &all {
            let before = message.len();
            operation.encode(&mut message);
            assert_eq!(message.len() - before, operation.message_bytes());
        }
        let mut rest = message.as_slice();
        for operation in &all {
            assert_eq!(Operation::decode(&mut rest).as_ref(), Some(operation));
        }
        assert!(rest.is_empty() && Operation::decode(&mut rest).is_none());
        assert!(Operation::decode(&mut &[9u8; 24][..]).is_none(), "an unknown operation is none");
        assert!(Operation::decode(&mut &message[..25]).is_none(), "half of one is none");
    }
}

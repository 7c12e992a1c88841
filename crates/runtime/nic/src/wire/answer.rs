//! Answers in the body of a reply.

use farside_fabric::{Error, ErrorClass, Node, Rank, SegmentId};

use super::{Reader, Refused};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Answer<'a> {
    /// The value that a word held.
    Word {
        tag: u32,
        value: u128,
    },
    Bytes {
        tag: u32,
        data: &'a [u8],
    },
    Refused {
        tag: u32,
        fault: Fault,
    },
    /// A posted operation was refused: the `count`-th refusal of this connection. Every later reply
    /// repeats it, since no answer to a posted operation is awaited.
    Complaint {
        count: u64,
        fault: Fault,
    },
    /// The reply of a handler, or how it failed.
    Called {
        slot: u32,
        state: u32,
        bytes: &'a [u8],
    },
}

/// The most bytes that an answer takes beside its data.
pub(crate) const OVERHEAD_MAX: usize = 64;

/// Why an operation was refused, with the numbers from which the initiator makes the same error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    code: u8,
    rank: Rank,
    numbers: [u64; 4],
}

impl Fault {
    pub(crate) fn new(error: &Error, rank: Rank) -> Fault {
        let (code, numbers) = match *error {
            Error::NoSegment { segment, .. } => (1, [segment.0, 0, 0, 0]),
            Error::OutOfRange { segment, offset, bytes, segment_bytes, .. } => {
                (2, [segment.0, offset, bytes, segment_bytes])
            }
            Error::Misaligned { offset, align } => (3, [offset, align, 0, 0]),
            Error::UnknownRank { ranks, .. } => (4, [ranks.into(), 0, 0, 0]),
            Error::Unsupported { .. } => (5, [0; 4]),
            Error::Mismatch { left, right, .. } => (6, [left, right, 0, 0]),
            Error::TooMuch { value, limit, .. } => (7, [value, limit, 0, 0]),
            Error::NoHandler { node, handler } => (8, [node.0.into(), handler.into(), 0, 0]),
            ref other => (0, [other.class().code() as u64, 0, 0, 0]),
        };
        Fault { code, rank, numbers }
    }

    /// Returns the rank whose memory the operation was on.
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    pub(crate) fn error(&self) -> Error {
        let (rank, [a, b, c, d]) = (self.rank, self.numbers);
        match self.code {
            1 => Error::NoSegment { rank, segment: SegmentId(a) },
            2 => Error::OutOfRange {
                rank,
                segment: SegmentId(a),
                offset: b,
                bytes: c,
                segment_bytes: d,
            },
            3 => Error::Misaligned { offset: a, align: b },
            4 => Error::UnknownRank { rank, ranks: a as u32 },
            5 => Error::Unsupported { what: "arithmetic on a pair".into() },
            6 => Error::Mismatch {
                what: "bytes of a piece and the size of a number",
                left: a,
                right: b,
            },
            7 => Error::TooMuch { what: "bytes of one far request", value: a, limit: b },
            8 => Error::NoHandler { node: Node(a as u32), handler: b as u32 },
            _ => {
                let class = i32::try_from(a).ok().and_then(ErrorClass::from_code);
                Error::PeerFailed { rank, class: class.unwrap_or(ErrorClass::Internal) }
            }
        }
    }

    fn encode(&self, into: &mut impl Sink) {
        into.write(&[self.code]);
        into.write(&self.rank.0.to_le_bytes());
        self.numbers.iter().for_each(|number| into.write(&number.to_le_bytes()));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Fault, Refused> {
        let (code, rank) = (reader.u8()?, Rank(reader.u32()?));
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = reader.u64()?;
        }
        Ok(Fault { code, rank, numbers })
    }
}

const WORD: u8 = 1;
const PAIR: u8 = 2;
const BYTES: u8 = 3;
const REFUSED: u8 = 4;
const COMPLAINT: u8 = 5;
const CALLED: u8 = 6;

pub(crate) trait Sink {
    fn write(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

pub(crate) fn encode(answer: &Answer<'_>, into: &mut impl Sink) {
    match *answer {
        Answer::Word { tag, value } => {
            let wide = value > u128::from(u64::MAX);
            into.write(&[if wide { PAIR } else { WORD }]);
            into.write(&tag.to_le_bytes());
            into.write(&value.to_le_bytes()[..if wide { 16 } else { 8 }]);
        }
        Answer::Bytes { tag, data } => {
            begin_bytes(tag, data.len() as u32, into);
            into.write(data);
        }
        Answer::Refused { tag, fault } => {
            into.write(&[REFUSED]);
            into.write(&tag.to_le_bytes());
            fault.encode(into);
        }
        Answer::Complaint { count, fault } => {
            into.write(&[COMPLAINT]);
            into.write(&count.to_le_bytes());
            fault.encode(into);
        }
        Answer::Called { slot, state, bytes } => {
            into.write(&[CALLED]);
            into.write(&slot.to_le_bytes());
            into.write(&state.to_le_bytes());
            into.write(&(bytes.len() as u32).to_le_bytes());
            into.write(bytes);
        }
    }
}

/// Appends the beginning of an [`Answer::Bytes`]; the bytes must follow.
pub(crate) fn begin_bytes(tag: u32, bytes: u32, into: &mut impl Sink) {
    into.write(&[BYTES]);
    into.write(&tag.to_le_bytes());
    into.write(&bytes.to_le_bytes());
}

/// Iterates over the answers of a body; after an error there are no more.
pub(crate) struct Answers<'a>(Reader<'a>);

impl<'a> Answers<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Answers<'a> {
        Answers(Reader(body))
    }

    fn next_answer(&mut self) -> Result<Answer<'a>, Refused> {
        let reader = &mut self.0;
        Ok(match reader.u8()? {
            WORD => Answer::Word { tag: reader.u32()?, value: reader.u64()?.into() },
            PAIR => Answer::Word { tag: reader.u32()?, value: reader.u128()? },
            BYTES => {
                let (tag, bytes) = (reader.u32()?, reader.u32()?);
                Answer::Bytes { tag, data: reader.bytes(bytes as usize)? }
            }
            REFUSED => Answer::Refused { tag: reader.u32()?, fault: Fault::decode(reader)? },
            COMPLAINT => Answer::Complaint { count: reader.u64()?, fault: Fault::decode(reader)? },
            CALLED => {
                let (slot, state, bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
                Answer::Called { slot, state, bytes: reader.bytes(bytes as usize)? }
            }
            _ => return Err(Refused::Malformed),
        })
    }
}

impl<'a> Iterator for Answers<'a> {
    type Item = Result<Answer<'a>, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let answer = self.next_answer();
        if answer.is_err() {
            self.0 = Reader(&[]);
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_survive_the_wire() {
        let error = Error::OutOfRange {
            rank: Rank(2),
            segment: SegmentId(7),
            offset: 1,
            bytes: 2,
            segment_bytes: 3,
        };
        let fault = Fault::new(&error, Rank(2));
        assert_eq!(fault.error(), error);
        let answers = [
            Answer::Word { tag: 1, value: 5 },
            Answer::Word { tag: 2, value: 5 << 70 },
            Answer::Bytes { tag: 3, data: b"abc" },
            Answer::Refused { tag: 4, fault },
            Answer::Complaint { count: 1 << 40, fault },
            Answer::Called { slot: 2, state: 3, bytes: b"reply" },
        ];
        let mut body = Vec::new();
        answers.iter().for_each(|answer| encode(answer, &mut body));
        let read: Vec<_> = Answers::new(&body).map(Result::unwrap).collect();
        assert_eq!(read, answers);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Answers::new(&body).count() <= body.len());
        }
    }
}

//! Packets in a stream of bytes: frames, and the proof with which a stream begins.
//!
//! ```text
//! challenge  0 "fs"  2 version  3 kind 4   4 zero u32             8 challenge, 16 bytes
//! proof      0 "fs"  2 version  3 kind 5   4 UDP port  6 zero     8 tag, 16 bytes
//! frame      0 "fs"  2 version  3 kind 3   4 length u32           8 a packet
//! ```
//!
//! The server of a stream sends the challenge, the end that has opened it answers with the proof.
//! From then on both send frames. Nothing of this is believed but the proof's tag: a packet in a
//! frame carries its own tag, as in a datagram. Whatever is no frame breaks the stream.

use std::io::{self, Read};

use super::seal::{StreamKey, TAG_BYTES};

pub(super) const FRAME_HEAD_BYTES: usize = 8;
/// The length of a challenge, and of a proof.
pub(super) const GREETING_BYTES: usize = 24;
pub(super) const PACKET_BYTES_MAX: usize = 1 << 16;

const MAGIC: [u8; 2] = *b"fs";
const VERSION: u8 = 6;
const FRAME: u8 = 3;
const CHALLENGE: u8 = 4;
const PROOF: u8 = 5;

/// What a stream's peer has sent instead of a frame, a challenge or a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoFrame;

/// The ports of a stream's ends: where the proof is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// The UDP port of the endpoint that has opened the stream.
    pub(super) client_port: u16,
    pub(super) server_port: u16,
}

fn head(kind: u8, number: u32) -> [u8; FRAME_HEAD_BYTES] {
    let mut head = [0; FRAME_HEAD_BYTES];
    head[..2].copy_from_slice(&MAGIC);
    (head[2], head[3]) = (VERSION, kind);
    head[4..].copy_from_slice(&number.to_le_bytes());
    head
}

fn parse_head(kind: u8, bytes: &[u8]) -> Result<u32, NoFrame> {
    let head: &[u8; FRAME_HEAD_BYTES] = bytes.first_chunk().ok_or(NoFrame)?;
    let number = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if head[..2] == MAGIC && head[2] == VERSION && head[3] == kind {
        Ok(number)
    } else {
        Err(NoFrame)
    }
}

pub(super) fn frame_head(packet_bytes: usize) -> [u8; FRAME_HEAD_BYTES] {
    head(FRAME, packet_bytes as u32)
}

pub(super) fn challenge(random: [u8; 16]) -> [u8; GREETING_BYTES] {
    greeting(CHALLENGE, 0, random)
}

pub(super) fn parse_challenge(bytes: &[u8]) -> Result<[u8; 16], NoFrame> {
    parse_head(CHALLENGE, bytes)?;
    bytes.get(8..GREETING_BYTES).and_then(|random| random.try_into().ok()).ok_or(NoFrame)
}

pub(super) fn proof(key: &StreamKey, random: [u8; 16], ends: Ends) -> [u8; GREETING_BYTES] {
    greeting(PROOF, ends.client_port.into(), key.tag(&proven(random, ends)))
}

/// Checks the proof that answers a challenge, and returns the UDP port of the end that gives it.
pub(super) fn check_proof(
    key: &StreamKey,
    random: [u8; 16],
    server_port: u16,
    bytes: &[u8],
) -> Result<u16, NoFrame> {
    let client_port = u16::try_from(parse_head(PROOF, bytes)?).map_err(|_| NoFrame)?;
    let tag = bytes.get(8..GREETING_BYTES).and_then(|tag| tag.try_into().ok()).ok_or(NoFrame)?;
    let proven = proven(random, Ends { client_port, server_port });
    if key.accepts(&proven, tag) { Ok(client_port) } else { Err(NoFrame) }
}

fn greeting(kind: u8, number: u32, bytes: [u8; TAG_BYTES]) -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[..8].copy_from_slice(&head(kind, number));
    greeting[8..].copy_from_slice(&bytes);
    greeting
}

/// Returns what the tag of a proof covers.
fn proven(random: [u8; 16], ends: Ends) -> [u8; 20] {
    let mut proven = [0; 20];
    proven[..16].copy_from_slice(&random);
    proven[16..18].copy_from_slice(&ends.client_port.to_le_bytes());
    proven[18..].copy_from_slice(&ends.server_port.to_le_bytes());
    proven
}

/// Bytes that have arrived by a stream and are no whole frame yet. It reads ahead no further than
/// the head of the next frame, so a packet is never moved.
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    filled: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    Whole,
    Part,
    /// The stream has ended, or carries no frames.
    Broken,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        let bytes = vec![0; PACKET_BYTES_MAX + 2 * FRAME_HEAD_BYTES].into_boxed_slice();
        Inbox { bytes, filled: 0 }
    }

    fn fill(&mut self, from: &mut impl Read, needed: usize, wanted: usize) -> Arrived {
        while self.filled < needed {
            match from.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return Arrived::Broken,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Arrived::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Arrived::Broken,
            }
        }
        Arrived::Whole
    }

    pub(super) fn read_greeting(&mut self, from: &mut impl Read) -> (Arrived, &[u8]) {
        let arrived = self.fill(from, GREETING_BYTES, GREETING_BYTES);
        (arrived, &self.bytes[..self.filled.min(GREETING_BYTES)])
    }

    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Reads the next frame, and calls `take` with its packet if it is there.
    pub(super) fn read_frame(
        &mut self,
        from: &mut impl Read,
        take: &mut dyn FnMut(&[u8]),
    ) -> Arrived {
        let arrived = self.fill(from, FRAME_HEAD_BYTES, FRAME_HEAD_BYTES);
        if arrived != Arrived::Whole {
            return arrived;
        }
        let length = match parse_head(FRAME, &self.bytes) {
            Ok(length) if length > 0 && length as usize <= PACKET_BYTES_MAX => length as usize,
            _ => return Arrived::Broken,
        };
        let end = FRAME_HEAD_BYTES + length;
        let arrived = self.fill(from, end, end + FRAME_HEAD_BYTES);
        if arrived == Arrived::Whole {
            take(&self.bytes[FRAME_HEAD_BYTES..end]);
            self.bytes.copy_within(end..self.filled, 0);
            self.filled -= end;
        }
        arrived
    }
}

/// Reads any bytes as a challenge, as a proof and as frames.
#[cfg(fuzzing)]
pub(crate) fn fuzz(key: &super::seal::Key, bytes: &[u8]) {
    let _ = parse_challenge(bytes);
    assert!(check_proof(&key.stream_key(), [1; 16], 7, bytes).is_err(), "a proof was forged");
    let (mut inbox, mut from, mut count) = (Inbox::new(), bytes, 0);
    while inbox.read_frame(&mut from, &mut |packet| count += packet.len()) == Arrived::Whole {}
    assert!(count <= bytes.len());
}

#[cfg(test)]
mod tests {
    use super::super::seal::Key;
    use super::*;
    use proptest::prelude::*;

    /// A stream that gives its bytes in pieces, and between them nothing.
    struct Pieces<'a> {
        bytes: &'a [u8],
        lengths: std::iter::Cycle<std::slice::Iter<'a, usize>>,
        is_dry: bool,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.is_dry = !self.is_dry;
            if self.is_dry {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let length = (*self.lengths.next().unwrap()).min(into.len()).min(self.bytes.len());
            into[..length].copy_from_slice(&self.bytes[..length]);
            self.bytes = &self.bytes[length..];
            Ok(length)
        }
    }

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in(
            packets in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 1..200), 0..20),
            lengths in proptest::collection::vec(1usize..300, 1..5),
        ) {
            let frame = |packet: &Vec<u8>| [&frame_head(packet.len())[..], packet].concat();
            let bytes: Vec<u8> = packets.iter().flat_map(frame).collect();
            let mut from = Pieces { bytes: &bytes, lengths: lengths.iter().cycle(), is_dry: false };
            let (mut inbox, mut found) = (Inbox::new(), Vec::new());
            loop {
                match inbox.read_frame(&mut from, &mut |packet| found.push(packet.to_vec())) {
                    Arrived::Broken => break,
                    Arrived::Whole | Arrived::Part => {}
                }
            }
            prop_assert_eq!(found, packets);
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (mut inbox, mut from) = (Inbox::new(), &bytes[..]);
            let mut count = 0;
            while inbox.read_frame(&mut from, &mut |_| count += 1) == Arrived::Whole {}
            prop_assert!(count <= bytes.len());
        }
    }

    #[test]
    fn a_frame_that_is_too_long_breaks_the_stream() {
        for length in [0, PACKET_BYTES_MAX + 1, u32::MAX as usize] {
            let bytes = [&frame_head(length)[..], &[0; 100]].concat();
            let arrived = Inbox::new().read_frame(&mut &bytes[..], &mut |_| panic!("a packet"));
            assert_eq!(arrived, Arrived::Broken, "{length}");
        }
    }

    #[test]
    fn a_proof_is_valid_for_one_challenge_and_one_pair_of_ports() {
        let key = Key::from_bytes([3; 16]).stream_key();
        let ends = Ends { client_port: 7, server_port: 9 };
        let random = parse_challenge(&challenge([5; 16])).unwrap();
        assert_eq!(random, [5; 16]);
        let good = proof(&key, random, ends);
        assert_eq!(check_proof(&key, random, 9, &good), Ok(7));
        assert_eq!(check_proof(&key, [6; 16], 9, &good), Err(NoFrame));
        assert_eq!(check_proof(&key, random, 8, &good), Err(NoFrame));
        assert_eq!(
            check_proof(&Key::from_bytes([4; 16]).stream_key(), random, 9, &good),
            Err(NoFrame)
        );
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(check_proof(&key, random, 9, &bad), Err(NoFrame), "byte {at}");
            assert_eq!(check_proof(&key, random, 9, &good[..at]), Err(NoFrame));
        }
    }
}

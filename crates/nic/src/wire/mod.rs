//! What is on the wire: datagrams, each with a header, a tag and a body.
//!
//! ```text
//! 0  "fs"  2  version  3  kind  4  server u32  8  port u64  16  number u64  24  executed u64  32  held u64  40  back u16  42  zero  48  tag  64  body
//! ```
//!
//! A *request* goes from a port to a server; its number counts the datagrams of that connection
//! from one, and its body is a sequence of operations ([`request`]); `back` is the number of the
//! UDP port at which replies are awaited. A *reply* goes back; its number is that of the request it
//! answers (zero: none), `executed` and `held` acknowledge, and its body is a sequence of answers
//! ([`answer`]). Everything is little-endian.
//!
//! Decoding checks every length before it is used and never allocates: it is what a stranger's
//! bytes meet first, after the tag.

pub(crate) mod answer;
pub(crate) mod request;

use crate::transport::seal::{Key, TAG_BYTES};

/// How long the header is, with the tag.
pub(crate) const HEADER_BYTES: usize = 64;
const TAG_AT: usize = HEADER_BYTES - TAG_BYTES;
const MAGIC: [u8; 2] = *b"fs";
const VERSION: u8 = 2;

/// Whence operations come: a thread of a rank, or an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortId(pub(crate) u64);

impl PortId {
    /// How many threads of a rank may communicate at a time: its first ports are theirs.
    pub(crate) const THREADS: u32 = 64;
    /// Of all ports of a rank, the one of its handlers.
    pub(crate) const HANDLERS: u32 = PortId::THREADS;
    /// Of all ports of a rank, the one at which it says farewell.
    pub(crate) const FAREWELL: u32 = PortId::THREADS + 1;

    /// One of a rank's ports.
    pub(crate) fn of_rank(rank: farside_fabric::Rank, which: u32) -> PortId {
        PortId((u64::from(rank.0) << 32) | u64::from(which))
    }

    /// Whether a rank has so many ports.
    pub(crate) fn is_possible(self) -> bool {
        self.rank().is_none() || self.0 as u32 <= PortId::FAREWELL
    }

    /// The port of a node's agent.
    pub(crate) fn of_agent(node: farside_fabric::Node) -> PortId {
        PortId((u64::from(u32::MAX) << 32) | u64::from(node.0))
    }

    /// The rank that it belongs to, unless it is an agent's.
    pub(crate) fn rank(self) -> Option<farside_fabric::Rank> {
        let rank = (self.0 >> 32) as u32;
        (rank != u32::MAX).then_some(farside_fabric::Rank(rank))
    }

    /// The node whose agent it belongs to, if it is an agent's.
    pub(crate) fn agent(self) -> Option<farside_fabric::Node> {
        self.rank().is_none().then_some(farside_fabric::Node(self.0 as u32))
    }
}

/// Who executes operations: the agent of a node, or, where hosts serve themselves, a rank's own
/// thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerId(pub(crate) u32);

/// Which way a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Reply,
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) server: ServerId,
    pub(crate) port: PortId,
    /// Of a request: which it is. Of a reply: which request it answers, or zero.
    pub(crate) number: u64,
    /// Of a reply: all requests up to this one were executed.
    pub(crate) executed: u64,
    /// Of a reply: bit `i` says that request `executed + 2 + i` has arrived, ahead of its turn.
    pub(crate) held: u64,
    /// Of a request: at which UDP port of its node's address replies are awaited. What the network
    /// says of whence a datagram came proves nothing.
    pub(crate) back: u16,
}

/// Why a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too short, of another kind or another version.
    Foreign,
    /// The tag is wrong.
    Forged,
    /// It is authentic, but its inside contradicts itself: a bug, or two versions that call
    /// themselves the same.
    Malformed,
    /// It is meant for somebody else, or from somebody who cannot be.
    Astray,
    /// It was executed so long ago that it cannot be an honest repetition, or is further ahead than
    /// a sender may be.
    Stale,
    /// It comes from a node that was given up.
    Late,
}

/// Writes the header of a datagram whose body is complete, and its tag.
pub(crate) fn seal(key: &Key, header: &Header, packet: &mut [u8]) {
    seal_parts(key, header, packet, &[]);
}

/// Likewise, if the end of the body is elsewhere.
pub(crate) fn seal_parts(key: &Key, header: &Header, packet: &mut [u8], rest: &[u8]) {
    debug_assert!(packet.len() >= HEADER_BYTES);
    packet[0..2].copy_from_slice(&MAGIC);
    packet[2] = VERSION;
    packet[3] = match header.kind {
        Kind::Request => 1,
        Kind::Reply => 2,
    };
    packet[4..8].copy_from_slice(&header.server.0.to_le_bytes());
    packet[8..16].copy_from_slice(&header.port.0.to_le_bytes());
    packet[16..24].copy_from_slice(&header.number.to_le_bytes());
    packet[24..32].copy_from_slice(&header.executed.to_le_bytes());
    packet[32..40].copy_from_slice(&header.held.to_le_bytes());
    packet[40..42].copy_from_slice(&header.back.to_le_bytes());
    packet[42..48].fill(0);
    let tag = key.tag(&[&packet[..TAG_AT], &packet[HEADER_BYTES..], rest]);
    packet[TAG_AT..HEADER_BYTES].copy_from_slice(&tag);
}

/// Reads a datagram: its header and its body, if it is authentic.
pub(crate) fn open<'a>(key: &Key, packet: &'a [u8]) -> Result<(Header, &'a [u8]), Refused> {
    let (head, body) = packet.split_first_chunk::<HEADER_BYTES>().ok_or(Refused::Foreign)?;
    if head[0..2] != MAGIC || head[2] != VERSION {
        return Err(Refused::Foreign);
    }
    let kind = match head[3] {
        1 => Kind::Request,
        2 => Kind::Reply,
        _ => return Err(Refused::Foreign),
    };
    let (signed, tag) = head.split_last_chunk::<TAG_BYTES>().ok_or(Refused::Foreign)?;
    if !key.accepts(&[signed, body], tag) {
        return Err(Refused::Forged);
    }
    let mut rest = Reader(&head[4..]);
    let header = Header {
        kind,
        server: ServerId(rest.u32()?),
        port: PortId(rest.u64()?),
        number: rest.u64()?,
        executed: rest.u64()?,
        held: rest.u64()?,
        back: u16::from_le_bytes(rest.array()?),
    };
    Ok((header, body))
}

/// Whether a datagram says that it is a reply. Nothing of it has been believed yet.
pub(crate) fn is_reply(packet: &[u8]) -> bool {
    packet.get(3) == Some(&2)
}

/// Which server a datagram names.
pub(crate) fn claimed_server(packet: &[u8]) -> Option<ServerId> {
    Reader(packet.get(4..)?).u32().ok().map(ServerId)
}

/// Takes numbers off the front of a datagram.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Refused> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Refused> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Refused> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Refused> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn scale(&mut self) -> Result<[u8; 16], Refused> {
        self.array()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_fabric::{Node, Rank};

    #[test]
    fn a_datagram_survives_the_wire_and_no_byte_of_it_can_be_changed() {
        let key = Key::from_bytes([3; 16]);
        let header = Header {
            kind: Kind::Reply,
            server: ServerId(7),
            port: PortId::of_rank(Rank(5), 2),
            number: 9,
            executed: 10,
            held: 0b101,
            back: 0,
        };
        let mut packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(b"the body");
        seal(&key, &header, &mut packet);
        assert_eq!(open(&key, &packet), Ok((header, &b"the body"[..])));
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 0x40;
            assert!(open(&key, &changed).is_err(), "byte {at}");
        }
        for length in 0..packet.len() {
            assert!(open(&key, &packet[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn ports_know_whose_they_are() {
        assert_eq!(PortId::of_rank(Rank(5), 2).rank(), Some(Rank(5)));
        assert_eq!(PortId::of_rank(Rank(5), 2).agent(), None);
        assert_eq!(PortId::of_agent(Node(3)).agent(), Some(Node(3)));
        assert_eq!(PortId::of_agent(Node(3)).rank(), None);
    }
}

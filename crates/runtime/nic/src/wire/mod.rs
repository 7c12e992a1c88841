//! The format of datagrams: a header, a tag and a body.
//!
//! Paper:   \[NIC02 section III-B\]: an operation's packet names node, port and address; the reply
//!          carries the result and the tag of the request, and acknowledges it.
//! Differs: one datagram carries many operations, so the number is the datagram's and each
//!          operation that is answered has a tag of its own; a reply also says what was executed.
//!
//! ```text
//!  0  "fs"       2  version   3  kind      4  server u32
//!  8  port u64  16  number u64
//! 24  executed u64           32  held u64
//! 40  reply port u16  42  zero  48  tag  64  body
//! ```
//!
//! A *request* goes from a port to a server. Its number counts the datagrams of that connection
//! from one, and its body is a sequence of operations ([`request`]). A *reply* goes back. Its
//! number is that of the request it answers (zero: none), `executed` and `held` acknowledge, and
//! its body is a sequence of answers ([`answer`]). Everything is little-endian.
//!
//! Decoding checks every length before it is used and never allocates.

pub(crate) mod answer;
pub(crate) mod request;

use crate::transport::seal::{Key, TAG_BYTES};

/// The length of the header, with the tag.
pub(crate) const HEADER_BYTES: usize = 64;
const TAG_AT: usize = HEADER_BYTES - TAG_BYTES;
const MAGIC: [u8; 2] = *b"fs";
const VERSION: u8 = 6;

/// The port that operations come from: that of a rank's thread, or of an agent. It names a process
/// on a node, as a port of GM does \[NIC02 section III-A\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortId(pub(crate) u64);

impl PortId {
    /// The number of threads of a rank that may communicate at a time; the first ports are theirs.
    pub(crate) const THREADS: u32 = 64;
    pub(crate) const HANDLERS: u32 = PortId::THREADS;
    /// The port from which a rank reports that it leaves.
    pub(crate) const LEAVE: u32 = PortId::THREADS + 1;

    pub(crate) fn of_rank(rank: farside_fabric::Rank, which: u32) -> PortId {
        PortId((u64::from(rank.0) << 32) | u64::from(which))
    }

    pub(crate) fn is_of_handlers(self) -> bool {
        self.rank().is_some() && self.0 as u32 == PortId::HANDLERS
    }

    /// Returns whether the index is one that ports of ranks have.
    pub(crate) fn is_possible(self) -> bool {
        self.rank().is_none() || self.0 as u32 <= PortId::LEAVE
    }

    pub(crate) fn of_agent(node: farside_fabric::Node) -> PortId {
        PortId((u64::from(u32::MAX) << 32) | u64::from(node.0))
    }

    /// Returns the rank that the port belongs to, unless it is an agent's.
    pub(crate) fn rank(self) -> Option<farside_fabric::Rank> {
        let rank = (self.0 >> 32) as u32;
        (rank != u32::MAX).then_some(farside_fabric::Rank(rank))
    }

    /// Returns the node whose agent the port belongs to, if it is an agent's.
    pub(crate) fn agent(self) -> Option<farside_fabric::Node> {
        self.rank().is_none().then_some(farside_fabric::Node(self.0 as u32))
    }
}

/// A server of operations: the agent of a node, or the host-based server of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerId(pub(crate) u32);

/// The direction of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) server: ServerId,
    pub(crate) port: PortId,
    /// The number of a request; in a reply, of the request that it answers, or zero.
    pub(crate) number: u64,
    /// In a reply: all requests up to this number have been executed. In a request: all up to this
    /// one are closed, and their answers are wanted no more.
    pub(crate) executed: u64,
    /// In a reply: bit `i` says that request `executed + 2 + i` has arrived, ahead of its turn.
    pub(crate) held: u64,
    /// In a request: the UDP port, at its node's address, that replies go to. The source address of
    /// a datagram is not authenticated, so it is not used.
    pub(crate) reply_port: u16,
}

/// The reason for which a datagram was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too short, of another kind or another version.
    Foreign,
    /// The tag is wrong.
    Forged,
    /// It is authentic, but its body is inconsistent: a bug, or two versions of one number.
    Malformed,
    /// It is meant for another server or port, or from one that cannot exist.
    Astray,
    /// It was executed so long ago that no sender repeats it, or is further ahead than the window.
    Stale,
    /// It comes from a node or a rank that counts as lost.
    Late,
}

/// Writes the header and the tag of a datagram whose body is complete.
pub(crate) fn seal(key: &Key, header: &Header, packet: &mut [u8]) {
    seal_parts(key, header, packet, &[]);
}

/// Likewise for a datagram whose body ends with `rest`.
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
    packet[40..42].copy_from_slice(&header.reply_port.to_le_bytes());
    packet[42..48].fill(0);
    let tag = key.tag(&[&packet[..TAG_AT], &packet[HEADER_BYTES..], rest]);
    packet[TAG_AT..HEADER_BYTES].copy_from_slice(&tag);
}

pub(crate) fn seal_again(key: &Key, packet: &mut [u8]) {
    let tag = key.tag(&[&packet[..TAG_AT], &packet[HEADER_BYTES..]]);
    packet[TAG_AT..HEADER_BYTES].copy_from_slice(&tag);
}

/// Returns the header and the body of a datagram, if it is authentic.
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
        reply_port: u16::from_le_bytes(rest.array()?),
    };
    Ok((header, body))
}

/// Returns whether a datagram claims to be a reply, before it is authenticated.
pub(crate) fn is_reply(packet: &[u8]) -> bool {
    packet.get(3) == Some(&2)
}

/// Returns the server that a datagram claims, before it is authenticated.
pub(crate) fn claimed_server(packet: &[u8]) -> Option<ServerId> {
    Reader(packet.get(4..)?).u32().ok().map(ServerId)
}

/// Reads numbers from the front of a datagram.
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

    pub(crate) fn operand(&mut self) -> Result<[u8; 16], Refused> {
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
            reply_port: 0,
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

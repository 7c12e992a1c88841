//! Replies: answers complete parts of transfers, and the header acknowledges requests.
//!
//! Paper:   \[NIC02 section III-B\]: upon the reply, the interface processes the acknowledgement
//!          and returns a receive token with the value and the tag.
//! Differs: an answer counts only under the number of an open request, since tags are used again.

use farside_fabric::Reply;

use super::{Called, Origin};
use crate::link::Acknowledgement;
use crate::link::variant::Variant;
use crate::wire::answer::{Answer, Answers, Fault};
use crate::wire::{self, Header, Kind, Refused, ServerId};

const SPARE_PACKETS: usize = 64;

impl<V: Variant> Origin<V> {
    /// Takes in a datagram. Returns whether it said anything new; a copy of an earlier one does
    /// not.
    pub(crate) fn receive(&mut self, packet: &[u8], now_ns: u64) -> Result<bool, Refused> {
        let (header, body) = wire::open(&self.key, packet)?;
        if header.kind != Kind::Reply || header.port != self.id {
            return Err(Refused::Astray);
        }
        let peer = self.peers.get(header.server.0 as usize).ok_or(Refused::Astray)?;
        if peer.is_lost {
            return Err(Refused::Late);
        }
        let is_awaited = peer.sender.awaits(header.number) || !V::MATCHES_NUMBERS;
        let known_complaints = peer.complaints;
        for answer in Answers::new(body) {
            match answer? {
                Answer::Complaint { count, fault } if count > known_complaints => {
                    self.note_complaint(header.server, count, fault);
                }
                Answer::Complaint { .. } => {}
                Answer::Called { slot, state, bytes } => {
                    self.ends += 1;
                    let (server, bytes) = (header.server, bytes.to_vec());
                    self.calls.push(Called { server, slot, state, bytes });
                }
                answer if is_awaited => self.complete_part(header.server, &answer),
                _ => {}
            }
        }
        Ok(self.acknowledge(&header, now_ns))
    }

    fn complete_part(&mut self, server: ServerId, answer: &Answer<'_>) {
        let transfers = &mut self.transfers;
        let is_over = match *answer {
            Answer::Word { tag, value } => transfers.complete_part(tag, server, |_, transfer| {
                transfer.outcome = Ok(Reply::Word(value));
            }),
            Answer::Bytes { tag, data } => {
                transfers.complete_part(tag, server, |part, transfer| transfer.fill(part, data))
            }
            Answer::Refused { tag, fault } => {
                transfers.complete_part(tag, server, |_, transfer| {
                    transfer.outcome = Err(fault.error());
                })
            }
            Answer::Complaint { .. } | Answer::Called { .. } => false,
        };
        self.ends += u64::from(is_over);
    }

    /// Records the refusal of a posted operation; of several for one rank, the first.
    fn note_complaint(&mut self, server: ServerId, count: u64, fault: Fault) {
        let peer = &mut self.peers[server.0 as usize];
        peer.complaints = peer.complaints.max(count);
        if peer.faults.iter().all(|known| known.rank() != fault.rank()) {
            peer.faults.push(fault);
        }
    }

    /// Closes the requests that a reply acknowledges; what was lent for them is over.
    fn acknowledge(&mut self, header: &Header, now_ns: u64) -> bool {
        let Origin { peers, transfers, spare, ends, .. } = self;
        let peer = &mut peers[header.server.0 as usize];
        let had_landed = peer.has_landed();
        let Header { number, executed, held, .. } = *header;
        let reply = Acknowledgement { number, executed, held };
        let is_news = peer.sender.acknowledge(reply, now_ns, |packet, loan| {
            if let Some(tag) = loan.and_then(|loan| loan.part()) {
                *ends += u64::from(transfers.complete_part(tag, header.server, |_, _| {}));
            }
            if spare.len() < SPARE_PACKETS {
                spare.push(packet);
            }
        });
        *ends += u64::from(!had_landed && peer.has_landed());
        is_news
    }
}

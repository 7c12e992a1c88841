//! Authentic datagrams that no honest member sends: a member that went mad, or another version that
//! calls itself the same.
//!
//! Each must be refused without touching memory, without a panic, and without more work than its
//! length deserves.

use std::net::SocketAddr;
use std::sync::Arc;

use farside_fabric::{
    Accumulate, Atomic, ExitCause, Loss, Node, Number, Op, PeerState, Rank, SegmentId, Word,
};
use farside_shm::Job;

use super::memory::{BYTES, hosts, nodes, real_job};
use super::*;
use crate::target::memory::NodeMemory;
use crate::transport::{Carrier, PeerAddress};
use crate::wire::answer::{Answer, Answers};
use crate::wire::request::{self, Request, Rows};
use crate::wire::{self, HEADER_BYTES, Header, Kind, PortId};

const REPLY_BYTES: usize = 62 << 10;
const HERE: Node = Node(2);
const NEAR: Rank = Rank(4);

struct Victim {
    key: Key,
    job: Arc<Job>,
    service: Service<NodeMemory>,
    number: u64,
    replies: Vec<(PeerAddress, Vec<u8>)>,
}

impl Victim {
    fn new() -> Victim {
        let key = Key::from_bytes([9; 16]);
        let (job, target) = real_job(HERE, &key);
        for rank in job.topology().all().iter() {
            let filled =
                job.segment(*rank, SegmentId::ROOT).unwrap().put(0, &vec![0x5A; BYTES as usize]);
            assert!(filled);
        }
        let service = Service::new(ServerId(HERE.0), key.clone(), REPLY_BYTES, nodes(), target);
        Victim { key, job, service, number: 0, replies: Vec::new() }
    }

    /// Sends a body under a valid tag; says whether it was taken.
    fn send(&mut self, port: PortId, number: u64, body: &[u8]) -> bool {
        let before = self.service.refusals();
        let mut packet = vec![0; HEADER_BYTES];
        packet.extend_from_slice(body);
        let header = Header {
            kind: Kind::Request,
            server: ServerId(HERE.0),
            port,
            number,
            executed: 7,
            held: 7,
            reply_port: 33,
        };
        wire::seal(&self.key, &header, &mut packet);
        let Victim { service, replies, .. } = self;
        service.receive(&packet, Carrier::DATAGRAM, &mut |to, reply: &[u8], _| {
            replies.push((to, reply.to_vec()))
        });
        service.rest(&mut |to, reply: &[u8], _| replies.push((to, reply.to_vec())));
        for (to, reply) in &self.replies {
            assert!(reply.len() <= REPLY_BYTES, "a reply of {} bytes", reply.len());
            assert_eq!(*to, PeerAddress::Socket(SocketAddr::new(hosts()[0], 33)));
        }
        self.service.refusals() == before
    }

    /// Sends one request, as the next of an honest connection.
    fn request(&mut self, request: &Request<'_>) -> bool {
        let mut body = Vec::new();
        request::encode(request, &mut body);
        self.body(&body)
    }

    fn body(&mut self, body: &[u8]) -> bool {
        let taken = self.send(PortId::of_rank(Rank(0), 0), self.number + 1, body);
        self.number += u64::from(taken);
        taken
    }

    fn assert_untouched(&self, what: &str) {
        let mut bytes = vec![0; BYTES as usize];
        for rank in self.job.topology().all().iter() {
            assert!(self.job.segment(*rank, SegmentId::ROOT).unwrap().get(0, &mut bytes));
            assert!(bytes.iter().all(|&byte| byte == 0x5A), "{what} has changed memory of {rank}");
        }
    }
}

fn rows(offset: u64, unit: u32, count: u32, stride: u64) -> Rows {
    Rows { rank: NEAR, segment: SegmentId::ROOT, offset, unit, count, stride }
}

fn nowhere() -> Vec<Rows> {
    let mut all = vec![
        rows(u64::MAX, 8, 1, 0),
        rows(u64::MAX - 7, 8, 1, 0),
        rows(BYTES - 7, 8, 1, 0),
        rows(BYTES, 8, 1, 0),
        rows(0, 8, 2, u64::MAX),
        rows(8, 8, 2, u64::MAX - 7),
        rows(0, 1, 8, u64::MAX / 7 + 1),
        rows(BYTES - 8, 4, 2, 8),
    ];
    for rank in [Rank(0), Rank(6), Rank(8), Rank(u32::MAX)] {
        all.push(Rows { rank, ..rows(0, 8, 1, 0) });
    }
    for segment in [0, 2, 77, u64::MAX, u64::MAX - 1] {
        all.push(Rows { segment: SegmentId(segment), ..rows(0, 8, 1, 0) });
    }
    all
}

#[test]
fn transfers_to_nowhere_change_nothing() {
    let mut victim = Victim::new();
    for at in nowhere() {
        let data = vec![1; at.bytes() as usize];
        let accumulate = Accumulate::scaled_sum(Number::I32, [1; 16]).unwrap();
        let mut word =
            Word { rank: at.rank, segment: at.segment, offset: at.offset, width: Width::W64 };
        if at.count > 1 {
            word.offset = BYTES;
        }
        let pair = Word { width: Width::Pair, ..word };
        let swap = Atomic::CompareSwap { expected: 0x5A5A_5A5A_5A5A_5A5A, desired: 1 };
        // They are executed, and refused by the memory; the answer says so.
        assert!(victim.request(&Request::Put { to: at, data: &data, counts: true }));
        let posted = Request::Accumulate { to: at, accumulate, data: &data, counts: true };
        assert!(victim.request(&posted));
        let fetching = Request::GetAccumulate { tag: 4, to: at, accumulate, data: &data };
        assert!(victim.request(&fetching));
        assert!(victim.request(&Request::Post { at: word, op: Atomic::Store(1), counts: true }));
        assert!(victim.request(&Request::Get { tag: 1, from: at }));
        assert!(victim.request(&Request::Atomic { tag: 2, at: word, op: swap }));
        assert!(victim.request(&Request::Atomic { tag: 3, at: pair, op: Atomic::Swap(1) }));
        victim.assert_untouched(&format!("{at:?}"));
    }
    let answers = victim.replies.iter().flat_map(|(_, reply)| Answers::new(&reply[HEADER_BYTES..]));
    let answers: Vec<Answer<'_>> = answers.map(Result::unwrap).collect();
    let count = |is_it: fn(&&Answer<'_>) -> bool| answers.iter().filter(is_it).count();
    assert_eq!(count(|answer| matches!(answer, Answer::Refused { .. })), 4 * nowhere().len());
    assert_eq!(count(|answer| matches!(answer, Answer::Word { .. } | Answer::Bytes { .. })), 0);
    assert!(count(|answer| matches!(answer, Answer::Complaint { .. })) > 0);
}

#[test]
fn what_is_misaligned_or_makes_no_sense_changes_nothing() {
    let mut victim = Victim::new();
    let word = Word { rank: NEAR, segment: SegmentId::ROOT, offset: 4, width: Width::W64 };
    let pair = Word { offset: 16, width: Width::Pair, ..word };
    let accumulate = Accumulate::scaled_sum(Number::C64, [1; 16]).unwrap();
    assert!(victim.request(&Request::Atomic { tag: 1, at: word, op: Atomic::Add(1) }));
    assert!(victim.request(&Request::Atomic { tag: 1, at: pair, op: Atomic::Add(1) }));
    assert!(victim.request(&Request::Post {
        at: Word { offset: 24, ..pair },
        op: Atomic::Swap(1),
        counts: false
    }));
    assert!(victim.request(&Request::Accumulate {
        to: rows(0, 8, 1, 0),
        accumulate,
        data: &[1; 8],
        counts: false
    }));
    assert!(victim.request(&Request::Accumulate {
        to: rows(4, 16, 1, 0),
        accumulate,
        data: &[1; 16],
        counts: false
    }));
    // Rows without bytes, very many of them: no time for that.
    assert!(victim.request(&Request::Put {
        to: rows(0, 0, u32::MAX, 0),
        data: &[],
        counts: false
    }));
    assert!(victim.request(&Request::Get { tag: 1, from: rows(0, 0, u32::MAX, 0) }));
    assert!(victim.request(&Request::Accumulate {
        to: rows(0, 0, u32::MAX, 0),
        accumulate,
        data: &[],
        counts: false
    }));
    for (to, data) in [(rows(0, 8, 1, 0), &[1; 8][..]), (rows(4, 16, 1, 0), &[1; 16])] {
        assert!(victim.request(&Request::GetAccumulate { tag: 2, to, accumulate, data }));
    }
    let to = rows(0, 0, u32::MAX, 0);
    assert!(victim.request(&Request::GetAccumulate { tag: 3, to, accumulate, data: &[] }));
    // What needs no data could be without end: it is not posted.
    let accumulate = Accumulate::new(Number::U8, Op::NoOp).unwrap();
    let to = rows(0, 1, u32::MAX, 0);
    assert!(!victim.request(&Request::Accumulate { to, accumulate, data: &[], counts: true }));
    victim.assert_untouched("nonsense");
}

#[test]
fn nobody_is_answered_more_than_a_reply_holds() {
    let mut victim = Victim::new();
    for from in [
        rows(0, u32::MAX, 1, 0),
        rows(0, u32::MAX, u32::MAX, 0),
        rows(0, 1, u32::MAX, 0),
        rows(0, 1 << 16, 1, 0),
    ] {
        assert!(!victim.request(&Request::Get { tag: 1, from }), "{from:?}");
        let accumulate = Accumulate::new(Number::U8, Op::NoOp).unwrap();
        let fetching = Request::GetAccumulate { tag: 1, to: from, accumulate, data: &[] };
        assert!(!victim.request(&fetching), "{from:?}");
    }
    // Small questions with larger answers, as many as a datagram holds.
    let question = Request::Where { tag: 1, rank: Rank(99) };
    let mut many = Vec::new();
    while many.len() < (63 << 10) {
        request::encode(&question, &mut many);
    }
    assert!(!victim.body(&many), "{} bytes of questions", many.len());
    request::encode(&Request::Get { tag: 2, from: rows(0, u32::MAX, u32::MAX, 0) }, &mut many);
    assert!(!victim.body(&many));
    // As many as may be.
    let mut some = Vec::new();
    (0..(REPLY_BYTES - HEADER_BYTES) / 64).for_each(|_| request::encode(&question, &mut some));
    assert!(victim.body(&some));
    victim.assert_untouched("a question");
    assert_eq!(victim.service.refusals().malformed, 10);
}

#[test]
fn lengths_that_do_not_fit_their_datagram_are_malformed() {
    let mut victim = Victim::new();
    let requests = [
        Request::Put { to: rows(0, 64, 1, 0), data: &[1; 64], counts: false },
        Request::Put { to: rows(0, 8, 8, 64), data: &[1; 64], counts: true },
        Request::Call { slot: 1, handler: 1, argument: &[1; 64] },
    ];
    for (request, length_at) in requests.iter().zip([21, 25, 9]) {
        let mut body = Vec::new();
        request::encode(request, &mut body);
        for length in [65u32, u32::MAX, 1 << 31] {
            let mut wrong = body.clone();
            wrong[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
            assert!(!victim.body(&wrong), "{request:?} with {length}");
        }
        // What comes before it is not executed, either.
        let mut half = Vec::new();
        request::encode(&requests[0], &mut half);
        half.extend_from_slice(&body[..body.len() - 1]);
        assert!(!victim.body(&half));
    }
    for kind in [0, 13, 77, 0x80, 0x83, 0x86, 0xFF] {
        assert!(!victim.body(&[kind; 100]), "kind {kind}");
    }
    victim.assert_untouched("a wrong length");
}

#[test]
fn what_a_lost_rank_had_sent_is_not_executed_and_its_last_words_are_acknowledged() {
    let mut victim = Victim::new();
    let killed = PeerState::Lost(ExitCause::Signal(9));
    let encoded = |request: &Request<'_>| {
        let mut body = Vec::new();
        request::encode(request, &mut body);
        body
    };
    let put =
        |bytes: &[u8]| encoded(&Request::Put { to: rows(0, 1, 1, 0), data: bytes, counts: false });
    let (thread, leave) = (PortId::of_rank(Rank(0), 0), PortId::of_rank(Rank(0), PortId::LEAVE));
    assert!(victim.send(thread, 1, &put(&[0x5A])));
    // This one waits for its turn.
    assert!(victim.send(thread, 3, &put(&[3])));
    let last_words = encoded(&Request::Member { rank: Rank(0), peer_state: killed, cause: None });
    assert!(victim.send(leave, 1, &last_words));
    assert_eq!(victim.job.peer_state(Rank(0)), killed);
    victim.replies.clear();
    // What its kernel had still to send.
    assert!(!victim.send(thread, 2, &put(&[2])));
    assert!(!victim.send(thread, 4, &put(&[4])));
    assert_eq!((victim.service.refusals().late, victim.replies.len()), (2, 0));
    victim.assert_untouched("a lost rank");
    // A rank that has failed reports that itself, and waits for the acknowledgement.
    assert!(victim.send(leave, 1, &last_words));
    assert_eq!(victim.replies.len(), 1);
    // Others of its node are there.
    assert!(victim.send(PortId::of_rank(Rank(1), 0), 1, &put(&[0x5A])));
    assert!(victim.send(PortId::of_agent(Node(0)), 1, &encoded(&Request::Ping)));
}

#[test]
fn fates_and_ports_of_others_are_not_believed() {
    let mut victim = Victim::new();
    // Rank 0 is on node 0, which cannot speak for ranks of node 1 and 2, nor for those that are not
    // there.
    for rank in [Rank(2), Rank(4), Rank(7), Rank(8), Rank(u32::MAX)] {
        let before = (0..8).map(|rank| victim.job.peer_state(Rank(rank))).collect::<Vec<_>>();
        for peer_state in [
            PeerState::Left,
            PeerState::Lost(ExitCause::Silent),
            PeerState::Lost(ExitCause::Signal(9)),
        ] {
            assert!(victim.request(&Request::Member { rank, peer_state, cause: None }));
        }
        assert_eq!(
            (0..8).map(|rank| victim.job.peer_state(Rank(rank))).collect::<Vec<_>>(),
            before
        );
    }
    // A cause that names no rank of the job.
    for rank in [Rank(8), Rank((1 << 27) - 1)] {
        let cause = Some(Loss { rank, how: ExitCause::Signal(9) });
        assert!(victim.request(&Request::Member {
            rank: Rank(1),
            peer_state: PeerState::Left,
            cause
        }));
        assert_ne!(victim.job.peer_state(Rank(1)), PeerState::Left, "{rank}");
    }
    // A fate that is none, and a cause that is none.
    for at in [5, 13] {
        let mut body = Vec::new();
        request::encode(
            &Request::Member { rank: Rank(1), peer_state: PeerState::Left, cause: None },
            &mut body,
        );
        body[at..at + 8].copy_from_slice(&99u64.to_le_bytes());
        assert!(!victim.body(&body), "byte {at}");
    }
    // Ports that cannot be.
    let ping = [12];
    let impossible = [
        PortId::of_rank(Rank(8), 0),
        PortId::of_rank(Rank(0), PortId::LEAVE + 1),
        PortId::of_rank(Rank(0), u32::MAX),
        PortId::of_agent(Node(4)),
        PortId(u64::MAX),
    ];
    for port in impossible {
        assert!(!victim.send(port, 1, &ping), "{port:?}");
    }
    // Numbers that cannot be.
    for number in [0, WINDOW + 100, u64::MAX, u64::MAX - 1] {
        assert!(!victim.send(PortId::of_rank(Rank(0), 1), number, &ping), "number {number}");
    }
    victim.assert_untouched("news");
}

#[test]
fn calls_do_not_pile_up_and_connections_are_few() {
    let mut victim = Victim::new();
    for slot in [0, 15, 16, u32::MAX, u32::MAX - 15].into_iter().cycle().take(1000) {
        let argument = vec![1; (slot % 5000) as usize];
        assert!(victim.request(&Request::Call { slot, handler: u32::MAX, argument: &argument }));
        assert!(victim.request(&Request::Recall { slot: slot ^ 0x10 }));
    }
    assert!(!victim.service.has_calls(), "no handlers there: every call is answered");
    for which in 0..10_000 {
        victim.send(PortId::of_rank(Rank(which % 8), which / 8), 1, &[12]);
    }
    assert!(victim.service.connections() <= 8 * (PortId::LEAVE as usize + 1));
    victim.assert_untouched("a call");
}

#[test]
fn two_ranks_of_one_node_are_told_of_their_own_faults() {
    let mut victim = Victim::new();
    let beyond = |rank| Request::Put {
        to: Rows { rank, ..rows(BYTES, 8, 1, 0) },
        data: &[1; 8],
        counts: false,
    };
    let mut origin =
        Origin::new(PortId::of_rank(Rank(0), 0), victim.key.clone(), 33, memory::NODES, 1432);
    let mut out = Vec::new();
    for rank in [Rank(4), Rank(5)] {
        origin.post(ServerId(2), &beyond(rank));
    }
    origin.push();
    origin.pump(1, &mut |_: ServerId, packet: &[u8]| out.push(packet.to_vec()));
    for packet in out {
        victim.service.receive(&packet, Carrier::DATAGRAM, &mut |_, _: &[u8], _| ());
    }
    let mut replies = Vec::new();
    victim.service.rest(&mut |_, reply: &[u8], _| replies.push(reply.to_vec()));
    for reply in replies {
        assert_eq!(origin.receive(&reply, 2), Ok(true));
        assert_eq!(
            origin.receive(&reply, 3),
            Ok(false),
            "recorded and sent again: no sign of life"
        );
    }
    assert!(origin.has_landed(ServerId(2)));
    for rank in [Rank(4), Rank(5)] {
        assert!(origin.complaint(ServerId(2), rank).is_err(), "{rank}");
        assert!(origin.complaint(ServerId(2), rank).is_ok(), "told once");
    }
}

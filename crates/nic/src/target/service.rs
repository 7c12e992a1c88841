//! The server's side of the wire, without a socket: datagrams go in, memory is changed, replies
//! come out.
//!
//! Nothing is believed: a datagram that is not authentic is dropped without an answer, one that
//! contradicts itself or is not meant for this server likewise, and every operation is checked
//! against segment, bounds and alignment by the [`Memory`] that it is to change.

#[cfg(test)]
mod state;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use farside_fabric::{Atomic, Loss, Node, PeerState, Rank, Result, SegmentId, Sum, Topology, Word};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::link::variant::{Right, Variant};
use crate::link::{Receiver, Verdict};
use crate::transport::seal::Key;
use crate::transport::{Address, Line, Route};
use crate::wire::answer::{self, Answer, Fault};
use crate::wire::request::{About, Request, Requests, Rows};
use crate::wire::{self, HEADER_BYTES, Header, Kind, PortId, Refused, ServerId};

/// After so many requests without an answer an acknowledgement is sent although more may be
/// waiting.
const ACKNOWLEDGE_AFTER: u32 = 6;
/// Of how many ranks' memory a connection is told what was refused there: as many complaints as fit
/// into any reply beside the longest answers.
const COMPLAINTS_MAX: usize = 40;

/// What operations change.
pub(crate) trait Memory {
    fn put(&mut self, to: &Rows, data: &[u8]) -> Result<()>;
    /// Appends what is there.
    fn get(&mut self, from: &Rows, into: &mut Vec<u8>) -> Result<()>;
    fn accumulate(&mut self, to: &Rows, sum: &Sum, data: &[u8]) -> Result<()>;
    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128>;
    /// A word was changed by somebody else: wakes whoever sleeps for it.
    fn wake(&mut self, at: Word);
    /// Counts so many landings.
    fn count_landings(&mut self, count: u64);
    /// Asks a handler; the answer is there when [`Memory::answer`] says so.
    fn call(&mut self, caller: Rank, slot: u32, handler: u32, argument: &[u8]);
    fn answer(&mut self, caller: Rank, slot: u32) -> Asked;
    fn note_departure(&mut self, rank: Rank, peer_state: PeerState, cause: Option<Loss>);
    /// The port at which a rank serves itself, zero if it does not (yet).
    fn locate(&mut self, rank: Rank) -> Result<u16>;
    /// About a segment that may be reached without asking here. `may_end` says whether whoever asks
    /// may end that.
    fn segment(
        &mut self,
        rank: Rank,
        segment: SegmentId,
        about: About,
        may_end: bool,
    ) -> Result<u128>;
}

/// What has become of a call.
pub(crate) enum Asked {
    Pending,
    Answered(u32, Vec<u8>),
    /// The caller has used the slot for another call since, or never for this one.
    Forgotten,
}

/// What sends replies.
pub(crate) type Out<'a> = &'a mut dyn FnMut(Route, &[u8]);

/// Datagrams that were dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Not of this protocol, or of another version.
    pub foreign: u64,
    /// With a wrong tag.
    pub forged: u64,
    /// Authentic, but contradictory.
    pub malformed: u64,
    /// Authentic, but meant for somebody else.
    pub astray: u64,
    /// Authentic, but too old or too far ahead.
    pub stale: u64,
    /// Of a node that was given up.
    pub late: u64,
}

impl Refusals {
    pub(crate) fn count(&mut self, refused: Refused) {
        *match refused {
            Refused::Foreign => &mut self.foreign,
            Refused::Forged => &mut self.forged,
            Refused::Malformed => &mut self.malformed,
            Refused::Astray => &mut self.astray,
            Refused::Stale => &mut self.stale,
            Refused::Late => &mut self.late,
        } += 1;
    }
}

/// Serves requests.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Service<M, V = Right> {
    id: ServerId,
    key: Key,
    packet_bytes: usize,
    topology: Topology,
    /// The address of each node.
    hosts: Vec<IpAddr>,
    /// What knows the addresses of those who introduce themselves; without it nobody has to.
    line: Option<Arc<dyn Line>>,
    memory: M,
    connections: FxHashMap<PortId, Connection<V>>,
    lost: FxHashSet<Node>,
    /// Connections that have not been told how far they are.
    silent: Vec<PortId>,
    /// What has landed with the request that is being executed.
    landings: u64,
    /// Calls whose answer has not been sent.
    calls: Vec<(PortId, Rank, u32)>,
    /// The reply that is being written.
    reply: Vec<u8>,
    refusals: Refusals,
}

#[cfg_attr(test, derive(Clone))]
struct Connection<V> {
    /// Where its port is: on its node, as its requests say, or as it has introduced itself. Whence
    /// they came is not asked: a datagram that was recorded, and sent from elsewhere, even ahead of
    /// the original, makes nobody else hear from us.
    route: Option<Route>,
    receiver: Receiver<V>,
    unanswered: u32,
    complaints: u64,
    /// The last posted operation on each rank's memory that was refused, and which complaint that
    /// was.
    faults: Vec<(u64, Fault)>,
}

impl<M: Memory> Service<M> {
    /// A server on a network whose nodes are at `hosts`.
    pub(crate) fn new(
        id: ServerId,
        key: Key,
        packet_bytes: usize,
        (topology, hosts): (Topology, Vec<IpAddr>),
        memory: M,
    ) -> Service<M> {
        Service::of_variant(id, key, packet_bytes, (topology, hosts), memory)
    }
}

impl<M: Memory, V: Variant> Service<M, V> {
    pub(crate) fn of_variant(
        id: ServerId,
        key: Key,
        packet_bytes: usize,
        (topology, hosts): (Topology, Vec<IpAddr>),
        memory: M,
    ) -> Service<M, V> {
        Service {
            id,
            key,
            packet_bytes,
            topology,
            hosts,
            line: None,
            memory,
            connections: FxHashMap::default(),
            lost: FxHashSet::default(),
            silent: Vec::new(),
            landings: 0,
            calls: Vec::new(),
            reply: Vec::with_capacity(packet_bytes),
            refusals: Refusals::default(),
        }
    }

    /// Likewise, on a network whose ports introduce themselves.
    pub(crate) fn over(mut self, line: Arc<dyn Line>) -> Service<M, V> {
        self.line = Some(line);
        self
    }

    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Counts a datagram that was dropped elsewhere.
    pub(crate) fn count(&mut self, refused: Refused) {
        self.refusals.count(refused);
    }

    /// How many ports there are that have ever been heard of.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Whether an answer is still to be sent that no datagram will bring about.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// A node is given up: whatever still comes from it is dropped.
    pub(crate) fn give_up(&mut self, node: Node) {
        self.lost.insert(node);
        let (topology, lost) = (&self.topology, &self.lost);
        self.connections
            .retain(|&port, _| node_of(topology, port).is_some_and(|node| !lost.contains(&node)));
        self.calls.retain(|&(port, ..)| {
            node_of(topology, port).is_some_and(|node| !lost.contains(&node))
        });
    }

    /// A datagram has arrived. If it is authentic, and cannot have been recorded long ago, says
    /// from which node.
    pub(crate) fn receive(&mut self, packet: &[u8], out: Out<'_>) -> Option<Node> {
        let read = self.read(packet, out);
        read.inspect_err(|&refused| self.refusals.count(refused)).ok().flatten()
    }

    fn read(&mut self, packet: &[u8], out: Out<'_>) -> Result<Option<Node>, Refused> {
        let (header, body) = wire::open(&self.key, packet)?;
        if header.kind != Kind::Request || header.server != self.id {
            return Err(Refused::Astray);
        }
        let port = header.port;
        let node = node_of(&self.topology, port).ok_or(Refused::Astray)?;
        if self.lost.contains(&node) && V::HEEDS_LOSSES {
            return Err(Refused::Late);
        }
        let host = *self.hosts.get(node.0 as usize).ok_or(Refused::Astray)?;
        self.check(body)?;
        let known = self.line.is_none().then(|| Route::Socket(SocketAddr::new(host, header.back)));
        let connection = self.connections.entry(port).or_insert_with(|| Connection::new(known));
        match connection.receiver.judge(header.number, body) {
            Verdict::Now => {
                self.execute(port, body, out);
                while let Some(body) =
                    self.connections.get_mut(&port).and_then(|it| it.receiver.next_held())
                {
                    self.execute(port, &body, out);
                }
                return Ok(Some(node));
            }
            Verdict::Again if V::ANSWERS_REPETITIONS => {
                self.answer_again(port, header.number, body, out)
            }
            Verdict::Again => {}
            Verdict::Later => self.note_silence(port, out),
            Verdict::Never => return Err(Refused::Stale),
        }
        Ok(None)
    }

    /// All or nothing: what is found wrong half-way has changed nothing. What asks for more than a
    /// reply holds was sent by nobody who knows the protocol.
    fn check(&self, body: &[u8]) -> Result<(), Refused> {
        let mut room = (self.packet_bytes - HEADER_BYTES) as u64;
        Requests::new(body).try_for_each(|request| {
            room = room.checked_sub(request?.answer_bytes_max()).ok_or(Refused::Malformed)?;
            Ok(())
        })
    }

    /// Executes the request whose turn it is.
    fn execute(&mut self, port: PortId, body: &[u8], out: Out<'_>) {
        self.reply.clear();
        self.reply.resize(HEADER_BYTES, 0);
        let mut wants_answer = false;
        // What must not be done twice first, so that it can be remembered in one piece; the order
        // of answers means nothing.
        let mut faults = Vec::new();
        for request in Requests::new(body).flatten() {
            if let Some(answered) = self.carry_out(port, &request, &mut faults) {
                wants_answer |= answered;
            }
        }
        // Once for all: each would wake whoever waits for them.
        if self.landings > 0 {
            self.memory.count_landings(std::mem::take(&mut self.landings));
        }
        let Some(connection) = self.connections.get_mut(&port) else { return };
        faults.into_iter().for_each(|fault| connection.complain(fault));
        connection.receiver.executed(&self.reply[HEADER_BYTES..]);
        if wants_answer {
            let number = connection.receiver.executed_up_to();
            self.read_all(body);
            self.send(port, number, out);
        } else {
            self.note_silence(port, out);
        }
    }

    /// Answers a request that was executed before: words from memory of it, reads anew.
    fn answer_again(&mut self, port: PortId, number: u64, body: &[u8], out: Out<'_>) {
        self.reply.clear();
        self.reply.resize(HEADER_BYTES, 0);
        if let Some(connection) = self.connections.get(&port) {
            self.reply
                .extend_from_slice(connection.receiver.remembered(number).unwrap_or_default());
        }
        self.read_all(body);
        self.send(port, if V::ANSWERS_BY_NUMBER { number } else { self.latest(port) }, out);
    }

    /// The number of the last request that was executed.
    fn latest(&self, port: PortId) -> u64 {
        self.connections.get(&port).map_or(0, |connection| connection.receiver.executed_up_to())
    }

    /// Does one operation; what it brings back is appended to the reply. Says whether an answer is
    /// wanted, `None` if it failed and nobody waits.
    fn carry_out(
        &mut self,
        port: PortId,
        request: &Request<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<bool> {
        let (memory, landings) = (&mut self.memory, &mut self.landings);
        let mut posted = |rank: Rank, counts: bool, done: Result<()>| {
            // A landing is counted even if it was refused: whoever waits for it would wait for
            // ever.
            *landings += u64::from(counts);
            if let Err(error) = done {
                faults.push(Fault::new(&error, rank));
            }
            Some(false)
        };
        match *request {
            Request::Put { to, data, counts } => {
                let done = memory.put(&to, data);
                posted(to.rank, counts, done)
            }
            Request::Accumulate { to, sum, data, counts } => {
                let done = memory.accumulate(&to, &sum, data);
                posted(to.rank, counts, done)
            }
            Request::Post { at, op, counts } => {
                let done = memory.atomic(at, op).map(drop);
                posted(at.rank, counts, done)
            }
            Request::Atomic { tag, at, op } => {
                let done = memory.atomic(at, op);
                self.answer_word(tag, at.rank, done)
            }
            Request::Where { tag, rank } => {
                let port = memory.locate(rank).map(u128::from);
                self.answer_word(tag, rank, port)
            }
            Request::Get { .. } => Some(true),
            Request::Call { slot, handler, argument } => {
                let caller = port.rank()?;
                memory.call(caller, slot, handler, argument);
                self.expect_answer(port, caller, slot);
                self.forget_calls(caller);
                Some(false)
            }
            Request::Recall { slot } => {
                let caller = port.rank()?;
                self.expect_answer(port, caller, slot);
                Some(false)
            }
            Request::Member { rank, peer_state, cause } => {
                self.note_departure(port, rank, peer_state, cause);
                Some(false)
            }
            Request::Ping => Some(false),
            Request::From { address } => {
                self.learn(port, address);
                Some(false)
            }
            Request::Segment { tag, rank, segment, about } => {
                let may_end = port.rank() == Some(rank);
                let done = memory.segment(rank, segment, about, may_end);
                self.answer_word(tag, rank, done)
            }
            Request::Changed { at } => {
                memory.wake(at);
                Some(false)
            }
            Request::Landed { count } => {
                *landings += u64::from(count);
                Some(false)
            }
        }
    }

    /// A node speaks for its own ranks. Why one of them left, it leaves behind in its memory.
    fn note_departure(
        &mut self,
        port: PortId,
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    ) {
        let is_member = |rank: Rank| self.topology.check(rank).is_ok();
        if is_member(rank)
            && cause.is_none_or(|cause| is_member(cause.rank))
            && node_of(&self.topology, port) == Some(self.topology.node_of(rank))
        {
            self.memory.note_departure(rank, peer_state, cause);
        }
    }

    /// A port says where it is. The first word counts: whoever has the job's key need not be
    /// believed twice.
    fn learn(&mut self, port: PortId, address: &[u8]) {
        let (Some(line), Some(node)) = (&self.line, node_of(&self.topology, port)) else { return };
        let host = self.hosts.get(node.0 as usize);
        let route = host.and_then(|&host| line.route(&Address::new(host, address).ok()?).ok());
        if let (Some(connection), Some(route)) = (self.connections.get_mut(&port), route) {
            connection.route.get_or_insert(route);
        }
    }

    fn expect_answer(&mut self, port: PortId, caller: Rank, slot: u32) {
        if !self.calls.contains(&(port, caller, slot)) {
            self.calls.push((port, caller, slot));
        }
    }

    /// Forgets the calls of a rank whose slots are used for others: nobody waits for their answers.
    fn forget_calls(&mut self, caller: Rank) {
        let memory = &mut self.memory;
        self.calls.retain(|&(_, rank, slot)| {
            rank != caller || !matches!(memory.answer(rank, slot), Asked::Forgotten)
        });
    }

    fn answer_word(&mut self, tag: u32, rank: Rank, done: Result<u128>) -> Option<bool> {
        let answer = match done {
            Ok(value) => Answer::Word { tag, value },
            Err(error) => Answer::Refused { tag, fault: Fault::new(&error, rank) },
        };
        answer::encode(&answer, &mut self.reply);
        Some(true)
    }

    /// Reads what a request asks for, and appends it to the reply.
    fn read_all(&mut self, body: &[u8]) {
        for request in Requests::new(body).flatten() {
            let Request::Get { tag, from } = request else { continue };
            let begin = self.reply.len();
            answer::begin_bytes(tag, from.bytes() as u32, &mut self.reply);
            let read = self.memory.get(&from, &mut self.reply);
            if let Err(error) = read {
                self.reply.truncate(begin);
                let fault = Fault::new(&error, from.rank);
                answer::encode(&Answer::Refused { tag, fault }, &mut self.reply);
            }
        }
    }

    /// A request was taken that needs no answer: acknowledged when there is nothing better to do,
    /// or when many were.
    fn note_silence(&mut self, port: PortId, out: Out<'_>) {
        let Some(connection) = self.connections.get_mut(&port) else { return };
        connection.unanswered += 1;
        if connection.unanswered == 1 {
            self.silent.push(port);
        } else if connection.unanswered >= ACKNOWLEDGE_AFTER {
            self.acknowledge(port, out);
        }
    }

    fn acknowledge(&mut self, port: PortId, out: Out<'_>) {
        self.reply.clear();
        self.reply.resize(HEADER_BYTES, 0);
        self.send(port, 0, out);
    }

    /// Nothing more has arrived: whoever has not heard from us does now.
    pub(crate) fn rest(&mut self, out: Out<'_>) {
        while let Some(port) = self.silent.pop() {
            if self.connections.get(&port).is_some_and(|connection| connection.unanswered > 0) {
                self.acknowledge(port, out);
            }
        }
        self.send_calls(out);
    }

    /// Sends what handlers have answered since.
    fn send_calls(&mut self, out: Out<'_>) {
        let mut at = 0;
        while let Some(&(port, caller, slot)) = self.calls.get(at) {
            let answer = self.memory.answer(caller, slot);
            if matches!(answer, Asked::Pending) {
                at += 1;
                continue;
            }
            self.calls.swap_remove(at);
            let Asked::Answered(state, bytes) = answer else { continue };
            self.reply.clear();
            self.reply.resize(HEADER_BYTES, 0);
            answer::encode(&Answer::Called { slot, state, bytes: &bytes }, &mut self.reply);
            self.send(port, 0, out);
        }
    }

    /// Sends the reply that was written.
    fn send(&mut self, port: PortId, number: u64, out: Out<'_>) {
        let Some(connection) = self.connections.get_mut(&port) else { return };
        connection.unanswered = 0;
        for &(count, fault) in &connection.faults {
            answer::encode(&Answer::Complaint { count, fault }, &mut self.reply);
        }
        let held = connection.receiver.held_bits();
        let header = Header {
            kind: Kind::Reply,
            server: self.id,
            port,
            number,
            executed: connection.receiver.executed_up_to()
                + if V::ACKNOWLEDGES_EXECUTED { 0 } else { u64::from(held.count_ones()) },
            held,
            back: 0,
        };
        wire::seal(&self.key, &header, &mut self.reply);
        if let Some(route) = connection.route {
            out(route, &self.reply);
        }
    }
}

impl<V: Variant> Connection<V> {
    fn new(route: Option<Route>) -> Connection<V> {
        Connection {
            route,
            receiver: Receiver::new(),
            unanswered: 0,
            complaints: 0,
            faults: Vec::new(),
        }
    }

    /// Something posted was refused: every reply says so from now on, for each rank whose memory it
    /// was about.
    fn complain(&mut self, fault: Fault) {
        self.complaints += 1;
        let complaint = (self.complaints, fault);
        match self.faults.iter().position(|(_, known)| known.rank() == fault.rank()) {
            Some(at) => self.faults[at] = complaint,
            None if self.faults.len() < COMPLAINTS_MAX => self.faults.push(complaint),
            None => {}
        }
    }
}

/// The node that a port is on, if there can be such a port. There cannot be many: connections are
/// never forgotten, lest what was recorded of them be taken for new.
fn node_of(topology: &Topology, port: PortId) -> Option<Node> {
    match (port.rank(), port.agent()) {
        (Some(rank), _) => {
            (topology.check(rank).is_ok() && port.is_possible()).then(|| topology.node_of(rank))
        }
        (None, Some(node)) => (node.0 < topology.nodes()).then_some(node),
        (None, None) => None,
    }
}

//! The target's side of the wire, without a socket: requests go in, memory is changed, replies come
//! out.
//!
//! Paper:   \[NIC02 section III-B\], \[NIC02 figure 1b\]: the interface checks a packet, performs
//!          the operation on the host's memory without interruption, stores the return value in a
//!          table and sends a reply, which is the acknowledgement.
//! Differs: any operation on memory is served, and calls; the processor's atomics make them atomic
//!          with those of the node's ranks; a posted operation that fails is reported in replies.
//!
//! A datagram that is not authentic, is inconsistent or is not for this server is dropped without
//! an answer. The [`Memory`] checks every operation against segment, bounds and alignment.

mod calls;
#[cfg(test)]
mod state;
mod turns;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use farside_fabric::{
    Accumulate, Atomic, Loss, Node, PeerState, Rank, Result, SegmentId, Topology, Word,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::recorder::Recorder;
use super::refusals::Refusals;
use super::reply::Reply;
use crate::link::variant::{Right, Variant};
use crate::link::{Receiver, Verdict};
use crate::transport::seal::Key;
use crate::transport::{Address, Carrier, PeerAddress, TransportEndpoint};
use crate::wire::answer::{self, Answer, Fault, Sink as _};
use crate::wire::request::{About, Request, Requests, Rows};
use crate::wire::{self, HEADER_BYTES, Header, Kind, PortId, Refused, ServerId};

/// The number of requests without an answer after which an acknowledgement is sent although more
/// may be waiting.
const ACKNOWLEDGE_AFTER: u32 = 6;
/// The number of ranks whose last refusal a connection is told: as many complaints as fit into any
/// reply beside the longest answers.
const COMPLAINTS_MAX: usize = 40;

pub(crate) trait Memory {
    /// Begins to execute requests of a rank, until [`Memory::end`]. Returns false if nothing of it
    /// may be executed any more: it is lost.
    fn begin(&mut self, _of: Rank) -> bool {
        true
    }
    fn end(&mut self) {}
    fn put(&mut self, to: &Rows, data: &[u8]) -> Result<()>;
    fn get(&mut self, from: &Rows, into: &mut [u8]) -> Result<()>;
    /// Writes the old elements to `old`, if they are wanted.
    fn accumulate(
        &mut self,
        to: &Rows,
        accumulate: &Accumulate,
        data: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<()>;
    /// Takes the locks that the operations of a request need, all of them or none, without waiting
    /// for long. Returns whether it did; then the request is executed, and [`Memory::unlock`]
    /// called.
    fn lock(&mut self, _body: &[u8]) -> bool {
        true
    }
    fn unlock(&mut self) {}
    fn atomic(&mut self, at: Word, op: Atomic) -> Result<u128>;
    /// Likewise for a handler of another node: it excludes those of this node's handlers.
    fn atomic_of_handler(&mut self, at: Word, op: Atomic) -> Result<u128> {
        self.atomic(at, op)
    }
    /// Wakes the ranks that wait for a word, which a direct operation has changed.
    fn wake(&mut self, at: Word);
    fn count_landings(&mut self, count: u64);
    /// Passes a call to the handlers; [`Memory::answer`] returns the answer when it is there.
    fn call(&mut self, caller: Rank, slot: u32, handler: u32, argument: &[u8]);
    fn answer(&mut self, caller: Rank, slot: u32) -> CallState;
    fn note_departure(&mut self, rank: Rank, peer_state: PeerState, cause: Option<Loss>);
    /// Returns the port of a rank's host-based server; zero if it has none (yet).
    fn locate(&mut self, rank: Rank) -> Result<u16>;
    /// Answers a question about a segment for direct operations. Only its owner `may_end` them.
    fn segment(
        &mut self,
        rank: Rank,
        segment: SegmentId,
        about: About,
        may_end: bool,
    ) -> Result<u128>;
}

pub(crate) enum CallState {
    Pending,
    Answered(u32, Vec<u8>),
    /// The slot is used for a later call, or has never been used for this one.
    Forgotten,
}

/// An authentic request.
pub(crate) struct Arrival {
    pub(crate) node: Node,
    pub(crate) port: PortId,
    /// Whether it was executed now: a copy of an earlier one is no sign of life.
    pub(crate) is_new: bool,
}

/// The function that sends replies, by stream if that is asked for and there is one.
pub(crate) type Out<'a> = &'a mut dyn FnMut(PeerAddress, &[u8], bool);

#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) topology: Topology,
    pub(crate) hosts: Vec<IpAddr>,
}

#[cfg_attr(test, derive(Clone))]
pub(crate) struct Service<M, V = Right> {
    id: ServerId,
    key: Key,
    packet_bytes: usize,
    nodes: Nodes,
    /// Resolves the addresses with which connections begin, on transports that need that.
    endpoint: Option<Arc<dyn TransportEndpoint>>,
    memory: M,
    connections: FxHashMap<PortId, Connection<V>>,
    lost: FxHashSet<Node>,
    /// The connections whose next request waits for locks.
    blocked: Vec<PortId>,
    /// The connections that are owed an acknowledgement.
    silent: Vec<PortId>,
    /// The landings of the request that is being executed.
    landings: u64,
    /// The calls whose answer has not been sent.
    calls: Vec<(PortId, Rank, u32)>,
    reply: Reply,
    refusals: Refusals,
    recorder: Recorder,
}

#[cfg_attr(test, derive(Clone))]
struct Connection<V> {
    /// The address for replies: of the port that its requests name, on its node, or the one that
    /// it began with. The source of a datagram is not used: a recorded one that is sent from
    /// elsewhere, even ahead of the original, makes no reply go there.
    reply_to: Option<PeerAddress>,
    receiver: Receiver<V>,
    /// Whether a stream has carried its last request.
    by_stream: bool,
    unanswered: u32,
    complaints: u64,
    /// The last refused operation on each rank's memory, with the number of that complaint.
    faults: Vec<(u64, Fault)>,
}

impl<M: Memory> Service<M> {
    /// Makes a server among these nodes.
    pub(crate) fn new(
        id: ServerId,
        key: Key,
        packet_bytes: usize,
        nodes: Nodes,
        memory: M,
    ) -> Service<M> {
        Service::of_variant(id, key, packet_bytes, nodes, memory)
    }
}

impl<M: Memory, V: Variant> Service<M, V> {
    pub(crate) fn of_variant(
        id: ServerId,
        key: Key,
        packet_bytes: usize,
        nodes: Nodes,
        memory: M,
    ) -> Service<M, V> {
        Service {
            id,
            key,
            packet_bytes,
            nodes,
            endpoint: None,
            memory,
            connections: FxHashMap::default(),
            lost: FxHashSet::default(),
            blocked: Vec::new(),
            silent: Vec::new(),
            landings: 0,
            calls: Vec::new(),
            reply: Reply::new(packet_bytes),
            refusals: Refusals::default(),
            recorder: Recorder::default(),
        }
    }

    /// Likewise, with a record of what it executes.
    pub(crate) fn recorded(mut self, recorder: Recorder) -> Service<M, V> {
        self.recorder = recorder;
        self
    }

    /// Likewise, on a transport whose connections begin with an address.
    pub(crate) fn over(mut self, endpoint: Arc<dyn TransportEndpoint>) -> Service<M, V> {
        self.endpoint = Some(endpoint);
        self
    }

    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Counts a datagram that was dropped elsewhere.
    pub(crate) fn count(&mut self, refused: Refused) {
        self.refusals.count(refused);
    }

    /// Returns the number of ports that have ever been heard of.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Drops a lost node's connections, and whatever still arrives from it.
    pub(crate) fn give_up(&mut self, node: Node) {
        self.lost.insert(node);
        let (topology, lost) = (&self.nodes.topology, &self.lost);
        self.connections
            .retain(|&port, _| node_of(topology, port).is_some_and(|node| !lost.contains(&node)));
        self.calls.retain(|&(port, ..)| {
            node_of(topology, port).is_some_and(|node| !lost.contains(&node))
        });
    }

    /// Takes in a datagram, or what a stream has carried. Returns what it is if it is authentic.
    pub(crate) fn receive(
        &mut self,
        packet: &[u8],
        carrier: Carrier,
        out: Out<'_>,
    ) -> Option<Arrival> {
        let read = self.read(packet, carrier, out);
        self.memory.end();
        read.inspect_err(|&refused| self.refusals.count(refused)).ok()
    }

    fn read(&mut self, packet: &[u8], carrier: Carrier, out: Out<'_>) -> Result<Arrival, Refused> {
        let (header, body) = wire::open(&self.key, packet)?;
        if header.kind != Kind::Request || header.server != self.id {
            return Err(Refused::Astray);
        }
        let port = header.port;
        let node = node_of(&self.nodes.topology, port).ok_or(Refused::Astray)?;
        if self.lost.contains(&node) && V::DROPS_LOST_NODES {
            return Err(Refused::Late);
        }
        let host = *self.nodes.hosts.get(node.0 as usize).ok_or(Refused::Astray)?;
        self.check(body)?;
        let may_execute = port.rank().is_none_or(|rank| self.memory.begin(rank));
        let socket = SocketAddr::new(host, header.reply_port);
        let known = self.endpoint.is_none().then_some(PeerAddress::Socket(socket));
        let connection = self.connections.entry(port).or_insert_with(|| Connection::new(known));
        // Copies of what was executed are answered all the same: a rank that has failed reports
        // that itself, and waits until all nodes have acknowledged it.
        if !may_execute && !connection.receiver.has_executed(header.number) {
            return Err(Refused::Late);
        }
        // The acknowledgement goes the same way: what a stream carries does not get lost.
        connection.by_stream = carrier.is_stream();
        connection.receiver.forget(header.executed);
        match connection.receiver.judge(header.number, body) {
            Verdict::Now => {
                self.take_turn(port, body, out);
                return Ok(Arrival { node, port, is_new: true });
            }
            Verdict::Again if V::ANSWERS_REPETITIONS => {
                self.answer_again(port, header.number, body, out)
            }
            Verdict::Again => {}
            Verdict::Later => self.note_silence(port, out),
            Verdict::Never => return Err(Refused::Stale),
        }
        Ok(Arrival { node, port, is_new: false })
    }

    /// Checks all operations before any is executed: none may be malformed, and their answers must
    /// fit into one reply.
    fn check(&self, body: &[u8]) -> Result<(), Refused> {
        let mut room = (self.packet_bytes - HEADER_BYTES) as u64;
        Requests::new(body).try_for_each(|request| {
            room = room.checked_sub(request?.answer_bytes_max()).ok_or(Refused::Malformed)?;
            Ok(())
        })
    }

    fn execute(&mut self, port: PortId, body: &[u8], out: Out<'_>) {
        self.reply.begin();
        let mut wants_answer = false;
        // Operations that must not be repeated come first, so that their answers can be kept in one
        // piece; the order of answers means nothing.
        let mut faults = Vec::new();
        for request in Requests::new(body).flatten() {
            // Gets are executed when the reply is written.
            let is_get = matches!(request, Request::Get { .. });
            let begun = if is_get { None } else { self.recorder.begin(port, &request) };
            wants_answer |= self.carry_out(port, &request, &mut faults);
            self.recorder.end(begun);
        }
        // Once for all of them: each count would wake the ranks that wait for it.
        if self.landings > 0 {
            self.memory.count_landings(std::mem::take(&mut self.landings));
        }
        let Some(connection) = self.connections.get_mut(&port) else { return };
        faults.into_iter().for_each(|fault| connection.complain(fault));
        connection.receiver.executed(self.reply.body());
        if wants_answer {
            let number = connection.receiver.executed_up_to();
            self.read_all(port, body);
            self.send(port, number, out);
        } else {
            self.note_silence(port, out);
        }
    }

    /// Answers a duplicate of an executed request: words from the table, reads anew.
    fn answer_again(&mut self, port: PortId, number: u64, body: &[u8], out: Out<'_>) {
        self.reply.begin();
        if let Some(connection) = self.connections.get(&port) {
            self.reply.write(connection.receiver.remembered(number).unwrap_or_default());
        }
        self.read_all(port, body);
        self.send(port, if V::ANSWERS_BY_NUMBER { number } else { self.latest(port) }, out);
    }

    /// Returns the number of the last request that was executed.
    fn latest(&self, port: PortId) -> u64 {
        self.connections.get(&port).map_or(0, |connection| connection.receiver.executed_up_to())
    }

    /// Executes one operation and appends its answer to the reply; refusals of posted ones go to
    /// `faults`. Returns whether an answer is wanted.
    fn carry_out(&mut self, port: PortId, request: &Request<'_>, faults: &mut Vec<Fault>) -> bool {
        let memory = &mut self.memory;
        let (rank, counts, done) = match *request {
            Request::Put { to, data, counts } => (to.rank, counts, memory.put(&to, data)),
            Request::Accumulate { to, accumulate, data, counts } => {
                (to.rank, counts, memory.accumulate(&to, &accumulate, data, None))
            }
            Request::Post { at, op, counts } if port.is_of_handlers() => {
                (at.rank, counts, memory.atomic_of_handler(at, op).map(drop))
            }
            Request::Post { at, op, counts } => (at.rank, counts, memory.atomic(at, op).map(drop)),
            _ => return self.carry_out_unposted(port, request),
        };
        // A refused operation counts as landed, too: otherwise the waiting rank would wait for
        // ever.
        self.landings += u64::from(counts);
        if let Err(error) = done {
            faults.push(Fault::new(&error, rank));
        }
        false
    }

    /// Executes an operation that is answered, or is not on memory. Returns whether an answer is
    /// wanted.
    fn carry_out_unposted(&mut self, port: PortId, request: &Request<'_>) -> bool {
        match *request {
            Request::Atomic { tag, at, op } => {
                let done = self.memory.atomic(at, op);
                self.answer_word(tag, at.rank, done);
                return true;
            }
            Request::Where { tag, rank } => {
                let port = self.memory.locate(rank).map(u128::from);
                self.answer_word(tag, rank, port);
                return true;
            }
            Request::Segment { tag, rank, segment, about } => {
                let may_end = port.rank() == Some(rank);
                let done = self.memory.segment(rank, segment, about, may_end);
                self.answer_word(tag, rank, done);
                return true;
            }
            Request::GetAccumulate { tag, to, accumulate, data } => {
                self.get_accumulate(tag, &to, &accumulate, data);
                return true;
            }
            Request::Get { .. } => return true,
            Request::Call { slot, handler, argument } => {
                if let Some(caller) = port.rank() {
                    self.memory.call(caller, slot, handler, argument);
                    self.expect_answer(port, caller, slot);
                    self.forget_calls(caller);
                }
            }
            Request::Recall { slot } => {
                if let Some(caller) = port.rank() {
                    self.expect_answer(port, caller, slot);
                }
            }
            Request::Member { rank, peer_state, cause } => {
                self.note_departure(port, rank, peer_state, cause);
            }
            Request::From { address } => self.learn(port, address),
            Request::Changed { at } => self.memory.wake(at),
            Request::Landed { count } => self.landings += u64::from(count),
            Request::Ping
            | Request::Put { .. }
            | Request::Accumulate { .. }
            | Request::Post { .. } => {}
        }
        false
    }

    /// Notes the departure of a rank, which only its own node may report.
    fn note_departure(
        &mut self,
        port: PortId,
        rank: Rank,
        peer_state: PeerState,
        cause: Option<Loss>,
    ) {
        let is_member = |rank: Rank| self.nodes.topology.check(rank).is_ok();
        if is_member(rank)
            && cause.is_none_or(|cause| is_member(cause.rank))
            && node_of(&self.nodes.topology, port) == Some(self.nodes.topology.node_of(rank))
        {
            self.memory.note_departure(rank, peer_state, cause);
        }
    }

    /// Learns the address for replies to a port. The first one counts.
    fn learn(&mut self, port: PortId, address: &[u8]) {
        let Nodes { topology, hosts } = &self.nodes;
        let Some(endpoint) = &self.endpoint else { return };
        let host = node_of(topology, port).and_then(|node| hosts.get(node.0 as usize));
        let resolve = |&host| endpoint.resolve(&Address::new(host, address).ok()?).ok();
        let found = host.and_then(resolve);
        if let (Some(connection), Some(found)) = (self.connections.get_mut(&port), found) {
            connection.reply_to.get_or_insert(found);
        }
    }

    fn answer_word(&mut self, tag: u32, rank: Rank, done: Result<u128>) {
        let answer = match done {
            Ok(value) => Answer::Word { tag, value },
            Err(error) => Answer::Refused { tag, fault: Fault::new(&error, rank) },
        };
        answer::encode(&answer, &mut self.reply);
    }

    /// Executes an accumulate and appends the old elements to the reply. They are kept with the
    /// answers for repetitions: at most as many bytes as a reply has, for each request of the
    /// window.
    fn get_accumulate(&mut self, tag: u32, to: &Rows, accumulate: &Accumulate, data: &[u8]) {
        let begin = self.reply.len();
        answer::begin_bytes(tag, to.bytes() as u32, &mut self.reply);
        let old = self.reply.grow(to.bytes() as usize);
        if let Err(error) = self.memory.accumulate(to, accumulate, data, Some(old)) {
            self.reply.truncate(begin);
            let fault = Fault::new(&error, to.rank);
            answer::encode(&Answer::Refused { tag, fault }, &mut self.reply);
        }
    }

    /// Executes the gets of a request and appends what they read to the reply.
    fn read_all(&mut self, port: PortId, body: &[u8]) {
        for request in Requests::new(body).flatten() {
            let Request::Get { tag, from } = request else { continue };
            let (begin, begun) = (self.reply.len(), self.recorder.begin(port, &request));
            answer::begin_bytes(tag, from.bytes() as u32, &mut self.reply);
            let read = self.memory.get(&from, self.reply.grow(from.bytes() as usize));
            self.recorder.end(begun);
            if let Err(error) = read {
                self.reply.truncate(begin);
                let fault = Fault::new(&error, from.rank);
                answer::encode(&Answer::Refused { tag, fault }, &mut self.reply);
            }
        }
    }

    /// Notes a request that needs no answer: it is acknowledged when no more have arrived, or when
    /// many have.
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
        self.reply.begin();
        self.send(port, 0, out);
    }

    /// Executes what has waited for locks, and sends the acknowledgements that are owed: no more
    /// datagrams have arrived.
    pub(crate) fn rest(&mut self, out: Out<'_>) {
        self.retry(out);
        while let Some(port) = self.silent.pop() {
            if self.connections.get(&port).is_some_and(|connection| connection.unanswered > 0) {
                self.acknowledge(port, out);
            }
        }
        self.send_calls(out);
    }

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
            reply_port: 0,
        };
        wire::seal(&self.key, &header, self.reply.packet());
        if let Some(reply_to) = connection.reply_to {
            out(reply_to, self.reply.packet(), connection.by_stream);
        }
    }
}

impl<V: Variant> Connection<V> {
    fn new(reply_to: Option<PeerAddress>) -> Connection<V> {
        Connection {
            reply_to,
            receiver: Receiver::new(),
            by_stream: false,
            unanswered: 0,
            complaints: 0,
            faults: Vec::new(),
        }
    }

    /// Notes that a posted operation was refused. Every later reply reports it, one for each rank.
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

/// Returns the node that a port is on, if such a port can exist. Connections are never dropped,
/// lest a recorded datagram be taken for new, so there must not be many ports.
fn node_of(topology: &Topology, port: PortId) -> Option<Node> {
    match (port.rank(), port.agent()) {
        (Some(rank), _) => {
            (topology.check(rank).is_ok() && port.is_possible()).then(|| topology.node_of(rank))
        }
        (None, Some(node)) => (node.0 < topology.nodes()).then_some(node),
        (None, None) => None,
    }
}

//! The underlay: what a fabric calls that is layered on this one and has direct operations beside.

use std::net::IpAddr;
use std::sync::Arc;

use farside_fabric::{Error, Node, Rank, Reply, Result, SegmentId, Ticket, Wait, Wake};
use farside_shm::Job;

use super::Endpoint;
use crate::initiator::port::BackgroundTransfer;
use crate::node::address_table::AddressTable;
use crate::transport::{PeerAddress, Registration, TransportEndpoint};
use crate::wire::ServerId;
use crate::wire::request::About;

/// Returns the name of the transport of a job (see [`crate::Transport::name`]), and the IP address
/// of this node.
pub fn transport_of(job: &Arc<Job>) -> Result<(String, IpAddr)> {
    let table = AddressTable::of(job);
    let ip = table.ip()?;
    Ok((table.transport(), ip))
}

impl Endpoint {
    /// Opens a connection of the same rank for another thread.
    pub fn another(&self) -> Result<Endpoint> {
        Endpoint::of(self.state.clone(), farside_shm::Endpoint::another(&self.near))
    }

    /// Returns the transport endpoint of its port.
    pub fn transport_endpoint(&self) -> &Arc<dyn TransportEndpoint> {
        &self.transport
    }

    /// Returns whether what this rank posts to a segment counts as landings at its target.
    pub fn is_counted(&self, segment: SegmentId) -> bool {
        self.counts(segment)
    }

    /// Returns the node of this rank.
    pub fn node(&self) -> Node {
        self.state.node
    }

    /// Returns the address of a node's agent.
    pub fn agent_address(&self, node: Node) -> Result<PeerAddress> {
        let nodes = self.state.topology.nodes();
        self.port().peer_address(ServerId(node.0)).ok_or(Error::UnknownNode { node, nodes })
    }

    /// Drives the port until `done`; returns an error if the rank that this is for is lost.
    pub fn drive_until_done(&self, peer: Rank, mut done: impl FnMut() -> bool) -> Result<()> {
        self.drive_until(|| self.check_alive(peer), |_| done())
    }

    /// Waits until `done`, as [`farside_fabric::Connection::block`] does; posted operations
    /// progress meanwhile.
    pub fn block_until(&self, wait: &Wait<'_>, done: &mut dyn FnMut() -> bool) -> Result<Wake> {
        self.block_on_port(wait, &mut |_| done())
    }

    /// Drives the port once.
    pub fn drive_once(&self) {
        self.port().drive();
    }

    /// Lets the progress thread drive the port at intervals: a direct operation is under way.
    pub fn start_progress(&self) {
        self.state.progress.arm();
    }

    /// Lets the progress thread drive the port at once, and until no notice is owed.
    pub fn hurry_progress(&self) {
        if self.state.progress.is_running() {
            self.state.progress.hurry();
        }
    }

    /// Lets the progress thread drive the port until a direct transfer is complete.
    pub fn add_background(&self, transfer: u64) {
        self.add_background_transfer(BackgroundTransfer::Direct(transfer));
    }

    /// Returns an error if a rank is lost.
    pub fn must_be_alive(&self, peer: Rank) -> Result<()> {
        self.check_alive(peer)
    }

    /// Returns whether everything that was posted to a rank's node has landed there.
    pub fn has_landed(&self, peer: Rank) -> bool {
        let server = ServerId(self.state.topology.node_of(peer).0);
        self.port().origin.has_landed(server)
    }

    /// Waits until everything that was posted to a rank's node has landed there.
    pub fn await_landing(&self, peer: Rank) -> Result<()> {
        let server = ServerId(self.state.topology.node_of(peer).0);
        {
            let mut port = self.port();
            if port.origin.has_landed(server) {
                return Ok(());
            }
            port.origin.push();
            port.send(server);
        }
        self.drive_until(|| self.check_alive(peer), |port| port.origin.has_landed(server))
    }

    /// Asks the target's agent for the remote key of a segment, and waits until the interface there
    /// has registered it.
    pub fn remote_key(&self, rank: Rank, segment: SegmentId) -> Result<Registration> {
        let server = ServerId(self.state.topology.node_of(rank).0);
        let ask = |about| {
            let mut port = self.port();
            let ticket = port.origin.segment(server, rank, segment, about);
            port.send(server);
            ticket
        };
        let (key, length) = (ask(About::Key), ask(About::Length));
        let key = self.await_word(rank, key);
        let length = self.await_word(rank, length);
        Ok(Registration::from_word(key?, length? as u64))
    }

    /// Deregisters a segment of this rank: when this returns, no direct operation reaches it.
    pub fn end_direct_access(&self, segment: SegmentId) -> Result<()> {
        let (rank, server) = (self.state.rank, ServerId(self.state.node.0));
        let asked = {
            let mut port = self.port();
            let ticket = port.origin.segment(server, rank, segment, About::End);
            port.send(server);
            ticket
        };
        self.await_word(rank, asked).map(drop)
    }

    /// Waits for the word that an agent answers; whatever happens, the ticket is used up.
    pub(crate) fn await_word(&self, peer: Rank, ticket: Ticket) -> Result<u128> {
        let done = self.drive_until(|| self.check_alive(peer), |port| port.origin.is_done(ticket));
        let mut port = self.port();
        if let Err(error) = done {
            port.origin.cancel(ticket);
            return Err(error);
        }
        match port.origin.take(ticket)? {
            Some(Reply::Word(word)) => Ok(word),
            other => Err(Error::Internal(format!(
                "a far agent has answered {other:?} instead of a word"
            ))),
        }
    }
}

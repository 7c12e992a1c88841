//! What a fabric needs that stands on this one and reaches far memory in ways of its own besides.

use std::net::IpAddr;
use std::sync::Arc;

use farside_fabric::{Error, Node, Rank, Reply, Result, SegmentId, Ticket, Wait, Wake};
use farside_shm::Job;

use crate::directory::Directory;
use crate::endpoint::Endpoint;
use crate::line::{Line, Route};
use crate::port::Entrusted;
use crate::wire::ServerId;
use crate::wire::request::About;

/// Which network the nodes of a job are on, as [`crate::Network::name`] said when they were made,
/// and the address of this one.
pub fn network_of(job: &Arc<Job>) -> Result<(String, IpAddr)> {
    let directory = Directory::of(job);
    let ip = directory.ip()?;
    Ok((directory.network(), ip))
}

impl Endpoint {
    /// A connection of the same rank for another thread.
    pub fn another(&self) -> Result<Endpoint> {
        Endpoint::of(self.seat.clone(), farside_shm::Endpoint::another(&self.near))
    }

    /// The line of its port.
    pub fn line(&self) -> &Arc<dyn Line> {
        &self.line
    }

    /// Whether what this rank posts to a segment counts as landings at its target.
    pub fn is_counted(&self, segment: SegmentId) -> bool {
        self.counts(segment)
    }

    /// The node that this rank is on.
    pub fn node(&self) -> Node {
        self.seat.node
    }

    /// How the line reaches the agent of a node.
    pub fn route_to(&self, node: Node) -> Result<Route> {
        let nodes = self.seat.topology.nodes();
        self.port().route(ServerId(node.0)).ok_or(Error::UnknownNode { node, nodes })
    }

    /// Lets the line work until `done`; an error if the rank that this is for is lost meanwhile.
    pub fn work_until(&self, peer: Rank, mut done: impl FnMut() -> bool) -> Result<()> {
        self.drive_until(|| self.check_alive(peer), |_| done())
    }

    /// Waits until `done`, as [`farside_fabric::Connection::block`] does; what has been posted goes on
    /// meanwhile.
    pub fn block_until(&self, wait: &Wait<'_>, done: &mut dyn FnMut() -> bool) -> Result<Wake> {
        self.block_on_port(wait, &mut |_| done())
    }

    /// Lets the line work, once.
    pub fn work_once(&self) {
        self.port().drive();
    }

    /// Something is under way that somebody must look after while the rank computes.
    pub fn look_after(&self) {
        self.seat.progress.arm();
    }

    /// Likewise, at once and until it is over: somebody may sleep until an agent hears of it.
    pub fn hurry(&self) {
        if self.seat.progress.is_there() {
            self.seat.progress.hurry();
        }
    }

    /// A long transfer of the line goes on while the rank computes.
    pub fn entrust_direct(&self, transfer: u64) {
        self.entrust_long(Entrusted::Direct(transfer));
    }

    /// An error if a rank is lost.
    pub fn must_be_alive(&self, peer: Rank) -> Result<()> {
        self.check_alive(peer)
    }

    /// Whether everything that was posted to a rank's node has landed there.
    pub fn has_landed(&self, peer: Rank) -> bool {
        let server = ServerId(self.seat.topology.node_of(peer).0);
        self.port().origin.has_landed(server)
    }

    /// Returns when everything that was posted to a rank's node has landed there.
    pub fn await_landing(&self, peer: Rank) -> Result<()> {
        let server = ServerId(self.seat.topology.node_of(peer).0);
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

    /// How the network names a segment, and how long it is.
    pub fn segment_name(&self, rank: Rank, segment: SegmentId) -> Result<(u128, u64)> {
        let server = ServerId(self.seat.topology.node_of(rank).0);
        let ask = |about| {
            let mut port = self.port();
            let ticket = port.origin.segment(server, (rank, segment), about);
            port.send(server);
            ticket
        };
        let (name, length) = (ask(About::Name), ask(About::Length));
        let name = self.await_word(rank, name);
        let length = self.await_word(rank, length);
        Ok((name?, length? as u64))
    }

    /// A segment of this rank goes away: when this returns nobody reaches it without its agent any
    /// more.
    pub fn end_segment(&self, segment: SegmentId) -> Result<()> {
        let (rank, server) = (self.seat.rank, ServerId(self.seat.node.0));
        let asked = {
            let mut port = self.port();
            let ticket = port.origin.segment(server, (rank, segment), About::End);
            port.send(server);
            ticket
        };
        self.await_word(rank, asked).map(drop)
    }

    fn await_word(&self, peer: Rank, ticket: Ticket) -> Result<u128> {
        let done = self.drive_until(|| self.check_alive(peer), |port| port.origin.is_done(ticket));
        let mut port = self.port();
        if let Err(error) = done {
            port.origin.cancel(ticket);
            return Err(error);
        }
        match port.origin.take(ticket)? {
            Some(Reply::Word(word)) => Ok(word),
            other => {
                Err(Error::Misuse(format!("a far agent has answered {other:?} instead of a word")))
            }
        }
    }
}

//! How an endpoint works with its port: posting, fetching, waiting.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farside_fabric::{Error, Fabric as _, Fate, Rank, Reply, Result, SegmentId, Started, Ticket, Wait, Wake};

use crate::endpoint::Endpoint;
use crate::origin::Origin;
use crate::port::{Port, ticket};
use crate::seat::{NAP, OUTSTANDING_MAX, lock};
use crate::socket;
use crate::wire::ServerId;

/// How often a thread looks for its answer before it sleeps. Between two looks it lets others run: the one that is to answer may need the processor.
const LOOKS: u32 = 60;

impl Endpoint {
    pub(crate) fn is_near(&self, peer: Rank) -> Result<bool> {
        self.seat.topology.check(peer)?;
        Ok(self.seat.topology.node_of(peer) == self.seat.node)
    }

    /// That a rank has gone is an error for whoever needs it; that it left in order is not, its memory is still there.
    pub(crate) fn check_alive(&self, peer: Rank) -> Result<()> {
        if self.alarm().losses.load(Ordering::Relaxed) != 0
            && let Fate::Lost(how) = self.fate(peer)
        {
            return Err(Error::RankLost { rank: peer, how });
        }
        Ok(())
    }

    /// Who serves a far rank's memory.
    pub(crate) fn server_of(&self, peer: Rank) -> Result<ServerId> {
        let node = ServerId(self.seat.topology.node_of(peer).0);
        if self.seat.host.is_none() {
            return Ok(node);
        }
        let server = ServerId(self.seat.topology.nodes() + peer.0);
        if !lock(&self.port).knows(server) {
            let address = self.locate(peer, node)?;
            lock(&self.port).learn(server, address);
        }
        Ok(server)
    }

    /// Asks where a rank serves itself, until it does.
    pub(crate) fn locate(&self, peer: Rank, node: ServerId) -> Result<SocketAddr> {
        loop {
            let asked = lock(&self.port).origin.locate(node, peer);
            let alive = || self.check_alive(peer);
            self.drive_until(alive, |port| port.origin.is_done(asked))?;
            if let Some(Reply::Word(found)) = lock(&self.port).origin.take(asked)?
                && found != 0
            {
                let ip = self.seat.directory.address(self.seat.topology.node_of(peer)).ip();
                return Ok(SocketAddr::new(ip, found as u16));
            }
            std::thread::yield_now();
        }
    }

    /// Lets the port work until `done`, or until `alive` says that there is nobody to wait for.
    pub(crate) fn drive_until(
        &self,
        alive: impl Fn() -> Result<()>,
        mut done: impl FnMut(&mut Port) -> bool,
    ) -> Result<()> {
        let mut looks = 0;
        loop {
            let patience = {
                let mut port = lock(&self.port);
                port.drive();
                if done(&mut port) {
                    return Ok(());
                }
                port.patience()
            };
            let known = self.alarm().departures.load(Ordering::SeqCst);
            alive()?;
            self.rest(&mut looks, known, patience.unwrap_or(NAP).min(NAP));
        }
    }

    /// Lets others run, or sleeps until a datagram comes.
    pub(crate) fn rest(&self, looks: &mut u32, known_departures: u32, nap: Duration) {
        let mut spent = self.effort.get();
        if *looks < LOOKS {
            *looks += 1;
            spent.yields += 1;
            std::thread::yield_now();
        } else {
            spent.parks += 1;
            let (seat, index) = (&self.seat, self.index);
            seat.directory.set_asleep(seat.rank, index, true);
            // Whoever departs now sees that this thread sleeps.
            if self.alarm().departures.load(Ordering::SeqCst) == known_departures {
                socket::await_datagram(&self.socket, Some(nap));
            }
            seat.directory.set_asleep(seat.rank, index, false);
        }
        self.effort.set(spent);
    }

    /// Waits until more may be posted to a server.
    pub(crate) fn make_room(&self, peer: Rank, server: ServerId) -> Result<()> {
        if !lock(&self.port).origin.is_full(server) {
            return Ok(());
        }
        self.drive_until(|| self.check_alive(peer), |port| !port.origin.is_full(server))
    }

    /// Posts something to a far rank, in as many steps as it takes: `step` says whether it was the last.
    pub(crate) fn post_far(&self, peer: Rank, mut step: impl FnMut(&mut Origin, ServerId) -> bool) -> Result<()> {
        let server = self.server_of(peer)?;
        loop {
            self.make_room(peer, server)?;
            let mut port = lock(&self.port);
            let is_last = step(&mut port.origin, server);
            port.send(server);
            if is_last {
                break;
            }
        }
        self.seat.progress.arm();
        Ok(())
    }

    /// Begins a fetching operation on a far rank.
    pub(crate) fn begin_far(&self, peer: Rank, begin: impl FnOnce(&mut Origin, ServerId) -> Ticket) -> Result<Started> {
        let server = self.server_of(peer)?;
        self.make_room(peer, server)?;
        if lock(&self.port).origin.outstanding() >= OUTSTANDING_MAX as usize {
            let room = |port: &mut Port| port.origin.outstanding() < OUTSTANDING_MAX as usize || port.origin.has_done();
            self.drive_until(|| self.check_alive(peer), room)?;
        }
        let mut port = lock(&self.port);
        let ticket = begin(&mut port.origin, server);
        port.send(server);
        drop(port);
        self.seat.progress.arm();
        Ok(Started::Pending(ticket::transfer(ticket)))
    }

    pub(crate) fn counts(&self, segment: SegmentId) -> bool {
        segment.counts()
    }

    /// Everything that this thread has posted is sent and acknowledged, as far as anybody is there to do so.
    pub(crate) fn drain(&self) {
        let nobody_left = |port: &mut Port| {
            self.abandon_the_lost(port);
            port.origin.push();
            !port.origin.is_busy()
        };
        // It ends: a node that does not answer is given up, sooner or later.
        let _ = self.drive_until(|| Ok(()), nobody_left);
    }

    pub(crate) fn abandon_the_lost(&self, port: &mut Port) {
        if self.alarm().losses.load(Ordering::Relaxed) != 0 {
            self.seat.abandon_the_lost(port);
        }
    }
}

impl Endpoint {
    /// Waits for words of this rank's memory. What it has posted goes out first: whoever is to change the words may wait for it.
    pub(crate) fn block_on_words(&self, wait: &Wait<'_>) -> Result<Wake> {
        let begin = Instant::now();
        loop {
            let has_unsent = {
                let mut port = lock(&self.port);
                if port.origin.is_busy() {
                    port.origin.push();
                    port.drive();
                }
                port.origin.has_unsent()
            };
            if !has_unsent {
                return self.near.block(wait);
            }
            // More was posted than may be under way: the acknowledgements that let the rest go come to this port, and to nobody else.
            let look = Wait { timeout: Some(Duration::ZERO), soon: false, ..*wait };
            match self.near.block(&look)? {
                Wake::TimedOut if wait.timeout.is_none_or(|timeout| begin.elapsed() < timeout) => {}
                other => return Ok(other),
            }
            let patience = lock(&self.port).patience().unwrap_or(NAP);
            self.rest(&mut LOOKS.clone(), wait.known_departures, patience.min(Duration::from_millis(1)));
        }
    }
}

//! How an endpoint works with its port: posting, fetching, waiting.

use std::net::SocketAddr;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use farside_fabric::{
    Condition, Connection as _, Event, Rank, Reply, Result, SegmentId, Started, Ticket, Wait, Wake,
};

use crate::direct::Owed;
use crate::endpoint::Endpoint;
use crate::line::Route;
use crate::origin::Origin;
use crate::port::{Entrusted, Port, ticket};
use crate::seat::{NAP, OUTSTANDING_MAX};
use crate::wire::ServerId;

/// How often a thread looks for its answer before it sleeps. Between two looks it lets others run:
/// the one that is to answer may need the processor.
const LOOKS: u32 = 60;

/// How far a port has come.
pub(crate) enum Worked {
    Done,
    /// It may be left alone for this long.
    NotYet(Duration),
    /// The progress thread drives it, and has come so far.
    Entrusted(u64),
}

impl Endpoint {
    pub(crate) fn is_near(&self, peer: Rank) -> Result<bool> {
        self.seat.topology.check(peer)?;
        Ok(self.seat.topology.node_of(peer) == self.seat.node)
    }

    pub(crate) fn check_alive(&self, peer: Rank) -> Result<()> {
        self.job().check_alive(peer)
    }

    pub(crate) fn departures(&self) -> u32 {
        self.seat.failures.departures()
    }

    /// Who serves a far rank's memory.
    pub(crate) fn server_of(&self, peer: Rank) -> Result<ServerId> {
        let node = ServerId(self.seat.topology.node_of(peer).0);
        if self.seat.host.is_none() {
            return Ok(node);
        }
        let server = ServerId(self.seat.topology.nodes() + peer.0);
        if !self.port().knows(server) {
            let address = self.locate(peer, node)?;
            self.port().learn(server, address);
        }
        Ok(server)
    }

    /// Asks where a rank serves itself, until it does.
    pub(crate) fn locate(&self, peer: Rank, node: ServerId) -> Result<Route> {
        loop {
            let asked = self.port().origin.locate(node, peer);
            let alive = || self.check_alive(peer);
            self.drive_until(alive, |port| port.origin.is_done(asked))?;
            if let Some(Reply::Word(found)) = self.port().origin.take(asked)?
                && found != 0
            {
                let ip = self.seat.directory.address(self.seat.topology.node_of(peer))?.ip();
                return Ok(Route::Socket(SocketAddr::new(ip, found as u16)));
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
            let worked = self.work_port(looks, &mut done);
            let known = self.departures();
            match worked {
                Worked::Done => return Ok(()),
                _ => alive()?,
            }
            self.rest(&mut looks, known, worked, NAP);
        }
    }

    /// Lets the port work once. As long as somebody looks again soon, only what has arrived counts:
    /// what is overdue is not looked for, nor the clock.
    #[inline]
    pub(crate) fn work_port(&self, looks: u32, done: &mut dyn FnMut(&mut Port) -> bool) -> Worked {
        let mut port = self.port();
        if port.is_entrusted() {
            return if done(&mut port) { Worked::Done } else { Worked::Entrusted(port.news()) };
        }
        let looks_again_soon = looks > 0 && looks < LOOKS;
        if looks_again_soon {
            port.look();
        } else {
            port.drive();
        }
        if done(&mut port) {
            return Worked::Done;
        }
        let nap = if looks < LOOKS { None } else { port.patience() };
        Worked::NotYet(nap.unwrap_or(NAP).min(NAP))
    }

    /// Lets others run, or sleeps until a datagram comes, at most for `longest`.
    pub(crate) fn rest(
        &self,
        looks: &mut u32,
        known_departures: u32,
        worked: Worked,
        longest: Duration,
    ) {
        let mut spent = self.effort.get();
        if *looks < LOOKS && !matches!(worked, Worked::Entrusted(_)) {
            *looks += 1;
            spent.yields += 1;
            std::thread::yield_now();
        } else {
            spent.parks += 1;
            let (seat, index) = (&self.seat, self.index);
            seat.directory.set_asleep(seat.rank, index, true);
            // Whoever departs now sees that this thread sleeps.
            if self.departures() == known_departures {
                match worked {
                    Worked::Done => {}
                    Worked::NotYet(nap) => self.line.sleep(nap.min(longest)),
                    Worked::Entrusted(news) => self.sleep_entrusted(news, longest),
                }
            }
            seat.directory.set_asleep(seat.rank, index, false);
        }
        self.effort.set(spent);
    }

    /// Sleeps until the progress thread has news.
    fn sleep_entrusted(&self, news: u64, longest: Duration) {
        let port = self.port();
        let told = port.told.clone();
        drop(
            told.wait_timeout_while(port, longest, |port| {
                port.is_entrusted() && port.news() == news
            }),
        );
    }

    /// The port, as soon as it has room: it may be full, or too much may be under way.
    #[inline]
    pub(crate) fn port_with_room(
        &self,
        peer: Rank,
        has_room: impl Fn(&mut Port) -> bool,
    ) -> Result<MutexGuard<'_, Port>> {
        loop {
            let mut port = self.port();
            if has_room(&mut port) {
                return Ok(port);
            }
            drop(port);
            self.drive_until(|| self.check_alive(peer), &has_room)?;
        }
    }

    /// Posts something to a far rank, in as many steps as it takes: `step` says whether it was the
    /// last.
    pub(crate) fn post_far(
        &self,
        peer: Rank,
        mut step: impl FnMut(&mut Origin, ServerId) -> bool,
    ) -> Result<()> {
        let server = self.server_of(peer)?;
        loop {
            let mut port = self.port_with_room(peer, |port| !port.origin.is_full(server))?;
            let is_last = step(&mut port.origin, server);
            port.send(server);
            drop(port);
            if is_last {
                break;
            }
        }
        self.seat.progress.arm();
        Ok(())
    }

    /// Begins a fetching operation on a far rank.
    pub(crate) fn begin_far(
        &self,
        peer: Rank,
        begin: impl FnOnce(&mut Origin, ServerId) -> Ticket,
    ) -> Result<Started> {
        let server = self.server_of(peer)?;
        let has_room = |port: &mut Port| {
            let few = port.origin.outstanding() < OUTSTANDING_MAX as usize;
            !port.origin.is_full(server) && (few || port.origin.has_done())
        };
        let mut port = self.port_with_room(peer, has_room)?;
        let ticket = begin(&mut port.origin, server);
        port.send(server);
        drop(port);
        self.seat.progress.arm();
        Ok(Started::Pending(ticket::transfer(ticket)))
    }

    /// Lets the progress thread see to a long transfer until that is over.
    pub(crate) fn entrust_long(&self, transfer: Entrusted) {
        if !self.seat.progress.is_there() {
            return;
        }
        let mut port = self.port();
        let (is_at_it, sleeps) = (port.is_entrusted(), port.driver_sleeps);
        port.entrust(transfer);
        drop(port);
        if !is_at_it {
            self.seat.progress.hurry();
        } else if sleeps && let Ok(bell) = self.line.bell() {
            self.line.ring(bell);
        }
    }

    /// Whether what this rank posts to a segment counts as landings at its target.
    pub(crate) fn counts(&self, segment: SegmentId) -> bool {
        self.seat.job.is_counted(self.seat.rank, segment)
    }

    /// Everything that this thread has posted is sent and acknowledged, as far as anybody is there
    /// to do so.
    pub(crate) fn drain(&self) {
        let nobody_left = |port: &mut Port| {
            self.abandon_the_lost(port);
            port.origin.push();
            !port.origin.is_busy()
        };
        self.port().origin.push();
        // It ends: a node that does not answer is given up, sooner or later.
        let _ = self.drive_until(|| Ok(()), nobody_left);
    }

    pub(crate) fn abandon_the_lost(&self, port: &mut Port) {
        if self.seat.failures.any_lost() {
            self.seat.abandon_the_lost(port);
        }
    }
}

impl Endpoint {
    /// Waits until the port has come so far, somebody has gone, or time is up.
    pub(crate) fn block_on_port(
        &self,
        wait: &Wait<'_>,
        done: &mut dyn FnMut(&mut Port) -> bool,
    ) -> Result<Wake> {
        let deadline = wait.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut looks = 0;
        loop {
            let worked = self.work_port(looks, done);
            if let Worked::Done = worked {
                return Ok(Wake::Ready { which: 0, value: 0 });
            }
            if self.departures() != wait.known_departures {
                return Ok(Wake::Departure);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Wake::TimedOut);
            }
            self.rest(
                &mut looks,
                wait.known_departures,
                worked,
                left.map_or(NAP, |left| left.min(NAP)),
            );
        }
    }

    /// Waits for words of this rank's memory. What it has posted goes out first: whoever is to
    /// change the words may wait for it.
    pub(crate) fn block_on_words(&self, wait: &Wait<'_>) -> Result<Wake> {
        let begin = Instant::now();
        let mut looks = 0;
        loop {
            let (has_unsent, is_owed) = {
                let mut port = self.port();
                let is_busy = port.origin.is_busy() || port.owed() != Owed::Nothing;
                if is_busy && !port.is_entrusted() {
                    port.origin.push();
                    port.drive();
                }
                // What is entrusted goes without this thread, and so does what was posted after it.
                let is_driven = port.is_entrusted();
                (port.origin.has_unsent() && !is_driven, port.owed() != Owed::Nothing && !is_driven)
            };
            let left = wait.timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            if (!has_unsent && !is_owed) || left == Some(Duration::ZERO) || self.is_over(wait) {
                return self.near.block(&Wait { timeout: left, ..*wait });
            }
            if has_unsent {
                // More was posted than may be under way: the acknowledgements that let the rest go
                // come to this port, and to nobody else. So do the completions that agents must be
                // told of, but those come soon.
                looks = LOOKS;
            }
            let patience = self.port().patience().unwrap_or(NAP);
            self.rest(
                &mut looks,
                wait.known_departures,
                Worked::NotYet(patience),
                Duration::from_millis(1),
            );
        }
    }

    /// Whether a wait for words would return at once.
    fn is_over(&self, wait: &Wait<'_>) -> bool {
        let Event::Words(conditions) = wait.event else { return true };
        let holds = |each: &Condition<'_>| {
            let word = each.memory.look(each.at.offset, each.at.width);
            word.is_none_or(|word| (each.until)(word.load()))
        };
        self.departures() != wait.known_departures || conditions.iter().any(holds)
    }
}

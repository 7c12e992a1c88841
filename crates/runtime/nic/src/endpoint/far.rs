//! How an endpoint works with its port: posting, fetching, waiting.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use farside_fabric::{
    Condition, Connection as _, Error, Event, ExitCause, Node, PeerState, Rank, Result, SegmentId,
    Started, Ticket, Wait, Wake, Width, Word,
};

use super::Endpoint;
use crate::clock::{CROWDED_NS, LONGEST_SLEEP, now_ns};
use crate::initiator::origin::Origin;
use crate::initiator::port::{BackgroundTransfer, Port, ticket};
use crate::initiator::transfers::LONG_BYTES;
use crate::node::rank_state::OUTSTANDING_MAX;
use crate::transport::PeerAddress;
use crate::transport::direct::Owed;
use crate::wire::ServerId;
use crate::wire::request::Request;
use farside_fabric::lock::lock;

/// How often a thread looks for its answer before it sleeps. Between two looks it lets others run:
/// the one that is to answer may need the processor.
const LOOKS: u32 = 60;

/// The number of waits for which a thread beside one that computes sleeps at once: the scheduler
/// prefers a thread that is woken to one that has yielded.
const SLEEPS_FIRST: u32 = 256;

/// How long answers of a rank that served itself may be under way when it is known to have left.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// How long a thread that waits for a call slot sleeps at most.
pub(crate) const SLOT_PAUSE: Duration = Duration::from_millis(1);

/// The number of fragments of a fetching operation that are asked for at a time.
const FRAGMENTS_AT_ONCE: u32 = 8;

/// How long a stream that is being opened is waited for at least and at most, and for how many
/// round trips between: it takes one for the connection and one for the greeting.
const STREAM_PATIENCE: Duration = Duration::from_millis(20);
const STREAM_PATIENCE_MAX: Duration = Duration::from_millis(500);
const STREAM_ROUND_TRIPS: u64 = 4;

/// How far a port has come.
pub(crate) enum Worked {
    Done,
    /// It may be left alone for this long.
    NotYet(Duration),
    /// The progress thread drives it, and has come so far.
    InBackground(u64),
}

impl Endpoint {
    pub(crate) fn is_near(&self, peer: Rank) -> Result<bool> {
        self.state.topology.check(peer)?;
        Ok(self.state.topology.node_of(peer) == self.state.node)
    }

    /// Returns whether atomics on a near word are those of the processor.
    pub(crate) fn is_by_processor(&self, at: Word) -> bool {
        self.state.caps.cpu_coherent || at.width == Width::Pair
    }

    pub(crate) fn check_alive(&self, peer: Rank) -> Result<()> {
        self.job().check_alive(peer)
    }

    pub(crate) fn departures(&self) -> u32 {
        self.state.failures.departures()
    }

    /// Who serves a far rank's memory: its node's agent, also that of a rank which has served
    /// itself and has left.
    pub(crate) fn server_of(&self, peer: Rank) -> Result<ServerId> {
        let node = ServerId(self.state.topology.node_of(peer).0);
        if self.job().peer_state(peer) == PeerState::Left {
            return Ok(node);
        }
        let Some(server) = self.own_server_of(peer) else { return Ok(node) };
        if !self.port().knows(server) {
            let address = self.locate(peer, node)?;
            self.port().learn(server, address);
        }
        Ok(server)
    }

    /// Returns the server that a rank is for itself, where ranks are.
    pub(crate) fn own_server_of(&self, peer: Rank) -> Option<ServerId> {
        self.state.host.is_some().then(|| ServerId(self.state.topology.nodes() + peer.0))
    }

    /// Returns what fails when `server` answers for `peer` no more: the rank is lost, or it has
    /// served itself and has left, long enough ago for its last answers to have come.
    pub(crate) fn answers(&self, peer: Rank, server: ServerId) -> impl Fn() -> Result<()> + '_ {
        let left = Cell::new(None::<Instant>);
        move || {
            self.check_alive(peer)?;
            if self.own_server_of(peer) != Some(server)
                || self.job().peer_state(peer) != PeerState::Left
            {
                return Ok(());
            }
            let since = left.get().unwrap_or_else(Instant::now);
            left.set(Some(since));
            if since.elapsed() < LAST_ANSWERS {
                return Ok(());
            }
            self.port().origin.abandon(server);
            Err(Error::RankLost { rank: peer, how: ExitCause::Left })
        }
    }

    /// Waits until what was posted to a server for a rank has landed there.
    pub(crate) fn flush_server(&self, peer: Rank, server: ServerId) -> Result<()> {
        {
            let mut port = self.port();
            if !port.origin.has_landed(server) {
                port.origin.push();
                port.send(server);
            }
        }
        self.drive_until(self.answers(peer, server), |port| port.origin.has_landed(server))?;
        self.port().origin.complaint(server, peer)
    }

    /// Asks where a rank serves itself, until it does. What the node's table says of a rank that
    /// has left is out of date, and needs no clearing: [`Endpoint::server_of`] looks at the rank's
    /// state first, and who has asked before it left stops waiting for it ([`Endpoint::answers`]).
    pub(crate) fn locate(&self, peer: Rank, node: ServerId) -> Result<PeerAddress> {
        loop {
            let asked = self.port().origin.locate(node, peer);
            let found = self.await_word(peer, asked)?;
            if found != 0 {
                let ip = self.state.table.address(self.state.topology.node_of(peer))?.ip();
                return Ok(PeerAddress::Socket(SocketAddr::new(ip, found as u16)));
            }
            std::thread::yield_now();
        }
    }

    /// Gives back the slots of calls that are answered, of all threads of the rank, and looks after
    /// those of a node that nobody waits for.
    pub(crate) fn free_answered_calls(&self, node: Node) {
        {
            let mut port = self.port();
            for slot in lock(&self.state.calls).take_abandoned(node) {
                port.adopt_call(node, slot);
            }
        }
        for (node, slot) in self.state.progress.take_answered_slots() {
            lock(&self.state.calls).give_back(node, slot);
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
            self.rest(&mut looks, known, worked, LONGEST_SLEEP);
        }
    }

    /// Lets the port work once. As long as somebody looks again soon, only what has arrived counts:
    /// what is overdue is not looked for, nor the clock.
    #[inline]
    pub(crate) fn work_port(&self, looks: u32, done: &mut dyn FnMut(&mut Port) -> bool) -> Worked {
        let mut port = self.port();
        if port.has_background() {
            return if done(&mut port) { Worked::Done } else { Worked::InBackground(port.news()) };
        }
        let looks_again_soon = looks > 0 && !self.sleeps_next(looks);
        if looks_again_soon {
            port.look();
        } else {
            port.drive();
        }
        if done(&mut port) {
            return Worked::Done;
        }
        let nap = if self.sleeps_next(looks) { port.sleep_limit() } else { None };
        Worked::NotYet(nap.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP))
    }

    fn sleeps_next(&self, looks: u32) -> bool {
        looks >= LOOKS || self.sleeps_first.get() != 0
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
        let sleeps_first = self.sleeps_first.get();
        if !self.sleeps_next(*looks) && !matches!(worked, Worked::InBackground(_)) {
            *looks += 1;
            spent.yields += 1;
            let yielded_ns = now_ns();
            std::thread::yield_now();
            if now_ns().saturating_sub(yielded_ns) > CROWDED_NS {
                self.sleeps_first.set(SLEEPS_FIRST);
            }
        } else {
            self.sleeps_first.set(sleeps_first.saturating_sub(1));
            spent.parks += 1;
            let (state, index) = (&self.state, self.index);
            state.table.set_asleep(state.rank, index, true);
            // Whoever departs now sees that this thread sleeps.
            if self.departures() == known_departures {
                match worked {
                    Worked::Done => {}
                    Worked::NotYet(nap) => self.transport.sleep(nap.min(longest)),
                    Worked::InBackground(news) => self.sleep_while_driven(news, longest),
                }
            }
            state.table.set_asleep(state.rank, index, false);
        }
        self.effort.set(spent);
    }

    /// Sleeps until the progress thread has news.
    fn sleep_while_driven(&self, news: u64, longest: Duration) {
        let port = self.port();
        let told = port.has_news.clone();
        drop(told.wait_timeout_while(port, longest, |port| {
            port.has_background() && port.news() == news
        }));
    }

    /// The port, as soon as it has room: it may be full, or too much may be under way.
    #[inline]
    pub(crate) fn port_with_room(
        &self,
        peer: Rank,
        server: ServerId,
        has_room: impl Fn(&mut Port) -> bool,
    ) -> Result<MutexGuard<'_, Port>> {
        loop {
            let mut port = self.port();
            if has_room(&mut port) {
                return Ok(port);
            }
            drop(port);
            self.drive_until(self.answers(peer, server), &has_room)?;
        }
    }

    /// Posts something to a far rank, in as many steps as it takes: `step` says whether it was the
    /// last.
    pub(crate) fn post_far(
        &self,
        peer: Rank,
        step: impl FnMut(&mut Origin, ServerId) -> bool,
    ) -> Result<()> {
        self.post_far_by(peer, 1, step)
    }

    /// Likewise, and sends after so many steps.
    fn post_far_by(
        &self,
        peer: Rank,
        at_once: u32,
        mut step: impl FnMut(&mut Origin, ServerId) -> bool,
    ) -> Result<()> {
        let server = self.server_of(peer)?;
        for count in 1.. {
            let mut port =
                self.port_with_room(peer, server, |port| !port.origin.is_full(server))?;
            let is_last = step(&mut port.origin, server);
            if is_last || count % at_once == 0 {
                port.send(server);
            }
            drop(port);
            if is_last {
                break;
            }
        }
        self.state.progress.arm();
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
        let mut port = self.port_with_room(peer, server, has_room)?;
        let ticket = begin(&mut port.origin, server);
        port.send(server);
        drop(port);
        self.state.progress.arm();
        Ok(Started::Pending(ticket::transfer(ticket)))
    }

    /// Opens a stream to a server before the first long transfer, if packets for it are longer than
    /// the path's datagrams. One that does not come soon is not waited for: until it is there, and
    /// where there is none, datagrams carry everything. If nothing was sent to the server yet, an
    /// empty notice tells how soon that is.
    pub(crate) fn open_stream(&self, server: ServerId, bytes: usize) {
        if bytes < LONG_BYTES {
            return;
        }
        {
            let mut port = self.port();
            if !port.open_stream(server) {
                return;
            }
            if port.origin.round_trip_ns(server) == 0 {
                port.origin.notify(server, &Request::Landed { count: 0 });
                port.send(server);
            }
        }
        let begin = Instant::now();
        loop {
            let mut port = self.port();
            if !port.has_background() {
                port.drive();
            }
            let patience = stream_patience(port.origin.round_trip_ns(server));
            if !port.open_stream(server) || begin.elapsed() > patience {
                return;
            }
            drop(port);
            std::thread::yield_now();
        }
    }

    /// Begins a fetching operation of one or more fragments: `begin` makes its ticket, and `step`
    /// adds a fragment and says whether it was the last.
    pub(crate) fn begin_fragments(
        &self,
        peer: Rank,
        begin: impl FnOnce(&mut Origin) -> Ticket,
        mut step: impl FnMut(&mut Origin, ServerId, Ticket) -> bool,
    ) -> Result<Started> {
        let (mut first, mut is_last) = (None, false);
        let started = self.begin_far(peer, |origin, server| {
            let ticket = begin(origin);
            is_last = step(origin, server, ticket);
            first = Some(ticket);
            ticket
        })?;
        if let (Some(ticket), false) = (first, is_last) {
            let asked = self.post_far_by(peer, FRAGMENTS_AT_ONCE, |origin, server| {
                step(origin, server, ticket)
            });
            if let Err(error) = asked {
                self.port().origin.cancel(ticket);
                return Err(error);
            }
        }
        Ok(started)
    }

    /// Lets the progress thread see to a long transfer until that is over.
    pub(crate) fn add_background_transfer(&self, transfer: BackgroundTransfer) {
        if !self.state.progress.is_running() {
            return;
        }
        let mut port = self.port();
        let (is_at_it, sleeps) = (port.has_background(), port.progress_sleeps);
        port.add_background(transfer);
        drop(port);
        if !is_at_it {
            self.state.progress.hurry();
        } else if sleeps && let Ok(wakeup) = self.transport.wakeup_address() {
            self.transport.wake(wakeup);
        }
    }

    /// Whether what this rank posts to a segment counts as landings at its target.
    pub(crate) fn counts(&self, segment: SegmentId) -> bool {
        self.state.job.is_counted(self.state.rank, segment)
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
        // It ends: a node that does not answer is given up, sooner or later, and so is a rank that
        // served itself and has left.
        let _ = self.drive_until(|| Ok(()), nobody_left);
    }

    pub(crate) fn abandon_the_lost(&self, port: &mut Port) {
        if self.departures() != 0 {
            self.state.abandon_the_lost(port);
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
            if let Some(lasting) = wait.lasting.filter(|_| self.sleeps_next(looks)) {
                lasting.lasts();
            }
            self.rest(
                &mut looks,
                wait.known_departures,
                worked,
                left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP)),
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
                if is_busy && !port.has_background() {
                    port.origin.push();
                    port.drive();
                }
                // Background transfers progress without this thread, and so does what was posted
                // after.
                let is_driven = port.has_background();
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
            if let Some(lasting) = wait.lasting.filter(|_| self.sleeps_next(looks)) {
                lasting.lasts();
            }
            let patience = self.port().sleep_limit().unwrap_or(LONGEST_SLEEP);
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

/// Returns how long a stream is waited for, over a path with this round trip; zero if none was
/// measured: until then no datagram could have been answered either.
fn stream_patience(round_trip_ns: u64) -> Duration {
    if round_trip_ns == 0 {
        return STREAM_PATIENCE_MAX;
    }
    let trips = Duration::from_nanos(round_trip_ns.saturating_mul(STREAM_ROUND_TRIPS));
    trips.clamp(STREAM_PATIENCE, STREAM_PATIENCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_time_for_its_greeting_over_a_longer_way() {
        assert_eq!(stream_patience(0), STREAM_PATIENCE_MAX);
        assert_eq!(stream_patience(1), STREAM_PATIENCE);
        assert_eq!(stream_patience(50_000_000), Duration::from_millis(200));
        assert_eq!(stream_patience(u64::MAX), STREAM_PATIENCE_MAX);
    }
}

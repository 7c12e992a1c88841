//! The shm fabric: one thread's connection to the job.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use farside_fabric::lock::lock;
use farside_fabric::memory::{Contender, Look, full_fence};
use farside_fabric::record::{CONTEXTS, Records};
use farside_fabric::{
    Accumulate, Atomic, Caps, Clock, Condition, Departure, Effort, Error, Event, ExitCause, Fabric,
    Failures, Handler, HandlerId, Hint, JobState, JobView, Loss, Mapped, Node, OldValue, PeerState,
    Rank, Region, Reply, Result, SegmentId, Started, Ticket, Topology, Wait, Wake, Word,
};

use crate::agent::{Agent, Neighbourhood, Surroundings};
use crate::arena::Arena;
use crate::bell::ANYTHING;
use crate::calls::Calls;
use crate::layout::{CALL_BYTES, CALL_SLOTS};
use crate::machine::now_ns;
use crate::memory::Job;
use crate::reach::{self, Reach};
use crate::succession::Turn;
use crate::waiting::{self, Site, Waited};

/// One thread's connection to a job on this machine.
pub struct Endpoint {
    seat: Arc<RankState>,
    effort: Cell<Effort>,
    /// Which of its rank's records is this connection's, unless there was none left.
    record: Option<usize>,
}

/// There is nothing but this machine.
struct Alone(Reach);

impl Surroundings for Alone {
    fn start(&self) -> Result<Neighbourhood> {
        Ok(Neighbourhood { reach: Box::new(self.0.clone()), answered: Box::new(|_| ()) })
    }
}

/// What all connections of a rank share. The rank leaves the job when the last of them is dropped.
struct RankState {
    rank: Rank,
    job: Arc<Job>,
    topology: Arc<Topology>,
    caps: Caps,
    failures: Failures,
    arena: Mutex<Arena>,
    calls: Calls,
    surroundings: Arc<dyn Surroundings>,
    agent: Mutex<Option<Agent>>,
    /// The last to go, when the rank has left.
    companion: Mutex<Option<Companion>>,
}

/// What lives as long as a rank is a member of its job, and goes when it has left.
pub type Companion = Box<dyn std::any::Any + Send>;

/// Keeps a rank in the job, without communicating.
pub struct Membership {
    seat: Arc<RankState>,
}

impl Membership {
    /// Runs no handlers in this process any more: the one that is running is finished, and what
    /// handlers have posted has landed.
    pub fn stop_handlers(&self) {
        drop(lock(&self.seat.agent).take());
    }
}

impl Drop for RankState {
    fn drop(&mut self) {
        // First the agent: whoever runs the handlers next must not do so while this one still does.
        drop(lock(&self.agent).take());
        match self.job.end_of(self.rank) {
            PeerState::Lost(how) => self.job.declare_lost(self.rank, how),
            _ => self.job.leave(self.rank),
        }
    }
}

impl Endpoint {
    /// Takes a rank's place in the job. Each rank joins once.
    pub fn join(job: Arc<Job>, rank: Rank) -> Result<Endpoint> {
        job.topology().check(rank)?;
        let reach = Reach::new(job.clone(), job.topology().node_of(rank));
        Endpoint::join_in(job, rank, Box::new(Alone(reach)))
    }

    /// Likewise, on a machine that is one of several.
    pub fn join_in(
        job: Arc<Job>,
        rank: Rank,
        surroundings: Box<dyn Surroundings>,
    ) -> Result<Endpoint> {
        job.topology().check(rank)?;
        if !job.join(rank) {
            return Err(Error::Join(format!(
                "{rank} has already joined (its state is {:?}); a process joins once, and further \
                 threads create contexts",
                job.peer_state(rank)
            )));
        }
        let record = job.rank_record(rank);
        record.process.store(std::process::id(), Ordering::Relaxed);
        record.joined_ns.store(now_ns(), Ordering::Relaxed);
        let caps = Caps {
            name: "shm",
            ordering: if cfg!(target_arch = "x86_64") {
                farside_fabric::Ordering::PerPeer
            } else {
                farside_fabric::Ordering::Unordered
            },
            direct: true,
            cpu_coherent: true,
            call_bytes_max: CALL_BYTES,
            outstanding_max: CALL_SLOTS,
            processors: job.cores(),
            root_bytes: job.root_bytes(),
        };
        let arena = Mutex::new(Arena::new(job.arena_bytes(), job.page()));
        let (topology, failures) = (job.topology().clone(), job.hold_failures());
        let seat = RankState {
            rank,
            job,
            topology,
            caps,
            failures,
            arena,
            calls: Calls::new(rank),
            surroundings: surroundings.into(),
            agent: Mutex::default(),
            companion: Mutex::default(),
        };
        Ok(Endpoint::of(Arc::new(seat)))
    }

    /// What keeps the rank in the job when this connection is gone.
    pub fn membership(&self) -> Membership {
        Membership { seat: self.seat.clone() }
    }

    /// Keeps something until the rank has left, and drops it then.
    pub fn keep(&self, companion: Companion) {
        *lock(&self.seat.companion) = Some(companion);
    }

    /// Another connection of the same rank, for another thread.
    pub fn another(of: &Endpoint) -> Endpoint {
        Endpoint::of(of.seat.clone())
    }

    fn of(seat: Arc<RankState>) -> Endpoint {
        seat.job.endpoints().fetch_add(1, Ordering::SeqCst);
        let (job, rank) = (&seat.job, seat.rank);
        let process = std::process::id();
        let record = (0..CONTEXTS).find(|&each| job.context_record(rank, each).take(process));
        if record.is_none() {
            job.rank_record(rank).unrecorded.fetch_add(1, Ordering::Relaxed);
        }
        Endpoint { seat, effort: Cell::default(), record }
    }

    #[inline]
    fn check_alive(&self, peer: Rank) -> Result<()> {
        self.job().check_alive(peer)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            self.seat.job.context_record(self.seat.rank, record).release();
        } else {
            let unrecorded = &self.seat.job.rank_record(self.seat.rank).unrecorded;
            unrecorded.fetch_sub(1, Ordering::Relaxed);
        }
        self.seat.job.endpoints().fetch_sub(1, Ordering::SeqCst);
    }
}

impl JobState for Endpoint {
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.seat.job.peer_state(peer)
    }

    fn departure(&self, peer: Rank) -> Departure {
        self.seat.job.departure(peer)
    }

    fn note_cause(&self, cause: Option<Loss>) {
        self.seat.job.note_cause(self.seat.rank, cause);
    }

    fn leave(&self) {
        self.seat.job.leave(self.seat.rank);
    }

    fn effort(&self) -> Effort {
        self.effort.get()
    }

    fn records(&self) -> Option<Records> {
        self.record.map(|record| self.seat.job.hold_records(self.seat.rank, record))
    }
}

impl Clock for Endpoint {
    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

impl Fabric for Endpoint {
    fn job(&self) -> JobView<'_> {
        let RankState { rank, topology, caps, failures, .. } = &*self.seat;
        JobView { rank: *rank, topology, caps, failures, state: self }
    }

    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        let mut arena = lock(&self.seat.arena);
        let offset = arena.allocate(bytes).map_err(|error| self.seat.job.no_room_for(error))?;
        let published = self.seat.job.publish(self.seat.rank, segment, offset, bytes);
        if published.is_err() {
            arena.release(offset, bytes);
        }
        published
    }

    fn deregister(&self, segment: SegmentId) -> Result<()> {
        let (offset, bytes) = self.seat.job.retract(self.seat.rank, segment)?;
        lock(&self.seat.arena).release(offset, bytes);
        Ok(())
    }

    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        self.seat.job.segment(rank, segment).map(Some)
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.check_alive(to.rank)?;
        self.seat.job.segment(to.rank, to.segment)?.write(to, bytes)
    }

    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, _hint: Hint) -> Result<Started> {
        self.check_alive(from.rank)?;
        let mapped = self.seat.job.segment(from.rank, from.segment)?;
        // SAFETY: by the caller's promise.
        unsafe { mapped.read_raw(from, into)? };
        Ok(Started::Done(Reply::None))
    }

    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        self.check_alive(to.rank)?;
        let mut holder_is_lost = |holder| {
            self.relax();
            self.job().is_lost(holder)
        };
        let mut contender = Contender { me: self.seat.rank, holder_is_lost: &mut holder_is_lost };
        let mapped = self.seat.job.segment(to.rank, to.segment)?;
        let reply = mapped.combine_for(to, accumulate, bytes, old, &mut contender)?;
        if old == OldValue::Wanted {
            // What is complete has landed, ahead of what this rank reads next.
            full_fence();
        }
        Ok(Started::Done(reply))
    }

    fn atomic(&self, at: Word, op: Atomic, _old: OldValue) -> Result<Started> {
        self.check_alive(at.rank)?;
        Ok(Started::Done(Reply::Word(reach::execute(&self.seat.job, at, op)?)))
    }

    fn fence(&self) -> Result<()> {
        full_fence();
        Ok(())
    }

    fn flush(&self, peer: Rank) -> Result<()> {
        self.check_alive(peer)?;
        full_fence();
        Ok(())
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        self.job().check_agent(node)?;
        match self.seat.job.turn(node) {
            Turn::Of(_) => {}
            Turn::Over(rank) => return Err(Error::RankLost { rank, how: ExitCause::Left }),
            Turn::Nobody => return Err(Error::NoHandler { node, handler: handler.0 }),
        }
        let alive = || self.job().check_agent(node);
        Ok(Started::Pending(self.seat.calls.begin(&self.seat.job, node, handler, bytes, &alive)?))
    }

    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        let RankState { job, rank, surroundings, .. } = &*self.seat;
        let mut agent = lock(&self.seat.agent);
        let agent = match &mut *agent {
            Some(agent) => agent,
            none => none.insert(Agent::start(job.clone(), *rank, surroundings.clone())?),
        };
        agent.register(handler, run);
        Ok(())
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        self.seat.calls.finish(&self.seat.job, ticket)
    }

    fn cancel(&self, ticket: Ticket) {
        self.seat.calls.abandon(ticket);
    }

    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let job = &self.seat.job;
        let at = |bits| Site {
            job,
            bell: job.bell(self.seat.rank),
            bits,
            known_departures: wait.known_departures,
            timeout: wait.timeout,
            soon: wait.soon,
            spins: wait.soon,
            lasting: wait.lasting,
        };
        // Most waits are for one word, or for one and a way out: those are looked at without a
        // detour over the heap.
        let waited = match wait.event {
            Event::Done(ticket) => {
                let ready = || self.seat.calls.is_done(job, ticket).then_some((0, 0));
                waiting::wait(at(ANYTHING), ready, &self.effort)
            }
            Event::Words([]) => waiting::wait(at(0), || None, &self.effort),
            Event::Words([a]) => {
                let (bit, x) = self.watch(a)?;
                waiting::wait(at(bit), || look(0, a, x), &self.effort)
            }
            Event::Words([a, b]) => {
                let ((one, x), (other, y)) = (self.watch(a)?, self.watch(b)?);
                let ready = || look(0, a, x).or_else(|| look(1, b, y));
                waiting::wait(at(one | other), ready, &self.effort)
            }
            Event::Words(conditions) => {
                let words =
                    conditions.iter().map(|each| self.watch(each)).collect::<Result<Vec<_>>>()?;
                let bits = words.iter().fold(0, |bits, (bit, _)| bits | bit);
                let ready = || {
                    let mut all = conditions.iter().zip(&words).enumerate();
                    all.find_map(|(which, (each, (_, word)))| look(which, each, *word))
                };
                waiting::wait(at(bits), ready, &self.effort)
            }
        };
        Ok(match waited {
            Waited::Ready((which, value)) => Wake::Ready { which, value },
            Waited::Departure => Wake::Departure,
            Waited::TimedOut => Wake::TimedOut,
        })
    }

    fn relax(&self) {
        let job = &self.seat.job;
        if job.endpoints().load(Ordering::Relaxed) <= job.cores() {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn wake(&self, peer: Rank) {
        if self.seat.topology.check(peer).is_ok() {
            self.seat.job.bell(peer).ring();
        }
    }

    fn context(&self) -> Result<Box<dyn farside_fabric::Connection>> {
        Ok(Box::new(Endpoint::another(self)))
    }

    fn clock(&self) -> Option<&dyn Clock> {
        Some(self)
    }
}

impl Endpoint {
    /// A word that this rank may wait on, and the bit it is announced under.
    fn watch<'a>(&self, condition: &Condition<'a>) -> Result<(u64, Look<'a>)> {
        condition.check(self.seat.rank)?;
        let Condition { at, memory, .. } = *condition;
        let misaligned = Error::Misaligned { offset: at.offset, align: at.width.bytes() };
        let word = memory.look(at.offset, at.width).ok_or(misaligned)?;
        Ok((memory.watch_bits(at.offset, at.width), word))
    }
}

/// Which condition it is and what its word holds, if that satisfies it.
#[inline]
fn look(which: usize, condition: &Condition<'_>, word: Look<'_>) -> Option<(usize, u64)> {
    let value = word.load();
    (condition.until)(value).then_some((which, value))
}

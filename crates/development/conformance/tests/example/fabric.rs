//! A complete fabric for ranks that are threads of one process: one lock around all memory, one
//! condition variable for all sleepers. `docs/adding-a-fabric.md` walks through it.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use farside_fabric::record::Records;
use farside_fabric::{
    Accumulate, Agent, Atomic, Caps, Contender, Departure, Effort, Error, Event, ExitCause, Fabric,
    Failures, Handler, HandlerId, Hint, JobState, JobView, Loss, Mapped, Node, OldValue, Ordering,
    PeerState, Rank, Region, Reply, Result, Roster, SegmentId, Started, Ticket, Topology, Wait,
    Wake, Word,
};

const CALL_BYTES: u64 = 4096;
/// The most memory that one segment may have.
const SEGMENT_BYTES: u64 = 1 << 30;

/// A job, shared by all its ranks.
pub(crate) struct Job {
    topology: Topology,
    caps: Caps,
    failures: Failures,
    state: Mutex<State>,
    /// Notified whenever memory has changed or a rank has departed.
    changed: Condvar,
}

/// What the lock protects.
struct State {
    roster: Roster,
    segments: HashMap<(Rank, SegmentId), Mapped>,
    handlers: HashMap<(Rank, HandlerId), Handler>,
}

/// A page of shared memory. `Mapped` is the only way to it.
#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; 4096]>);

// SAFETY: its bytes are touched through `Mapped` alone, whose accesses may race.
unsafe impl Sync for Page {}

/// Maps fresh, zeroed memory.
fn allocate(bytes: u64) -> Mapped {
    let page = |_| Page(UnsafeCell::new([0; 4096]));
    let pages: Vec<Page> = (0..bytes.div_ceil(4096).max(1)).map(page).collect();
    let base = NonNull::from(&pages[0]).cast();
    // SAFETY: the pages are aligned, and stay where they are while the mapping holds the vector.
    unsafe { Mapped::new(base, bytes, Arc::new(pages)) }
}

impl Job {
    /// A job of `ranks` ranks on one node, with first segments of `root_bytes`.
    pub(crate) fn new(ranks: u32, root_bytes: u64) -> Arc<Job> {
        let topology = Topology::flat(ranks);
        let roster = Roster::new(ranks);
        let root = |&rank: &Rank| ((rank, SegmentId::ROOT), allocate(root_bytes));
        let segments = topology.all().iter().map(root).collect();
        let caps = Caps {
            name: "example",
            ordering: Ordering::PerPeer,
            direct: false,
            cpu_coherent: true,
            call_bytes_max: CALL_BYTES,
            outstanding_max: u32::MAX,
            processors: ranks,
            root_bytes,
        };
        let failures = Failures::from(roster.failures().clone());
        let state = Mutex::new(State { roster, segments, handlers: HashMap::new() });
        Arc::new(Job { topology, caps, failures, state, changed: Condvar::new() })
    }

    /// Makes `rank` a member of the job. Each rank joins once.
    pub(crate) fn join(self: &Arc<Job>, rank: Rank) -> Result<Endpoint> {
        self.topology.check(rank)?;
        if !self.lock().roster.join(rank) {
            return Err(Error::Join(format!("{rank} has joined before")));
        }
        Ok(Endpoint { member: Arc::new(Member { job: self.clone(), rank }) })
    }

    pub(crate) fn depart(&self, rank: Rank, lost: Option<ExitCause>) {
        self.lock().roster.depart(rank, lost);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A handler that panics leaves memory as an interrupted rank would.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank's membership, shared by its connections: the rank leaves with the last of them.
struct Member {
    job: Arc<Job>,
    rank: Rank,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.job.depart(self.rank, std::thread::panicking().then_some(ExitCause::Panicked));
    }
}

/// One thread's connection to the job.
pub(crate) struct Endpoint {
    member: Arc<Member>,
}

impl Endpoint {
    /// Changes memory of a rank that must not be lost, and wakes all sleepers to look at it.
    fn change<R>(&self, peer: Rank, act: impl FnOnce(&State) -> Result<R>) -> Result<R> {
        self.job().check_alive(peer)?;
        let done = act(&self.member.job.lock());
        self.member.job.changed.notify_all();
        done
    }
}

impl State {
    fn mapped(&self, rank: Rank, segment: SegmentId) -> Result<&Mapped> {
        self.segments.get(&(rank, segment)).ok_or(Error::NoSegment { rank, segment })
    }
}

impl JobState for Member {
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.job.lock().roster.peer_state(peer)
    }
    fn departure(&self, peer: Rank) -> Departure {
        self.job.lock().roster.departure(peer)
    }
    fn note_cause(&self, cause: Option<Loss>) {
        self.job.lock().roster.note_cause(self.rank, cause);
    }
    fn leave(&self) {}
    fn records(&self) -> Option<Records> {
        None
    }
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

impl Fabric for Endpoint {
    fn job(&self) -> JobView<'_> {
        let Job { topology, caps, failures, .. } = &*self.member.job;
        JobView { rank: self.member.rank, topology, caps, failures, state: &*self.member }
    }

    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        let limit = SEGMENT_BYTES;
        if bytes > limit {
            return Err(Error::OutOfMemory { asked: bytes, free: limit, limit });
        }
        self.member.job.lock().segments.insert((self.member.rank, segment), allocate(bytes));
        Ok(())
    }
    fn deregister(&self, segment: SegmentId) -> Result<()> {
        let rank = self.member.rank;
        let freed = self.member.job.lock().segments.remove(&(rank, segment));
        freed.map(drop).ok_or(Error::NoSegment { rank, segment })
    }
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        self.member.job.lock().mapped(rank, segment).map(|mapped| Some(mapped.clone()))
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.change(to.rank, |state| state.mapped(to.rank, to.segment)?.write(to, bytes))
    }
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, _hint: Hint) -> Result<Started> {
        self.job().check_alive(from.rank)?;
        let state = self.member.job.lock();
        // SAFETY: by the caller's promise.
        unsafe { state.mapped(from.rank, from.segment)?.read_raw(from, into)? };
        Ok(Started::Done(Reply::None))
    }
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        self.change(to.rank, |state| {
            let mut alone = Contender { me: self.member.rank, holder_is_lost: &mut |_| false };
            let mapped = state.mapped(to.rank, to.segment)?;
            mapped.combine_for(to, accumulate, bytes, old, &mut alone).map(Started::Done)
        })
    }
    fn atomic(&self, at: Word, op: Atomic, _old: OldValue) -> Result<Started> {
        let execute = |state: &State| state.mapped(at.rank, at.segment)?.execute(at, op);
        Ok(Started::Done(Reply::Word(self.change(at.rank, execute)?)))
    }
    fn fence(&self) -> Result<()> {
        Ok(()) // Everything has landed when its call returns.
    }
    fn flush(&self, peer: Rank) -> Result<()> {
        self.job().check_alive(peer)
    }

    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let (job, caller) = (&self.member.job, self.member.rank);
        check_bytes("bytes of a call's argument", bytes)?;
        let mut state = job.lock();
        let runner = job.topology.first_left(node, |rank| state.roster.peer_state(rank))?;
        // The handler leaves its place while it runs, so that it can read the rest.
        let none = Error::NoHandler { node, handler: handler.0 };
        let mut run = state.handlers.remove(&(runner, handler)).ok_or(none)?;
        let reply = run(&HandlerAgent { node, state: &state }, caller, bytes);
        state.handlers.insert((runner, handler), run);
        job.changed.notify_all();
        check_bytes("bytes of a call's reply", &reply)?;
        Ok(Started::Done(Reply::Bytes(reply)))
    }
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.member.job.lock().handlers.insert((self.member.rank, handler), run);
        Ok(())
    }

    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        Err(Error::Internal(format!("{ticket:?}: no operation of this fabric is ever pending")))
    }
    fn cancel(&self, _ticket: Ticket) {}
    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let Event::Words(conditions) = wait.event else {
            return Ok(Wake::Ready { which: 0, value: 0 });
        };
        conditions.iter().try_for_each(|condition| condition.check(self.member.rank))?;
        let deadline = wait.timeout.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.member.job.lock();
        loop {
            for (which, condition) in conditions.iter().enumerate() {
                let word = condition.memory.look(condition.at.offset, condition.at.width);
                let value = word.map_or(0, |word| word.load());
                if (condition.until)(value) {
                    return Ok(Wake::Ready { which, value });
                }
            }
            if state.roster.count() != wait.known_departures {
                return Ok(Wake::Departure);
            }
            let changed = &self.member.job.changed;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(left) if left.is_zero() => return Ok(Wake::TimedOut),
                Some(left) => {
                    changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
    fn relax(&self) {
        std::thread::yield_now();
    }
    fn wake(&self, _peer: Rank) {
        self.member.job.changed.notify_all();
    }
    fn context(&self) -> Result<Box<dyn farside_fabric::Connection>> {
        Ok(Box::new(Endpoint { member: self.member.clone() }))
    }
}

/// What a handler can reach: the state, whose lock is held while it runs.
struct HandlerAgent<'a> {
    node: Node,
    state: &'a State,
}

impl Agent for HandlerAgent<'_> {
    fn node(&self) -> Node {
        self.node
    }
    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        self.state.mapped(at.rank, at.segment)?.execute(at, op)
    }
    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.atomic(at, op).map(drop)
    }
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.state.mapped(to.rank, to.segment)?.write(to, bytes)
    }
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.put(to, bytes)?;
        self.post(at, op)
    }
    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        self.state.mapped(from.rank, from.segment)?.read(from, into)
    }
}

fn check_bytes(what: &'static str, bytes: &[u8]) -> Result<()> {
    match bytes.len() as u64 {
        value if value > CALL_BYTES => Err(Error::TooMuch { what, value, limit: CALL_BYTES }),
        _ => Ok(()),
    }
}

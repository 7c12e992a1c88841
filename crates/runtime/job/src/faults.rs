//! A decorator over any connection in which one call of one rank fails, for tests: libraries that
//! are shipped are built without the feature.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use farside_fabric::{
    Accumulate, Atomic, Caps, Connection, Error, Handler, HandlerId, Hint, JobView, Mapped, Node,
    OldValue, Probe, ProbeEvent, Rank, Region, Result, SegmentId, Started, Step, Word, forward,
};

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory, its mappings, handlers and contexts.
    Allocation,
    /// Everything that reaches another rank's memory, or its agent.
    Operation,
    /// The answer of an operation that has been done.
    Answer,
    /// A step of a protocol that is left out: without it, the protocol finds no room.
    Room(Step),
}

/// The environment variable that says which call fails in a program of another language, which
/// knows nothing of it: `allocation:7@1` is the eighth allocation of rank 1.
pub const VARIABLE: &str = "FARSIDE_TEST_FAULT";
/// What is said on standard error when that call is made.
pub const SAID: &str = "farside: the fault of a test";
/// What the error says.
pub const TEXT: &str = "the fault of a test";

/// The call that fails, and what was seen.
pub struct Faults {
    kind: Kind,
    rank: Rank,
    /// How many such calls come before it.
    after: u64,
    is_armed: AtomicBool,
    calls: AtomicU64,
    is_told: bool,
    /// How many segments all ranks have.
    segments: AtomicI64,
}

impl Faults {
    /// The call of a kind that `rank` makes after so many others of this kind.
    pub fn new(kind: Kind, rank: Rank, after: u64) -> Arc<Faults> {
        Arc::new(Faults::of(kind, rank, after))
    }

    fn of(kind: Kind, rank: Rank, after: u64) -> Faults {
        Faults {
            kind,
            rank,
            after,
            is_armed: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            is_told: false,
            segments: AtomicI64::new(0),
        }
    }

    /// The call that [`VARIABLE`] names, which fails from the start on.
    pub(crate) fn from_environment() -> Result<Option<Arc<Faults>>> {
        let Some(text) = crate::variable(VARIABLE) else { return Ok(None) };
        let read = || {
            let (kind, place) = text.split_once(':')?;
            let (after, rank) = place.split_once('@')?;
            let kind = match kind {
                "allocation" => Kind::Allocation,
                "operation" => Kind::Operation,
                "answer" => Kind::Answer,
                _ => return None,
            };
            Some(Faults::of(kind, Rank(rank.parse().ok()?), after.parse().ok()?))
        };
        match read() {
            Some(faults) => {
                let is_armed = AtomicBool::new(true);
                Ok(Some(Arc::new(Faults { is_armed, is_told: true, ..faults })))
            }
            None => Err(Error::Join(format!("{VARIABLE}={text:?} is not KIND:NUMBER@RANK"))),
        }
    }

    /// Puts them in front of a connection.
    pub fn over(self: &Arc<Faults>, inner: Box<dyn Connection>) -> Box<dyn Connection> {
        let caps = Caps { direct: false, ..inner.job().caps.clone() };
        Box::new(Faulty { inner, faults: self.clone(), caps })
    }

    /// Lets the call fail from now on, or no more, if `rank` is the one that makes it.
    pub fn arm(&self, rank: Rank, is_armed: bool) {
        if rank == self.rank {
            self.is_armed.store(is_armed, Ordering::Relaxed);
        }
    }

    /// What fails.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the call was made.
    pub fn has_struck(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.after
    }

    /// How many segments all ranks have.
    pub fn segments(&self) -> i64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Counts a call; whether it is the one that fails.
    fn strikes(&self, rank: Rank, kind: Kind) -> bool {
        let is_meant =
            kind == self.kind && rank == self.rank && self.is_armed.load(Ordering::Relaxed);
        is_meant && self.calls.fetch_add(1, Ordering::Relaxed) == self.after
    }

    fn check(&self, rank: Rank, kind: Kind) -> Result<()> {
        if !self.strikes(rank, kind) {
            return Ok(());
        }
        if self.is_told {
            let said = format!("{SAID}: {kind:?} {} of {rank}\n", self.after);
            // In one piece, whoever else writes there.
            let _ = std::io::stderr().write_all(said.as_bytes());
        }
        Err(match kind {
            Kind::Allocation | Kind::Room(_) => Error::Exhausted(TEXT.into()),
            Kind::Operation | Kind::Answer => Error::Network(TEXT.into()),
        })
    }
}

struct Faulty {
    inner: Box<dyn Connection>,
    faults: Arc<Faults>,
    caps: Caps,
}

impl Faulty {
    fn check(&self, kind: Kind) -> Result<()> {
        self.faults.check(self.inner.job().rank, kind)
    }

    /// Fails although something has been done. What is still under way uses memory of the caller.
    fn answer(&self, done: Started) -> Result<Started> {
        match done {
            Started::Done(_) => self.check(Kind::Answer).map(|()| done),
            Started::Pending(_) => Ok(done),
        }
    }
}

impl Connection for Faulty {
    forward! { to .inner: poll cancel block relax wake landings clock }

    fn job(&self) -> JobView<'_> {
        JobView { caps: &self.caps, ..self.inner.job() }
    }
    fn probe(&self) -> Option<Arc<dyn Probe>> {
        let Kind::Room(step) = self.faults.kind else { return self.inner.probe() };
        let (inner, faults, rank) =
            (self.inner.probe(), self.faults.clone(), self.inner.job().rank);
        Some(Arc::new(Full { inner, faults, rank, step }))
    }
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        self.check(Kind::Allocation)?;
        self.inner.register(segment, bytes)?;
        self.faults.segments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn deregister(&self, segment: SegmentId) -> Result<()> {
        self.inner.deregister(segment)?;
        self.faults.segments.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>> {
        self.check(Kind::Allocation)?;
        self.inner.map(rank, segment)
    }
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.check(Kind::Allocation)?;
        self.inner.serve(handler, run)
    }
    fn context(&self) -> Result<Box<dyn Connection>> {
        self.check(Kind::Allocation)?;
        Ok(self.faults.over(self.inner.context()?))
    }
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.check(Kind::Operation)?;
        self.inner.put(to, bytes)?;
        self.check(Kind::Answer)
    }
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        self.check(Kind::Operation)?;
        // SAFETY: the caller's promise is passed on.
        self.answer(unsafe { self.inner.put_nb(to, from, hint) }?)
    }
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.check(Kind::Operation)?;
        self.inner.put_signal(to, bytes, at, op)?;
        self.check(Kind::Answer)
    }
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started> {
        self.check(Kind::Operation)?;
        // SAFETY: the caller's promise is passed on.
        self.answer(unsafe { self.inner.get(from, into, hint) }?)
    }
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        self.check(Kind::Operation)?;
        self.answer(self.inner.accumulate(to, accumulate, bytes, old)?)
    }
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        self.check(Kind::Operation)?;
        self.answer(self.inner.atomic(at, op, old)?)
    }
    fn fence(&self) -> Result<()> {
        self.check(Kind::Operation)?;
        self.inner.fence()?;
        self.check(Kind::Answer)
    }
    fn flush(&self, peer: Rank) -> Result<()> {
        self.check(Kind::Operation)?;
        self.inner.flush(peer)?;
        self.check(Kind::Answer)
    }
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        self.check(Kind::Operation)?;
        self.answer(self.inner.call(node, handler, bytes)?)
    }
}

/// The probe of a connection over which a protocol finds no room once.
struct Full {
    inner: Option<Arc<dyn Probe>>,
    faults: Arc<Faults>,
    rank: Rank,
    step: Step,
}

impl Probe for Full {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Omits(step) if step == self.step => {
                self.faults.strikes(self.rank, Kind::Room(step)).then_some(1)
            }
            event => self.inner.as_ref()?.event(event),
        }
    }
}

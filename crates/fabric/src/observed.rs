//! A decorator over any fabric that shows every operation to an observer.
//!
//! An observed fabric has no near memory: every operation passes through it, so that nothing goes
//! unseen.

use std::sync::Arc;

use crate::address::{Node, Rank, Region, SegmentId, Word};
use crate::departure::{Departure, Loss};
use crate::error::Result;
use crate::memory::Mapped;
use crate::operation::{Atomic, Sum};
use crate::topology::Topology;
use crate::waist::{
    Caps, Effort, Event, Fabric, FailureCounters, Handler, HandlerId, PeerState, Reply, Started,
    Ticket, Wait, Wake,
};

/// What is seen of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// Whom it goes to, where it goes to somebody.
    pub peer: Option<Rank>,
    /// How many bytes of data it moves.
    pub bytes: u64,
}

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the vocabulary of the crate's documentation")]
pub enum Kind {
    Put,
    Get,
    Accumulate,
    Atomic,
    Post,
    PutSignal,
    Fence,
    Flush,
    Call,
    Wait,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 10] = [
        Kind::Put,
        Kind::Get,
        Kind::Accumulate,
        Kind::Atomic,
        Kind::Post,
        Kind::PutSignal,
        Kind::Fence,
        Kind::Flush,
        Kind::Call,
        Kind::Wait,
    ];

    /// What it is called where operations are shown: `put`, `put_signal` …
    pub fn name(self) -> &'static str {
        match self {
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::Accumulate => "accumulate",
            Kind::Atomic => "atomic",
            Kind::Post => "post",
            Kind::PutSignal => "put_signal",
            Kind::Fence => "fence",
            Kind::Flush => "flush",
            Kind::Call => "call",
            Kind::Wait => "wait",
        }
    }
}

/// Sees operations begin and end.
pub trait Observer: Send + Sync {
    /// `rank` begins an operation; what is returned comes back with its end.
    fn begin(&self, rank: Rank, operation: &Operation) -> u64;
    /// That operation has returned to its caller (a posted one may still be under way).
    fn end(&self, rank: Rank, operation: &Operation, begun: u64);
    /// What `rank` hears of a peer's fate: all there is to know, unless an observer holds news
    /// back, as a network may.
    fn hears(&self, _rank: Rank, _peer: Rank, peer_state: PeerState) -> PeerState {
        peer_state
    }
}

/// A fabric whose operations an observer sees.
pub struct Observed {
    inner: Box<dyn Fabric>,
    observer: Arc<dyn Observer>,
}

impl Observed {
    /// Puts `observer` in front of `inner`.
    pub fn new(inner: Box<dyn Fabric>, observer: Arc<dyn Observer>) -> Observed {
        Observed { inner, observer }
    }

    fn see<R>(&self, kind: Kind, peer: Option<Rank>, bytes: u64, run: impl FnOnce() -> R) -> R {
        let operation = Operation { kind, peer, bytes };
        let begun = self.observer.begin(self.inner.rank(), &operation);
        let result = run();
        self.observer.end(self.inner.rank(), &operation, begun);
        result
    }
}

impl Fabric for Observed {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }
    fn topology(&self) -> &Topology {
        self.inner.topology()
    }
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }
    fn failures(&self) -> &FailureCounters {
        self.inner.failures()
    }
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.observer.hears(self.inner.rank(), peer, self.inner.peer_state(peer))
    }
    fn check_agent(&self, node: Node) -> Result<()> {
        self.inner.check_agent(node)
    }
    fn departure(&self, peer: Rank) -> Departure {
        Departure { peer_state: self.peer_state(peer), ..self.inner.departure(peer) }
    }
    fn note_cause(&self, cause: Option<Loss>) {
        self.inner.note_cause(cause);
    }
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()> {
        self.inner.register(segment, bytes)
    }
    fn deregister(&self, segment: SegmentId) -> Result<()> {
        self.inner.deregister(segment)
    }
    fn own(&self, segment: SegmentId) -> Result<Mapped> {
        self.inner.own(segment)
    }
    fn near(&self, _peer: Rank, _segment: SegmentId) -> Option<Mapped> {
        None
    }
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.see(Kind::Put, Some(to.rank), bytes.len() as u64, || self.inner.put(to, bytes))
    }
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8) -> Result<Started> {
        let bytes = from.shape.bytes().unwrap_or(0);
        // SAFETY: the caller's promise is passed on.
        self.see(Kind::Get, Some(from.rank), bytes, || unsafe { self.inner.get(from, into) })
    }
    fn accumulate(&self, to: &Region<'_>, sum: &Sum, bytes: &[u8]) -> Result<()> {
        self.see(Kind::Accumulate, Some(to.rank), bytes.len() as u64, || {
            self.inner.accumulate(to, sum, bytes)
        })
    }
    fn atomic(&self, at: Word, op: Atomic) -> Result<Started> {
        self.see(Kind::Atomic, Some(at.rank), at.width.bytes(), || self.inner.atomic(at, op))
    }
    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.see(Kind::Post, Some(at.rank), at.width.bytes(), || self.inner.post(at, op))
    }
    fn fence(&self) -> Result<()> {
        self.see(Kind::Fence, None, 0, || self.inner.fence())
    }
    fn flush(&self, peer: Rank) -> Result<()> {
        self.see(Kind::Flush, Some(peer), 0, || self.inner.flush(peer))
    }
    fn landings(&self) -> Result<Option<Word>> {
        self.inner.landings()
    }
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let leader = self.topology().leader_of(node).ok();
        self.see(Kind::Call, leader, bytes.len() as u64, || self.inner.call(node, handler, bytes))
    }
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()> {
        self.inner.serve(handler, run)
    }
    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>> {
        self.inner.poll(ticket)
    }
    fn cancel(&self, ticket: Ticket) {
        self.inner.cancel(ticket);
    }
    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let peer = match wait.event {
            Event::Words(_) => Some(self.rank()),
            Event::Done(_) => None,
        };
        self.see(Kind::Wait, peer, 0, || self.inner.block(wait))
    }
    fn relax(&self) {
        self.inner.relax();
    }
    fn wake(&self, peer: Rank) {
        self.inner.wake(peer);
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn work(&self, ns: u64) {
        self.inner.work(ns);
    }
    fn held_up(&self, holder: Rank) -> bool {
        self.inner.held_up(holder)
    }
    fn context(&self) -> Result<Box<dyn Fabric>> {
        Ok(Box::new(Observed::new(self.inner.context()?, self.observer.clone())))
    }
    fn effort(&self) -> Effort {
        self.inner.effort()
    }
    fn entrust(&self, ticket: Ticket) {
        self.inner.entrust(ticket);
    }
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8) -> Result<Started> {
        let bytes = to.shape.bytes().unwrap_or(0);
        // SAFETY: the caller's promise is passed on.
        self.see(Kind::Put, Some(to.rank), bytes, || unsafe { self.inner.put_nb(to, from) })
    }
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.see(Kind::PutSignal, Some(to.rank), bytes.len() as u64, || {
            self.inner.put_signal(to, bytes, at, op)
        })
    }
}

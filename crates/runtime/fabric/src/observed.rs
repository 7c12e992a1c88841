//! A decorator over any connection that shows every operation to a probe.
//!
//! An observed connection allows no direct use of mapped memory ([`Caps::direct`]): every operation
//! passes through it, so that nothing goes unseen.

use std::sync::Arc;

use crate::accumulate::Accumulate;
use crate::address::{Node, Rank, Region, Word};
use crate::connection::Connection;
use crate::error::Result;
use crate::forward;
use crate::job::JobView;
use crate::operation::Atomic;
use crate::probe::{Probe, ProbeEvent};
use crate::waist::{Caps, Event, HandlerId, Hint, OldValue, Started, Wait, Wake};

/// What is seen of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// The rank it goes to, if it goes to one.
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

    /// Returns its name where operations are shown: `put`, `put_signal` …
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

/// A connection whose operations a probe sees.
pub struct Observed {
    inner: Box<dyn Connection>,
    probe: Arc<dyn Probe>,
    caps: Caps,
}

impl Observed {
    /// Shows the operations of `inner` to `probe`.
    pub fn new(inner: Box<dyn Connection>, probe: Arc<dyn Probe>) -> Observed {
        let caps = Caps { direct: false, ..inner.job().caps.clone() };
        Observed { inner, probe, caps }
    }

    fn see<R>(&self, kind: Kind, peer: Option<Rank>, bytes: u64, run: impl FnOnce() -> R) -> R {
        let (operation, rank) = (Operation { kind, peer, bytes }, self.inner.job().rank);
        let begun = self.probe.event(ProbeEvent::Begin { rank, operation: &operation });
        let result = run();
        let begun = begun.unwrap_or(0);
        self.probe.event(ProbeEvent::End { rank, operation: &operation, begun });
        result
    }
}

impl Connection for Observed {
    forward! {
        to .inner: register deregister map serve poll cancel relax wake landings clock probe
    }

    fn job(&self) -> JobView<'_> {
        JobView { caps: &self.caps, ..self.inner.job() }
    }
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        self.see(Kind::Put, Some(to.rank), bytes.len() as u64, || self.inner.put(to, bytes))
    }
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started> {
        let bytes = to.shape.bytes().unwrap_or(0);
        // SAFETY: the caller's promise is passed on.
        let put = || unsafe { self.inner.put_nb(to, from, hint) };
        self.see(Kind::Put, Some(to.rank), bytes, put)
    }
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.see(Kind::PutSignal, Some(to.rank), bytes.len() as u64, || {
            self.inner.put_signal(to, bytes, at, op)
        })
    }
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started> {
        let bytes = from.shape.bytes().unwrap_or(0);
        // SAFETY: the caller's promise is passed on.
        let get = || unsafe { self.inner.get(from, into, hint) };
        self.see(Kind::Get, Some(from.rank), bytes, get)
    }
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started> {
        self.see(Kind::Accumulate, Some(to.rank), bytes.len() as u64, || {
            self.inner.accumulate(to, accumulate, bytes, old)
        })
    }
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started> {
        let kind = match old {
            OldValue::Wanted => Kind::Atomic,
            OldValue::Ignored => Kind::Post,
        };
        self.see(kind, Some(at.rank), at.width.bytes(), || self.inner.atomic(at, op, old))
    }
    fn fence(&self) -> Result<()> {
        self.see(Kind::Fence, None, 0, || self.inner.fence())
    }
    fn flush(&self, peer: Rank) -> Result<()> {
        self.see(Kind::Flush, Some(peer), 0, || self.inner.flush(peer))
    }
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started> {
        let leader = self.inner.job().topology.leader_of(node).ok();
        self.see(Kind::Call, leader, bytes.len() as u64, || self.inner.call(node, handler, bytes))
    }
    fn block(&self, wait: &Wait<'_>) -> Result<Wake> {
        let peer = match wait.event {
            Event::Words(_) => Some(self.inner.job().rank),
            Event::Done(_) => None,
        };
        self.see(Kind::Wait, peer, 0, || self.inner.block(wait))
    }
    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Observed::new(self.inner.context()?, self.probe.clone())))
    }
}

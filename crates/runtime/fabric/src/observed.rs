//! A decorator over any connection that shows every operation to a probe.
//!
//! An observed connection allows no direct use of mapped memory ([`Caps::direct`]): every operation
//! passes through it, so that nothing goes unseen.

use std::sync::Arc;

use crate::accumulate::Accumulate;
use crate::address::{Region, Word};
use crate::caps::Caps;
use crate::connection::{Connection, Event, HandlerId, Wait, Wake};
use crate::error::Result;
use crate::forward;
use crate::job::JobView;
use crate::names::{Node, Rank};
use crate::operation::{Atomic, Hint, OldValue, Started};
pub use crate::probe::{Kind, Operation};
use crate::probe::{Probe, ProbeEvent};

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

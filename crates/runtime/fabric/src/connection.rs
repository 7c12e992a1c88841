//! The [`Connection`] trait: what `rma` and all layers above use of a fabric.
//!
//! It has the methods of [`Fabric`], and provides none: a type that stands on another connection
//! implements it directly, so that a method which is added and not forwarded does not compile. The
//! [`forward!`](crate::forward) macro writes the methods that such a type passes on unchanged.

use std::sync::Arc;

use crate::accumulate::Accumulate;
use crate::address::{Node, Rank, Region, SegmentId, Word};
use crate::error::Result;
use crate::job::JobView;
use crate::memory::Mapped;
use crate::operation::Atomic;
use crate::probe::Probe;
use crate::waist::{
    Clock, Fabric, Handler, HandlerId, Hint, Landings, OldValue, Reply, Started, Ticket, Wait, Wake,
};

/// One rank's (more exactly: one context's) connection to the job. See [`Fabric`] for what each
/// method means; every [`Fabric`] is a connection.
///
/// Every method is required:
///
/// ```compile_fail,E0046
/// use farside_fabric::{Connection, forward};
/// struct Wrapper(Box<dyn Connection>);
/// impl Connection for Wrapper {
///     // `put_nb` and the others that are not named here are missing.
///     forward! { to .0: job register deregister map put get accumulate atomic fence flush }
/// }
/// ```
#[expect(missing_docs, reason = "each method is documented at `Fabric`")]
#[expect(clippy::missing_safety_doc, reason = "each method is documented at `Fabric`")]
pub trait Connection: Send {
    fn job(&self) -> JobView<'_>;
    fn register(&self, segment: SegmentId, bytes: u64) -> Result<()>;
    fn deregister(&self, segment: SegmentId) -> Result<()>;
    fn map(&self, rank: Rank, segment: SegmentId) -> Result<Option<Mapped>>;
    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()>;
    unsafe fn put_nb(&self, to: &Region<'_>, from: *const u8, hint: Hint) -> Result<Started>;
    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()>;
    unsafe fn get(&self, from: &Region<'_>, into: *mut u8, hint: Hint) -> Result<Started>;
    fn accumulate(
        &self,
        to: &Region<'_>,
        accumulate: &Accumulate,
        bytes: &[u8],
        old: OldValue,
    ) -> Result<Started>;
    fn atomic(&self, at: Word, op: Atomic, old: OldValue) -> Result<Started>;
    fn fence(&self) -> Result<()>;
    fn flush(&self, peer: Rank) -> Result<()>;
    fn call(&self, node: Node, handler: HandlerId, bytes: &[u8]) -> Result<Started>;
    fn serve(&self, handler: HandlerId, run: Handler) -> Result<()>;
    fn poll(&self, ticket: Ticket) -> Result<Option<Reply>>;
    fn cancel(&self, ticket: Ticket);
    fn block(&self, wait: &Wait<'_>) -> Result<Wake>;
    fn relax(&self);
    fn wake(&self, peer: Rank);
    fn context(&self) -> Result<Box<dyn Connection>>;
    fn landings(&self) -> Option<&dyn Landings>;
    fn clock(&self) -> Option<&dyn Clock>;
    fn probe(&self) -> Option<Arc<dyn Probe>>;
}

/// Writes methods of a [`Connection`] that pass everything on to a field, the methods named after
/// the colon: `forward! { to .inner: register deregister map }`. The list of all methods with their
/// signatures stands here once more, and nowhere else.
#[macro_export]
macro_rules! forward {
    (to $(. $field:tt)*: $($method:ident)*) => {
        $crate::forward!(@each [$(. $field)*] $($method)*);
    };
    (@each $to:tt $($method:ident)*) => {
        $($crate::forward!(@$method $to);)*
    };
    (@job [$($to:tt)*]) => {
        fn job(&self) -> $crate::JobView<'_> { self $($to)* .job() }
    };
    (@register [$($to:tt)*]) => {
        fn register(&self, segment: $crate::SegmentId, bytes: u64) -> $crate::Result<()> {
            self $($to)* .register(segment, bytes)
        }
    };
    (@deregister [$($to:tt)*]) => {
        fn deregister(&self, segment: $crate::SegmentId) -> $crate::Result<()> {
            self $($to)* .deregister(segment)
        }
    };
    (@map [$($to:tt)*]) => {
        fn map(
            &self,
            rank: $crate::Rank,
            segment: $crate::SegmentId,
        ) -> $crate::Result<Option<$crate::Mapped>> {
            self $($to)* .map(rank, segment)
        }
    };
    (@put [$($to:tt)*]) => {
        fn put(&self, to: &$crate::Region<'_>, bytes: &[u8]) -> $crate::Result<()> {
            self $($to)* .put(to, bytes)
        }
    };
    (@put_nb [$($to:tt)*]) => {
        unsafe fn put_nb(
            &self,
            to: &$crate::Region<'_>,
            from: *const u8,
            hint: $crate::Hint,
        ) -> $crate::Result<$crate::Started> {
            // SAFETY: the caller's promise is passed on.
            unsafe { self $($to)* .put_nb(to, from, hint) }
        }
    };
    (@put_signal [$($to:tt)*]) => {
        fn put_signal(
            &self,
            to: &$crate::Region<'_>,
            bytes: &[u8],
            at: $crate::Word,
            op: $crate::Atomic,
        ) -> $crate::Result<()> {
            self $($to)* .put_signal(to, bytes, at, op)
        }
    };
    (@get [$($to:tt)*]) => {
        unsafe fn get(
            &self,
            from: &$crate::Region<'_>,
            into: *mut u8,
            hint: $crate::Hint,
        ) -> $crate::Result<$crate::Started> {
            // SAFETY: the caller's promise is passed on.
            unsafe { self $($to)* .get(from, into, hint) }
        }
    };
    (@accumulate [$($to:tt)*]) => {
        fn accumulate(
            &self,
            to: &$crate::Region<'_>,
            accumulate: &$crate::Accumulate,
            bytes: &[u8],
            old: $crate::OldValue,
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .accumulate(to, accumulate, bytes, old)
        }
    };
    (@atomic [$($to:tt)*]) => {
        fn atomic(
            &self,
            at: $crate::Word,
            op: $crate::Atomic,
            old: $crate::OldValue,
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .atomic(at, op, old)
        }
    };
    (@fence [$($to:tt)*]) => {
        fn fence(&self) -> $crate::Result<()> { self $($to)* .fence() }
    };
    (@flush [$($to:tt)*]) => {
        fn flush(&self, peer: $crate::Rank) -> $crate::Result<()> { self $($to)* .flush(peer) }
    };
    (@call [$($to:tt)*]) => {
        fn call(
            &self,
            node: $crate::Node,
            handler: $crate::HandlerId,
            bytes: &[u8],
        ) -> $crate::Result<$crate::Started> {
            self $($to)* .call(node, handler, bytes)
        }
    };
    (@serve [$($to:tt)*]) => {
        fn serve(&self, handler: $crate::HandlerId, run: $crate::Handler) -> $crate::Result<()> {
            self $($to)* .serve(handler, run)
        }
    };
    (@poll [$($to:tt)*]) => {
        fn poll(&self, ticket: $crate::Ticket) -> $crate::Result<Option<$crate::Reply>> {
            self $($to)* .poll(ticket)
        }
    };
    (@cancel [$($to:tt)*]) => {
        fn cancel(&self, ticket: $crate::Ticket) { self $($to)* .cancel(ticket); }
    };
    (@block [$($to:tt)*]) => {
        fn block(&self, wait: &$crate::Wait<'_>) -> $crate::Result<$crate::Wake> {
            self $($to)* .block(wait)
        }
    };
    (@relax [$($to:tt)*]) => {
        fn relax(&self) { self $($to)* .relax(); }
    };
    (@wake [$($to:tt)*]) => {
        fn wake(&self, peer: $crate::Rank) { self $($to)* .wake(peer); }
    };
    (@context [$($to:tt)*]) => {
        fn context(&self) -> $crate::Result<Box<dyn $crate::Connection>> {
            self $($to)* .context()
        }
    };
    (@landings [$($to:tt)*]) => {
        fn landings(&self) -> Option<&dyn $crate::Landings> { self $($to)* .landings() }
    };
    (@clock [$($to:tt)*]) => {
        fn clock(&self) -> Option<&dyn $crate::Clock> { self $($to)* .clock() }
    };
    (@probe [$($to:tt)*]) => {
        fn probe(&self) -> Option<std::sync::Arc<dyn $crate::Probe>> { self $($to)* .probe() }
    };
}

// A bound of a type parameter comes before all traits in scope: these are the methods of `Fabric`.
impl<F: Fabric> Connection for F {
    forward! {
        to: job register deregister map put put_nb put_signal get accumulate atomic fence flush call
        serve poll cancel block relax wake context landings clock probe
    }
}

//! The engine below the simulator's one fabric (`port`): it decides when things happen. The two
//! engines of this crate are every schedule and virtual time; a new fabric is none.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use farside_fabric::{
    CarriedOut, ExitCause, Node, Rank, Reply, Result, SegmentId, Ticket, Wait, Word,
};

use crate::body::Body;
use crate::event::EventId;
use crate::store::Store;

/// A machine as its ports see it. One explores schedules ([`crate::machine`]), one keeps time
/// ([`crate::timed`]).
pub(crate) trait Engine {
    /// Memory, handlers, fates.
    fn store(&mut self) -> &mut Store;
    /// Puts an operation in flight. Posted ones have no ticket; `after` is another operation that
    /// must land first.
    fn launch(
        &mut self,
        origin: Rank,
        target: Rank,
        body: Body,
        posted: bool,
        after: Option<EventId>,
    ) -> EventId;
    /// Orders what a rank posted before ahead of what it posts later, to the same target.
    fn fence(&mut self, rank: Rank);
    /// Returns whether a rank may post another operation.
    fn has_room(&self, rank: Rank) -> bool;
    /// Returns whether all that a rank posted to another has landed.
    fn is_flushed(&self, origin: Rank, target: Rank) -> bool;
    fn poll(&mut self, rank: Rank, asked: Ticket) -> Result<Option<Reply>>;
    /// Gives up an operation whose reply is not awaited any more, since its buffer is gone.
    fn cancel(&mut self, rank: Rank, given_up: Ticket);
    fn depart(&mut self, rank: Rank, lost: Option<ExitCause>);
    fn count_landings(&mut self, node: Node) -> Result<Word> {
        self.store().count_landings(node)
    }
    /// Returns the condition of a wait that holds already, and its value, if the engine need not
    /// decide when the rank notices it.
    fn holds_already(&self, _wait: &Wait<'_>) -> Option<(usize, u64)> {
        None
    }
    /// Returns whether accesses of ranks to their own memory, which are no operations, are events.
    fn explores(&self) -> bool {
        false
    }
    /// Returns whether looks of ranks at operations that they have started are events.
    fn explores_looks(&self) -> bool {
        false
    }
    /// These bytes of a segment are used by the program itself, and not by a protocol below it.
    fn claim(&mut self, _segment: SegmentId, _start: u64, _end: u64) {}
    /// Memory was lent to a rank in a way that cannot be followed.
    fn lent(&mut self, _what: &'static str, _place: &'static Location<'static>) {}
    /// The atomics that were carried out and that nobody has asked for yet.
    fn carried_out(&self) -> Option<Rc<RefCell<Vec<CarriedOut>>>> {
        None
    }
    fn now_ns(&self, rank: Rank) -> u64;
    /// Returns the number of messages that a rank had to send again.
    fn repeats(&self, _rank: Rank) -> u64 {
        0
    }
}

/// Fibers share the machine on one thread.
pub(crate) type Shared<E> = Rc<RefCell<E>>;

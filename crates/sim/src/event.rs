//! Events: what can happen next in a simulated job.

use std::fmt;
use std::rc::Rc;

use farside_fabric::{Atomic, HandlerId, Node, Rank, SegmentId, Word};

use crate::store::LANDINGS;

/// Names an event: the rank that caused it, and its number among that rank's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// Who caused it.
    pub rank: Rank,
    /// Its number among that rank's.
    pub serial: u32,
}

// Numbers of events that are no operations.
const UNHEARD: u32 = 1 << 29;
const WAITS: u32 = 1 << 30;
const VANISHINGS: u32 = 1 << 31;
const DEATH: u32 = u32::MAX;

impl EventId {
    /// A rank's look at its word, when so many of its looks have been good. However often
    /// somebody's departure disturbs it, it stays the same event.
    pub(crate) fn wait(rank: Rank, number: u32) -> EventId {
        EventId { rank, serial: WAITS | number }
    }

    /// An operation of a rank that has died comes to nothing.
    pub(crate) fn vanishing(of: EventId) -> EventId {
        EventId { serial: VANISHINGS | of.serial, ..of }
    }

    /// The operation that comes to nothing, if that is what this event is.
    pub(crate) fn vanishes(self) -> Option<EventId> {
        let is = self.serial & VANISHINGS != 0 && !self.is_death();
        is.then_some(EventId { serial: self.serial & !VANISHINGS, ..self })
    }

    /// A plain put lands, and whoever waits for its word sleeps on.
    pub(crate) fn unheard(of: EventId) -> EventId {
        EventId { serial: UNHEARD | of.serial, ..of }
    }

    /// The operation that nobody hears of, if that is what this event is.
    pub(crate) fn is_unheard(self) -> Option<EventId> {
        let is = self.serial & (UNHEARD | WAITS | VANISHINGS) == UNHEARD;
        is.then_some(EventId { serial: self.serial & !UNHEARD, ..self })
    }

    /// A rank dies.
    pub(crate) fn death(rank: Rank) -> EventId {
        EventId { rank, serial: DEATH }
    }

    pub(crate) fn is_death(self) -> bool {
        self.serial == DEATH
    }
}

/// Bytes that an event touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Whose memory.
    pub rank: Rank,
    /// Which segment.
    pub segment: SegmentId,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Whether it writes.
    pub writes: bool,
}

impl Access {
    /// Whether the order of two accesses matters. That of two landings that are counted does not:
    /// they add up.
    pub fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && !(self.writes && other.writes && self.segment == LANDINGS)
            && self.rank == other.rank
            && self.segment == other.segment
            && self.start < other.end
            && other.start < self.end
    }
}

/// Something that can happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub id: EventId,
    /// What it touches; `None` if that is not known beforehand, which conflicts with everything.
    pub accesses: Option<Rc<[Access]>>,
    /// What it is, for people to read.
    pub what: What,
}

impl Event {
    /// Whether the order of two events matters.
    pub fn conflicts(&self, other: &Event) -> bool {
        match (&self.accesses, &other.accesses) {
            (Some(a), Some(b)) => a.iter().any(|a| b.iter().any(|b| a.conflicts(b))),
            _ => true,
        }
    }
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A put of so many bytes lands at a rank.
    Put(u64, Rank),
    /// A get reads at a rank.
    Get(Rank),
    /// An accumulate lands at a rank.
    Accumulate(Rank),
    /// An atomic is executed on a word.
    Atomic(Atomic, Word),
    /// A handler runs at a node.
    Call(HandlerId, Node),
    /// A waiter sees that its word is as it should be.
    Wait,
    /// A put or an accumulate lands at a rank that sleeps, and does not wake it.
    Unheard(Rank),
    /// The rank dies.
    Death,
    /// Something that a dead rank had under way to another comes to nothing.
    Vanish(Rank),
    /// A call that this dead rank was at work on comes to nothing.
    Interrupt(Rank),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.id.rank)?;
        match self.what {
            What::Put(bytes, _) => write!(f, "put of {bytes} bytes lands{}", self.place()),
            What::Get(_) => write!(f, "get reads{}", self.place()),
            What::Accumulate(_) => write!(f, "accumulate lands{}", self.place()),
            What::Atomic(op, _) => write!(f, "{}{}", Operation(op), self.place()),
            What::Call(handler, node) => write!(f, "call of handler {} at {node}", handler.0),
            What::Wait => write!(f, "sees its word{}", self.place()),
            What::Unheard(to) => write!(f, "put lands{}, and {to} sleeps on", self.place()),
            What::Death => write!(f, "DIES"),
            What::Vanish(to) => write!(f, "something posted to {to} is lost with it"),
            What::Interrupt(runner) => write!(f, "call is interrupted by the end of {runner}"),
        }
    }
}

impl Event {
    /// Where it touches memory, for people to read.
    fn place(&self) -> String {
        match self.accesses.as_deref() {
            Some([first, rest @ ..]) => {
                let more = if rest.is_empty() { "" } else { " and elsewhere" };
                format!(" at byte {} of {} of {}{more}", first.start, first.segment, first.rank)
            }
            _ => String::new(),
        }
    }
}

/// An atomic, for people to read: numbers that look like links in hexadecimal.
struct Operation(Atomic);

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number =
            |value: u128| if value < 1 << 16 { value.to_string() } else { format!("{value:#x}") };
        match self.0 {
            Atomic::CompareSwap { expected, desired } => {
                write!(f, "compare_swap {} for {}", number(expected), number(desired))
            }
            Atomic::Load => write!(f, "load"),
            Atomic::Store(value) => write!(f, "store {}", number(value)),
            Atomic::Swap(value) => write!(f, "swap {}", number(value)),
            Atomic::Add(value) => write!(f, "fetch_add {}", number(value)),
            other => write!(f, "{other:?}"),
        }
    }
}

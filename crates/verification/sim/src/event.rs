//! Events: what can happen next in a simulated job.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use farside_fabric::{Atomic, HandlerId, Node, Rank, SegmentId, Word};

/// The segment in which landings are counted.
pub(crate) const LANDINGS: SegmentId = SegmentId(2);

/// Names an event: the rank that caused it, and its number among that rank's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The rank that caused it.
    pub rank: Rank,
    /// Its number among that rank's.
    pub serial: u32,
}

// Kinds of events that are no operations: the first bits of their numbers.
const NEWS: u32 = 1 << 25;
const QUIETS: u32 = 1 << 26;
const EXPIRIES: u32 = 1 << 27;
const TIME_OUTS: u32 = 1 << 28;
const UNNOTICED: u32 = 1 << 29;
const WAITS: u32 = 1 << 30;
const VANISHINGS: u32 = 1 << 31;
const EXECUTIONS: u32 = VANISHINGS | WAITS;
const SLEEPS: u32 = WAITS | UNNOTICED;
const KINDS: u32 = !(NEWS - 1);
const DEATH: u32 = u32::MAX;

impl EventId {
    fn is(self, kind: u32) -> bool {
        self.serial & KINDS == kind
    }

    fn of_kind(self, kind: u32) -> EventId {
        EventId { serial: kind | self.serial & !KINDS, ..self }
    }

    /// Names a rank's look at its word, in its wait of this number.
    pub(crate) fn wait(rank: Rank, number: u32) -> EventId {
        EventId { rank, serial: WAITS | number }
    }

    /// An operation of a rank that has died comes to nothing.
    pub(crate) fn vanishing(of: EventId) -> EventId {
        of.of_kind(VANISHINGS)
    }

    pub(crate) fn vanishes(self) -> Option<EventId> {
        self.is(VANISHINGS).then(|| self.of_kind(0))
    }

    /// A call was executed by a rank that has died before it could answer.
    pub(crate) fn executed(of: EventId) -> EventId {
        of.of_kind(EXECUTIONS)
    }

    pub(crate) fn as_executed(self) -> Option<EventId> {
        self.is(EXECUTIONS).then(|| self.of_kind(0))
    }

    /// Names the landing of a plain put that does not wake the rank that waits for its word.
    pub(crate) fn unnoticed(of: EventId) -> EventId {
        of.of_kind(UNNOTICED)
    }

    pub(crate) fn as_unnoticed(self) -> Option<EventId> {
        self.is(UNNOTICED).then(|| self.of_kind(0))
    }

    /// Names the moment at which it turns out that a rank sleeps in this wait of its.
    pub(crate) fn sleep(wait: EventId) -> EventId {
        wait.of_kind(SLEEPS)
    }

    pub(crate) fn is_sleep(self) -> bool {
        self.is(SLEEPS)
    }

    /// Names the end of a wait by its time limit while something else can happen.
    pub(crate) fn time_out(wait: EventId) -> EventId {
        wait.of_kind(TIME_OUTS)
    }

    pub(crate) fn is_time_out(self) -> bool {
        self.is(TIME_OUTS)
    }

    /// Names the end of a wait by its time limit, after nothing else could happen.
    pub(crate) fn expiry(wait: EventId) -> EventId {
        wait.of_kind(EXPIRIES)
    }

    pub(crate) fn is_expiry(self) -> bool {
        self.is(EXPIRIES)
    }

    /// Names the moment at which nothing else can happen for the time of this number.
    pub(crate) fn quiet(number: u32) -> EventId {
        EventId { rank: Rank(0), serial: QUIETS | number }
    }

    pub(crate) fn is_quiet(self) -> bool {
        self.is(QUIETS)
    }

    /// Returns whether a run goes on without it, too: nothing waits for it.
    pub(crate) fn is_optional(self) -> bool {
        self.is_death() || self.is_time_out()
    }

    /// Names the moment at which a node hears of the death of a rank.
    pub(crate) fn news(of: Rank, at: Node) -> EventId {
        EventId { rank: of, serial: NEWS | at.0 }
    }

    pub(crate) fn as_news(self) -> Option<Node> {
        self.is(NEWS).then_some(Node(self.serial & !KINDS))
    }

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
    /// The rank that owns the memory.
    pub rank: Rank,
    /// The segment.
    pub segment: SegmentId,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// True for a write.
    pub writes: bool,
}

impl Access {
    /// Returns whether the order of two accesses matters. That of two counted landings does not:
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
    /// The bytes that it touches; `None` if they are not known beforehand, which conflicts with
    /// everything.
    pub accesses: Option<Rc<[Access]>>,
    /// A description for people to read.
    pub what: What,
}

impl Event {
    /// Returns whether the order of the event and of accesses to these bytes matters.
    pub(crate) fn touches(&self, bytes: &[Access]) -> bool {
        match &self.accesses {
            Some(all) => all.iter().any(|access| bytes.iter().any(|byte| access.conflicts(byte))),
            None => !bytes.is_empty(),
        }
    }

    /// Returns whether the order of two events matters.
    pub fn conflicts(&self, other: &Event) -> bool {
        match (&self.accesses, &other.accesses) {
            (Some(a), Some(b)) => a.iter().any(|a| b.iter().any(|b| a.conflicts(b))),
            _ => true,
        }
    }
}

/// Memory that a rank uses in a way that cannot be followed: which events it has to do with is not
/// known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unseen {
    /// What lent it, such as `as_slice`.
    pub what: &'static str,
    /// Where.
    pub place: &'static Location<'static>,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.place)
    }
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A put of so many bytes, with this digest, lands at a rank.
    Put(u64, Rank, u64),
    /// A get reads at a rank.
    Get(Rank),
    /// An accumulate of operands with this digest lands at a rank.
    Accumulate(Rank, u64),
    /// An atomic is executed on a word.
    Atomic(Atomic, Word),
    /// A handler runs at a node, with arguments of this digest.
    Call(HandlerId, Node, u64),
    /// A waiter sees that its word is as it should be.
    Wait,
    /// A rank reads or writes memory of its own by plain instructions.
    Own,
    /// A rank registers a segment, from which moment on others reach it.
    Register,
    /// A rank frees a segment, from which moment on nobody reaches it.
    Free,
    /// A rank offers a handler.
    Serve,
    /// A rank looks whether an operation of its own is complete.
    Poll,
    /// A put or an accumulate lands at a rank that sleeps, and does not wake it.
    Unnoticed(Rank),
    /// A rank sleeps on, although a handler has put to its word.
    Sleep,
    /// The time limit of a wait ends.
    TimeOut,
    /// Nothing else can happen: the ranks that have left are seen to have left.
    Leaving,
    /// Nothing else can happen: time passes.
    Time,
    /// The rank dies.
    Death,
    /// The ranks of a node hear that the rank has died.
    News(Node),
    /// Something that a dead rank had under way to another comes to nothing.
    Vanish(Rank),
    /// A call that this dead rank was at work on comes to nothing.
    Interrupt(Rank),
    /// A call that this dead rank was at work on was executed, and is not answered.
    Executed(Rank),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.id.is_quiet() {
            write!(f, "{}: ", self.id.rank)?;
        }
        match self.what {
            What::Put(bytes, ..) => write!(f, "put of {bytes} bytes lands{}", self.place()),
            What::Get(_) => write!(f, "get reads{}", self.place()),
            What::Accumulate(..) => write!(f, "accumulate lands{}", self.place()),
            What::Atomic(op, _) => write!(f, "{}{}", Operation(op), self.place()),
            What::Call(handler, node, _) => write!(f, "call of handler {} at {node}", handler.0),
            What::Wait => write!(f, "sees its word{}", self.place()),
            What::Own => write!(f, "{} its own memory{}", self.verb(), self.place()),
            What::Register => write!(f, "registers memory{}", self.place()),
            What::Free => write!(f, "frees memory{}", self.place()),
            What::Serve => write!(f, "offers a handler"),
            What::Poll => write!(f, "tests whether an operation is complete"),
            What::Unnoticed(to) => write!(f, "put lands{}, and {to} sleeps on", self.place()),
            What::Sleep => write!(f, "sleeps on, in spite of a put{}", self.place()),
            What::TimeOut => write!(f, "waits no longer{}", self.place()),
            What::Leaving => write!(f, "all see who has left"),
            What::Time => write!(f, "time passes"),
            What::Death => write!(f, "DIES"),
            What::News(node) => write!(f, "its death is heard of at {node}"),
            What::Vanish(to) => write!(f, "something posted to {to} is lost with it"),
            What::Interrupt(runner) => write!(f, "call is interrupted by the end of {runner}"),
            What::Executed(runner) => {
                write!(f, "call was executed, and not answered before the end of {runner}")
            }
        }
    }
}

impl Event {
    fn verb(&self) -> &'static str {
        let writes = self.accesses.iter().flat_map(|all| all.iter()).any(|access| access.writes);
        if writes { "writes" } else { "reads" }
    }

    /// Describes the bytes that it touches.
    fn place(&self) -> String {
        match self.accesses.as_deref() {
            Some([first, rest @ ..]) => {
                let more = if rest.is_empty() { "" } else { " and elsewhere" };
                let place = place_name(first.segment, first.start, first.end - first.start);
                format!(" at {place} of {}{more}", first.rank)
            }
            _ => String::new(),
        }
    }
}

/// Names bytes of a window as `farside why` does: as a word, if they are one.
pub(crate) fn place_name(segment: SegmentId, start: u64, bytes: u64) -> String {
    let window = segment.to_string().replacen("segment", "window", 1);
    let end = start + bytes;
    match bytes {
        1 | 2 | 4 | 8 | 16 if start.is_multiple_of(bytes) => {
            format!("word {} of {window}", start / bytes)
        }
        _ if start.is_multiple_of(8) && end.is_multiple_of(8) && bytes > 0 => {
            format!("words {}-{} of {window}", start / 8, end / 8 - 1)
        }
        _ => format!("bytes {start}..{end} of {window}"),
    }
}

/// Writes a number: one that looks like a link in hexadecimal.
pub(crate) fn number(value: u128) -> String {
    if value < 1 << 16 { value.to_string() } else { format!("{value:#x}") }
}

/// An atomic, for people to read.
struct Operation(Atomic);

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

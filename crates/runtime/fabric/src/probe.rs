//! The [`Probe`]: the one way to look at a rank.
//!
//! An operation of the waist does not carry the line of the program that it comes from, and the
//! memory of a rank itself is read and written without any operation. A connection that checks for
//! races, or that explores schedules, offers a probe, and the layers above tell it both. All others
//! offer none, and nothing is told.

use std::panic::Location;

use crate::address::Word;
use crate::names::{Rank, SegmentId};
use crate::operation::Ticket;

/// Hears what happens on a rank besides the operations themselves.
///
/// There is one method, and a new onlooker adds an event: a probe that stands on another one passes
/// on what it does not know, and forgets nothing.
pub trait Probe: Send + Sync {
    /// Hears an event. Returns the number that the event asks for, if it asks for one and the probe
    /// knows it.
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64>;
}

/// What a [`Probe`] hears. A count or a trace uses the beginnings and ends of operations, which an
/// [`Observed`](crate::Observed) connection shows; an explored machine accesses to own memory,
/// polls and the two questions about atomics; a checker of races all but the first two.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProbeEvent<'a> {
    /// A rank begins an operation. Asks for a number, which comes back with its end.
    Begin {
        /// The rank.
        rank: Rank,
        /// The operation.
        operation: &'a Operation,
    },
    /// That operation has returned to its caller; a posted one may still be under way.
    End {
        /// The rank.
        rank: Rank,
        /// The operation.
        operation: &'a Operation,
        /// What the probe answered at its beginning, or 0.
        begun: u64,
    },
    /// This rank is about to read or write memory by plain instructions, and does so as soon as the
    /// probe returns.
    Own(&'a OwnAccess),
    /// Memory is lent to the program in a way that cannot be followed.
    Lent {
        /// What kind of memory, in words such as "a slice".
        what: &'static str,
        /// Where the program asked for it.
        place: &'static Location<'static>,
    },
    /// This rank is about to look whether an operation is complete, and may do one thing or another
    /// then.
    Poll(Ticket),
    /// Asks for the number of the operation that this rank has started last.
    LastOperation,
    /// Asks for the atomics of all ranks that were carried out since anybody last asked, in their
    /// order.
    CarriedOut(&'a mut Vec<CarriedOut>),
    /// Asks whether a step of a protocol is left out, as in known-wrong variants that an explorer
    /// must catch: any number says that it is.
    Omits(Step),
    /// Where the program called the operation that follows on this connection.
    At(&'static Location<'static>),
    /// How operations of an interface of another language are to be taken until the next such
    /// event; `None` if they are Rust's.
    Foreign(Option<Foreign>),
    /// Asks for the number of a place in a program of another language.
    NamePlace(&'a str),
    /// The program uses a segment: others belong to protocols, and are not checked.
    Program {
        /// Which segment.
        segment: SegmentId,
        /// The bytes of one of its elements.
        element: u64,
    },
    /// The program uses words of a segment that is shared with protocols, or no longer does.
    Words {
        /// Which segment.
        segment: SegmentId,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// Whether the program uses them.
        is_program: bool,
    },
    /// A segment has a name, for reports.
    Name {
        /// Which segment.
        segment: SegmentId,
        /// Its name.
        name: &'a str,
    },
    /// A program of another language has seen the value of a word of its rank's memory, and goes on
    /// because of it.
    Acquire {
        /// The word.
        word: Word,
        /// Where, as [`ProbeEvent::NamePlace`] numbers it.
        place: u32,
    },
    /// Whether the operations that follow are a library's own, in a collective: their flushes
    /// complete nothing of the program's.
    Aside(bool),
    /// All that this connection has started or posted is complete.
    Completed,
    /// The program uses something that is not looked into, in words such as "shared pages".
    Unseen(&'static str),
    /// A buffer of a non-blocking operation was used before its completion.
    Reused(&'a Reuse),
    /// Asks for the number of a new strand, which knows what `from` knows, or nothing. A strand is
    /// a part of a rank's program that runs in order, as a thread does. Each rank begins with
    /// strand 0, and so does each of its threads.
    NewStrand {
        /// The strand that makes it.
        from: Option<u32>,
    },
    /// The calling thread goes on with a strand.
    EnterStrand(u32),
    /// What `from` has done so far is before what `into` does from now on; `None` are all strands
    /// of the rank.
    JoinStrands {
        /// The strand that goes on.
        into: Option<u32>,
        /// The strand that it has waited for.
        from: Option<u32>,
    },
    /// A strand is over, or no longer needed.
    EndStrand(u32),
    /// The calling thread releases an object of its process, such as a mutex, or has acquired it.
    Object {
        /// Its address, or another number of its own.
        object: u64,
        /// Whether it is released.
        releases: bool,
    },
    /// Private memory has become other memory.
    Forget {
        /// Where it begins.
        address: usize,
        /// How long it is.
        bytes: usize,
    },
}

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

/// A step without which a protocol is wrong, with what it does in a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(pub &'static str);

/// An atomic that was carried out in an explored schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedOut {
    /// The rank that has started it.
    pub rank: Rank,
    /// Its number, as [`ProbeEvent::LastOperation`] had it then.
    pub operation: u64,
    /// False if it was an attempt to change its word that has failed.
    pub wrote: bool,
}

/// Where private memory, which no segment has, stands in reports of accesses to it.
pub fn private_place(address: usize) -> (SegmentId, u64) {
    (SegmentId(PRIVATE | address as u64 >> 32), address as u64 & 0xFFFF_FFFF)
}

/// Returns whether a segment stands for private memory.
pub fn is_private(segment: SegmentId) -> bool {
    segment.0 >> 56 == PRIVATE >> 56
}

/// Segments that stand for private memory have this in their highest byte, and 32 bits of an
/// address below it.
const PRIVATE: u64 = 0xFE00_0000_0000_0000;

/// An operation of an interface of another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Where the program called it, as [`ProbeEvent::NamePlace`] numbers it.
    pub place: u32,
    /// Whether it is a plain put, although a fabric may carry it out as an atomic, and whether
    /// waits may end on it, as in OpenSHMEM.
    pub is_put: bool,
    /// Whether it is under way until [`ProbeEvent::Completed`], also where a fabric completes it at
    /// once.
    pub is_nonblocking: bool,
    /// What else an atomic must have in common with others for them to exclude each other.
    pub atomicity: Atomicity,
}

/// What atomics of OpenSHMEM must have in common to exclude each other, besides their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Atomicity {
    /// Whether the type is one of floating-point numbers.
    pub is_float: bool,
    /// Whether the context's team descends from the team of PEs that share memory, and not from
    /// the team of all.
    pub is_shared_team: bool,
}

/// An access to memory by plain instructions.
#[derive(Debug, Clone, Copy)]
pub struct OwnAccess {
    /// Whose memory it is, if not the rank's own.
    pub owner: Option<Rank>,
    /// Which segment.
    pub segment: SegmentId,
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Whether it writes.
    pub writes: bool,
    /// Where the program made it.
    pub place: OwnPlace,
    /// Whether the program itself made it, and not an operation on its behalf.
    pub is_instruction: bool,
    /// The rank whose flush completes it, if it is made on behalf of a non-blocking operation.
    pub until: Option<Rank>,
    /// Whether it is the source of a put with a signal, which follows at once: whoever learns of
    /// the signal learns that this is over.
    pub is_signalled: bool,
}

/// Where a program made an access to its own memory.
#[derive(Debug, Clone, Copy)]
pub enum OwnPlace {
    /// A line of Rust.
    Rust(&'static Location<'static>),
    /// A place that [`ProbeEvent::NamePlace`] has numbered.
    Foreign(u32),
}

/// The use of a buffer that a non-blocking operation owned.
#[derive(Debug, Clone, Copy)]
pub struct Reuse {
    /// Where the operation was started.
    pub started: u32,
    /// Whether it writes the buffer.
    pub fills: bool,
    /// Where the buffer was used.
    pub used: u32,
    /// Whether it was written there.
    pub writes: bool,
}

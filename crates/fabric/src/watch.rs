//! The [`Watch`] extension: what a connection is told besides the operations themselves.
//!
//! An operation of the waist does not carry the line of the program that it comes from, and the
//! memory of a rank itself is read and written without any operation. A connection that checks for
//! races, or that explores schedules, offers a [`Watch`], and the layers above tell it both. All
//! others offer none, and nothing is told.

use std::panic::Location;

use crate::address::{Rank, SegmentId, Word};
use crate::waist::Ticket;

/// What a connection that checks for races, or explores schedules, is told besides operations. The
/// first two methods concern both, and `polls` schedules; the others are for races. All of these do
/// nothing by default.
pub trait Watch: Send + Sync {
    /// Says that this rank is about to read or write memory of its own by plain instructions. When
    /// this returns, it does so at once.
    fn own(&self, access: &OwnAccess);
    /// Says that memory is lent to the program in a way that cannot be followed.
    fn blind(&self, what: &'static str, place: &'static Location<'static>);
    /// Says that this rank is about to look whether an operation is complete, and may do one thing
    /// or another then.
    fn polls(&self, _ticket: Ticket) {}
    /// Says where the program called the operation that follows on this connection.
    fn at(&self, _place: &'static Location<'static>) {}
    /// Says, until it is told otherwise, how operations of an interface of another language are to
    /// be taken; `None` if they are Rust's.
    fn foreign(&self, _foreign: Option<Foreign>) {}
    /// Returns the number of a place in a program of another language.
    fn place(&self, _name: &str) -> u32 {
        0
    }
    /// Says that the program uses a segment, whose elements have so many bytes: others belong to
    /// protocols, and are not checked.
    fn program(&self, _segment: SegmentId, _element: u64) {}
    /// Says whether the program uses words of a segment that is shared with protocols.
    fn words(&self, _segment: SegmentId, _offset: u64, _bytes: u64, _is_program: bool) {}
    /// Gives a segment a name for reports.
    fn name(&self, _segment: SegmentId, _name: &str) {}
    /// Says that this rank has seen the value of a word of its own memory and goes on because of
    /// it.
    fn acquire(&self, _at: Word) {}
    /// Says whether the operations that follow are a library's own, in a collective: their flushes
    /// complete nothing of the program's.
    fn aside(&self, _is_aside: bool) {}
    /// Says that all that this connection has started or posted is complete.
    fn completed(&self) {}
    /// Says that the program uses something that is not looked into, in words such as "shared
    /// pages".
    fn unseen(&self, _what: &'static str) {}
    /// Says that a buffer of a non-blocking operation was used before its completion.
    fn reused(&self, _reuse: &Reuse) {}
    /// Makes a strand, which knows what `from` knows, or nothing, and returns its number. A strand
    /// is a part of a rank's program that runs in order, as a thread does. Each rank begins with
    /// strand 0, and so does each of its threads.
    fn new_strand(&self, _from: Option<u32>) -> u32 {
        0
    }
    /// Says that the calling thread goes on with a strand.
    fn enter_strand(&self, _strand: u32) {}
    /// Says that what `from` has done so far is before what `into` does from now on; `None` are
    /// all strands of the rank.
    fn join_strands(&self, _into: Option<u32>, _from: Option<u32>) {}
    /// Says that a strand is over, or no longer needed.
    fn end_strand(&self, _strand: u32) {}
    /// Says that the calling thread releases an object of its process, such as a mutex, or that it
    /// has acquired it.
    fn object(&self, _object: u64, _releases: bool) {}
    /// Says that private memory has become other memory.
    fn forget(&self, _address: usize, _bytes: usize) {}
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
    /// Where the program called it, as [`Watch::place`] numbers it.
    pub place: u32,
    /// Whether it is a plain put, although a fabric may carry it out as an atomic, and whether
    /// waits may end on it, as in OpenSHMEM.
    pub is_put: bool,
    /// Whether it is under way until [`Watch::completed`], also where a fabric completes it at
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
    /// A place that [`Watch::place`] has numbered.
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

//! The [`Watch`] extension: what a checker of races is told besides the operations themselves.
//!
//! An operation of the waist does not carry the line of the program that it comes from, and the
//! memory of a rank itself is read and written without any operation. A connection that checks for
//! races offers a [`Watch`], and the layers above tell it both. All others offer none, and nothing
//! is told.

use std::panic::Location;

use crate::address::{Rank, SegmentId, Word};

/// What a connection that checks for races is told besides operations.
pub trait Watch: Send + Sync {
    /// Says where the program called the operation that follows on this connection.
    fn at(&self, place: &'static Location<'static>);
    /// Says, until it is told otherwise, how operations of an interface of another language are to
    /// be taken; `None` if they are Rust's.
    fn foreign(&self, foreign: Option<Foreign>);
    /// Returns the number of a place in a program of another language.
    fn place(&self, name: &str) -> u32;
    /// Says that the program uses a segment, whose elements have so many bytes: others belong to
    /// protocols, and are not checked.
    fn program(&self, segment: SegmentId, element: u64);
    /// Gives a segment a name for reports.
    fn name(&self, segment: SegmentId, name: &str);
    /// Says that this rank reads or writes memory of its own by plain instructions.
    fn own(&self, access: &OwnAccess);
    /// Says that this rank has seen the value of a word of its own memory and goes on because of
    /// it.
    fn acquire(&self, at: Word);
    /// Says whether the operations that follow are a library's own, in a collective: their flushes
    /// complete nothing of the program's.
    fn aside(&self, is_aside: bool);
    /// Says that all that this connection has started or posted is complete.
    fn completed(&self);
    /// Says that memory is lent to the program in a way that cannot be followed.
    fn blind(&self, what: &'static str, place: &'static Location<'static>);
    /// Says that a buffer of a non-blocking operation was used before its completion.
    fn reused(&self, reuse: &Reuse);
}

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
    /// The rank whose flush completes it, if it is made on behalf of a non-blocking operation.
    pub until: Option<Rank>,
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

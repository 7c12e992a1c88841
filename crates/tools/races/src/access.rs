//! Accesses: who makes them, how, and which of them exclude each other.

use farside_fabric::SegmentId;

/// How an access excludes others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Plain = 0,
    Atomic = 1,
    Accumulate = 2,
    /// Not at all, but a wait may end on it: a short put of OpenSHMEM.
    WaitablePut = 3,
    /// A wait, or a test, of a word.
    Wait = 4,
}

impl Class {
    fn from_bits(bits: u32) -> Class {
        match bits {
            1 => Class::Atomic,
            2 => Class::Accumulate,
            3 => Class::WaitablePut,
            4 => Class::Wait,
            _ => Class::Plain,
        }
    }

    fn excludes(self, other: Class) -> bool {
        use Class::{Accumulate, Atomic, Wait, WaitablePut};
        matches!(
            (self, other),
            (Atomic | Wait, Atomic | Wait)
                | (Accumulate, Accumulate)
                | (WaitablePut, Wait)
                | (Wait, WaitablePut)
        )
    }
}

/// The names of operations in reports.
pub(crate) const OPERATIONS: &[&str] = &[
    "access",
    "put",
    "get",
    "read",
    "write",
    "wait",
    "signal",
    "accumulate",
    "put_signal",
    "load",
    "store",
    "fetch_add",
    "swap",
    "compare_swap",
    "fetch_and",
    "fetch_or",
    "fetch_xor",
    "read by a non-blocking operation",
    "write by a non-blocking operation",
    "start of a non-blocking operation",
];

/// Those of them that yield the same in any order, each among its own.
const COMMUTING: [&str; 4] = ["fetch_add", "fetch_and", "fetch_or", "fetch_xor"];

pub(crate) fn operation(name: &str) -> u8 {
    OPERATIONS.iter().position(|known| *known == name).unwrap_or(0) as u8
}

/// What else matters of an access, as bits.
pub(crate) mod kind {
    /// An atomic on a floating-point number.
    pub(crate) const FLOAT: u8 = 1;
    /// An atomic in a context of a team of those that share memory.
    pub(crate) const SHARED_TEAM: u8 = 2;
    /// A signal, which excludes atomics of any kind.
    pub(crate) const SIGNAL: u8 = 4;
    /// An instruction of the program itself.
    pub(crate) const INSTRUCTION: u8 = 8;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub(crate) rank: usize,
    pub(crate) strand: usize,
    /// The first lane of a context, which is that of its posted operations. In an access, the one
    /// behind it stands for the lanes of its signals, of which the checker gives one.
    pub(crate) lane: usize,
}

/// What stands in a [`Site`] for the rank whose memory it is: sites are then the same for all ranks
/// that an operation goes to.
pub(crate) const OWNER: usize = 0xFFFE;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) actor: Actor,
    pub(crate) owner: usize,
    pub(crate) segment: SegmentId,
    pub(crate) class: Class,
    pub(crate) kind: u8,
    pub(crate) writes: bool,
    pub(crate) operation: u8,
    pub(crate) place: u32,
    /// The rank whose flush completes it; `None` if it is complete on return.
    pub(crate) until: Option<usize>,
}

impl Access {
    /// One that excludes all others, and is complete on return.
    pub(crate) fn plain(
        actor: Actor,
        owner: usize,
        segment: SegmentId,
        writes: bool,
        name: &str,
        place: u32,
    ) -> Access {
        let (class, kind, operation, until) = (Class::Plain, 0, operation(name), None);
        Access { actor, owner, segment, class, kind, writes, operation, place, until }
    }

    pub(crate) fn site(&self) -> Site {
        Site {
            rank: self.actor.rank,
            strand: self.actor.strand,
            lane: self.actor.lane,
            class: self.class,
            kind: self.kind,
            writes: self.writes,
            operation: self.operation,
            place: self.place,
            until: self.until.map(|rank| if rank == self.owner { OWNER } else { rank }),
        }
    }
}

/// What a remembered access was, but for its time and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) rank: usize,
    pub(crate) strand: usize,
    pub(crate) lane: usize,
    pub(crate) class: Class,
    pub(crate) kind: u8,
    pub(crate) writes: bool,
    pub(crate) operation: u8,
    pub(crate) place: u32,
    /// The rank whose flush completes it, or [`OWNER`].
    pub(crate) until: Option<usize>,
}

impl Site {
    pub(crate) fn completed_by(self, owner: usize) -> Option<usize> {
        self.until.map(|rank| if rank == OWNER { owner } else { rank })
    }

    pub(crate) fn pack(self) -> [u32; 3] {
        let until = self.until.map_or(0, |rank| rank as u32 + 1);
        let how = u32::from(self.kind) << 4 | (self.class as u32) << 1;
        let what = u32::from(self.operation) << 8 | how;
        [
            self.rank as u32 | (self.strand as u32) << 16 | (self.lane as u32) << 24,
            until << 16 | what | u32::from(self.writes),
            self.place,
        ]
    }

    pub(crate) fn unpack([who, what, place]: [u32; 3]) -> Site {
        Site {
            rank: (who & 0xFFFF) as usize,
            strand: (who >> 16 & 0xFF) as usize,
            lane: (who >> 24) as usize,
            class: Class::from_bits(what >> 1 & 7),
            kind: (what >> 4 & 0xF) as u8,
            writes: what & 1 == 1,
            operation: (what >> 8) as u8,
            place,
            until: (what >> 16).checked_sub(1).map(|rank| rank as usize),
        }
    }

    /// Whether it is made on behalf of a non-blocking operation, in memory of its own rank.
    pub(crate) fn is_by_nonblocking(self) -> bool {
        OPERATIONS[usize::from(self.operation)].ends_with("by a non-blocking operation")
    }

    /// Whether two posted atomics of one rank on one word yield something else in the other order.
    pub(crate) fn may_not_change_places(self, other: Site) -> bool {
        let is_posted =
            |site: Site| site.class == Class::Atomic && site.writes && site.until.is_some();
        let commutes = COMMUTING.contains(&OPERATIONS[usize::from(self.operation)]);
        is_posted(self)
            && is_posted(other)
            && self.rank == other.rank
            && !(commutes && self.operation == other.operation)
    }

    /// Whether two accesses to the same bytes may not come in any order.
    pub(crate) fn conflicts(self, other: Site, same_bytes: bool) -> bool {
        if !self.writes && !other.writes {
            return false;
        }
        // What instructions of one rank do to each other is for checkers of threads.
        if self.rank == other.rank && self.kind & other.kind & kind::INSTRUCTION != 0 {
            return false;
        }
        let are_atomic = self.class == Class::Atomic && other.class == Class::Atomic;
        let domain = kind::FLOAT | kind::SHARED_TEAM;
        let is_signal = (self.kind | other.kind) & kind::SIGNAL != 0;
        let is_one_domain = is_signal || (self.kind ^ other.kind) & domain == 0;
        // Atomics exclude each other on words of one width, one type and one domain.
        !self.class.excludes(other.class) || are_atomic && !(same_bytes && is_one_domain)
    }
}

/// Why two accesses race: what is missing between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Missing {
    /// Nothing leads from the first to the second.
    Synchronization = 0,
    /// The first was under way, and its origin had flushed nothing.
    Flush = 1,
    /// Both are of one rank, which had put neither a fence nor a flush between them.
    Fence = 2,
    /// One is atomic and the other is not.
    Atomicity = 3,
    /// A buffer was used before the operation that owns it was complete.
    Completion = 4,
    /// Nothing leads from one strand of a rank to the other.
    Threads = 5,
    /// Both are atomic, but of different widths, types or domains.
    Domain = 6,
    /// Both are posted atomics of one rank on one word, with neither a fence nor a flush between
    /// them.
    Order = 7,
}

impl Missing {
    pub(crate) fn from_bits(bits: u32) -> Missing {
        match bits {
            1 => Missing::Flush,
            2 => Missing::Fence,
            3 => Missing::Atomicity,
            4 => Missing::Completion,
            5 => Missing::Threads,
            6 => Missing::Domain,
            7 => Missing::Order,
            _ => Missing::Synchronization,
        }
    }
}

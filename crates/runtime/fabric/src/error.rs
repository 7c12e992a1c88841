//! The one error type. Every message names the value that was wrong and, where there is one, the
//! way out; [`Error::class`] is what a program, or another language, tells errors apart by.

use std::any::Any;
use std::sync::Arc;

use crate::names::{Node, Rank, SegmentId};
use crate::number::{Number, Op};
use crate::text;
pub use class::ErrorClass;

mod class;

/// What every call of farside that can fail returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// A signal ended it.
    Signal(i32),
    /// It exited with this status, without leaving the job or with a failure.
    Status(i32),
    /// Its thread panicked.
    Panicked,
    /// Its thread returned an error.
    Failed,
    /// It left the job in order, while others still needed it.
    Left,
    /// It stopped answering.
    Silent,
    /// Its process ended without leaving the job; how, only the launcher knows that started it.
    Vanished,
}

/// The signal with which a program ends itself.
const SIGABRT: i32 = 6;

impl ExitCause {
    /// Returns whether something else than its own program ended the rank: a signal did, and not
    /// that of `abort`. Then it was not because of what the rank knew.
    pub fn is_from_outside(self) -> bool {
        matches!(self, ExitCause::Signal(signal) if signal != SIGABRT)
    }
}

impl std::fmt::Display for ExitCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitCause::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            ExitCause::Status(status) => write!(f, "exited with status {status}"),
            ExitCause::Panicked => write!(f, "panicked"),
            ExitCause::Failed => write!(f, "returned an error"),
            ExitCause::Left => write!(f, "has already left the job: its main function returned"),
            ExitCause::Silent => write!(f, "stopped answering"),
            ExitCause::Vanished => write!(f, "ended without leaving the job"),
        }
    }
}

/// Returns the name of a signal that ends processes, on any Linux.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// Everything that can go wrong, on any fabric and in any layer.
///
/// It says the same as `Debug` and as `Display`: a `main` that returns a [`Result`] prints the
/// former.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank number that the job does not have.
    #[error("{rank} does not exist: the job has {}", numbered(*ranks, "rank"))]
    UnknownRank {
        /// The number asked for.
        rank: Rank,
        /// How many ranks there are.
        ranks: u32,
    },
    /// A rank of the job that has no part in this window or team.
    #[error("{rank} is not a member of this {of}")]
    NotAMember {
        /// The rank asked for.
        rank: Rank,
        /// What it is not a member of.
        of: &'static str,
    },
    /// A node number that the job does not have.
    #[error("{node} does not exist: the job has {}", numbered(*nodes, "node"))]
    UnknownNode {
        /// The number asked for.
        node: Node,
        /// How many nodes there are.
        nodes: u32,
    },
    /// An access that would leave the memory it was meant for.
    #[error(
        "{bytes} bytes at offset {offset} do not fit into the {segment_bytes} bytes that {rank} \
         has there ({segment})"
    )]
    OutOfRange {
        /// Whose memory.
        rank: Rank,
        /// Which segment.
        segment: SegmentId,
        /// The first byte asked for.
        offset: u64,
        /// How many bytes were asked for.
        bytes: u64,
        /// How many bytes there are.
        segment_bytes: u64,
    },
    /// An access that would leave a rank's part of a window, in elements, as callers count.
    #[error(
        "index {first}..{end} is outside the {elements} elements ({element}) of {rank}'s part of \
         {of}"
    )]
    OutOfBounds {
        /// Whose part.
        rank: Rank,
        /// The first element asked for.
        first: u64,
        /// One more than the last element asked for.
        end: u64,
        /// How many elements there are.
        elements: u64,
        /// The type of an element.
        element: &'static str,
        /// What has the part: a window, by its name if it has one, or words.
        of: String,
    },
    /// A segment that was freed, or never was.
    #[error("{rank} has no {segment}: it was freed, or never allocated")]
    NoSegment {
        /// Whose memory.
        rank: Rank,
        /// Which segment.
        segment: SegmentId,
    },
    /// A word that does not lie on a multiple of its size.
    #[error(
        "the atomic word at offset {offset} is misaligned: the offset must be a multiple of {align}"
    )]
    Misaligned {
        /// The offset asked for.
        offset: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// Two lengths or shapes of one call that must agree and do not.
    #[error("{what} do not match: {left} and {right}")]
    Mismatch {
        /// What must agree.
        what: &'static str,
        /// One of them.
        left: u64,
        /// The other.
        right: u64,
    },
    /// Ranks that came to one collective with different arguments.
    #[error(
        "{what}: this rank says {mine}, {rank} says {theirs}; every rank must make the same call"
    )]
    Disagreement {
        /// What the ranks disagree on.
        what: String,
        /// What this rank said.
        mine: String,
        /// The rank that said something else.
        rank: Rank,
        /// What that rank said.
        theirs: String,
    },
    /// A rank that this call depends on has ended.
    #[error("{rank} {}{how}", if *.how == ExitCause::Left { "" } else { "is lost: it " })]
    RankLost {
        /// The lost rank.
        rank: Rank,
        /// How it ended.
        how: ExitCause,
    },
    /// A lock one of whose members has ended, because of this loss if not of its own: what it
    /// has left behind is unknown.
    #[error(
        "the lock is poisoned: {rank} is lost, it {how}; the data it protects may be half updated. \
         Call `recover` on a team of the remaining ranks"
    )]
    Poisoned {
        /// The lost rank.
        rank: Rank,
        /// How it ended.
        how: ExitCause,
    },
    /// The time given for a wait has passed.
    #[error("timed out after {after_ms} ms")]
    TimedOut {
        /// The time that was given.
        after_ms: u64,
    },
    /// The memory that ranks may share is used up.
    #[error(
        "cannot allocate {}: of this rank's {} of shared memory, {} are free in one piece; raise \
         the limit with `farside run --memory` or FARSIDE_MEMORY",
        text::bytes(*.asked), text::bytes(*.limit), text::bytes(*.free)
    )]
    OutOfMemory {
        /// How much was asked for.
        asked: u64,
        /// The largest piece there is.
        free: u64,
        /// How much there is in all.
        limit: u64,
    },
    /// A limit was passed: of the fabric, of a lock or a collective, or of a map.
    #[error("{what}: {value} is more than the limit of {limit}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much was asked for.
        value: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// The address space of this process is limited, and too small for the memory of the job.
    #[error(
        "{} of shared memory for each of {} do not fit into the address space, which is limited \
         to {} by `ulimit -v` and has other uses too: raise that limit, or share less",
        text::bytes(*.each), text::counted(*.ranks, "rank"), text::bytes(*.limit)
    )]
    AddressSpace {
        /// How many ranks share memory.
        ranks: u32,
        /// How much each of them may share.
        each: u64,
        /// How much the process may map in all.
        limit: u64,
    },
    /// An operation that has no meaning for these operands, or that this machine cannot do.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was asked for.
        what: String,
    },
    /// An accumulate whose elements lack its operation.
    #[error(
        "an accumulate cannot form the {} of {}: bitwise and logical operations need integers, min \
         and max exclude complex numbers, minloc and maxloc need values with an index",
        .op.name(), .number.name()
    )]
    UndefinedOperation {
        /// The operation asked for.
        op: Op,
        /// The kind of elements asked for.
        number: Number,
    },
    /// A handler that is not registered at that node.
    #[error("{node} has no handler {handler}: register it on every rank with World::serve first")]
    NoHandler {
        /// The node that was called.
        node: Node,
        /// The handler asked for.
        handler: u32,
    },
    /// A handler that panicked while it served a call.
    #[error("handler {handler} at {node} panicked")]
    HandlerPanicked {
        /// The node that was called.
        node: Node,
        /// The handler.
        handler: u32,
    },
    /// A wait on memory of another rank.
    #[error("{rank} cannot wait on a word of {owner}: a rank waits on its own memory only")]
    NotOwn {
        /// The rank that wanted to wait.
        rank: Rank,
        /// The owner of the word.
        owner: Rank,
    },
    /// A part of a collective call, or of an operation, that another rank could not do.
    #[error("{rank} could not do its part of this call ({class}); its own error says why")]
    PeerFailed {
        /// The rank that failed.
        rank: Rank,
        /// The class of its error.
        class: ErrorClass,
    },
    /// A rank that has named as many segments as there are names. No name is given twice, so that
    /// an address that outlived its window is recognised.
    #[error(
        "{rank} has used up its {} names of windows, blocks of words and teams: reuse windows \
         instead of allocating new ones, or make another rank the first of the team",
        u32::MAX
    )]
    OutOfNames {
        /// The rank.
        rank: Rank,
    },
    /// A store of fixed size, which the program has chosen, that is full.
    #[error("{0}")]
    Exhausted(String),
    /// An argument that makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
    /// A call that the rules forbid at this moment.
    #[error("{0}")]
    InvalidState(String),
    /// A setting that makes no sense: a variable, an option, a profile, a list of hosts.
    #[error("{0}")]
    InvalidSetting(String),
    /// A file that cannot be read or written, or that is not what it should be.
    #[error("{0}")]
    File(String),
    /// A network, or the library that drives it, that does not do what it is needed for.
    #[error("{0}")]
    Network(String),
    /// A broken rule of a layer above, as that layer's own type ([`Error::fault`]).
    #[error("{0}")]
    Layer(LayerError),
    /// A failure that the program itself has found and returned.
    #[error("{0}")]
    Program(String),
    /// A state that cannot be: a defect of farside, memory that was overwritten, or ranks that run
    /// different programs.
    #[error("{0}")]
    Internal(String),
    /// The job that this process was told to join is not there, or not what it should be.
    #[error("cannot join the job: {0}")]
    Join(String),
    /// The system refused.
    #[error("{call}: {}", std::io::Error::from_raw_os_error(*.errno))]
    System {
        /// What was asked of the system.
        call: &'static str,
        /// Its answer.
        errno: i32,
    },
}

/// Returns how many of something there are, and their numbers.
fn numbered(count: u32, what: &str) -> String {
    let numbers = match count {
        0 => String::new(),
        1 => ", 0".to_owned(),
        _ => format!(", 0 to {}", count - 1),
    };
    text::counted(count, what) + &numbers
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The rank whose loss this error reports, if that is what it reports.
    pub fn lost_rank(&self) -> Option<Rank> {
        match self {
            Error::RankLost { rank, .. } | Error::Poisoned { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    /// Returns the class of this error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::UnknownRank { .. } | Error::UnknownNode { .. } | Error::NotAMember { .. } => {
                ErrorClass::Rank
            }
            Error::OutOfRange { .. } | Error::OutOfBounds { .. } => ErrorClass::Bounds,
            Error::NoSegment { .. } => ErrorClass::Segment,
            Error::Misaligned { .. }
            | Error::Mismatch { .. }
            | Error::NotOwn { .. }
            | Error::InvalidArgument(_) => ErrorClass::Argument,
            Error::InvalidState(_) => ErrorClass::State,
            Error::Disagreement { .. } => ErrorClass::Disagreement,
            Error::Unsupported { .. } | Error::UndefinedOperation { .. } => ErrorClass::Unsupported,
            Error::NoHandler { .. } | Error::HandlerPanicked { .. } => ErrorClass::Handler,
            Error::RankLost { .. } => ErrorClass::Lost,
            Error::Poisoned { .. } => ErrorClass::Poisoned,
            Error::TimedOut { .. } => ErrorClass::TimedOut,
            Error::OutOfMemory { .. } | Error::AddressSpace { .. } | Error::Exhausted(_) => {
                ErrorClass::Memory
            }
            Error::TooMuch { .. } | Error::OutOfNames { .. } => ErrorClass::Limit,
            Error::InvalidSetting(_) => ErrorClass::Setting,
            Error::File(_) => ErrorClass::File,
            Error::Network(_) => ErrorClass::Network,
            Error::System { .. } => ErrorClass::System,
            Error::Join(_) => ErrorClass::Join,
            Error::Program(_) => ErrorClass::Program,
            Error::Internal(_) => ErrorClass::Internal,
            Error::PeerFailed { class, .. } => *class,
            Error::Layer(error) => error.0.class(),
        }
    }

    /// Returns the fault of a layer above that this error reports, if it is of type `F`.
    pub fn fault<F: Fault>(&self) -> Option<&F> {
        match self {
            Error::Layer(LayerError(fault)) => (&**fault as &dyn Any).downcast_ref(),
            _ => None,
        }
    }
}

/// A broken rule of a layer above the fabrics, with its own type.
pub trait Fault: std::error::Error + Any + Send + Sync {
    /// Returns the class of the error that reports this fault.
    fn class(&self) -> ErrorClass;
}

impl<F: Fault> From<F> for Error {
    fn from(fault: F) -> Error {
        Error::Layer(LayerError(Arc::new(fault)))
    }
}

/// The fault of a layer above the fabrics. Two are equal if they have the same type and text.
#[derive(Clone)]
pub struct LayerError(Arc<dyn Fault>);

impl std::fmt::Display for LayerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

impl PartialEq for LayerError {
    fn eq(&self, other: &LayerError) -> bool {
        let types = [self, other].map(|error| (&*error.0 as &dyn Any).type_id());
        types[0] == types[1] && self.0.to_string() == other.0.to_string()
    }
}

impl Eq for LayerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_the_job_does_not_have_is_named_beside_those_it_has() {
        let unknown = |ranks| Error::UnknownRank { rank: Rank(9), ranks }.to_string();
        assert_eq!(unknown(1), "rank 9 does not exist: the job has 1 rank, 0");
        assert_eq!(unknown(4), "rank 9 does not exist: the job has 4 ranks, 0 to 3");
    }

    #[test]
    fn messages_name_the_value_and_the_way_out() {
        let unknown = Error::UnknownRank { rank: Rank(7), ranks: 4 };
        assert_eq!(unknown.to_string(), "rank 7 does not exist: the job has 4 ranks, 0 to 3");
        let lost = Error::RankLost { rank: Rank(2), how: ExitCause::Signal(9) };
        assert_eq!(lost.to_string(), "rank 2 is lost: it was killed by signal 9 (SIGKILL)");
        assert_eq!(lost.lost_rank(), Some(Rank(2)));
        let over = Error::OutOfBounds {
            rank: Rank(0),
            first: 10,
            end: 11,
            elements: 10,
            element: "u64",
            of: "this window".into(),
        };
        let said = "index 10..11 is outside the 10 elements (u64) of rank 0's part of this window";
        assert_eq!(over.to_string(), said);
    }

    #[test]
    fn a_rank_that_left_in_order_is_not_called_lost() {
        let left = Error::RankLost { rank: Rank(0), how: ExitCause::Left };
        assert_eq!(left.to_string(), "rank 0 has already left the job: its main function returned");
        assert_eq!(left.lost_rank(), Some(Rank(0)));
    }

    #[test]
    fn what_main_prints_of_an_error_is_its_text() {
        let full = Error::OutOfMemory { asked: 80, free: 8, limit: 64 };
        assert_eq!(format!("{full:?}"), full.to_string());
        assert!(format!("{full:?}").contains("--memory"), "{full:?}");
    }

    #[test]
    fn an_error_stays_small_enough_to_return_by_value() {
        assert!(size_of::<Error>() <= 112, "{} bytes", size_of::<Error>());
    }
}

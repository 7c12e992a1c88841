//! The classes of errors, with numbers that stay.

/// The class of an [`Error`](super::Error): a small set that stays the same while variants and
/// texts are added, for programs that decide by it and for other languages.
///
/// ```
/// use farside_fabric::{Error, ErrorClass, Rank};
///
/// let error = Error::UnknownRank { rank: Rank(7), ranks: 4 };
/// assert_eq!(error.class(), ErrorClass::Rank);
/// assert_eq!(ErrorClass::from_code(error.class().code()), Some(ErrorClass::Rank));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorClass {
    /// A rank, a node or a member that does not exist.
    Rank = 1,
    /// An access outside of the memory that it was meant for.
    Bounds = 2,
    /// Memory that was freed, or never allocated.
    Segment = 3,
    /// An argument that makes no sense.
    Argument = 4,
    /// A call that the rules forbid at this moment.
    State = 5,
    /// A broken rule of epochs.
    Epoch = 6,
    /// Ranks that came to one collective with different calls or arguments.
    Disagreement = 7,
    /// An operation that this machine or fabric cannot do.
    Unsupported = 8,
    /// A handler that is not registered, or that panicked.
    Handler = 9,
    /// A rank that the call depends on has ended.
    Lost = 10,
    /// A lock one of whose members was lost.
    Poisoned = 11,
    /// The time given for a wait has passed.
    TimedOut = 12,
    /// Memory, or a store of fixed size, is used up.
    Memory = 13,
    /// A limit of the fabric or of the job was passed.
    Limit = 14,
    /// A variable, option, profile or list of hosts that makes no sense.
    Setting = 15,
    /// A file that cannot be read or written.
    File = 16,
    /// A network, or its library, that does not do what it is needed for.
    Network = 17,
    /// The operating system refused.
    System = 18,
    /// The job that this process was started for is not there, or not what it should be.
    Join = 19,
    /// A failure that the program itself has found and returned.
    Program = 20,
    /// A state that cannot be.
    Internal = 21,
}

impl ErrorClass {
    /// All classes, by number.
    pub const ALL: &[ErrorClass] = &[
        ErrorClass::Rank,
        ErrorClass::Bounds,
        ErrorClass::Segment,
        ErrorClass::Argument,
        ErrorClass::State,
        ErrorClass::Epoch,
        ErrorClass::Disagreement,
        ErrorClass::Unsupported,
        ErrorClass::Handler,
        ErrorClass::Lost,
        ErrorClass::Poisoned,
        ErrorClass::TimedOut,
        ErrorClass::Memory,
        ErrorClass::Limit,
        ErrorClass::Setting,
        ErrorClass::File,
        ErrorClass::Network,
        ErrorClass::System,
        ErrorClass::Join,
        ErrorClass::Program,
        ErrorClass::Internal,
    ];

    /// Returns the number of this class, which never changes. It is positive: 0 is success.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Returns the class with a number.
    pub fn from_code(code: i32) -> Option<ErrorClass> {
        ErrorClass::ALL.iter().copied().find(|class| class.code() == code)
    }

    /// Returns the name of this class, as C spells it behind `FARSIDE_ERROR_`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Rank => "RANK",
            ErrorClass::Bounds => "BOUNDS",
            ErrorClass::Segment => "SEGMENT",
            ErrorClass::Argument => "ARGUMENT",
            ErrorClass::State => "STATE",
            ErrorClass::Epoch => "EPOCH",
            ErrorClass::Disagreement => "DISAGREEMENT",
            ErrorClass::Unsupported => "UNSUPPORTED",
            ErrorClass::Handler => "HANDLER",
            ErrorClass::Lost => "LOST",
            ErrorClass::Poisoned => "POISONED",
            ErrorClass::TimedOut => "TIMED_OUT",
            ErrorClass::Memory => "MEMORY",
            ErrorClass::Limit => "LIMIT",
            ErrorClass::Setting => "SETTING",
            ErrorClass::File => "FILE",
            ErrorClass::Network => "NETWORK",
            ErrorClass::System => "SYSTEM",
            ErrorClass::Join => "JOIN",
            ErrorClass::Program => "PROGRAM",
            ErrorClass::Internal => "INTERNAL",
        }
    }

    /// Returns whether errors of this class come from the loss of a rank, or from a wait that was
    /// given up, rather than from a mistake or a defect.
    pub fn is_failure_of_others(self) -> bool {
        matches!(self, ErrorClass::Lost | ErrorClass::Poisoned | ErrorClass::TimedOut)
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ErrorClass::Rank => "a rank, node or member that does not exist",
            ErrorClass::Bounds => "an access outside of the memory",
            ErrorClass::Segment => "memory that was freed or never allocated",
            ErrorClass::Argument => "an invalid argument",
            ErrorClass::State => "a call that the rules forbid at this moment",
            ErrorClass::Epoch => "a broken rule of epochs",
            ErrorClass::Disagreement => "different collective calls",
            ErrorClass::Unsupported => "not supported",
            ErrorClass::Handler => "a handler that is missing or has failed",
            ErrorClass::Lost => "a rank is lost",
            ErrorClass::Poisoned => "a poisoned lock",
            ErrorClass::TimedOut => "timed out",
            ErrorClass::Memory => "out of memory",
            ErrorClass::Limit => "a limit was passed",
            ErrorClass::Setting => "an invalid setting",
            ErrorClass::File => "a file that cannot be used",
            ErrorClass::Network => "the network",
            ErrorClass::System => "the operating system refused",
            ErrorClass::Join => "the job could not be joined",
            ErrorClass::Program => "a failure of the program",
            ErrorClass::Internal => "an impossible state",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_names_differ() {
        for (at, class) in ErrorClass::ALL.iter().enumerate() {
            assert_eq!(class.code(), at as i32 + 1, "{class:?}");
            assert_eq!(ErrorClass::from_code(class.code()), Some(*class));
            let same = ErrorClass::ALL.iter().filter(|other| other.name() == class.name());
            assert_eq!(same.count(), 1, "{class:?}");
        }
        assert_eq!(ErrorClass::from_code(0), None);
        assert_eq!(ErrorClass::from_code(ErrorClass::ALL.len() as i32 + 1), None);
    }
}

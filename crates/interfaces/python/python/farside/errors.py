"""The exceptions of farside: one class for each error class, with the text of the library."""

from __future__ import annotations


class FarsideError(Exception):
    """An error of farside. `code` is the number of its class, the same as in C."""

    code: int = 0


class NoSuchRank(FarsideError, ValueError):
    """A rank, a node or a member that does not exist."""

    code = 1


class OutOfBounds(FarsideError, IndexError):
    """An access outside of the memory that it was meant for."""

    code = 2


class NoSegment(FarsideError):
    """Memory that was freed, or never allocated."""

    code = 3


class InvalidArgument(FarsideError, ValueError):
    """An argument that makes no sense."""

    code = 4


class InvalidState(FarsideError, RuntimeError):
    """A call that the rules forbid at this moment."""

    code = 5


class EpochError(FarsideError, RuntimeError):
    """A broken rule of epochs."""

    code = 6


class Disagreement(FarsideError):
    """Ranks that came to one collective with different calls or arguments."""

    code = 7


class Unsupported(FarsideError, NotImplementedError):
    """An operation that this machine, fabric or dtype does not have."""

    code = 8


class HandlerError(FarsideError):
    """A handler that is not registered, or that failed."""

    code = 9


class RankLost(FarsideError):
    """A rank that the call depends on has ended: `rank`, and `how`."""

    code = 10
    rank: int = -1
    how: str = ""


class Poisoned(FarsideError):
    """A lock one of whose members was lost: `rank`, and `how`. `recover` makes it usable again."""

    code = 11
    rank: int = -1
    how: str = ""


class TimedOut(FarsideError, TimeoutError):
    """The time given for a wait has passed."""

    code = 12


class OutOfMemory(FarsideError, MemoryError):
    """Memory, or a store of fixed size, is used up."""

    code = 13


class LimitExceeded(FarsideError):
    """A limit of the fabric or of the job was passed."""

    code = 14


class InvalidSetting(FarsideError, ValueError):
    """A variable, option, profile or list of hosts that makes no sense."""

    code = 15


class FileError(FarsideError):
    """A file that cannot be read or written."""

    code = 16


class NetworkError(FarsideError):
    """A network, or its library, that does not do what it is needed for."""

    code = 17


class SystemFailure(FarsideError):
    """The operating system refused."""

    code = 18


class JoinError(FarsideError):
    """The job that this process was started for is not there, or not what it should be."""

    code = 19


class ProgramError(FarsideError):
    """A failure that the program itself has found and returned."""

    code = 20


class InternalError(FarsideError):
    """A state that cannot be: a defect of farside."""

    code = 21


#: The classes by the names that C has behind `FARSIDE_ERROR_`.
BY_NAME: dict[str, type[FarsideError]] = {
    "RANK": NoSuchRank,
    "BOUNDS": OutOfBounds,
    "SEGMENT": NoSegment,
    "ARGUMENT": InvalidArgument,
    "STATE": InvalidState,
    "EPOCH": EpochError,
    "DISAGREEMENT": Disagreement,
    "UNSUPPORTED": Unsupported,
    "HANDLER": HandlerError,
    "LOST": RankLost,
    "POISONED": Poisoned,
    "TIMED_OUT": TimedOut,
    "MEMORY": OutOfMemory,
    "LIMIT": LimitExceeded,
    "SETTING": InvalidSetting,
    "FILE": FileError,
    "NETWORK": NetworkError,
    "SYSTEM": SystemFailure,
    "JOIN": JoinError,
    "PROGRAM": ProgramError,
    "INTERNAL": InternalError,
}

__all__ = ["BY_NAME", "FarsideError", *(each.__name__ for each in BY_NAME.values())]

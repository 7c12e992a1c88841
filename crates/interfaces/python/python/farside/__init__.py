"""One-sided remote memory for parallel programs: windows as numpy arrays.

A program runs as many ranks; each reads, writes and atomically updates the memory of the others
without their help:

    import farside

    world = farside.join()
    w = world.window(8, "f8")
    w[(world.rank + 1) % world.size, 2:4] = [1.5, 2.5]
    world.sync()
    print(w.own)

`farside run -n 4 python program.py` starts it as four processes; `farside.local(4, function)` runs
a function on four ranks from a notebook or a test.
"""

from farside._array import GlobalArray
from farside._core import (
    Context,
    EpochWindow,
    HashMap,
    Lock,
    RwLock,
    Scope,
    Team,
    Window,
    World,
    __version__,
)
from farside._job import join
from farside._local import LocalError, local
from farside.errors import (
    Disagreement,
    EpochError,
    FarsideError,
    InvalidArgument,
    InvalidState,
    JoinError,
    NoSuchRank,
    OutOfBounds,
    OutOfMemory,
    Poisoned,
    RankLost,
    TimedOut,
    Unsupported,
)

__all__ = [
    "Context",
    "Disagreement",
    "EpochError",
    "EpochWindow",
    "FarsideError",
    "GlobalArray",
    "HashMap",
    "InvalidArgument",
    "InvalidState",
    "JoinError",
    "LocalError",
    "Lock",
    "NoSuchRank",
    "OutOfBounds",
    "OutOfMemory",
    "Poisoned",
    "RankLost",
    "RwLock",
    "Scope",
    "Team",
    "TimedOut",
    "Unsupported",
    "Window",
    "World",
    "__version__",
    "join",
    "local",
]

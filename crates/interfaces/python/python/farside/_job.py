"""Joining the job, and how a rank ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Optional

from farside import _core
from farside.errors import Poisoned, RankLost

_world: Optional[_core.World] = None


def join() -> _core.World:
    """Joins the job that this process was started for, or a job of one rank without a launcher.

    A process joins once; later calls return the same world. The rank leaves the job when the
    interpreter ends: in order, or, after an exception that nothing has caught, as a failed rank.
    """
    global _world
    if _world is None:
        _world = _core.join()
        atexit.register(_leave, _world)
        _hook(_world)
    elif _world.is_left:
        # The library says why a process cannot join again.
        _world = _core.join()
    return _world


def _leave(world: _core.World) -> None:
    """Leaves the job at the end of the interpreter, unless this is a child of the rank."""
    if not world.is_left and world.is_own_process:
        world.leave()


def _is_consequence(error: Optional[BaseException]) -> bool:
    """Returns whether an exception, or what it came from, is the loss of another rank."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, (RankLost, Poisoned)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _hook(world: _core.World) -> None:
    """Labels the traceback of an exception that ends the rank, and says that the rank failed."""
    if world.size == 1:
        return
    before = sys.excepthook

    def ended(
        kind: type[BaseException],
        error: BaseException,
        where: Optional[TracebackType],
    ) -> None:
        if before is not sys.__excepthook__:
            before(kind, error, where)
        else:
            text = "".join(traceback.format_exception(kind, error, where))
            label = f"rank {world.rank}: "
            lines = "".join(f"{label}{line}\n" for line in text.rstrip("\n").split("\n"))
            sys.stderr.write(lines)
            sys.stderr.flush()
        if threading.active_count() > 1:
            # The interpreter would wait for its threads, which may wait for other ranks.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        if not world.is_left and not _is_consequence(error):
            world.note_failure()

    sys.excepthook = ended

"""Windows of MPI over windows with epochs."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from farside._core import EpochWindow
from farside.mpi._comm import SUM, Comm, Group
from farside.mpi._types import Datatype, Op, Request, array_of, room_of

LOCK_EXCLUSIVE = 1
LOCK_SHARED = 2
#: Begins no epoch, so that the fence is the last one.
MODE_NOSUCCEED = 16

REPLACE = Op("REPLACE", lambda a, b: b, "replace")
NO_OP = Op("NO_OP", lambda a, b: a, "no_op")


class Win:
    """A window: memory with a part on every process of a communicator."""

    def __init__(self, comm: Comm, window: EpochWindow, disp_unit: int) -> None:
        self._comm = comm
        self._window = window
        self._units = comm.allgather(disp_unit)
        self._name = ""
        self._flavour = "allocate"

    @classmethod
    def Allocate(
        cls, size: int, disp_unit: int = 1, info: Any = None, comm: Optional[Comm] = None
    ) -> Win:
        """Allocates a window of so many bytes on this process."""
        comm = _of(comm)
        return cls(comm, comm.team.epoch_window(int(size), np.uint8, checking=False), disp_unit)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Any = None, comm: Optional[Comm] = None
    ) -> Win:
        """Allocates a window on processes that share memory; each part is one of its own."""
        return cls.Allocate(size, disp_unit, info, comm)

    @classmethod
    def Create(
        cls, memory: Any, disp_unit: int = 1, info: Any = None, comm: Optional[Comm] = None
    ) -> Win:
        """Makes a window of memory that the program has. Its pages become memory of the job."""
        comm = _of(comm)
        array: Optional[NDArray[Any]] = None if memory is None else room_of(memory)
        if array is not None and array.size == 0:
            array = None
        return cls(comm, comm.team.epoch_window_over(array, checking=False), disp_unit)

    def Free(self) -> None:
        """Frees the window. The memory stays while a process has a view of it."""
        self._window.free()

    def tomemory(self) -> memoryview:
        """Returns this process's own part."""
        return self._own().data

    @property
    def memory(self) -> memoryview:
        """This process's own part."""
        return self.tomemory()

    def _own(self) -> NDArray[np.uint8]:
        return self._window.own_view().reshape(-1).view(np.uint8)

    def __buffer__(self, flags: int) -> memoryview:
        return self.tomemory()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> NDArray[Any]:
        own = self._own()
        return own if dtype is None else own.view(dtype)

    def Get_group(self) -> Group:
        """Returns the group of the window's processes."""
        return self._comm.Get_group()

    group = property(Get_group)

    def Set_name(self, name: str) -> None:
        """Sets the name."""
        self._name = name

    def Get_name(self) -> str:
        """Returns the name."""
        return self._name

    # Synchronization.

    def Fence(self, assertion: int = 0) -> None:
        """Ends the epoch before it and begins another."""
        if assertion & MODE_NOSUCCEED:
            self._window.last_fence()
        else:
            self._window.fence()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Begins a passive epoch to a process."""
        self._window.lock(self._comm.members[rank], lock_type == LOCK_SHARED)

    def Unlock(self, rank: int) -> None:
        """Ends a passive epoch: its operations are complete."""
        self._window.unlock(self._comm.members[rank])

    def Lock_all(self, assertion: int = 0) -> None:
        """Begins a passive epoch to all processes."""
        self._window.lock_all()

    def Unlock_all(self) -> None:
        """Ends a passive epoch to all processes."""
        self._window.unlock_all()

    def Flush(self, rank: int) -> None:
        """Completes the operations on a process."""
        self._window.flush(self._comm.members[rank])

    def Flush_all(self) -> None:
        """Completes the operations on all processes."""
        self._window.flush()

    def Flush_local(self, rank: int) -> None:
        """Returns at once: buffers are free when an operation returns."""

    def Flush_local_all(self) -> None:
        """Returns at once: buffers are free when an operation returns."""

    def Sync(self) -> None:
        """Makes loads, stores and operations on the own part see each other."""
        self._window.sync()

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Begins an exposure epoch for a group."""
        self._window.post(group.members)

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Begins an access epoch to a group."""
        self._window.start(group.members)

    def Complete(self) -> None:
        """Ends the access epoch of Start."""
        self._window.complete()

    def Wait(self) -> bool:
        """Ends the exposure epoch of Post."""
        self._window.wait()
        return True

    def Test(self) -> bool:
        """Returns whether the exposure epoch is over, and ends it then."""
        return self._window.test()

    # Operations.

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Writes a buffer to a process."""
        data = np.ascontiguousarray(array_of(origin))
        at, count = self._place(target_rank, target, data)
        self._window.put_bytes(self._comm.members[target_rank], at, data.reshape(-1)[:count])

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Fills a buffer from a process."""
        into = room_of(origin)
        at, count = self._place(target_rank, target, into)
        self._window.get_bytes(self._comm.members[target_rank], at, into.reshape(-1)[:count])

    def Accumulate(
        self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """Folds a buffer into the memory of a process, each element atomically."""
        data = np.ascontiguousarray(array_of(origin))
        at, count = self._place(target_rank, target, data)
        self._fold(data.reshape(-1)[:count], self._comm.members[target_rank], at, op, False)

    def Get_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """Does what Accumulate does, and gives what was there before."""
        into = room_of(result).reshape(-1)
        data = into if op is NO_OP else np.ascontiguousarray(array_of(origin)).reshape(-1)
        at, count = self._place(target_rank, target, data)
        held = self._fold(data[:count], self._comm.members[target_rank], at, op, True)
        into[:count] = held

    def Fetch_and_op(
        self,
        origin: Any,
        result: Any,
        target_rank: int,
        target_disp: int = 0,
        op: Op = SUM,
    ) -> None:
        """Folds one element into the memory of a process, and gives what was there before."""
        into = room_of(result).reshape(-1)
        data = into if op is NO_OP else np.ascontiguousarray(array_of(origin)).reshape(-1)
        at = target_disp * self._units[target_rank]
        into[:1] = self._fold(data[:1], self._comm.members[target_rank], at, op, True)

    def Compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0
    ) -> None:
        """Writes one element if what is there equals another, and gives what was there before."""
        into = room_of(result).reshape(-1)
        desired, held = array_of(origin).reshape(-1)[:1], array_of(compare).reshape(-1)[:1].copy()
        at = target_disp * self._units[target_rank]
        self._window.swap_bytes(self._comm.members[target_rank], at, held, desired.copy())
        into[:1] = held

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Does what Put does, and returns a request that is complete."""
        self.Put(origin, target_rank, target)
        return Request()

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Does what Get does, and returns a request that is complete."""
        self.Get(origin, target_rank, target)
        return Request()

    def Raccumulate(
        self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> Request:
        """Does what Accumulate does, and returns a request that is complete."""
        self.Accumulate(origin, target_rank, target, op)
        return Request()

    def _place(self, rank: int, target: Any, data: NDArray[Any]) -> tuple[int, int]:
        """Returns the byte and the number of elements of a target."""
        displacement, count = 0, data.size
        if isinstance(target, (list, tuple)):
            displacement = int(target[0])
            if len(target) > 1 and target[1] is not None and not isinstance(target[1], Datatype):
                count = min(count, int(target[1]))
        elif target is not None:
            displacement = int(target)
        return displacement * self._units[rank], count

    def _fold(
        self, data: NDArray[Any], target: int, at: int, op: Op, fetch: bool
    ) -> NDArray[Any]:
        """Folds elements into a target's; returns what was there before, if that is wanted."""
        if op.fold is None:
            raise NotImplementedError(f"{op.name} on the memory of another process")
        if op.fold == "sum" and not fetch and data.dtype.kind in "iufc" and data.itemsize >= 4:
            self._window.accumulate_bytes(target, at, data)
            return data
        held = data.copy()
        self._window.fold_bytes(target, at, held, op.fold)
        return held


def _of(comm: Optional[Comm]) -> Comm:
    """Returns a communicator, by default that of all processes."""
    if comm is None:
        from farside.mpi import MPI

        return MPI.COMM_WORLD
    return comm

"""Windows of MPI over windows with epochs."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from farside._core import EpochWindow
from farside.errors import InvalidArgument, OutOfBounds
from farside.mpi._comm import PROC_NULL, SUM, Comm, Group
from farside.mpi._types import Datatype, Op, Request, array_of, check_same, room_of

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
        size, disp_unit = index(size), _unit(disp_unit)
        return cls(comm, comm.team.epoch_window(size, np.uint8, checking=False), disp_unit)

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
        comm, disp_unit = _of(comm), _unit(disp_unit)
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
        if lock_type not in (LOCK_SHARED, LOCK_EXCLUSIVE):
            raise InvalidArgument(f"{lock_type} is not a type of lock")
        if (target := self._target(rank)) is not None:
            self._window.lock(target, lock_type == LOCK_SHARED)

    def Unlock(self, rank: int) -> None:
        """Ends a passive epoch: its operations are complete."""
        if (target := self._target(rank)) is not None:
            self._window.unlock(target)

    def Lock_all(self, assertion: int = 0) -> None:
        """Begins a passive epoch to all processes."""
        self._window.lock_all()

    def Unlock_all(self) -> None:
        """Ends a passive epoch to all processes."""
        self._window.unlock_all()

    def Flush(self, rank: int) -> None:
        """Completes the operations on a process."""
        if (target := self._target(rank)) is not None:
            self._window.flush(target)

    def Flush_all(self) -> None:
        """Completes the operations on all processes."""
        self._window.flush()

    def Flush_local(self, rank: int) -> None:
        """Returns at once: buffers are free when an operation returns."""
        self._target(rank)

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
        data = np.ascontiguousarray(array_of(origin)).reshape(-1)
        place = self._place(target_rank, target, data)
        if place is not None:
            _check_room(data.nbytes, place.nbytes)
            self._window.put_bytes(place.rank, place.at, data)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Fills a buffer from a process."""
        into = room_of(origin).reshape(-1)
        place = self._place(target_rank, target, into)
        if place is not None:
            _check_room(place.nbytes, into.nbytes)
            self._window.get_bytes(place.rank, place.at, into.view(np.uint8)[: place.nbytes])

    def Accumulate(
        self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """Folds a buffer into the memory of a process, each element atomically."""
        data = np.ascontiguousarray(array_of(origin)).reshape(-1)
        place = self._place(target_rank, target, data)
        if place is not None:
            _check_elements(data, place)
            self._window.accumulate_bytes(place.rank, place.at, data, _fold(op))

    def Get_accumulate(
        self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM
    ) -> None:
        """Does what Accumulate does, and gives what was there before."""
        into = room_of(result).reshape(-1)
        data = into if op is NO_OP else np.ascontiguousarray(array_of(origin)).reshape(-1)
        check_same(data, into)
        _check_room(data.nbytes, into.nbytes)
        place = self._place(target_rank, target, data)
        if place is not None:
            _check_elements(data, place)
            into[: data.size] = self._fetch(data, place.rank, place.at, op)

    def Fetch_and_op(
        self,
        origin: Any,
        result: Any,
        target_rank: int,
        target_disp: int = 0,
        op: Op = SUM,
    ) -> None:
        """Folds one element into the memory of a process, and gives what was there before."""
        into = _first(room_of(result))
        data = into if op is NO_OP else _first(array_of(origin))
        check_same(data, into)
        place = self._place(target_rank, target_disp, data)
        if place is not None:
            into[:] = self._fetch(data, place.rank, place.at, op)

    def Compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0
    ) -> None:
        """Writes one element if what is there equals another, and gives what was there before."""
        into, desired, held = (
            _first(each) for each in (room_of(result), array_of(origin), array_of(compare))
        )
        check_same(into, desired, held)
        place = self._place(target_rank, target_disp, into)
        if place is not None:
            held = held.copy()
            self._window.swap_bytes(place.rank, place.at, held, desired.copy())
            into[:] = held

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

    def _target(self, rank: int) -> Optional[int]:
        """Returns the rank of the job that a process has, none of PROC_NULL."""
        return None if rank == PROC_NULL else self._comm.Get_group().member(rank)

    def _place(self, rank: int, target: Any, data: NDArray[Any]) -> Optional[_Place]:
        """Returns where a target is, none of PROC_NULL: by default it is as long as the data."""
        displacement, count, dtype = 0, data.size, data.dtype
        if isinstance(target, (list, tuple)):
            if not 1 <= len(target) <= 3:
                raise InvalidArgument("a target is (displacement, count, type)")
            displacement = index(target[0])
            for each in target[1:]:
                if isinstance(each, Datatype):
                    dtype = each.dtype
                elif each is not None:
                    count = index(each)
        elif target is not None:
            displacement = index(target)
        if count < 0:
            raise InvalidArgument(f"a target of {count} elements")
        member = self._target(rank)
        if member is None:
            return None
        at = displacement * self._units[rank]
        if not 0 <= at < 1 << 64:
            raise OutOfBounds(f"displacement {displacement} is outside the window")
        return _Place(member, at, count, dtype)

    def _fetch(self, data: NDArray[Any], target: int, at: int, op: Op) -> NDArray[Any]:
        """Folds elements into a target's; returns what was there before."""
        held = data.copy()
        self._window.fold_bytes(target, at, held, _fold(op))
        return held


class _Place(NamedTuple):
    """Elements of a process: its rank in the job, their first byte, number and type."""

    rank: int
    at: int
    elements: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize


def _check_room(sent: int, room: int) -> None:
    """Refuses a message that is longer than where it goes."""
    if sent > room:
        raise InvalidArgument(f"{sent} bytes for {room} bytes: origin and target do not fit")


def _check_elements(data: NDArray[Any], place: _Place) -> None:
    """Refuses a target that the elements of an accumulate do not fit."""
    _check_room(data.nbytes, place.nbytes)
    if data.dtype != place.dtype:
        raise InvalidArgument(f"elements of {data.dtype} for a target of {place.dtype}")


def _first(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the one element of a buffer that an atomic takes."""
    if array.size == 0:
        raise InvalidArgument("an atomic takes one element, and the buffer has none")
    return array.reshape(-1)[:1]


def _fold(op: Op) -> str:
    """Returns the name of an operation on the memory of another process."""
    if op.fold is None:
        raise NotImplementedError(f"{op.name} on the memory of another process")
    return op.fold


def _unit(disp_unit: int) -> int:
    """Returns a unit of displacements."""
    if index(disp_unit) < 1:
        raise InvalidArgument(f"a unit of {disp_unit} bytes")
    return index(disp_unit)


def _of(comm: Optional[Comm]) -> Comm:
    """Returns a communicator, by default that of all processes."""
    if comm is None:
        from farside.mpi import MPI

        return MPI.COMM_WORLD
    return comm

"""Communicators: teams with the collectives of MPI."""

from __future__ import annotations

import os
import pickle
import sys
from operator import index
from typing import Any, Optional

import numpy as np

from farside._core import Team, World
from farside.errors import InvalidArgument, NoSuchRank
from farside.mpi._types import InPlace, Op, Request, array_of, check_same, fill, room_of

UNDEFINED = -32766
#: The rank of no process: an operation on it does nothing.
PROC_NULL = -1
COMM_TYPE_SHARED = 1

SUM = Op("SUM", lambda a, b: a + b, "sum")


class Group:
    """The ranks of a communicator."""

    def __init__(self, members: list[int]) -> None:
        self.members = members

    def member(self, rank: int) -> int:
        """Returns the rank of the job that a rank of the group is."""
        at = index(rank)
        if not 0 <= at < len(self.members):
            raise NoSuchRank(f"rank {at} of {len(self.members)} processes")
        return self.members[at]

    def Get_size(self) -> int:
        """Returns the number of members."""
        return len(self.members)

    @classmethod
    def Translate_ranks(cls, first: Group, ranks: list[int], second: Group) -> list[int]:
        """Returns the ranks in the second group of ranks of the first."""
        places = {member: at for at, member in enumerate(second.members)}
        return [
            PROC_NULL if rank == PROC_NULL else places.get(first.member(rank), UNDEFINED)
            for rank in ranks
        ]

    def Incl(self, ranks: list[int]) -> Group:
        """Returns the group of some members."""
        members = [self.member(rank) for rank in ranks]
        if len(set(members)) < len(members):
            raise InvalidArgument(f"ranks {ranks} have one twice")
        return Group(members)

    def Free(self) -> None:
        """Does nothing: a group has no memory of the job."""


class Comm:
    """A communicator: a team, or this rank alone."""

    def __init__(self, world: World, team: Optional[Team]) -> None:
        self._world = world
        self._team = team
        self.members = [world.rank] if team is None else team.members
        self.rank = 0 if team is None else (team.index or 0)
        self.size = len(self.members)
        self.name = "MPI_COMM_WORLD" if team is world else ""

    def Get_rank(self) -> int:
        """Returns this process's rank in the communicator."""
        return self.rank

    def Get_size(self) -> int:
        """Returns the number of processes."""
        return self.size

    def Get_name(self) -> str:
        """Returns the name."""
        return self.name

    def Set_name(self, name: str) -> None:
        """Sets the name."""
        self.name = name

    def Get_group(self) -> Group:
        """Returns the group of the communicator."""
        return Group(self.members)

    group = property(Get_group)

    def _root(self, root: int) -> int:
        """Returns the rank of a root, which is a process."""
        self.Get_group().member(root)
        return index(root)

    @property
    def team(self) -> Team:
        """The team of the communicator."""
        if self._team is None:
            raise NotImplementedError("COMM_SELF has no team: windows are for several ranks")
        return self._team

    def Split(self, color: int = 0, key: int = 0) -> Optional[Comm]:
        """Splits the communicator. A process whose colour is UNDEFINED gets None."""
        colour = None if color == UNDEFINED else color
        # Keys may be negative; teams order by keys without a sign.
        part = self.team.split(colour, key + (1 << 32))
        return None if part is None else Comm(self._world, part)

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Optional[Comm]:
        """Splits the communicator into processes that share memory."""
        if split_type not in (COMM_TYPE_SHARED, UNDEFINED):
            raise InvalidArgument(f"{split_type} is not a type of split; use COMM_TYPE_SHARED")
        colour = None if split_type == UNDEFINED else self._world.node_of(self._world.rank)
        part = self.team.split(colour, key + (1 << 32))
        return None if part is None else Comm(self._world, part)

    def Dup(self, info: Any = None) -> Comm:
        """Returns another communicator of the same processes."""
        if self._team is None:
            return Comm(self._world, None)
        part = self._team.split(0, self.rank)
        assert part is not None
        return Comm(self._world, part)

    Clone = Dup

    def Create(self, group: Group) -> Optional[Comm]:
        """Returns a communicator of a group; processes that are not in it get None."""
        world = self._world.rank
        if world not in group.members:
            self.team.split(None, 0)
            return None
        part = self.team.split(0, group.members.index(world))
        return None if part is None else Comm(self._world, part)

    def Free(self) -> None:
        """Frees the communicator."""
        if self._team is not None and self._team is not self._world:
            self._team.free()

    def Abort(self, errorcode: int = 0) -> None:
        """Ends this process without leaving the job, which ends the others."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(errorcode or 1)

    def Barrier(self) -> None:
        """Returns when all processes have called it."""
        if self._team is not None:
            self._team.sync()

    barrier = Barrier

    def Ibarrier(self) -> Request:
        """Does what Barrier does, and returns a request that is complete."""
        self.Barrier()
        return Request()

    # Collectives on objects.

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Gives all processes the root's object."""
        root = self._root(root)
        if self._team is None:
            return obj
        data = pickle.dumps(obj) if self.rank == root else None
        got = self._team.broadcast_bytes(data, root)
        return obj if self.rank == root else pickle.loads(got)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Gives all processes the objects of all, in their order."""
        if self._team is None:
            return [sendobj]
        return [pickle.loads(each) for each in self._team.all_gather_bytes(pickle.dumps(sendobj))]

    def gather(self, sendobj: Any, root: int = 0) -> Optional[list[Any]]:
        """Gives the root the objects of all, in their order."""
        root = self._root(root)
        if self._team is None:
            return [sendobj]
        data = pickle.dumps(sendobj)
        parts = [data if rank == root else b"" for rank in range(self.size)]
        got = self._team.all_to_all_bytes(parts)
        return [pickle.loads(each) for each in got] if self.rank == root else None

    def scatter(self, sendobj: Any, root: int = 0) -> Any:
        """Gives each process its element of the root's sequence."""
        root = self._root(root)
        if self._team is None:
            return sendobj[0]
        parts = [b""] * self.size
        if self.rank == root:
            if len(sendobj) != self.size:
                raise ValueError(f"{len(sendobj)} objects for {self.size} processes")
            parts = [pickle.dumps(each) for each in sendobj]
        return pickle.loads(self._team.all_to_all_bytes(parts)[root])

    def alltoall(self, sendobj: Any) -> list[Any]:
        """Gives each process its element of every process's sequence."""
        if self._team is None:
            return list(sendobj)
        got = self._team.all_to_all_bytes([pickle.dumps(each) for each in sendobj])
        return [pickle.loads(each) for each in got]

    def allreduce(self, sendobj: Any, op: Op = SUM) -> Any:
        """Folds the objects of all, in their order; all get the result."""
        return op.fold_all(self.allgather(sendobj))

    def reduce(self, sendobj: Any, op: Op = SUM, root: int = 0) -> Any:
        """Folds the objects of all, in their order, for the root."""
        all_objects = self.gather(sendobj, root)
        return None if all_objects is None else op.fold_all(all_objects)

    def scan(self, sendobj: Any, op: Op = SUM) -> Any:
        """Folds the objects of all up to and including this process."""
        return op.fold_all(self.allgather(sendobj)[: self.rank + 1])

    def exscan(self, sendobj: Any, op: Op = SUM) -> Any:
        """Folds the objects of all before this process."""
        before = self.allgather(sendobj)[: self.rank]
        return op.fold_all(before) if before else None

    # Collectives on arrays.

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Gives all processes the root's array."""
        root = self._root(root)
        if self._team is not None:
            array = array_of(buf) if self.rank == root else room_of(buf)
            self._team.broadcast(array, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Folds the arrays of all, element by element; all get the result."""
        into, mine = _both(sendbuf, recvbuf)
        if op.fold is None:
            fill(into, op.fold_all(list(self._all(mine))))
        elif self._team is None:
            fill(into, mine)
        else:
            fill(into, self._team.all_reduce(mine, op.fold))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Folds the arrays of all, element by element, for the root."""
        root = self._root(root)
        mine = array_of(recvbuf if isinstance(sendbuf, InPlace) else sendbuf)
        into = recvbuf if self.rank == root else np.empty(mine.shape, mine.dtype)
        self.Allreduce(mine, into, op)

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Folds the arrays of all up to and including this process."""
        into, mine = _both(sendbuf, recvbuf)
        fill(into, op.fold_all(list(self._all(mine)[: self.rank + 1])))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gives all processes the arrays of all, one after the other."""
        into = room_of(recvbuf)
        if isinstance(sendbuf, InPlace):
            mine = into.reshape(self.size, -1)[self.rank]
        else:
            mine = array_of(sendbuf)
        _check_fit(mine, into, self.size)
        fill(into, self._all(mine))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Gives the root the arrays of all, one after the other."""
        root, mine = self._root(root), array_of(sendbuf)
        into = room_of(recvbuf) if self.rank == root else None
        if into is not None:
            _check_fit(mine, into, self.size)
        all_arrays = self._all(mine)
        if into is not None:
            fill(into, all_arrays)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Gives each process its part of the root's array."""
        root, into = self._root(root), room_of(recvbuf)
        parts: Optional[list[Any]] = None
        if self.rank == root:
            mine = array_of(sendbuf)
            _check_fit(into, mine, self.size)
            parts = list(mine.reshape(self.size, -1))
        part = self.scatter(parts, root)
        check_same(part, into)
        fill(into, part)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Gives each process its part of every process's array."""
        into, mine = room_of(recvbuf), array_of(sendbuf)
        _check_fit(mine, into, 1)
        rows = np.ascontiguousarray(mine).reshape(self.size, -1)
        fill(into, rows if self._team is None else self._team.all_to_all(rows))

    def _all(self, mine: Any) -> Any:
        """Returns the arrays of all, stacked."""
        if self._team is None:
            return np.asarray(mine)[None]
        return self._team.all_gather(mine)


def _both(sendbuf: Any, recvbuf: Any) -> tuple[Any, Any]:
    """Returns the arrays that a reduction is received into and made from, which fit."""
    into = room_of(recvbuf)
    mine = into if isinstance(sendbuf, InPlace) else array_of(sendbuf)
    _check_fit(mine, into, 1)
    return into, mine


def _check_fit(part: Any, whole: Any, parts: int) -> None:
    """Refuses arrays one of which does not have as many elements as some of the others."""
    check_same(part, whole)
    if part.size * parts != whole.size:
        raise InvalidArgument(f"{parts} times {part.size} elements do not fit {whole.size}")

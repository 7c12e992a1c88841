"""Datatypes, operations and buffers, as mpi4py writes them."""

from __future__ import annotations

import functools
from operator import index
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

from farside.errors import InvalidArgument


class Datatype:
    """A basic datatype of MPI: a dtype of numpy."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def size(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    extent = size

    def Get_size(self) -> int:
        """Returns the bytes of one element."""
        return self.size

    def Get_extent(self) -> tuple[int, int]:
        """Returns the lower bound and the extent."""
        return 0, self.size

    def Get_name(self) -> str:
        """Returns the name."""
        return self.name

    def tocode(self) -> str:
        """Returns numpy's code of the type."""
        return self.dtype.str

    def __repr__(self) -> str:
        return f"<farside.mpi.MPI.{self.name.removeprefix('MPI_')}>"


class Op:
    """An operation of reductions: on arrays by `name`, on objects by `function`."""

    def __init__(
        self, name: str, function: Callable[[Any, Any], Any], fold: Optional[str] = None
    ) -> None:
        self.name = name
        self.function = function
        self.fold = fold

    @classmethod
    def Create(cls, function: Callable[[Any, Any], Any], commute: bool = False) -> Op:
        """Makes an operation for the collectives on objects."""
        return cls("user", function)

    def Free(self) -> None:
        """Does nothing: an operation has no memory of the job."""

    def __call__(self, a: Any, b: Any) -> Any:
        return self.function(a, b)

    def fold_all(self, values: list[Any]) -> Any:
        """Folds objects in their order."""
        return functools.reduce(self.function, values)

    def __repr__(self) -> str:
        return f"<farside.mpi.MPI.{self.name}>"


class Request:
    """An operation that was complete when it was started."""

    def Wait(self, status: Any = None) -> bool:
        """Returns at once."""
        return True

    wait = Wait

    def Test(self, status: Any = None) -> bool:
        """Returns True."""
        return True

    test = Test

    @staticmethod
    def Waitall(requests: list[Request], statuses: Any = None) -> bool:
        """Returns at once."""
        return True


class InPlace:
    """Stands for the buffer that is received into."""


def array_of(buffer: Any) -> NDArray[Any]:
    """Returns the array of a buffer: itself, `[array, type]`, `[array, count, type]`, or memory.

    It is a copy if the elements of the buffer are not neighbours.
    """
    counts: list[int] = []
    datatype: Optional[Datatype] = None
    if isinstance(buffer, (list, tuple)):
        buffer, *rest = buffer or (None,)
        for each in rest:
            if isinstance(each, Datatype):
                datatype = each
            elif isinstance(each, str):
                datatype = Datatype(each, each)
            elif each is not None:
                counts += map(index, each if isinstance(each, (list, tuple)) else [each])
    array = _memory_of(buffer)
    if not array.dtype.isnative:
        raise InvalidArgument(f"a buffer of {array.dtype} has another byte order: convert it first")
    if datatype is not None and datatype.dtype != array.dtype:
        array = array.reshape(-1).view(datatype.dtype)
    if not counts:
        return array
    count, start = counts if len(counts) == 2 else (*counts, 0)
    if count < 0 or start < 0 or start + count > array.size:
        raise InvalidArgument(f"{count} elements from {start} on, of a buffer of {array.size}")
    return array.reshape(-1)[start : start + count]


def _memory_of(buffer: Any) -> NDArray[Any]:
    """Returns memory of the program as an array."""
    if isinstance(buffer, (np.ndarray, np.generic)):
        return np.asarray(buffer)
    try:
        return np.asarray(memoryview(buffer))
    except TypeError:
        if not hasattr(buffer, "__array__"):
            raise
        return np.asarray(buffer)


def room_of(buffer: Any) -> NDArray[Any]:
    """Returns the array that is received into, which must be one run of memory."""
    memory = buffer[0] if isinstance(buffer, (list, tuple)) and buffer else buffer
    array = _memory_of(memory)
    if array.flags.owndata and array is not memory:
        raise TypeError(f"a buffer to receive into is memory, which a {type(memory)} is not")
    if not array.flags.c_contiguous:
        raise InvalidArgument("a buffer to receive into is contiguous")
    if not array.flags.writeable:
        raise InvalidArgument("a buffer to receive into is not read-only")
    return array_of(buffer)


def check_same(*arrays: NDArray[Any]) -> None:
    """Refuses arrays of different types: their elements would be taken for others, or rounded."""
    first = arrays[0].dtype
    for array in arrays:
        if array.dtype != first:
            raise InvalidArgument(f"buffers of {first} and of {array.dtype} in one call")


def fill(into: NDArray[Any], result: Any) -> None:
    """Gives a buffer the elements of a result, which has as many."""
    into[...] = np.asarray(result).reshape(into.shape)

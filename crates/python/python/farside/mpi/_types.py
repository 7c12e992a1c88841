"""Datatypes, operations and buffers, as mpi4py writes them."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray


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
    """Returns the array of a buffer: itself, `[array, type]`, `[array, count, type]`, or memory."""
    count: Optional[int] = None
    start = 0
    datatype: Optional[Datatype] = None
    if isinstance(buffer, (list, tuple)):
        buffer, *rest = buffer
        for each in rest:
            if isinstance(each, Datatype):
                datatype = each
            elif isinstance(each, str):
                datatype = Datatype(each, each)
            elif isinstance(each, (list, tuple)):
                count, start = int(each[0]), int(each[1])
            elif each is not None:
                count = int(each)
    if isinstance(buffer, (np.ndarray, np.generic)):
        array: NDArray[Any] = np.asarray(buffer)
    elif isinstance(buffer, (bytes, bytearray, memoryview)) or hasattr(buffer, "__buffer__"):
        array = np.frombuffer(buffer, datatype.dtype if datatype is not None else np.uint8)
    else:
        array = np.asarray(buffer)
    if datatype is not None and datatype.dtype != array.dtype:
        array = array.reshape(-1).view(datatype.dtype)
    if count is not None:
        array = array.reshape(-1)[start : start + count]
    return array


def room_of(buffer: Any) -> NDArray[Any]:
    """Returns the array that is received into, which must be one run of memory."""
    array = array_of(buffer)
    if not array.flags.c_contiguous:
        raise ValueError("a buffer to receive into is contiguous")
    return array

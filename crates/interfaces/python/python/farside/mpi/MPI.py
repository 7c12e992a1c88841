"""What `mpi4py.MPI` has of windows and small collectives."""

from __future__ import annotations

import platform
import time
from mmap import PAGESIZE
from operator import index
from typing import Any, Callable

import numpy as np

from farside._core import __version__
from farside._job import join
from farside.errors import FarsideError as Exception
from farside.errors import InvalidArgument
from farside.mpi._comm import COMM_TYPE_SHARED, PROC_NULL, SUM, UNDEFINED, Comm, Group
from farside.mpi._types import Datatype, InPlace, Op, Request
from farside.mpi._win import (
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOSUCCEED,
    NO_OP,
    REPLACE,
    Win,
)

Intracomm = Comm

PROD = Op("PROD", lambda a, b: a * b, "prod")
MAX = Op("MAX", lambda a, b: np.maximum(a, b) if isinstance(a, np.ndarray) else max(a, b), "max")
MIN = Op("MIN", lambda a, b: np.minimum(a, b) if isinstance(a, np.ndarray) else min(a, b), "min")
BAND = Op("BAND", lambda a, b: a & b, "and")
BOR = Op("BOR", lambda a, b: a | b, "or")
BXOR = Op("BXOR", lambda a, b: a ^ b, "xor")


def _truth(
    of_objects: Callable[[bool, bool], bool], of_arrays: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Returns an operation on truth values."""

    def fold(a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray):
            return of_arrays(a, b).astype(a.dtype)
        return of_objects(bool(a), bool(b))

    return fold


def _located(is_first: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Returns an operation on pairs of a value and a place."""

    def fold(a: Any, b: Any) -> Any:
        if isinstance(a, np.ndarray):
            raise NotImplementedError("MAXLOC and MINLOC of arrays: they are for pairs of objects")
        return a if is_first(a, b) else b

    return fold


LAND = Op("LAND", _truth(lambda a, b: a and b, np.logical_and))
LOR = Op("LOR", _truth(lambda a, b: a or b, np.logical_or))
LXOR = Op("LXOR", _truth(lambda a, b: a != b, np.logical_xor))
MAXLOC = Op("MAXLOC", _located(lambda a, b: (a[0], -a[1]) >= (b[0], -b[1])))
MINLOC = Op("MINLOC", _located(lambda a, b: (a[0], a[1]) <= (b[0], b[1])))

BYTE = Datatype("MPI_BYTE", "u1")
CHAR = Datatype("MPI_CHAR", "i1")
SIGNED_CHAR = Datatype("MPI_SIGNED_CHAR", "i1")
UNSIGNED_CHAR = Datatype("MPI_UNSIGNED_CHAR", "u1")
SHORT = Datatype("MPI_SHORT", "i2")
UNSIGNED_SHORT = Datatype("MPI_UNSIGNED_SHORT", "u2")
INT = Datatype("MPI_INT", "i4")
UNSIGNED = Datatype("MPI_UNSIGNED", "u4")
LONG = Datatype("MPI_LONG", "i8")
UNSIGNED_LONG = Datatype("MPI_UNSIGNED_LONG", "u8")
LONG_LONG = Datatype("MPI_LONG_LONG", "i8")
UNSIGNED_LONG_LONG = Datatype("MPI_UNSIGNED_LONG_LONG", "u8")
FLOAT = Datatype("MPI_FLOAT", "f4")
DOUBLE = Datatype("MPI_DOUBLE", "f8")
BOOL = C_BOOL = Datatype("MPI_C_BOOL", "?")
COMPLEX = C_FLOAT_COMPLEX = Datatype("MPI_C_FLOAT_COMPLEX", "c8")
DOUBLE_COMPLEX = C_DOUBLE_COMPLEX = Datatype("MPI_C_DOUBLE_COMPLEX", "c16")
INT8_T = Datatype("MPI_INT8_T", "i1")
INT16_T = Datatype("MPI_INT16_T", "i2")
INT32_T = Datatype("MPI_INT32_T", "i4")
INT64_T = Datatype("MPI_INT64_T", "i8")
UINT8_T = Datatype("MPI_UINT8_T", "u1")
UINT16_T = Datatype("MPI_UINT16_T", "u2")
UINT32_T = Datatype("MPI_UINT32_T", "u4")
UINT64_T = Datatype("MPI_UINT64_T", "u8")
AINT = Datatype("MPI_AINT", "i8")
REAL8 = Datatype("MPI_REAL8", "f8")

IN_PLACE = InPlace()
COMM_NULL = None
INFO_NULL = None
WIN_NULL = None
REQUEST_NULL = Request()
ROOT = -3
MODE_NOCHECK = 1
MODE_NOSTORE = 2
MODE_NOPUT = 4
MODE_NOPRECEDE = 8
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)

_world = join()
COMM_WORLD = Comm(_world, _world)
COMM_SELF = Comm(_world, None)


def Wtime() -> float:
    """Returns the time in seconds since some moment."""
    return time.perf_counter()


def Wtick() -> float:
    """Returns the resolution of Wtime in seconds."""
    return time.get_clock_info("perf_counter").resolution


def Get_processor_name() -> str:
    """Returns the name of the host."""
    return platform.node()


def Get_version() -> tuple[int, int]:
    """Returns the version of MPI whose names these are."""
    return 4, 0


def Get_library_version() -> str:
    """Returns the version of the library."""
    return f"farside {__version__}"


def Init() -> None:
    """Does nothing: the import has joined the job."""


def Is_initialized() -> bool:
    """Returns True."""
    return True


def Is_finalized() -> bool:
    """Returns whether the job was left."""
    return _world.is_left


def Finalize() -> None:
    """Leaves the job."""
    _world.leave()


def Query_thread() -> int:
    """Returns that calls of several threads exclude each other."""
    return THREAD_SERIALIZED


def Alloc_mem(size: int, info: Any = None) -> memoryview:
    """Returns memory that has whole pages of its own, for Win.Create."""
    size = index(size)
    if size < 0:
        raise InvalidArgument(f"memory of {size} bytes")
    room = np.empty(-(-size // PAGESIZE) * PAGESIZE + PAGESIZE, np.uint8)
    start = -room.ctypes.data % PAGESIZE
    return room[start : start + size].data


def Free_mem(memory: memoryview) -> None:
    """Does nothing: memory goes with its last reference."""


_OTHERS = ("Any", "Callable", "InvalidArgument")
__all__ = [name for name in dir() if name[0].isupper() and name not in _OTHERS]

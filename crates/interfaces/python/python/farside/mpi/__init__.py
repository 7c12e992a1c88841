"""The names of mpi4py for programs that use windows and small collectives.

`from farside.mpi import MPI` stands in the place of `from mpi4py import MPI`. What is there does
what MPI says; point-to-point messages, files, topologies and dynamic processes are not there.
"""

from farside.mpi import MPI
from farside.mpi._comm import Comm
from farside.mpi._types import Datatype, Op
from farside.mpi._win import Win

__all__ = ["Comm", "Datatype", "MPI", "Op", "Win"]

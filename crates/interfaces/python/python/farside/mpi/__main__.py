"""`python -m farside.mpi PROGRAM` runs a program that is written for mpi4py, as it is."""

import runpy
import sys
from types import ModuleType

from farside.mpi import MPI


def main() -> None:
    """Runs the program of the command line with `mpi4py` being this package."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m farside.mpi PROGRAM [ARGUMENTS]")
    package = ModuleType("mpi4py")
    package.__path__ = []
    package.MPI = MPI  # type: ignore[attr-defined]
    sys.modules["mpi4py"] = package
    sys.modules["mpi4py.MPI"] = MPI
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


main()

"""The same hub and spokes, written for mpi4py.

mpirun -n 4 python hub_and_spoke_mpi.py
farside run -n 4 python -m farside.mpi hub_and_spoke_mpi.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

LENGTH = 20
OVER = -1.0


def cost(x: np.ndarray) -> float:
    """Returns what is minimized."""
    return float(((x - np.arange(LENGTH)) ** 2).sum() + 1.0)


class Mailbox:
    """A vector and a serial number that this rank publishes and others read."""

    def __init__(self, comm: Any) -> None:
        size = MPI.DOUBLE.size * (LENGTH + 1)
        self.window = MPI.Win.Allocate(size, MPI.DOUBLE.size, comm=comm)
        self.own = np.ndarray(
            buffer=self.window.tomemory(), dtype="d", shape=(LENGTH + 1,)
        )
        self.own[:] = 0.0
        self.rank = comm.Get_rank()
        comm.Barrier()

    def publish(self, serial: float, x: np.ndarray) -> None:
        """Writes the own part, under its lock."""
        data = np.concatenate([x, [serial]])
        self.window.Lock(self.rank)
        self.window.Put((data, LENGTH + 1, MPI.DOUBLE), self.rank)
        self.window.Unlock(self.rank)

    def read(self, rank: int) -> tuple[float, np.ndarray]:
        """Reads the part of a rank, under its lock."""
        data = np.empty(LENGTH + 1)
        self.window.Lock(rank)
        self.window.Get((data, LENGTH + 1, MPI.DOUBLE), rank)
        self.window.Unlock(rank)
        return data[-1], data[:-1]


def hub(comm: Any, box: Mailbox, rounds: int) -> float:
    """Takes steps from the best point that is known, its own or a spoke's."""
    x = np.zeros(LENGTH)
    serial, heard = 0, set()
    while serial < rounds or len(heard) < comm.size - 1:
        serial += 1
        x += 0.02 * (np.arange(LENGTH) - x)
        box.publish(serial, x)
        for rank in range(1, comm.size):
            number, theirs = box.read(rank)
            if number > 0:
                heard.add(rank)
                if cost(theirs) < cost(x):
                    x = theirs.copy()
    box.publish(OVER, x)
    return cost(x)


def spoke(comm: Any, box: Mailbox) -> float:
    """Tries points near the hub's, and publishes the best."""
    rng = np.random.default_rng(comm.rank)
    best, serial = np.inf, 0
    while True:
        number, hubs = box.read(0)
        if number == OVER:
            return float(best)
        x = hubs + rng.normal(0, 0.3, LENGTH)
        if cost(x) < best:
            best, serial = cost(x), serial + 1
            box.publish(serial, x)


def main(rounds: int = 400) -> None:
    """Runs the hub on rank 0 and spokes on the others."""
    comm = MPI.COMM_WORLD
    strata = comm.Split(key=comm.Get_rank(), color=0)
    box = Mailbox(strata)
    best = hub(strata, box, rounds) if strata.rank == 0 else spoke(strata, box)
    bounds = comm.gather(best, root=0)
    least = comm.allreduce(best, op=MPI.MIN)
    total = np.zeros(1)
    comm.Allreduce([np.array([best]), MPI.DOUBLE], [total, MPI.DOUBLE], op=MPI.SUM)
    if comm.rank == 0:
        spokes = np.round(bounds[1:], 3)
        print(f"bounds of {len(spokes)} spokes: {spokes}, hub {bounds[0]:.3f}")
        assert least >= 1.0 and bounds[0] < 1.5 and np.isclose(total[0], sum(bounds))
    comm.Barrier()
    box.window.Free()
    strata.Free()


if __name__ == "__main__":
    main()

"""Parameters on rank 0 that workers pull and push without its help, while workers are killed.

farside run -n 4 --keep-going python parameter_server.py

Rank 0 computes something else all the time. Workers fit a line to data of their own; two of them
kill themselves on the way, and the others go on.
"""

from __future__ import annotations

import os
import signal

import numpy as np

import farside

SLOPE, SHIFT = 3.0, -1.5


def main(steps: int = 300) -> None:
    """Fits the line with the ranks that are left."""
    world = farside.join()
    parameters = world.window(2, np.float64)
    # Ranks that have finished, or were lost: only rank 0 and the last one live to the end.
    finished = world.window(1, np.int64)
    survivors = world.split(0 if world.rank in (0, world.size - 1) else 1)
    assert survivors is not None
    world.barrier()
    if world.rank == 0:
        serve(world, finished)
        print(f"lost {world.lost}; slope {parameters.own[0]:.3f}, shift {parameters.own[1]:.3f}")
        assert np.allclose(parameters.own, [SLOPE, SHIFT], atol=0.05)
    else:
        work(world, parameters, steps)
        finished.add(0, 0, 1)
        world.flush(0)
    # What was lost is known and dealt with: the end of this rank is its own.
    world.go_on()
    survivors.barrier()


def serve(world: farside.World, finished: farside.Window) -> None:
    """Computes until every worker has finished or was lost; makes no call that serves others."""
    view = finished.own_view()
    numbers = np.random.default_rng(0).standard_normal((50, 50))
    while view[0] + len(world.lost) < world.size - 1:
        numbers = np.tanh(numbers @ numbers)


def work(world: farside.World, parameters: farside.Window, steps: int) -> None:
    """Pulls the parameters, computes the gradient of some data, and pushes it."""
    rng = np.random.default_rng(world.rank)
    for step in range(steps):
        if 0 < world.rank < world.size - 1 and step == 100 * world.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        a, b = parameters[0, :]
        x = rng.uniform(-1, 1, 100)
        error = a * x + b - (SLOPE * x + SHIFT + rng.normal(0, 0.1, 100))
        gradient = np.array([(error * x).mean(), error.mean()])
        parameters.accumulate(0, slice(None), gradient, scale=-0.2)
        world.flush(0)


if __name__ == "__main__":
    main()

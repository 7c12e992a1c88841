"""An asynchronous hub and its spokes, through windows that each rank publishes.

farside run -n 4 python hub_and_spoke.py

The hub minimizes a function by slow steps; spokes search for bounds of its optimum at their own
pace. Each rank publishes a vector in its own part, with a serial number, and reads the parts of
others at any time. No rank waits for another until the hub says that it is over.
"""

from __future__ import annotations

import numpy as np

import farside

LENGTH = 20
OVER = -1


def cost(x: np.ndarray) -> float:
    """Returns what is minimized."""
    return float(((x - np.arange(LENGTH)) ** 2).sum() + 1.0)


def main(rounds: int = 400) -> None:
    """Runs the hub on rank 0 and spokes on the others."""
    world = farside.join()
    # The serial number first, then the vector: what a rank publishes.
    published = world.window(LENGTH + 1, np.float64)
    lock = world.new_rw_lock(0)
    best = hub(world, published, lock, rounds) if world.rank == 0 else spoke(world, published, lock)
    bounds = world.all_gather(best)
    if world.rank == 0:
        print(f"bounds of {world.size - 1} spokes: {np.round(bounds[1:], 3)}, hub {bounds[0]:.3f}")
        assert bounds.min() >= 1.0 and bounds[0] < 1.1
    world.barrier()


def hub(
    world: farside.World, published: farside.Window, lock: farside.RwLock, rounds: int
) -> float:
    """Takes steps from the best point that is known, its own or a spoke's."""
    x = np.zeros(LENGTH)
    serial, heard = 0, set[int]()
    while serial < rounds or len(heard) < world.size - 1:
        serial += 1
        x += 0.02 * (np.arange(LENGTH) - x)
        with lock.writing():
            published[0, 1:] = x
            published[0, 0] = serial
        for rank in range(1, world.size):
            with lock.reading():
                theirs = published[rank, :]
            if theirs[0] > 0:
                heard.add(rank)
                if cost(theirs[1:]) < cost(x):
                    x = theirs[1:].copy()
    with lock.writing():
        published[0, 0] = OVER
    return cost(x)


def spoke(world: farside.World, published: farside.Window, lock: farside.RwLock) -> float:
    """Tries points near the hub's, and publishes the best."""
    rng = np.random.default_rng(world.rank)
    best, serial = np.inf, 0
    while True:
        with lock.reading():
            hubs = published[0, :]
        if hubs[0] == OVER:
            return float(best)
        x = hubs[1:] + rng.normal(0, 0.3, LENGTH)
        if cost(x) < best:
            best, serial = cost(x), serial + 1
            with lock.writing():
                published[world.rank, 1:] = x
                published[world.rank, 0] = serial


if __name__ == "__main__":
    main()

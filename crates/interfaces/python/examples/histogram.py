"""A histogram whose bins are distributed: each rank counts its own samples and accumulates.

farside run -n 4 python histogram.py
"""

from __future__ import annotations

import numpy as np

import farside


def main(bins: int = 1000, samples: int = 200_000) -> None:
    """Counts samples of a normal distribution."""
    world = farside.join()
    size = -(-bins // world.size)
    counts = world.window(size, np.int64)
    rng = np.random.default_rng(world.rank)
    values = np.clip((rng.standard_normal(samples) + 4) / 8 * bins, 0, bins - 1).astype(np.int64)
    mine = np.bincount(values, minlength=size * world.size)
    for turn in range(world.size):
        # Ranks begin at different owners.
        owner = (world.rank + turn) % world.size
        counts.accumulate(owner, slice(None), mine[owner * size : (owner + 1) * size])
    world.sync()
    total, peak = world.all_reduce(counts.own.sum()), world.all_reduce(counts.own.max(), "max")
    if world.rank == 0:
        print(f"{total} samples in {bins} bins, {peak} in the fullest")
        assert total == samples * world.size


if __name__ == "__main__":
    main()

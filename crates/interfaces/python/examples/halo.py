"""Heat in a square: each rank has a strip of rows, and puts its edges into its neighbours' halos.

farside run -n 4 python halo.py
"""

from __future__ import annotations

import numpy as np

import farside


def main(rows: int = 32, columns: int = 64, steps: int = 200) -> None:
    """Relaxes until the time is over, and compares with one process."""
    world = farside.join()
    me, last = world.rank, world.size - 1
    # Two strips, used in turn, with a row above and one below for the neighbours.
    w = world.window((2, rows + 2, columns), np.float64)
    arrived = world.window(2, np.int64)
    strip = w.own_view()
    if me == 0:
        strip[:, 0] = 1.0
    world.barrier()
    for step in range(steps):
        old, new = strip[step % 2], strip[(step + 1) % 2]
        new[1:-1, 1:-1] = (
            old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        ) / 4
        turn = (step + 1) % 2
        # The last step's signals may still be under way: these must not overtake them.
        world.fence()
        if me > 0:
            w.put_signal(me - 1, (turn, -1), new[1], arrived, 1, step + 1)
        if me < last:
            w.put_signal(me + 1, (turn, 0), new[-2], arrived, 0, step + 1)
        if me > 0:
            arrived.wait(0, ">=", step + 1)
        if me < last:
            arrived.wait(1, ">=", step + 1)
    heat = world.all_reduce(float(strip[steps % 2, 1:-1].sum()))
    if me == 0:
        expected = alone(rows * world.size, columns, steps)
        print(f"{world.size} ranks, {steps} steps: heat {heat:.6f}, alone {expected:.6f}")
        assert abs(heat - expected) < 1e-9 * expected
    del strip, old, new
    world.barrier()
    w.free()


def alone(rows: int, columns: int, steps: int) -> float:
    """Returns the heat that one process computes."""
    old = np.zeros((rows + 2, columns))
    old[0] = 1.0
    new = old.copy()
    for _ in range(steps):
        new[1:-1, 1:-1] = (
            old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        ) / 4
        old, new = new, old
    return float(old[1:-1].sum())


if __name__ == "__main__":
    main()

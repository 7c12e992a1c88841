"""Tasks of different length: the ranks draw numbers from one counter until there are none left.

farside run -n 4 python task_queue.py
"""

from __future__ import annotations

import numpy as np

import farside


def collatz(start: int) -> int:
    """Returns the steps until a number is one."""
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


def main(tasks: int = 3000, chunk: int = 50) -> None:
    """Finds the longest chain."""
    world = farside.join()
    counter = world.window(1, np.int64)
    results = world.window(tasks if world.rank == 0 else 0, np.int64)
    done = 0
    while (first := counter.fetch_add(0, 0, chunk)) < tasks:
        last = min(first + chunk, tasks)
        results[0, first:last] = [collatz(number + 1) for number in range(first, last)]
        done += last - first
    world.sync()
    shares = world.all_gather(done)
    if world.rank == 0:
        longest = int(results.own.argmax()) + 1
        print(f"tasks by rank: {shares.tolist()}; the longest chain begins at {longest}")
        assert shares.sum() == tasks and longest == 2919


if __name__ == "__main__":
    main()

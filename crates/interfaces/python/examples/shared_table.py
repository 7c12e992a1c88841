"""Words of a text, counted in a hash table that all ranks share.

farside run -n 4 python shared_table.py [FILE]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import farside


def main(file: str) -> None:
    """Counts the words of a file; each rank reads every n-th line."""
    world = farside.join()
    table = world.hash_map("S24", "i8")
    lines = Path(file).read_text().splitlines()
    for line in lines[world.rank :: world.size]:
        for word in re.findall(r"[a-z]+", line.lower()):
            table.fetch_add(word[:24].encode(), 1)
    world.barrier()
    mine = sorted(((int(n), word.decode()) for word, n in table.own_items()), reverse=True)[:5]
    best = world.all_gather_bytes(" ".join(f"{n}:{word}" for n, word in mine).encode())
    if world.rank == 0:
        pairs = [pair.split(":") for each in best for pair in each.decode().split()]
        top = sorted(((int(n), word) for n, word in pairs), reverse=True)[:5]
        print(f"{len(table)} words; most often {', '.join(f'{w} ({n})' for n, w in top)}")
    world.barrier()
    table.free()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else __file__)

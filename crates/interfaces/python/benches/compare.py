"""Measures farside beside mpi4py over Open MPI and over MPICH, in one run, and prints a table.

    python benches/compare.py [--rounds N] [--json FILE]

Each system runs the same cases with two ranks, in turns, and the least median of its turns counts:
on a machine that others use only ratios hold. `computing` has a target that computes in Python and
makes no call of its library. Systems that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

CASES = ["put 8", "get 8", "fetch_add", "put 1 MiB", "get 1 MiB", "stencil", "get 8 computing"]
MEBI = 1 << 20
GRID = 256


def median_ns(step: Callable[[], Any], count: int, repeats: int = 15) -> float:
    """Returns the median time of a step, from runs of `count` steps."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        for _ in range(count):
            step()
        times.append((time.perf_counter_ns() - start) / count)
    return statistics.median(times)


def relax(old: np.ndarray, new: np.ndarray) -> None:
    """Computes one step of a stencil on a strip."""
    new[1:-1, 1:-1] = (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]) / 4


def of_farside() -> dict[str, float]:
    """Measures as a rank of farside."""
    import farside

    world = farside.join()
    me, other = world.rank, 1 - world.rank
    w = world.window(MEBI // 8, "f8")
    c = world.window(8, "i8")
    data, into = np.ones(MEBI // 8), np.empty(MEBI // 8)
    results: dict[str, float] = {}
    world.barrier()
    if me == 0:

        def put_small() -> None:
            w[1, 0] = 1.5

        def put_large() -> None:
            w[1, :] = data

        results["put 8"] = median_ns(put_small, 20_000)
        results["get 8"] = median_ns(lambda: w[1, 0], 20_000)
        results["fetch_add"] = median_ns(lambda: c.fetch_add(1, 0, 1), 20_000)
        results["put 1 MiB"] = median_ns(put_large, 50)
        results["get 1 MiB"] = median_ns(lambda: w.get(1, slice(None), out=into), 50)
    world.barrier()
    strips = world.window((2, GRID + 2, GRID), "f8")
    own, flags, step = strips.own_view(), world.window(1, "i8"), 0

    def exchange() -> None:
        nonlocal step
        relax(own[step % 2], own[(step + 1) % 2])
        step += 1
        edge = own[step % 2, 1 if me else -2]
        # The last step's signal may still be under way: this one must not overtake it.
        world.fence()
        strips.put_signal(other, (step % 2, -1 if me else 0), edge, flags, 0, step)
        flags.wait(0, ">=", step)

    world.barrier()
    results["stencil"] = median_ns(exchange, 20)
    world.barrier()
    if me == 1:
        view = c.own_view()
        while view[7] == 0:
            sum(range(1000))
    else:
        results["get 8 computing"] = median_ns(lambda: w[1, 0], 200, 5)
        c.store(1, 7, 1)
    world.barrier()
    return results if me == 0 else {}


def of_mpi4py() -> dict[str, float]:
    """Measures as a rank of MPI."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    me, other = comm.rank, 1 - comm.rank
    win = MPI.Win.Allocate(MEBI, 8, comm=comm)
    count = MPI.Win.Allocate(64, 8, comm=comm)
    data, into = np.ones(MEBI // 8), np.empty(MEBI // 8)
    one, held = np.array([1.5]), np.empty(1)
    add, was = np.ones(1, "i8"), np.empty(1, "i8")
    results: dict[str, float] = {}
    win.Lock_all()
    count.Lock_all()
    comm.Barrier()
    if me == 0:

        def put(buffer: np.ndarray) -> None:
            win.Put([buffer, MPI.DOUBLE], 1)
            win.Flush(1)

        def get(buffer: np.ndarray) -> None:
            win.Get([buffer, MPI.DOUBLE], 1)
            win.Flush(1)

        def fetch_add() -> None:
            count.Fetch_and_op([add, MPI.INT64_T], [was, MPI.INT64_T], 1)
            count.Flush(1)

        results["put 8"] = median_ns(lambda: put(one), 2000)
        results["get 8"] = median_ns(lambda: get(held), 2000)
        results["fetch_add"] = median_ns(fetch_add, 2000)
        results["put 1 MiB"] = median_ns(lambda: put(data), 50)
        results["get 1 MiB"] = median_ns(lambda: get(into), 50)
    comm.Barrier()
    strips = MPI.Win.Allocate(2 * (GRID + 2) * GRID * 8, 8, comm=comm)
    own = np.ndarray((2, GRID + 2, GRID), "f8", buffer=strips.tomemory())
    own[:], step = 0, 0

    def exchange() -> None:
        nonlocal step
        relax(own[step % 2], own[(step + 1) % 2])
        step += 1
        edge = own[step % 2, 1 if me else -2]
        row = (step % 2) * (GRID + 2) + (GRID + 1 if me else 0)
        strips.Put([edge, MPI.DOUBLE], other, row * GRID)
        strips.Fence()

    strips.Fence()
    results["stencil"] = median_ns(exchange, 20)
    comm.Barrier()
    if me == 1:
        view = np.ndarray((8,), "i8", buffer=count.tomemory())
        until = time.monotonic() + 30
        while view[7] == 0 and time.monotonic() < until:
            sum(range(1000))
    else:
        results["get 8 computing"] = median_ns(lambda: get(held), 200, 5)
        count.Accumulate([np.ones(1, "i8"), MPI.INT64_T], 1, 7)
        count.Flush(1)
    comm.Barrier()
    count.Unlock_all()
    win.Unlock_all()
    for each in (strips, count, win):
        each.Free()
    return results if me == 0 else {}


def anatomy() -> dict[str, float]:
    """Measures what a small operation of farside consists of, with one rank."""
    import farside

    w = farside.join().window(8, "f8")
    c = farside.join().window(8, "i8")
    array, key = np.zeros((1, 8)), (0, 0)

    def put() -> None:
        w[0, 0] = 1.5

    def put_array() -> None:
        array[0, 0] = 1.5

    return {
        "an empty call": median_ns(lambda: None, 50_000),
        "a property of a window": median_ns(lambda: w.is_freed, 50_000),
        "w[0, 0] = 1.5": median_ns(put, 50_000),
        "w[0, 0]": median_ns(lambda: w[key], 50_000),
        "w.load(0, 0) of an int64": median_ns(lambda: c.load(0, 0), 50_000),
        "numpy: a[0, 0] = 1.5": median_ns(put_array, 50_000),
        "numpy: a[0, 0]": median_ns(lambda: array[key], 50_000),
    }


def systems() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Returns how each system that is there starts two ranks."""
    from farside._local import command

    found: dict[str, tuple[list[str], dict[str, str]]] = {
        "farside": ([command(), "run", "-n", "2"], {})
    }
    mpirun, hydra = shutil.which("mpirun.openmpi") or shutil.which("mpirun"), "mpiexec.hydra"
    if mpirun is not None:
        options = ["--oversubscribe", "--bind-to", "none"]
        allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        openmpi = {**allow, "MPI4PY_MPIABI": "openmpi"}
        found["openmpi"] = ([mpirun, *options, "-n", "2"], openmpi)
    if shutil.which(hydra) is not None:
        found["mpich"] = ([hydra, "-n", "2"], {"MPI4PY_MPIABI": "mpich", **mpich_library()})
    return found


def mpich_library() -> dict[str, str]:
    """Returns the variables by which mpi4py finds MPICH, whose library Debian names otherwise."""
    library = ctypes.util.find_library("mpich")
    if library is None:
        return {}
    folder = Path(tempfile.mkdtemp(prefix="farside-mpich-"))
    atexit.register(shutil.rmtree, folder)
    lines = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    path = next(line.split()[-1] for line in lines.splitlines() if line.split()[:1] == [library])
    (folder / "libmpi.so.12").symlink_to(path)
    return {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def measure(name: str, start: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Runs one system and returns its times; none if it does not run."""
    role = "farside" if name == "farside" else "mpi4py"
    line = [*start, sys.executable, str(Path(__file__).resolve()), "--role", role]
    try:
        done = subprocess.run(
            line, env={**os.environ, **environment}, capture_output=True, text=True, timeout=180
        )
        return dict(json.loads(next(x for x in done.stdout.splitlines() if x.startswith("{"))))
    except (subprocess.TimeoutExpired, StopIteration, ValueError) as error:
        print(f"{name} does not run: {error}", file=sys.stderr)
        return {}


def shown(ns: float) -> str:
    """Returns a time as a cell of the table."""
    return f"{ns:,.0f} ns" if ns < 10_000 else f"{ns / 1000:,.1f} us"


def main() -> None:
    """Runs the systems in turns and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is not None:
        results = of_farside() if options.role == "farside" else of_mpi4py()
        if results:
            print(json.dumps(results), flush=True)
        return
    best: dict[str, dict[str, float]] = {}
    present = systems()
    for _ in range(options.rounds):
        for name, (start, environment) in present.items():
            for case, ns in measure(name, start, environment).items():
                times = best.setdefault(name, {})
                times[case] = min(ns, times.get(case, ns))
    names = list(best)
    print("| case | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * len(names))
    for case in CASES:
        ours = best["farside"].get(case, float("nan"))
        cells = []
        for name in names:
            ns = best[name].get(case)
            ratio = "" if name == "farside" or ns is None else f" ({ns / ours:.1f}x)"
            cells.append("-" if ns is None else shown(ns) + ratio)
        print(f"| {case} | " + " | ".join(cells) + " |")
    print("\n| a small operation | time |\n| --- | ---: |")
    for case, ns in anatomy().items():
        print(f"| {case} | {ns:.0f} ns |")
    if options.json is not None:
        lines = [
            {"bench": "python", "case": case, "system": name, "ranks": 2, "median_ns": ns}
            for name, times in best.items()
            for case, ns in times.items()
        ]
        options.json.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()

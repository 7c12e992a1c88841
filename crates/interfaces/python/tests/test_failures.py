"""What happens when a rank raises, is killed, or is interrupted."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fabrics import every_fabric

import farside
from farside import errors
from farside._local import command


def run(folder: Path, ranks: int, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on ranks and returns what came out."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(program))
    line = [command(), "run", "-n", str(ranks), "--timeout", "60", *options]
    return subprocess.run(
        [*line, sys.executable, str(file)], capture_output=True, text=True, timeout=120
    )


def test_classes_are_those_of_the_library() -> None:
    assert len(errors.BY_NAME) == 21
    for at, kind in enumerate(errors.BY_NAME.values()):
        assert kind.code == at + 1 and issubclass(kind, errors.FarsideError)
    lost = errors.RankLost("rank 1 is lost")
    lost.rank, lost.how = 1, "was killed by signal 9 (SIGKILL)"
    copy = pickle.loads(pickle.dumps(lost))
    how = "was killed by signal 9 (SIGKILL)"
    assert (copy.rank, copy.how, str(copy)) == (1, how, "rank 1 is lost")


def test_an_exception_ends_the_job_with_a_labelled_traceback(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        3,
        """
        import farside
        world = farside.join()
        if world.rank == 1:
            raise KeyError("the cause")
        try:
            world.barrier()
        except farside.RankLost as error:
            print("told", error.rank, error.how, error)
            raise
        """,
    )
    assert done.returncode == 1
    assert "rank 1: Traceback (most recent call last):" in done.stderr
    assert "rank 1: KeyError: 'the cause'" in done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("told 1")]
    assert told, done.stdout + done.stderr
    assert "rank 0: Traceback" in done.stderr and "is lost" in done.stderr


def test_an_exception_ends_a_rank_whose_thread_waits(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        2,
        """
        import threading
        import farside
        world = farside.join()
        w = world.window(1, "i8")
        if world.rank == 1:
            mine = w.on(world.context())
            threading.Thread(target=lambda: mine.wait(0, "==", 1)).start()
            raise ValueError("the cause")
        world.barrier()
        """,
    )
    assert done.returncode == 1
    assert "rank 1: ValueError: the cause" in done.stderr
    assert "RankLost: rank 1 is lost: it exited with status 1" in done.stderr, done.stderr


def test_leaving_and_joining_again(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        2,
        """
        import farside
        world = farside.join()
        assert farside.join() is world
        w = world.window(3, "f8")
        view = w.own_view()
        world.barrier()
        world.leave()
        view[0] = 1.5  # the mapping stays for its views
        try:
            w[0, 0]
        except farside.InvalidState as error:
            print(error)
        try:
            farside.join()
        except farside.FarsideError as error:
            print(type(error).__name__)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the job was left") == 2


@every_fabric
def test_time_limits(world: farside.World, fabric: str) -> None:
    flag = world.window(1, "i4")
    with pytest.raises(farside.TimedOut):
        flag.wait(0, "==", 1, timeout=0.05)
    world.barrier()


@pytest.mark.parametrize("nodes", [None, 2])
def test_survivors_recover_a_lock(tmp_path: Path, nodes: int) -> None:
    options = ["--keep-going", *(["--nodes", str(nodes)] if nodes else [])]
    done = run(
        tmp_path,
        4,
        """
        import os, signal
        import farside
        world = farside.join()
        survivors = world.split(0 if world.rank < 3 else 1)
        lock, count = world.lock(0), world.window(1, "i8")
        world.barrier()
        if world.rank == 3:
            lock.acquire()
            count.fetch_add(0, 0, 100)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                with lock:
                    count[0, 0] = count[0, 0]
        except (farside.Poisoned, farside.RankLost) as error:
            assert error.rank == 3 and "signal 9" in error.how, error
            print("poisoned", error.rank)
        lock.recover(survivors)
        for _ in range(10):
            with lock:
                count[0, 0] = count[0, 0] + 1
        survivors.sync()
        assert world.lost == [3] and "signal 9" in world.peer_state(3)
        if world.rank == 0:
            print("count", count[0, 0])
        world.go_on()
        # The recovered lock is the survivors', who free it before their team.
        lock.free()
        survivors.free()
        print("freed")
        """,
        *options,
    )
    assert done.stdout.count("poisoned 3") == 3, done.stdout + done.stderr
    assert done.stdout.count("freed") == 3, done.stdout + done.stderr
    assert "count 130" in done.stdout or "count 30" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("nodes", [None, 2])
def test_survivors_recover_a_map(tmp_path: Path, nodes: int) -> None:
    options = ["--keep-going", *(["--nodes", str(nodes)] if nodes else [])]
    done = run(
        tmp_path,
        4,
        """
        import os, signal
        import farside
        world = farside.join()
        survivors = world.split(0 if world.rank < 3 else 1)
        votes = world.hash_map("i8", "i8", locked=True)
        for k in range(world.rank, 40, 4):
            votes[k] = k
        world.barrier()
        here = [k for k, _ in votes.own_items()]
        world.barrier()
        if world.rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            while True:
                for k in range(40):
                    votes[k] = k
        except (farside.Poisoned, farside.RankLost) as error:
            assert error.rank == 3 and "signal 9" in error.how, error
            print("poisoned", error.rank)
        votes.recover(survivors)
        # The entries of the survivors are there, and can be changed.
        for k in here:
            assert votes[k] == k, k
            votes[k] = k + 100
        survivors.sync()
        assert sorted(v for _, v in votes.own_items()) == sorted(k + 100 for k in here)
        world.go_on()
        votes.free()
        survivors.free()
        print("freed")
        """,
        *options,
    )
    assert done.stdout.count("poisoned 3") == 3, done.stdout + done.stderr
    assert done.stdout.count("freed") == 3, done.stdout + done.stderr


def test_an_interrupt_ends_every_rank(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent(
            """
            import farside, sys
            world = farside.join()
            w = world.window(1, "i8")
            world.barrier()
            print("ready", flush=True)
            if world.rank == 0:
                while True:
                    pass
            w.wait(0, "==", 1)
            """
        )
    )
    line = [command(), "run", "-n", "2", "--timeout", "60", sys.executable, str(file)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        os.kill(job.pid, signal.SIGINT)
        assert job.wait(timeout=60) != 0


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_children_that_exit_are_not_their_rank(tmp_path: Path, nodes: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent(
            """
            import farside, os, sys
            world = farside.join()
            w = world.window(1, "i8")
            for forker in range(world.size):
                if world.rank == forker:
                    child = os.fork()
                    if child == 0:
                        sys.exit()
                    assert os.waitpid(child, 0)[1] == 0
                    w.store((forker + 1) % world.size, 0, forker + 1)
                world.sync()
                if world.rank == (forker + 1) % world.size:
                    assert w.load(world.rank, 0) == forker + 1
                world.barrier()
            print("done")
            """
        )
    )
    line = [command(), "run", "-n", "2", "--nodes", nodes, "--timeout", "60"]
    ran = subprocess.run([*line, sys.executable, str(file)], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.count("done") == 2, ran


def test_local_returns_results_and_output(capsys: pytest.CaptureFixture[str]) -> None:
    scale = 3

    def square(world: farside.World, offset: int) -> Any:
        print("here is", world.rank)
        return world.rank**2 * scale + offset, np.arange(2)

    results = farside.local(3, square, 1)
    assert [value for value, _ in results] == [1, 4, 13]
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == [f"here is {r}" for r in range(3)]


def test_a_program_that_makes_a_job_of_its_own_under_a_launcher_says_so(tmp_path: Path) -> None:
    program = """
        import farside

        farside.local(1, print)
        """
    ran = run(tmp_path, 2, program)
    assert ran.returncode == 0, ran
    assert ran.stderr.count("no rank has joined the job") == 1, ran


def test_local_raises_the_cause() -> None:
    class Odd(Exception):
        pass

    def fail(world: farside.World) -> None:
        if world.rank == 1:
            raise Odd("on purpose", 7)
        world.barrier()

    with pytest.raises(Exception) as caught:
        farside.local(3, fail)
    assert type(caught.value).__name__ == "Odd" and caught.value.args == ("on purpose", 7)
    notes = getattr(caught.value, "__notes__", ["on rank 1"])
    assert "on rank 1" in notes[0]

    def die(world: farside.World) -> None:
        if world.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        world.barrier()

    with pytest.raises(farside.RankLost, match="rank 0 is lost") as lost:
        farside.local(2, die)
    assert lost.value.rank == 0 and "signal 9" in lost.value.how
    with pytest.raises(farside.LocalError, match="status"):
        farside.local(2, lambda world: os._exit(3))


def test_a_computing_target_is_served() -> None:
    def serve(world: farside.World) -> float:
        w = world.window(1000, "f8")
        stop = world.window(1, "i8")
        world.barrier()
        if world.rank == 0:
            # Computes in Python, holds the interpreter's lock, and makes no call of farside.
            view = stop.own_view()
            while view[0] == 0:
                sum(range(100))
            return 0.0
        start = time.perf_counter()
        for _ in range(100):
            w[0, 10:20] = 1.0
            world.flush(0)
            assert w[0, 10] == 1.0
        took = time.perf_counter() - start
        stop.store(0, 0, 1)
        return took

    for nodes in (None, 2):
        farside.local(2, serve, nodes=nodes, timeout=60)


def test_who_is_stuck_is_told_with_the_line_of_python(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        2,
        """
        import farside
        world = farside.join()
        flag = world.window(1, "uint64")
        if world.rank == 0:
            flag.wait(0, "!=", 0)
        world.barrier()
        """,
        "--stuck-after",
        "1",
        "--stuck-exit",
    )
    assert done.returncode == 125
    assert "program.py:6" in done.stderr and "program.py:7" in done.stderr, done.stderr


def test_different_collectives_name_the_line_of_python(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        2,
        """
        import farside
        world = farside.join()
        if world.rank == 0:
            world.barrier()
        else:
            world.all_reduce(1)
        """,
    )
    assert done.returncode == 1
    assert "Disagreement" in done.stderr and ".rs:" not in done.stderr, done.stderr
    assert "program.py:5)" in done.stderr or "program.py:7)" in done.stderr, done.stderr


def test_a_race_that_is_not_looked_for_is_not_denied(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        2,
        """
        import farside
        world = farside.join()
        w = world.window(1, "int64")
        w[(world.rank + 1) % 2, 0] = 1
        print(w.own[0])
        world.barrier()
        """,
        "--races",
    )
    assert done.returncode == 67, done.stderr
    said = "races: nothing was checked: accesses of Python programs cannot be seen"
    assert said in done.stderr and "no race" not in done.stderr, done.stderr


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_forked_child_is_not_the_rank(tmp_path: Path, nodes: int) -> None:
    done = run(
        tmp_path,
        2,
        """
        import os
        import sys
        import farside
        world = farside.join()
        w = world.window(1, "int64")
        for forker in range(2):
            if world.rank == forker:
                for status in (0, 3):
                    child = os.fork()
                    if child == 0:
                        sys.exit(status)
                    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == status
                w[1 - forker, 0] = 1 + forker
            world.sync()
            if world.rank != forker:
                assert w.own[0] == 1 + forker
        world.sync()
        print("right")
        """,
        *(["--nodes", "2"] if nodes == 2 else []),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right") == 2, done.stdout + done.stderr

"""Windows: selections, dtypes, atomics, signals, scopes, threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fabrics import LONG, every_fabric

import farside

DTYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16",
    ">f8", ">i4", "S7", "U5", "V3", "M8[ns]", "m8[s]",
    [("id", "i4"), ("name", "S6"), ("at", "f8", (3,))],
    np.dtype([("a", "u1"), ("b", "f8")], align=True),
]  # fmt: skip


def sample(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Returns an array of some bytes that are valid for a dtype."""
    count = int(np.prod(shape))
    if dtype.kind in "biufcmM":
        return (np.arange(count) % 2 + np.arange(count) // 2).astype(dtype).reshape(shape)
    if dtype.kind in "SU":
        return np.array([str(each) for each in range(count)], dtype).reshape(shape)
    if dtype.names is not None:
        array = np.zeros(shape, dtype)
        for name in dtype.names:
            part = array[name]
            part[...] = sample(part.dtype, part.shape)
        return array
    return np.frombuffer(
        np.arange(count * dtype.itemsize, dtype=np.uint8).tobytes(), dtype
    ).reshape(shape)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether two arrays have the same elements; padding may differ."""
    return a.tobytes() == b.tobytes() or np.array_equal(a, b)


@every_fabric
def test_every_dtype(world: farside.World, fabric: str) -> None:
    there = (world.rank + 1) % world.size
    for name in DTYPES:
        dtype = np.dtype(name)
        with world.window((4, 5), dtype) as w:
            assert w.dtype == dtype and w.shape == (4, 5)
            data = sample(dtype, (4, 5))
            w[there] = data
            world.sync()
            assert same(w.own, data), name
            assert same(w[there, 1:, ::2], data[1:, ::2]), name
            assert same(w[there, 2, 3], data[2, 3]), name
            assert w[there, 2, 3].dtype == data[2, 3].dtype
            world.barrier()
            w[there, ::-1, 1] = data[:, 1]
            w[there, 0, 0] = data[3, 4]
            world.sync()
            expected = data.copy()
            expected[::-1, 1] = data[:, 1]
            expected[0, 0] = data[3, 4]
            assert same(w.own, expected), name
            world.barrier()


@every_fabric
def test_selections(world: farside.World, fabric: str) -> None:
    there = (world.rank + 1) % world.size
    rng = np.random.default_rng(7)
    for _ in range(400 if LONG else 25):
        shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
        with world.window(shape, "i4") as w:
            mirror = rng.integers(0, 1000, shape).astype("i4")
            w[there] = mirror
            world.sync()
            for _ in range(5):
                index = random_index(rng, shape)
                got = w[(there, *index)]
                assert np.array_equal(got, mirror[index]), (index, shape)
                value = rng.integers(0, 1000, np.shape(mirror[index])).astype("i4")
                w[(there, *index)] = value
                world.flush(there)
                mirror[index] = value
                out = np.full(np.shape(mirror), -1, "i4")[index]
                if isinstance(out, np.ndarray):
                    assert np.array_equal(w.get(there, index, out=out), mirror[index])
            world.sync()
            assert np.array_equal(w.own, mirror), index
            world.barrier()


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[object, ...]:
    """Returns a basic index of an array of a shape."""
    index: list[object] = []
    for count in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(0, 4)
        ends = [int(n) for n in rng.integers(-count, count, 2)]
        if kind == 0:
            index.append(ends[0])
        elif kind == 1:
            index.append(slice(None))
        else:
            index.append(slice(ends[0], ends[1], int(rng.choice([-3, -2, -1, 1, 2, 3]))))
    if rng.integers(0, 3) == 0:
        index.insert(int(rng.integers(0, len(index) + 1)), None)
    if rng.integers(0, 3) == 0:
        index.append(Ellipsis)
    return tuple(index)


@every_fabric
def test_parts_differ_and_errors_say_what(world: farside.World, fabric: str) -> None:
    w = world.window((2 + world.rank, 3), "f8")
    last = world.size - 1
    assert w.shape_of(last) == (2 + last, 3) and w.members == list(range(world.size))
    w[last, 1 + last] = world.rank
    with pytest.raises(farside.OutOfBounds, match="index 2 is out of bounds"):
        w[0, 2, 0]
    with pytest.raises(IndexError, match="too many indices"):
        w[0, 1, 1, 1]
    with pytest.raises(farside.NoSuchRank, match="does not exist"):
        w[world.size]
    with pytest.raises(farside.InvalidArgument, match="rank -1"):
        w[-1]
    with pytest.raises(farside.InvalidArgument, match=r"\[4\] does not fit into .* \[3\]"):
        w[0, 0] = np.zeros(4)
    with pytest.raises(TypeError, match="integers, slices"):
        w[0, [0, 1]]
    with pytest.raises(TypeError, match="integers, slices"):
        w[0, True]
    with pytest.raises(farside.InvalidArgument, match="`out` has dtype"):
        w.get(0, 0, out=np.zeros(3, "f4"))
    with pytest.raises(farside.Unsupported, match="atomics on float64"):
        w.fetch_add(0, (0, 0), 1)
    with pytest.raises(farside.Unsupported, match="Python objects"):
        world.window(3, object)
    with pytest.raises(ValueError, match="could not convert"):
        w[0, 0, 0] = "text"
    world.sync()
    view = w.own_view()
    if world.rank == last:
        assert view[1 + last].tolist() == [view[1 + last, 0]] * 3
    view[0] = 7
    assert w[world.rank, 0, 2] == 7 and np.shares_memory(view, w.own_view())
    assert np.from_dlpack(w)[0, 1] == 7 and memoryview(view).format == "d"
    assert np.asarray(w)[0, 0] == 7 and not np.shares_memory(w.own, view)
    w.own = np.ones(3)
    assert view.tolist() == [[1.0] * 3] * (2 + world.rank)
    # A window is not freed under a view, and all ranks hear which rank has one.
    keep = view if world.rank == 1 else None
    del view
    with pytest.raises(farside.InvalidState, match="rank 1 still has 1 view of"):
        w.free()
    del keep
    w.free()
    assert w.is_freed
    with pytest.raises(farside.InvalidState, match="freed"):
        w[0]


@every_fabric
def test_disagreement_is_told(world: farside.World, fabric: str) -> None:
    with pytest.raises(farside.Disagreement, match="itemsize of a window"):
        world.window(4, "f4" if world.rank == 1 else "f8")
    with pytest.raises(farside.Disagreement, match="dimensions of a window"):
        world.window((2, 2) if world.rank == 1 else 4, "f8")
    # Bytes without a meaning agree with all dtypes; that the others differ is told to all.
    if world.size > 2:
        with pytest.raises(farside.Disagreement, match="dtype of a window"):
            world.window(4, ["V8", "f8", "i8"][min(world.rank, 2)])
    world.barrier()


@every_fabric
def test_accumulate(world: farside.World, fabric: str) -> None:
    for name in ["i4", "i8", "u4", "u8", "f4", "f8", "c8", "c16"]:
        w = world.window((4, 6), name)
        data = np.arange(12).reshape(2, 6).astype(name)
        w.accumulate(0, slice(1, 3), data)
        w.accumulate(0, (slice(None, None, 2), slice(1, 4)), 1, scale=2)
        w.accumulate(0, (slice(None), 0), np.arange(4)[::-1])
        world.sync()
        expected = np.zeros((4, 6), name)
        expected[1:3] += data
        expected[::2, 1:4] += 2
        expected[:, 0] += np.arange(4)[::-1].astype(name)
        assert np.array_equal(w[0], expected * world.size), name
        world.barrier()
        w.free()
    w = world.window(2, "i4")
    for scale in (np.arange(4)[4:], np.arange(2), []):
        with pytest.raises(ValueError, match="one number"):
            w.accumulate(0, 0, 1, scale=scale)
    w.free()
    w = world.window(2, "i2")
    with pytest.raises(farside.Unsupported, match="accumulate of int16"):
        w.accumulate(0, 0, 1)
    w.free()


@every_fabric
def test_atomics_and_signals(world: farside.World, fabric: str) -> None:
    n = world.size
    for name in ["i4", "u4", "i8", "u8"]:
        w = world.window((2, 3), name)
        seen = {w.fetch_add(0, (1, 2), 1) for _ in range(10)}
        assert len(seen) == 10
        w.add(0, (0, 0), 2)
        world.sync()
        assert w.load(0, (1, 2)) == 10 * n and w[0, 0, 0] == 2 * n
        world.barrier()
        if world.rank == 0:
            assert w.swap(n - 1, (0, 1), 5) == 0
            assert w.compare_swap(n - 1, (0, 1), 4, 6) == 5
            assert w.compare_swap(n - 1, (0, 1), 5, 6) == 5
            assert w.fetch_or(n - 1, (0, 1), 9) == 6
            assert w.fetch_and(n - 1, (0, 1), 12) == 15
            assert w.fetch_xor(n - 1, (0, 1), 4) == 12
            w.store(n - 1, (0, 2), 3)
            w.signal(n - 1, (0, 0), 1)
        if world.rank == n - 1:
            w.wait((0, 0), "!=", 0)
            assert w.wait((0, 2), "==", 3, timeout=60) == 3 and w.load(n - 1, (0, 1)) == 8
        world.barrier()
        w.free()
    flags, data = world.window(n, "i8"), world.window((n, 4), "f4")
    right = (world.rank + 1) % n
    data.put_signal(right, world.rank, np.full(4, world.rank), flags, world.rank, 1)
    left = (world.rank - 1) % n
    assert flags.wait(left, ">", 0) == 1
    assert data.own[left].tolist() == [left] * 4
    world.barrier()
    data.put_signal(right, (slice(None), 1), 9, flags, world.rank, -5, add=True)
    assert flags.wait_any(list(range(n)), "<", 0) == (left, -4)
    assert data.own[:, 1].tolist() == [9] * n
    with pytest.raises(farside.TimedOut, match="timed out after 20 ms"):
        flags.wait(left, "==", 100, timeout=0.02)
    with pytest.raises(farside.InvalidArgument, match="not a comparison"):
        flags.wait(left, "=", 100)
    with pytest.raises(OverflowError):
        flags.fetch_add(0, 0, 1 << 70)
    world.sync()


@every_fabric
def test_scopes_and_counters(world: farside.World, fabric: str) -> None:
    n, there = world.size, (world.rank + 1) % world.size
    w = world.window((n, 1000), "f8")
    before = world.counters(there)
    with world.scope() as s:
        s.put(w, there, world.rank, np.arange(1000.0))
        s.put(w, there, (slice(None), 3), np.full(n, 3.0))
        first = s.get(w, there, (0, slice(0, 10)))
        assert first.shape == (10,)
    world.sync()
    left = (world.rank - 1) % n
    assert np.array_equal(w.own[left], np.arange(1000.0))
    outs = [np.empty(1000) for _ in range(300)]
    with world.scope() as s:
        for out in outs:
            s.get(w, there, world.rank, out=out)
        s.wait()
        assert all(np.array_equal(out, np.arange(1000.0)) for out in outs)
    after = world.counters(there)
    # Between nodes collectives put, too.
    assert after["puts"] >= before["puts"] + 2 and after["gets"] >= before["gets"] + 301
    assert after["put_bytes"] >= before["put_bytes"] + 8 * (1000 + n)
    assert fabric != "shm" or after["gets"] == before["gets"] + 301
    with pytest.raises(farside.InvalidState, match="inside its `with` block"):
        s.get(w, there, 0)
    world.sync()
    w.free()


@every_fabric
def test_threads_have_contexts(world: farside.World, fabric: str) -> None:
    w = world.window(4, "i8")
    errors: list[BaseException] = []

    def add() -> None:
        try:
            with world_contexts.pop() as context:
                mine = w.on(context)
                for _ in range(50):
                    mine.fetch_add(0, 1, 1)
                    mine[0, 2] = 5
                context.flush()
                assert context.counters()["atomics"] == 50
        except BaseException as error:
            errors.append(error)

    world_contexts = [world.context() for _ in range(3)]
    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    world.sync()
    assert w.load(0, 1) == 150 * world.size
    world.barrier()
    # One context in two threads is refused, not mixed up: this one waits for a signal.
    other = world.context()
    waiting = threading.Thread(target=lambda: w.wait(3, "==", 1))
    waiting.start()
    text = ""
    while "another thread" not in text:
        try:
            w.load(world.rank, 0)
        except farside.InvalidState as error:
            text = str(error)
    w.on(other).signal(world.rank, 3, 1)
    waiting.join()
    other.close()
    with pytest.raises(farside.InvalidState, match="left"):
        other.flush()
    world.barrier()


@pytest.mark.farside(ranks=2)
def test_windows_come_and_go(world: farside.World) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    def cycle(count: int) -> None:
        for _ in range(count):
            with world.window((16, 16), "f8") as w:
                w[1 - world.rank, 3, 3] = 1
                w.own_view()[0] = 2

    cycle(200)
    before = resident()
    cycle(5000 if LONG else 800)
    assert resident() < before + (4 << 20), (before, resident())


@every_fabric
def test_a_scope_that_cannot_end_keeps_its_transfers(world: farside.World, fabric: str) -> None:
    w, flag = world.window(8 << 20, "u1"), world.window(1, "i8")
    w.own_view()[...] = 7
    world.sync()
    if world.rank != 0:
        flag.wait(0, "==", 1)
        world.barrier()
        world.sync()
        return

    def meet() -> None:
        while True:
            try:
                return world.barrier()
            except farside.InvalidState:
                """The first thread is in a call."""

    others = flag.on(world.context())
    scope, busy = world.scope(), threading.Thread(target=meet)
    with pytest.raises(farside.InvalidState, match="another thread"), scope:
        got = scope.get(w, world.size - 1, slice(None))
        busy.start()
        while True:
            try:
                world.fence()
            except farside.InvalidState:
                break
    for rank in range(1, world.size):
        others.store(rank, 0, 1)
    busy.join()
    scope.wait()
    assert (got == 7).all()
    world.sync()


@pytest.mark.farside(ranks=2)
def test_ranks_and_scales_are_what_they_say(world: farside.World) -> None:
    w = world.window(4, "i8")
    for rank in (True, np.True_):
        with pytest.raises(TypeError):
            w[rank]
        with pytest.raises(TypeError):
            w.put(rank, 0, 1)
    # Half of an integer is not nothing.
    with pytest.raises(ValueError, match="cannot combine"):
        w.accumulate(1, slice(None), 2, scale=0.5)
    with pytest.raises(ValueError, match="cannot combine"):
        w.accumulate(1, slice(None), [0.5] * 4)
    with pytest.raises(ValueError, match="cannot combine"):
        w.accumulate(1, slice(None), np.ones(4, "c16"))
    e = world.epoch_window(4, "i4")
    e.lock_all()
    with pytest.raises(ValueError, match="cannot combine"):
        e.accumulate(1, 0, 0.5)
    # Elements of another type would be other numbers.
    with pytest.raises(ValueError, match="dtype"):
        e.get(1, 0, out=np.zeros(2, "f4"))
    e.accumulate(1, 0, [True, False])
    e.accumulate(1, 2, np.ones(2, "u8"))
    e.unlock_all()
    world.sync()
    assert world.rank == 0 or e.own_view().tolist() == [2, 0, 2, 2]
    assert not w.own.any()
    with pytest.raises(farside.Disagreement, match="dtype of a window"):
        world.window(4, "i8" if world.rank == 0 else "f8")
    with pytest.raises(farside.Disagreement, match="dtype of a window"):
        world.window(4, "<f8" if world.rank == 0 else ">f8")
    world.window(4, "V8" if world.rank == 0 else "f8").free()
    e.free()
    w.free()
